"""The table of families that people ask for in ``docs/model_tables.md``: ``python -m tools.asked_table`` opens each and writes it again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.support.asked_families import ASKED_FAMILIES, outcome_of
from vitrine_server.commands.text_tables import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "model_tables.md"
_TABLE = re.compile(r"(<!-- asked for -->\n).*?(<!-- end of asked for -->)", re.DOTALL)


def block_of(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return the table of ``rows``, one for each family, with a line over it that counts them."""
    opened = sum(not row[2].startswith("refused") and "does not agree" not in row[2] for row in rows)
    table = markdown_table(("family", "class that was tried", "what became of it"), rows)
    return f"{opened} of {len(rows)} families are explained and agree, {len(rows) - opened} are refused.\n\n{table}\n"


def main() -> None:
    """Write the table into ``docs/model_tables.md``."""
    rows = [outcome_of(asked) for asked in ASKED_FAMILIES]
    PAGE.write_text(_TABLE.sub(lambda marks: f"{marks[1]}{block_of(rows)}{marks[2]}", PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
