"""``diff``: two models asked about the same inputs, and their collections compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from explainers.collection.collect import collect
from explainers.collection.diff.comparison import compare
from explainers.collection.diff.difference import Difference
from explainers.collection.diff.null_correlations import NULL_ROWS, NullKind, mirrored
from explainers.collection.diff.report import write_page
from explainers.collection.result import Collection, open_collection
from explainers.collection.sources import open_inputs
from explainers.errors import ExplainerError
from explainers.evaluation.rows import RUN
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from explainers.collection.running import CollectionEngine
    from explainers.datasets import Dataset
    from explainers.models.model import Model

#: The collections of a comparison, by the names of their folders: of the old model, the new one, and the maps that chance is read from.
DiffSide = Literal["old", "new", "null"]
#: Returns the engine that makes the collection of a side.
EngineOf = Callable[["DiffSide"], "CollectionEngine"]
#: A callback that gets what is collected, how many of its inputs are done, and of how many.
DiffProgress = Callable[[str, int, int], None]


def diff(
    old: Any,
    new: Any,
    data: str | Path | Dataset | None,
    out: Path | str,
    methods: Sequence[str] | None = None,
    *,
    reference: Any = None,
    folder: Path | str | None = None,
    split: str | None = None,
    prompts: Sequence[str] | None = None,
    limit: int | None = None,
    labels: bool = True,
    seed: int = 0,
    batch: int | None = None,
    skip_broken: bool = False,
    engine_of: EngineOf | None = None,
    progress: DiffProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Difference | None:
    """Compare two models, such as two checkpoints, on the same inputs: which answers changed, which stayed the same for another reason, and
    how much of the maps lies on the object, at the border and on words before and after. Returns the :class:`Difference`, or None if
    ``cancelled`` stopped it.

    old, new   models in any form that :func:`explain` takes, or finished collections (:class:`Collection`, or their folders), whose rows
               are used again
    data       the inputs, as for :func:`collect`; None where old and new are collections
    out        the folder of the results: report.html, report.json, differences.parquet, and the collections that were made, ``old``,
               ``new`` and ``null``. A stopped comparison goes on from there
    methods    specs of the maps, of which the first decides whether the reason changed; None: as for :func:`collect`. With a collection,
               its methods, limit, seed and use of labels hold for the other side
    reference  a third model, or its collection, that is known to be as good as the old one, such as one of another seed. A reason counts as
               another one where the maps of old and new are less alike than those of old and reference are in 95 % of the inputs. None: for
               pictures the maps of the old model for mirrored pictures take its place (where old is no collection), else only rows far
               below the others are found
        progress   called with what is collected (``old``, ``new``, ...), and how many of its inputs are done, and of how many
        engine_of  called with "old", "new" or "null" for the engine that makes this collection; None: this process makes all. Mirrored
                   pictures, at most 400, are asked about in this process, as no name opens them elsewhere
        others     folder, split, prompts, limit, labels, seed, batch, skip_broken and cancelled, as in :func:`collect`; the model is not
                   asked again without the top parts

    ``explainers.collection.diff.null_correlations`` says how the threshold is found. Raises ExplainerError as :func:`collect` does, and for
    collections of other inputs.
    """
    out = Path(out)
    old_rows, new_rows, reference_rows = map(_finished, (old, new, reference))
    is_finished = old_rows is not None and new_rows is not None and (reference is None or reference_rows is not None)
    if data is None and not is_finished:
        raise ExplainerError("Only collections are compared without data: name the data that the models are asked about.")
    choices = _Choices(methods, limit, labels, seed).like(old_rows or new_rows)
    model = None if old_rows is not None else model_of(old)
    inputs = None if data is None else open_inputs(data, _path(folder), split, names_classes=_names_classes(model, prompts))

    def collected(name: DiffSide, anything: Any, inputs: Dataset, limit: int | None, *, is_named: bool = True) -> Collection | None:
        return collect(
            anything,
            inputs,
            out / name,
            choices.methods,
            prompts=prompts,
            limit=limit,
            labels=choices.labels,
            removal=False,
            seed=choices.seed,
            batch=batch,
            skip_broken=skip_broken,
            engine=engine_of(name) if engine_of is not None and is_named else None,
            progress=None if progress is None else partial(progress, name),
            cancelled=cancelled,
        )

    if old_rows is None and inputs is not None:
        old_rows = collected("old", model, inputs, choices.limit)
    if old_rows is not None and new_rows is None and inputs is not None:
        new_rows = collected("new", new, inputs, choices.limit)
    if old_rows is None or new_rows is None:
        return None
    kind: NullKind = "rows"
    null = reference_rows
    few = choices.limit if choices.limit is not None and choices.limit < NULL_ROWS else NULL_ROWS
    if reference is not None:
        kind = "reference"
        if null is None and inputs is not None:
            null = collected("null", reference, inputs, few)
    elif model is not None and inputs is not None and inputs.kind == "image":
        kind, null = "mirror", collected("null", model, mirrored(inputs), few, is_named=False)
    if kind != "rows" and null is None:
        return None
    difference = compare(old_rows, new_rows, null, kind, seed)
    difference.save(out)
    write_page(difference, old_rows, new_rows, out)
    return difference


@dataclass(frozen=True)
class _Choices:
    """The choices that two collections must have in common."""

    methods: Sequence[str] | None
    limit: int | None
    labels: bool
    seed: int

    def like(self, collection: Collection | None) -> _Choices:
        """Return the choices of a finished collection, in which named methods stay; these ones without a collection."""
        if collection is None:
            return self
        about = collection.about
        return _Choices(self.methods or about["methods"], about["limit"], about["labels"], about["seed"])


def _finished(anything: Any) -> Collection | None:
    """Return a collection, or the one in a folder; None for anything else."""
    if isinstance(anything, Collection):
        return anything
    if not isinstance(anything, (str, Path)) or not (Path(anything) / RUN).is_file():
        return None
    return open_collection(Path(anything))


def _path(folder: Path | str | None) -> Path | None:
    return None if folder is None else Path(folder)


def _names_classes(model: Model | None, prompts: Sequence[str] | None) -> bool:
    """Return whether the prompts of a model are made of the classes of the data."""
    return model is not None and model.kind == "clip" and prompts is None
