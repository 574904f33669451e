from __future__ import annotations

import pytest
import torch

from explainers.errors import ExplainerError, MemoryShortageError, chain_of, is_memory_shortage, may_lack_memory, ran_out_of_memory
from explainers.models.removal import patches
from explainers.models.removal.token_removal import fewest_tokens


def no_memory() -> Exception:
    try:
        torch.empty(2**60)
    except RuntimeError as error:
        return error
    raise AssertionError("it has so much memory")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError(),
        no_memory(),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),  # of a handle that has no memory
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1154, please report a bug'),
    ],
)
def test_memory_that_ran_out_is_known(error: Exception) -> None:
    assert ran_out_of_memory(error)
    outer = ExplainerError("it cannot be loaded")
    outer.__cause__ = error
    assert ran_out_of_memory(outer)


@pytest.mark.parametrize(
    "words",
    [
        "Unable to find an engine to execute this computation",
        "GET was unable to find an engine to execute this computation",
        "FIND was unable to find an engine to execute this computation",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
        "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`",
    ],
)
def test_an_error_that_lack_of_memory_may_have_led_to_is_told_from_one_that_it_has(words: str) -> None:
    error = RuntimeError(words)
    outer = ExplainerError("the model cannot run")
    outer.__cause__ = error
    for each in (error, outer):
        assert (may_lack_memory(each), ran_out_of_memory(each), is_memory_shortage(each)) == (True, False, False)
    outer.__cause__ = RuntimeError("CUDA error: out of memory")
    outer.__cause__.__context__ = error
    assert (may_lack_memory(outer), ran_out_of_memory(outer)) == (False, True)
    shortage = MemoryShortageError("This needs 9 GB.")
    shortage.__cause__ = error
    assert not may_lack_memory(shortage)
    assert not may_lack_memory(ValueError(words))
    assert not may_lack_memory(RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"))
    assert not may_lack_memory(None)


@pytest.mark.skipif(not hasattr(torch, "AcceleratorError"), reason="torch has it since 2.8")
def test_memory_that_ran_out_is_known_in_the_errors_of_newer_versions_of_torch() -> None:
    assert ran_out_of_memory(torch.AcceleratorError("CUDA error: out of memory"))
    assert not ran_out_of_memory(torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))


def wrap(error: Exception, how: str) -> Exception:
    """Return an error of a model's code that handled ``error``: by "context" it names no cause, "from None" says that there is none."""
    try:
        try:
            raise error
        except Exception as problem:
            if how == "cause":
                raise ValueError("the model cannot run") from problem
            if how == "from None":
                raise ValueError("the model cannot run") from None
            raise ValueError("the model cannot run")  # noqa: B904
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(("how", "expected"), [("cause", True), ("context", True), ("from None", False)])
def test_memory_that_ran_out_is_known_by_what_led_to_an_error(how: str, expected: bool) -> None:
    error = wrap(wrap(torch.OutOfMemoryError("CUDA out of memory"), how), "context")
    assert (ran_out_of_memory(error), is_memory_shortage(error)) == (expected, expected)
    estimate = wrap(MemoryShortageError("This needs 9 GB."), how)
    assert (ran_out_of_memory(estimate), is_memory_shortage(estimate)) == (False, expected)


def test_errors_that_lead_to_each_other_are_read_once() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert list(chain_of(first)) == [first, second]
    assert not ran_out_of_memory(first)


@pytest.mark.parametrize(
    "error", [None, RuntimeError("shapes do not match"), ValueError("out of memory"), OSError("no such file"), KeyError("a")]
)
def test_other_errors_are_others(error: Exception | None) -> None:
    """A text that says so in an error of another kind is somebody's words, not an allocator's."""
    assert not ran_out_of_memory(error)


def test_no_memory_is_not_taken_for_a_model_that_needs_its_tokens() -> None:
    """Where a pass fails for want of memory, nothing is known of the model."""

    def ask(keep: torch.Tensor) -> torch.Tensor:
        raise no_memory()

    def refuses(keep: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("it needs its tokens")

    with pytest.raises(RuntimeError, match="memory"):
        fewest_tokens(ask, 3, 2)
    assert fewest_tokens(refuses, 3, 2) == 1
    whole = torch.zeros(1, 2)
    with pytest.raises(RuntimeError, match="memory"):
        patches._drops(whole, lambda: ask(whole), lambda: whole)
    assert not patches._drops(whole, lambda: refuses(whole), lambda: whole)
