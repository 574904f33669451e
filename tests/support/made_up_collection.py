"""Collections of made-up rows, of any size, as ``explainers.collect`` writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from explainers.collection.records import CollectedMap, CollectedRow, CollectedWord, row_schema, thumbnail_schema

CLASSES = ("ant", "bee", "cat")
METHODS = ("fullgrad_plus:libra", "rollout")
GRID = (4, 4)  # rows and columns of patches: 12 of 16 are at the border


def made_up_map(method: str, seed: int, **changes: Any) -> CollectedMap:
    """A map of noise that lies half on the object and no more on the border than chance; the answer falls without its top."""
    random = np.random.default_rng(seed)
    scores = random.integers(-60, 128, GRID[0] * GRID[1]).tolist()
    facts: dict[str, Any] = {
        "method": method,
        "scores": scores,
        "step": 0.01,
        "top": [0, 1],
        "share_on_object": 0.5,
        "share_on_border": 0.75,
        "agreement": 0.6,
        "answer_without": "cat",
        "probability_without": 0.1,
        "logit_without": 0.5,
        "falls": True,
        "embedding": random.normal(size=8).astype(np.float32).tolist(),
    }
    return CollectedMap(**{**facts, **changes})


def made_up_row(index: int, first: dict[str, Any] | None = None, **changes: Any) -> CollectedRow:
    """A right answer with a probability of 0.8, whose object covers a quarter of it; ``first`` changes its first map."""
    label = CLASSES[index % len(CLASSES)]
    facts: dict[str, Any] = {
        "index": index,
        "input": f"{label}/{index:05d}.png",
        "text": None,
        "text_pair": None,
        "labels": [label],
        "own_columns": {},
        "answer": label,
        "answer_index": index % len(CLASSES),
        "probability": 0.8,
        "logit": 2.0,
        "runner_up": CLASSES[(index + 1) % len(CLASSES)],
        "runner_up_probability": 0.1,
        "right": True,
        "label_probability": 0.8,
        "doubt": None,
        "doubt_detail": None,
        "size": [60, 40],
        "crop": [0, 0, 40, 40],
        "grid": list(GRID),
        "words": [],
        "object_area": 0.25,
        "agreement": 0.6,
        "maps": [made_up_map(method, 10 * index + place) for place, method in enumerate(METHODS)],
        "embedding": np.random.default_rng(index).normal(size=6).astype(np.float32).tolist(),
        "notes": [],
    }
    row = CollectedRow(**{**facts, **changes})
    return row if first is None else replace(row, maps=[replace(row.maps[0], **first), *row.maps[1:]])


def wrong(index: int, answer: str, probability: float, **changes: Any) -> CollectedRow:
    """A row whose answer is wrong."""
    return made_up_row(index, answer=answer, answer_index=CLASSES.index(answer), right=False, probability=probability, **changes)


def text_row(index: int, text: str, **changes: Any) -> CollectedRow:
    """A row of a text of words with one space between them."""
    words, place = [], 0
    for word in text.split(" "):
        words.append(CollectedWord(word, place, place + len(word), 0))
        place += len(word) + 1
    scores = [100 if number == len(words) - 1 else 5 for number in range(len(words))]
    maps = [made_up_map(method, index, scores=scores, share_on_object=None, share_on_border=None) for method in METHODS]
    facts: dict[str, Any] = {"input": str(index), "text": text, "words": words, "grid": [], "size": [], "crop": [], "object_area": None}
    return made_up_row(index, **{**facts, "maps": maps, **changes})


def write_collection(folder: Path, rows: Iterable[CollectedRow], group: int = 3, **facts: Any) -> Path:
    """Write rows into ``folder``, with a thumbnail for each picture, in row groups of ``group`` rows; ``facts`` change its run.json."""
    folder.mkdir(parents=True, exist_ok=True)
    kind, batch = "image", list[CollectedRow]()
    schema, pictures = row_schema(), thumbnail_schema()
    with pq.ParquetWriter(folder / "rows.parquet", schema) as file, pq.ParquetWriter(folder / "thumbnails.parquet", pictures) as thumbnails:

        def put() -> None:
            file.write_table(pa.Table.from_pylist([row.to_row() for row in batch], schema=schema))
            jpegs = [{"index": row.index, "thumbnail": thumbnail(row.index)} for row in batch if not row.text]
            thumbnails.write_table(pa.Table.from_pylist(jpegs, schema=pictures))
            batch.clear()

        for row in rows:
            batch.append(row)
            kind = "text" if row.text else "image"
            if len(batch) == group:
                put()
        if batch:
            put()
    record = {
        "kind": "collection",
        "format": 1,
        "model": "scenes-vit",
        "input_kind": kind,
        "methods": list(METHODS),
        "prompts": None,
        **facts,
    }
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    return folder


def thumbnail(index: int) -> bytes:
    """A small JPEG file of noise in one colour, of its own for each index."""
    random = np.random.default_rng(index)
    values = random.integers(0, 256, 3) + random.integers(-30, 30, (48, 48, 1))
    file = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(file, "JPEG")
    return file.getvalue()
