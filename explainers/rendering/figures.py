"""Maps side by side, and the curves of a deletion test, as figures of matplotlib, for papers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from explainers.errors import ExplainerError
from explainers.rendering.colours import is_two_sided, one_sign_note, scale_ends
from explainers.rendering.drawable import SAME_FOR_EVERY_CLASS, DrawableExplanation, DrawableMap
from explainers.rendering.overlays import drawn_scores, legend_colours, legend_ends, render_overlay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAP_INCHES = 2.4  # of a map
LINE_INCHES, LEGEND_INCHES = 0.16, 0.2  # of a line of the caption above it, and of the bar of colours below
ORDER_TITLES = {
    "most": "Most relevant first: the sooner it falls, the better",
    "least": "Least relevant first: the longer it stays, the better",
}
CURVE_COLOURS = ("#0072b2", "#d55e00", "#009e73")  # of the best methods, told apart by those who see few colours, too
OTHER_CURVES_COLOUR, BASELINE_COLOUR = "#b9b4a8", "#1c1a15"
TITLE_WIDTH_CHARACTERS = 44  # letters of a line of its caption


def panel(explanation: DrawableExplanation, maps: Sequence[DrawableMap], columns: int = 4, sink: bool = True) -> Figure:
    """Draw ``maps`` over the input of ``explanation``, ``columns`` in a row, each under its title and its target, and return the matplotlib
    Figure; nothing is shown or saved.

    ``sink`` is as in :func:`render_overlay`. Raises ExplainerError if there is no map, or no picture to draw one on.
    """
    from matplotlib.figure import Figure

    if not maps:
        raise ExplainerError("There is no map to draw: choose methods and a target of this explanation.")
    if columns < 1:
        raise ExplainerError(f"A figure of {columns} columns cannot be drawn: pass 1 or more.")
    across = min(columns, len(maps))
    down = math.ceil(len(maps) / across)
    captions = [_caption(drawn) for drawn in maps]
    around = LEGEND_INCHES + LINE_INCHES * max(caption.count("\n") + 1 for caption in captions)
    figure = Figure(figsize=(MAP_INCHES * across, (MAP_INCHES + around) * down), layout="constrained")
    for index in range(across * down):
        axes = figure.add_subplot(down, across, index + 1)
        axes.set_axis_off()
        if index < len(maps):
            picture = render_overlay(explanation, maps[index], sink=sink)
            axes.imshow(picture)
            axes.set_title(captions[index], fontsize=8)
            _draw_legend(axes, maps[index], picture.width / picture.height)
    return figure


def _draw_legend(axes: Axes, drawn: DrawableMap, shape: float) -> None:
    """Draw a bar of the colours of a map below its ``axes``, between the words at its ends. ``shape`` is the width of the axes over their
    height.
    """
    two_sided = is_two_sided(scale_ends(drawn_scores(drawn), drawn.signed), drawn.signed)
    colours = np.array(legend_colours(two_sided, on_words=drawn.text is not None, count=64)) / (255, 255, 255, 1)
    bar = axes.inset_axes((0.25, -0.07 * shape, 0.5, 0.03 * shape))
    bar.imshow(colours[None], aspect="auto")
    bar.set_axis_off()
    low, high = legend_ends(two_sided)
    bar.text(-0.04, 0.5, low, ha="right", va="center", fontsize=7, transform=bar.transAxes)
    bar.text(1.04, 0.5, high, ha="left", va="center", fontsize=7, transform=bar.transAxes)


def _caption(drawn: DrawableMap) -> str:
    """Return the title and the target of a map, whether it is the same for every class, and if it is not drawn as its method suggests a
    line that says how.
    """
    same = [] if drawn.class_specific else [SAME_FOR_EVERY_CLASS]
    note = one_sign_note(drawn_scores(drawn), drawn.signed)
    return "\n".join([drawn.title, drawn.target, *same, *textwrap.wrap(note, TITLE_WIDTH_CHARACTERS)])


def deletion_figure(test: Mapping[str, Any]) -> Figure:
    """Draw the curves of a deletion test, given as ``DeletionTest.to_json()``, and return the matplotlib Figure: a panel for each order and
    a line for each method, the best in colour, the random baseline dashed.
    """
    from matplotlib.figure import Figure

    read, tokens = test["read"], test["tokens"]
    baseline = f"random baseline ({test['random']['seeds']} draws)"
    orders = list(dict.fromkeys(curve["order"] for curve in test["curves"]))
    ranks = {row["method"]: row["rank"] for row in test["ranking"] if "control" not in row}
    percentages = [100 * count / tokens for count in test["counts"]]
    figure = Figure(figsize=(5.6 * len(orders), 4.2), layout="constrained")
    for order, axes in zip(orders, figure.subplots(1, len(orders), sharey=True, squeeze=False)[0], strict=True):
        curves = [curve for curve in test["curves"] if curve["order"] == order]
        for curve in sorted(curves, key=lambda curve: -(ranks[curve["method"]] or math.inf)):  # the best ones last, above the others
            rank = ranks[curve["method"]]  # 0: a control
            best = 0 < rank <= len(CURVE_COLOURS)
            axes.plot(
                percentages,
                curve[read],
                color=CURVE_COLOURS[rank - 1] if best else OTHER_CURVES_COLOUR,
                linewidth=1.8 if best else 1,
                label=f"{rank}. {curve['method']}" if best else None,
            )
        axes.plot(percentages, test["random"][read], color=BASELINE_COLOUR, linewidth=1.2, linestyle="--", label=baseline)
        axes.set_title(ORDER_TITLES[order], fontsize=10)
        axes.set_xlabel(f"% of {tokens} tokens taken away ({test['how']})")
        axes.margins(x=0.01)
        axes.spines[["top", "right"]].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        places = sorted(range(len(names)), key=names.__getitem__)  # 1., 2., 3., then the baseline
        axes.legend([handles[i] for i in places], [names[i] for i in places], fontsize=8, frameon=False)
        if order == orders[0]:
            axes.set_ylabel(axis_label(read, test["target"]))
    return figure


def axis_label(read: str, target: str) -> str:
    """Return the label of an axis with values of ``target``; ``read`` says which: "probability", "logit" or "value"."""
    return target if read == "value" else f"{read} of {target}"
