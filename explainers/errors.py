"""The one exception of the engine, and what several of its messages share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explainers.failure_report import failure_report


class ExplainerError(ValueError):
    """Something asked of the engine cannot be done; the message says what was wrong and what to send instead."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.circumstances: dict[str, Any] = {}
        self.private: list[str] = []

    def report(self) -> str:
        """A text to send to somebody who can help: versions, what was asked, what was found, the error. It has no weights, no paths and
        no pictures.
        """
        return failure_report(self, self.circumstances, self.private)


@contextmanager
def circumstances(private: list[str], /, **known: Any) -> Iterator[None]:
    """What is ``known`` goes into the report of an ExplainerError that is raised inside, and ``private`` is left out of it."""
    try:
        yield
    except ExplainerError as error:
        error.circumstances = {**known, **error.circumstances}
        error.private += private
        raise


#: What the allocators of torch, C++ and CUDA say, in small letters, where there is no memory; torch has an exception for the GPU's alone.
_NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc", "status_alloc_failed")


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether ``error``, or what it was raised from, says that memory ran out, of the GPU or of the machine: a MemoryError, or the words of
    an allocator in another error.
    """
    import torch  # as late as it is needed: what has failed has it

    while error is not None:
        message = str(error).lower() if isinstance(error, RuntimeError | OSError) else ""
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in message for words in _NO_MEMORY):
            return True
        error = error.__cause__
    return False


def not_installed(what: str, extra: str) -> str:
    """The message for a package that is missing, ``what`` it is needed for first, and the ``extra`` of Vitrine that brings it."""
    return f"{what}, which is not installed. In the folder of Vitrine: pip install -e '.[{extra}]'"
