"""The registry of data sets: the files of each, what it gives, and where it comes from."""

from __future__ import annotations

import csv
import difflib
import io
import json
import lzma
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.citation import Citation
from explainers.datasets.base import Dataset, DatasetKind, Mask
from explainers.errors import ExplainerError
from explainers.models.inputs.images import NOT_READ, read_image

#: The annotations that a data set may have for its inputs.
GIVES = {
    "class": "classes",
    "mask": "masks of objects",
    "others": "masks of several objects of different classes",
    "rationale": "words that people marked",
    "cell": "mosaics of four pictures",
    "against": "answers that the right ones are set against",
    "parts": "pictures without each of their parts",
}


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """The declaration of a data set.

    name    its name on the command line; ``title`` and ``description`` are for people
    kind    what its inputs are: "image", "text" or "molecule"
    gives   keys of :data:`GIVES`
    splits  the parts that can be read, if it has several; by default the first one that exists is read
    layout  the files that are read, below the data folder, in their publisher's arrangement; empty if none are needed
    source  the publication
    get     where to get the files
    opener  function from its :class:`Folder` to the data set
    """

    name: str
    title: str
    kind: DatasetKind
    gives: tuple[str, ...]
    description: str
    layout: str
    source: Citation | None
    get: str
    splits: tuple[str, ...]
    opener: Callable[[Folder], Dataset] = field(repr=False)

    def open(self, folder: Path | None = None, split: str | None = None) -> Dataset:
        """Open the data set in ``folder``; ``split`` chooses one of its splits, if it has any. Raises ExplainerError if the folder or a
        file in it is missing, for a folder that the data set does not need, and for an unknown split.
        """
        if self.layout and folder is None:
            raise ExplainerError(f"{self.title} is not part of Vitrine: name its folder with --data DIR. {self.where}")
        if not self.layout and folder is not None:
            raise ExplainerError(f"{self.title} needs no files: leave out --data.")
        if split is not None and split not in self.splits:
            raise ExplainerError(
                f"{self.title} has no split {split!r}: choose {' or '.join(self.splits)}."
                if self.splits
                else f"{self.title} is read whole: leave out --split."
            )
        files = Folder(self, Path() if folder is None else folder, split)
        if self.layout and not files.path.exists():
            raise ExplainerError(f"There is no {files.path}, where {self.title} should be. {self.where}")
        opened = self.opener(files)
        gives = tuple(fact for fact in self.gives if fact not in opened.lacks)
        return replace(opened, name=self.name, gives=gives, folder=folder)

    @property
    def where(self) -> str:
        """A sentence that says where to get the data set; "" where that is not known."""
        return f"Get it from {self.get}." if self.get else ""


