"""A made-up data folder in the layout that the recipes and the evaluation of pictures read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ZEBRA, CAR = "n02391049", "n02958343"


def photo(seed: int, width: int = 96, height: int = 80) -> Image.Image:
    """Coloured blobs."""
    small = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def encoded(seed: int) -> bytes:
    """A small photo without loss."""
    file = io.BytesIO()
    photo(seed, 64, 64).save(file, "PNG")
    return file.getvalue()


def make(folder: Path) -> Path:
    """``sharp``, ``tiny_imagenet``, ``imagen_test`` and ``coco128``, with a few photos each."""
    for name in ("sharp/some", "tiny_imagenet", "imagen_test", "coco128/train2017", "coco128/annotations"):
        (folder / name).mkdir(parents=True)
    for number in range(42):
        photo(number).save(folder / f"sharp/some/{number:03}.jpg")
    pq.write_table(pa.table({"image": [encoded(seed) for seed in range(100, 106)]}), folder / "tiny_imagenet/train-0.parquet")
    for number in range(3):
        photo(200 + number).save(folder / f"imagen_test/{ZEBRA}_{number}_zebra.jpg")
        photo(300 + number).save(folder / f"imagen_test/{CAR}_{number}_car.jpg")
    photo(400, 100, 80).save(folder / "coco128/train2017/1.jpg")
    notes = [
        {
            "image_id": 1,
            "category_id": category,
            "bbox": [x, 10, 30, 50],
            "segmentation": [[x, 10, x + 30, 10, x + 30, 60, x, 60]],
            "iscrowd": 0,
        }
        for category, x in ((1, 15), (2, 55))
    ]
    document = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "categories": [{"id": 1, "name": "zebra"}, {"id": 2, "name": "bus"}],
        "annotations": notes,
    }
    (folder / "coco128/annotations/instances_train2017.json").write_text(json.dumps(document), "utf-8")
    return folder
