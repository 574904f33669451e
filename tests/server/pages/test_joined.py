"""The joined script of a page does what its scripts do one by one, and node reads those of every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.node import compute
from vitrine_server.pages.joined import JoinedPage, NotJoinableError, exports_of, imports_of

STATIC = ROOT / "static"
PAGES = sorted({name for page in (ROOT / "templates").glob("*.html") for name in re.findall(r'script\("(\w+)"\)', page.read_text("utf-8"))})
SCRIPTS = {
    "pages/desk.js": """\
// The page.
import "./frame.js";
import { count as counted, tell } from "../core/state.js";
import {
  Box,
  later,
} from "../core/box.js";
import { colours, LIGHT } from "../core/colour.js";

const name = "page";
/** What it says. */
tell(`${name} ${new Box(2).doubled} ${LIGHT} ${[...colours()]}`);
const kind = "pen";
globalThis.done = (async () => {
  const { open } = await import(`../tools/${kind}.js`);
  tell(await open());
  tell((await import("../core/state.js")).count() === counted() ? "one state" : "two states");
  tell(await later());
  tell(String(counted()));
})();
""",
    "pages/frame.js": """\
import { tell } from "../core/state.js";
tell("frame " + new URL("../styles/a.css", import.meta.url).pathname.split("/").at(-1));
""",
    "core/state.js": """\
const log = (globalThis.log ??= []);
/** @type {number} */ let calls = 0;
export const tell = (text) => (calls++, log.push(text));
export function count() {
  return calls;
}
""",
    "core/box.js": """\
import { tell } from "./state.js";
const name = "box";
tell(name);
export class Box {
  constructor(size) { this.size = size; }
  get doubled() { return twice(this.size); }
}
const twice = (size) => 2 * size;
export async function later() { return (await import("../tools/pen.js")).open("again"); }
""",
    "core/colour.js": """\
export const [LIGHT, DARK] = ["light", "dark"];
export function* colours() { yield* [LIGHT, DARK]; }
""",
    "tools/pen.js": """\
import { tell } from "../core/state.js";
import { mix as blend } from "./ink.js";
import "../pages/frame.js";
tell("pen");
export const open = async (how = "first") => `${how} ${blend()} ${(await import("./nib.js")).default}`;
""",
    "tools/ink.js": 'import { DARK } from "../core/colour.js";\nexport const mix = () => `ink ${DARK}`;\n',
    "tools/nib.js": "export default 3;\n",
}


def log_of(folder: Path, address: str) -> list[str]:
    place = f"{folder.as_uri()}/{address}"
    log: list[str] = compute(f"async () => (await import({place!r}), await globalThis.done, globalThis.log)")
    return log


def write(folder: Path, scripts: dict[str, str]) -> Path:
    for name, text in scripts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def test_a_joined_page_runs_as_its_scripts_do(tmp_path: Path) -> None:
    page = JoinedPage("desk", SCRIPTS.__getitem__)
    assert page.scripts == ("core/state.js", "pages/frame.js", "core/box.js", "core/colour.js", "pages/desk.js")
    apart = log_of(write(tmp_path / "apart", SCRIPTS), "pages/desk.js")
    files = {name: page.joined if name == page.root else page.later(name) for name in SCRIPTS}
    joined = log_of(write(tmp_path / "joined", files), "pages/desk.js?page=desk")
    assert joined == apart
    assert apart == ["frame a.css", "box", "page 4 light light,dark", "pen", "first ink dark 3", "one state", "again ink dark 3", "7"]
    assert "What it says" not in page.joined
    assert imports_of("pages/desk.js", page.joined) == ()


@pytest.mark.parametrize(
    ("script", "text", "says"),
    [
        ("core/box.js", "export let open = 1;\n", "export let"),
        ("core/box.js", "export default 1;\n", "export default"),
        ("core/box.js", 'export * from "./state.js";\n', "export *"),
        ("core/box.js", 'import * as all from "./state.js";\n', "import * as all"),
        ("core/box.js", 'import { tell, shout } from "./state.js";\n', "imports shout"),
        ("core/state.js", 'import { Box } from "./box.js";\n', "by way of core/box.js"),
        ("core/box.js", 'export { tell } from "./state.js";\n', "export { tell }"),
        ("core/box.js", "const one = await 1;\n", "const one = await"),
    ],
)
def test_what_cannot_be_joined_is_refused(script: str, text: str, says: str) -> None:
    scripts = {**SCRIPTS, script: text + SCRIPTS[script]}
    with pytest.raises(NotJoinableError, match=re.escape(says)):
        _ = JoinedPage("desk", scripts.__getitem__).joined


def test_every_page_can_be_joined_and_what_it_imports_later_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node reads each; and none waits as it loads, for what is imported later waits until the joined script has run."""
    monkeypatch.setenv("NODE_OPTIONS", "--experimental-vm-modules --no-warnings")
    texts = {str(file.relative_to(STATIC)): file.read_text("utf-8") for file in STATIC.rglob("*.js")}
    sent: dict[str, str] = {}
    for name in PAGES:
        page = JoinedPage(name, texts.__getitem__)
        sent[f"{page.root} joined"] = page.joined
        assert imports_of(page.root, page.joined) == ()
        if name in ("image", "embed"):
            sent |= {f"{script} for {name}": page.later(script) for script in texts if not script.endswith("types.js")}
    assert len(PAGES) > 10
    check = """({ texts }) => {
      const { SourceTextModule } = process.getBuiltinModule("node:vm");
      const wrong = [];
      for (const [name, text] of Object.entries(texts)) {
        try {
          if (new SourceTextModule(text).hasTopLevelAwait() && name.endsWith("joined")) wrong.push(`${name} waits`);
        } catch (error) {
          wrong.push(`${name}: ${error}`);
        }
      }
      return wrong;
    }"""
    assert compute(check, {"texts": sent}) == []


def statements(script: Path) -> set[Path]:
    """What a script imports as it loads, read without comments and statement by statement."""
    text = re.sub(r"/\*.*?\*/|^\s*//[^\n]*", "", script.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"""(?:^|;|\n)\s*(?:import|export)\b([^;]*?)["'](\.[\w./-]+)["']""", text)
    return {(script.parent / name).resolve() for what, name in found if not what.strip() or what.rstrip().endswith("from")}


def test_all_imports_and_exports_of_our_scripts_are_found() -> None:
    scripts = sorted(path for path in STATIC.rglob("*.js") if path.parent.name != "vendor")  # those stay files of their own
    assert len(scripts) > 100
    for script in scripts:
        text = script.read_text("utf-8")
        found = imports_of(str(script.relative_to(STATIC)), text)
        assert {STATIC / name for name in found} == statements(script), script.name
        left = re.sub(r"^export (?:default |\{\})", "", text, flags=re.MULTILINE)
        assert len(re.findall(r"^export ", left, re.MULTILINE)) <= len(exports_of(script.name, text)), script.name
