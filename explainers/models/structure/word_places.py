"""The place of each token of a text among the embedded tokens, found by changing one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.errors import ExplainerError
from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure
from explainers.models.structure.watching import Entrance, embed

#: How many tokens of a text are changed at most.
_MOST = 16
#: How much a token must change, relative to the one that changes most, to be the one that was changed.
_OWN = 0.5
_PADDED = 2
#: The entry of ``Model.details`` with the names of the tables in which each token is looked up.
WORD_TABLES = "word_tables"


class _Lookups(TorchFunctionMode):
    """A torch function mode for one pass over several ``texts``. Its set ``tables`` collects Python's ``id`` of each embedding table from
    which the pass reads other rows for one text than for another.
    """

    def __init__(self, texts: int) -> None:
        super().__init__()
        self.texts, self.tables = texts, set[int]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (F.embedding, Tensor.__getitem__, torch.index_select, Tensor.index_select):
            tensors = [each for each in (*args, *(kwargs or {}).values()) if isinstance(each, Tensor)]
            rows = [each for each in tensors if not each.is_floating_point() and len(each) == self.texts and each.dim() > 1]
            if any(bool((each != each[:1]).any()) for each in rows):
                self.tables |= {id(each) for each in tensors if each.is_floating_point()}
        return func(*args, **(kwargs or {}))


def tables_of_words(module: nn.Module, structure: Entrance, run: Forward, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the names of the parameters of ``module`` that are its embedding tables: those in which it looks up token ids before its
    blocks (in ``structure``). Tables for positions and for types of tokens are left out, because the same rows are read for other tokens.
    ``tensors`` holds one text.
    """
    ids = tensors["input_ids"]
    texts = torch.cat([ids, ids.roll(1, -1)])
    batch = {name: each.expand(2, *each.shape[1:]) if len(each) == 1 else each for name, each in tensors.items()}
    lookups = _Lookups(len(texts))
    with lookups:
        embed(module, structure, run, {**batch, "input_ids": texts})
    return tuple(name.removesuffix(".weight") for name, parameter in module.named_parameters() if id(parameter) in lookups.tables)


def check_word_order(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> None:
    """Raise ExplainerError if token i of a text is not token i of the embedded tokens x^1, with or without padding. ``run`` returns the
    logits of ``module``, whose blocks are in ``structure``, for ``tensors``, one text.
    """
    for given, last in _texts(tensors):
        ids = given["input_ids"]
        places = sorted({round(i * (last - 1) / (_MOST - 1)) for i in range(_MOST)}) if last > _MOST else list(range(last))
        changed = ids.repeat(1 + len(places), 1)
        for row, place in enumerate(places, 1):
            others = [int(token) for token in ids[0, :last] if token != ids[0, place]]
            changed[row, place] = others[place % len(others)] if others else ids[0, place]
        batch = {name: tensor.expand(len(changed), *tensor.shape[1:]) if len(tensor) == 1 else tensor for name, tensor in given.items()}
        x = embed(module, structure, run, {**batch, "input_ids": changed})
        if len(x) != len(changed):
            return  # texts do not lie apart there: nothing is seen
        moved = (x[1:].double() - x[:1].double()).norm(dim=-1)
        for place, by in zip(places, moved, strict=True):
            token = int(by.argmax())
            change = by[place] if place < len(by) else by.new_zeros(())
            if bool(change < _OWN * by[token]):
                padded = "" if last == ids.shape[1] else " of a padded text"
                raise ExplainerError(
                    f"token {place + 1}{padded} is token {token + 1} of what the blocks of this model take, so that which word a score "
                    "belongs to is not known: have the model keep the order of its tokens, and what it adds of its own after them"
                )


def _texts(tensors: Mapping[str, Tensor]) -> Iterator[tuple[dict[str, Tensor], int]]:
    """Yield the tensors of a text unchanged and, if the model takes a mask, with its last tokens masked as padding; each with the number of
    tokens that are not masked.
    """
    length = tensors["input_ids"].shape[1]
    yield dict(tensors), length
    mask = tensors.get("attention_mask")
    if mask is not None and mask.shape == tensors["input_ids"].shape and length > _PADDED + 1:
        padded = mask.clone()
        padded[:, -_PADDED:] = 0
        yield {**tensors, "attention_mask": padded}, length - _PADDED
