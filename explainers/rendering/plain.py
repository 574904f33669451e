"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Return one line of text for each of ``rows`` (lists of cells), with the cells padded so that columns line up. Columns whose index is
    in ``left`` are aligned on the left, all others on the right.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
