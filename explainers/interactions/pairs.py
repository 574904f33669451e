"""Which part of one input goes with which part of another: the second-order interaction of the two sides of a cosine.

Moeller, Tilli, Vu and Padó, Explaining Caption-Image Interactions in CLIP Models with Second-Order Attributions (exCLIP, TMLR 2025,
arXiv 2408.14153): a similarity of embeddings f(a) . g(b) has no interactions in its gradient with respect to one side, but in that with
respect to both. With the Jacobians J_a and J_b, token i of a and token j of b interact by

    A_ij = (x_i J_a,i) . (x_j J_b,j) / (|f(a)| |g(b)|)

each product summed over the width of the token, with the tokens x as they enter the first block. Under the rule ``gradient`` with
``steps`` the Jacobians are averaged along the straight path from zero, as there; other rules put their own backward pass in the index of
the Jacobian. The norms are constants, as there. Without steps the rule ``gradient`` says little: a LayerNorm at the entry has a Jacobian
that is nearly orthogonal to its token.

Neither Jacobian is made whole where that can be spared. A backward pass gives one dimension of the embedding, a pass forward over the same
recording (:class:`explainers.autograd.linearised.Linearised`) all of them for one word or patch, so the side with fewer units takes
whichever are fewer. Of the other only the directions of those units are needed: a prompt of five words costs five passes over the text, and
six over the image.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.integration import quadrature
from explainers.autograd.linearised import Linearised
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule, gradient_rules
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.interactions.encoders import encoder
from explainers.models.base import ImageInput, Model, Prepared, TextInput, wrapped
from explainers.models.eval_mode import with_gradients
from explainers.models.inputs.images import is_picture_name
from explainers.models.inputs.sizes import naming_size
from explainers.result import input_json
from explainers.session import Check, checker, content_of, rerunner

SOURCE = Citation(
    authors="Moeller et al.",
    year=2025,
    title="Explaining Caption-Image Interactions in CLIP Models with Second-Order Attributions (exCLIP), TMLR 2025, arXiv 2408.14153",
)
AT_ONCE = {"image": 8, "text": 32}  # copies of an input, each of which takes another direction or another unit


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
        return [(index // width, index % width, float(self.pairs[index // width, index % width])) for index in order]

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
    """One input of one encoder. ``units`` (units, S) sums tokens to units, ``tokens`` (S, width) are x^1."""

    model: Model
    tensors: dict[str, Tensor]
    record: ImageInput | TextInput
    notes: tuple[str, ...]
    embedding: Tensor
    tokens: Tensor
    units: Tensor
    grid: tuple[int, int] | None


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
    if wrapped(model).kind != "clip" or model.prompt_inputs is None:
        raise ExplainerError(f"{model.name} compares no image with words: choose a CLIP model, or alike() for two inputs of one kind.")
    check = checker(cancelled)
    words, picture = encoder(model, "text"), encoder(model, "image")
    read = model.prompt_inputs([prompt])
    prepared = model.seen_from("image").prepare(image)
    return _interaction(_encoded(words, read), _encoded(picture, prepared), rule, steps, check)


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
    first, second  two images, or two texts; of a CLIP model either: there a str is a text, but for the path of a picture (a name that
            ends in .jpg, .png, .heic, ...)
    The others are those of :func:`interaction`. Texts longer than the model are cut, with a note.
    """
    check = checker(cancelled)
    texts = [wrapped(model).kind == "clip" and isinstance(item, str) and not is_picture_name(item) for item in (first, second)]
    if texts[0] != texts[1]:
        raise ExplainerError("A picture and a text are compared by interaction(); send two pictures or two texts.")
    sides = []
    for item, is_text in zip((first, second), texts, strict=True):
        if is_text:
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
    with with_gradients(), naming_size(model, prepared.tensors):
        recording = Recording(model, prepared.tensors)
    (record,) = prepared.inputs
    mask = recording.mask[0]
    if isinstance(record, TextInput):
        record = record.without_padding(mask.tolist())
        members = [list(word.tokens) for word in record.words]
    else:
        content = content_of(record, recording.layout, int(mask.sum()))
        members = [[i] for i in torch.nonzero(content).flatten().tolist()]
    indices = torch.nonzero(mask).flatten().tolist()
    units = torch.zeros(len(members), len(mask))
    for row, tokens in zip(units, members, strict=True):
        row[[indices[i] for i in tokens]] = 1
    if not members:
        raise ExplainerError("There is no word and no patch here to compare.")
    embedding = recording.logits.detach()[0].float().cpu()
    x = recording.block_inputs[0].detach()[0]
    return Encoded(model, dict(prepared.tensors), record, prepared.notes[0], embedding, x, units, recording.layout.grid)


