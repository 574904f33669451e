"""The registry of metrics: what each measures, what it takes, and where it was published."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from numpy.typing import NDArray
from torch import Tensor

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.models.removal.ways import How

Direction = Literal["higher", "lower"]
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

#: What a metric may take besides curves, of B maps of one kind: the name of the argument, its shape, and what it is.
METRIC_NEEDS: dict[str, str] = {
    "whole": "(B, C): probabilities of the classes for the whole input",
    "logits": "(B, C): logits of the classes for the whole input",
    "target": "bool (B, C): the explained class, or the classes of the explained group",
    "gold": "bool (B, C): the classes that the data set gives, any of which is right",
    "answer": "bool (B, C): the classes that keep the answer: the explained ones; where the data set's class is explained, all it gives",
    "scores": "(B, N): one score for each patch or word piece, the same tokens in each row",
    "leave_one_out": "(B, N): how far the explained number falls without each patch or word piece alone",
    "soft": "(B, 3): probability of the explained class with elements of the embedded tokens kept by the map, removed by it, and all zero",
    "shown": "(B, C): probabilities of the classes for the picture times the map, which goes from 0 to 1",
    "maps": "(B, rows, columns): one score for each patch",
    "mask": "bool (B, height, width): where the explained object is",
    "labelled": "bool (B, height, width): which pixels the data set says anything about",
    "others": "bool (B, K, height, width): where each of the other objects is",
    "cell": "int (B, 2): row and column of the picture of the explained class in a mosaic of two rows of two",
    "word_scores": "(B, W): one score for each word of the text; -inf for one that the model did not read",
    "rationale": "bool (B, W): the words that people marked, read or not",
    "passages": "bool (B, P, W): the words of each passage that people marked",
    "error": "(B,): how far the scores miss the explained number; not a number where a method promises no sum",
    "block_sums": "(B, 3, L): at the input of each block the explained number, what the tokens hold of it, and the bias terms behind it; "
    "not a number where a method follows no rule",
    "other": "(B, N): the scores when another class is explained",
    "randomised": "(B, L, N): the scores after the weights of ever more layers were randomised, from the output down",
    "all_random": "(B, N): the scores after the weights of all layers were randomised",
    "disturbed": "(B, K, N): the scores after K small changes of the input",
}


TENTHS_OF_ALL = 10  # steps from a whole input to nothing, where a run does not say otherwise


@dataclass(frozen=True, kw_only=True)
class RemovalCurve:
    """Answers of the model while tokens are taken away.

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
        """The same curve in so many equal steps, of one that goes by tenths; any other as it is."""
        first, last = (round(TENTHS_OF_ALL * fraction) for fraction in (self.fractions[0], self.fractions[-1]))
        if self.fractions != tuple(tenth / TENTHS_OF_ALL for tenth in range(first, last + 1)) or len(self.fractions) < 2:
            return self
        end = steps - (TENTHS_OF_ALL - last)
        return replace(self, fractions=tuple(step / steps for step in range(first, end + 1)))

    @property
    def about(self) -> str:
        """The curve in words."""
        what = "pixels" if self.pixels else "tokens, special ones too," if self.special else "tokens"
        which = {"most": "most important", "least": "least important", "smallest": "smallest in magnitude"}[self.order]
        fate = "alone are kept" if self.keeps_first else "are gone"
        steps = f"{len(self.fractions)} steps of {min(self.fractions):.0%} to {max(self.fractions):.0%}"
        return f"(B, {len(self.fractions)}, C): {self.of} when the {which} {what} {fate}, {steps}" + (f", {self.how}" if self.how else "")


@dataclass(frozen=True, kw_only=True)
class Metric:
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
    family: MetricFamily
    description: str
    function: Callable[..., Tensor] = field(repr=False)
    takes: Mapping[str, str | RemovalCurve]
    direction: Direction | None
    source: Citation | None
    lowest: float | None = 0.0
    highest: float | None = 1.0
    unit: Unit = "share"
    parts: tuple[str, ...] = ()
    combine: Callable[[NDArray[Any]], NDArray[Any]] | None = field(default=None, repr=False)
    kinds: tuple[str, ...] = ("image", "text", "molecule")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table of rows that hold its values."""
        return tuple(f"{self.name}.{part}" for part in self.parts) or (self.name,)

    @property
    def curves(self) -> dict[str, RemovalCurve]:
        """The curves that it takes, by the name of the argument."""
        return {name: need for name, need in self.takes.items() if isinstance(need, RemovalCurve)}

    @property
    def needs(self) -> set[str]:
        """What it takes besides curves: keys of :data:`METRIC_NEEDS`."""
        return {need for need in self.takes.values() if isinstance(need, str)}

    def in_steps(self, steps: int) -> Metric:
        """The same metric, whose curves go in so many equal steps."""
        return replace(
            self, takes={name: need.in_steps(steps) if isinstance(need, RemovalCurve) else need for name, need in self.takes.items()}
        )

    def __call__(self, **arguments: Tensor) -> Tensor:
        """The values (B,), or of a metric of a data set its parts (B, P), of what :attr:`takes` names."""
        return self.function(**arguments)

    def about(self) -> dict[str, Any]:
        """The declaration as plain data, without its function."""
        facts = {key: getattr(self, key) for key in ("name", "title", "family", "description", "direction", "lowest", "highest", "unit")}
        takes = {name: need.about if isinstance(need, RemovalCurve) else METRIC_NEEDS[need] for name, need in self.takes.items()}
        source = None if self.source is None else self.source.about()
        return {**facts, "source": source, "takes": takes, "kinds": list(self.kinds)}


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
    """The metrics of these names, each once. Raises ExplainerError, naming near misses, for a name that does not exist."""
    for name in names:
        if name not in METRICS:
            near = difflib.get_close_matches(name, METRICS, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(METRICS)}."
            raise ExplainerError(f"There is no metric {name!r}; {hint}")
    return [METRICS[name] for name in dict.fromkeys(names)]
