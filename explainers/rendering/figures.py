"""Maps side by side as a figure of matplotlib, for papers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explainers.errors import ExplainerError
from explainers.rendering.colours import one_sign_note
from explainers.rendering.drawable import DrawableExplanation, DrawableMap
from explainers.rendering.overlays import render_overlay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP_INCHES = 2.4  # of a map
TITLE_WIDTH_CHARACTERS = 44  # letters of a line of its caption


def panel(explanation: DrawableExplanation, maps: Sequence[DrawableMap], columns: int = 4, sink: bool = True) -> Figure:
    """Draw the maps in rows of ``columns``, each under its title and its target; nothing is shown or saved.

    ``sink`` is that of :func:`render_overlay`. Raises ExplainerError if there is no map, or no picture to draw one on.
    """
    from matplotlib.figure import Figure

    if not maps:
        raise ExplainerError("There is no map to draw: choose methods and a target of this explanation.")
    if columns < 1:
        raise ExplainerError(f"A figure of {columns} columns cannot be drawn: pass 1 or more.")
    across = min(columns, len(maps))
    down = math.ceil(len(maps) / across)
    figure = Figure(figsize=(MAP_INCHES * across, MAP_INCHES * 1.2 * down), layout="constrained")
    for index in range(across * down):
        axes = figure.add_subplot(down, across, index + 1)
        axes.set_axis_off()
        if index < len(maps):
            axes.imshow(render_overlay(explanation, maps[index], sink=sink))
            axes.set_title(_caption(maps[index]), fontsize=8)
    return figure


def _caption(drawn: DrawableMap) -> str:
    """Return the title and the target of a map, and if it is not drawn as its method suggests a line that says how."""
    scores = [word.score for word in drawn.words()] if drawn.text is not None else drawn.scores[drawn.content].tolist()
    note = one_sign_note(scores, drawn.signed)
    return "\n".join([drawn.title, drawn.target, *textwrap.wrap(note, TITLE_WIDTH_CHARACTERS)])
