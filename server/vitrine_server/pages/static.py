"""The static files of the pages, under a path that names their contents, so that a browser fetches each of them once.

``/static/<digest>/core/dom.js`` may be kept for good: whatever changes in the folder changes the digest, and the next page names the new
one. Scripts and style sheets name each other by relative addresses, so all files of a page come from the same path. A script with
``?page=image`` is that script as it is for a page whose scripts are joined, see ``vitrine_server.pages.joined``.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from mimetypes import guess_type
from pathlib import Path
from urllib.parse import parse_qs

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from vitrine_server.http.encodings import takes_gzip
from vitrine_server.pages.joined import JoinedPage

FOREVER = "public, max-age=31536000, immutable"
#: Types that are sent compressed besides texts; pictures and fonts are compressed already.
_PACKED = ("image/svg+xml", "application/javascript", "application/json")
_DIGEST = re.compile(r"[0-9a-f]{16}")


class StaticFolder(StaticFiles):
    """The files of ``folder``, served below ``/static`` and ``/static/<digest>``.

    Browsers keep files under the current digest for good, and also fonts, which have their version in their name. All other files, without
    a digest or with an old one, are revalidated each time.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self._folder = folder
        self._read: dict[str, _File] = {}  # by the path below the folder
        self._digest: str | None = None  # of these
        self._pages: dict[str, JoinedPage] = {}  # by the page, of these files
        self._joined: dict[tuple[str, str], _File] = {}  # by the page and the path

    @property
    def path(self) -> str:
        """The address prefix at which browsers find the current files."""
        return f"/static/{self.digest()}"

    def digest(self) -> str:
        """Return a digest of the names and contents of all files, 16 hexadecimal digits. A file is read again if its size
        or time changed.
        """
        read = {}
        whole = hashlib.sha256()
        folder = str(self._folder)
        for entry in sorted(_files(folder), key=lambda entry: entry.path):
            name = entry.path[len(folder) + 1 :]
            try:
                state = _state(entry.stat())
                known = self._read.get(name)
                read[name] = known if known and known.state == state else _File(state, Path(entry.path).read_bytes())
            except FileNotFoundError:  # an editor put it away meanwhile
                continue
            whole.update(name.encode() + b"\0" + read[name].digest)
        digest = whole.hexdigest()[:16]
        if digest != self._digest or read != self._read:
            self._read, self._pages, self._joined = read, {}, {}
        self._digest = digest
        return digest

    def for_page(self, page: str, script: str) -> _File | None:
        """Return a script as a page needs it, from the files as last read; None if there is no such page or script.

        Raises NotJoinableError.
        """
        files = self._read
        if script not in files or not script.endswith(".js") or f"pages/{page}.js" not in files:
            return None
        joined = self._pages.setdefault(page, JoinedPage(page, lambda name: files[name].text))
        if (page, script) not in self._joined:
            text = joined.joined if script == joined.root else joined.later(script)
            self._joined[page, script] = _File((len(text), 0), text.encode())
        return self._joined[page, script]

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with the file at ``path``, which may begin with a digest."""
        first, _, rest = path.partition(os.sep)
        pages = parse_qs(scope["query_string"].decode("latin-1")).get("page")
        if pages and scope["method"] in ("GET", "HEAD"):
            digest, name = (first, rest) if _DIGEST.fullmatch(first) else ("", path)
            return await self._answer_for_page(pages[0], digest, name, takes_gzip(Headers(scope=scope)))
        keeps = path.endswith(".woff2")
        if _DIGEST.fullmatch(first):
            path = rest
            content = await self._unchanged_content(first, rest)
            keeps = keeps or content is not None
            if content is not None and scope["method"] == "GET":
                return self._read[rest].answer(guess_type(path)[0] or "text/plain", takes_gzip(Headers(scope=scope)))
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = FOREVER if keeps else "no-cache"
        return response

    async def _answer_for_page(self, page: str, digest: str, name: str, is_packed: bool) -> Response:
        """Make the response with the script ``name`` in the form that ``page`` needs; browsers keep it for good if ``digest`` is the
        current one of the files. Raises HTTPException 404 if there is no such script.
        """
        if self._digest is None:
            await anyio.to_thread.run_sync(self.digest)
        file = await anyio.to_thread.run_sync(self.for_page, page, name)
        if file is None:
            raise HTTPException(404)
        answer = file.answer("text/javascript", is_packed)
        answer.headers["Cache-Control"] = FOREVER if digest == self._digest else "no-cache"
        return answer

    async def _unchanged_content(self, digest: str, name: str) -> bytes | None:
        """Return the content of the file ``name`` if it has not changed since it was last read and ``digest`` is that of the files then;
        else None.
        """
        if self._digest is None:
            await anyio.to_thread.run_sync(self.digest)
        file = self._read.get(name)
        try:
            same = file is not None and digest == self._digest and _state((self._folder / name).stat()) == file.state
        except FileNotFoundError:
            return None
        return file.content if file is not None and same else None


@dataclass(frozen=True)
class _File:
    """A file as it was read.

    state    its size in bytes and its time of change in nanoseconds
    content  its bytes
    """

    state: tuple[int, int]
    content: bytes

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(self.content).digest()

    @cached_property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.content, mtime=0)

    def answer(self, media_type: str, is_packed: bool) -> Response:
        """Return the response that sends this file, of the type ``media_type``, to a browser: compressed if ``is_packed`` says that it
        accepts that, and if it is smaller.
        """
        headers = {"Cache-Control": FOREVER}
        content = self.content
        if media_type.startswith("text/") or media_type in _PACKED:
            headers["Vary"] = "Accept-Encoding"
            if is_packed and len(self.packed) < len(content):
                headers["Content-Encoding"], content = "gzip", self.packed
        return Response(content, media_type=media_type, headers=headers)


def _state(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def _files(folder: str) -> list[os.DirEntry[str]]:
    """List all files below a folder, without links that lead nowhere, which some editors leave next to a changed file."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                files += _files(entry.path)
            elif entry.is_file():
                files.append(entry)
    return files
