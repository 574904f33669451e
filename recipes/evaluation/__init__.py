"""How good the embedded models are, measured on what they never saw in training: ``python -m recipes evaluate``.

Every entry of `EVALUATIONS` is a module with ``measure(name, setting)``, which gives a `Report`. A further model is one
entry more.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

MODELS = Path(__file__).parents[2] / "explainers" / "embedded" / "models"
EVALUATIONS = {
    "scenes-vit": "recipes.evaluation.scenes",
    "photos-vit": "recipes.evaluation.photos",
    "clip": "recipes.evaluation.clip",
    "reviews-bert": "recipes.evaluation.reviews",
    "molecules": "recipes.evaluation.molecules",
    "scenes-llava": "recipes.evaluation.scene_answers",
    "all": "recipes.evaluation.size_and_load_time",
}
#: The module that measures each model that ``python -m recipes train`` makes and that is not embedded.
FINE_TUNED = {
    "reviews": "recipes.evaluation.finetuned_reviews",
    "marks-vit": "recipes.evaluation.known_truth",
    "votes-vit": "recipes.evaluation.known_truth",
    "subject-verb-bert": "recipes.evaluation.known_truth",
}
JUDGED_METHOD = "fullgrad_plus:libra"  # the method whose maps are held to a bar where none is named
CONTROL = "random"

Form = Literal["share", "times", "score", "seconds", "megabytes"]
_FORMS: dict[Form, str] = {"share": "{:.1%}", "times": "{:.2f} x", "score": "{:.3f}", "seconds": "{:.2f} s", "megabytes": "{:.1f} MB"}


def format_value(value: float, form: Form) -> str:
    """Format ``value``, a measured one, for people, by its ``form``: as a percentage, a multiple, a score, seconds or megabytes."""
    return _FORMS[form].format(value)


@dataclass(frozen=True)
class Figure:
    """One measured value of a model, a row of the table.

    value   None if it was not measured; then ``note`` says why
    bar     the goal: at least, or with ``at_most`` at most that; None if there is none
    note    what a reader should know: how many, which method
    """

    model: str
    what: str
    value: float | None
    bar: float | None = None
    form: Form = "share"
    at_most: bool = False
    note: str = ""

    @property
    def short_by(self) -> float | None:
        """The amount by which the value misses its bar, 0 where the bar is met; None without a bar or a value."""
        if self.value is None or self.bar is None:
            return None
        return max(0.0, self.value - self.bar if self.at_most else self.bar - self.value)

    @property
    def verdict(self) -> str:
        """The result in words: "met", "short by ..." or "over by ...", "skipped"; empty without a bar."""
        if self.value is None:
            return "skipped"
        if self.short_by is None:
            return ""
        if self.short_by == 0:
            return "met"
        gap = f"{100 * self.short_by:.1f} points" if self.form == "share" else format_value(self.short_by, self.form)
        return f"over by {gap}" if self.at_most else f"short by {gap}"


#: A table of figures by the names of row and column, such as the F1 of each method at each k.
Table = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Report:
    """The results for one model.

    figures  the rows of the table of results, such as an accuracy, each with its bar
    tables   title -> table of results by method
    """

    figures: list[Figure]
    tables: dict[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """The options of a measurement.

    folder   the folder of the model
    data     the folder of data sets that are not part of the project; None if there is none
    limit    largest number of scenes or texts of each kind, for a quick look; None: as many as the measurement asks for
    methods  specs of the methods whose maps are measured; None: the methods of the pages. `JUDGED_METHOD` and `CONTROL` are always added
    """

    folder: Path
    data: Path | None = None
    limit: int | None = None
    methods: Sequence[str] | None = None

    def limit_to(self, number: int) -> int:
        """Return ``number``, or the limit where that is less."""
        return number if self.limit is None else min(number, self.limit)

    def specs(self, usual: Sequence[str]) -> list[str]:
        """Return the specs of the methods to measure: ``usual``, the methods of the pages, unless the setting names others."""
        return list(dict.fromkeys([*(usual if self.methods is None else self.methods), JUDGED_METHOD, CONTROL]))


def measure(name: str, setting: Setting) -> Report:
    """Measure the model called ``name``, an entry of `EVALUATIONS` or `FINE_TUNED`, with the options in ``setting``, and return its
    :class:`Report`. Raises FileNotFoundError if data is missing, and ExplainerError as the measurement of this model does.
    """
    report: Report = importlib.import_module((EVALUATIONS | FINE_TUNED)[name]).measure(name, setting)
    return report


def best_method(figures: dict[str, float]) -> str:
    """Return the method with the largest value in ``figures`` (method -> value), the random control left out."""
    return max((method for method in figures if method != CONTROL), key=figures.__getitem__)
