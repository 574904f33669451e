"""The tutorials run from beginning to end, say what their text says, and stand in the tree with the outputs of such a run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tools.docs_site import TUTORIALS

#: What a fresh run of each must print, for its text to be true.
SAYS = {
    "which_map": [r"fullgrad_plus:libra +\d\d\.\d ±.*\n(?:.*\n)*random ", r"random +1 ±0"],
    "fine_tuned": [
        r"(3[89]|40) of 40 held-out",
        r"of [01] of 20 pictures of camera A as they are",
        r"of (1[4-9]|20) of 20 of these with the dot",
    ],
    "reproduce_a_table": [r"libragrad-completeness", r"\\toprule"],
}


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs if output.get("name") != "stderr"
    )


def test_there_are_three() -> None:
    assert {path.stem for path in TUTORIALS} == set(SAYS)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_stands_in_the_tree_as_it_was_run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert all(re.search(said, printed(notebook)) for said in SAYS[path.stem])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder of its own, with the commands of this environment."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:  # another run of it, by another version, may have left its folder
        cell.source = cell.source.replace("/tmp/vitrine-tutorial", str(tmp_path / "tutorial"))
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for said in SAYS[path.stem]:
        assert re.search(said, printed(notebook)), said