@dataclass(frozen=True)
class Folder:
    """The folder (or file) at ``path`` of the data set ``entry``, with the split to read. Its methods read the files in it; for one that is
    missing or broken they raise an ExplainerError that names the data set.
    """

    entry: DatasetEntry
    path: Path
    split: str | None = None

    @property
    def splits(self) -> tuple[str, ...]:
        """The requested split; if none was requested, all splits, of which the first that exists is read."""
        return self.entry.splits if self.split is None else (self.split,)

    def relative_names(self, paths: Iterable[Path]) -> tuple[str, ...]:
        """Return ``paths`` relative to the folder, in order, without hidden files."""
        return tuple(sorted(path.relative_to(self.path).as_posix() for path in paths if not path.name.startswith(".")))

    def need(self, *names: str) -> Path:
        """Return the first of ``names``, paths relative to the folder, that exists. Raises ExplainerError, naming them, if none does."""
        for name in names:
            if (file := self.path / name).exists():
                return file
        places = " nor ".join(str(self.path / name) for name in names)
        raise ExplainerError(f"{self.entry.title} lacks {places}. It should lie as\n{self.entry.layout}\n{self.entry.where}")

    def find(self, *patterns: str) -> list[Path]:
        """Return the files, in order, that match the first pattern that matches any file; patterns are relative to the folder. Empty if no
        pattern matches.
        """
        return next((files for pattern in patterns if (files := sorted(self.path.glob(pattern)))), [])

    def error_for(self, path: Path, why: object) -> ExplainerError:
        """Return the ExplainerError for the file at ``path``, which cannot be read for the reason ``why``. Its message says what to do:
        fetch a published file again, or correct a file of your own.
        """
        remedy = f"Fetch that file again. {self.entry.where}" if self.entry.get else f"It should be:\n{self.entry.layout}"
        return ExplainerError(f"{self.entry.title}: {path} cannot be read: {why}. {remedy}")

    def text(self, path: Path) -> str:
        """Return the text of the file ``path``, which is UTF-8 and may be compressed with xz; line ends are unchanged and a byte order mark
        is dropped. Raises ExplainerError if the file is damaged or empty.
        """
        try:
            packed = path.read_bytes()
            text = (lzma.decompress(packed) if path.suffix == ".xz" else packed).decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            raise self.error_for(path, f"it is not UTF-8, at byte {problem.start}") from None
        except (OSError, lzma.LZMAError) as problem:
            raise self.error_for(path, problem) from None
        if not text.strip():
            raise self.error_for(path, "it is empty")
        return text

    def lines(self, path: Path) -> list[str]:
        """Return the lines of the text file ``path`` that are not empty. Only line breaks end a line; other separators, such as U+2028,
        stay in the text. Raises ExplainerError if the file is damaged or empty.
        """
        return [line for line in re.split(r"\r\n|\n|\r", self.text(path)) if line.strip()]

    def json(self, path: Path) -> Any:
        """Return the value in the JSON file ``path``. Raises ExplainerError if the file is damaged or empty."""
        text = self.text(path)
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise self.error_for(path, problem) from None

    def json_lines(self, path: Path) -> list[dict[str, Any]]:
        """Return the objects in the file ``path``, which holds one JSON object a line. Raises ExplainerError if a line is anything else, or
        the file is damaged or empty.
        """
        try:
            rows = [json.loads(line) for line in self.lines(path)]
        except (ValueError, RecursionError) as problem:
            raise self.error_for(path, problem) from None
        if not all(isinstance(row, dict) for row in rows):
            raise self.error_for(path, "each line must be an object")
        return rows

    def table(self, path: Path, columns: tuple[str, ...], delimiter: str = ",") -> Iterator[dict[str, str]]:
        """Yield the rows of the table in the file ``path``, whose cells are separated by ``delimiter``, with a heading that has these
        ``columns``, each as a dict.
        """
        rest_key = "what is beyond the columns"
        reader = csv.DictReader(
            io.StringIO(self.text(path), newline=""),
            restkey=rest_key,
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        )
        try:
            if missing_columns := set(columns) - set(reader.fieldnames or ()):
                raise self.error_for(path, f"its first line lacks the column {', '.join(sorted(missing_columns))}")
            for row in reader:
                if rest_key in row:
                    raise self.error_for(path, f"line {reader.line_num} has more columns than the first; what holds a comma goes in quotes")
                yield row
        except csv.Error as problem:
            raise self.error_for(path, f"after line {reader.line_num}: {problem}") from None

    def image(self, path: Path) -> Image.Image:
        """Return the picture in the file ``path`` of this folder, upright, in RGB. Raises ExplainerError if it cannot be read."""
        self.need(str(path.relative_to(self.path)))
        return read_image(path)

    def plane(self, path: Path) -> Any:
        """Read the picture ``path`` of this folder, which holds classes, not colours, and return its values (height, width) or (height,
        width, channels). Raises ExplainerError if it cannot be read.
        """
        self.need(str(path.relative_to(self.path)))
        try:
            with Image.open(path) as picture:
                if picture.format in NOT_READ:
                    raise ValueError(f"it is a file of {picture.format}")
                return np.array(picture)
        except (OSError, SyntaxError, ValueError) as problem:
            raise self.error_for(path, problem) from None


def union(masks: list[Mask]) -> Mask:
    """Return a mask that is true where any of ``masks``, of one shape, is."""
    mask: Mask = np.logical_or.reduce(masks)
    return mask


#: A dict of the declaration of every data set by its name.
DATASETS: dict[str, DatasetEntry] = {}


def dataset(
    name: str,
    *,
    title: str,
    kind: DatasetKind,
    gives: tuple[str, ...],
    layout: str = "",
    source: Citation | None = None,
    get: str = "",
    splits: tuple[str, ...] = (),
) -> Callable[[Callable[[Folder], Dataset]], Callable[[Folder], Dataset]]:
    """Return a decorator that declares a data set called ``name``: it is put on a function from the :class:`Folder` of its files to the
    :class:`Dataset`, whose docstring's first paragraph describes it. The decorator returns the function unchanged; it raises ExplainerError
    for a name that is taken.

    title   its name for people
    kind    what its inputs are: "image", "text" or "molecule"
    gives   what is known of its inputs, keys of :data:`GIVES`, such as masks of objects
    layout  the files that are read, below the data folder; empty if none are needed. ``get`` says where to get them
    source  the publication, if any
    splits  the parts that can be read, if it has several; by default the first one that exists is read
    """

    def declare(opener: Callable[[Folder], Dataset]) -> Callable[[Folder], Dataset]:
        if name in DATASETS:
            raise ExplainerError(f"There is already a data set {name}.")
        if unknown_facts := set(gives) - set(GIVES):
            raise ExplainerError(f"Data set {name} gives {', '.join(unknown_facts)}; there are {', '.join(GIVES)}.")
        words = " ".join((opener.__doc__ or "").split("\n\n")[0].split())
        DATASETS[name] = DatasetEntry(
            name=name,
            title=title,
            kind=kind,
            gives=gives,
            description=words,
            layout=layout.strip("\n"),
            source=source,
            get=get,
            splits=splits,
            opener=opener,
        )
        return opener

    return declare


def open_dataset(name: str, folder: Path | None = None, split: str | None = None) -> Dataset:
    """Open the data set called ``name``, whose files are in ``folder`` (None: its usual place), and return it. If it has several parts,
    ``split`` chooses one; by default the first that exists is opened.

    Raises ExplainerError for an unknown name, with similar names, and if files are missing.
    """
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=3)
        send = f"Did you mean {', '.join(near)}?" if near else f"Choose one of {', '.join(DATASETS)}."
        raise ExplainerError(f"There is no data set {name!r}. {send}")
    return DATASETS[name].open(folder, split)
