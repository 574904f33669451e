"""The error for images of a size that a model cannot take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.model import Model


@contextmanager
def name_expected_size(model: Model, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Convert the failure of a pass over ``tensors`` inside this context to an ExplainerError with the size to send, if their pixels have
    another size than ``model`` declares.

    Many models take any size, so nothing is refused beforehand.
    """
    try:
        yield
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        if isinstance(error, ExplainerError) or ran_out_of_memory(error):
            raise
        pixels, known = tensors.get("pixel_values"), model.details.get("input")
        if pixels is None or known is None or pixels.shape[1:] == (model.details["channels"], *known):
            raise
        sent, wanted = ("x".join(map(str, shape)) for shape in (pixels.shape[1:], (model.details["channels"], *known)))
        raise ExplainerError(
            f"{model.name} cannot take pixel_values of {sent} (channels, height, width): send {wanted}, or an image, which is then resized."
        ) from error
