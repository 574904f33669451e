"""Where something was published: shared by rules, methods, metrics and data sets."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
        """The fields as methods and rules show them."""
        return {"by": self.authors, "year": self.year, "paper": self.title}

    def noted(self, note: str) -> Citation:
        """The same, its title followed by a note on what was taken from it."""
        return replace(self, title=self.title + note)


#: Nothing is known of where it was published.
UNKNOWN = Citation()
