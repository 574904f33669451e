"""The deletion test: how the answer falls when a model loses what a map names first, and how long it stays when that goes last.

Every method is held against the others and against orders drawn at random. Chefer et al. (CVPR 2021), Ali et al. (ICML 2022) and
LibraGrad (CVPR 2025) take tokens away in steps of a tenth of them; the gap between the two areas is the symmetric relevance gain of Blücher
et al. (TMLR 2024).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from explainers.analysis.target_output import FollowedNumber, TargetOutput, target_output
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe, optional
from explainers.methods.registry import is_control
from explainers.metrics.removal_curves import Order, area, curves, random_orders, removal_counts, removal_order
from explainers.models.inputs.types import ImageInput, Prepared
from explainers.models.model import Model
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.token_removal import BeforePass, TokenRemoval
from explainers.models.removal.ways import How
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.result import Explanation
from explainers.records.session import checker
from explainers.rendering.plain import align
from explainers.rendering.saving import save_numbers_or_figure
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS: tuple[Order, ...] = ("most", "least")
RANDOM_ORDERS = 5  # orders drawn at random that every method is held against
MOST_CURVE_POINTS = 1000  # points of a curve; more could not be seen
MOST_DRAWS = 1000
RANDOM = "random"


def even_shares(steps: int) -> tuple[float, ...]:
    """Return the shares 0, 1 / steps, ..., 1. Raises ExplainerError for less than one step, and for more than ``MOST_CURVE_POINTS``."""
    if steps < 1:
        raise ExplainerError(f"a curve of {steps} steps is empty: ask for at least 1 step")
    if steps > MOST_CURVE_POINTS:
        raise ExplainerError(f"a curve of {steps} steps asks the model too often: ask for at most {MOST_CURVE_POINTS}")
    return tuple(i / steps for i in range(steps + 1))


#: The shares at which the papers ask the model.
PUBLISHED = even_shares(10)


@dataclass(frozen=True)
class DeletionCurve(Record):
    """The model's answers while tokens are removed in the order of one method's map, and the area under that curve.

    order   None: the mean over several random orders
    values  by name (``probability`` and ``logit``, or ``value``), one for each of the test's ``counts``
    """

    method: str
    order: Annotated[Order | None, describe(kind=Order)]
    values: Annotated[Mapping[str, tuple[float, ...]], HIDDEN]
    area: Annotated[float, describe("The mean of the number that ``read`` names over the shares that are gone.")]

    @property
    def probability(self) -> Annotated[tuple[float, ...] | None, optional()]:
        """The probability at each of the test's ``counts``."""
        return self.values.get("probability")

    @property
    def logit(self) -> Annotated[tuple[float, ...] | None, optional()]:
        """The logit at each of the test's ``counts``."""
        return self.values.get("logit")

    @property
    def value(self) -> Annotated[tuple[float, ...] | None, optional()]:
        """The value of a regression or a contrast at each of the test's ``counts``."""
        return self.values.get("value")


@dataclass(frozen=True, kw_only=True)
class RandomCurve(Record):
    """The mean curve over several random orders of removal.

    area                       the area under the curve of the number that ranks are made of
    probability, logit, value  the means at each of the test's ``counts``; None for a number that the target does not have
    seeds                      number of orders
    """

    area: float
    probability: Annotated[tuple[float, ...] | None, optional()] = None
    logit: Annotated[tuple[float, ...] | None, optional()] = None
    value: Annotated[tuple[float, ...] | None, optional()] = None
    seeds: Annotated[int, describe("How many orders were drawn.")]


@dataclass(frozen=True)
class Rank(Record, name="DeletionRank"):
    """The result of one method in a deletion test: its spec, its rank, and what the rank was computed from.

    rank         among the methods; 0 for a control, which is none: the random baseline, and a map of random numbers
    areas        the area under the curve of each order
    gap          the area with the least relevant first minus the area with the most relevant first: larger is better. If only one order
                 was tested, the other area counts as 0
    is_baseline  whether this is the random baseline, which has no map
    """

    method: str
    rank: Annotated[int, describe("Among the methods; 0 for a control, which is none.")]
    areas: Annotated[Mapping[Order, float], HIDDEN]
    gap: Annotated[float, HIDDEN]
    is_baseline: Annotated[bool, HIDDEN] = False

    @property
    def is_control(self) -> bool:
        """Return whether this is the random baseline or a map of random numbers."""
        return self.rank == 0

    @property
    def _most(self) -> Annotated[float | None, optional("The area of the most relevant first.", key="most")]:
        return self.areas.get("most")

    @property
    def _least(self) -> Annotated[float | None, optional("The area of the least relevant first.", key="least")]:
        return self.areas.get("least")

    @property
    def _full_gap(self) -> Annotated[float | None, optional("``least`` less ``most``: the larger, the better.", key="gap")]:
        return self.gap if len(self.areas) > 1 else None

    @property
    def _control(self) -> Annotated[bool | None, optional("true for the random baseline.", key="control")]:
        return self.is_baseline or None


