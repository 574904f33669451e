"""``explainers.open``: open a model from whatever form it has, write its report and check it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from explainers.errors import ExplainerError, is_memory_shortage
from explainers.models.eval_mode import with_gradients
from explainers.models.inputs.parts import KindArgument
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.model import Model
from explainers.models.opening.open_model import open_model
from explainers.models.opening.opened import Opened, find_opened, keep_opened
from explainers.models.outputs import Output
from explainers.models.report import Check
from explainers.models.tasks.own_boxes import BoxesFunction
from explainers.records.session import Session
from explainers.self_check.checks import all_checks, quick_checks
from explainers.self_check.sample import sample_of

CheckLevel = Literal["quick", "all", "none"]
CHECK_LEVELS: tuple[CheckLevel, ...] = ("quick", "all", "none")


def open(  # noqa: A001  (the word for it; in this package files are opened by pathlib)
    anything: Any,
    *,
    architecture: str | Path | nn.Module | None = None,
    labels: Any = None,
    base: str | Path | nn.Module | None = None,
    weights: str | None = None,
    name: str | None = None,
    kind: KindArgument | None = None,
    blocks: str | Sequence[nn.Module] | None = None,
    entry: str | nn.Module | None = None,
    prefix: int | None = None,
    preprocess: Any = None,
    tokenizer: Any = None,
    reader: Any = None,
    output: Output | None = None,
    head: str | int | None = None,
    boxes: BoxesFunction | None = None,
    picture: Any = None,
    device: str | torch.device | None = None,
    check: CheckLevel = "quick",
    progress: DownloadProgress | None = None,
    dtype: torch.dtype | None = None,
) -> Model:
    """Open ``anything`` as a model, ready to explain, with a report on what was found in its ``report``.

    anything  a name, as :func:`explainers.load` takes it; a folder that timm, transformers or OpenCLIP saved, of a run (its newest
              checkpoint), of an adapter of PEFT; a file of weights (.safetensors, .pth, .pt, .ckpt, .tar), or a list of them (a backbone
              and its head); a dict of tensors; a torch module, also compiled, scripted, parallel, averaged, with adapters or quantised
    architecture  for a file of weights: ``timm/<name>``, ``hf/<organisation>/<name>``, ``openclip/<model>``, ``torchvision/<name>``, a
                  folder with config.json, or a module, which is copied. None: guessed from the names and shapes of the weights, which the
                  report says
    labels    names of the classes, in the order of the logits: a list, a dict, or a .txt, .csv or .json file
    base      for an adapter: its base model, if the one that it names cannot be found: a folder, a name of the hub, a module
    weights   for a file with several sets of weights: the key of the one to read
    check     ``quick``: logits, probabilities, gradient and account on a sample; ``all``: conservation and each method too; ``none``
    dtype     for names and files: the type in which weights are loaded, that of :func:`explainers.load`; None: float32
    preprocess, tokenizer  as in :func:`explainers.wrap`, or the name of a folder or of the hub from which to take one
    progress  called with a text and the finished fraction (None: unknown) while files are downloaded
    kind, blocks, entry, prefix, reader, output, head, boxes, picture, name, device  as in :func:`explainers.wrap`

    Files are only read for weights: nothing in them is executed. Stored weights of half precision are explained in float32 unless ``dtype``
    says otherwise, quantised ones in float32; for a module this is done in a copy. A module is opened once: the resulting model is kept
    with it until one of its weights changes. A failed check is mentioned in the notes of every explanation. Raises ExplainerError, whose
    ``report()`` can be sent to others, if it cannot be opened.
    """
    if check not in CHECK_LEVELS:
        raise ExplainerError(f"check={check!r}: choose one of {', '.join(CHECK_LEVELS)}")
    wrapping = {"name": name, "kind": kind, "blocks": blocks, "entry": entry, "prefix": prefix, "preprocess": preprocess}
    wrapping |= {"tokenizer": tokenizer, "reader": reader, "output": output, "head": head, "boxes": boxes, "picture": picture}
    opened = open_model(
        anything,
        architecture=architecture,
        labels=labels,
        base=base,
        weights=weights,
        device=device,
        progress=progress,
        dtype=dtype,
        **wrapping,
    )
    if check != "none":
        opened = replace(opened, model=check_model(opened.model, opened.twin, every=check == "all"))
        if isinstance(anything, nn.Module):
            keep_opened(anything, opened)
    return opened.model


def model_of(anything: Any) -> Model:
    """Return a model unchanged, for a module the model that it was opened as before, and for anything else the result of :func:`open`."""
    if isinstance(anything, Model):
        return anything
    if isinstance(anything, nn.Module) and (known := find_opened(anything)) is not None:
        return known.model
    return open(anything)


@with_gradients()
def check_model(model: Model, twin: nn.Module | None = None, *, every: bool = False) -> Model:
    """Run the quick checks on ``model``, or ``every`` check, and return it with the results in its report. ``twin`` is the original module
    if the model is a copy of it.
    """
    assert model.report is not None
    started = time.perf_counter()
    checks = _checks(model, twin, every)
    return replace(model, report=model.report.with_checks(checks, time.perf_counter() - started))


def _checks(model: Model, twin: nn.Module | None, every: bool) -> list[Check]:
    try:
        if model.kind == "clip" and model.prompt_inputs is None:
            return [Check("sample", "A sample is explained", "not asked", "without a tokenizer there are no prompts: pass tokenizer=")]
        sample = sample_of(model)
        prepared = model.prepare(sample.inputs)
        session = Session(model.at(None, prepared), prepared, sample.target, pixels=not model.reads_text)
    except Exception as problem:  # of the module, or of an operator that it meets: it is said, as that of each check is
        if is_memory_shortage(problem):  # which says nothing of the model
            raise
        message = str(problem) if isinstance(problem, ExplainerError) else f"{type(problem).__name__}: {problem}"
        return [Check("sample", "A sample is explained", "failed", message)]
    checks = quick_checks(session, sample, twin)
    return [*checks, *all_checks(session)] if every else checks


__all__ = ["CHECK_LEVELS", "CheckLevel", "Opened", "check_model", "model_of", "open"]
