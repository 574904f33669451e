"""Maps side by side as a figure of matplotlib, for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explainers.errors import ExplainerError
from explainers.rendering.drawn import Drawn, DrawnMap
from explainers.rendering.overlays import render_overlay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = 2.4  # of a map


def panel(explanation: Drawn, maps: Sequence[DrawnMap], columns: int = 4) -> Figure:
    """The maps in rows of ``columns``, each under its title and its target; nothing is shown or saved.

    Raises ExplainerError where there is no map, or no picture to draw one on.
    """
    from matplotlib.figure import Figure

    if not maps:
        raise ExplainerError("There is no map to draw: choose methods and a target of this explanation.")
    if columns < 1:
        raise ExplainerError(f"A figure of {columns} columns cannot be drawn: pass 1 or more.")
    across = min(columns, len(maps))
    down = math.ceil(len(maps) / across)
    figure = Figure(figsize=(INCHES * across, INCHES * 1.2 * down), layout="constrained")
    for index in range(across * down):
        axes = figure.add_subplot(down, across, index + 1)
        axes.set_axis_off()
        if index < len(maps):
            axes.imshow(render_overlay(explanation, maps[index]))
            axes.set_title(f"{maps[index].title}\n{maps[index].target}", fontsize=8)
    return figure
