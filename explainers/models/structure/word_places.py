"""The place of each token of a text among the embedded tokens, found by changing one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
_PADDED = 2
#: How much a token must change, relative to the one that changes most, to be counted among those that change.
_MOVED = 0.01
#: Less than this share of other words in a token is not seen.
_UNSEEN = 0.01
#: Why a model is refused whose blocks take another row of tokens than a text's.
_FEWER = (
    "each of the {tokens} tokens that the blocks of this model take is made of several of the {text} of the text, as after pooling or a "
    "stride, so that none of them is a word: pass blocks= (modules that take a token, (batch, tokens, width), for each one of the text)"
)
_CHANNELS_FIRST = (
    "the blocks take channels before tokens, (batch, width, tokens), so that each row of what they take is of the whole text: let them "
    "take (batch, tokens, width), as where a forward transposes before the first block and after the last one"
)
#: The functions of torch that look rows up in a table.
LOOKUPS = (F.embedding, Tensor.__getitem__, torch.index_select, Tensor.index_select)
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
        if func in LOOKUPS:
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
    """How the words of a text lie among the embedded tokens x^1 of a model.

    has_own_words  whether some token of the text changes none of them while others do, as where the model puts tokens of its own in the
                   places of words
    own_share      how much of the influence of the text's tokens on an embedded one is that of its own, a mean over them; None if all is
    """

    has_own_words: bool = False
    own_share: float | None = None


def find_word_places(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> WordPlaces:
    """Find how the words of a text lie among the embedded tokens x^1, by changing one at a time. ``run`` returns the logits of ``module``,
    whose blocks are in ``structure``, for ``tensors``, one text.

    Raises ExplainerError if token i is not token i of x^1, with or without padding.
    """
    has_own, own_share = False, None
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
            return WordPlaces(has_own)  # texts do not lie apart there: nothing is seen
        difference = x[1:].double() - x[:1].double()
        moved = difference.norm(dim=-1)
        has_own |= bool(moved.any()) and not bool(moved.any(1).all())
        for place, by in zip(places, moved, strict=True):
            token = int(by.argmax())
            change = by[place] if place < len(by) else by.new_zeros(())
            if bool(change < _OWN * by[token]):
                if difference.shape[2] == ids.shape[1] and difference.norm(dim=1).argmax(1).tolist() == places:
                    raise ExplainerError(_CHANNELS_FIRST)
                if len(by) < ids.shape[1]:
                    raise ExplainerError(_FEWER.format(tokens=len(by), text=ids.shape[1]))
                padded = "" if last == ids.shape[1] else " of a padded text"
                why = _why_elsewhere(dict(zip(places, moved, strict=True)), ids.shape[1])
                count = int((by > _MOVED * by[token]).sum())
                if not why and count > 1:
                    raise ExplainerError(
                        f"a change of token {place + 1}{padded} changes {count} of the {len(by)} tokens that the blocks of this model "
                        f"take, number {token + 1} most, so that which word a score belongs to is not known: tokens come together before "
                        "the blocks, as in a convolution, attention or queries of the model's own. Pass entry= (the module before that, "
                        "which takes the embedded words) or blocks= (modules that take a token, (batch, tokens, width), for each one of "
                        "the text)"
                    )
                raise ExplainerError(
                    f"token {place + 1}{padded} is token {token + 1} of what the blocks of this model take{why}, so that which word a "
                    "score belongs to is not known: have the model keep the order of its tokens, and what it adds of its own after them"
                )
        if own_share is None:
            own_share = _own_share(moved[:, [place for place in places if place < moved.shape[1]]].square())
    return WordPlaces(has_own, own_share)


def _own_share(influence: Tensor) -> float | None:
    """Return the mean share of the diagonal in the columns of ``influence`` (words, the embedded tokens in their places), as far as these
    are influenced at all; None if it is all but :data:`_UNSEEN`.
    """
    total = influence.sum(0)
    shares = influence[: len(total)].diagonal()[total > 0] / total[total > 0]
    share = float(shares.mean()) if len(shares) else 1.0
    return share if share < 1 - _UNSEEN else None


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
