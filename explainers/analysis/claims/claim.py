"""A claim about what a map puts first: how far the answer falls without it, and that chance does not find as much.

A set of parts is replaced by several fillings, and so are sets of as many parts drawn at random. The claim is made if, with an error that
holds at whatever draw one stops,

* the answer falls by at least ``least`` on average over the draws of each filling: the bound is the smallest of theirs. It needs no
  correction for the number of fillings, since it is wrong only if that of the filling with the smallest true fall is (Berger,
  "Multiparameter hypothesis testing and acceptance sampling", Technometrics 1982);
* it falls by more than without ``SHARE`` of the random sets, in the same draw and under every filling;
* a map of random numbers would earn a claim about this input with a probability of at most ``error``, for any model and any input: its
  first parts are a random set, whose rank among others is even. So most sets that chance, edges or an inverted map name earn none.

Sizes are 2, 4, 8, ... parts, up to a third of all; each has an equal part of the error. Once one holds, ones a quarter smaller are tried in
turn until one does not: in a fixed order each may have the error of the first (Maurer, Hothorn & Lehmacher, 1995). The first two statements
are corrected for the number of maps that were looked at: the error is that any of their claims is wrong. The third is about one map.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from explainers.analysis.claims.betting import draws_needed, is_hopeless, lower_bound, most_draws, upper_bound
from explainers.analysis.claims.draws import Draws
from explainers.analysis.claims.rivals import rival_of
from explainers.analysis.counterfactual import content_indices, parts_of
from explainers.analysis.target_output import TargetOutput, target_output
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe
from explainers.methods.registry import is_control
from explainers.models.inputs.types import ImageInput, MoleculeInput, Prepared, TextInput
from explainers.models.model import Model
from explainers.models.removal.fillings import input_fillings
from explainers.models.removal.token_removal import BeforePass
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.result import Attribution, Explanation
from explainers.records.session import check_seed, checker
from explainers.rendering.plain import align
from explainers.self_check.opening import model_of

#: The share of the random sets that a set must be better than.
SHARE = 0.95
ERROR = 0.05
#: The smallest fall of an answer (from 0 to 1) that is worth a claim.
LEAST = 0.1
MAX_DRAWS = 400  # unless a small error or many maps need more than half of them
MIN_ERROR = 0.001  # a smaller one needs ten thousand random sets or more
LARGEST_SHARE = 1 / 3  # of the parts, in a set that a claim may be about
_FIRST_LOOK = 8  # draws
#: Why there is no claim of prompts and of texts in windows, and what to do instead.
NEEDS_WHOLE_INPUT = "A claim is about a picture, a molecule, or a text that the model reads whole."
EXPLAIN_WHOLE_INPUT = "Explain the picture, or a shorter text."
TIE = 1e-6  # falls that differ by no more are equal but for rounding
_SMALL_NUMBERS = ("no", "one", "two", "three", "four", "five")


@dataclass(frozen=True)
class FillingFall(Record):
    """How far an answer falls, on average over draws, when the parts of a claim are replaced by one filling."""

    filling: Annotated[str, describe("The name of the filling, such as `black`.")]
    words: Annotated[str, describe("What then stands in the place of the parts.")]
    low: Annotated[float, describe("A lower bound of the mean; the fall itself for a filling that is the same in each draw.")]
    high: Annotated[float, describe("An upper bound of the mean.")]
    is_drawn: Annotated[bool, describe("Whether it depends on random numbers.", key="drawn")]


@dataclass(frozen=True)
class TriedSize(Record):
    """What was found about the first parts of a map, so many of them."""

    size: Annotated[int, describe("How many parts.")]
    holds: Annotated[bool, describe("Whether the claim holds for them.")]
    why: Annotated[str, describe("Why it does not; empty where it does.")]
    draws: Annotated[int, describe("How many random sets they were compared with.")]
    as_good: Annotated[int, describe("How many of these lowered the answer as much or more under one filling.")]
    falls: Annotated[tuple[FillingFall, ...], describe("Of each filling whose fall was found before the search of this size ended.")]

    @property
    def low(self) -> float:
        """The fall that holds under every filling."""
        return min(fall.low for fall in self.falls)


@dataclass(frozen=True, eq=False)
class Claim(Record, name="MapClaim"):
    """A sentence about the parts that a map puts first, or why there is none. ``print`` shows it.

    hidden  the parts of the claim in the order of the map, each with its tokens as indices of the scores of a map
    notes   what a person should know, such as that edges alone earn a claim too
    """

    method: Annotated[str, describe("The spec of the map.")]
    target: Annotated[str, describe("The label of what is explained.")]
    holds: Annotated[bool, describe("Whether there is a claim.")]
    sentence: Annotated[str, describe("The claim with its error and what that refers to, or why there is none.")]
    why: Annotated[str, describe("Why there is no claim, in a sentence; empty where there is one.")]
    hidden: Annotated[tuple[tuple[int, ...], ...], describe("The parts of the claim, each with its tokens as indices of the scores.")]
    parts: Annotated[int, describe("How many patches, words or atoms there are.")]
    answer: Annotated[float, describe("The answer to the whole input, from 0 to 1.")]
    fall: Annotated[float | None, describe("By how much the answer falls at least, under any of the fillings; null without a claim.")]
    error: Annotated[float, describe("The largest probability that the claim is wrong.")]
    share_beaten: Annotated[float, describe("The share of random sets of as many parts that do less, as the claim says.")]
    looked_at: Annotated[int, describe("The number of maps for which the error is corrected.")]
    tried: Annotated[tuple[TriedSize, ...], describe("The sizes that were tried, in order.")]
    answers: Annotated[int, describe("How many answers of the model it took.", key="asked")]
    notes: Annotated[tuple[str, ...], HIDDEN] = ()

    def __str__(self) -> str:
        rows = [["parts", "fall", "random sets as good", ""]]
        rows += [[str(tried.size), f"{tried.low:.3f}", f"{tried.as_good} of {tried.draws}", tried.why or "holds"] for tried in self.tried]
        head = f"{self.target} by {self.method}: {self.answer:.3f} for the whole input"
        return "\n".join([self.sentence, head, *align(rows, left=(3,)), *(f"note: {note}" for note in self.notes)])


@in_memory_steps
def claim(
    model: Any,
    result: Explanation,
    method: str,
    target: str | None = None,
    *,
    error: float = ERROR,
    least: float = LEAST,
    looked_at: int | None = None,
    seed: int = 0,
    progress: BeforePass | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Claim:
    """Return what can be claimed of the parts that a map puts first: the smallest set without which the answer falls by at least ``least``
    under each of several fillings, and by more than without 95 % of the sets of equal size that are drawn at random.

    model      the model that was explained
    result     the explanation, with a map of ``method``: of a picture, a text or a molecule
    target     the label of one of the explained targets; None: the first
    error      the largest probability, over the draws of fillings and of random sets, that the claim is wrong. As large is the probability
               that a map of random numbers earns one. From 0.001 to less than 0.5; the smaller, the more draws
    least      the smallest fall worth a claim, of the answer, a probability from 0 to 1; of a contrast "a, not b" it is that of a where
               only a and b are possible
    looked_at  the number of maps among which this one was chosen, over methods and targets; None: those of the result, without controls
    seed       of all draws
    progress   called before each forward pass with how many answers there are, and how many there will be after it
    cancelled  asked before each forward pass; when true, :class:`Cancelled` is raised

    Raises ExplainerError for another model than the explained one, for a method without a map, for an answer that has no range (a
    regression, a single prompt), for an input whose parts cannot be replaced (prompts, clips, texts in windows, and pictures or sounds that
    a text is written from), and for numbers that are out of range.
    """
    check_errors(error, least)
    if looked_at is not None and looked_at < 1:
        raise ExplainerError(f"looked_at={looked_at}: send how many maps this one was chosen among, 1 or more, or leave looked_at= out.")
    model = model_of(model)
    label = result.targets[0].label if target is None else target
    infos = [info for info in result.targets if info.label == label]
    if not infos:
        raise ExplainerError(f"{label!r} was not explained; explained were {', '.join(info.label for info in result.targets)}")
    spec = result.spec_of(method)
    maps = [attribution for attribution in result.maps if attribution.method == spec and attribution.target == label]
    if not maps:
        raise ExplainerError(f"There is no map {spec!r} of {label!r}; there are {', '.join(result.methods) or 'none'}")
    check = checker(cancelled)

    def before_pass(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)
        check()

    if model.weights_digest != result.weights_digest:
        raise ExplainerError(f"The result is of {result.model} with other weights: pass the model that was explained.")
    if result.prompts or result.windows:
        raise ExplainerError(f"{NEEDS_WHOLE_INPUT} {EXPLAIN_WHOLE_INPUT}")
    # all maps of an explanation share its random sets
    draws: Draws = model.cached(("claim", weakref.ref(result), label, seed), lambda: draws_of_result(model, result, label, seed=seed))
    draws.before_pass = before_pass
    count = count_looked_at((each.method, each.target) for each in result.maps) if looked_at is None else looked_at
    return find_claim(draws, ranked_map(maps[0]), result.input, error=error, least=least, looked_at=count)


def count_looked_at(maps: Iterable[tuple[str, str]]) -> int:
    """Return the number of ``maps`` of an explanation, given as (method, target), for which the error of a claim is corrected: all but
    controls; at least 1.
    """
    return max(1, sum(not is_control(method) for method, _ in set(maps)))


def check_errors(error: float, least: float) -> None:
    """Raise ExplainerError unless ``error`` lies between ``MIN_ERROR`` and 0.5, and ``least``, a fall, between 0 and 1."""
    if not MIN_ERROR <= error < 0.5 or not 0 < least < 1:
        raise ExplainerError(
            f"error={error:g} and least={least:g}: send an error from {MIN_ERROR:g} to less than 0.5, and a fall between 0 and 1."
        )


def draws_of_result(model: Model, result: Explanation, label: str, *, seed: int = 0, before_pass: BeforePass | None = None) -> Draws:
    """Return the :class:`Draws` of the input of ``result`` for the explained target called ``label``: all its maps may share them. Raises
    ExplainerError as :func:`claim`.
    """
    tensors = {name: tensor.to(model.device) for name, tensor in result.tensors.items()}
    if result.place is not None:
        model = model.at(result.place.at, Prepared(tensors, (result.input,), ((),)))
    info = next(info for info in result.targets if info.label == label)
    grid = next((attribution.patches for attribution in result.maps if attribution.target == label), None)
    output = target_output(model, list(result.labels), info.to_json())
    return draws_of(model, tensors, result.input, grid, output, seed=check_seed(seed), before_pass=before_pass)


@dataclass(frozen=True)
class RankedMap:
    """A map whose order a claim follows: its method and target, its scores (N,) of the tokens that can be replaced, and whether they are
    signed.
    """

    method: str
    target: str
    scores: Tensor
    is_signed: bool


def ranked_map(attribution: Attribution) -> RankedMap:
    """Return a map without what does not belong to its order."""
    return RankedMap(attribution.method, attribution.target, attribution.scores[attribution.content], attribution.signed)


def draws_of(
    model: Model,
    tensors: Mapping[str, Tensor],
    shown: ImageInput | TextInput,
    grid: tuple[int, int] | None,
    output: TargetOutput,
    *,
    seed: int = 0,
    before_pass: BeforePass | None = None,
) -> Draws:
    """Return the :class:`Draws` of one input, ``shown``, a batch of one in ``tensors``; of a picture over its ``grid`` of patches.
    ``model`` is asked about the place that is explained, and ``output`` reads its answer. Raises ExplainerError as :func:`claim`.
    """
    inputs = input_fillings(model, tensors, shown, grid)
    if all(filling.is_drawn for filling in inputs.fillings):
        raise ExplainerError("Every filling of this input is drawn at random, and a claim needs one that is not.")
    parts = parts_of(inputs.tokens, shown)
    rival = rival_of(tensors, shown, grid, parts)
    return Draws(inputs, parts, answer_from_0_to_1(output), seed, rival, before_pass)


def answer_from_0_to_1(output: TargetOutput) -> Callable[[Tensor], Tensor]:
    """Return the function from logits (K, C) to the explained answer (K,), between 0 and 1: its probability, or of a contrast the
    probability of the first where only the two are possible.

    Raises ExplainerError for an answer without a range, of which no sample gives a mean with an exact error.
    """
    is_between_two = output.resolved.target.is_between_two
    if output.kind == "regression" or not (is_between_two or (output.explains == "probability")):
        raise ExplainerError(
            "A claim is about an answer between 0 and 1, and this one has no range: explain a class, or one prompt of several."
        )

    def answer(logits: Tensor) -> Tensor:
        values = output.values(logits.double())
        return torch.sigmoid(values["logit"]) if is_between_two else values["probability"]

    return answer


def map_order(ranked: RankedMap, parts: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the indices of ``parts`` in the order of a map, its largest score first; a word or an atom of several tokens has their sum if
    scores are signed, else the largest. Of equal ones the earlier goes first.
    """
    scores = ranked.scores.double()
    merged = torch.stack([scores[list(part)].sum() if ranked.is_signed else scores[list(part)].max() for part in parts])
    return list(map(int, merged.argsort(descending=True, stable=True)))