@dataclass(frozen=True, eq=False)
class DeletionTest(Record, name="DeletionCurves"):
    """The result of a deletion test of the maps of one target of one input: how tokens were removed, the curve of each map, and the methods
    ranked. ``print`` shows the ranking; :meth:`save` writes the figure or the numbers.

    target     label of the explained class or prompt
    explains   which number of the model areas and ranks are made of: ``probability``, ``logit`` or ``value``
    how        the way in which tokens were removed
    tokens     number of removable tokens
    fractions  the requested shares of them that are gone; ``counts`` are the numbers of tokens at each
    curves     one for each method and order of removal
    random     the mean curve of ``draws`` random orders
    chance_gap the largest difference between the areas of two of these orders: a method whose gap is no larger does no better than chance
    ranking    the methods and the controls, best first
    notes      what a person should know about how tokens were removed
    """

    target: str
    explains: Annotated[FollowedNumber, describe("The number that areas and ranks are made of.", key="read")]
    how: Annotated[How, describe("In which way tokens are taken away.", kind=str)]
    tokens: Annotated[int, describe("How many there are.")]
    fractions: Annotated[tuple[float, ...], describe("The shares of the tokens that were asked for.")]
    counts: Annotated[tuple[int, ...], describe("How many tokens are gone at each of the fractions.")]
    curves: tuple[DeletionCurve, ...]
    random: Annotated[DeletionCurve, HIDDEN]
    draws: Annotated[int, HIDDEN]
    chance_gap: Annotated[
        float, describe("The largest difference between the areas of two random orders: a gap that is no larger is no better than chance.")
    ]
    ranking: Annotated[tuple[Rank, ...], describe("Best first, the random baseline among them.")]
    notes: Annotated[tuple[str, ...], HIDDEN] = field(default=())

    @property
    def _random(self) -> Annotated[RandomCurve, describe(key="random")]:
        return RandomCurve(area=self.random.area, seeds=self.draws, **self.random.values)

    def __str__(self) -> str:
        orders = list(self.ranking[0].areas)
        titles = {"most": "most first", "least": "least first"}
        rows = [["rank", "method", *(titles[order] for order in orders), *(["gap"] if len(orders) > 1 else [])]]
        for row in self.ranking:
            name = f"random baseline ({self.draws} draws)" if row.is_baseline else row.method
            numbers = [*row.areas.values(), *([row.gap] if len(orders) > 1 else [])]
            rows.append(["-" if row.is_control else str(row.rank), name, *(f"{number:.4f}" for number in numbers)])
        head = f"{self.target}: {self.explains} while {self.tokens} tokens go ({self.how}), asked at {len(self.counts)} points; areas"
        return "\n".join([head, *align(rows, left=(1,)), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        """Return the ranking and the curves: what a notebook shows."""
        from explainers.rendering.notebook import figure_html, text_html

        return text_html(str(self), figure_html(self.figure(), f"Curves of the deletion test of {self.target}"))

    def figure(self) -> Figure:
        """Draw the curves of both orders, labelled with the best three methods and the random baseline, and return the matplotlib
        Figure.
        """
        from explainers.rendering.figures import deletion_figure  # matplotlib takes a while to load

        return deletion_figure(self.to_json())

    def save(self, path: Path | str) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the figure as ``.png``, ``.pdf`` or ``.svg``.

        Raises ExplainerError for any other ending of the name.
        """
        save_numbers_or_figure(path, lambda: json.dumps({**self.to_json(), "notes": list(self.notes)}, indent=1), self.figure)


@in_memory_steps
def deletion_test(
    model: Any,
    result: Explanation,
    target: str | None = None,
    methods: Sequence[str] | None = None,
    *,
    fractions: Sequence[float] = PUBLISHED,
    orders: Sequence[Order] = ORDERS,
    draws: int = RANDOM_ORDERS,
    how: How | None = None,
    progress: BeforePass | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> DeletionTest:
    """Test which maps in ``result`` find the tokens that ``model`` needs: run it again while tokens are removed in the order of each map.

    model      the model that was explained
    target     the label of one of the explained targets; None: the first
    methods    specs of maps of the result; None: all
    fractions  shares of the tokens that are removed; by default those of the papers. If two shares remove the same number of tokens, one of
               them is asked, and a note says so
    orders     which tokens are removed first: the ``most`` relevant, the ``least`` relevant, or each of the two
    draws      number of random orders, each drawn from its own seed, over which the random baseline is averaged
    how        see :mod:`explainers.models.removal`; None: tokens are removed where the model allows it
    progress   called before each forward pass with how many inputs of how many are answered
    cancelled  asked before each forward pass; when true, :class:`Cancelled` is raised

    Raises ExplainerError for another model than the explained one, for a target or a method that was not explained, and for fractions of
    which fewer than two remove different numbers of tokens.
    """
    model = model_of(model)
    labels = [info.label for info in result.targets]
    label = labels[0] if target is None else target
    if label not in labels:
        raise ExplainerError(f"{label!r} was not explained; explained were {', '.join(labels)}")
    attributions = [attribution for attribution in result.maps if attribution.target == label]
    maps = {attribution.method: attribution.scores[attribution.content] for attribution in attributions}
    specs = list(maps) if methods is None else list(dict.fromkeys(result.spec_of(spec) for spec in methods))
    for spec in specs:
        if spec not in maps:
            raise ExplainerError(f"There is no map {spec!r} of {label!r}; there are {', '.join(maps) or 'none'}")
    if not specs:
        raise ExplainerError(f"There is no map of {label!r} to test: explain it with some methods first")
    model, removal = removal_for(model, result, label, how)
    shares = distinct_shares(fractions, removal)
    output = target_output(model, list(result.labels), result.targets[labels.index(label)].to_json())
    check = checker(cancelled)

    def before_pass(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)
        check()

    chosen_maps = {spec: maps[spec] for spec in specs}
    test = run_deletion(removal, output, chosen_maps, fractions=shares, orders=orders, draws=draws, before_pass=before_pass)
    share_count = len(set(fractions))
    if len(shares) == share_count:
        return test
    tokens = "1 token" if removal.tokens == 1 else f"{removal.tokens} tokens"
    note = f"Only {len(shares)} of the {share_count} shares remove different numbers of the {tokens}: each number is tested once."
    return replace(test, notes=(*test.notes, note))


def removal_for(model: Model, result: Explanation, label: str, how: How | None) -> tuple[Model, TokenRemoval]:
    """Return ``model`` as it was asked in ``result``, from the side and at the place that were explained for the target ``label``, and the
    removal of tokens from its input in the way ``how``. Raises ExplainerError if the result is of a model with other weights.
    """
    if model.weights_digest != result.weights_digest:
        raise ExplainerError(f"The result is of {result.model} with other weights: pass the model that was explained.")
    model = model.seen_from("text" if result.prompts else None)
    tensors = {name: tensor.to(model.device) for name, tensor in result.tensors.items()}
    if result.place is not None:
        model = model.at(result.place.at, Prepared(tensors, (result.input,), ((),)))
    text = result.prompts.get(label, result.input)
    special = None if isinstance(text, ImageInput) else [token.special for token in text.tokens]
    prompt = list(result.labels).index(label) if result.prompts else None
    windows = model.windows(text.text) if result.windows and not isinstance(text, ImageInput) and text.text is not None else None
    grid = next((attribution.patches for attribution in result.maps if attribution.target == label), None)
    return model, input_removal(model, tensors, grid=grid, special=special, prompt=prompt, windows=windows, how=how)


def check_draws(draws: int) -> None:
    """Raise ExplainerError if the number of random orders, ``draws``, is below 1 or above ``MOST_DRAWS``."""
    if draws < 1:
        raise ExplainerError(f"the test needs a random baseline to compare methods with: ask for 1 to {MOST_DRAWS} random orders")
    if draws > MOST_DRAWS:
        raise ExplainerError(f"{draws} random orders ask the model too often: ask for 1 to {MOST_DRAWS}")


def distinct_shares(fractions: Sequence[float], removal: TokenRemoval) -> tuple[float, ...]:
    """Return the ``fractions`` of tokens to remove by ``removal``, smallest first, without those that remove as many tokens as another one.
    Of several that remove the same number, the one nearest to this number as a share of all tokens is kept.
    """
    shares = sorted(set(fractions))
    nearest: dict[int, float] = {}
    for share, count in zip(shares, removal_counts(shares, removal.tokens, removal.least), strict=True):
        best = nearest.get(count)
        if best is None or abs(share * removal.tokens - count) < abs(best * removal.tokens - count):
            nearest[count] = share
    return tuple(nearest.values())


def run_deletion(
    removal: TokenRemoval,
    output: TargetOutput,
    maps: Mapping[str, Tensor],
    *,
    fractions: Sequence[float],
    orders: Sequence[Order] = ORDERS,
    draws: int = RANDOM_ORDERS,
    before_pass: BeforePass | None = None,
) -> DeletionTest:
    """Run the deletion test of ``maps`` (method -> scores (N,) of the N removable tokens) and return its result. Tokens are removed from
    the input of ``removal`` at each of ``fractions``, in each of ``orders`` and in ``draws`` random orders; ``output`` reads the target's
    numbers from the logits; ``before_pass`` is called before each forward pass. All curves share their passes, and a set of tokens that
    occurs in two of them is computed once. Raises ExplainerError if fewer than two of the fractions differ.
    """
    check_draws(draws)
    shares = sorted(set(fractions))
    counts = removal_counts(shares, removal.tokens, removal.least)
    removed_shares = [count / removal.tokens for count in counts]
    removals = [removal_order(scores, order) for order in orders for scores in maps.values()]
    values_of_curves = output.values(
        curves(removal, torch.stack([*removals, *random_orders(removal.tokens, range(draws))]), counts, before_pass)
    )

    def curve(method: str, order: Order | None, values: Mapping[str, Tensor]) -> DeletionCurve:
        plain = {name: tuple(value.tolist()) for name, value in values.items()}
        return DeletionCurve(method, order, plain, area(removed_shares, values[output.explains]))

    specs_and_orders = [(spec, order) for order in orders for spec in maps]
    deletion_curves = tuple(
        curve(spec, order, {name: value[i] for name, value in values_of_curves.items()}) for i, (spec, order) in enumerate(specs_and_orders)
    )
    baseline = curve(RANDOM, None, {name: value[len(removals) :].mean(0) for name, value in values_of_curves.items()})
    random_areas = [area(removed_shares, values) for values in values_of_curves[output.explains][len(removals) :]]
    return DeletionTest(
        target=output.label,
        explains=output.explains,
        how=removal.how,
        tokens=removal.tokens,
        fractions=tuple(shares),
        counts=tuple(counts),
        curves=deletion_curves,
        random=baseline,
        draws=draws,
        chance_gap=max(random_areas) - min(random_areas),
        ranking=_rank(deletion_curves, baseline.area, orders),
        notes=tuple(notes_on(removal, counts)),
    )


def notes_on(removal: TokenRemoval, counts: Sequence[int]) -> list[str]:
    """Return sentences for a person about a deletion test: that removed patches are painted, because the model needs all of them
    (``removal.how``), and that the last step keeps a token, because the model cannot answer without any. Empty if neither holds. ``counts``
    are the numbers of tokens gone at each step.
    """
    notes = ["This model needs all of its patches, so removed ones are painted in the mean colour."] if removal.how == "painted" else []
    keeps_one = removal.least > 0 and max(counts, default=0) == removal.tokens - removal.least
    return notes + (["This model cannot answer an empty input, so the last step keeps one token."] if keeps_one else [])


def _rank(deletion_curves: Sequence[DeletionCurve], baseline: float, orders: Sequence[Order]) -> tuple[Rank, ...]:
    """Rank methods from best to worst by the gap between the areas under their curves of both orders, or by the one area if there is one
    order. ``baseline`` is the area of the random orders. Returns one :class:`Rank` for each map and one for the random baseline, best
    first; controls stand where their gap puts them and have rank 0.
    """
    areas: dict[str, dict[Order, float]] = {}
    for line in deletion_curves:
        assert line.order is not None
        areas.setdefault(line.method, {})[line.order] = line.area
    random_areas = dict.fromkeys(orders, baseline)

    def gap(ends: Mapping[Order, float]) -> float:
        return ends.get("least", 0.0) - ends.get("most", 0.0)

    rows = [(gap(ends), method, ends, False) for method, ends in areas.items()] + [(gap(random_areas), RANDOM, random_areas, True)]
    rows.sort(key=lambda row: (-row[0], row[3]))
    ranks, rank = [], 0
    for merit, method, ends, is_baseline in rows:
        is_method = not is_baseline and not is_control(method)
        rank += is_method
        ranks.append(Rank(method, rank if is_method else 0, ends, merit, is_baseline))
    return tuple(ranks)
