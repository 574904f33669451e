"""Does a metric put controls where they belong: the truth itself above every method that is less true, its inverse below?

A method is less true than a control, or truer, where the interval of the difference of their truths leaves out 0. Equal values count
against a metric: one that says the same of every map puts nothing right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from explainers.evaluation.controls import KNOWN_ORDER
from explainers.evaluation.statistics import LEVEL, Numbers
from explainers.json_records import INLINE, Record, describe

__all__ = ["Side", "WorldControls", "side_of", "sum_of_worlds"]

RANDOM = "random"  # the method
TRUTH, INVERTED = "truth", "truth_inverted"
Side = Literal["above", "below", "alike"]
#: A function from weights (draws, inputs), how often each input is drawn, to the values (draws, M + K) of methods followed by controls,
#: the larger the better.
Values = Callable[[Numbers], Numbers]


@dataclass(frozen=True)
class ControlFigure(Record):
    """The comparisons of a control with truer and less true methods: ``of`` is their number, ``right`` how many of them a metric orders
    correctly.
    """

    right: int
    of: int


@dataclass(frozen=True)
class ControlPlace(Record):
    """The rank (``place``) that a metric gives to a control in one world, and how many comparisons with methods it orders correctly."""

    figure: Annotated[ControlFigure, INLINE]
    place: Annotated[int, describe("Among those methods and the control.")]


@dataclass(frozen=True, kw_only=True)
class ControlsInWorld(Record):
    """The ranks that a metric gives to the controls of one world, and whether it puts the truth above random numbers and its inverse."""

    places: Annotated[dict[str, ControlPlace], describe("By control.")]
    random: Annotated[Side | None, describe("On which side of random numbers it puts the truth itself; null where one has no value.")]
    inverted: Annotated[Side | None, describe("On which side of its inverse it puts the truth itself; null where one has no value.")]
    pairs: Annotated[int, describe("How many pairs of controls have a known order.")]
    pairs_right: Annotated[int, describe("How many of these it orders correctly.")]


@dataclass(frozen=True, kw_only=True)
class ControlsOfKind(Record):
    """The standing of the controls by one metric, over all worlds of one kind of input: how many comparisons of controls with methods the
    metric orders correctly, whether it ranks the truth first and its inverse last, and the worlds in which it ranks the truth below random
    numbers or below its inverse.
    """

    controls: Annotated[dict[str, ControlFigure], describe("By control, over the worlds whose marks are all that answers come from.")]
    first: Annotated[
        bool | None, describe("Whether it puts the truth first and its inverse last in each of these; null where there is none.")
    ]
    below_random: Annotated[list[str], describe("The worlds in which it puts the truth measurably below random numbers.")]
    like_random: Annotated[list[str], describe("Those in which it cannot tell the truth from random numbers.")]
    below_inverted: Annotated[list[str], describe("Those in which it puts the truth measurably below its inverse.")]
    like_inverted: Annotated[list[str], describe("Those in which it cannot tell the truth from its inverse.")]
    pairs: int
    pairs_right: int
    worlds: int


def side_of(difference: Numbers) -> Side | None:
    """Return whether the interval of a difference, from its draws (draws,), lies "above" 0, "below" it, or contains it ("alike"); None if
    no draw has a number.
    """
    if not np.isfinite(difference).any():
        return None
    low, high = np.nanquantile(difference, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return "above" if low > 0 else "below" if high < 0 else "alike"


class WorldControls:
    """The controls of one world of known truth, compared with the methods there.

    names       of methods, followed by those of the controls
    has_map     bool (inputs, K): whether an input with a truth has the map of each control; others are not counted
    weights     (draws, inputs), how often each input is drawn
    truth       function from weights to the methods' values by the metric that is the truth
    """

    def __init__(
        self, methods: Sequence[str], controls: Sequence[str], has_map: NDArray[np.bool_], weights: Numbers, truth: Values
    ) -> None:
        self.methods, self.names = list(methods), [*methods, *controls]
        self.controls = [name for name, inputs in zip(controls, has_map.T, strict=True) if inputs.any()]
        self._has_map = {name: has_map[:, i] for i, name in enumerate(controls)}
        self._weights, self._truth = weights, truth

    @cached_property
    def _sides(self) -> dict[str, list[Side | None]]:
        """Return for each control (by name) and each method, in the order of the methods, whether the control is truer, less true or not
        distinguishable.
        """
        sides = {}
        for name in self.controls:
            draws = self._truth(self._weights * self._has_maps((name,)))
            sides[name] = [side_of(draws[:, self.names.index(name)] - draws[:, i]) for i in range(len(self.methods))]
        return sides

    def by_truth(self) -> list[dict[str, Any]]:
        """Return for each control its value by the truth with the interval, and its rank by the truth among the methods; of equal ranks the
        first.
        """
        figures = []
        for name in self.controls:
            once, i = self._once((name,), self._truth), self.names.index(name)
            draws = self._truth(self._weights * self._has_maps((name,)))
            low, high = np.nanquantile(draws[:, i], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            place = 1 + int((once[: len(self.methods)] > once[i]).sum())
            figures.append({"name": name, "value": float(once[i]), "low": float(low), "high": float(high), "place": place})
        return figures

    def by_metric(self, values: Values) -> dict[str, Any] | None:
        """Return where a metric ranks the controls, :class:`ControlsInWorld` as plain data; None where it has no value for the truth
        itself. A control is compared with the methods that are measurably truer or less true.
        """
        places = {}
        for name in self.controls:
            once = self._once((name,), values)
            control_value = float(once[self.names.index(name)])
            pairs = zip(self._sides[name], once[: len(self.methods)], strict=True)
            compared = [(side, float(value)) for side, value in pairs if side in ("above", "below") and np.isfinite(value)]
            if np.isfinite(control_value) and compared:
                is_below = [(value < control_value) if side == "above" else (value <= control_value) for side, value in compared]
                right = sum(below == (side == "above") for below, (side, _) in zip(is_below, compared, strict=True))
                places[name] = ControlPlace(ControlFigure(right, len(compared)), 1 + is_below.count(False))
        if TRUTH not in places:
            return None
        orders = [order for pair in KNOWN_ORDER if (order := self._order_of(pair, values)) is not None]
        return ControlsInWorld(
            places=places,
            random=self._side_of_truth(RANDOM, values),
            inverted=self._side_of_truth(INVERTED, values),
            pairs=len(orders),
            pairs_right=sum(orders),
        ).to_json()

    def _has_maps(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return which inputs have the maps of all the controls in ``names``, bool (inputs,)."""
        has_maps: NDArray[np.bool_] = np.all([self._has_map[name] for name in names if name in self._has_map], 0)
        return has_maps

    def _once(self, names: Sequence[str], values: Values) -> Numbers:
        """Return the values (M + K,) of M methods and K controls by a metric. They are computed on the inputs that have the maps of all
        controls in ``names``, each input counted once. ``values`` is the metric as a function from the weights of the inputs to these
        values.
        """
        once: Numbers = values(self._has_maps(names)[None].astype(np.float64))[0]
        return once

    def _order_of(self, pair: tuple[str, str], values: Values) -> bool | None:
        """Return whether the first of a ``pair`` of methods or controls has the larger value by a metric; None if either has no value.
        ``values`` is the metric as a function of the weights of the inputs.
        """
        if any(name not in self.controls and name not in self.methods for name in pair):
            return None
        once = self._once(pair, values)
        first, second = (once[self.names.index(name)] for name in pair)
        return bool(first > second) if np.isfinite(first) and np.isfinite(second) else None

    def _side_of_truth(self, other: str, values: Values) -> Side | None:
        if other not in self.controls and other not in self.methods:
            return None
        draws = values(self._weights * self._has_maps((TRUTH, other)))
        return side_of(draws[:, self.names.index(TRUTH)] - draws[:, self.names.index(other)])


