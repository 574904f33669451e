"""Pairs of one input's parts with another's: the second-order interaction of the two sides of a cosine.

Moeller, Tilli, Vu and Padó, Explaining Caption-Image Interactions in CLIP Models with Second-Order Attributions (exCLIP, TMLR 2025,
arXiv 2408.14153): a similarity of embeddings f(a) . g(b) has no interactions in its gradient with respect to one side, but in that with
respect to both. With the Jacobians J_a and J_b, token i of a and token j of b interact by

    A_ij = ((x_i - r_i) J_a,i) . ((x_j - r_j) J_b,j) / (|f(a)| |g(b)|)

each product summed over the width of the token, with the tokens x as they enter the first block, after a norm that stands before the
blocks, and r the baseline, zero or the tokens of an empty input. Under the rule ``gradient`` with ``steps`` the Jacobians are averaged
along the straight path from r to x, as there; other rules put their own backward pass in the index of the Jacobian. The norms are
constants, as there. What the published code does are the options rule="gradient", steps=50, baseline="empty", block="last",
quadrature="riemann".

The pairs of all tokens add up to P_a . P_b / (|f(a)| |g(b)|), where P is the sum of a side's products: what of its embedding is brought
back to its tokens. The cosine is more: the embeddings hold what the baseline gives as well. See :attr:`Interaction.other_tokens` and
:attr:`Interaction.baseline_terms`.

Neither Jacobian is made whole where that can be spared. A backward pass gives one dimension of the embedding, a pass forward over the same
recording (:class:`explainers.autograd.linearised.Linearised`) all of them for one word or patch, so the side with fewer units takes
whichever are fewer. Of the other only the directions of those units are needed: a prompt of five words costs six passes over the text, one
of them for all tokens together, and seven over the image.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated, Any, Literal, get_args

import torch
from torch import Tensor

from explainers.analysis.interactions.inputs import Baseline, Encoded, EntryBlock, encode
from explainers.analysis.interactions.paired_inputs import PairedInputs
from explainers.autograd.integration import quadrature as points_and_weights
from explainers.autograd.linearised import Linearised
from explainers.autograd.rules import RULES, Rule, gradient_rules
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.json_records import describe
from explainers.models.encoders import encoder
from explainers.models.eval_mode import with_gradients
from explainers.models.inputs.images import is_picture_name
from explainers.models.passes import rows_at_most
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.session import Check, checker, rerunner
from explainers.self_check.opening import model_of

SOURCE = Citation(
    authors="Moeller et al.",
    year=2025,
    title="Explaining Caption-Image Interactions in CLIP Models with Second-Order Attributions (exCLIP)",
    venue="TMLR",
    arxiv="2408.14153",
)
Quadrature = Literal["gauss_legendre", "riemann"]
INTERACTION_TOLERANCE = 0.02  # of the cosine or the sum of the pairs: what they may differ by before a note says so
COPIES_AT_ONCE = {"image": 8, "text": 32}  # copies of an input, each of which takes another direction or another unit


@dataclass(frozen=True, eq=False, kw_only=True)
class Interaction(PairedInputs):
    """The interaction of two inputs, from the Jacobians of both, with the settings by which it was computed: the backward rule, the steps,
    baseline and quadrature of the path, and the block.
    """

    rule: Annotated[str, describe("The backward rule.")]
    steps: Annotated[int, describe("Over how many steps of the path from the baseline Jacobians were averaged; 0 for none.")]
    baseline: Baseline
    block: EntryBlock
    quadrature: Quadrature
    other_tokens: Annotated[float, describe("What pairs add in which a class token or another special token takes part.")]

    @property
    def baseline_terms(self) -> Annotated[float, describe("The rest of the cosine.")]:
        """The part of the cosine that the pairs leave out: the baseline's part of the embeddings (biases, or an empty input), and what the
        rule does not propagate back to the tokens.
        """
        return self.cosine - self.total - self.other_tokens

    def _head(self) -> str:
        return (
            f"cosine {self.cosine:+.4f} by {self.rule}: pairs {self.total:+.4f}, pairs with other tokens {self.other_tokens:+.4f}, "
            f"baseline terms {self.baseline_terms:+.4f}; the strongest pairs:"
        )


@in_memory_steps
def interaction(
    model: Any,
    image: Any,
    prompt: str,
    *,
    rule: str = "libra",
    steps: int = 0,
    baseline: Baseline = "zero",
    block: EntryBlock = "first",
    quadrature: Quadrature = "gauss_legendre",
    cancelled: Callable[[], bool] | None = None,
) -> Interaction:
    """Find which patches of an image go with which words of a prompt, from the Jacobians of both; ``first`` is the prompt, ``second`` the
    image.

    model   one that compares images with prompts (CLIP)
    image   an image in any form that :func:`explainers.explain` takes
    rule    one of those that carry gradients; ``gradient`` with ``steps`` is exCLIP (see the module)
    steps   number of points on the path from the baseline over which the Jacobians are averaged; 0: only the input itself
    baseline  where the path begins and what is taken off the tokens: "zero", or "empty", the tokens of a picture whose pixel values are 0
            and of a prompt of one padding token
    block   the block whose input tokens are explained: "first" or "last"
    quadrature  how the average is approximated: "gauss_legendre", or "riemann" at 1/steps, 2/steps, ... 1
    cancelled  asked between passes; when true, :class:`Cancelled` is raised

    Raises ExplainerError for a model, an input or a setting that does not fit.
    """
    model = model_of(model)
    if model.kind != "clip" or model.prompt_inputs is None:
        raise ExplainerError(
            f"{model.name} compares no image with words: choose a CLIP model, or input_interaction() for two inputs of one kind."
        )
    settings = _check_settings(rule, steps, baseline, block, quadrature, checker(cancelled))
    words, picture = encoder(model, "text"), encoder(model, "image")
    prepared_prompt = model.prompt_inputs([prompt])
    prepared = model.seen_from("image").prepare(image)
    return _interaction(encode(words, prepared_prompt, baseline, block), encode(picture, prepared, baseline, block), settings)


@in_memory_steps
def input_interaction(
    model: Any,
    first: Any,
    second: Any,
    *,
    rule: str = "libra",
    steps: int = 0,
    baseline: Baseline = "zero",
    block: EntryBlock = "first",
    quadrature: Quadrature = "gauss_legendre",
    cancelled: Callable[[], bool] | None = None,
) -> Interaction:
    """Explain why an encoder finds two pictures, or two texts, alike: a map of each for their cosine, and the pairs that make it.

    model   an image or text classifier, whose encoder is everything before its last linear layer, or a CLIP model
    first, second  two images, or two texts. For a CLIP model a str is a text unless it is the path of a picture (a name that ends in .jpg,
                   .png, .heic, ...)

    ``rule`` is the backward rule, ``steps`` and ``quadrature`` say how Jacobians are averaged on the path from the ``baseline``, ``block``
    at which block's input, and ``cancelled`` is asked between passes; see :func:`interaction`. Texts longer than the model are cut, with a
    note. Returns an :class:`Interaction`, whose ``maps`` hold the map of each input and whose ``pairs`` what each pair of their units adds
    to the cosine. Raises ExplainerError for a model, an input or a setting that does not fit.
    """
    model = model_of(model)
    settings = _check_settings(rule, steps, baseline, block, quadrature, checker(cancelled))
    texts = [model.kind == "clip" and isinstance(item, str) and not is_picture_name(item) for item in (first, second)]
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
    a, b = (encode(of, prepared, baseline, block) for of, prepared in sides)
    return _interaction(a, b, settings)


@dataclass(frozen=True)
class _Settings:
    """The checked settings of an interaction: the backward rule of its Jacobians, steps and quadrature of their mean, the baseline, and the
    block at whose input they are taken.
    """

    rule: Rule
    steps: int
    baseline: Baseline
    block: EntryBlock
    quadrature: Quadrature
    check: Check


def _check_settings(rule: str, steps: int, baseline: Baseline, block: EntryBlock, quadrature: Quadrature, check: Check) -> _Settings:
    """Check the settings of an interaction and return them as one record, with ``check``, a function that is called between passes and
    raises to stop them. The settings are the name of the backward ``rule``, the number of ``steps`` and the ``quadrature`` of the path, the
    ``baseline``, and the ``block`` at whose input the path runs; the last two are not checked.

    Raises ExplainerError for an unknown rule or quadrature, and if ``steps`` is not a whole number from 0.
    """
    if rule not in gradient_rules():
        raise ExplainerError(f"Interactions are made with rules that carry gradients: {', '.join(gradient_rules())}; not {rule!r}.")
    if not isinstance(steps, Integral) or steps < 0:
        raise ExplainerError(f"steps={steps!r}: send a whole number of steps, or 0.")
    if quadrature not in get_args(Quadrature):
        raise ExplainerError(f"quadrature={quadrature!r}: choose one of {', '.join(get_args(Quadrature))}.")
    return _Settings(RULES[rule], int(steps), baseline, block, quadrature, check)


def _interaction(a: Encoded, b: Encoded, settings: _Settings) -> Interaction:
    """Return the interaction of two encoded inputs, ``a`` and ``b``, computed with these ``settings``."""
    start = time.perf_counter()
    if len(b.units) < len(a.units):
        return _exchange(_interaction(b, a, settings))
    norms = float(a.embedding.norm() * b.embedding.norm())
    with with_gradients():
        first, second, pairs, sum_of_all = _compare(a, b, settings)
    result = Interaction(
        first=a.record,
        second=b.record,
        grids=(a.grid, b.grid),
        cosine=float(a.embedding @ b.embedding) / norms,
        pairs=pairs / norms,
        maps=(first / norms, second / norms),
        rule=settings.rule.name,
        steps=settings.steps,
        baseline=settings.baseline,
        block=settings.block,
        quadrature=settings.quadrature,
        other_tokens=(sum_of_all - float(pairs.double().sum())) / norms,
        seconds=time.perf_counter() - start,
        notes=tuple(dict.fromkeys([*a.notes, *b.notes])),
    )
    return replace(result, notes=(*result.notes, *_notes_on_rest(result)))


def _notes_on_rest(result: Interaction) -> tuple[str, ...]:
    """Return a tuple with a note on the part of the cosine that the pairs of the interaction ``result`` leave out; empty if that part is
    small.
    """
    if abs(result.cosine - result.total) <= INTERACTION_TOLERANCE * max(abs(result.cosine), abs(result.total)):
        return ()
    baseline_in_words = "where their tokens are zero" if result.baseline == "zero" else "of an empty input"
    return (
        f"The pairs add up to {result.total:.3f} and the cosine is {result.cosine:.3f}. The rest is no pair of two parts: "
        f"{result.other_tokens:+.3f} are pairs with special tokens, such as the class token, and {result.baseline_terms:+.3f} are baseline "
        f"terms, what the embeddings hold {baseline_in_words} or what the rule brings back to no token.",
    )


def _compare(a: Encoded, b: Encoded, settings: _Settings) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return both maps, the pairs, and the sum of the pairs of all tokens, all before division by the norms of the embeddings. For ``a``,
    which has fewer units, all products with the Jacobian are computed; for ``b`` only those along the directions of the units of ``a``, if
    these are fewer than the dimensions.
    """
    products_and_sum = _products(a, settings)
    products, sum_of_all = products_and_sum[:-1], products_and_sum[-1]
    first = products @ b.embedding
    if len(products_and_sum) < len(a.embedding):
        along_b = _components_along(b, torch.cat([products_and_sum, a.embedding[None]]), settings)
        return first, along_b[-1, :-1], along_b[:-2, :-1], float(along_b[-2, -1])
    other = _products(b, settings)
    return first, other[:-1] @ a.embedding, products @ other[:-1].T, float(sum_of_all @ other[-1])


