"""The registry of metrics: their names, their arguments and where they were published."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from torch import Tensor

from explainers.citation import Citation, Source
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe
from explainers.models.removal.ways import How

Direction = Literal["lower", "higher"]
Unit = Literal["share", "number"]
MetricFamily = Literal["faithfulness", "completeness", "localisation", "rationales", "sanity"]

#: The families of metrics, and the question that each answers.
METRIC_FAMILIES: dict[MetricFamily, str] = {
    "faithfulness": "Does the model need what the map names?",
    "completeness": "Do the scores add up to what they explain?",
    "localisation": "Does the map lie on the object?",
    "rationales": "Does the map name the words that people marked?",
    "sanity": "Does the map depend on the model, on the class and on the input as it should?",
}

#: What a metric may take besides curves, of B maps of one kind: the name of the argument, its shape, and what it is. `needs` declares them.
METRIC_NEEDS: dict[str, str] = {}
#: By its name, what computes a need of one input that is measured; None where the input lacks it.
COMPUTED_NEEDS: dict[str, Callable[[Any], Tensor | None]] = {}


def need(name: str, about: str) -> Callable[[Callable[[Any], Tensor | None]], Callable[[Any], Tensor | None]]:
    """Declare an argument that metrics may take, with its shape and what it is. Raises ExplainerError for a name that is taken.

    The function computes it of a :class:`explainers.evaluation.measuring.Measurement`, or gives None where the input lacks it.
    """

    def declare(function: Callable[[Any], Tensor | None]) -> Callable[[Any], Tensor | None]:
        if name in METRIC_NEEDS:
            raise ExplainerError(f"There is already a need {name}.")
        METRIC_NEEDS[name], COMPUTED_NEEDS[name] = about, function
        return function

    return declare


TENTHS_OF_ALL = 10  # steps from a whole input to nothing, where a run does not say otherwise


@dataclass(frozen=True, kw_only=True)
class RemovalCurve:
    """Answers of the model while tokens are removed, as a metric asks for them.

    fractions    of the tokens, one step each
    order        which go first: the ``most`` or the ``least`` important ones, or those of ``smallest`` magnitude
    keeps_first  whether the first ones of the order are all that is kept, in place of all that is removed
    rounding     how a fraction becomes a number of tokens
    how          in which way tokens are taken away; None: as the run says
    pixels       whether single pixels are taken away, by the map enlarged bilinearly, in place of patches
    of           what is asked of the model: probabilities or logits, (B, steps, C)
    special      whether special tokens of a text are taken away too, in the order of their scores
    """

    fractions: tuple[float, ...]
    order: Literal["most", "least", "smallest"] = "most"
    keeps_first: bool = False
    rounding: Literal["down", "up"] = "down"
    how: How | None = None
    pixels: bool = False
    of: Literal["probabilities", "logits"] = "probabilities"
    special: bool = False

    def in_steps(self, steps: int) -> RemovalCurve:
        """Return the curve in so many equal steps, if it goes by tenths; any other unchanged."""
        first, last = (round(TENTHS_OF_ALL * fraction) for fraction in (self.fractions[0], self.fractions[-1]))
        if self.fractions != tuple(tenth / TENTHS_OF_ALL for tenth in range(first, last + 1)) or len(self.fractions) < 2:
            return self
        end = steps - (TENTHS_OF_ALL - last)
        return replace(self, fractions=tuple(step / steps for step in range(first, end + 1)))

    @property
    def about(self) -> str:
        """The curve in words, with its shape."""
        what = "pixels" if self.pixels else "tokens, special ones too," if self.special else "tokens"
        which = {"most": "most important", "least": "least important", "smallest": "smallest in magnitude"}[self.order]
        fate = "alone are kept" if self.keeps_first else "are gone"
        steps = f"{len(self.fractions)} steps of {min(self.fractions):.0%} to {max(self.fractions):.0%}"
        return f"(B, {len(self.fractions)}, C): {self.of} when the {which} {what} {fate}, {steps}" + (f", {self.how}" if self.how else "")


def _write_source(source: Citation | None) -> dict[str, Any] | None:
    return None if source is None else source.about().to_json()


def _takes_in_words(takes: Mapping[str, str | RemovalCurve]) -> dict[str, str]:
    return {name: need.about if isinstance(need, RemovalCurve) else METRIC_NEEDS[need] for name, need in takes.items()}


@dataclass(frozen=True, kw_only=True)
class Metric(Record, name="RunMetric"):
    """A declared metric: a pure function from what it ``takes`` to one value for each of B maps, (B,).

    takes      name of an argument -> a key of :data:`METRIC_NEEDS`, or a :class:`RemovalCurve`
    lowest     the smallest value that it can have, None where there is no bound; ``highest`` alike
    direction  which values are better; None where neither end is
    unit       a ``share`` is printed in per cent
    parts      of a metric that belongs to a whole data set: the names of the columns that its function gives for each map, (B, P), which
               are summed over inputs before ``combine`` makes one value of them, (..., P) -> (...); empty where inputs are averaged
    kinds      the kinds of input that it makes sense for
    """

    name: str
    title: str
    family: Annotated[MetricFamily, describe(kind=str, is_required=False)]
    description: str
    function: Annotated[Callable[..., Tensor], HIDDEN] = field(repr=False)
    takes: Annotated[Mapping[str, str | RemovalCurve], describe(kind=dict[str, str], write=_takes_in_words, is_required=False)]
    direction: Direction | None
    source: Annotated[Citation | None, describe(kind=Source | None, write=_write_source)]
    lowest: Annotated[float | None, describe(is_required=False)] = 0.0
    highest: Annotated[float | None, describe(is_required=False)] = 1.0
    unit: Annotated[Unit, describe(kind=str)] = "share"
    parts: Annotated[tuple[str, ...], HIDDEN] = ()
    combine: Annotated[Callable[[NDArray[Any]], NDArray[Any]] | None, HIDDEN] = field(default=None, repr=False)
    kinds: Annotated[tuple[str, ...], describe(is_required=False)] = ("image", "text", "molecule")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that hold the metric's values in a table of rows."""
        return tuple(f"{self.name}.{part}" for part in self.parts) or (self.name,)

    @property
    def curves(self) -> dict[str, RemovalCurve]:
        """The curves that the metric takes, by the name of the argument."""
        return {name: need for name, need in self.takes.items() if isinstance(need, RemovalCurve)}

    @property
    def needs(self) -> set[str]:
        """The arguments that the metric takes besides curves: keys of :data:`METRIC_NEEDS`."""
        return {need for need in self.takes.values() if isinstance(need, str)}

    def in_steps(self, steps: int) -> Metric:
        """Return the metric with its curves in so many equal steps."""
        return replace(
            self, takes={name: need.in_steps(steps) if isinstance(need, RemovalCurve) else need for name, need in self.takes.items()}
        )

    def __call__(self, **arguments: Tensor) -> Tensor:
        """Compute the values (B,), or of a metric of a data set its parts (B, P), from the arguments that :attr:`takes` names."""
        return self.function(**arguments)


