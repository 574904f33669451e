"""Summary of a class: one method over many inputs, with mean maps, totals by word, and the trust in each map.

Words, and the names among them, are ranked by their total relevance as in Ali et al. 2022 (:mod:`explainers.analysis.word_ranking`).
An input's trust is the symmetric relevance gain of its map (Blücher et al., TMLR 2024): the area under the explained number while tokens
go least important first, less that while they go most important first. Below 0 the map names what the model does not need.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from explainers.analysis.word_ranking import WordTotal, names_in, word_totals
from explainers.errors import ExplainerError
from explainers.methods import parse
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.metrics.removal_curves import area, curves, removal_counts, removal_order
from explainers.models.inputs.types import Crop, TextInput, TextPair
from explainers.models.model import Model
from explainers.models.removal.patches import patch_removal
from explainers.models.removal.token_removal import TokenRemoval
from explainers.models.removal.words import window_removal, word_removal
from explainers.pipeline.explain import explain
from explainers.records.result import Explanation
from explainers.records.session import check_seed
from explainers.records.targets import Classes, TargetLike, as_targets, prompts_of, resolve
from explainers.rendering.overlays import map_picture
from explainers.rendering.plain import align
from explainers.self_check.opening import model_of

SHOWN_WORDS = 10  # words of a summary that is printed
TRUST_FRACTIONS = (0, 0.25, 0.5, 0.75, 1)  # of the tokens, at which the model is asked again for an input's trust


@dataclass(frozen=True)
class SummaryRow:
    """One input in a summary, with its map; or the ``problem`` for which there is no map, and then the other fields keep their defaults.

    name    its file name, the beginning of its text, or "input" and its number
    key     digest of the input, hexadecimal, by which it is found again in the file of rows
    label   the explained class; ``value`` is its logit, or its probability if that is explained
    trust   symmetric relevance gain of the map: the larger, the better the map
    scores  of a picture: the scores of its patches in raster order
    grid    (rows, columns) of the patches; None for a text
    words   of a text: each word with its score
    """

    name: str
    key: str = field(repr=False)
    label: str = ""
    value: float = 0.0
    trust: float = 0.0
    scores: list[float] = field(default_factory=list, repr=False)  # hundreds of numbers: who prints a row wants to read it
    grid: tuple[int, int] | None = None
    words: list[tuple[str, float]] = field(default_factory=list, repr=False)
    problem: str | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """The maps of one method over many inputs, and what they have in common.

    model     name of the model
    method    spec of the method
    target    label of the explained class, or "the top class" of each input
    rows      the explained inputs in their order
    problems  the inputs that could not be explained
    mean      images: (rows, columns), the mean of the maps, each divided by the sum of its magnitudes, so that every picture counts alike;
              None for texts
    words     texts: every word, the largest total first
    """

    model: str
    method: str
    target: str
    rows: list[SummaryRow]
    problems: list[SummaryRow]
    mean: Tensor | None
    words: list[WordTotal]

    def most_trusted(self, count: int = 5) -> list[SummaryRow]:
        """Return the ``count`` inputs on which the method's map is most trusted (their ``trust``, the symmetric relevance gain, is
        largest), the best first.
        """
        return sorted(self.rows, key=lambda row: -row.trust)[:count]

    def least_trusted(self, count: int = 5) -> list[SummaryRow]:
        """Return the ``count`` inputs on which the method's map is least trusted (their ``trust`` is smallest), the worst first."""
        return sorted(self.rows, key=lambda row: row.trust)[:count]

    def rank(self, words: Iterable[str]) -> list[WordTotal]:
        """Return the totals of those of ``words`` that are in the texts, in any case of letters, the largest total first: for each the
        ``word``, its ``count``, and the ``total`` and ``mean`` of its scores.

        Examples are names, places, and words that should not matter. Raises ExplainerError for a string in place of a list, and for several
        words in one.
        """
        if isinstance(words, str):
            raise ExplainerError(f"rank takes a list of words, not one string; send [{words!r}]")
        wanted_words = {str(word).strip().casefold() for word in words}
        if phrases := sorted(word for word in wanted_words if len(word.split()) != 1):
            raise ExplainerError(f"{phrases[0]!r} is not one word; scores belong to single words, so send each by itself")
        return [word for word in self.words if word.word in wanted_words]

    def names(self) -> list[WordTotal]:
        """Return the names and other entities of the texts, the largest total first: the words that begin with a capital inside a sentence
        more often than they stand in lower case. The capitals are those of the texts, also where a tokenizer makes all letters small.

        In texts without any capital only first names are found; pass other names to :meth:`rank`.
        """
        return self.rank(names_in([word for word, _ in row.words] for row in self.rows))

    def picture(self, size: int = 448) -> Image.Image:
        """Return the mean map as a picture, ``size`` pixels along its longer side. Raises ExplainerError for texts, which have none."""
        if self.mean is None:
            raise ExplainerError("Texts have no mean map: see .words.")
        return map_picture(self.mean.float().numpy(), parse(self.method).method.signed, size)

    def __str__(self) -> str:
        lines = [f"{self.method} for {self.target}: {len(self.rows)} inputs of {self.model}"]
        if self.words:
            words = [(word.word, str(word.count), f"{word.total:+.3g}") for word in self.words[:SHOWN_WORDS]]
            lines += align([("word", "times", "total"), *words], left=(0,))
        for title, rows in (("trusted most", self.most_trusted()), ("trusted least", self.least_trusted())):
            lines += align([(title, "target", "gain"), *((row.name, row.label, f"{row.trust:+.3g}") for row in rows)], left=(0, 1))
        return "\n".join([*lines, *(f"note: {row.name}: {row.problem}" for row in self.problems)])

    def _repr_html_(self) -> str:
        """Return the tables and the mean map: what a notebook shows."""
        from explainers.rendering.notebook import picture_html, text_html

        shown = [] if self.mean is None else [picture_html(self.picture(), f"Mean map of {self.method} for {self.target}")]
        return text_html(str(self), *shown)

    def page(self) -> str:
        """Return the tables and the mean map as one self-contained HTML page."""
        from explainers.rendering.notebook import page_html

        return page_html(f"{self.model}: {self.target}", self._repr_html_())

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain data for JSON; rows are without their maps."""

        def brief(rows: Sequence[SummaryRow]) -> list[dict[str, Any]]:
            return [{"name": row.name, "label": row.label, "value": row.value, "trust": row.trust} for row in rows]

        rankings = {"words": self.words, "names": self.names()}
        return {
            "model": self.model,
            "method": self.method,
            "target": self.target,
            "inputs": len(self.rows),
            **({} if self.mean is None else {"mean": self.mean.tolist()}),
            **({name: [asdict(word) for word in words] for name, words in rankings.items()} if self.words else {}),
            "most_trusted": brief(self.most_trusted()),
            "least_trusted": brief(self.least_trusted()),
            "problems": [{"name": row.name, "problem": row.problem} for row in self.problems],
        }


def summarise(
    model: Any,
    inputs: Iterable[Any],
    target: TargetLike = None,
    method: str = "fullgrad_plus:libra",
    *,
    rows: Path | str | None = None,
    seed: int = 0,
    progress: Callable[[SummaryRow], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Summary:
    """Explain many inputs by one method, and sum up what it finds.

    model     a model in any form that :func:`explain` takes
    inputs    a list (or another iterable) of images, paths or texts: what :func:`explain` takes, but for tensors
    target    one target, in any form that :func:`explain` takes, for all inputs; None: each input's top class
    rows      a file with one line for each input, written as the work goes on: inputs that are already in it are not explained again. None:
              no file
    seed      for methods that draw at random
    progress  called with each input when it is done
    cancelled  asked between passes; when true, :class:`Cancelled` is raised

    An input that cannot be read or explained is among ``problems``. Raises ExplainerError for a target or method that does not fit the
    model, before the first input; for no inputs, and for a file that is damaged or of another summary.
    """
    model = model_of(model)
    _check(model, inputs, target, method)
    seed = check_seed(seed)
    settings = {"model": model.name, "weights": model.weights_digest, "target": repr(target), "method": method, "seed": seed}
    settings["calibration"] = model.calibration.probability_settings()
    stored = {} if rows is None else _stored_rows(Path(rows), settings)
    all_rows: list[SummaryRow] = []
    for index, item in enumerate(inputs):
        row = stored.get(key := _key(item))
        if row is None:
            row = _row(model, item, _name(item, index), key, target, method, seed=seed, cancelled=cancelled)
            if rows is not None:
                with Path(rows).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
        all_rows.append(row)
        if progress is not None:
            progress(row)
    if not all_rows:
        raise ExplainerError("there are no inputs to sum up; send at least one")
    good = [row for row in all_rows if row.problem is None]
    if not good:
        raise ExplainerError(f"none of the {len(all_rows)} inputs could be explained; of the first: {all_rows[0].problem}")
    target_name = "the top class" if target is None else good[0].label
    return Summary(
        model.name, method, target_name, good, [row for row in all_rows if row.problem], _mean(good), word_totals(row.words for row in good)
    )


def _check(model: Model, inputs: Any, target: Any, method: Any) -> None:
    """Raise ExplainerError if the inputs are no list, or if the target or the method does not suit the model."""
    if isinstance(inputs, str | bytes | Mapping | Tensor | Crop | TextPair) or not isinstance(inputs, Iterable):
        raise ExplainerError(f"inputs is a list of images, paths or texts, not a {type(inputs).__name__}; send [input] for a single one")
    if isinstance(target, list | tuple):
        raise ExplainerError(f"one target is summed up at a time, not {len(target)}; sum up each of them by itself")
    if not isinstance(method, str):
        raise ExplainerError(f"one method is summed up at a time: a spec such as fullgrad_plus:libra, not a {type(method).__name__}")
    (single,) = as_targets(target)
    request = parse(method, None, len(model.blocks))
    if reason := reason_against(request.method, missing_requirements(model), request.options):
        raise ExplainerError(f"{request.spec} cannot run here. {reason}")
    labels = list(model.labels) if model.prompt_inputs is None else prompts_of([single], alone=model.side == "text")
    logits = torch.zeros(1, len(labels))
    resolved = resolve(single, Classes.of(model, labels), logits)
    if request.rule is not None:
        resolved.output_gradient(logits, request.rule)


def _row(model: Model, item: Any, name: str, key: str, target: TargetLike, method: str, **options: Any) -> SummaryRow:
    try:
        result: Explanation = explain(model, item, target, method, **options)
    except (ExplainerError, OSError) as problem:
        return SummaryRow(name, key, problem=str(problem))
    attribution = result.maps[0]
    words = [] if attribution.text is None else [(word.text, word.score) for word in attribution.words()]
    content_scores = attribution.scores[attribution.content]
    return SummaryRow(
        name,
        key,
        result.target.label,
        _value(result),
        _trust(model, result, target),
        content_scores.tolist() if attribution.patches else [],
        attribution.patches,
        words,
    )


def _value(result: Explanation) -> float:
    target = result.target
    return float(target.probability if target.explains == "probability" and target.probability is not None else target.logit)


def _trust(model: Model, result: Explanation, target: TargetLike) -> float:
    """Return the symmetric relevance gain of the first map in ``result``, by which a summary of the answers of ``model`` ranks its inputs:
    the area under the target's number while the least relevant tokens are removed first, minus that while the most relevant are.
    """
    removal, attribution = _removal(model, result), result.maps[0]
    counts = removal_counts(TRUST_FRACTIONS, removal.tokens, removal.least)
    content_scores = attribution.scores[attribution.content]
    orders = torch.stack([removal_order(content_scores, "most"), removal_order(content_scores, "least")])
    logits = curves(removal, orders, counts)
    (single,) = as_targets(target)
    whole = single.with_top_class(int(result.logits.argmax()))  # of the whole input, whatever is removed
    resolved = resolve(whole, Classes.of(model, list(result.labels)), logits.flatten(0, 1))
    most, least = resolved.value(logits.flatten(0, 1)).unflatten(0, logits.shape[:2])
    shares = [count / removal.tokens for count in counts]
    return area(shares, least) - area(shares, most)


def _removal(model: Model, result: Explanation) -> TokenRemoval:
    attribution = result.maps[0]
    if attribution.patches is not None:
        return patch_removal(model, result.tensors, attribution.patches)
    assert isinstance(result.input, TextInput)
    if result.windows and (windows := model.windows(result.input.text)) is not None:
        return window_removal(model, windows)
    return word_removal(model, result.tensors, attribution.content)


def _mean(rows: Sequence[SummaryRow]) -> Tensor | None:
    """Return the mean map (rows, columns) of pictures, each map divided by the sum of its magnitudes; None if any of ``rows`` is a text.
    Raises ExplainerError if their grids differ.
    """
    grids = {row.grid for row in rows}
    if None in grids:
        return None
    if len(grids) > 1:
        raise ExplainerError(f"the pictures have {len(grids)} grids of patches, so their maps have no mean: {sorted(map(str, grids))}")
    (grid,) = grids
    assert grid is not None
    maps = torch.tensor([row.scores for row in rows])
    weights = maps.abs().sum(1, keepdim=True).clamp(min=torch.finfo(maps.dtype).tiny)
    mean: Tensor = (maps / weights).mean(0).unflatten(0, grid)
    return mean


def _stored_rows(path: Path, settings: dict[str, Any]) -> dict[str, SummaryRow]:
    """Return, by the digest of their input, the rows that the file ``path`` holds of a summary with these ``settings``; create the file if
    there is none. A line that was cut off while it was written is dropped.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings) + "\n", "utf-8")
        return {}
    lines = path.read_text("utf-8").split("\n")
    if len(lines) == 1 or not isinstance(first := _record(lines[0]), dict):
        raise ExplainerError(f"the first line of {path}, which says of what summary it is, is damaged; delete the file or name another")
    if first != settings:
        raise ExplainerError(f"{path} holds another summary (another model, calibration, target, method or seed); name another file")
    if lines[-1]:
        path.write_text("\n".join(lines[:-1]) + "\n", "utf-8")
    records = [_record(line) for line in lines[1:-1]]
    for number, record in enumerate(records, 2):
        if not isinstance(record, dict):
            raise ExplainerError(f"line {number} of {path} is damaged; delete that line, and its input is explained again")
    return {row["key"]: SummaryRow(**{**row, "grid": None if row["grid"] is None else tuple(row["grid"])}) for row in records}


def _record(line: str) -> Any:
    """Parse a line of a file as JSON and return its value; None if it is not JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _key(item: Any) -> str:
    """Return a digest of an input, the ``item`` (a file's path, a picture or a text), as hexadecimal digits, by which it is found again in
    a stored summary.
    """
    if isinstance(item, Path):
        return hashlib.sha256(item.read_bytes() if item.is_file() else str(item).encode()).hexdigest()
    if isinstance(item, Image.Image):
        return hashlib.sha256(repr((item.mode, item.size)).encode() + item.tobytes()).hexdigest()
    return hashlib.sha256(repr(item).encode()).hexdigest()


def _name(item: Any, index: int) -> str:
    if isinstance(item, Path):
        return item.name
    return item[:80] if isinstance(item, str) else f"input {index + 1}"