def _interaction(a: Encoded, b: Encoded, rule: str, steps: int, check: Check) -> Interaction:
    """Pairs, and what goes with them."""
    if rule not in gradient_rules():
        raise ExplainerError(f"Interactions are made with rules that carry gradients: {', '.join(gradient_rules())}; not {rule!r}.")
    if not isinstance(steps, Integral) or steps < 0:
        raise ExplainerError(f"steps={steps!r}: send a whole number of steps, or 0.")
    started = time.perf_counter()
    if len(b.units) < len(a.units):
        return _exchanged(_interaction(b, a, rule, steps, check))
    norms = float(a.embedding.norm() * b.embedding.norm())
    with with_gradients():
        first, second, pairs = _compared(a, b, RULES[rule], steps, check)
    return Interaction(
        first=a.record,
        second=b.record,
        grids=(a.grid, b.grid),
        cosine=float(a.embedding @ b.embedding) / norms,
        pairs=pairs / norms,
        maps=(first / norms, second / norms),
        rule=rule,
        steps=steps,
        seconds=time.perf_counter() - started,
        notes=tuple(dict.fromkeys([*a.notes, *b.notes])),
    )


def _compared(a: Encoded, b: Encoded, rule: Rule, steps: int, check: Check) -> tuple[Tensor, Tensor, Tensor]:
    """Both maps and the pairs, but for the norms. The products of ``a``, which has fewer units, are made whole; ``b`` goes back from the
    directions of those units, where they are fewer than the dimensions.
    """
    products = _products(a, rule, steps, check)
    first = products @ b.embedding
    if len(products) < len(a.embedding):
        of_second = _along(b, torch.cat([products, a.embedding[None]]), rule, steps, check)
        return first, of_second[-1], of_second[:-1]
    other = _products(b, rule, steps, check)
    return first, other @ a.embedding, products @ other.T


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


def _products(encoded: Encoded, rule: Rule, steps: int, check: Check) -> Tensor:
    """(units, D): each unit's share of the embedding, its tokens times their Jacobian."""
    units, width = len(encoded.units), len(encoded.embedding)
    if units >= width:
        return _along(encoded, torch.eye(width), rule, steps, check).T
    products = torch.zeros(units, width)
    parts = _parts(units, encoded)
    for linear, weight in _linearised(encoded, len(parts[0]), rule, steps, check):
        for part in parts:
            check()
            rows = _filled(encoded.units[part], len(parts[0])).to(encoded.tokens)
            products[part] += weight * linear.push(rows[:, :, None] * encoded.tokens)[: len(part)].float().cpu()
    return products


def _along(encoded: Encoded, directions: Tensor, rule: Rule, steps: int, check: Check) -> Tensor:
    """For each direction (n, D) at the embedding, the units' share (n, units) of the embedding's component in it."""
    shares = torch.zeros(len(directions), len(encoded.tokens))
    parts = _parts(len(directions), encoded)
    for linear, weight in _linearised(encoded, len(parts[0]), rule, steps, check):
        for part in parts:
            check()
            signal = linear.pull(_filled(directions[part], len(parts[0])).to(encoded.tokens))[: len(part)]
            shares[part] += weight * (signal * encoded.tokens).sum(-1).float().cpu()
    return shares @ encoded.units.T


def _parts(count: int, encoded: Encoded) -> list[Tensor]:
    """What is done at once: indices 0 to ``count`` in as few parts as there must be, all but the last of one length."""
    most = AT_ONCE["text" if encoded.model.reads_text else "image"]
    return list(torch.arange(count).split(-(-count // -(-count // most))))


def _filled(rows: Tensor, count: int) -> Tensor:
    """So many rows, those beyond zero."""
    return torch.cat([rows, rows.new_zeros(count - len(rows), rows.shape[1])])


def _linearised(encoded: Encoded, copies: int, rule: Rule, steps: int, check: Check) -> Iterator[tuple[Linearised, float]]:
    """The encoder as a linear map of so many copies of its input, at each point of the path from zero, with its weight; without steps at
    the input alone.
    """
    tensors = {name: tensor.expand(copies, *tensor.shape[1:]) for name, tensor in encoded.tensors.items()}
    rerun = rerunner(encoded.model, tensors, check)
    points, weights = quadrature("gauss_legendre", steps) if steps else ([1.0], [1.0])
    for point, weight in zip(points, weights, strict=True):
        recording = rerun(entry=lambda x, point=float(point): x * point) if steps else rerun()
        yield Linearised(recording, rule), float(weight)
