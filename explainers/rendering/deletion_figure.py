"""The curves of a deletion test as a figure for papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

TITLES = {"most": "Most relevant first: the sooner it falls, the better", "least": "Least relevant first: the longer it stays, the better"}
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # of the best methods; colour-blind readers can distinguish them
OTHERS, BASELINE = "#b9b4a8", "#1c1a15"


def deletion_figure(test: Mapping[str, Any]) -> Figure:
    """Draw a deletion test as a figure: one panel for each order, one line for each method, the best in colour and the random baseline
    dashed. ``test`` is the result of ``DeletionTest.to_json()``.
    """
    read, tokens = test["read"], test["tokens"]
    baseline = f"random baseline ({test['random']['seeds']} draws)"
    orders = list(dict.fromkeys(curve["order"] for curve in test["curves"]))
    ranks = {row["method"]: row["rank"] for row in test["ranking"] if "control" not in row}
    percentages = [100 * count / tokens for count in test["counts"]]
    figure = Figure(figsize=(5.6 * len(orders), 4.2), layout="constrained")
    for order, axes in zip(orders, figure.subplots(1, len(orders), sharey=True, squeeze=False)[0], strict=True):
        curves = [curve for curve in test["curves"] if curve["order"] == order]
        for curve in sorted(curves, key=lambda curve: -ranks[curve["method"]]):  # the best ones are drawn last, above the others
            rank = ranks[curve["method"]]
            best = rank <= len(COLOURS)
            axes.plot(
                percentages,
                curve[read],
                color=COLOURS[rank - 1] if best else OTHERS,
                linewidth=1.8 if best else 1,
                label=f"{rank}. {curve['method']}" if best else None,
            )
        axes.plot(percentages, test["random"][read], color=BASELINE, linewidth=1.2, linestyle="--", label=baseline)
        axes.set_title(TITLES[order], fontsize=10)
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
    """Return the label of the axis of values."""
    return target if read == "value" else f"{read} of {target}"
