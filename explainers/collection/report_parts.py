"""The parts of a page of HTML about rows of a collection: the rows, their thumbnails and maps, and shares in words."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.collection.intervals import Share
from explainers.collection.records import LARGEST_INT8, CollectedRow
from explainers.collection.result import THUMBNAILS, Collection
from explainers.evaluation.rows import ROWS
from explainers.methods import parse
from explainers.rendering.overlays import lay_over


def percent(share: Share) -> str:
    """Format a share for people."""
    return "–" if share.value is None else f"{100 * share.value:.1f} %"


def with_interval(share: Share) -> str:
    """Format a share with its interval."""
    return "–" if share.low is None or share.high is None else f"{percent(share)} ({100 * share.low:.1f} to {100 * share.high:.1f})"


def rows_at(collection: Collection, indices: Sequence[int]) -> dict[int, CollectedRow]:
    """Return the rows of a collection with these indices."""
    return {row["index"]: CollectedRow.from_row(row) for row in _read_at(collection.folder / ROWS, indices)}


def thumbnails_at(collection: Collection, indices: Sequence[int]) -> dict[int, Image.Image]:
    """Return the thumbnails of the inputs with these indices; none for texts."""
    path = collection.folder / THUMBNAILS
    rows = _read_at(path, indices) if path.is_file() else ()
    return {row["index"]: Image.open(io.BytesIO(row["thumbnail"])) for row in rows if row["thumbnail"] is not None}


def _read_at(path: Path, indices: Sequence[int]) -> Iterable[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(path, filters=[("index", "in", list(indices))]).to_pylist() if indices else []
    return rows


def drawn_map(row: CollectedRow, method: str, picture: Image.Image | None, side: int) -> dict[str, Any]:
    """Return ``words``, the words of a text with their scores from -1 to 1, or ``picture``, its map on the thumbnail with the longer side
    ``side`` as PNG in base64; the other is None, and both without a thumbnail.
    """
    scores = np.array(row.map(method).scores, np.float32) / np.float32(LARGEST_INT8)
    if row.words:
        return {"words": [(word.text, float(score)) for word, score in zip(row.words, scores, strict=True)], "picture": None}
    if picture is None:
        return {"words": None, "picture": None}
    return {"words": None, "picture": png_text(lay_over(picture, scores.reshape(row.grid), parse(method).method.signed, side))}


def png_text(picture: Image.Image) -> str:
    """Return a picture as PNG in base64."""
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")
