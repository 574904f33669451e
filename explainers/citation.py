"""Where something was published: shared by rules, methods, metrics and data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A publication: ``authors`` as "Mehri et al.", ``year``, ``title`` with the venue, ``link`` to read it. Nothing is known of what is
    left out.
    """

    authors: str = ""
    year: int | None = None
    title: str = ""
    link: str = ""

    def __str__(self) -> str:
        return f"{self.authors}, {self.year}: {self.title}"

    def to_json(self) -> dict[str, str | int | None]:
        """The fields as methods, rules and maps show them."""
        return {"by": self.authors, "year": self.year, "paper": self.title}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Citation:
        """The source that a ``document`` of :meth:`to_json` names among its other fields; the link is not in it."""
        return cls(authors=document["by"], year=document["year"], title=document["paper"])

    def noted(self, note: str) -> Citation:
        """The same, its title followed by a note on what was taken from it."""
        return replace(self, title=self.title + note)


#: Nothing is known of where it was published.
UNKNOWN = Citation()
