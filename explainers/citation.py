"""Where something was published: shared by rules, methods, metrics and data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A publication. Nothing is known of what is left out, and ``title`` alone may hold all that there is to say.

    authors  as "Mehri et al."
    year     of the venue, else of the first version
    title    of the paper
    venue    where it appeared, without its year: "CVPR"
    arxiv    its number there: "2411.16760"
    note     what was taken from it, or how it is followed: "its LRP baseline, as its code computes it"
    link     where to read it, if not on arXiv
    """

    authors: str = ""
    year: int | None = None
    title: str = ""
    venue: str = ""
    arxiv: str = ""
    note: str = ""
    link: str = ""

    @property
    def short(self) -> str:
        """Who and when: "Mehri et al., 2025"."""
        return short(self.authors, self.year)

    @property
    def publication(self) -> str:
        """What was published where: "LibraGrad, CVPR 2025, arXiv 2411.16760"."""
        venue = f"{self.venue} {self.year or ''}".strip() if self.venue else ""
        return ", ".join(part for part in (self.title, venue, self.arxiv and f"arXiv {self.arxiv}") if part)

    @property
    def paper(self) -> str:
        """The publication with the note."""
        return "; ".join(part for part in (self.publication, self.note) if part)

    @property
    def address(self) -> str:
        """Where to read it: the link, else its page on arXiv; empty where neither is known."""
        return self.link or (f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else "")

    def __str__(self) -> str:
        return ": ".join(part for part in (self.short, self.paper) if part)

    def to_json(self) -> dict[str, str | int | None]:
        """The fields as methods, rules and maps show them."""
        return {"by": self.authors, "year": self.year, "paper": self.paper}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Citation:
        """The source that a ``document`` of :meth:`to_json` names among its other fields: its title holds all that it says."""
        return cls(authors=document["by"], year=document["year"], title=document["paper"])

    def about(self) -> dict[str, str | int | None]:
        """The fields as metrics, data sets and reports show them: the title with venue, arXiv and note."""
        return {"authors": self.authors, "year": self.year, "title": self.paper, "link": self.address}

    def noted(self, note: str) -> Citation:
        """The same with a note on what was taken from it, behind the note that it has."""
        return replace(self, note="; ".join(part for part in (self.note, note) if part))


def short(authors: str, year: int | None) -> str:
    """Who and when, as far as it is known."""
    return ", ".join(part for part in (authors, str(year or "")) if part)


#: Nothing is known of where it was published.
UNKNOWN = Citation()
