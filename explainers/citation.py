"""Citations of publications: shared by rules, methods, metrics and data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from explainers.json_records import HIDDEN, Record, describe


@dataclass(frozen=True, kw_only=True)
class Citation(Record):
    """A publication. An empty field is unknown; a citation may have nothing but a ``title``.

    authors  for example "Mehri et al."
    year     of the venue, or of the first version if there is no venue
    title    of the paper
    venue    where it appeared, without its year: "CVPR"
    arxiv    its number there: "2411.16760"
    note     what Vitrine takes from it, or how closely: "its LRP baseline, as its code computes it"
    link     where to read it, if not on arXiv
    """

    authors: Annotated[str, describe(key="by")] = ""
    year: int | None = None
    title: Annotated[str, HIDDEN] = ""
    venue: Annotated[str, HIDDEN] = ""
    arxiv: Annotated[str, HIDDEN] = ""
    note: Annotated[str, HIDDEN] = ""
    link: Annotated[str, HIDDEN] = ""

    @property
    def short(self) -> str:
        """The authors and the year, such as "Mehri et al., 2025"."""
        return short(self.authors, self.year)

    @property
    def publication(self) -> str:
        """The title and where it was published, such as "LibraGrad, CVPR 2025, arXiv 2411.16760"."""
        venue = f"{self.venue} {self.year or ''}".strip() if self.venue else ""
        return ", ".join(part for part in (self.title, venue, self.arxiv and f"arXiv {self.arxiv}") if part)

    @property
    def paper(self) -> Annotated[str, describe()]:
        """The title and where it was published, followed by the note if there is one."""
        return "; ".join(part for part in (self.publication, self.note) if part)

    @property
    def address(self) -> str:
        """The web address of the publication: the link, else its page on arXiv; empty if neither is known."""
        return self.link or (f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else "")

    def __str__(self) -> str:
        return ": ".join(part for part in (self.short, self.paper) if part)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Citation:
        """Read a citation from the fields ``by``, ``year`` and ``paper`` of a ``document``, which :meth:`to_json` wrote; its title holds
        the whole text of ``paper``.
        """
        return cls(authors=document["by"], year=document["year"], title=document["paper"])

    def about(self) -> Source:
        """Return authors, year, title (with venue, arXiv number and note) and link of the citation as a record, as metrics, data sets and
        reports show it.
        """
        return Source(self.authors, self.year, self.paper, self.address)

    def with_note(self, note: str) -> Citation:
        """Return the citation with ``note`` appended to its note; it says what was taken from the publication."""
        return replace(self, note="; ".join(part for part in (self.note, note) if part))

    def noted(self, note: str) -> Citation:
        """Return what :meth:`with_note` returns for ``note``: its name in version 0.2."""
        return self.with_note(note)


@dataclass(frozen=True)
class Source(Record):
    """A publication of a data set or a metric, with its authors, year, title and link, as in :class:`Citation`; its title includes venue,
    arXiv number and note.
    """

    authors: str
    year: int | None
    title: str
    link: str


def short(authors: str, year: int | None) -> str:
    """Return ``authors`` (a text) and ``year`` joined by a comma, as far as they are known; "" if neither is."""
    return ", ".join(part for part in (authors, str(year or "")) if part)


#: Nothing is known of where it was published.
UNKNOWN = Citation()
