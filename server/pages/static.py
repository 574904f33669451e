"""The static files of the pages, under a path that names their contents, so that a browser fetches each of them once.

``/static/<digest>/core/dom.js`` may be kept for good: whatever changes in the folder changes the digest, and the next page names the new
one. Scripts and style sheets name each other by relative addresses, so all files of a page come from the same path.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import anyio
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOREVER = "public, max-age=31536000, immutable"
_DIGEST = re.compile(r"[0-9a-f]{16}")


class StaticFolder(StaticFiles):
    """The files of ``folder``, below ``/static`` and below ``/static/<digest>``.

    What is asked for by the digest of the files that are there now is kept by browsers for good, and so are fonts, which have their
    version in their name. About everything else browsers ask again each time: without a digest, or with one of before.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self._folder = folder
        self._read: dict[str, tuple[tuple[int, int], bytes]] = {}  # file -> its size and time, the digest of what is in it

    @property
    def path(self) -> str:
        """Where browsers find the files as they are now."""
        return f"/static/{self.digest()}"

    def digest(self) -> str:
        """Of the names and contents of all files, 16 hexadecimal digits. A file is read again where its size or its time changed."""
        read = {}
        whole = hashlib.sha256()
        for entry in sorted(_files(str(self._folder)), key=lambda entry: entry.path):
            file = entry.path
            try:
                state = (entry.stat().st_size, entry.stat().st_mtime_ns)
                known = self._read.get(file)
                read[file] = known if known and known[0] == state else (state, hashlib.sha256(Path(file).read_bytes()).digest())
            except FileNotFoundError:  # an editor put it away meanwhile
                continue
            whole.update(file.removeprefix(str(self._folder)).encode() + b"\0" + read[file][1])
        self._read = read
        return whole.hexdigest()[:16]

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file at ``path``, which may begin with a digest."""
        first, _, rest = path.partition(os.sep)
        keeps = path.endswith(".woff2")
        if _DIGEST.fullmatch(first):
            path = rest
            keeps = keeps or first == await anyio.to_thread.run_sync(self.digest)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = FOREVER if keeps else "no-cache"
        return response


def _files(folder: str) -> list[os.DirEntry[str]]:
    """All files below a folder; links that lead nowhere, which some editors leave beside what they change, are none."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                files += _files(entry.path)
            elif entry.is_file():
                files.append(entry)
    return files
