"""Photos in which several classes are outlined: COCO and Pascal VOC."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from explainers.citation import Citation
from explainers.datasets.base import AnnotatedObject, Dataset, Mask, Sample
from explainers.datasets.registry import Folder, dataset, union

_COCO = Citation(authors="Lin et al.", year=2014, title="Microsoft COCO: Common Objects in Context", venue="ECCV", arxiv="1405.0312")
_COCO_LAYOUT = """
annotations/instances_val2017.json
val2017/000000000139.jpg ...
or (--split train2017, and where there is no validation part)
annotations/instances_train2017.json
train2017/000000000009.jpg ...
"""
_COCO_SPLITS = ("val2017", "train2017")
_COCO_SENSES = {"kite": "kite (toy)"}  # ImageNet's kite is a bird
#: The two animals by the classes of ImageNet, 340 and 386, that LibraGrad's code explains of them.
_ZEBRA_ELEPHANT = {"zebra": "zebra", "elephant": "African elephant"}
_COCO_GET = "https://cocodataset.org/#download"
#: The 25 categories that go by no label, synonym or group of ImageNet's 1,000 classes (nor, as "airplane" does, by another word for one):
#: models that learned their words from ImageNet cannot name them.
_NOT_IN_IMAGENET = {
    "motorcycle",
    "fire hydrant",
    "stop sign",
    "giraffe",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "wine glass",
    "fork",
    "spoon",
    "bowl",
    "carrot",
    "donut",
    "cake",
    "potted plant",
    "book",
    "scissors",
    "toothbrush",
}
_LEAST_SHARE_OF_ANIMALS = 0.05  # of the photo that each of the two animals covers more of, as in LibraGrad's code
_MOST_OVERLAP = 0.7  # of the smaller of the two, as there
_LEAST_SHARE = 0.01  # of the photo that each thing of a pair covers: two patches of 14 by 14
VOC_CLASSES = [
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "table",
    "dog",
    "horse",
    "motorbike",
    "person",
    "plant",
    "sheep",
    "sofa",
    "train",
    "monitor",
]
_VOC_EDGE = 255


def outline_mask(segmentation: Any, height: int, width: int) -> Mask:
    """Return the pixels, bool (height, width), of an instance from its ``segmentation``: from polygons [[x, y, x, y, ...], ...], or from
    run lengths down the columns, as COCO writes crowds: {"size": [height, width], "counts": [zeros, ones, zeros, ...]}. The rim of a
    polygon may differ by a pixel from COCO's own code. Raises ValueError for anything else.
    """
    if isinstance(segmentation, dict):
        counts = segmentation["counts"]
        if segmentation["size"] != [height, width] or not isinstance(counts, list) or sum(counts) != height * width:
            raise ValueError("run lengths must be a list of numbers that add up to the pixels of the picture")
        flat = np.zeros(height * width, bool)
        ends = list(accumulate(counts))
        for start, end in zip(ends[::2], ends[1::2], strict=False):
            flat[start:end] = True
        return flat.reshape(width, height).T
    picture = Image.new("1", (width, height))
    draw = ImageDraw.Draw(picture)
    for polygon in segmentation:
        if len(polygon) < 6 or len(polygon) % 2:
            raise ValueError("a polygon needs three points or more")
        draw.polygon([(x - 0.5, y - 0.5) for x, y in zip(polygon[::2], polygon[1::2], strict=True)], fill=1)
    return np.array(picture)


def _largest_two(shares: dict[str, float]) -> set[str]:
    """Return the two categories of a photo with the largest ``shares`` of it, among those that ImageNet has names for; an empty set if
    fewer than two are large.
    """
    large = [label for label, share in shares.items() if share >= _LEAST_SHARE and label not in _NOT_IN_IMAGENET]
    return set(sorted(large, key=lambda label: -shares[label])[:2]) if len(large) > 1 else set()


def _stand_apart(masks: dict[str, list[Mask]]) -> bool:
    """Return whether the instances of two categories, ``masks`` by label, are large and do not hide each other: each category covers more
    than a twentieth of the photo, and neither two instances nor the categories as wholes overlap by more than 70 % of the smaller
    (LibraGrad's code).
    """
    wholes = {label: union(instances) for label, instances in masks.items()}
    if any(whole.mean() <= _LEAST_SHARE_OF_ANIMALS for whole in wholes.values()):
        return False
    first, second = ([whole, *masks[label]] for label, whole in wholes.items())
    pairs = [(mask, other) for mask in first for other in second]
    return all((mask & other).sum() <= _MOST_OVERLAP * min(mask.sum(), other.sum()) for mask, other in pairs)


def _coco(data: Folder, wanted: Mapping[str, str] = MappingProxyType({}), *, pairs: bool = False) -> Dataset:
    """Read COCO's annotations and return the data set of the photos that show all of the ``wanted`` categories (COCO's name -> label), or
    of all photos if ``wanted`` is empty. With ``pairs`` it holds the photos that show two large things. In both selections the other
    objects of a photo are ignored, and all remaining ones are labels.
    """
    listing = data.need(*(f"annotations/instances_{split}.json" for split in data.splits))
    split = listing.stem.removeprefix("instances_")
    photos = data.need(split)
    listed = data.json(listing)
    try:
        senses = {**_COCO_SENSES, **wanted}
        categories = {row["id"]: senses.get(row["name"], str(row["name"])) for row in listed["categories"]}
        images = {row["id"]: (str(row["file_name"]), int(row["height"]), int(row["width"])) for row in listed["images"]}
        of_image: defaultdict[int, list[Any]] = defaultdict(list)
        for row in listed["annotations"]:
            of_image[row["image_id"]].append(row)
        shown = {i: {categories[row["category_id"]] for row in rows if not row.get("iscrowd")} for i, rows in of_image.items()}
        if wanted:
            shown = {i: names & set(wanted.values()) for i, names in shown.items()}
        if pairs:
            for i, rows in of_image.items():
                shares: defaultdict[str, float] = defaultdict(float)
                for row in rows:
                    if not row.get("iscrowd") and i in images:
                        shares[categories[row["category_id"]]] += float(row["area"]) / (images[i][1] * images[i][2])
                shown[i] = _largest_two(shares)
    except (KeyError, TypeError, ValueError) as problem:
        raise data.error_for(listing, f"{problem} is missing or wrong") from None

    def masks_of(image_id: int) -> tuple[dict[str, list[Mask]], Mask]:
        """Return the masks (height, width) of the instances in the photo with this id, by label of their category, and one mask of where
        crowds are. Raises ExplainerError for an outline that cannot be read.
        """
        _, height, width = images[image_id]
        masks: defaultdict[str, list[Mask]] = defaultdict(list)
        crowds = [np.zeros((height, width), bool)]
        for row in of_image[image_id]:
            try:
                mask = outline_mask(row["segmentation"], height, width)
            except (KeyError, TypeError, ValueError) as problem:
                raise data.error_for(listing, f"instance {row.get('id')}: {problem}") from None
            if row.get("iscrowd"):
                crowds.append(mask)
            elif mask.any() and categories[row["category_id"]] in shown[image_id]:
                masks[categories[row["category_id"]]].append(mask)
        return masks, union(crowds)

    ids = sorted(i for i, names in shown.items() if names and set(wanted.values()) <= names and i in images)
    if wanted:
        ids = [i for i in ids if len(masks := masks_of(i)[0]) == len(wanted) and _stand_apart(masks)]

    def read(number: int) -> Sample:
        name_of_file = images[ids[number]][0]
        masks, crowds = masks_of(ids[number])
        objects = [AnnotatedObject(label=label, mask=union(masks_of_label)) for label, masks_of_label in masks.items()]
        objects.sort(key=lambda obj: -int(obj.mask.sum()))
        labels = tuple(obj.label for obj in objects)[: None if wanted else 2 if pairs else 1]
        image = data.image(photos / name_of_file)
        stated = tuple(label for label in labels if label is not None)
        return Sample(name=name_of_file, image=image, labels=stated, objects=tuple(objects), labelled=~crowds)

    return Dataset(kind="image", length=len(ids), classes=tuple(categories.values()), split=split, read=read)


#: Declares a selection of COCO's photos.
_coco_dataset = partial(
    dataset,
    kind="image",
    gives=("class", "mask", "others"),
    layout=_COCO_LAYOUT,
    source=_COCO,
    get=_COCO_GET,
    splits=_COCO_SPLITS,
)


@_coco_dataset("coco", title="COCO 2017")
def coco(data: Folder) -> Dataset:
    """Photos with the outlines of 80 categories; the instances of a category are one object. The category with most pixels is explained;
    crowds count as not labelled.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _coco(data)


