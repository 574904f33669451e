"""Which part of one input goes with which part of another: the second-order interaction of the two sides of a cosine.

Moeller, Tilli, Vu and Padó, Explaining Caption-Image Interactions in CLIP Models with Second-Order Attributions (exCLIP, TMLR 2025,
arXiv 2408.14153): a similarity of embeddings f(a) . g(b) has no interactions in its gradient with respect to one side, but in that with
respect to both. With the Jacobians J_a and J_b, token i of a and token j of b interact by

    A_ij = (x_i J_a,i) . (x_j J_b,j) / (|f(a)| |g(b)|)

each product summed over the width of the token, with the tokens x as they enter the first block. Under the rule ``gradient`` with
``steps`` the Jacobians are averaged along the straight path from zero, as there; other rules put their own backward pass in the place of
the Jacobian. The norms are constants, as there. Without steps the rule ``gradient`` says little: a LayerNorm at the entry has a Jacobian
that is nearly orthogonal to its token.

J_b is needed whole: one backward pass a dimension of the embedding. J_a is only needed in the directions of the other side's words or
patches (J is linear), so that a prompt of five words costs five passes over the image.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule, gradient_rules
from explainers.errors import ExplainerError
from explainers.integration import mean_signals
from explainers.interactions.encoders import encoder
from explainers.models.base import ImageInput, Model, Prepared, TextInput
from explainers.result import input_json
from explainers.session import Check, checker, content_of, rerunner

AT_ONCE = {"image": 8, "text": 32}  # copies of an input, each of which goes back from another direction


@dataclass(frozen=True, eq=False)
class Interaction:
    """What two inputs have to do with each other. Each has units: the patches of a picture in raster order, the words of a text.

    first, second  how the model was shown them
    grids          (rows, columns) of each, None for a text
    cosine         of their embeddings
    pairs          float32 (units of first, units of second): what each pair adds to the cosine or takes from it
    maps           float32 (units,) of each: what a unit adds to the cosine with the whole of the other
    rule, steps    with which backward rule; over how many steps of the path from zero it was averaged, 0 for none
    """

    first: ImageInput | TextInput
    second: ImageInput | TextInput
    grids: tuple[tuple[int, int] | None, tuple[int, int] | None]
    cosine: float
    pairs: Tensor
    maps: tuple[Tensor, Tensor]
    rule: str
    steps: int
    seconds: float
    notes: tuple[str, ...] = ()

    def strongest(self, count: int = 10) -> list[tuple[int, int, float]]:
        """The pairs with the largest scores by magnitude: (unit of the first, unit of the second, score)."""
        order = self.pairs.abs().flatten().argsort(descending=True)[:count].tolist()
        width = self.pairs.shape[1]
        return [(place // width, place % width, float(self.pairs[place // width, place % width])) for place in order]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        sides = (("first", self.first, self.grids[0], self.maps[0]), ("second", self.second, self.grids[1], self.maps[1]))
        return {
            "cosine": self.cosine,
            "rule": self.rule,
            "steps": self.steps,
            **{
                name: {"input": input_json(record), **({} if grid is None else {"grid": list(grid)}), "scores": scores.tolist()}
                for name, record, grid, scores in sides
            },
            "pairs": self.pairs.tolist(),
            "strongest": [{"first": i, "second": j, "score": score} for i, j, score in self.strongest()],
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class Encoded:
    """One input of one encoder. ``units`` (units, S) sums tokens to units."""

    model: Model
    tensors: dict[str, Tensor]
    record: ImageInput | TextInput
    notes: tuple[str, ...]
    embedding: Tensor
    units: Tensor
    grid: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Directions:
    """Where backward passes begin: one row (D,) of an embedding for each copy of the input."""

    rows: Tensor

    def repeat(self, times: int) -> Directions:
        """The same for a batch in which each copy stands ``times`` times in a row."""
        return Directions(self.rows.repeat_interleave(times, 0))

    def seed(self, logits: Tensor, rule: Rule) -> Tensor:
        """The signal at the embedding."""
        return self.rows.to(logits)


def interaction(
    model: Model,
    image: Any,
    prompt: str,
    *,
    rule: str = "libra",
    steps: int = 0,
    cancelled: Callable[[], bool] | None = None,
) -> Interaction:
    """For each word of a prompt the patches of an image that it goes with, and the reverse; ``first`` is the prompt, ``second`` the image.

    model   one that compares images with prompts (CLIP)
    image   as :func:`explainers.explain` takes one
    rule    one of those that carry gradients; ``gradient`` with ``steps`` is exCLIP (see the module)
    steps   of the path from zero over which the way back is averaged (Gauss-Legendre); 0: at the input itself
    cancelled  asked between passes

    Raises ExplainerError for what cannot be done.
    """
    if model.kind != "clip" or model.prompt_inputs is None:
        raise ExplainerError(f"{model.name} compares no image with words: choose a CLIP model, or alike() for two inputs of one kind.")
    check = checker(cancelled)
    words, picture = encoder(model, "text"), encoder(model, "image")
    read = model.prompt_inputs([prompt])
    seen = model.seen_from("image").prepare(image)
    return _interaction(_encoded(words, read), _encoded(picture, seen), rule, steps, check)


def alike(
    model: Model,
    first: Any,
    second: Any,
    *,
    rule: str = "libra",
    steps: int = 0,
    cancelled: Callable[[], bool] | None = None,
) -> Interaction:
    """Why an encoder finds two pictures, or two texts, alike: both sides' maps of their cosine, and the pairs that make it.

    model   an image or text classifier, whose encoder is everything before its last linear layer, or a CLIP model
    first, second  two images, or two texts; of a CLIP model either
    The others are those of :func:`interaction`. Texts longer than the model are cut, with a note.
    """
    check = checker(cancelled)
    if isinstance(first, str) != isinstance(second, str):
        raise ExplainerError("A picture and a text are compared by interaction(); send two pictures or two texts.")
    sides = []
    for item in (first, second):
        if model.kind == "clip" and isinstance(item, str):
            assert model.prompt_inputs is not None
            sides.append((encoder(model, "text"), model.prompt_inputs([item])))
        else:
            prepared = model.seen_from("image").prepare(item) if model.kind == "clip" else model.prepare(item)
            sides.append((encoder(model, "image", prepared.tensors), prepared))
    a, b = (_encoded(of, prepared) for of, prepared in sides)
    return _interaction(a, b, rule, steps, check)


def _encoded(model: Model, prepared: Prepared) -> Encoded:
    """Raises ExplainerError for several inputs at once."""
    if len(prepared) != 1:
        raise ExplainerError(f"These are {len(prepared)} inputs: one is compared with one.")
    with torch.inference_mode(False), torch.enable_grad():
        recording = Recording(model, prepared.tensors)
    (record,) = prepared.inputs
    mask = recording.mask[0]
    if isinstance(record, TextInput):
        record = record.without_padding(mask.tolist())
        members = [list(word.tokens) for word in record.words]
    else:
        content = content_of(record, recording.layout, int(mask.sum()))
        members = [[i] for i in torch.nonzero(content).flatten().tolist()]
    places = torch.nonzero(mask).flatten().tolist()
    units = torch.zeros(len(members), len(mask))
    for row, tokens in zip(units, members, strict=True):
        row[[places[i] for i in tokens]] = 1
    if not members:
        raise ExplainerError("There is no word and no patch here to compare.")
    embedding = recording.logits.detach()[0].float().cpu()
    return Encoded(model, dict(prepared.tensors), record, prepared.notes[0], embedding, units, recording.layout.grid)


def _interaction(a: Encoded, b: Encoded, rule: str, steps: int, check: Check) -> Interaction:
    """The side with fewer units goes back from every dimension, the other one from those units' directions."""
    if rule not in gradient_rules():
        raise ExplainerError(f"Interactions are made with rules that carry gradients: {', '.join(gradient_rules())}; not {rule!r}.")
    if steps < 0:
        raise ExplainerError(f"steps={steps}: send a number of steps, or 0.")
    started = time.perf_counter()
    if len(b.units) < len(a.units):
        return _exchanged(_interaction(b, a, rule, steps, check))
    norms = float(a.embedding.norm() * b.embedding.norm())
    width = len(a.embedding)
    products = _products(a, torch.eye(width), RULES[rule], steps, check).T  # (units of a, D)
    if len(products) < width:
        of_second = _products(b, torch.cat([products, a.embedding[None]]), RULES[rule], steps, check)
        pairs, second = of_second[:-1], of_second[-1]
    else:
        other = _products(b, torch.eye(width), RULES[rule], steps, check).T
        pairs, second = products @ other.T, other @ a.embedding
    return Interaction(
        first=a.record,
        second=b.record,
        grids=(a.grid, b.grid),
        cosine=float(a.embedding @ b.embedding) / norms,
        pairs=pairs / norms,
        maps=(products @ b.embedding / norms, second / norms),
        rule=rule,
        steps=steps,
        seconds=time.perf_counter() - started,
        notes=tuple(dict.fromkeys([*a.notes, *b.notes])),
    )