def sizes_of(parts: int, error: float) -> list[int]:
    """Return the sizes of sets that are tried: 2 ** i parts, up to a third of all, without those of which a random order finds the best set
    too easily: there must be 4 sets for each that the error allows.
    """
    doubled = [2**i for i in range(parts.bit_length()) if 2**i <= LARGEST_SHARE * parts]
    return [size for size in doubled if math.comb(parts, size) >= 4 * len(doubled) / error]


def find_claim(
    draws: Draws,
    ranked: RankedMap,
    shown: ImageInput | TextInput,
    *,
    error: float = ERROR,
    least: float = LEAST,
    looked_at: int = 1,
) -> Claim:
    """Search the claim of the map ``ranked`` of an input, ``shown``, by ``draws``, which several maps may share. See :func:`claim`."""
    order, whole = map_order(ranked, draws.parts), draws.whole
    noun = "patch" if isinstance(shown, ImageInput) else "atom" if isinstance(shown, MoleculeInput) else "word"
    sizes, before = sizes_of(len(order), error), draws.answers

    def attempt(chosen: Sequence[int]) -> TriedSize:
        return _try(draws, chosen, error / (2 * looked_at * len(sizes)), error / len(sizes), least)

    tried: list[TriedSize] = []
    for size in sizes if whole >= least else ():
        tried.append(attempt(order[:size]))
        if tried[-1].holds:
            break
    best = tried[-1] if tried and tried[-1].holds else None
    failed = max((each.size for each in tried if not each.holds), default=0)
    while best is not None and best.size - (step := max(1, best.size // 4)) > failed:
        smaller = attempt(order[: best.size - step])
        tried.append(smaller)
        if not smaller.holds:
            break
        best = smaller
    notes: tuple[str, ...] = ()
    if best is not None and draws.rival is not None and attempt(draws.rival.order[: best.size]).holds:
        notes = (f"The {best.size} {draws.rival.words} earn a claim too: they are found without the model.",)
    indices = content_indices(shown, draws.inputs.tokens)
    why = "" if best else _refusal_in_words(tried, whole, least, noun, len(order))
    return Claim(
        method=ranked.method,
        target=ranked.target,
        holds=best is not None,
        sentence=f"No such claim. {why}" if best is None else _claim_in_words(draws, best, ranked.target, noun, error, looked_at),
        why=why,
        hidden=tuple(tuple(indices[token] for token in draws.parts[i]) for i in order[: best.size]) if best else (),
        parts=len(order),
        answer=whole,
        fall=None if best is None else best.low,
        error=error,
        share_beaten=SHARE,
        looked_at=looked_at,
        tried=tuple(tried),
        answers=draws.answers - before,
        notes=notes,
    )


def _try(draws: Draws, chosen: Sequence[int], bound_error: float, rank_error: float, least: float) -> TriedSize:
    """Test the set of ``chosen`` parts: filling by filling, look after 8, 24, 56, ... draws whether a claim can still be expected, and once
    it can hold go on until it does or no longer can. ``bound_error`` is that of either bound, ``rank_error`` that of the set's rank among
    random sets.
    """
    size, fillings = len(chosen), draws.fillings
    fixed = draws.fixed_falls(chosen)
    bounds = [FillingFall(fillings[i].name, fillings[i].words, fall, fall, is_drawn=False) for i, fall in fixed.items()]
    weakest = min(fixed, key=lambda i: fixed[i])
    if fixed[weakest] < least:
        why = f"replaced by {fillings[weakest].words}, they lower the answer by {max(0.0, fixed[weakest]):.2f} only"
        return TriedSize(size, False, why, 0, 0, tuple(bounds))

    def as_many(count: int, as_good: int) -> str:
        return f"{as_good} of {count} sets of as many drawn at random lower it as much under a filling"

    most = most_draws(SHARE, bound_error, rank_error, MAX_DRAWS)
    test = (SHARE, bound_error, rank_error, most)
    fewest = draws_needed(0, *test)
    assert fewest is not None  # most_draws sees to it
    # no claim can hold sooner, so fillings are tried one by one till then, first those that are most likely to stop the search
    is_as_good = np.zeros(fewest, dtype=np.bool_)
    for i in sorted(range(len(fillings)), key=lambda i: fixed.get(i, math.inf)):
        for count in _looks(fewest):
            falls, random_falls = draws.paired_falls(chosen, count, [i])
            is_as_good[:count] |= falls[:, 0] - random_falls[:, 0] <= TIE
            as_good = int(is_as_good[:count].sum())
            if draws_needed(as_good, *test) is None or is_hopeless(as_good, count, *test):
                return TriedSize(size, False, as_many(count, as_good), count, as_good, tuple(bounds))

    count = fewest
    while True:
        falls, random_falls = draws.paired_falls(chosen, count, range(len(fillings)))
        as_good = int((falls - random_falls <= TIE).any(1).sum())
        needed = draws_needed(as_good, *test)
        ends = {i: fall_bounds(falls[:, i], draws.whole, bound_error) for i in range(len(fillings)) if i not in fixed}
        if needed is None or is_hopeless(as_good, count, *test):
            why = as_many(count, as_good)
            break
        if count >= needed:
            if all(low >= least for low, _ in ends.values()):
                why = ""
                break
            if count == most:
                why = f"after {count} draws their mean fall may still be below {least:g}"
                break
            needed = min(most, count + count // 2)
        count = min(needed, 2 * count)
    bounds += [FillingFall(fillings[i].name, fillings[i].words, low, high, is_drawn=True) for i, (low, high) in ends.items()]
    return TriedSize(size, not why, why, count, as_good, tuple(bounds))


def _looks(last: int) -> list[int]:
    """Return the numbers of draws after which a search may be given up: 8, 24, 56, ..., and ``last``."""
    looks = [_FIRST_LOOK]
    while (following := 2 * looks[-1] + _FIRST_LOOK) < last:
        looks.append(following)
    return [*looks, last] if looks[-1] < last else [last]


def fall_bounds(falls: np.ndarray[Any, np.dtype[np.float64]], whole: float, error: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the mean of ``falls`` (n,) of an answer that was ``whole``, each with an error of at most
    ``error`` whenever one stopped: answers lie between 0 and 1, so falls between ``whole`` - 1 and ``whole``.
    """
    answers = np.clip(whole - falls, 0, 1)
    return whole - upper_bound(answers, error), whole - lower_bound(answers, error)


def _claim_in_words(draws: Draws, best: TriedSize, target: str, noun: str, error: float, looked_at: int) -> str:
    count = len(draws.fillings)
    plural = _plural(noun, best.size)
    these = f"this {noun}" if best.size == 1 else f"these {best.size} {plural}"
    number = _SMALL_NUMBERS[count] if count < len(_SMALL_NUMBERS) else str(count)
    names = ", ".join(filling.name for filling in draws.fillings)
    maps = "" if looked_at == 1 else f" and {looked_at} maps looked at"
    drawn = "fillings and of random sets" if any(filling.is_drawn for filling in draws.fillings) else "random sets"
    fall = math.floor(best.low * 100) / 100  # no more than was shown
    return (
        f"Replacing {these} by any of the {number} fillings ({names}) lowers the probability of {target} by at least {fall:.2f} on "
        f"average, and by more than replacing {best.size} {plural} drawn at random in at least {SHARE:.0%} of draws "
        f"(error at most {100 * error:g}%, over draws of {drawn}{maps})."
    )


def _refusal_in_words(tried: Sequence[TriedSize], whole: float, least: float, noun: str, parts: int) -> str:
    if whole < least:
        return f"The answer is {whole:.2f} and cannot fall by {least:.2f}."
    if not tried:
        return f"Of {parts} {_plural(noun, parts)} a random order finds the best too easily."
    nearest = max(tried, key=lambda each: (each.draws, -each.as_good, each.low))
    those = f"The first {noun} comes" if nearest.size == 1 else f"The first {nearest.size} {_plural(noun, nearest.size)} come"
    return f"{those} nearest: {nearest.why}."


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}es" if noun == "patch" else f"{noun}s"
