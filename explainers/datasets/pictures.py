"""Pictures sorted by class, some with a mask each: pets, bones, your own folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from explainers.citation import Citation
from explainers.datasets.base import AnnotatedObject, Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.models.inputs.images import is_picture_name, read_image

_PET, _EDGE = 1, 3  # values of a trimap; 2 is the background
_MASKS = "masks"


@dataset(
    "pets",
    title="Oxford-IIIT Pet",
    kind="image",
    gives=("class", "mask"),
    layout="""
images/Abyssinian_201.jpg ...
annotations/test.txt
annotations/trimaps/Abyssinian_201.png ...
""",
    source=Citation(authors="Parkhi et al.", year=2012, title="Cats and Dogs", venue="CVPR"),
    get="https://www.robots.ox.ac.uk/~vgg/data/pets/",
)
def pets(data: Folder) -> Dataset:
    """3,669 photos of the test list: 37 breeds of cats and dogs, with the pixels of the animal. The rim that the annotators left open
    counts as not labelled.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    listing = data.need("annotations/test.txt")
    rows = [line.split() for line in data.lines(listing) if not line.startswith("#")]
    if any(len(row) != 4 for row in rows):
        raise data.error_for(listing, "each line must be: name, class, species, breed")
    breeds = {int(row[1]): _breed_of(row[0]) for row in rows}
    classes = tuple(breeds[number] for number in sorted(breeds)) if len(breeds) == 37 else ()

    def read(number: int) -> Sample:
        stem = rows[number][0]
        trimap = data.plane(data.path / "annotations" / "trimaps" / f"{stem}.png")
        label = _breed_of(stem)
        image = data.image(data.path / "images" / f"{stem}.jpg")
        return Sample(
            name=stem, image=image, labels=(label,), objects=(AnnotatedObject(label=label, mask=trimap == _PET),), labelled=trimap != _EDGE
        )

    return Dataset(kind="image", length=len(rows), classes=classes, read=read)


def _breed_of(stem: str) -> str:
    return stem.rpartition("_")[0].replace("_", " ")


@dataset(
    "mura",
    title="MURA validation",
    kind="image",
    gives=("class",),
    layout="""
MURA-v1.1/valid_image_paths.csv
MURA-v1.1/valid/XR_WRIST/patient11185/study1_positive/image1.png ...
""",
    source=Citation(
        authors="Rajpurkar et al.",
        year=2018,
        title="MURA: Large Dataset for Abnormality Detection in Musculoskeletal Radiographs",
        venue="MIDL",
        arxiv="1712.06957",
    ),
    get="https://stanfordmlgroup.github.io/competitions/mura/",
)
def mura(data: Folder) -> Dataset:
    """3,197 radiographs of arms, each from a study that is normal (negative) or not (positive).

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    listing = data.need("MURA-v1.1/valid_image_paths.csv")
    paths = data.lines(listing)

    def label(path: str) -> str:
        for word in ("positive", "negative"):
            if Path(path).parent.name.endswith(f"_{word}"):
                return word
        raise data.error_for(listing, f"{path} lies in no study that is positive or negative")

    labels = [label(path) for path in paths]
    return Dataset(
        kind="image",
        length=len(paths),
        classes=("negative", "positive"),
        read=lambda i: Sample(name=paths[i], image=data.image(data.path / paths[i]), labels=(labels[i],)),
    )


@dataset(
    "pictures",
    title="A folder of pictures",
    kind="image",
    gives=("class", "mask"),
    layout="""
photo.jpg ... or tabby cat/photo.jpg ... (whatever Pillow reads)
masks/photo.png ... or masks/tabby cat/photo.png ... (where there are any)
""",
)
def pictures(data: Folder) -> Dataset:
    """Pictures of one's own: the name of the folder that a picture is in is its class. A mask of the same name in ``masks`` is white where
    the object is.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    everything = sorted(path for path in data.path.rglob("*") if path.is_file())
    pictures = [path for path in everything if is_picture_name(path)]
    files = [path for path in pictures if path.relative_to(data.path).parts[0] != _MASKS]
    if not files:
        data.need("*.jpg")
    masks = {path.relative_to(data.path / _MASKS).with_suffix(""): path for path in pictures if path not in set(files)}
    shorts = {path.relative_to(data.path).with_suffix("") for path in files}
    read_masks = {path for short, path in masks.items() if short in shorts}
    unread = data.relative_names(path for path in everything if path not in {*files, *read_masks})
    folders = sorted({path.parent.name for path in files if path.parent != data.path})

    def read(number: int) -> Sample:
        file = files[number]
        short = file.relative_to(data.path)
        labels = () if file.parent == data.path else (file.parent.name,)
        mask = masks.get(short.with_suffix(""))
        objects: tuple[AnnotatedObject, ...] = ()
        if mask is not None:
            shown = np.asarray(read_image(mask).convert("L")) > 127
            objects = (AnnotatedObject(label=labels[0] if labels else None, mask=shown),)
        return Sample(name=short.as_posix(), image=data.image(file), labels=labels, objects=objects)

    lacks = tuple(fact for fact, is_there in (("class", folders), ("mask", read_masks)) if not is_there)
    return Dataset(kind="image", length=len(files), classes=tuple(folders), unread=unread, lacks=lacks, read=read, is_ordered=False)
