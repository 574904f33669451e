"""The exceptions of the engine, and what several of its messages share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explainers.failure_report import failure_report


class ExplainerError(ValueError):
    """A request that the engine cannot carry out; the message says what was wrong and what to send instead."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.circumstances: dict[str, Any] = {}
        self.private: list[str] = []

    def report(self) -> str:
        """Return a report of the error to send to somebody who can help: versions of the libraries, the request, the facts found out about
        the model, and the error. It holds no weights, paths or pictures.
        """
        return failure_report(self, self.circumstances, self.private)


class MemoryShortageError(ExplainerError):
    """A request needs more memory than is free; the message says how many bytes each is.

    needed  the bytes without which it is refused again; None if that is not known
    """

    def __init__(self, *args: object, needed: int | None = None) -> None:
        super().__init__(*args)
        self.needed = needed


class NotInstalledError(ExplainerError):
    """An optional package that is needed is not installed; the message says how to install it."""


@contextmanager
def circumstances(private: list[str], /, **known: Any) -> Iterator[None]:
    """Add the facts in ``known`` to the report of an ExplainerError that is raised inside, and keep the texts in ``private`` out of it."""
    try:
        yield
    except ExplainerError as error:
        error.circumstances = {**known, **error.circumstances}
        error.private += private
        raise


#: torch's message where a function has no derivative, with the name of the function.
_NO_DERIVATIVE = re.compile(r"derivative for '?(?:aten::)?(\w+)(?:: \w+)?'? is not implemented")


@contextmanager
def name_missing_derivative() -> Iterator[None]:
    """Raise an ExplainerError that names the function in place of torch's error about a function that it cannot differentiate."""
    try:
        yield
    except RuntimeError as error:  # of which NotImplementedError is one
        named_function = _NO_DERIVATIVE.search(str(error))
        if named_function is None:
            raise
        raise ExplainerError(
            f"The model uses {named_function[1]}, whose derivative torch does not have, so that nothing can be traced back through it: "
            "write it with functions that have one, or take it out of the gradient (detach). What reads no gradient runs, such as "
            "raw_attention and occlusion."
        ) from error


#: Messages, in lower case, of the allocators of torch, C++ and CUDA when memory runs out; torch has an exception only for the GPU's. cuBLAS
#: names no reason where the memory of its handle is lacking: it is not initialised. On a part of a GPU (MIG) torch's
#: allocator fails where it asks NVML for the figures of its message.
_NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "bad_alloc",
    "status_alloc_failed",
    "device_allocation_failed",
    "host_allocation_failed",
    "cufft_alloc_failed",
    "cublas_status_not_initialized",
    "nvml_success == r internal assert failed",
)
#: Those of them that say that the machine's memory ran out, not that of the GPU.
_NO_HOST_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc", "host_allocation_failed")
#: Messages, in lower case, of CUDA's libraries where a workspace or a handle finds no memory; and where they cannot do an operation at all.
_PERHAPS_NO_MEMORY = (
    "unable to find an engine",
    "cudnn_status_not_initialized",
    "cudnn_status_internal_error",
    "cusolver_status_internal_error",
)


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield ``error`` and the errors that led to it, as a traceback shows them: of each its cause, or where it names none the error during
    whose handling it was raised. Nothing for None.
    """
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ if error.__suppress_context__ or error.__cause__ is not None else error.__context__


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Return whether ``error``, or one that led to it, says that the memory of the GPU or of the machine ran out."""
    return any(_names_memory(each) for each in chain_of(error))


def is_memory_shortage(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, says that memory ran out, or that an estimate forbade to take it."""
    return any(isinstance(each, MemoryShortageError) for each in chain_of(error)) or ran_out_of_memory(error)


def ran_out_of_host_memory(error: BaseException | None) -> bool:
    """Return whether ``error``, or one that led to it, says that the memory of the machine ran out, and none that of the GPU did."""
    short = [each for each in chain_of(error) if _names_memory(each)]
    return bool(short) and all(
        isinstance(each, MemoryError) or any(words in str(each).lower() for words in _NO_HOST_MEMORY) for each in short
    )


def may_lack_memory(error: BaseException | None) -> bool:
    """Return whether ``error``, or one that led to it, is one that a library of CUDA raises where memory ran out, and also where it cannot
    do an operation at all: it is a shortage if less memory mends it. False if it surely is one.
    """
    if is_memory_shortage(error):
        return False
    return any(words in str(each).lower() for each in chain_of(error) if isinstance(each, RuntimeError) for words in _PERHAPS_NO_MEMORY)


def _names_memory(error: BaseException) -> bool:
    import torch  # as late as it is needed: what has failed has it

    message = str(error).lower() if isinstance(error, RuntimeError | OSError) else ""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in message for words in _NO_MEMORY)
