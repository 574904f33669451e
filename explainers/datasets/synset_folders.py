"""Photos in folders that are named as synsets of WordNet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from explainers.datasets.registry import Folder
from explainers.models.inputs.images import is_picture_name

_WNID = re.compile(r"n\d{8}")


def synset_folders(folder: Path) -> list[str]:
    """Return the names of the folders in ``folder`` that are synsets, in their order."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and _WNID.fullmatch(path.name))


def photos_of_synsets(data: Folder, folder: Path, wnids: Sequence[str]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the pictures in the folders in ``data`` that are named after the synsets ``wnids``, and the names of other files in and next
    to these folders. Raises ExplainerError if there is no picture.
    """
    if not wnids:
        raise data.error_for(folder, "it has no folder named as a synset, such as n01440764")
    inside = [path for wnid in wnids for path in sorted((folder / wnid).iterdir())]
    files = [path for path in inside if path.is_file() and is_picture_name(path)]
    if not files:
        raise data.error_for(folder, "its folders of synsets hold no picture")
    outside = [path for path in folder.iterdir() if path.name not in wnids]
    return files, data.relative_names([*(path for path in inside if path not in set(files)), *outside])


def file_names(folder: Path, files: Sequence[Path]) -> list[str]:
    """Return a different name for each of the ``files`` below ``folder``: without folder and suffix if these names are all different, else
    the path relative to ``folder``.
    """
    stems = [path.stem for path in files]
    return stems if len(set(stems)) == len(stems) else [path.relative_to(folder).as_posix() for path in files]
