"""A server on the real engine, with tiny random models in the places of the embedded ones, and made-up samples.

It answers every question at once. Tests that hold what a page shows against what the API says lose nothing on it; those about what the
embedded models know, about real photos and about long texts need the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import explainers
from explainers.models.catalogue import CATALOGUE
from explainers.models.inputs.images import Preprocessing
from tests.browser.support.serving import FOR_PHOTOS, played, wait_until_all_loaded
from tests.families import FAMILIES
from tests.server.conftest import png
from tests.server.support.tiny_models import CALIBRATION, CLASSES, make_tiny
from tests.support.vocabularies import wordpiece
from vitrine_server.jobs.catalogue.model_source import ModelSource, load_model

PICTURES, REVIEWS = 4, ("not a bad movie, the plot is well-made!", "a good film.", "bad, bad film - do not go.")
MOLECULES = (("Cc1ccccc1[N+](=O)[O-]", "Cc1ccccc1"), ("CC1CO1", "CC(O)CO"))
PROMPTS = ["a good film", "a bad movie"]
THRESHOLD = 5.75  # of the norms of its tokens: some patches of each picture are above it
WORDS = 40  # word pieces that the tiny text model reads


def load(name: str | Path, device: str | None = None, /, **ways: Any) -> explainers.Model:
    """A tiny random model in the place of an embedded one; two of images, which answer differently. A model of one's own is opened."""
    if isinstance(name, Path):
        return load_model(name, device, **ways)
    if name == FOR_PHOTOS:
        square = Preprocessing(resize=(32, 24), crop=(32, 24))
        labels = [entry.label for entry in CLASSES]
        model = explainers.wrap(FAMILIES["vit"].build(seed=1), name=name, preprocess=square, device=device, labels=labels)
        picture = {"pixel_values": torch.randn(1, 3, 32, 24, generator=torch.Generator().manual_seed(0), device=device)}
        explainers.find_register_neurons(model, [picture], threshold=THRESHOLD, count=4, about="one picture of noise")
        return replace(model, classes=CLASSES, calibration=CALIBRATION)
    if name == "reviews-bert":
        labels = ["negative", "positive", "neither"]
        return explainers.wrap(FAMILIES["bert"].build(), name=name, tokenizer=wordpiece(WORDS), labels=labels, device=device)
    return make_tiny(name, device)


class TinyModels:
    """Where the models come from."""

    def source(self) -> ModelSource:
        """Those of ``explainers``, with the tiny models as the embedded ones."""
        return ModelSource([entry for entry in CATALOGUE if entry.embedded], load)


def write_samples(folder: Path) -> None:
    """Samples of each kind: pictures for both models of images, the same with prompts, short reviews, and molecules."""
    folder.mkdir()
    samples: list[dict[str, Any]] = []
    for number in range(PICTURES):
        (folder / f"{number}.png").write_bytes(png(number))
        picture = {"title": f"Picture {number}", "note": f"Made up, number {number}.", "image": f"{number}.png"}
        model = FOR_PHOTOS if number < PICTURES // 2 else "scenes-vit"
        samples.append({**picture, "id": f"picture-{number}", "kind": "image", "model": model})
        sets = [{"name": "what is there", "prompts": PROMPTS}, {"name": "and what is not", "prompts": [*PROMPTS, "a dog", "an eel"]}]
        samples.append({**picture, "id": f"prompts-{number}", "kind": "clip", "model": "clip", "prompts": PROMPTS, "sets": sets})
    for number, text in enumerate(REVIEWS):
        review = {"title": f"Film {number}", "note": "Made up.", "text": text}
        samples.append({**review, "id": f"review-{number}", "kind": "text", "model": "reviews-bert"})
    for number, (text, pair) in enumerate(MOLECULES):
        molecule = {"title": f"Molecule {number}", "note": "Made up.", "text": text, "pair": pair}
        samples.append({**molecule, "id": f"molecule-{number}", "kind": "molecule", "model": "molecules"})
    (folder / "index.json").write_text(json.dumps({"samples": samples}), "utf-8")


@contextmanager
def tiny_server(folder: Path, **settings: Any) -> Iterator[str]:
    """The address of such a server in a thread of this process, once its models are there."""
    write_samples(folder / "samples")
    with played(folder / "home", TinyModels(), [folder / "samples"], device="cpu", **settings) as address:
        wait_until_all_loaded(address)
        yield address
