"""The scripts that a page names before a browser has read the first."""

from __future__ import annotations

import re
from pathlib import Path

from server.pages.modules import ModuleTags, all_imports, imports_of
from tests.conftest import ROOT

STATIC = ROOT / "static"
SCRIPT = """
/** @import { Model } from "../core/types.js" */
import { el,
  byId } from "../core/dom.js";
import "./side.js";
import all from './all.js'
export * from "../maps/maps.js";
const later = () => import("./later.js");
export const place = "./no_import.js";
// import { old } from "./old.js";
"""


def test_what_a_script_imports_as_it_loads() -> None:
    assert imports_of("pages/image.js", SCRIPT) == ("core/dom.js", "pages/side.js", "pages/all.js", "maps/maps.js")


def test_circles_end_and_each_script_is_named_once() -> None:
    graph = {"a": ("b", "c"), "b": ("c", "a"), "c": ("d",), "d": ()}
    assert all_imports("a", graph.__getitem__) == ["b", "c", "d"]
    tags = ModuleTags("/static/x", graph.__getitem__)
    assert re.findall(r"/static/x/(\w)", tags("a") + tags("b")) == ["a", "b", "c", "d", "b", "a"]


def statements(script: Path) -> set[Path]:
    """What a script imports as it loads, read without comments and statement by statement."""
    text = re.sub(r"/\*.*?\*/|^\s*//[^\n]*", "", script.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"""(?:^|;|\n)\s*(?:import|export)\b([^;]*?)["'](\.[\w./-]+)["']""", text)
    return {(script.parent / name).resolve() for what, name in found if not what.strip() or what.rstrip().endswith("from")}


def test_all_imports_of_our_scripts_are_found() -> None:
    scripts = sorted(STATIC.rglob("*.js"))
    assert len(scripts) > 100
    for script in scripts:
        found = imports_of(str(script.relative_to(STATIC)), script.read_text("utf-8"))
        assert {STATIC / name for name in found} == statements(script), script.name
