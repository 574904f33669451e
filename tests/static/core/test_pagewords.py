"""Messages of the engine on a page: what to press and fill in, not the arguments of Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.support.node import compute, compute_all

SAY = "async (text) => (await script('core/pagewords.js')).inPageWords(text)"
OTHERWISE = "async (argument) => (await script('core/pagewords.js')).otherwise(argument)"
CONTROLS = "async () => Object.values((await script('core/pagewords.js')).CONTROLS)"

CHAT = "“with the model’s chat template around it”"
SAID = {
    "it has no chat template: leave chat= out": f"it has no chat template: untick {CHAT}",
    "Put it around the prompt with chat=True.": f"Tick {CHAT}.",
    "there is no place to choose in it: leave at= out.": "there is no place to choose in it: ask about the whole input.",
    "at='word:x' names no place": "“Place” 'word:x' names no place",
    "my-lora names no base model: pass base=, its folder": "my-lora names no base model: fill in “Base model of an adapter”, its folder",
    "the prompt has no picture: send explainers.PicturePrompt(picture, 'What is this?')": (
        "the prompt has no picture: give a picture and a question about it"
    ),
    "input_x_gradient?at=pixels goes back to pixels": "input_x_gradient?at=pixels goes back to pixels",  # a method as it is chosen
    "check blocks= and entry= of wrap().": "check blocks= and entry= of wrap().",  # no page has them
}


def test_the_arguments_of_python_become_controls() -> None:
    assert compute_all(SAY, SAID) == list(SAID.values())


def test_a_guess_names_the_field_that_overrides_it() -> None:
    assert compute_all(OTHERWISE, ["labels=", 'output="sigmoid" or output="regression"', "preprocess=", "the path of the one to open"]) == [
        "If it is wrong, fill in “Names of its classes”",
        "If it is wrong, fill in “What its numbers mean”",
        "If it is wrong, open the model in Python",
        "",
    ]


def test_the_controls_are_on_the_pages() -> None:
    """Their labels are those of the templates and scripts, but for their last signs."""
    sources = "".join(
        file.read_text("utf-8")
        for file in [*(ROOT / "templates").glob("*.html"), *(ROOT / "static").glob("*/*.js"), *(ROOT / "static").glob("*/*/*.js")]
        if file.name != "pagewords.js"
    )
    for label in compute(CONTROLS):
        assert label.strip("“”") in sources, label


def messages(file: Path) -> Iterator[str]:
    """The texts of a module that ExplainerErrors, notes and guesses are made of."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="ExplainerError" | "Guess" | "Check" | "Note")):
                yield from (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))


def test_what_a_person_is_told_to_leave_out_or_pass_on_a_page_has_a_control() -> None:
    """Arguments of an explanation, and those that Your model asks for, by any message of the engine."""
    asked = {"chat", "at", "reference", "base", "architecture", "labels", "tokenizer"}
    speaks = re.compile(rf"(?<![?&/\w])({'|'.join(asked)})=")
    spoken = [text for file in (ROOT / "explainers").rglob("*.py") for text in messages(file) if speaks.search(text)]
    assert len(spoken) > 10
    for page in compute_all(SAY, spoken):
        left = set(re.findall(r"(?<![?&/\w])([a-z_]+)=", page)) & asked
        assert not left, page
