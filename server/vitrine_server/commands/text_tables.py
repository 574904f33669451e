"""Tables of text: for a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format ``rows`` under ``headings`` as a text table with columns as wide as their widest cell; empty columns are omitted."""
    columns = [column for column in zip(headings, *rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    lines = ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format ``rows`` under ``headings`` as a Markdown table; bars inside cells are escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
