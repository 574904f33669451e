"""The recipes of CONTRIBUTING for tools, walked as they stand there: the files of a tool, and those of one that asks the model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect

from server.api import inspection as calls
from server.studies import inspection as studies
from tests.browser.conftest import Visit, visit
from tests.browser.number_format import shown
from tests.browser.tiny_models import tiny_server
from tests.conftest import ROOT
from tests.test_house import untyped

_, SECTION = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Add a tool to the pages\n")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL)
(SCRIPT, ENTRY, ASKING), (STYLE,), (STUDY, CALL) = (
    [code for kind, code in BLOCKS if kind == language] for language in ("js", "css", "python")
)
PATIENCE = 60_000.0
FIRST = "const DRAWERS = [\n"


def as_other(text: str) -> str:
    """The style sheet or the entry of the first tool, for the one that asks."""
    return text.replace("meanscore", "entropy").replace("Mean scores", "Entropy")


FILES = {
    "meanscore.js": SCRIPT,
    "meanscore.css": STYLE,
    "entropy.js": ASKING,
    "entropy.css": as_other(STYLE),
}


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has the study and the call of the recipe, which this process forgets afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        study, call = {**vars(studies)}, {**vars(calls)}
        exec(STUDY, study)
        patch.setattr(studies, "entropy", study["entropy"], raising=False)
        patch.setattr(calls.router, "routes", [*calls.router.routes])
        exec("from pydantic import Field\nfrom server.schemas.studies import Study", call)
        exec(CALL, call)
        with tiny_server(tmp_path_factory.mktemp("recipes")) as address:
            yield address


@pytest.fixture
def desk(browser: Browser, extended: str) -> Iterator[Visit]:
    """A browser that finds the files of the recipe among the scripts."""

    def drawers(route: Route) -> None:
        text = route.fetch().text()
        assert text.count(FIRST) == 1
        route.fulfill(body=text.replace(FIRST, FIRST + ENTRY + as_other(ENTRY)), content_type="text/javascript")

    def file(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        route.fulfill(body=FILES[name], content_type="text/css" if name.endswith(".css") else "text/javascript")

    for visitor in visit(browser, extended):
        visitor.page.route("**/tools/drawers.js", drawers)
        for name in FILES:
            visitor.page.route(f"**/tools/{name}", file)
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


def test_a_tool_that_asks_the_model_has_a_study_and_a_call_besides(desk: Visit) -> None:
    page = desk.open("/text?methods=random")
    tool = page.locator("#drawer-entropy")
    tool.locator("summary").click()
    shares = [answer["probability"] for answer in desk.document()["top"]]
    assert len(shares) == 3  # all that this model tells apart
    wanted = f"Entropy {shown(-sum(share * math.log(share) for share in shares))}"
    expect(tool.get_by_role("status")).to_have_text(wanted, timeout=PATIENCE)


def test_the_scripts_of_the_recipes_say_their_types() -> None:
    assert untyped("export function open(root) {\n}\n") == ["open"]
    assert not untyped(SCRIPT) + untyped(ASKING)
