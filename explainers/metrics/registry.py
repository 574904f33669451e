"""The registry of metrics: their names, their arguments and where they were published."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
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
MetricFamily = Literal["faithfulness", "completeness", "localisation", "rationales", "sanity", "concentration"]

#: A dict from each family of metrics to the question that it answers.
METRIC_FAMILIES: dict[MetricFamily, str] = {
    "faithfulness": "Does the model need what the map names?",
    "completeness": "Do the scores add up to what they explain?",
    "localisation": "Does the map lie on the object?",
    "rationales": "Does the map name the words that people marked?",
    "sanity": "Does the map depend on the model, on the class and on the input as it should?",
    "concentration": "Does the map name few tokens?",
}

#: What a metric may take besides curves, of B maps of one kind: the name of the argument, its shape, and what it is. `needs` declares them.
METRIC_NEEDS: dict[str, str] = {}
#: Name of a need -> function that computes it for one measured input; it returns None if the input lacks it.
COMPUTED_NEEDS: dict[str, Callable[[Any], Tensor | None]] = {}


def need(name: str, about: str) -> Callable[[Callable[[Any], Tensor | None]], Callable[[Any], Tensor | None]]:
    """Declare an argument that metrics may take; ``about`` says what it is, with its shape. Raises ExplainerError for a name that is taken.

    The decorated function computes it from a :class:`explainers.evaluation.measuring.Measurement`; it returns None if the input lacks it.
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
    """A declaration of the answers that a metric needs while tokens are removed.

    fractions    shares of the tokens that are removed, one for each step
    order        which tokens are removed first: the ``most`` or the ``least`` important ones, or those of ``smallest`` magnitude
    keeps_first  whether the first tokens of the order are the only ones kept, instead of the ones removed
    rounding     how a fraction is rounded to a number of tokens
    how          the way in which tokens are removed; None: that of the run
    pixels       whether single pixels are removed, by the bilinearly enlarged map, instead of patches: they turn black
    imputed      whether removed pixels are imputed from their neighbours, with noise, instead of black; only with ``pixels``
    superpixels  how many superpixels (SLIC) a picture is cut into, about, to remove these instead of single pixels, by the sums of the map
                 over them; 0: it is not. Only with ``pixels``
    of           which answers are needed: probabilities or logits, (B, steps, C)
    special      whether special tokens of a text are removed too, in the order of their scores
    """

    fractions: tuple[float, ...]
    order: Literal["most", "least", "smallest"] = "most"
    keeps_first: bool = False
    rounding: Literal["down", "up"] = "down"
    how: How | None = None
    pixels: bool = False
    imputed: bool = False
    superpixels: int = 0
    of: Literal["probabilities", "logits"] = "probabilities"
    special: bool = False

    def in_steps(self, steps: int) -> RemovalCurve:
        """Return the curve in ``steps`` equal steps if it removes tokens by tenths; otherwise unchanged."""
        first, last = (round(TENTHS_OF_ALL * fraction) for fraction in (self.fractions[0], self.fractions[-1]))
        if self.fractions != tuple(tenth / TENTHS_OF_ALL for tenth in range(first, last + 1)) or len(self.fractions) < 2:
            return self
        end = steps - (TENTHS_OF_ALL - last)
        return replace(self, fractions=tuple(step / steps for step in range(first, end + 1)))

    @property
    def about(self) -> str:
        """The curve in words, with its shape."""
        of_picture = f"of about {self.superpixels} superpixels" if self.superpixels else "pixels"
        what = of_picture if self.pixels else "tokens, special ones too," if self.special else "tokens"
        which = {"most": "most important", "least": "least important", "smallest": "smallest in magnitude"}[self.order]
        fate = "alone are kept" if self.keeps_first else "are imputed from their neighbours" if self.imputed else "are gone"
        steps = f"{len(self.fractions)} steps of {min(self.fractions):.0%} to {max(self.fractions):.0%}"
        return f"(B, {len(self.fractions)}, C): {self.of} when the {which} {what} {fate}, {steps}" + (f", {self.how}" if self.how else "")


def _write_source(source: Citation | None) -> dict[str, Any] | None:
    return None if source is None else source.about().to_json()


def _takes_in_words(takes: Mapping[str, str | RemovalCurve]) -> dict[str, str]:
    return {name: need.about if isinstance(need, RemovalCurve) else METRIC_NEEDS[need] for name, need in takes.items()}


