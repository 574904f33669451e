"""Data sets that people send for a run: a zip of pictures, a CSV or JSONL of texts, kept in the server's home until the run is done."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath

import anyio
from PIL import Image
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.models.inputs.images import is_picture_name
from vitrine_server.http.archives import ZipBounds, make_place, unpack_zip
from vitrine_server.http.limits import limits
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.runs.data_sources import DataSource, without_paths
from vitrine_server.settings import Settings

PREFIX = "sent/"  # of their names
_ID = re.compile(r"sent/[0-9a-f]{16}")
_ABOUT = "about.json"
_MOST_KEPT = 8
_MAX_PARTS = 600_000  # commas and brackets in a file of texts: prose of 20 MB has a third of it
_CHUNK_BYTES = 1 << 20
_OLD = 3600.0  # seconds after which one makes way that no run was begun on
_MOST_SECONDS = 900.0  # that one may take to arrive
_SEND = "Send a .zip of pictures in a folder for each class, with masks/ where there are any, or a .csv or .jsonl of texts."


def source_in(folder: Path, name: str) -> DataSource | None:
    """Return the source of the data set that was sent and lies in ``folder``; None if there is none."""
    try:
        about = json.loads((folder / _ABOUT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return DataSource(name, about["dataset"], folder / about["place"], about["title"], is_sent=True)


def _link(source: str, target: str) -> None:
    """Link a file to a further place, or copy it where links are not possible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


