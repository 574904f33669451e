"""Models that people bring to the page: their files in a folder of the server's home, until it stops."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import anyio

from vitrine_server.http.archives import RATIO_FROM_BYTES, ZipBounds, make_place, safe_path, unpack_zip
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_paths import KINDS

#: What is kept of an upload is named as files of a model are. Code is left out: nothing of it is ever run.
_MOST_FILES = 2000
_MOST_UPLOADS = 8
_OLD = 3600.0  # seconds after which an upload that was never opened makes room
_MOST_SECONDS = 900.0  # that the files of one upload may take to arrive
_SEND_FILES = "Send weights (.safetensors, .pth, .pt, .ckpt, .tar) and the .json and .txt files beside them, or a .zip of the folder."


@dataclass
class Upload:
    """An upload of a model's files by a visitor.

    id         its name in requests; ``folder`` is where its files lie
    owner      of which visitor; "" where all are one person
    begun      when it began, in seconds of the monotonic clock
    size       bytes of its files so far, ``unpacked_bytes`` of which came out of zips; ``files`` is their number
    left_out   names of files that were not kept
    is_open    whether a model was opened from it, so that its files stay
    unpacking  held while a zip is unpacked
    """

    id: str
    folder: Path
    owner: str = ""  # of a visitor; "" where all are one person
    begun: float = field(default_factory=time.monotonic)
    size: int = 0
    files: int = 0
    unpacked_bytes: int = 0  # of ``size``, those that came out of zips
    left_out: list[str] = field(default_factory=list)
    is_open: bool = False  # a model was made of it: its files stay
    unpacking: threading.Lock = field(default_factory=threading.Lock)

    def leave_out(self, names: list[str]) -> None:
        """Record the names of sent files that are not kept, up to a maximum number of names."""
        self.left_out += names[: _MOST_FILES - len(self.left_out)]

    def put(self, arrived: Path, path: Path) -> None:
        """Move a file that has arrived to its ``path``; a file that it replaces no longer counts in the size and number of the upload."""
        replaced = path.stat().st_size if path.exists() else None
        arrived.replace(path)
        if replaced is not None:
            self.size, self.files = self.size - replaced, self.files - 1


def _is_kept(place: PurePosixPath) -> bool:
    """Return whether the file at ``place`` inside a zip is kept: its suffix is one of a model's files, and it is no zip itself."""
    return place.suffix.lower() in KINDS and place.suffix.lower() != ".zip"


def _no_such_upload() -> Problem:
    return Problem(404, "no-such-upload", "There is no such upload.", send="POST /api/opening begins one.")


