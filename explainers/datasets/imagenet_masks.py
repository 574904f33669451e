"""ImageNet's photos with the pixels of their objects: ImageNet-Segmentation and ImageNet-S."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from explainers.citation import Citation
from explainers.datasets.base import AnnotatedObject, Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.datasets.synset_folders import file_names, photos_of_synsets, synset_folders
from explainers.errors import ExplainerError
from explainers.installation import not_installed

_SMALLEST = 0.05  # of the picture: what LibraGrad asks of an object to be explained
_OTHER, _IGNORED = 0, 1000  # ids of ImageNet-S that are no class
_S_SOURCE = Citation(
    authors="Gao et al.", year=2022, title="Large-scale Unsupervised Semantic Segmentation", venue="TPAMI", arxiv="2106.03149"
)
_S_GET = "https://github.com/LUSSeg/ImageNet-S"
_S_LAYOUT = """
ImageNetS_categories_im{size}.txt (data/categories of the publisher's repository)
ImageNetS{size}/validation/{wnid}/ILSVRC2012_val_{photo}.JPEG ...
ImageNetS{size}/validation-segmentation/{wnid}/ILSVRC2012_val_{photo}.png ...
"""


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
    """4,276 photos of 445 classes with a mask of the object each; Chefer et al. measure segmentation with them. The masks name no class, so
    each counts for whatever class is explained.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
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

    return Dataset(kind="image", length=length, read=read)


def _imagenet_s(data: Folder, size: int) -> Dataset:
    """Return the data set of the edition of ImageNet-S with ``size`` classes."""
    root = data.path if (data.path / "validation").is_dir() else data.need(f"ImageNetS{size}")
    photos, masks = root / "validation", root / "validation-segmentation"
    for folder in (photos, masks):
        data.need(str(folder.relative_to(data.path)))
    categories = data.need(f"ImageNetS_categories_im{size}.txt")
    wnids = [line.strip() for line in data.lines(categories)]
    files, unread = photos_of_synsets(data, photos, synset_folders(photos))
    names = file_names(photos, files)

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

    return Dataset(kind="image", length=len(files), classes=tuple(wnids), unread=unread, read=read)


@dataset(
    "imagenet-s",
    title="ImageNet-S (919 classes)",
    kind="image",
    gives=("class", "mask"),
    layout=_S_LAYOUT.format(size=919, wnid="n01440764", photo="00000293"),
    source=_S_SOURCE,
    get=_S_GET,
)
def imagenet_s(data: Folder) -> Dataset:
    """12,419 photos with the pixels of each class. A mask holds the number of the class as red + 256 x green: the line of the list of
    categories, counted from 1. 0 is anything else, 1000 is to be ignored and counts as background, as LibraGrad has it. The class with most
    pixels is explained, if it covers at least 5 % of the picture.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _imagenet_s(data, 919)


@dataset(
    "imagenet-s300",
    title="ImageNet-S300",
    kind="image",
    gives=("class", "mask"),
    layout=_S_LAYOUT.format(size=300, wnid="n01443537", photo="00000236"),
    source=_S_SOURCE,
    get=_S_GET,
)
def imagenet_s300(data: Folder) -> Dataset:
    """4,097 photos of 300 classes of ImageNet-S; the masks are made as in ImageNet-S, with numbers from the list of these 300.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _imagenet_s(data, 300)


@dataset(
    "imagenet-s50",
    title="ImageNet-S50",
    kind="image",
    gives=("class", "mask"),
    layout=_S_LAYOUT.format(size=50, wnid="n01443537", photo="00000236"),
    source=_S_SOURCE,
    get=_S_GET,
)
def imagenet_s50(data: Folder) -> Dataset:
    """752 photos of 50 classes of ImageNet-S; the masks are made as in ImageNet-S, with numbers from the list of these 50.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _imagenet_s(data, 50)
