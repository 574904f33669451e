"""Errors of the engine, of loading and of a stopping server as Problems, which a visitor reads."""

from __future__ import annotations

import logging
from pathlib import Path

from explainers.errors import ExplainerError, ran_out_of_memory
from server.http.problems import Problem, out_of_memory, unforeseen
from server.json_text import NotJsonError

log = logging.getLogger(__name__)


def problem_of(error: Exception, kind: str, refusal: str) -> Problem:
    """The Problem for an ``error`` in an explanation or a study (``kind``); ``refusal`` is the slug for errors that the engine explains.

    The words of an unexpected error go to the log alone.
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
    """The Problem for an ``error`` while a model was loaded; ``place`` is the path of a model that a visitor brought, never shown."""
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
    """The Problem for work that the server stopped before its end; it may be read after a restart, too."""
    return Problem(503, "interrupted", "The server was stopped before this was done.", send=send)