@_coco_dataset("coco-zebra-elephant", title="COCO 2017, zebras with elephants")
def zebra_elephant(data: Folder) -> Dataset:
    """Photos of COCO that show both a zebra and an elephant: does a map of one leave out the other? The two animals alone are objects, by
    ImageNet's names zebra and African elephant. As in LibraGrad's code each covers more than a twentieth of the photo, and they do not
    overlap by more than 70 % of the smaller.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _coco(data, _ZEBRA_ELEPHANT)


@_coco_dataset("coco-pairs", title="COCO 2017, photos of two things")
def pairs(data: Folder) -> Dataset:
    """Photos in which two or more categories cover a hundredth each, of the 55 that ImageNet's classes have a name for. The two that cover
    most are the objects; what else is in the photo counts as background. With the target ``each`` both are explained in turn: does a map of
    one leave out the other?

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _coco(data, pairs=True)


@dataset(
    "voc",
    title="Pascal VOC 2012 segmentation",
    kind="image",
    gives=("class", "mask", "others"),
    layout="""
VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt
VOCdevkit/VOC2012/JPEGImages/2007_000033.jpg ...
VOCdevkit/VOC2012/SegmentationClass/2007_000033.png ...
""",
    source=Citation(authors="Everingham et al.", year=2010, title="The Pascal Visual Object Classes (VOC) Challenge", venue="IJCV"),
    get="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
)
def voc(data: Folder) -> Dataset:
    """1,449 photos with the pixels of 20 classes. The class with most pixels is explained; rims and what is marked difficult count as not
    labelled.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    root = data.need("VOCdevkit/VOC2012")
    listing = data.need("VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt")
    names = [line.strip() for line in data.lines(listing)]

    def read(number: int) -> Sample:
        path = root / "SegmentationClass" / f"{names[number]}.png"
        values = data.plane(path)
        if values.ndim != 2:
            raise data.error_for(path, "it must hold one class number a pixel")
        classes = [int(value) for value in np.unique(values) if value not in (0, _VOC_EDGE)]
        if classes and max(classes) > len(VOC_CLASSES):
            raise data.error_for(path, f"it names class {max(classes)} of {len(VOC_CLASSES)}")
        classes.sort(key=lambda value: -int((values == value).sum()))
        objects = tuple(AnnotatedObject(label=VOC_CLASSES[value - 1], mask=values == value) for value in classes)
        image = data.image(root / "JPEGImages" / f"{names[number]}.jpg")
        labels = tuple(str(obj.label) for obj in objects[:1])
        return Sample(name=names[number], image=image, labels=labels, objects=objects, labelled=values != _VOC_EDGE)

    return Dataset(kind="image", length=len(names), classes=tuple(VOC_CLASSES), read=read)
