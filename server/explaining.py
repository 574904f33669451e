"""The engine of the server is ``explainers``: its functions and registries in the record that the server works with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from PIL import Image

import explainers
from explainers.explanation import versions
from explainers.methods import NEEDS, Method, Variant, parse
from explainers.models.base import ImageInput, TextInput, Token, Word
from explainers.models.catalogue import CATALOGUE
from explainers.models.loading import card, device_named, fetch
from explainers.report import render_overlay
from server.engine import Engine, Progress


def engine() -> Engine:
    """``explainers`` as the server's engine."""
    return Engine(
        version=versions()["vitrine"],
        fingerprint=_fingerprint(),
        catalogue=CATALOGUE,
        check_device=_check_device,
        fetch=_fetch,
        load=explainers.load,
        explain=explainers.explain,
        default_methods=explainers.default_methods,
        variants=lambda model: [asdict(variant) for variant in explainers.variants(model)],
        readout_of=lambda spec, blocks: parse(spec, blocks=blocks).method.name,
        for_probability=explainers.for_probability,
        methods=methods,
        rules=lambda: [asdict(rule) for rule in explainers.RULES.values()],
        kinds=lambda: [{"name": name, **asdict(kind)} for name, kind in explainers.KINDS.items()],
        quantities=lambda: [
            {"name": name, "title": one.title, "says": one.says, "signed": one.signed} for name, one in explainers.QUANTITIES.items()
        ],
        mix=explainers.mix,
        head_maps=lambda asked, *options, **named: explainers.head_maps(explainers.Asked(**asked), *options, **named),
        contributions=lambda asked, spec: explainers.contributions(explainers.Asked(**asked), spec),
        card=_card,
        overlay=overlay,
        cancelled=explainers.Cancelled,
    )


def sample_folders() -> list[Path]:
    """The folders of the samples that ship with the models."""
    root = Path(str(files("embedded"))) / "samples"
    return [folder for folder in (root / "scenes", root / "reviews") if (folder / "index.json").is_file()]


def _fingerprint() -> str:
    """SHA-256 over the versions of the libraries and the source of the engine: what the numbers depend on besides the model."""
    root = Path(explainers.__file__).parent
    digest = hashlib.sha256(json.dumps(versions()).encode())
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _check_device(device: str | None) -> None:
    device_named(device)


def _fetch(name: str, progress: Progress) -> None:
    fetch(name, progress)


def _card(name: str) -> str | None:
    try:
        return card(name)
    except explainers.ExplainerError:  # a name that the hub cannot have: it has no card either
        return None


def methods(model: explainers.Model | None) -> list[dict[str, Any]]:
    """The methods as plain data: what is declared, and with every rule whether the pair runs; for a model with its bounds and reasons."""
    blocks = None if model is None else len(model.blocks)
    pairs = explainers.pairs(model)
    return [_method(one, blocks, [pair for pair in pairs if pair.readout == one.name]) for one in explainers.METHODS.values()]


def _method(method: Method, blocks: int | None, pairs: list[Variant]) -> dict[str, Any]:
    left_out = ("readout", "named", "pixels", "refuses")
    document = {one.name: getattr(method, one.name) for one in fields(method) if one.name not in left_out}
    shown = ("spec", "rule", "title", "by", "year", "paper", "reason")
    return {
        **document,
        "rules": list(method.rules),
        "needs": {need: NEEDS[need] for need in NEEDS if need in method.needs},
        "options": [{"name": name, **option.within(blocks).to_json()} for name, option in method.options.items()],
        "pairs": [{name: getattr(pair, name) for name in shown} for pair in pairs],
    }


def overlay(document: Mapping[str, Any], one: Mapping[str, Any], seen: Image.Image | None, size: int) -> Image.Image:
    """The picture of one map of a stored explanation; ``seen`` is the part of the image that the model saw."""
    told = document["input"]
    if "prompts" in document:  # its words were explained, not the image
        told = next(prompt for prompt in document["prompts"] if prompt["prompt"] == one["target"])
    record: ImageInput | TextInput
    if told["kind"] == "text":
        tokens = tuple(Token(**token) for token in told["tokens"])
        words = tuple(Word(**{**word, "tokens": tuple(word["tokens"])}) for word in told["words"])
        record = TextInput(told["text"], tokens, words, told.get("text_pair"))
        content = [not token.special for token in tokens]
    else:
        width, height = (0, 0) if seen is None else seen.size
        record = ImageInput(width, height, (0, 0, width, height), tuple(told["seen"]), seen)
        content = [True] * len(one["scores"])
    grid = one.get("grid")
    same = ("method", "readout", "rule", "title", "by", "year", "paper", "target", "signed", "class_specific", "seconds")
    attribution = explainers.Attribution(
        **{name: one[name] for name in same},
        scores=torch.tensor(one["scores"], dtype=torch.float32),
        content=torch.tensor(content, dtype=torch.bool),
        patches=None if grid is None else tuple(grid),
        text=record if isinstance(record, TextInput) else None,
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
    return render_overlay(explanation, attribution, size)