def _exchange(original: Interaction) -> Interaction:
    """Return the interaction ``original`` with its two inputs exchanged."""
    return replace(
        original,
        first=original.second,
        second=original.first,
        grids=original.grids[::-1],
        pairs=original.pairs.T.contiguous(),
        maps=original.maps[::-1],
    )


def _products(side: Encoded, settings: _Settings) -> Tensor:
    """Return the part of each unit (a patch or a word) of the encoded input ``side`` in its embedding, (units + 1, D): the difference of
    the unit's tokens from the baseline's tokens, times the Jacobian of the embedding. The last row is the part of all tokens.
    """
    sums, width = _sums(side), len(side.embedding)
    if len(sums) >= width:
        return _components_along(side, torch.eye(width), settings).T
    products = torch.zeros(len(sums), width)
    parts = _parts(len(sums), side)
    for linear, weight in _linearise(side, len(parts[0]), settings):
        for part in parts:
            settings.check()
            rows = _pad_rows(sums[part], len(parts[0])).to(side.tokens)
            products[part] += weight * linear.push(rows[:, :, None] * (side.tokens - side.baseline_tokens))[: len(part)].float().cpu()
    return products


def _components_along(side: Encoded, directions: Tensor, settings: _Settings) -> Tensor:
    """Return the share of each unit (a patch or word) of ``side``, one encoded input, in the component of its embedding along each of the
    ``directions`` (n, D): (n, units + 1). The last column is the share of all tokens.
    """
    shares = torch.zeros(len(directions), len(side.tokens))
    parts = _parts(len(directions), side)
    for linear, weight in _linearise(side, len(parts[0]), settings):
        for part in parts:
            settings.check()
            signal = linear.pull(_pad_rows(directions[part], len(parts[0])).to(side.tokens))[: len(part)]
            shares[part] += weight * (signal * (side.tokens - side.baseline_tokens)).sum(-1).float().cpu()
    return shares @ _sums(side).T


