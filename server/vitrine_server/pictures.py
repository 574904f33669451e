"""Pictures that a command goes over: folders, and data sets by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explainers.datasets import Dataset


class Pictures:
    """The pictures of a data set or a folder: ``read`` returns the one at each of ``places``, one by one while iterating."""

    def __init__(self, read: Any, places: list[Any]) -> None:
        self._read, self._places = read, places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        return (self._read(place) for place in self._places)


def read_source(which: str, limit: int) -> tuple[str, Pictures]:
    """Return the name of ``which``, a folder of pictures or a data set, and at most ``limit`` of its pictures, always the same ones. Raises
    ExplainerError if there are none.
    """
    import numpy as np
    from PIL import Image

    from explainers.datasets import DATASETS, open_dataset
    from explainers.errors import ExplainerError

    folder = Path(which)
    if folder.is_dir():
        endings = {ending for ending, form in Image.registered_extensions().items() if form in Image.OPEN}
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in endings)
        if not files:
            raise ExplainerError(f"there is no picture in {which}")
        drawn = sorted(np.random.default_rng(0).permutation(len(files))[:limit].tolist())
        return folder.resolve().name, Pictures(lambda place: files[place], drawn)
    if which not in DATASETS:
        raise ExplainerError(f"there is no folder {which}, and no data set of that name: 'vitrine evaluate --list' lists those")
    data: Dataset = open_dataset(which)
    if data.kind != "image":
        raise ExplainerError(f"{which} holds texts: name pictures")
    return which, Pictures(lambda place: data[place].image, data.choose(limit))


def read_sources(named: Sequence[str], limit: int) -> tuple[list[Pictures], str]:
    """Return at most ``limit`` pictures of each of the folders or data sets ``named``, and a text that says how many came from which."""
    sources = [read_source(which, limit) for which in named]
    return [pictures for _, pictures in sources], ", ".join(f"{len(pictures)} of {name}" for name, pictures in sources)
