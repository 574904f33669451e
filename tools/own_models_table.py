"""The table of what opens and how, made from the cases: ``python -m tools.own_models_table`` writes it into ``docs/model_tables.md``."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.own_models import CASES
from vitrine_server.commands.text_tables import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "model_tables.md"
_TABLE = re.compile(r"(<!-- what opens -->\n).*?(<!-- end of what opens -->)", re.DOTALL)


def page(text: str) -> str:
    """Return ``text``, the page on one's own models, with its table made again from the cases."""
    rows = [(case.have, case.way) for case in CASES.values()]
    return _TABLE.sub(lambda marks: f"{marks[1]}{markdown_table(('what you have', 'how it is opened'), rows)}\n{marks[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
