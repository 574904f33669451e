"""Results as files: their numbers as JSON, or their figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from explainers.errors import ExplainerError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_numbers_or_figure(path: Path | str, numbers: Callable[[], str], draw: Callable[[], Figure]) -> None:
    """Write to the file ``path`` what ``numbers`` returns, a JSON text, if it ends in ``.json``, or the figure that ``draw`` returns as
    ``.png``, ``.pdf`` or ``.svg``. Raises ExplainerError for any other ending of the name, before anything is made.
    """
    path = Path(path)
    if path.suffix == ".json":
        path.write_text(numbers() + "\n", "utf-8")
    elif path.suffix in (".png", ".pdf", ".svg"):
        draw().savefig(path)
    else:
        raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json, .png, .pdf or .svg")
