"""The place of each token of a text among the embedded tokens, found by changing one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
#: How much a token must change, relative to the one that changes most, to be partly made of what was changed.
_PART = 0.1
#: The share of a change below which it may be rounding.
_ROUNDING = 1e-6
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


@dataclass(frozen=True)
class WordPlaces:
    """What the embedded tokens x^1 of a text are made of.

    has_own  whether some token of the text changes none of them while others do, as where the model puts tokens of its own in the places of
             words
    mixed    the share of what a token of the text changes (its square) that lies in the embedded tokens of others, from 0 to 1; 0 where
             every token is embedded alone
    """

    has_own: bool = False
    mixed: float = 0.0


def check_word_order(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> WordPlaces:
    """Change tokens of a text and return what the embedded tokens x^1 are made of. ``run`` returns the logits of ``module``, whose blocks
    are in ``structure``, for ``tensors``, one text.

    Raises ExplainerError, with the reason, if token i is not token i of x^1, with or without padding.
    """
    has_own, shares = False, list[float]()
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
            return WordPlaces(has_own, _mean(shares))  # texts do not lie apart there: nothing is seen
        difference = x[1:].double() - x[:1].double()
        moved = difference.norm(dim=-1)
        has_own |= bool(moved.any()) and not bool(moved.any(1).all())
        for place, by in zip(places, moved, strict=True):
            token = int(by.argmax())
            change = by[place] if place < len(by) else by.new_zeros(())
            if bool(change < _OWN * by[token]):
                if (mixture := _why_mixed(places, difference, ids.shape[1])) is not None:
                    raise ExplainerError(mixture)
                padded = "" if last == ids.shape[1] else " of a padded text"
                why = _why_elsewhere(dict(zip(places, moved, strict=True)), ids.shape[1])
                raise ExplainerError(
                    f"token {place + 1}{padded} is token {token + 1} of what the blocks of this model take{why}, so that which word a "
                    "score belongs to is not known: have the model keep the order of its tokens, and what it adds of its own after them"
                )
            if bool(by[token] > 0):
                shares.append(float(1 - (change / by.norm()) ** 2))
    return WordPlaces(has_own, _mean(shares))


def _mean(shares: Sequence[float]) -> float:
    """Return the mean of ``shares``, 0 for none and for rounding."""
    mean = sum(shares) / len(shares) if shares else 0.0
    return mean if mean > _ROUNDING else 0.0


def _why_mixed(places: Sequence[int], difference: Tensor, length: int) -> str | None:
    """Return the reason for a refusal if what the blocks take is no row of words; None if it may be one in another order. Tokens of a text
    of this ``length`` were changed at ``places``, each of which changed what the blocks take by its row of ``difference`` (K, S, D).
    """
    by_column = difference.norm(dim=1)
    if difference.shape[2] == length and by_column.argmax(1).tolist() == list(places):
        return (
            "the blocks take channels before tokens, (batch, width, tokens), so that each row of what they take is of the whole text: let "
            "them take (batch, tokens, width), as where their forward begins and ends with a transpose of the last two axes"
        )
    by_row = difference.norm(dim=2)
    changed = (by_row > _PART * by_row.amax(1, keepdim=True)).sum(1)
    if by_row.shape[1] < length or 2 * int((changed > 1).sum()) > len(changed):
        return (
            f"each of the {by_row.shape[1]} tokens that the blocks of this model take is made of several of the {length} of the text, as "
            "after a convolution, attention or pooling before them, so that none of them is a word: pass entry= (the module before that, "
            "which takes each word's embedding), or blocks= (a list of modules that begins with it)"
        )
    return None


def _why_elsewhere(moved: Mapping[int, Tensor], length: int) -> str:
    """Return a clause that says why tokens are not in their places among the embedded ones, "" if it is not known: the model puts tokens of
    its own before them, or leaves the first out. ``moved`` says for the changed tokens of a text of this ``length``, by their places, how
    far each embedded token moved, (S,).
    """
    shifts = {int(by.argmax()) - place for place, by in moved.items() if bool(by.any())}
    if len(shifts) != 1:
        return ""
    (shift,) = shifts
    count = "a token" if abs(shift) == 1 else f"{abs(shift)} tokens"
    changed = torch.stack(list(moved.values())).any(0)
    if shift > 0 and not bool(changed[:shift].any()):
        return f", as the model puts {count} of its own before those of the text"
    if shift < 0 and all(not bool(moved[place].any()) for place in moved if place < -shift):
        return f", as the model leaves out the first {'token' if shift == -1 else count} of a text"
    return ""


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
