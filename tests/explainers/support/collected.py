"""Tiny random models, folders of inputs, and made-up rows for collections."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import explainers
from explainers.collection.records import CollectedMap, CollectedRow, CollectedWord, row_schema
from explainers.collection.result import Collection, open_collection
from explainers.models.model import Model
from tests.explainers.support.saved_models import save_timm, save_transformers

SIDES = {"width": 24, "height": 32}  # pixels of a picture, as the tiny model reads them: 4 rows of 3 patches
LABELS = ("ant", "bee", "cat", "dog", "eel")


def tiny_vit(folder: Path) -> Model:
    save_timm(folder)
    return explainers.load(folder, "cpu")


def tiny_bert(folder: Path) -> Model:
    save_transformers(folder)
    return explainers.load(folder, "cpu")


def picture(number: int) -> Image.Image:
    """Noise of its own for each number."""
    values = np.random.default_rng(number).integers(0, 256, (SIDES["height"], SIDES["width"], 3), dtype=np.uint8)
    return Image.fromarray(values)


def save_pictures(folder: Path, count: int, masks: bool = True) -> Path:
    """A folder of pictures: the class of each is the next of the model's, and the object of each the upper left of its patches and half of
    the next.
    """
    mask = np.zeros((SIDES["height"], SIDES["width"]), np.uint8)
    mask[:8, :12] = 255
    for number in range(count):
        name = f"{LABELS[number % len(LABELS)]}/{number:03d}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture(number).save(folder / name)
        if masks:
            (folder / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(mask).save(folder / "masks" / name)
    return folder


def finished(collection: Collection | None) -> Collection:
    assert collection is not None
    return collection


def approximately(value: float | None) -> object:
    """What a number in float32 may differ by from the same in float64."""
    return None if value is None else pytest.approx(value, rel=1e-4, abs=1e-5)


def made_up_map(scores: Sequence[int], method: str = "rollout", **fields: Any) -> CollectedMap:
    known: dict[str, Any] = {"share_on_object": None, "share_on_border": None, "agreement": None, "answer_without": None}
    known |= {"probability_without": None, "logit_without": None, "falls": None, "embedding": [], "top": [], "step": 0.1}
    return CollectedMap(**{"method": method, "scores": list(scores), **known, **fields})


def made_up_row(index: int, scores: Sequence[int], **fields: Any) -> CollectedRow:
    """A row of a picture of two by two patches with one map, unless ``fields`` say otherwise."""
    known: dict[str, Any] = {"input": f"{index}.png", "text": None, "text_pair": None, "labels": [], "own_columns": {}, "answer": "ant"}
    known |= {"answer_index": 0, "probability": 0.9, "logit": 1.0, "runner_up": None, "runner_up_probability": None, "right": None}
    known |= {"label_probability": None, "doubt": None, "doubt_detail": None, "size": [8, 8], "crop": [0, 0, 8, 8], "grid": [2, 2]}
    known |= {"words": [], "object_area": None, "agreement": None, "maps": [made_up_map(scores)], "embedding": [], "notes": []}
    return CollectedRow(**{"index": index, **known, **fields})


def made_up_text(index: int, text: str, scores: Sequence[int], **fields: Any) -> CollectedRow:
    """A row of a text whose words are cut at blanks."""
    words = [CollectedWord(found[0], found.start(), found.end(), 0) for found in re.finditer(r"\S+", text)]
    return made_up_row(index, scores, input=str(index), text=text, words=words, **{"size": [], "crop": [], "grid": [], **fields})


def made_up_collection(folder: Path, rows: Sequence[CollectedRow], **about: Any) -> Collection:
    folder.mkdir(parents=True)
    known = {"kind": "collection", "model": folder.name, "data": "made up", "input_kind": "image", "limit": None, "seed": 0, "labels": True}
    known |= {"prompts": None, "data_digest": "0", "methods": [each.method for each in rows[0].maps]}
    pq.write_table(pa.Table.from_pylist([row.to_row() for row in rows], row_schema()), folder / "rows.parquet")
    (folder / "run.json").write_text(json.dumps(known | about), "utf-8")
    return open_collection(folder)
