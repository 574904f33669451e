"""ImageNet's validation photos in the forms in which they are passed on, and ImageNet-Hard."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

from PIL import Image

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.parquet import Table
from explainers.datasets.registry import Folder, dataset
from explainers.datasets.synset_folders import file_names, photos_of_synsets, synset_folders
from explainers.models.inputs.images import to_rgb
from explainers.models.labels import imagenet_entries

_PHOTOS = ("ILSVRC2012_img_val", "val", "ILSVRC/Data/CLS-LOC/val")
_PARQUET = "data"
_DEVKIT = "ILSVRC2012_devkit_t12/data"
_KAGGLE = "LOC_val_solution.csv"
_KAGGLE_SYNSETS = "LOC_synset_mapping.txt"


@dataset(
    "imagenet",
    title="ImageNet validation",
    kind="image",
    gives=("class",),
    layout="""
ILSVRC2012_img_val/ILSVRC2012_val_00000001.JPEG ... (50,000 photos), or the same in val/
ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt
ILSVRC2012_devkit_t12/data/meta.mat
or, as Kaggle has it:
ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG ...
LOC_val_solution.csv
LOC_synset_mapping.txt
or, sorted by synset:
val/n01440764/ILSVRC2012_val_00000293.JPEG ...
or, as Hugging Face has it:
data/validation-00000-of-00014.parquet ...
""",
    source=Citation(
        authors="Russakovsky et al.", year=2015, title="ImageNet Large Scale Visual Recognition Challenge", venue="IJCV", arxiv="1409.0575"
    ),
    get="https://image-net.org/download.php",
)
def imagenet(data: Folder) -> Dataset:
    """50,000 photos of 1,000 classes, one class each.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    root = data.need(*_PHOTOS, _PARQUET)
    if root == data.path / _PARQUET:
        synsets = [entry.wnid or "" for entry in imagenet_entries()]
        return _parquet_photos(data, synsets.__getitem__)
    if wnids := synset_folders(root):
        files, unread = photos_of_synsets(data, root, wnids)
        labels = [path.parent.name for path in files]
    else:
        label_of_photo, wnids = _kaggle(data) if (data.path / _KAGGLE).is_file() else _devkit(data)
        files, labels = [root / f"{photo}.JPEG" for photo in label_of_photo], list(label_of_photo.values())
        unread = data.relative_names(set(root.iterdir()) - set(files))
    names = file_names(root, files)
    return Dataset(
        kind="image",
        length=len(files),
        classes=tuple(wnids) if len(wnids) == 1000 else (),
        unread=unread,
        read=lambda i: Sample(name=names[i], image=data.image(files[i]), labels=(labels[i],)),
    )


def _devkit(data: Folder) -> tuple[Mapping[str, str], list[str]]:
    """Read the development kit of ImageNet's challenge from the folder ``data``. Return the synset of each validation photo by the photo's
    name, and the synsets with ids up to 1000, sorted, which is the order of the classes. Raises ExplainerError for a missing or damaged
    file.
    """
    from scipy.io import loadmat

    meta = data.need(f"{_DEVKIT}/meta.mat")
    truth = data.need(f"{_DEVKIT}/ILSVRC2012_validation_ground_truth.txt")
    try:
        synsets = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in loadmat(meta, squeeze_me=True)["synsets"]}
        labels = {f"ILSVRC2012_val_{i:08d}": synsets[int(line)] for i, line in enumerate(data.lines(truth), 1)}
    except (KeyError, ValueError, TypeError, NotImplementedError) as problem:
        raise data.error_for(meta, problem) from None
    return labels, sorted(synsets[number] for number in synsets if number <= 1000)


def _kaggle(data: Folder) -> tuple[Mapping[str, str], list[str]]:
    """Read Kaggle's tables of validation photos and of synsets from the folder ``data``. Return the synset of each photo by the photo's
    name, sorted by name, and all synsets in the order of the classes. Raises ExplainerError for a missing or damaged file.
    """
    solution, mapping = data.need(_KAGGLE), data.need(_KAGGLE_SYNSETS)
    wnids = [line.split()[0] for line in data.lines(mapping)]
    known, labels = set(wnids), {}
    for row in data.table(solution, ("ImageId", "PredictionString")):
        wnid = (row["PredictionString"] or "").partition(" ")[0]
        if wnid not in known:
            raise data.error_for(solution, f"{row['ImageId']} has the class {wnid!r}, which is not in {_KAGGLE_SYNSETS}")
        labels[row["ImageId"]] = wnid
    return dict(sorted(labels.items())), wnids


def _parquet_photos(data: Folder, label_of: Callable[[int], str | int]) -> Dataset:
    """Return the data set of the photos of ``data/validation-*.parquet``, in the format in which Hugging Face's datasets stores pictures.
    Each has one or several class indices; ``label_of`` turns an index into its label.
    """
    folder = data.need(_PARQUET)
    files = sorted(folder.glob("validation-*.parquet"))
    table = Table(data, files, ("image", "label"))

    def read(number: int) -> Sample:
        row = table.row(number)
        try:
            picture = to_rgb(Image.open(io.BytesIO(row["image"]["bytes"])))
        except (OSError, SyntaxError, ValueError, TypeError) as problem:
            raise data.error_for(folder, f"row {number + 1} has no picture: {problem}") from None
        indices = row["label"] if isinstance(row["label"], list) else [row["label"]]
        if not all(isinstance(index, int) and 0 <= index < len(synsets) for index in indices):
            raise data.error_for(folder, f"row {number + 1} has the label {row['label']}: classes are numbered 0 to {len(synsets) - 1}")
        return Sample(name=f"{number:05d}", image=picture, labels=tuple(map(label_of, indices)))

    synsets = tuple(entry.wnid or "" for entry in imagenet_entries())
    unread = data.relative_names(path for path in folder.glob("*.parquet") if path not in files)
    return Dataset(kind="image", length=len(table), classes=synsets, unread=unread, read=read)


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
    """10,980 photos that were hard to classify; any of the classes of a photo (``label``, indices among ImageNet's 1,000) is right.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _parquet_photos(data, int)
