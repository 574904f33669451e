"""The engine of the server is ``explainers``: its functions and registries in the record that the server works with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import explainers
from explainers.citation import Citation
from explainers.methods import METHOD_NEEDS, Method, Variant, parse
from explainers.methods.about import line_of
from explainers.methods.families import METHOD_FAMILIES
from explainers.methods.presets import PRESETS
from explainers.methods.requests import distinct_specs
from explainers.models.catalogue import CATALOGUE, embedded_names
from explainers.models.inputs.types import ImageInput, TextInput, Token, Word
from explainers.models.loading import card, device_named, fetch
from explainers.models.threads import Threads
from explainers.pipeline.explain import versions
from explainers.plugins import plugin_sources
from explainers.rendering.overlays import render_overlay
from explainers.self_check.opening import check_model
from server.engine import DownloadProgress, Engine
from server.method_ranking import ranking_for, shown_first


def engine() -> Engine:
    """``explainers`` as the server's engine."""
    threads = Threads()
    return Engine(
        version=versions()["vitrine"],
        fingerprint=_fingerprint(),
        catalogue=CATALOGUE,
        check_device=_check_device,
        fetch=_fetch,
        load=partial(_load, threads),
        fit_threads=threads.fit,
        explain=explainers.explain,
        default_methods=default_methods,
        variants=variants,
        readout_of=lambda spec, blocks: parse(spec, blocks=blocks).method.name,
        distinct=distinct_specs,
        for_probability=explainers.for_probability,
        methods=methods,
        choosing=choosing,
        rules=lambda: [_rule(rule) for rule in explainers.RULES.values()],
        kinds=lambda: [{"name": name, **kind.to_json()} for name, kind in explainers.KINDS.items()],
        quantities=lambda: [
            {"name": name, "title": quantity.title, "says": quantity.says, "signed": quantity.signed}
            for name, quantity in explainers.QUANTITIES.items()
        ],
        mix=explainers.mix,
        head_maps=lambda session, *options, **named: explainers.head_maps(explainers.Session(**session), *options, **named),
        contributions=lambda session, spec: explainers.contributions(explainers.Session(**session), spec),
        interaction=explainers.interaction,
        alike=explainers.alike,
        word_probe=explainers.word_probe,
        card=_card,
        overlay=overlay,
        measurable=measurable,
        evaluate=evaluate,
        cancelled=explainers.Cancelled,
    )


def _load(threads: Threads, name: str | Path, device: str | None, /, **ways: Any) -> explainers.Model:
    """The model, and but for one that ships inside its report and quick check: what fails is said with every map."""
    if str(name) in embedded_names():
        return explainers.load(name, device)
    model = explainers.open(name, device=device, check="none", **ways)
    threads.fit(model)
    return check_model(model)


