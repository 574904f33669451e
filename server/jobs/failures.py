"""What a person is told of an error in the work on a model: each error of the engine, or of a load, as a Problem."""

from __future__ import annotations

import logging
from pathlib import Path

from explainers.errors import ExplainerError, ran_out_of_memory
from server.http.problems import Problem, out_of_memory, unforeseen
from server.json_text import NotJsonError

log = logging.getLogger(__name__)


def problem_of(error: Exception, kind: str, refusal: str) -> Problem:
    """What to tell a person of an ``error`` of a task of this ``kind``: ``refusal`` is the slug where the engine says what is wrong.

    The words of an error that nobody foresaw go to the log alone.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, ExplainerError):
        return Problem(422, refusal, str(error))
    if isinstance(error, NotJsonError):
        log.warning("the answer of the %s cannot be sent", kind, exc_info=error)
        send = "Ask about another input or by another method; where it is so with all of them, the model's weights are not sound."
        return Problem(422, "unusable-numbers", f"The model's answer cannot be shown: {error}.", send=send)
    return unforeseen(error, f"The {kind}", f"{kind}-failed")


def load_problem(name: str, error: Exception, place: Path | None = None) -> Problem:
    """What to tell a person of an ``error`` that kept a model from being loaded; of one that somebody brought, without its ``place``."""
    send = "Choose another model, or try again."
    if isinstance(error, Problem):
        return error
    if ran_out_of_memory(error):
        return out_of_memory(f"{name} needs more memory than there is.", "Choose a smaller model, or try again later.")
    if isinstance(error, ExplainerError):
        if place is None:
            return Problem(422, "model-failed", str(error), send=send)
        problem = Problem(422, "model-failed", str(error).replace(str(place), place.name), send=send)
        problem.failure_report = error.report()
        return problem
    return unforeseen(error, f"Loading {name}", "model-failed", send=send)


def interrupted(send: str = "Ask again.") -> Problem:
    """The server stops before something is done; it is read after its return, too."""
    return Problem(503, "interrupted", "The server was stopped before this was done.", send=send)
