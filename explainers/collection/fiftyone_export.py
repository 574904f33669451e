"""Collections of pictures as data sets of FiftyOne, where people sort, filter and look at pictures with their labels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.collection.records import LARGEST_INT8, CollectedMap, CollectedRow
from explainers.collection.result import Collection
from explainers.errors import ExplainerError

HEATMAP_SIDE = 256  # cells of the longer side of a heat map, which FiftyOne stretches over the picture
_SAMPLES_AT_ONCE = 100


def to_fiftyone(collection: Collection, pictures: Path | str, name: str | None = None) -> Any:
    """Return a new ``fiftyone.Dataset`` of a collection of pictures, with a sample for each row.

    pictures  the folder of the pictures, below which the collection names them
    name      of the data set, which then stays in FiftyOne's database; None: one that is gone when the process ends

    Each sample has ``ground_truth`` and ``prediction``, ``right``, ``doubt``, ``agreement``, ``embedding``, the columns of one's own in
    ``own_columns``, and a heat map for each method, such as ``map_rollout``, with its spec, shares and what the removal of its top parts
    did. Raises ExplainerError where FiftyOne is not installed, for texts, for a name that exists, and for a picture that is not there.
    """
    try:
        import fiftyone
    except ImportError:
        raise ExplainerError("FiftyOne is not installed. Type: pip install fiftyone") from None
    if collection.about["input_kind"] != "image":
        raise ExplainerError(f"FiftyOne shows pictures, and {collection.folder} is a collection of {collection.about['input_kind']}s.")
    root = Path(pictures)
    if missing := next((row.input for row in collection if not (root / row.input).is_file()), None):
        raise ExplainerError(f"There is no picture {root / missing}: name the folder below which the pictures of the collection lie.")
    if name is not None and fiftyone.dataset_exists(name):
        raise ExplainerError(f"FiftyOne has a data set {name!r} already: choose another name, or delete it there.")
    dataset = fiftyone.Dataset(name, persistent=name is not None)
    waiting = []
    for row in collection:
        waiting.append(sample_of(fiftyone, row, root / row.input))
        if len(waiting) == _SAMPLES_AT_ONCE:
            dataset.add_samples(waiting, progress=False, dynamic=True)
            waiting = []
    dataset.add_samples(waiting, progress=False, dynamic=True)
    return dataset


def sample_of(fiftyone: Any, row: CollectedRow, path: Path) -> Any:
    """Return a ``fiftyone.Sample`` of a row, whose picture is at ``path``; ``fiftyone`` is the package."""
    fields: dict[str, Any] = {
        "prediction": fiftyone.Classification(label=row.answer, confidence=row.probability, logit=row.logit),
        "right": row.right,
        "doubt": row.doubt,
        "agreement": row.agreement,
        "own_columns": dict(row.own_columns),
    }
    if row.labels:
        fields["ground_truth"] = fiftyone.Classification(label=row.labels[0])
    if row.embedding:
        fields["embedding"] = np.array(row.embedding, np.float32)
    for each in row.maps:
        fields[field_name(each.method)] = fiftyone.Heatmap(
            map=heat_map(row, each),
            range=[-1, 1],
            method=each.method,
            share_on_object=each.share_on_object,
            share_on_border=each.share_on_border,
            agreement=each.agreement,
            answer_without=each.answer_without,
            falls=each.falls,
        )
    return fiftyone.Sample(filepath=str(path.resolve()), **fields)


def field_name(method: str) -> str:
    """Return the name of the field with the heat maps of a method; specs have characters that no field's name may have."""
    return f"map_{re.sub(r'[^0-9a-zA-Z]+', '_', method).strip('_')}"


def heat_map(row: CollectedRow, each: CollectedMap) -> NDArray[np.float32]:
    """Return the scores of a map over the whole picture, -1 to 1, with zeros outside of the part that the model saw."""
    factor = HEATMAP_SIDE / max(row.size)
    width, height = (max(1, round(side * factor)) for side in row.size)
    left, top, right, bottom = (round(end * factor) for end in row.crop)
    scores = np.array(each.scores, np.float32).reshape(row.grid) / np.float32(LARGEST_INT8)
    seen = Image.fromarray(scores).resize((max(1, right - left), max(1, bottom - top)), Image.Resampling.NEAREST)
    canvas = Image.new("F", (width, height))
    canvas.paste(seen, (left, top))
    return np.asarray(canvas)
