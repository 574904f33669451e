"""Zips whose headers lie, written by hand: Python's own writer makes honest ones."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

STORED, DEFLATED, DEFLATE64, BZIP2, LZMA = 0, 8, 9, 12, 14
BOMB_BYTES = 200_000_000
_ZIP64 = 0xFFFFFFFF


@dataclass
class Member:
    """A member: its packed bytes, and what its headers say of it."""

    name: str
    packed: bytes
    method: int = STORED
    size: int = 0  # unpacked
    crc: int = 0
    packed_size: int | None = None  # None: the truth
    flags: int = 0
    extra: bytes = b""
    at: int | None = None  # where the list says that it begins; None: the truth
    mode: int = 0o100644

    def head(self, offset: int | None) -> bytes:
        """Its header, in the list of members where ``offset`` is one."""
        name, packed_size = self.name.encode(), len(self.packed) if self.packed_size is None else self.packed_size
        said = struct.pack(
            "<HHHHHIIIHH",
            *(45, self.flags, self.method, 0, 0x21, self.crc, packed_size, self.size, len(name), len(self.extra)),
        )
        if offset is None:
            return b"PK\3\4" + said + name + self.extra
        return b"PK\1\2" + struct.pack("<H", 0x31E) + said + struct.pack("<HHHII", 0, 0, 0, self.mode << 16, offset) + name + self.extra


def written(members: list[Member], list_bytes: int | None = None, count: int | None = None) -> bytes:
    """A zip of these members; ``list_bytes`` and ``count`` are what its end says of its list."""
    body, places = bytearray(), []
    for member in members:
        places.append(len(body) if member.at is None else member.at)
        body += member.head(None) + member.packed
    listed = b"".join(member.head(place) for member, place in zip(members, places, strict=True))
    count = min(len(members), 0xFFFF) if count is None else count
    size = len(listed) if list_bytes is None else list_bytes
    return bytes(body) + listed + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, size, len(body), 0)


@cache
def bombs() -> dict[int, bytes]:
    """Zeros, `BOMB_BYTES` of them, packed by each method."""
    zeros = bytes(BOMB_BYTES)
    deflate, alone = zlib.compressobj(9, wbits=-15), lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "preset": 0}])
    properties = struct.pack("<BBH", 9, 4, 5) + struct.pack("<BI", 93, 1 << 18)
    return {
        DEFLATED: deflate.compress(zeros) + deflate.flush(),
        BZIP2: bz2.compress(zeros),
        LZMA: properties + alone.compress(zeros) + alone.flush(),
    }


@cache
def crc_of_bomb() -> int:
    return zlib.crc32(bytes(BOMB_BYTES))


def lying_zips(name: str) -> Iterator[tuple[str, bytes]]:
    """What each lies about, and the zip; ``name`` is that of a file that would be unpacked."""
    crc, deflated = crc_of_bomb(), bombs()[DEFLATED]
    small = b"abc"
    yield "an honest bomb", written([Member(name, deflated, DEFLATED, BOMB_BYTES, crc)])
    for size in (0, 10, 900_000, 0xFFFFFFFE):
        yield f"deflate of {size}", written([Member(name, deflated, DEFLATED, size, crc)])
    yield "deflate of a large packed size", written([Member(name, deflated, DEFLATED, 10, crc, packed_size=0xFFFFFFF0)])
    for method, packed in ((BZIP2, bombs()[BZIP2]), (LZMA, bombs()[LZMA])):
        for size in (10, BOMB_BYTES):
            yield f"method {method} of {size}", written([Member(name, packed, method, size, crc, flags=2 if method == LZMA else 0)])
    for method in (DEFLATE64, 1, 6, 93, 95, 98, 99):
        yield f"method {method}", written([Member(name, deflated, method, 10, crc)])
    for flags in (0x1, 0x41, 0x2000, 0x20):
        yield f"flags {flags}", written([Member(name, deflated, DEFLATED, 10, crc, flags=flags)])
    for size in (10, 1 << 40, (1 << 63) + 5, (1 << 64) - 1):
        zip64 = struct.pack("<HHQQ", 1, 16, size, size)
        yield f"zip64 of {size}", written([Member(name, deflated, DEFLATED, _ZIP64, crc, packed_size=_ZIP64, extra=zip64)])
    yield "half of zip64", written([Member(name, deflated, DEFLATED, _ZIP64, crc, packed_size=_ZIP64, extra=struct.pack("<HHI", 1, 4, 9))])
    stem, _, ending = name.rpartition(".")
    overlapping = [Member(f"{stem}{number}.{ending}", b"", DEFLATED, 10, crc, len(deflated), at=0) for number in range(60)]
    yield "overlapping members", written([Member(name, deflated, DEFLATED, 10, crc), *overlapping])
    many = [Member(f"{stem}{number}.{ending}", deflated[:1000], DEFLATED, 1000, crc) for number in range(50)]
    yield "members cut short", written(many)
    zeros = bytes(990_000)
    packed, crc_of_zeros = zlib.compress(zeros, 9)[2:-4], zlib.crc32(zeros)
    for what, size in (("", len(zeros)), (" and lie", 10_000)):
        below = [Member(f"{stem}{number}.{ending}", packed, DEFLATED, size, crc_of_zeros) for number in range(50)]
        yield f"members just below what may expand{what}", written(below)
    yield "a name twice", written([Member(name, small, size=3, crc=zlib.crc32(small))] * 2)
    yield "a stored file larger than it is", written([Member(name, small, size=1 << 31, crc=zlib.crc32(small))])
    yield "a stored file of a size that it has not", written([Member(name, small, size=900, crc=zlib.crc32(small), packed_size=3)])
    yield "a wrong checksum", written([Member(name, small, size=3, crc=1)])
    yield "400,000 members", written([Member("x", b"", at=0)] * 400_000)
    yield "400,000 members, said to be one", written([Member("x", b"", at=0)] * 400_000, count=1)
    yield "a list longer than the file", written([Member(name, small, size=3)], list_bytes=0xFFFFFFF0)
    yield "a list before the file", written([Member(name, small, size=3)], list_bytes=0)
    yield "a member behind the file", written([Member(name, small, size=3, at=0xFFFFFFF0)])
    yield "a pipe", written([Member(name, small, size=3, crc=zlib.crc32(small), mode=0o010644)])
    yield "a link", written([Member(name, small, size=3, crc=zlib.crc32(small), mode=0o120777)])
    yield "a file and a folder", written([Member(path, small, size=3, crc=zlib.crc32(small)) for path in (name, f"{name}/{name}")])
    yield "deep folders", written([Member("a/" * 5000 + name, small, size=3, crc=zlib.crc32(small))])
    yield "a long name", written([Member("ü" * 150 + name, small, size=3, crc=zlib.crc32(small))])
    yield "a zip in a zip", written([Member(name, inner := written([Member(name, small)]), size=len(inner), crc=zlib.crc32(inner))])
    damaged = bytearray(written([Member(name, deflated[:5000] + bytes(100) + deflated[5000:9000], DEFLATED, 10_000_000, crc)]))
    yield "a damaged stream", bytes(damaged)
    yield "nothing but its end", b"PK\3\4" + written([])