#: Every metric by its name.
METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    *,
    title: str,
    family: MetricFamily,
    takes: Sequence[str | RemovalCurve] | Mapping[str, str | RemovalCurve],
    direction: Direction | None,
    source: Citation | None = None,
    **further: Any,
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Declare a metric: a pure function of what it ``takes``. The first paragraph of its docstring describes it, unless ``description``
    does. The remaining fields are those of :class:`Metric`.

    Raises ExplainerError for a name that is taken, and for a need that nothing provides.
    """

    def declare(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        needs = dict(takes) if isinstance(takes, Mapping) else {str(need): need for need in takes}
        if name in METRICS:
            raise ExplainerError(f"There is already a metric {name}.")
        if unknown_needs := [need for need in needs.values() if isinstance(need, str) and need not in METRIC_NEEDS]:
            raise ExplainerError(
                f"Metric {name} takes {', '.join(unknown_needs)}, which nothing provides; there are {', '.join(METRIC_NEEDS)}."
            )
        words = further.pop("description", None) or (function.__doc__ or "").strip().split("\n\n")[0]
        METRICS[name] = Metric(
            name=name,
            title=title,
            family=family,
            description=" ".join(words.split()),
            function=function,
            takes=needs,
            direction=direction,
            source=source,
            **further,
        )
        return function

    return declare


def find_metrics(names: Sequence[str]) -> list[Metric]:
    """Return the metrics of these names, each once. Raises ExplainerError, naming near misses, for a name that does not exist."""
    for name in names:
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(METRICS)}."
            raise ExplainerError(f"There is no metric {name!r}; {hint}")
    return [METRICS[name] for name in dict.fromkeys(names)]
