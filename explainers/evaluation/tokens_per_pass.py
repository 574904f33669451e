"""How many tokens of masked inputs go through one forward pass: as many as fit into the memory of the device."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from explainers.models.memory import bytes_of_pass
from explainers.models.model import Model
from explainers.models.passes import MAX_GPU_ROWS
from explainers.models.removal.token_removal import TOKENS
from explainers.models.tokens import row_length

__all__ = ["tokens_at_once"]

MEMORY_SHARE = 0.5  # share of the free memory that is used: kernels need some, too, and later inputs may be longer


def tokens_at_once(model: Model, tensors: Mapping[str, Tensor], kind: str, free: int | None) -> int:
    """Return how many tokens may go through one forward pass of ``model`` on a device of this ``kind`` with ``free`` bytes of memory (None:
    unknown).

    tensors one whole input, a batch of one

    The memory of one token is measured: that of a pass of this input, divided by its number of tokens. Shorter inputs, and several
    together, need less for each token. A pass has at most 256 inputs, and on a CPU at most 2,000 tokens, since longer passes are no faster
    there.
    """
    length = _length(model, tensors)
    most = TOKENS if kind == "cpu" else MAX_GPU_ROWS * length
    if free is None:
        return most
    return max(1, min(most, int(MEMORY_SHARE * free * length / bytes_of_pass(model, tensors))))


def _length(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Return the number of tokens that ``model`` makes of one input, ``tensors`` by name (a batch of one). For a picture it counts the
    patches and the tokens before and after them.
    """
    layout = model.layout_of(tensors)
    return row_length(tensors, layout.prefix) if layout.grid is None else layout.image_tokens
