"""Where something was published."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A publication: ``authors`` as "Mehri et al.", ``year``, ``title`` with the venue, ``link`` to read it."""

    authors: str
    year: int
    title: str
    link: str = ""

    def __str__(self) -> str:
        return f"{self.authors}, {self.year}: {self.title}"