class OwnModels:
    """The uploads of models of one running server, in a folder of ``home``, of at most ``most_bytes`` each; uploads of an earlier run are
    removed.
    """

    def __init__(self, home: Path, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._home = home / "own-models"
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()
        shutil.rmtree(self._home, ignore_errors=True)

    def begin(self, visitor: Visitor) -> Upload:
        """Create a new upload for ``visitor`` and return it. Raises Problem 429 if too many uploads are under way."""
        with self._lock:
            for upload in [u for u in self._uploads.values() if not u.is_open and time.monotonic() - u.begun > _OLD]:
                self._remove(upload)
            if sum(not upload.is_open for upload in self._uploads.values()) >= _MOST_UPLOADS:
                raise Problem(429, "too-many-uploads", f"{_MOST_UPLOADS} models are being uploaded.", send="Wait until one is opened.")
            upload = Upload(secrets.token_hex(16), self._home / secrets.token_hex(6), visitor.owner)
            upload.folder.mkdir(parents=True)
            self._uploads[upload.id] = upload
            return upload

    def find(self, upload_id: str, visitor: Visitor) -> Upload:
        """Return the upload with this id. Raises Problem 404 if ``visitor`` has none."""
        upload = self._uploads.get(upload_id)
        if upload is None or not visitor.owns(upload.owner):
            raise _no_such_upload()
        return upload

    def forget(self, upload_id: str, visitor: Visitor) -> None:
        """Remove an upload and its files. Raises Problem 404 if the visitor has none with this id."""
        upload = self.find(upload_id, visitor)
        with self._lock:
            self._remove(upload)

    def close(self) -> None:
        """Remove all uploads and their files."""
        shutil.rmtree(self._home, ignore_errors=True)

    def _remove(self, upload: Upload) -> None:
        self._uploads.pop(upload.id, None)
        shutil.rmtree(upload.folder, ignore_errors=True)

    async def receive(self, upload: Upload, name: str, body: AsyncIterator[bytes]) -> None:
        """Write one file of ``upload``, called ``name``, while its ``body`` arrives. A file that is refused or incomplete is not counted,
        and an earlier file of the same name stays. Raises Problem 422 for a name that leads out of the folder and 413 over the limits.
        """
        place = safe_path(name, _SEND_FILES)
        if place.suffix.lower() not in KINDS:
            upload.leave_out([place.name])
            async for _ in body:
                pass
            return
        make_place(upload.folder, place)
        arriving = upload.folder / f".{secrets.token_hex(8)}"
        size = 0
        self._count(upload)
        try:
            async with await anyio.open_file(arriving, "wb") as file:
                async for chunk in body:
                    size, upload.size = size + len(chunk), upload.size + len(chunk)
                    if upload.size > self.most_bytes:
                        raise self._too_large()
                    if time.monotonic() - upload.begun > _MOST_SECONDS:
                        send = "Paste a path, or send fewer files."
                        raise Problem(408, "upload-too-slow", "The files took too long to arrive.", send=send)
                    await file.write(chunk)
            upload.put(arriving, make_place(upload.folder, place))  # where a file or folder may have come meanwhile
        except BaseException as error:
            arriving.unlink(missing_ok=True)
            upload.size, upload.files = upload.size - size, upload.files - 1
            if isinstance(error, FileNotFoundError):  # the upload was removed while the file arrived
                self._remove(upload)
                raise _no_such_upload() from None
            raise

    def unpack(self, upload: Upload) -> None:
        """Unpack every zip of an upload into its own folder, and delete the zip. A refused zip is removed, and neither it nor its files are
        counted. Raises Problem 422 for a file name that leads out of the folder, 413 over the limits.
        """
        with upload.unpacking:
            for path in [path for path in upload.folder.rglob("*.zip") if path.is_file()]:
                left = ZipBounds(
                    _MOST_FILES - upload.files,
                    self.most_bytes - upload.size,
                    lambda _: self._too_many(),
                    self._too_large,
                    _SEND_FILES,
                    free_bytes=max(0, RATIO_FROM_BYTES - upload.unpacked_bytes),  # many small zips are one large one
                )
                packed_bytes, made, size = path.stat().st_size, list[Path](), 0
                try:
                    files, left_out = unpack_zip(path, left, _is_kept)
                    for place, pieces in files:
                        target = make_place(path.parent, place)
                        self._count(upload)
                        made.append(target)
                        with target.open("wb") as file:
                            for piece in pieces:
                                size, upload.size = size + len(piece), upload.size + len(piece)
                                file.write(piece)
                except BaseException:
                    for target in (*made, path):
                        target.unlink(missing_ok=True)
                    upload.size, upload.files = upload.size - size - packed_bytes, upload.files - len(made) - 1
                    raise
                upload.unpacked_bytes += size
                upload.leave_out(left_out)
                path.unlink()

    def _count(self, upload: Upload) -> None:
        if upload.files >= _MOST_FILES:
            raise self._too_many()
        upload.files += 1

    def _too_many(self) -> Problem:
        return Problem(413, "too-many-files", f"There are more than {_MOST_FILES} files.", send=_SEND_FILES)

    def _too_large(self) -> Problem:
        size = f"{self.most_bytes / 1e6:g} MB"
        return Problem(413, "model-too-large", f"The files are larger than {size}.", send="Paste their path, or open them in Python.")