def sum_of_worlds(places_of_worlds: dict[str, dict[str, Any] | None], marks_alone: Collection[str]) -> dict[str, Any] | None:
    """Combine the results of a metric on controls over several worlds, :class:`ControlsOfKind` as plain data; None where it has no value in
    any of them.

    Only the worlds ``marks_alone`` count for ``controls`` and ``first``: elsewhere a method may know better than the marks.
    """
    known = {name: about for name, about in places_of_worlds.items() if about is not None}
    if not known:
        return None
    places = [about["places"] for name, about in known.items() if name in marks_alone]
    names = dict.fromkeys(name for of_world in places for name in of_world)
    of_control = {name: [of_world[name] for of_world in places if name in of_world] for name in names}
    is_right = [place["right"] == place["of"] for name in (TRUTH, INVERTED) for place in of_control.get(name, ())]
    return ControlsOfKind(
        controls={name: ControlFigure(*(sum(place[key] for place in of) for key in ("right", "of"))) for name, of in of_control.items()},
        first=all(is_right) if is_right else None,
        below_random=[name for name, about in known.items() if about["random"] == "below"],
        like_random=[name for name, about in known.items() if about["random"] == "alike"],
        below_inverted=[name for name, about in known.items() if about["inverted"] == "below"],
        like_inverted=[name for name, about in known.items() if about["inverted"] == "alike"],
        pairs=sum(about["pairs"] for about in known.values()),
        pairs_right=sum(about["pairs_right"] for about in known.values()),
        worlds=len(known),
    ).to_json()