class SentData:
    """The data sets that visitors sent, in a folder of ``home``; ``states_on`` returns the states of the runs on the data set of a name.
    Any thread may call.
    """

    def __init__(self, home: Path, settings: Settings) -> None:
        self._home, self._settings = home / "run-data", settings
        self._lock = threading.Lock()
        self.states_on: Callable[[str], set[str]] = lambda name: set()

    def find(self, name: str) -> DataSource | None:
        """Return the source of the data set called ``name``; None if there is none."""
        return source_in(self._folder(name), name) if _ID.fullmatch(name) else None

    def keep(self, name: str, place: Path) -> None:
        """Keep the data set called ``name`` in ``place`` too, as links to the same files where the disk can: it stays there when it is
        forgotten here. Does nothing if it is kept there already.
        """
        if not place.is_dir() and _ID.fullmatch(name):
            half = place.with_name(f".{place.name}.half")
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(self._folder(name), half, copy_function=_link)
            half.rename(place)

    def forget(self, name: str) -> None:
        """Remove the data set called ``name`` and its files."""
        if _ID.fullmatch(name):
            shutil.rmtree(self._folder(name), ignore_errors=True)

    def sweep(self) -> None:
        """Remove data sets and incomplete uploads that are older than an hour and that no unfinished run needs."""
        if not self._home.is_dir():
            return
        now = time.time()
        for folder in self._home.iterdir():
            if now - folder.stat().st_mtime > _OLD and not self.states_on(PREFIX + folder.name) - {"done"}:
                shutil.rmtree(folder, ignore_errors=True)

    async def receive(self, name: str, body: AsyncIterator[bytes]) -> DataSource:
        """Receive a file with a data set, called ``name``, from ``body`` and return its source. The same bytes get the same name, so that a
        run can continue after its data was removed. Raises Problem 413 over the limits, 415 for another kind of file, 422 for what cannot
        be read, 429 if all kept data sets are in use.
        """
        suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
        if suffix not in (".zip", ".csv", ".jsonl"):
            raise Problem(415, "unknown-data", f"{name[:100]!r} is not a data set that can be measured.", send=_SEND)
        self.sweep()
        folder = self._home / f".{secrets.token_hex(8)}"
        folder.mkdir(parents=True)
        try:
            most = self._settings.max_data_bytes if suffix == ".zip" else self._max_text_bytes
            digest = await self._write(folder / f"texts{suffix}", body, most)
            return await run_in_threadpool(self._take_in, folder, suffix, digest, PurePosixPath(name.replace("\\", "/")).name[:100])
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _max_text_bytes(self) -> int:
        """The maximum size in bytes of a file of texts: texts are read whole, pictures one at a time."""
        return min(self._settings.max_data_bytes, self._settings.max_upload_bytes)

    async def _write(self, path: Path, body: AsyncIterator[bytes], most: int) -> str:
        digest, size, began = hashlib.sha256(), 0, time.monotonic()
        async with await anyio.open_file(path, "wb") as file:
            async for chunk in body:
                size += len(chunk)
                digest.update(chunk)
                if size > most:
                    raise self._too_large(most)
                if time.monotonic() - began > _MOST_SECONDS:
                    raise Problem(408, "upload-too-slow", "The file took too long to arrive.", send="Send fewer inputs.")
                await file.write(chunk)
        if not size:
            raise Problem(422, "empty-file", "The file is empty.", send=_SEND)
        return digest.hexdigest()[:16]

    def _take_in(self, folder: Path, suffix: str, digest: str, title: str) -> DataSource:
        """Unpack and check the file with this ``suffix`` that has arrived in ``folder``, and move it to its place; return its source, which
        ``digest`` and ``title`` name.
        """
        source = DataSource(PREFIX + digest, "texts", folder / f"texts{suffix}", title, is_sent=True)
        if suffix != ".zip":
            self._check_rows(folder / f"texts{suffix}")
        else:
            source = DataSource(PREFIX + digest, "pictures", self._unpacked(folder / "texts.zip", folder / "pictures"), title, is_sent=True)
        self._check(source)
        assert source.folder is not None
        about = {"dataset": source.dataset, "place": source.folder.relative_to(folder).as_posix(), "title": title}
        (folder / _ABOUT).write_text(json.dumps(about), "utf-8")
        with self._lock:
            place = self._folder(source.name)
            if not place.is_dir():
                self._make_room()
                folder.rename(place)
            place.touch()
        kept_source = self.find(source.name)
        assert kept_source is not None
        return kept_source

    def _unpacked(self, path: Path, folder: Path) -> Path:
        """Unpack the zip at ``path`` into ``folder`` and remove the zip; return the folder of its pictures: ``folder``, or the only folder
        inside it.
        """
        most = self._settings
        bounds = ZipBounds(
            2 * most.max_run_inputs, most.max_data_bytes, lambda _: self._too_many(), self._too_large, _SEND
        )  # each with a mask
        folder.mkdir()
        files, _ = unpack_zip(path, bounds, lambda place: is_picture_name(place.name))
        is_empty = True
        for place, pieces in files:
            is_empty = False
            with make_place(folder, place).open("wb") as file:
                file.writelines(pieces)
        path.unlink()
        if is_empty:
            raise Problem(422, "no-pictures", "The zip holds no pictures.", send=_SEND)
        inside = list(folder.iterdir())
        if len(inside) == 1 and inside[0].is_dir():
            below = list(inside[0].iterdir())
            if all(path.is_dir() for path in below) or any(path.is_dir() and path.name == "masks" for path in below):
                return inside[0]
        return folder

    def _check_rows(self, path: Path) -> None:
        """Raise Problem 413 if the file ``path`` has too many rows, or so many commas and brackets that reading it whole would fill the
        memory: each cell, list and number takes some thirty times its letters.
        """
        with path.open("rb") as data:
            parts = sum(chunk.count(sign) for chunk in iter(lambda: data.read(_CHUNK_BYTES), b"") for sign in (b",", b"[", b"{"))
        if parts > _MAX_PARTS:
            detail = f"The file has more than {_MAX_PARTS} commas and brackets."
            raise Problem(413, "data-too-large", detail, send="Send fewer inputs, or leave out columns that are not read.")
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            rows = csv.reader(text) if path.suffix == ".csv" else (line for line in text if line.strip())
            with suppress(csv.Error):  # said where it is opened
                for number, _ in enumerate(rows):
                    if number > self._settings.max_run_inputs:  # the first row of a table has the names of its columns
                        raise self._too_many()

    def _check(self, source: DataSource) -> None:
        """Raise a Problem if the data set ``source`` cannot be measured; every row of texts is read, of pictures only the sizes."""
        try:
            data = source.open()
            if len(data) > self._settings.max_run_inputs:
                raise self._too_many()
            if source.dataset == "texts":
                for sample in data:
                    known = limits(self._settings)["text"]
                    longest = max(len(sample.text or ""), len(sample.text_pair or ""))
                    if longest > known.most:
                        raise known.problem(longest)
                return
        except ExplainerError as problem:
            raise Problem(422, "broken-data", str(without_paths(problem, source.folder)), send=_SEND) from None
        assert source.folder is not None
        for path in source.folder.rglob("*"):
            if path.is_file():
                self._check_picture(path)

    def _check_picture(self, path: Path) -> None:
        try:
            with Image.open(path) as picture:
                pixels = picture.width * picture.height
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise limits(self._settings)["pixels"].problem() from None
        except Exception:
            return  # a broken picture among many: the run says so, or leaves it out
        if pixels > self._settings.max_pixels:
            raise limits(self._settings)["pixels"].problem()

    def _make_room(self) -> None:
        kept = sorted((path for path in self._home.iterdir() if not path.name.startswith(".")), key=lambda path: path.stat().st_mtime)
        if len(kept) < _MOST_KEPT:
            return
        by_state = [(self.states_on(PREFIX + path.name), path) for path in kept]
        idle = [(bool(states - {"done"}), path) for states, path in by_state if not states & {"waiting", "running"}]
        if not idle:
            detail = f"{_MOST_KEPT} data sets are kept for runs that go on."
            raise Problem(429, "too-much-data", detail, send="Wait until one is done.")
        _, free = min(idle, key=lambda pair: pair[0])  # the first that no run needs, else that of a run that was stopped
        shutil.rmtree(free, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self._home / name.removeprefix(PREFIX)

    def _too_large(self, most: int | None = None) -> Problem:
        size = f"{(most or self._settings.max_data_bytes) / 1e6:g} MB"
        return Problem(413, "data-too-large", f"The data set is larger than {size}.", send=f"Send at most {size}, packed and unpacked.")

    def _too_many(self) -> Problem:
        most = self._settings.max_run_inputs
        return Problem(413, "too-many-inputs", f"The data set has more than {most} inputs.", send=f"Send at most {most}.")
