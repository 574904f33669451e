"""Handwritten digits in the files of MNIST (IDX), packed by gzip or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.registry import Folder, dataset

MNIST_CLASSES = tuple("0123456789")
_FOLDERS = ("", "MNIST/raw/", "raw/")  # as the publisher has them, and as torchvision does
_BEGINNINGS = {"test": "t10k", "train": "train"}  # of the names of a split's files
_BYTES = 0x08  # the type of IDX's values: whole numbers of one byte


@dataset(
    "mnist",
    title="MNIST",
    kind="image",
    gives=("class",),
    layout="""
t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or packed (.gz), or the same in MNIST/raw/, as torchvision has it
or (--split train) train-images-idx3-ubyte and train-labels-idx1-ubyte
""",
    source=Citation(
        authors="LeCun et al.",
        year=1998,
        title="Gradient-Based Learning Applied to Document Recognition",
        venue="Proceedings of the IEEE 86",
    ),
    get="https://yann.lecun.com/exdb/mnist/",
    splits=("test", "train"),
)
def mnist(data: Folder) -> Dataset:
    """10,000 grey pictures of handwritten digits, 28 x 28 pixels, light on black, with the digit; the training part has 60,000. The model
    must have ten classes, the digits in their order.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    split = next((split for split in data.splits if _find(data, _file_name(split, "images", 3))), data.splits[0])
    images, path = (_need(data, _file_name(split, what, sides)) for what, sides in (("images", 3), ("labels", 1)))
    pictures, digits = _values(data, images, 3), _values(data, path, 1)
    if len(pictures) != len(digits):
        raise data.error_for(path, f"it has {len(digits)} labels, and there are {len(pictures)} pictures")
    if len(digits) and digits.max() >= len(MNIST_CLASSES):
        raise data.error_for(path, f"labels must be 0 to 9, not {digits.max()}")

    def read(number: int) -> Sample:
        return Sample(name=f"{number:05d}", image=Image.fromarray(pictures[number]).convert("RGB"), labels=(int(digits[number]),))

    return Dataset(kind="image", length=len(digits), classes=MNIST_CLASSES, read=read, split=split)


def _file_name(split: str, what: str, sides: int) -> str:
    """Return the name of the file of ``what`` ("images", "labels"), an array of ``sides`` dimensions, of the part ``split``."""
    return f"{_BEGINNINGS[split]}-{what}-idx{sides}-ubyte"


def _find(data: Folder, name: str) -> Path | None:
    """Return the file called ``name`` in one of the folders of ``data`` where it may lie, packed or not; None if there is none. A copy on
    Kaggle has a dot in place of the second hyphen.
    """
    names = (f"{folder}{each}{ending}" for folder in _FOLDERS for each in (name, name.replace("-idx", ".idx")) for ending in ("", ".gz"))
    return next((path for each in names if (path := data.path / each).is_file()), None)


def _need(data: Folder, name: str) -> Path:
    """Return the file that :func:`_find` finds. Raises ExplainerError if there is none."""
    return _find(data, name) or data.need(name, f"{name}.gz")


def _values(data: Folder, path: Path, sides: int) -> NDArray[np.uint8]:
    """Return the values of the file ``path`` of ``data``, an array of ``sides`` dimensions. Raises ExplainerError if it is no such file of
    IDX.
    """
    try:
        packed = path.read_bytes()
        content = gzip.decompress(packed) if path.suffix == ".gz" else packed
    except (OSError, EOFError, zlib.error) as problem:
        raise data.error_for(path, problem) from None
    start = 4 + 4 * sides
    if content[:4] != bytes((0, 0, _BYTES, sides)) or len(content) < start:
        raise data.error_for(path, f"it does not begin as a file of IDX with bytes in {sides} dimensions")
    shape = tuple(int.from_bytes(content[place : place + 4], "big") for place in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise data.error_for(path, f"it has {len(content):,} bytes, and should have {start + math.prod(shape):,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
