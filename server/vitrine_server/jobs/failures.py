"""Errors of the engine, of loading and of a stopping server as Problems, which a visitor reads."""

from __future__ import annotations

import logging
from pathlib import Path

from explainers.errors import ExplainerError, MemoryShortageError, NotInstalledError, chain_of, may_lack_memory, ran_out_of_memory
from vitrine_server.http.problems import Problem, out_of_memory, unforeseen
from vitrine_server.json_text import NotJsonError

log = logging.getLogger(__name__)
#: The slug of the Problem for a model that needs an optional package which is not installed.
NOT_INSTALLED = "not-installed"


def problem_of(error: Exception, kind: str, refusal: str) -> Problem:
    """Convert an ``error`` in an explanation or a study (``kind``) to a Problem; ``refusal`` is the slug for errors that the library
    explains.

    The message of an unexpected error goes to the log only.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, MemoryShortageError):
        return out_of_memory(str(error), "Ask for less, or try again later.")
    if ran_out_of_memory(error):
        return out_of_memory("The model and what it works on need more memory than is free now.", "Ask for less, or try again later.")
    if isinstance(error, ExplainerError):
        return Problem(422, refusal, str(error))
    if isinstance(error, NotJsonError):
        log.warning("the answer of the %s cannot be sent", kind, exc_info=error)
        send = "Ask about another input or by another method; where it is so with all of them, the model's weights are not sound."
        return Problem(422, "unusable-numbers", f"The model's answer cannot be shown: {error}.", send=send)
    if may_lack_memory(error):
        send = "Ask for less at once, or try again later; where it stays so, choose another model or other methods."
        return _not_done_by_gpu(error, f"The {kind}", f"{kind}-failed", send)
    return unforeseen(error, f"The {kind}", f"{kind}-failed")


def load_problem(name: str, error: Exception, place: Path | None = None) -> Problem:
    """Convert an ``error`` while the model ``name`` was loaded to a Problem; ``place`` is the path of a visitor's own model, which the
    Problem never shows.
    """
    send = "Choose another model, or try again."
    if isinstance(error, Problem):
        return error
    if isinstance(error, MemoryShortageError):
        return out_of_memory(str(error), "Choose a smaller model, or try again later.")
    if ran_out_of_memory(error):
        return out_of_memory(f"{name} needs more memory than there is.", "Choose a smaller model, or try again later.")
    if isinstance(error, ExplainerError):
        slug = "model-failed"
        if isinstance(error, NotInstalledError):
            slug, send = NOT_INSTALLED, "Choose another model, or have whoever runs the server install it and start the server again."
        if place is None:
            return Problem(422, slug, str(error), send=send)
        refusal = Problem(422, slug, str(error).replace(str(place), place.name), send=send)
        refusal.failure_report = error.report()
        return refusal
    if may_lack_memory(error):
        problem = _not_done_by_gpu(error, f"Loading {name}", "model-failed", send)
    else:
        problem = unforeseen(error, f"Loading {name}", "model-failed", send=send)
    if place is not None:  # whatever it is, it lies in the files that were brought
        problem.status = 422
    return problem


def _not_done_by_gpu(error: Exception, what: str, slug: str, send: str) -> Problem:
    """Make the Problem 500 of the type ``slug`` for an ``error`` of a library of CUDA that may be a shortage of memory or not: ``what``
    failed, in the library's own words, and what they may mean.
    """
    log.warning("%s failed for want of memory, or of an operation", what, exc_info=error)
    words = next(str(each) for each in reversed(list(chain_of(error))) if may_lack_memory(each)).partition("\n")[0].rstrip(".")
    return Problem(500, slug, f"{what} failed on the GPU ({words}): it cannot do this operation, or lacks memory for it.", send=send)


def interrupted(send: str = "Ask again.") -> Problem:
    """Make the Problem 503 for work that the server stopped before its end; it may be read after a restart, too."""
    return Problem(503, "interrupted", "The server was stopped before this was done.", send=send)
