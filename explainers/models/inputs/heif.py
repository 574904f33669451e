"""HEIF, the format in which phones save photos as .heic: read where the extra ``heif`` is installed.

It is an extra because the wheels of pillow-heif hold libx265, which is under the GPL; Vitrine itself needs none of it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from explainers.installation import not_installed

#: Brands of the compressions that pillow-heif decodes (HEVC), and of AVIF, which Pillow decodes itself.
_HEVC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_AVIF_BRANDS = {b"avif", b"avis"}
#: Brands that say that a file is a HEIF container, and nothing about its compression.
_CONTAINER_BRANDS = {b"mif1", b"msf1", b"mif2"}
#: Bytes of a file that hold its list of brands; in practice it ends within 40.
BRANDS_BYTES = 256


def _brands(head: bytes) -> set[bytes]:
    """Return the major and the compatible brands in the ``ftyp`` box that a file of ISO/IEC 14496-12 begins with; empty for other files.
    ``head`` is the file's first bytes.
    """
    if head[4:8] != b"ftyp":
        return set()
    end = min(int.from_bytes(head[:4], "big"), len(head))
    return {head[8:12], *(head[place : place + 4] for place in range(16, end, 4))}


def can_read_heif() -> bool:
    """Return whether pillow-heif is installed."""
    return find_spec("pillow_heif") is not None


def register_heif() -> bool:
    """Let Pillow open HEIF files if pillow-heif is installed; return whether it can."""
    if not can_read_heif():
        return False
    import_module("pillow_heif").register_heif_opener()
    return True


def is_heif_or_avif(head: bytes) -> bool:
    """Return whether a file that begins with the bytes ``head`` is a picture in a HEIF container, of whatever compression."""
    return head[4:8] == b"ftyp" and head[8:12] in _HEVC_BRANDS | _AVIF_BRANDS | _CONTAINER_BRANDS


def needs_heif(head: bytes) -> bool:
    """Return whether a file that begins with the bytes ``head`` (`BRANDS_BYTES` are enough) is a picture that can only be read with
    pillow-heif.
    """
    brands = _brands(head)
    return is_heif_or_avif(head) and not brands & _AVIF_BRANDS and bool(brands & (_HEVC_BRANDS | _CONTAINER_BRANDS))


def heif_not_installed(name: str) -> str:
    """Return the error message for a HEIF file called ``name`` when pillow-heif is missing."""
    return not_installed(f"{name} is a HEIF file (.heic) and needs the package pillow-heif", "heif")
