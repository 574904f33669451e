"""ImageNet's validation photos, and the data sets made of them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.citation import Citation
from explainers.datasets.base import AnnotatedObject, Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.errors import ExplainerError, not_installed
from explainers.models.inputs.images import is_picture_name, to_rgb
from explainers.models.labels import imagenet_entries

_WNID = re.compile(r"n\d{8}")
_SMALLEST = 0.05  # of the picture: what LibraGrad asks of an object to be explained
_OTHER, _IGNORED = 0, 1000  # ids of ImageNet-S that are no class


def _synset_folders(data: Folder, folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and _WNID.fullmatch(path.name))
    if not names:
        raise data.error_for(folder, "it has no folder named as a synset, such as n01440764")
    return names


def _photos(data: Folder, folder: Path, wnids: list[str]) -> tuple[list[Path], tuple[str, ...]]:
    """The pictures in the folders of synsets, and what else lies in and beside them."""
    inside = [path for wnid in wnids for path in sorted((folder / wnid).iterdir())]
    files = [path for path in inside if path.is_file() and is_picture_name(path)]
    if not files:
        raise data.error_for(folder, "its folders of synsets hold no picture")
    beside = [path for path in folder.iterdir() if path.name not in wnids]
    return files, data.relative_names([*(path for path in inside if path not in set(files)), *beside])


def _names(folder: Path, files: list[Path]) -> list[str]:
    """A name for each file, unlike all others: without folder and suffix where these are enough."""
    stems = [path.stem for path in files]
    return stems if len(set(stems)) == len(stems) else [path.relative_to(folder).as_posix() for path in files]


@dataset(
    "imagenet",
    title="ImageNet validation",
    kind="image",
    gives=("class",),
    layout="""
ILSVRC2012_img_val/ILSVRC2012_val_00000001.JPEG ... (50,000 photos)
ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt
ILSVRC2012_devkit_t12/data/meta.mat
or, sorted by synset:
val/n01440764/ILSVRC2012_val_00000293.JPEG ...
""",
    source=Citation(
        authors="Russakovsky et al.", year=2015, title="ImageNet Large Scale Visual Recognition Challenge", venue="IJCV", arxiv="1409.0575"
    ),
    get="https://image-net.org/download.php",
)
def imagenet(data: Folder) -> Dataset:
    """50,000 photos of 1,000 classes, one class each."""
    root = data.need("ILSVRC2012_img_val", "val")
    if root.name == "val":
        wnids = _synset_folders(data, root)
        files, unread = _photos(data, root, wnids)
        labels = [path.parent.name for path in files]
    else:
        labels, wnids = _devkit(data)
        files, unread = [root / f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, len(labels) + 1)], ()
    names = _names(root, files)
    classes = tuple(wnids) if len(wnids) == 1000 else ()
    return Dataset(
        name="imagenet",
        kind="image",
        length=len(files),
        classes=classes,
        unread=unread,
        read=lambda i: Sample(name=names[i], image=data.image(files[i]), labels=(labels[i],)),
    )


def _devkit(data: Folder) -> tuple[list[str], list[str]]:
    """The synset of each photo, and all of them in the order of the classes."""
    from scipy.io import loadmat

    meta = data.need("ILSVRC2012_devkit_t12/data/meta.mat")
    truth = data.need("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt")
    try:
        synsets = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in loadmat(meta, squeeze_me=True)["synsets"]}
        labels = [synsets[int(line)] for line in data.lines(truth)]
    except (KeyError, ValueError, TypeError, NotImplementedError) as problem:
        raise data.error_for(meta, problem) from None
    return labels, sorted(synsets[number] for number in synsets if number <= 1000)


@dataset(
    "imagenet-segmentation",
    title="ImageNet-Segmentation",
    kind="image",
    gives=("mask",),
    layout="""
gtsegs_ijcv.mat
""",
    source=Citation(authors="Guillaumin et al.", year=2014, title="ImageNet Auto-Annotation with Segmentation Propagation", venue="IJCV"),
    get="https://calvin-vision.net/bigstuff/proj-imagenet/data/gtsegs_ijcv.mat",
)
def imagenet_segmentation(data: Folder) -> Dataset:
    """4,276 photos of 445 classes with a mask of the object each; what Chefer et al. measure segmentation on. The masks name no class,
    so each counts for whatever class is explained.
    """
    try:
        import h5py
    except ImportError:
        raise ExplainerError(not_installed("gtsegs_ijcv.mat is read with h5py", "evaluate")) from None
    path = data.path if data.path.is_file() else data.need("gtsegs_ijcv.mat")
    try:
        with h5py.File(path, "r") as file:
            length = len(file["/value/img"])
    except (OSError, KeyError) as problem:
        raise data.error_for(path, problem) from None

    def read(number: int) -> Sample:
        try:
            with h5py.File(path, "r") as file:
                pixels = np.array(file[file["/value/img"][number, 0]]).transpose(2, 1, 0)
                segments: Any = file[file["/value/gt"][number, 0]]
                mask = np.array(file[segments[0, 0]]).transpose(1, 0)
        except (OSError, KeyError, ValueError, TypeError) as problem:
            raise data.error_for(path, f"picture {number + 1}: {problem}") from None
        return Sample(
            name=f"{number:05d}", image=Image.fromarray(pixels).convert("RGB"), objects=(AnnotatedObject(label=None, mask=mask > 0),)
        )

    return Dataset(name="imagenet-segmentation", kind="image", length=length, read=read)


@dataset(
    "imagenet-s",
    title="ImageNet-S (919 classes)",
    kind="image",
    gives=("class", "mask"),
    layout="""
