"""Large answers that many ask for, kept as they are sent: encoded once, packed, and with an ETag by which a browser asks again."""

from __future__ import annotations

import gzip
import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from fastapi import Request
from pydantic_core import to_json
from starlette.responses import Response

from vitrine_server.http.encodings import takes_gzip

Made = TypeVar("Made")
MAX_KEPT_BYTES, MAX_KEPT_ENTRIES = 64_000_000, 500
#: Bytes of an entry besides its value, as measured: its key (a digest), its lock and its place in the list.
ENTRY_BYTES = 2000
#: Threads that make what is missing. Each that runs takes its turns from the event loop, so that there are few.
_MAKER_THREADS = 2
_GZIP_LEVEL = 6  # of gzip: each is packed once and sent often


@dataclass
class _Kept:
    """A cached answer. It is valid as long as the objects from which it was made are the same.

    of        weak references to these objects
    versions  versions of the files on which it depends
    lock      held while the answer is made, so that it is made once
    value     the answer; None until it is made
    size      its size in bytes; None until it is made
    """

    of: list[weakref.ref[object]]
    versions: frozenset[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    size: int | None = None  # in bytes; None until it is made

    def is_of(self, of: Sequence[object]) -> bool:
        """Return whether the answer was made of exactly the objects in ``of``."""
        return len(of) == len(self.of) and all(reference() is part for reference, part in zip(self.of, of, strict=True))


class KeptAnswers:
    """A cache of large answers: each is made for the first client that asks, and reused for the next ones. Clients that come while it is
    made wait for it.

    ``max_bytes`` and ``max_entries`` limit the cache; the least recently used answers are dropped.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES, max_entries: int = MAX_KEPT_ENTRIES) -> None:
        self._max_bytes, self._max_entries = max_bytes, max_entries
        self._bytes = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._versions: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._makers = anyio.CapacityLimiter(_MAKER_THREADS)

    @property
    def size(self) -> tuple[int, int]:
        """The number of entries, and their size in bytes."""
        with self._lock:
            return len(self._kept), self._bytes

    async def in_thread(self, work: Callable[[], Made]) -> Made:
        """Run ``work()`` in one of the few threads that make answers, and return its result."""
        return await run_sync(work, limiter=self._makers)

    async def answer(
        self, request: Request, key: Hashable, make: Callable[[], Any], of: Sequence[object] = (), versions: Collection[str] = ()
    ) -> Response:
        """Answer a request with the document of ``make`` as JSON; with status 304 if the browser has it already.

        ``key``, ``of`` and ``versions`` are all that the document depends on: values with different ``repr``, objects that are replaced
        when anything in them changes, and names of versions of files. A cached answer is sent at once; otherwise a thread makes it.
        """
        name = ("answer", key)
        packed = self._find(name, of, versions) if takes_gzip(request.headers) else None  # it takes a thread to unpack it
        if packed is not None:
            return _answer(packed, request)

        def make_and_answer() -> Response:
            made = self.value(name, lambda: _PackedJson.of(to_json(make())), lambda packed: len(packed.content), of, versions)
            return _answer(made, request)

        return await self.in_thread(make_and_answer)

    async def answer_to_change(self, request: Request, make: Callable[[], Any]) -> Response:
        """Answer a request as :meth:`answer` does, with the document that ``make`` returns, which can change without a change of key.

        The document is made and encoded each time, and compressed only if it differs from the cached one.
        """

        def make_and_answer() -> Response:
            document = to_json(make())
            digest = _digest(document)
            made = self.value(("packed", digest), lambda: _PackedJson.of(document, digest), lambda packed: len(packed.content))
            return _answer(made, request)

        return await self.in_thread(make_and_answer)

    def keep_versions(self, versions: Collection[str]) -> None:
        """Drop the answers that were made of files no longer in ``versions``, because they are gone or have changed."""
        there = frozenset(versions)
        with self._lock:
            gone, self._versions = self._versions - there, there
            for name in [name for name, kept in self._kept.items() if not gone.isdisjoint(kept.versions)]:
                self._drop(name)

    def _find(self, key: Hashable, of: Sequence[object], versions: Collection[str]) -> Any:
        """Return the answer that is cached under ``key`` and ``versions`` and was made from the objects ``of``; None if there is none or it
        is no longer valid.
        """
        name = _name(key, versions)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept.size is None or not kept.is_of(of):
                return None
            self._kept.move_to_end(name)
            return kept.value

    def value(
        self,
        key: Hashable,
        make: Callable[[], Made],
        size: Callable[[Made], int],
        of: Sequence[object] = (),
        versions: Collection[str] = (),
    ) -> Made:
        """Return the cached result of ``make()`` under ``key``, or call it and cache the result, of which ``size`` returns the bytes. The
        other arguments are as in :meth:`answer`.
        """
        name = _name(key, versions)
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or not kept.is_of(of):
                self._drop(name)
                kept = self._kept[name] = _Kept([weakref.ref(part) for part in of], frozenset(versions))
                self._bytes += ENTRY_BYTES
                self._make_room()
            self._kept.move_to_end(name)
        with kept.lock:
            if kept.size is None:
                try:
                    kept.value = make()
                except BaseException:
                    with self._lock:
                        if self._kept.get(name) is kept:
                            self._drop(name)
                    raise
                with self._lock:
                    kept.size = size(kept.value)
                    if self._kept.get(name) is kept:  # else it left while it was made
                        self._bytes += kept.size
                        self._make_room()
                        if not kept.versions <= self._versions:  # a file went while it was made of it
                            self._drop(name)
        made: Made = kept.value
        return made

    def _make_room(self) -> None:
        while (self._bytes > self._max_bytes or len(self._kept) > self._max_entries) and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, name: str) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._bytes -= ENTRY_BYTES + (kept.size or 0)


def _name(key: Hashable, versions: Collection[str]) -> str:
    """Return a digest of a key and of the versions of files, under which an answer is cached. It is short even if a
    client sent a long key.
    """
    return _digest(repr((key, sorted(versions))).encode("utf-8", "backslashreplace"))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


@dataclass(frozen=True)
class _PackedJson:
    """A JSON document compressed by gzip, and the digest of its content."""

    content: bytes
    digest: str

    @classmethod
    def of(cls, document: bytes, digest: str | None = None) -> _PackedJson:
        return cls(gzip.compress(document, _GZIP_LEVEL, mtime=0), _digest(document) if digest is None else digest)


def _answer(packed: _PackedJson, request: Request) -> Response:
    """Make the response to ``request`` with the document ``packed``: compressed if the client accepts that, and without content (304) if
    the client has this version already.
    """
    is_packed = takes_gzip(request.headers)
    tags = {True: f'"{packed.digest}-gzip"', False: f'"{packed.digest}"'}
    headers = {"ETag": tags[is_packed], "Vary": "Accept-Encoding", "Cache-Control": "private, no-cache"}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if not known.isdisjoint((*tags.values(), "*")):
        return Response(status_code=304, headers=headers)
    if is_packed:
        return Response(packed.content, media_type="application/json", headers={**headers, "Content-Encoding": "gzip"})
    return Response(gzip.decompress(packed.content), media_type="application/json", headers=headers)
