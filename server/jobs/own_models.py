"""Models that people bring to the page: their files in a folder of the server's home, until it stops."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from server.http.problems import Problem
from server.http.visitors import Visitor
from server.jobs.archives import safe_path, unpack_zip

#: What is kept of an upload: weights, and what lies beside them as data. Code is left out: nothing of it is ever run.
_KINDS = (
    *(".safetensors", ".pth", ".pt", ".ckpt", ".tar", ".bin", ".zip"),
    *(".json", ".txt", ".csv", ".tsv", ".model", ".vocab", ".merges", ".yaml", ".yml", ".md", ".jinja"),
)
_MOST_FILES = 2000
_MOST_UPLOADS = 8
_OLD = 3600.0  # seconds after which an upload that was never opened makes room
_MOST_SECONDS = 900.0  # that the files of one upload may take to arrive
_SEND_FILES = "Send weights (.safetensors, .pth, .pt, .ckpt, .tar) and the .json and .txt files beside them, or a .zip of the folder."


@dataclass
class Upload:
    """Files on their way to becoming a model."""

    id: str
    folder: Path
    owner: str = ""  # of a visitor; "" where all are one person
    begun: float = field(default_factory=time.monotonic)
    size: int = 0
    files: int = 0
    left_out: list[str] = field(default_factory=list)
    is_open: bool = False  # a model was made of it: its files stay


class OwnModels:
    """The uploads of one running server, in ``home``; what an earlier run left there is removed."""

    def __init__(self, home: Path, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._home = home / "own-models"
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()
        shutil.rmtree(self._home, ignore_errors=True)

    def begin(self, visitor: Visitor) -> Upload:
        """A new upload of a visitor. Raises Problem 429 where too many are under way."""
        with self._lock:
            for upload in [u for u in self._uploads.values() if not u.is_open and time.monotonic() - u.begun > _OLD]:
                self._remove(upload)
            if sum(not upload.is_open for upload in self._uploads.values()) >= _MOST_UPLOADS:
                raise Problem(429, "too-many-uploads", f"{_MOST_UPLOADS} models are being brought.", send="Wait until one is opened.")
            upload = Upload(secrets.token_hex(16), self._home / secrets.token_hex(6), visitor.owner)
            upload.folder.mkdir(parents=True)
            self._uploads[upload.id] = upload
            return upload

    def find(self, upload_id: str, visitor: Visitor) -> Upload:
        """The upload of this id; raises Problem 404 where there is none of this visitor."""
        upload = self._uploads.get(upload_id)
        if upload is None or not visitor.owns(upload.owner):
            raise Problem(404, "no-such-upload", "There is no such upload.", send="POST /api/opening begins one.")
        return upload

    def forget(self, upload_id: str, visitor: Visitor) -> None:
        """Remove an upload and its files."""
        upload = self.find(upload_id, visitor)
        with self._lock:
            self._remove(upload)

    def close(self) -> None:
        """Remove all."""
        shutil.rmtree(self._home, ignore_errors=True)

    def _remove(self, upload: Upload) -> None:
        self._uploads.pop(upload.id, None)
        shutil.rmtree(upload.folder, ignore_errors=True)

    async def receive(self, upload: Upload, name: str, body: AsyncIterator[bytes]) -> None:
        """Write one file of an upload as it arrives. Raises Problem 422 for a name that leads elsewhere and 413 over the limits."""
        place = safe_path(name, _SEND_FILES)
        if place.suffix.lower() not in _KINDS:
            upload.left_out.append(place.name)
            async for _ in body:
                pass
            return
        self._count(upload)
        path = upload.folder.joinpath(*place.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        async with await anyio.open_file(path, "wb") as file:
            async for chunk in body:
                upload.size += len(chunk)
                if upload.size > self.most_bytes:
                    await file.aclose()
                    path.unlink()
                    raise self._too_large()
                if time.monotonic() - upload.begun > _MOST_SECONDS:
                    raise Problem(408, "upload-too-slow", "The files took too long to arrive.", send="Paste a path, or send fewer files.")
                await file.write(chunk)

    def unpack(self, upload: Upload) -> None:
        """Unpack the zips of an upload, each into its own place. Raises Problem 422 for one that leads elsewhere, 413 over the limits."""
        for path in [path for path in upload.folder.rglob("*.zip") if path.is_file()]:
            upload.left_out += unpack_zip(
                path,
                path.parent,
                is_wanted=lambda place: place.suffix.lower() in _KINDS and place.suffix.lower() != ".zip",
                on_file=lambda: self._count(upload),
                on_bytes=lambda many: self._grow(upload, many),
                send=_SEND_FILES,
            )
            path.unlink()

    def _grow(self, upload: Upload, many: int) -> None:
        upload.size += many
        if upload.size > self.most_bytes:
            raise self._too_large()

    def _count(self, upload: Upload) -> None:
        upload.files += 1
        if upload.files > _MOST_FILES:
            raise Problem(413, "too-many-files", f"There are more than {_MOST_FILES} files.", send=_SEND_FILES)

    def _too_large(self) -> Problem:
        size = f"{self.most_bytes / 1e6:g} MB"
        return Problem(413, "model-too-large", f"The files are larger than {size}.", send="Paste their path, or open them in Python.")
