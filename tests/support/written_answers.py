"""What a vision-language model writes, by the plain model: logits, terms, and input x gradient of torch alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor


def in_double(given: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that a processor gives, with numbers in double precision."""
    tensors = {name: t for name, t in given.items() if isinstance(t, Tensor) and name != "labels"}
    return {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}


def check_logits_and_terms(module: Any, result: Any, own: Mapping[str, Tensor]) -> None:
    """The explained tensors are those of the model's own processor, the answer is the one that it writes, its logits are the plain model's,
    and terms add up to them.
    """
    found, length = result.tensors, own["input_ids"].shape[1]
    for name, tensor in own.items():
        if name in found:
            assert torch.equal(found[name][:, :length] if tensor.shape == own["input_ids"].shape else found[name], tensor), name
    with torch.no_grad():
        written = module.generate(**own, max_new_tokens=4, do_sample=False)[0]
        logits = module(**found).logits[0]
    ids, (first, last) = found["input_ids"][0], result.place.tokens
    assert ids.tolist() == written[: len(ids)].tolist()
    assert result.target.logit == pytest.approx(sum(float(logits[i - 1, ids[i]]) for i in range(first, last + 1)), rel=1e-6)
    assert result.completeness("libra") < 1e-5


def input_x_gradient_of_torch(module: Any, result: Any) -> Tensor:
    """Each embedded token (S,) times its gradient of the explained logits, by torch alone."""
    embedded: list[Tensor] = []

    def take(_: Any, __: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        embedded.append(kwargs["inputs_embeds"].detach().requires_grad_())
        return (), {**kwargs, "inputs_embeds": embedded[0]}

    twin = copy.deepcopy(module)
    inner = getattr(twin.model, "language_model", None) or twin.model.text_model
    inner.register_forward_pre_hook(take, with_kwargs=True)
    logits = twin(**result.tensors).logits[0]
    ids, (first, last) = result.tensors["input_ids"][0], result.place.tokens
    (gradient,) = torch.autograd.grad(sum(logits[i - 1, ids[i]] for i in range(first, last + 1)), embedded[0])
    return (embedded[0] * gradient).sum(-1)[0].detach()
