"""The graph of information-flow routes, as a record that prints, draws and writes itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor

from explainers.json_records import HIDDEN, Record, describe
from explainers.rendering.plain import align
from explainers.rendering.saving import save_numbers_or_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN_ROUTES = 12  # of attention, in the table
_HEIGHT_OF_MLP = 0.75  # of a block: its input is at 0, the stream after attention at 0.5, its output at 1
_ROUTE_COLOUR, _STREAM_COLOUR, _MLP_COLOUR = "#0072b2", "#8a8578", "#d55e00"


@dataclass(frozen=True)
class FlowRoute(Record):
    """The attention of one block from the token ``source`` to the token ``target``, by head."""

    block: Annotated[int, describe("Counted from 0.")]
    source: Annotated[int, describe("The index of the token that is attended to.")]
    target: Annotated[int, describe("The index of the token that attends.")]
    heads: Annotated[tuple[float, ...], describe("The importance of each head.")]

    @property
    def importance(self) -> Annotated[float, describe("The sum over heads.")]:
        """The share of this route in what makes up the stream after attention at its target: the sum over heads."""
        return sum(self.heads)


@dataclass(frozen=True)
class FlowStep(Record):
    """The residual stream at one token in one block: a node of the graph, with the edges that stay at this token; 0 for one left out."""

    block: Annotated[int, describe("Counted from 0.")]
    token: Annotated[int, describe("The index of the token.")]
    around_attention: Annotated[float, describe("The importance of the stream before attention for that after it.")]
    mlp: Annotated[float, describe("The importance of the MLP for the block's output.")]
    around_mlp: Annotated[float, describe("The importance of the stream after attention for the block's output.")]


def _numbers(values: Tensor) -> Any:
    return values.tolist()


@dataclass(frozen=True, eq=False)
class InformationFlow(Record):
    """The routes by which a decoder came to one token of its answer. ``print`` shows the strongest, :meth:`figure` draws the graph.

    routes  attention between tokens, and from a token to itself, from the last block down
    steps   the nodes that are reached, from the last block down
    """

    model: Annotated[str, describe("The name of the model.")]
    tokens: Annotated[tuple[str, ...], describe("The tokens that the model read: those of the prompt, then of its answer.")]
    start: Annotated[int, describe("The index of the token at which the answer is read: all routes lead to it.")]
    answer: Annotated[str, describe("The token, or the class, that is predicted there.")]
    blocks: Annotated[int, describe("How many blocks the model has.")]
    threshold: Annotated[float, describe("Routes of at most this importance are left out.")]
    renormalised: Annotated[bool, describe("Whether the parts that stay were scaled to add up to 1.")]
    routes: tuple[FlowRoute, ...]
    steps: tuple[FlowStep, ...]
    notes: Annotated[tuple[str, ...], describe("What a person should know.")] = ()

    @cached_property
    def _routes_to(self) -> dict[tuple[int, int], list[FlowRoute]]:
        """The routes by block and target."""
        routes: dict[tuple[int, int], list[FlowRoute]] = {}
        for route in self.routes:
            routes.setdefault((route.block, route.target), []).append(route)
        return routes

    @property
    def input_shares(
        self,
    ) -> Annotated[Tensor, describe("The share of each token, over all routes down to it.", kind=list[float], write=_numbers)]:
        """The share of each input token, (tokens,) in float64: the product of importances along each way down to it, summed over all ways,
        as rollout has it. Without a threshold shares add up to 1; else what is missing went by routes that are left out. It is no part of
        the paper, which has the graph alone.
        """
        flow = torch.zeros(1 + self.blocks, len(self.tokens), dtype=torch.float64)  # at each block's input, then at the last one's output
        flow[self.blocks, self.start] = 1
        for step in self.steps:
            after_attention = flow[step.block + 1, step.token] * (step.mlp + step.around_mlp)
            flow[step.block, step.token] += after_attention * step.around_attention
            for route in self._routes_to.get((step.block, step.token), ()):
                flow[step.block, route.source] += after_attention * route.importance
        return flow[0]

    @property
    def head_importance(self) -> Annotated[Tensor, HIDDEN]:
        """The importance of each head summed over the routes of the graph, (blocks, heads) in float64."""
        total = torch.zeros(self.blocks, len(self.routes[0].heads) if self.routes else 0, dtype=torch.float64)
        for route in self.routes:
            total[route.block] += torch.tensor(route.heads, dtype=torch.float64)
        return total

    def __str__(self) -> str:
        shares = self.input_shares.tolist()
        between = [route for route in self.routes if route.source != route.target]
        head = (
            f"{self.model}: {len(between)} routes between tokens of more than {self.threshold:g} lead to {self.answer!r}, read at "
            f"{self._name(self.start)}; {sum(shares):.0%} of what made it comes by the graph"
        )
        rows = [["token", "share"], *([self._name(place), f"{share:.3f}"] for place, share in enumerate(shares) if share)]
        table = [["block", "from", "to", "importance", "strongest head"]]
        for route in sorted(between, key=lambda route: -route.importance)[:SHOWN_ROUTES]:
            best = max(range(len(route.heads)), key=route.heads.__getitem__)
            ends = (self._name(route.source), self._name(route.target))
            table.append([str(route.block + 1), *ends, f"{route.importance:.3f}", f"{best + 1} ({route.heads[best]:.3f})"])
        more = [f"and {len(between) - SHOWN_ROUTES} more"] if len(between) > SHOWN_ROUTES else []
        listed = align(table, left=(1, 2)) if between else []
        return "\n".join([head, *align(rows, left=(0,)), *listed, *more, *(f"note: {note}" for note in self.notes)])

    def _name(self, place: int) -> str:
        return f"{place} {self.tokens[place]}"

    def figure(self) -> Figure:
        """Draw the graph and return the matplotlib Figure: tokens from left to right, blocks from the bottom up, routes as wide as they are
        important, an MLP as a square. Nothing is shown or saved.
        """
        from matplotlib.figure import Figure

        columns = 1 + max(self.start, *(route.target for route in self.routes), 0)
        figure = Figure(figsize=(max(4.0, 0.55 * columns + 1.5), min(16.0, 0.9 * self.blocks + 1.6)), layout="constrained")
        axes = figure.add_subplot()
        for step in self.steps:
            self._draw_step(axes, step)
        axes.plot(self.start, self.blocks, "o", color=_STREAM_COLOUR, markersize=5)
        axes.annotate(self.answer, (self.start, self.blocks), (0, 7), textcoords="offset points", ha="center", fontsize=9)
        axes.set_xticks(range(columns), self.tokens[:columns], rotation=60, ha="right")
        axes.set_yticks([block + 0.5 for block in range(self.blocks)], [str(block + 1) for block in range(self.blocks)])
        axes.set_xlim(-0.6, columns - 0.4)
        axes.set_ylim(-0.3, self.blocks + 0.8)
        axes.set_ylabel("block")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"Routes of more than {self.threshold:g} to {self.answer!r}", fontsize=10)
        return figure

    def _draw_step(self, axes: Axes, step: FlowStep) -> None:
        """Draw one node of the graph and the edges that lead to it."""

        def line(places: tuple[float, float], heights: tuple[float, float], importance: float, colour: str) -> None:
            if importance:
                axes.plot(places, heights, color=colour, linewidth=0.6 + 3.4 * importance, alpha=0.8, solid_capstyle="round")

        x, bottom, middle, top = step.token, step.block, step.block + 0.5, step.block + 1
        line((x, x), (bottom, middle), step.around_attention, _STREAM_COLOUR)
        line((x, x), (middle, top), step.around_mlp + step.mlp, _STREAM_COLOUR)
        if step.mlp:
            axes.plot(x, step.block + _HEIGHT_OF_MLP, "s", color=_MLP_COLOUR, markersize=2 + 6 * step.mlp)
        for route in self._routes_to.get((step.block, step.token), ()):
            line((route.source, x), (bottom, middle), route.importance, _ROUTE_COLOUR)

    def _repr_html_(self) -> str:
        """Return the figure and the numbers: what a notebook shows."""
        from explainers.rendering.notebook import figure_html, text_html

        return text_html(str(self), figure_html(self.figure(), f"information-flow routes to {self.answer!r}"))

    def save(self, path: Path | str) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the figure as ``.png``, ``.pdf`` or ``.svg``.

        Raises ExplainerError for any other ending of the name.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json(), ensure_ascii=False, indent=1), self.figure)