ImageNetS_categories_im919.txt (data/categories of the publisher's repository)
ImageNetS919/validation/n01440764/ILSVRC2012_val_00000293.JPEG ...
ImageNetS919/validation-segmentation/n01440764/ILSVRC2012_val_00000293.png ...
""",
    source=Citation(
        authors="Gao et al.", year=2022, title="Large-scale Unsupervised Semantic Segmentation", venue="TPAMI", arxiv="2106.03149"
    ),
    get="https://github.com/LUSSeg/ImageNet-S",
)
def imagenet_s(data: Folder) -> Dataset:
    """12,419 photos with the pixels of each class. A mask holds the number of the class as red + 256 x green: the line of the list of
    categories, counted from 1. 0 is anything else, 1000 is to be ignored and counts as background, as LibraGrad has it. The class with
    most pixels is explained, if it covers at least 5 % of the picture.
    """
    root = data.path if (data.path / "validation").is_dir() else data.need("ImageNetS919")
    photos, masks = root / "validation", root / "validation-segmentation"
    for folder in (photos, masks):
        data.need(str(folder.relative_to(data.path)))
    categories = data.need("ImageNetS_categories_im919.txt")
    wnids = [line.strip() for line in data.lines(categories)]
    files, unread = _photos(data, photos, _synset_folders(data, photos))
    names = _names(photos, files)

    def read(number: int) -> Sample:
        file = files[number]
        values = data.plane(masks / file.parent.name / f"{file.stem}.png").astype(np.int64)
        if values.ndim != 3:
            raise data.error_for(masks / file.parent.name / f"{file.stem}.png", "the mask must be in colour, red + 256 x green")
        ids = values[..., 0] + 256 * values[..., 1]
        present, areas = np.unique(ids[(ids != _OTHER) & (ids != _IGNORED)], return_counts=True)
        if len(present) and present.max() > len(wnids):
            raise data.error_for(categories, f"the mask of {file.stem} names class {present.max()}, and the list has {len(wnids)}")
        order = np.argsort(-areas, kind="stable")
        objects = tuple(
            AnnotatedObject(label=wnids[present[i] - 1], mask=ids == present[i]) for i in order if areas[i] >= _SMALLEST * ids.size
        )
        labels = tuple(obj.label for obj in objects[:1] if obj.label is not None)
        return Sample(name=names[number], image=data.image(file), labels=labels, objects=objects)

    return Dataset(name="imagenet-s", kind="image", length=len(files), classes=tuple(wnids), unread=unread, read=read)


@dataset(
    "imagenet-hard",
    title="ImageNet-Hard",
    kind="image",
    gives=("class",),
    layout="""
data/validation-00000-of-00019.parquet ...
""",
    source=Citation(
        authors="Taesiri et al.",
        year=2023,
        title="ImageNet-Hard: The Hardest Images Remaining from a Study of the Power of Zoom and Spatial Biases in Image Classification",
        venue="NeurIPS",
        arxiv="2304.05538",
    ),
    get="https://huggingface.co/datasets/taesiri/imagenet-hard",
)
def imagenet_hard(data: Folder) -> Dataset:
    """10,980 photos that were hard to classify; any of the classes of a photo (``label``, indices among ImageNet's 1,000) is right."""
    from explainers.datasets.parquet import Table

    folder = data.need("data")
    files = sorted(folder.glob("validation-*.parquet"))
    table = Table(data, files, ("image", "label"))

    def read(number: int) -> Sample:
        row = table.row(number)
        try:
            picture = to_rgb(Image.open(io.BytesIO(row["image"]["bytes"])))
        except (OSError, SyntaxError, ValueError, TypeError) as problem:
            raise data.error_for(folder, f"row {number + 1} has no picture: {problem}") from None
        return Sample(name=f"{number:05d}", image=picture, labels=tuple(int(index) for index in row["label"]))

    synsets = tuple(entry.wnid or "" for entry in imagenet_entries())
    unread = data.relative_names(path for path in folder.glob("*.parquet") if path not in files)
    return Dataset(name="imagenet-hard", kind="image", length=len(table), classes=synsets, unread=unread, read=read)
