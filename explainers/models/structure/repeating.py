"""A check that a model gives the same answer twice: no map explains an answer that chance made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Functions that draw random numbers; those of dropout do so where they are told to train.
_DRAWING = frozenset(
    (
        *("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "normal", "normal_", "uniform_"),
        *("bernoulli", "bernoulli_", "multinomial", "poisson", "exponential_", "gumbel_softmax"),
    )
)
_DROPOUT = frozenset(["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"])


class _Draws(TorchFunctionMode):
    """A torch function mode that collects, in ``names``, the functions by which a pass draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in _DRAWING or (name in _DROPOUT and (kwargs.get("training", args[2] if len(args) > 2 else True))):
            self.names.add(name)
        return func(*args, **kwargs)


def why_not_repeatable(run: Callable[[Mapping[str, Tensor]], Tensor], tensors: Mapping[str, Tensor]) -> str | None:
    """Return a sentence if two passes of ``run`` over the same ``tensors`` give different answers, with what in the model draws random
    numbers; None if they agree. The model is to be in eval mode.
    """
    draws, states = _Draws(), _random_states()
    with torch.no_grad(), draws:
        first, second = run(tensors), run(tensors)
    if torch.equal(first, second) or (first.isnan() & second.isnan()).any():
        return None
    off = float((first - second).abs().max())
    by = f" ({', '.join(sorted(draws.names))})" if draws.names else ""
    has_drawn = bool(by) or any(not torch.equal(before, now) for before, now in zip(states, _random_states(), strict=False))
    cause = f"it draws random numbers also in eval mode{by}" if has_drawn else "it keeps something between"
    return (
        f"two passes of the model over the same input differ by {off:.2g}: {cause}, so that no answer of it can be explained; make its "
        "forward deterministic, such as F.dropout(x, p, self.training), or dropout_p=0 of attention in eval mode"
    )


def _random_states() -> list[Tensor]:
    """Return the states of torch's generators of random numbers, of the CPU and of each GPU in use; drawing changes them."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]
