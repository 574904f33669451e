"""Tiny random models in the places of the embedded ones, and a server of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import explainers
from explainers.models.catalogue import CatalogueEntry
from explainers.models.companion_files.calibration import AbstentionThreshold, Calibration
from explainers.models.inputs.images import Preprocessing
from explainers.models.labels import ClassEntry
from tests.families import FAMILIES
from tests.server.conftest import Site
from tests.server.support.checked_client import CheckedClient
from tests.support.molecule_models import LABELS, tiny_module
from tests.support.task_models import picture_writer
from tests.support.vocabularies import wordpiece
from vitrine_server.app import create_app
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.settings import load_settings

TEXT = "not a bad movie, the plot is well-made!"
CLASSES = (
    ClassEntry("ant", "insect", ("insect", "animal"), ("emmet",)),
    ClassEntry("bee", "insect", ("insect", "animal")),
    ClassEntry("cat", "pet", ("pet", "animal")),
    ClassEntry("dog", "pet", ("pet", "animal"), ("hound",)),
    ClassEntry("eel", "fish", ("fish", "animal")),
)


CALIBRATION = Calibration(1.5, (AbstentionThreshold("something_else", "max_probability", 1.1, True, "Measured on nothing."),))


def make_tiny(name: str, device: str | None = None) -> explainers.Model:
    """A random model of the kind that the embedded model ``name`` is, made again: what a server loads is its own."""
    if name == "reviews-bert":
        return explainers.wrap(
            FAMILIES["bert"].build(), name=name, tokenizer=wordpiece(), labels=["against", "for", "unsure"], device=device
        )
    if name == "clip":
        square = Preprocessing(resize=(32, 32), crop=(32, 32))
        return explainers.wrap(FAMILIES["hf-clip"].build(), name=name, tokenizer=wordpiece(), preprocess=square, device=device)
    if name == "scenes-llava":
        return replace(picture_writer(), name=name)
    if name == "molecules":
        return explainers.wrap(tiny_module(), name=name, kind="molecule", labels=LABELS, device=device)
    square = Preprocessing(resize=(32, 24), crop=(32, 24))
    model = explainers.wrap(FAMILIES["vit"].build(), name=name, preprocess=square, device=device, labels=[one.label for one in CLASSES])
    return replace(model, classes=CLASSES, calibration=CALIBRATION)


#: The same as the tests ask it themselves: they share it, so they leave it as it is.
tiny = cache(make_tiny)


KINDS = {"scenes-vit": "image", "clip": "clip", "reviews-bert": "text"}


@contextmanager
def tiny_site(
    home: Path, load: Callable[..., explainers.Model] = make_tiny, names: Mapping[str, str] = MappingProxyType(KINDS)
) -> Iterator[Site]:
    """A server on the real engine, with tiny random models in the places of the embedded ones: those of ``names``, each with its kind."""
    catalogue: Any = [CatalogueEntry(name, kind, name, "", True, "") for name, kind in names.items()]  # type: ignore[arg-type]
    source = ModelSource(catalogue, load)
    settings = load_settings({"home": home, "device": "cpu"})
    with CheckedClient(create_app(settings, source, [])) as client:
        one = Site(client)
        one.wait_for_models(*names)
        yield one
