"""Published data sets, read as their publishers lay them out; nothing is downloaded.

Importing this package imports all of its files, which fill :data:`DATASETS`. Installed packages add theirs with an entry point
``vitrine.datasets``, a module that declares data sets when it is imported; the scenes that Vitrine renders on the spot come that way.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.datasets.base import AnnotatedObject, Dataset, Sample
from explainers.datasets.registry import DATASETS, DatasetEntry, Folder, dataset, open_dataset
from explainers.plugins import DATASET_GROUP, load_group

for _module in (
    *(
        "imagenet",
        "imagenet_masks",
        "pictures",
        "birds",
        "digits",
        "coco",
        "eraser",
        "texts",
        "short_texts",
        "molecules",
    ),  # the order of every list
    *(file.name for file in iter_modules(__path__)),
):
    import_module(f"explainers.datasets.{_module}")
load_group(DATASET_GROUP)

__all__ = ["DATASETS", "AnnotatedObject", "Dataset", "DatasetEntry", "Folder", "Sample", "dataset", "open_dataset"]
