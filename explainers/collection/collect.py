"""``collect``: the choices of a collection checked, and its table made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explainers.collection.result import Collection
from explainers.errors import ExplainerError
from explainers.methods import parse
from explainers.methods.requests import distinct_specs
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.model import Model
from explainers.records.session import check_seed
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from explainers.collection.rows import CollectionSetup
    from explainers.collection.running import CollectionEngine, InputsProgress
    from explainers.collection.sources import Sources
    from explainers.datasets import Dataset

#: Fast methods of three families, which share two backward passes.
DEFAULT_METHODS = ("fullgrad_plus:libra", "input_x_gradient:attnlrp", "rollout")


def collect(
    model: Any,
    data: str | Path | Dataset,
    out: Path | str,
    methods: Sequence[str] | None = None,
    *,
    folder: Path | str | None = None,
    split: str | None = None,
    prompts: Sequence[str] | None = None,
    limit: int | None = None,
    labels: bool = True,
    removal: bool = True,
    seed: int = 0,
    batch: int | None = None,
    skip_broken: bool = False,
    engine: CollectionEngine | None = None,
    sources: Sources | None = None,
    progress: InputsProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Collection | None:
    """Ask a model about many inputs and write a table: for each its answer, right or wrong, doubt, and for each method the map and what it
    says. Returns the :class:`Collection`, or None if ``cancelled`` stopped it before the end.

    model     a model in any form that :func:`explain` takes, which answers by a class, a value or one of several prompts
    data      a folder of pictures (the name of a folder is their class, masks lie in ``masks``); a .csv or .parquet file with a column
              path, text or smiles, and if known label, text_pair, mask and columns of your own; or the name of a data set
    out       the folder of the table: rows.parquet, thumbnails.parquet and run.json. A stopped collection goes on from there
    methods   specs; None: fullgrad_plus:libra, input_x_gradient:attnlrp and rollout, as far as the model can
    folder, split  of a published data set: where its files are, and which part of it is read
    prompts   CLIP only: those that the model chooses from, which are then the labels; None: one for each class of the data
    limit     how many inputs are drawn with ``seed``; None: all
    labels    whether labels say which answer is right; False: they are only written down. A row whose labels the model does not know is
              neither right nor wrong
    removal   whether the model is asked again without the tenth of the parts that matter most by each map: another pass for each method
    batch     inputs in one pass; None: as many as suit the device
    skip_broken  whether inputs that cannot be read are left out and named in run.json
    engine    where inputs are collected; None: in this process
    sources   the names by which an opened data set is opened again, for run.json; names in ``data`` are written without it
    progress  called with the number of inputs that are done, and that of all
    cancelled  asked between passes; when true, the collection stops and None is returned

    The columns are those of ``explainers.collection.records.CollectedRow`` (docs/collection.md). Raises ExplainerError for a choice that
    does not suit the model, a folder that holds something else, and, unless they are left out, an input that cannot be read.
    """
    from explainers.collection.running import local, run  # after the data sets of packages, which import explainers
    from explainers.collection.sources import Sources

    setup = make_setup(
        model_of(model),
        data,
        methods,
        folder=None if folder is None else Path(folder),
        split=split,
        prompts=prompts,
        labels=labels,
        removal=removal,
        seed=seed,
        skip_broken=skip_broken,
        cancelled=cancelled,
    )
    for name, value in (("limit", limit), ("batch", batch)):
        if value is not None and value < 1:
            raise ExplainerError(f"{name}={value}: at least one input is needed.")
    if sources is None and isinstance(data, (str, Path)):
        sources = Sources(str(data), None if folder is None else Path(folder), split).absolute()
    return run(setup, Path(out), limit=limit, batch=batch, engine=engine or local, sources=sources, progress=progress)


def make_setup(
    model: Model,
    data: str | Path | Dataset,
    methods: Sequence[str] | None,
    *,
    folder: Path | None = None,
    split: str | None = None,
    prompts: Sequence[str] | None = None,
    labels: bool = True,
    removal: bool = True,
    seed: int = 0,
    skip_broken: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> CollectionSetup:
    """Open the data, check the choices of a collection against the model, and return its setup; arguments as for :func:`collect`."""
    from explainers.collection.rows import CollectionSetup
    from explainers.collection.sources import open_inputs

    if model.task is not None:
        raise ExplainerError(
            f"{model.name} gives several answers to an input: a collection is made for models that give one, a class, a value or a prompt."
        )
    if prompts is not None and (model.kind != "clip" or isinstance(prompts, str) or not list(prompts)):
        raise ExplainerError("prompts is a list of texts for a model that compares pictures with them, such as clip.")
    opened = open_inputs(data, folder, split, names_classes=model.kind == "clip" and prompts is None)
    kind = "molecule" if model.kind == "molecule" else "text" if model.reads_text else "image"
    if opened.kind != kind:
        raise ExplainerError(f"{model.name} reads {kind}s, and {opened.name} holds {opened.kind}s: choose another model or other data.")
    if not len(opened):
        raise ExplainerError(f"{opened.name} holds no inputs: there is nothing to collect.")
    if model.kind == "clip" and prompts is None and not opened.classes:
        raise ExplainerError(f"{model.name} compares pictures with prompts, and {opened.name} names no classes: give prompts.")
    return CollectionSetup(
        model=model,
        data=opened,
        methods=_methods_for(model, methods),
        prompts=None if prompts is None else tuple(dict.fromkeys(prompts)),
        has_labels=labels,
        removal=removal,
        seed=check_seed(seed),
        skip_broken=skip_broken,
        cancelled=cancelled,
    )


def _methods_for(model: Model, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the specs of the maps, each once. Raises ExplainerError for a method that the model cannot run."""
    lacks, blocks = missing_requirements(model), len(model.blocks)
    specs = DEFAULT_METHODS if methods is None else [methods] if isinstance(methods, str) else methods
    requests = [parse(spec, None, blocks) for spec in distinct_specs(list(specs), blocks)]
    reasons = {request.spec: reason_against(request.method, lacks, request.options) for request in requests}
    chosen = tuple(spec for spec, reason in reasons.items() if reason is None)
    if methods is not None and len(chosen) < len(reasons):
        spec, reason = next((spec, reason) for spec, reason in reasons.items() if reason is not None)
        raise ExplainerError(f"{spec} cannot run here. {reason}")
    if not chosen:
        raise ExplainerError(f"None of {', '.join(reasons)} can run here: name methods.")
    return chosen