@cache  # a process keeps the source that it has imported
def _fingerprint() -> str:
    """SHA-256 over the versions of the libraries and the source of the engine: what the numbers depend on besides the model."""
    root = Path(explainers.__file__).parent
    digest = hashlib.sha256(json.dumps(versions()).encode())
    for path in (*sorted(root.rglob("*.py")), *plugin_sources()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _check_device(device: str | None) -> None:
    device_named(device)


def _fetch(name: str, progress: DownloadProgress) -> None:
    fetch(name, progress)


def _card(name: str) -> str | None:
    try:
        return card(name)
    except explainers.ExplainerError:  # a name that the hub cannot have: it has no card either
        return None


def default_methods(model: explainers.Model) -> list[str]:
    """The specs that are computed where a question names none."""
    measured = not (model.kind == "clip" and model.reads_text)  # nobody has measured the words of prompts
    return shown_first(ranking_for(model.kind, model.name) if measured else None, explainers.variants(model))


def variants(model: explainers.Model | None) -> list[dict[str, Any]]:
    """The methods with their own rules as plain data; of a model, ``default`` are those that are computed where a question names none."""
    listed = explainers.variants(model)
    if model is not None:
        usual = default_methods(model)
        listed = [replace(variant, default=variant.spec in usual) for variant in listed]
    return [variant.to_json() for variant in listed]


def methods(model: explainers.Model | None) -> list[dict[str, Any]]:
    """The methods as plain data: what is declared, and with every rule whether the pair runs; for a model with its bounds and reasons."""
    blocks = None if model is None else len(model.blocks)
    variants: dict[str, list[Variant]] = {name: [] for name in explainers.METHODS}
    for variant in explainers.all_variants(model):
        variants[variant.readout].append(variant)
    return [_method(method, blocks, variants[method.name]) for method in explainers.METHODS.values()]


def _rule(rule: explainers.Rule) -> dict[str, Any]:
    document = {name: value for name, value in asdict(rule).items() if name != "source"}
    return {**document, **rule.source.to_json(), "label": rule.label, "short": rule.short or rule.title}


def _method(method: Method, blocks: int | None, variants: list[Variant]) -> dict[str, Any]:
    left_out = ("function", "named", "pixels", "refuses", "promise", "source", "reads", "reads_under")
    document = {declared.name: getattr(method, declared.name) for declared in fields(method) if declared.name not in left_out}
    shown = ("spec", "rule", "title", "adds_up_to", "reason", "remedies")
    return {
        **document,
        **method.source.to_json(),
        "rules": list(method.rules),
        "promise": None if method.promise is None else {"rules": list(method.promise.rules), "total": method.promise.total},
        "needs": {need: METHOD_NEEDS[need] for need in METHOD_NEEDS if need in method.needs},
        "options": [{"name": name, **option.within(blocks).to_json()} for name, option in method.options.items()],
        "pairs": [
            {
                **{name: getattr(variant, name) for name in shown},
                **variant.source.to_json(),
                "line": line_of(method.name, variant.rule, method.rule),
            }
            for variant in variants
        ],
    }


def choosing(model: str | None, kind: str | None, variants: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What helps to choose among ``variants``: families, sets to begin with, and how far each method can be trusted on models of ``kind``
    (None: nothing was measured), by its own measurement where there is one.
    """
    listed = [Variant.from_json(variant) for variant in variants]
    ranking = None if kind is None else ranking_for(kind, model)
    return {
        "families": [{"name": name, **asdict(family)} for name, family in METHOD_FAMILIES.items()],
        "presets": [{"name": preset.name, "title": preset.title, "says": preset.says, "specs": preset.specs(listed)} for preset in PRESETS],
        "standing": None if ranking is None else {**ranking.to_json(), "here": ranking.run.report["plan"]["model"] == model},
    }


def measurable(kind: str) -> list[dict[str, Any]]:
    """The data sets that need no download and suit models of this ``kind``, each with the metrics that can be measured on it."""
    from explainers.datasets import DATASETS  # these load scikit-learn and SciPy, which nothing else here needs
    from explainers.evaluation.plan import lacking
    from explainers.metrics import METRICS

    listed = []
    for entry in DATASETS.values():
        if entry.layout or entry.kind != ("text" if kind == "text" else "image"):
            continue
        data = entry.open()
        if kind == "clip" and not data.classes:
            continue
        metrics = [{"name": name, "title": metric.title} for name, metric in METRICS.items() if lacking(metric, data, 2) is None]
        listed.append({"name": entry.name, "title": entry.title, "inputs": len(data), "metrics": metrics})
    return listed


def evaluate(
    model: explainers.Model,
    wanted: Mapping[str, Any],
    folder: Path,
    tell: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> bool:
    """Measure what is ``wanted`` (model, dataset, methods, metrics, limit) in ``folder``, and write its reports; False where it was
    stopped before its end.
    """
    from explainers.datasets import open_dataset
    from explainers.evaluation.measuring import EvaluationSetup
    from explainers.evaluation.plan import make_plan
    from explainers.evaluation.reporting import write_reports
    from explainers.evaluation.running import run

    data = open_dataset(wanted["dataset"])
    plan = make_plan(model, data, wanted["methods"], wanted["metrics"], limit=wanted["limit"])
    finished = run(model, data, plan, folder, progress=tell, cancelled=cancelled)
    if finished is None:
        return False
    write_reports(finished, EvaluationSetup(model, data, plan))
    return True


def overlay(
    document: Mapping[str, Any], entry: Mapping[str, Any], seen: Image.Image | None, size: int, pixels: NDArray[np.float32] | None = None
) -> Image.Image:
    """The picture of one map of a stored explanation, or of its map of the ``pixels``.

    ``seen`` is the part of the image that the model saw.
    """
    source = document["input"]
    if "prompts" in document:  # its words were explained, not the image
        source = next(prompt for prompt in document["prompts"] if prompt["prompt"] == entry["target"])
    record: ImageInput | TextInput
    if source["kind"] == "text":
        tokens = tuple(Token(**token) for token in source["tokens"])
        words = tuple(Word(**{**word, "tokens": tuple(word["tokens"])}) for word in source["words"])
        record = TextInput(source["text"], tokens, words, source.get("text_pair"))
        content = [not token.special for token in tokens]
    else:
        width, height = (0, 0) if seen is None else seen.size
        record = ImageInput(width, height, (0, 0, width, height), tuple(source["seen"]), seen)
        content = [True] * len(entry["scores"])
    grid = entry.get("grid")
    same = ("method", "readout", "rule", "title", "target", "signed", "class_specific", "seconds")
    attribution = explainers.Attribution(
        **{name: entry[name] for name in same},
        source=Citation.from_json(entry),
        scores=torch.tensor(entry["scores"], dtype=torch.float32),
        content=torch.tensor(content, dtype=torch.bool),
        patches=None if grid is None else tuple(grid),
        text=record if isinstance(record, TextInput) else None,
        pixels=None if pixels is None else torch.from_numpy(pixels),
    )
    explanation = explainers.Explanation(
        model=document["model"],
        weights_digest=document["weights_digest"],
        input=record,
        labels=(),
        logits=torch.empty(0),
        probabilities=torch.empty(0),
        targets=[],
        methods=document["methods"],
        versions=document["versions"],
    )
    return render_overlay(explanation, attribution, size, at="patches" if pixels is None else "pixels")