@dataclass(frozen=True, kw_only=True)
class Metric(Record, name="RunMetric"):
    """A declared metric: a pure function from what it ``takes`` to one value for each of B maps, (B,).

    name       its name on the command line; ``title`` is its name for people, ``description`` says what it measures
    family     the kind of metric, such as faithfulness
    function   takes the arguments that ``takes`` names; returns (B,), or (B, P) if the metric has ``parts``
    takes      name of an argument -> a key of :data:`METRIC_NEEDS`, or a :class:`RemovalCurve`
    source     the publication; None if it has none
    lowest     the smallest possible value, None if there is no bound; ``highest`` is the largest
    direction  "lower" or "higher": which values are better; None if neither is
    unit       ``share``: values are printed in per cent; ``number``: as they are
    parts      for a metric of a whole data set: the names of the columns that its function returns for each map, (B, P). They are summed
               over inputs, and ``combine`` makes one value of the sums, (..., P) -> (...). Empty for a metric that is averaged over inputs
    stem       the beginning of the names of its columns, if several metrics are computed from the same columns; empty: its name
    kinds      the kinds of input that it makes sense for
    compares_models  whether values of different models compare; they do not where a model sets the least and the largest value, as of AOPC
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
    stem: Annotated[str, HIDDEN] = ""
    kinds: Annotated[tuple[str, ...], describe(is_required=False)] = ("image", "text", "molecule")
    compares_models: Annotated[bool, HIDDEN] = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that hold the metric's values in a table of rows."""
        return tuple(f"{self.stem or self.name}.{part}" for part in self.parts) or (self.name,)

    @property
    def curves(self) -> dict[str, RemovalCurve]:
        """The curves that the metric takes, by the name of the argument."""
        return {name: need for name, need in self.takes.items() if isinstance(need, RemovalCurve)}

    @property
    def needs(self) -> set[str]:
        """The arguments that the metric takes besides curves: keys of :data:`METRIC_NEEDS`."""
        return {need for need in self.takes.values() if isinstance(need, str)}

    def in_steps(self, steps: int) -> Metric:
        """Return the metric with its curves in ``steps`` equal steps."""
        return replace(
            self, takes={name: need.in_steps(steps) if isinstance(need, RemovalCurve) else need for name, need in self.takes.items()}
        )

    def __call__(self, **arguments: Tensor) -> Tensor:
        """Return the values (B,) of the metric, or for a metric of a whole data set its parts (B, P), from ``arguments``, tensors under the
        names in :attr:`takes`.
        """
        return self.function(**arguments)


#: A dict of every declared metric by its name.
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
    """Return a decorator that declares a metric called ``name``: it is put on a pure function of the arguments in ``takes``, which returns
    a value for each of B maps, (B,). The decorator returns the function unchanged. The first paragraph of its docstring describes the
    metric, unless ``description`` does.

    title      its name for people; ``family`` is the question that it answers, a key of :data:`METRIC_FAMILIES`
    takes      keys of :data:`METRIC_NEEDS`, or a dict from the names of arguments to these or to a :class:`RemovalCurve`
    direction  "lower" or "higher": which values are better; None if neither is
    source     its publication; None if it has none
    further    other fields of :class:`Metric` by name, such as ``lowest``, ``highest``, ``unit`` and ``kinds``

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
    """Return the metrics of these names, each once. Raises ExplainerError, naming similar ones, for a name that does not exist."""
    for name in names:
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(METRICS)}."
            raise ExplainerError(f"There is no metric {name!r}; {hint}")
    return [METRICS[name] for name in dict.fromkeys(names)]


NORMALISED_AOPC = "naopc"  # the metric that takes the limits of a model out


def warn_across_models(metrics: Collection[str], models: Collection[str]) -> list[str]:
    """Return a note for a table of these ``metrics`` over these ``models``, both by name, if it holds several models and a metric whose
    values do not compare between them; else an empty list. The note names the normalised AOPC, which does, in the table or to be added.
    """
    titles = [metric.title for name, metric in METRICS.items() if name in metrics and not metric.compares_models]
    if len(set(models)) < 2 or not titles:
        return []
    instead = "The normalised AOPC" if NORMALISED_AOPC in metrics else f"For texts and molecules the normalised AOPC ({NORMALISED_AOPC})"
    return [
        f"{', '.join(titles)}: how small and how large the value can be depends on the model, so compare methods of one model alone. "
        f"{instead} compares between models (Edin et al., 2025)."
    ]
