"""Messages of the engine on the command line: flags in place of the arguments of Python."""

from __future__ import annotations

import argparse

import pytest

from explainers.errors import ExplainerError
from vitrine_server.cli import run
from vitrine_server.commands import in_flags

OPTIONS = ("chat", "at", "batch_size")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no chat template: leave chat= out", "no chat template: leave --chat out"),
        ("Put it around the prompt with chat=True.", "Put it around the prompt with --chat."),
        ("at='similar' compares with something", "--at similar compares with something"),
        ("choose batch_size=2", "choose --batch-size 2"),
        ("pass preprocess= to wrap", "pass preprocess= to wrap"),  # no option of the command
        ("input_x_gradient?at=pixels", "input_x_gradient?at=pixels"),  # a spec, as it is typed
    ],
)
def test_arguments_become_flags(message: str, said: str) -> None:
    assert in_flags(message, OPTIONS) == said


def test_a_refusal_speaks_of_the_flags_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: argparse.Namespace) -> None:
        raise ExplainerError("it has no chat template: leave chat= out")

    parser = argparse.ArgumentParser()
    parser.add_argument("--chat", action="store_true")
    parser.set_defaults(run=refuse)
    assert run(parser, ["--chat"]) == 2
    assert capsys.readouterr().err == "vitrine: it has no chat template: leave --chat out\n"