def _exchanged(original: Interaction) -> Interaction:
    """The same with first and second exchanged."""
    return replace(
        original,
        first=original.second,
        second=original.first,
        grids=original.grids[::-1],
        pairs=original.pairs.T.contiguous(),
        maps=original.maps[::-1],
    )


def _products(encoded: Encoded, directions: Tensor, rule: Rule, steps: int, check: Check) -> Tensor:
    """For each direction (n, D) at the embedding, the units' share (n, units) of the embedding's component in it: tokens times signal."""
    copies = min(len(directions), AT_ONCE["text" if encoded.model.reads_text else "image"])
    rerun = rerunner(encoded.model, {name: tensor.expand(copies, *tensor.shape[1:]) for name, tensor in encoded.tensors.items()}, check)
    parts = []
    with torch.inference_mode(False), torch.enable_grad():
        recording = rerun()
        x = recording.block_inputs[0].detach()
        for part in directions.split(copies):
            check()
            rows = torch.cat([part, part.new_zeros(copies - len(part), part.shape[1])])
            if steps:
                signals = mean_signals(rerun, Directions(rows), rule, copies, steps)
            else:
                signals = recording.signals(rule, rows.to(recording.logits))
                recording.forget_signals()
            shares = (x * signals.block_inputs[0]).sum(-1).float().cpu()  # (copies, S)
            parts.append(shares[: len(part)] @ encoded.units.T)
    return torch.cat(parts)