def _sums(side: Encoded) -> Tensor:
    """Return a matrix (units + 1, S) of 0 and 1 for ``side``, one encoded input: each row marks the tokens of one unit, the last row every
    token.
    """
    return torch.cat([side.units, side.is_token[None]])


def _parts(count: int, side: Encoded) -> list[Tensor]:
    """Split the indices 0 to ``count`` - 1 into as few parts of nearly equal length as fit into one pass over copies of the input ``side``;
    the last may be shorter.
    """
    most = rows_at_most(COPIES_AT_ONCE["text" if side.model.reads_text else "image"])
    return list(torch.arange(count).split(-(-count // -(-count // most))))


def _pad_rows(rows: Tensor, count: int) -> Tensor:
    """Return the tensor ``rows`` (n, D) with zero rows added at its end, ``count`` rows in all."""
    return torch.cat([rows, rows.new_zeros(count - len(rows), rows.shape[1])])


def _linearise(side: Encoded, copies: int, settings: _Settings) -> Iterator[tuple[Linearised, float]]:
    """Yield, for each point of the path from the baseline to the encoded input ``side``, the encoder linearised there for ``copies`` copies
    of the input, and the point's weight; ``settings`` hold the rule and the steps. Without steps the input is the only point.
    """
    tensors = {name: tensor.expand(copies, *tensor.shape[1:]) for name, tensor in side.tensors.items()}
    rerun = rerunner(side.model, tensors, settings.check)
    points, weights = points_and_weights(settings.quadrature, settings.steps) if settings.steps else ([1.0], [1.0])
    for point, weight in zip(points, weights, strict=True):
        entry = None if point == 1 else lambda x, point=float(point): torch.lerp(side.baseline_tokens.to(x), x, point)
        yield Linearised(rerun(entry=entry), settings.rule), float(weight)
