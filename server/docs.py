"""The tables of the README, made from the registries: ``python -m server.docs`` writes them anew, and a test fails when they are stale.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from server import settings
from server.commands.listing import source

if TYPE_CHECKING:
    from explainers import Rule
    from explainers.methods import Variant

_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: A paper of arXiv in a citation.
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; bars inside cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def methods_markdown() -> str:
    """One row a read-out: what it computes, who published it, the rules it can be read with (its own first), what its scores are."""
    import explainers

    rows = []
    for one in explainers.METHODS.values():
        scores = "signed" if one.signed else "unsigned"
        if not one.class_specific:
            scores += ", the same for every class"
        rules = ", ".join(f"`{rule}`" for rule in one.rules)
        rows.append((f"`{one.name}`", one.title, source(one.by, one.year), rules or "none", scores, one.description))
    return markdown_table(("method", "title", "source", "rules", "scores", "what it computes"), rows)


def rules_markdown() -> str:
    """One row a backward rule: what it does at each kind of operator."""
    import explainers

    def chosen(value: str | bool) -> str:
        return value.replace("_", " ") if isinstance(value, str) else "counted" if value else "left out"

    rows = [
        (f"`{one.name}`", source(one.by, one.year), *(chosen(value) for value in one.choices.values())) for one in explainers.RULES.values()
    ]
    return markdown_table(("rule", "source", *(kind.title.lower() for kind in explainers.KINDS.values())), rows)


def models_markdown() -> str:
    """One row a model of the catalogue."""
    from explainers.models.catalogue import CATALOGUE

    rows = [(f"`{one.name}`", one.kind, "inside" if one.embedded else "hub", one.description) for one in CATALOGUE]
    return markdown_table(("model", "kind", "from", "what it is"), rows)


def references_markdown() -> str:
    """One line a publication that a method or a rule comes from, in the order of the methods."""
    import explainers

    lines: dict[str, str] = {}
    listed: list[Variant | Rule] = [*explainers.variants(), *explainers.RULES.values()]
    for one in listed:
        found = ARXIV.search(one.paper)
        if one.year:
            lines.setdefault(found[0] if found else one.paper, f"- {source(one.by, one.year)}: {one.paper}.")
    return ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", "\n".join(lines.values()))


TABLES: dict[str, Callable[[], str]] = {
    "methods": methods_markdown,
    "rules": rules_markdown,
    "models": models_markdown,
    "references": references_markdown,
    "settings": settings.table,
}


def render(text: str) -> str:
    """``text`` with every table in it made anew; raises KeyError for a table that does not exist."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


if __name__ == "__main__":
    readme = Path(__file__).resolve().parent.parent / "README.md"
    readme.write_text(render(readme.read_text("utf-8")), "utf-8")
