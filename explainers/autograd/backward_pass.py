"""The backward pass that is under way over a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from explainers.autograd.nodes import Nodes
from explainers.autograd.queued import Stopwatch
from explainers.autograd.recorder import Reader, ReadMap
from explainers.autograd.rules import Rule
from explainers.autograd.signals import PER_BLOCK, Fields, Signals, is_among
from explainers.autograd.structure.attention_maps import AttentionMap
from explainers.autograd.structure.biases import BiasTerms
from explainers.autograd.structure.model_structure import ModelStructure

#: What tokens and biases may miss, in epsilons of the sum of the sizes of their terms: 3 was the most on 60 families and trained models.
ROUNDING_OF_ACCOUNT = 16.0


@dataclass
class BackwardPass:
    """The state of one backward pass, which autograd functions read and write.

    rule      the rule that they follow
    biases    the bias terms so far; None: none are counted
    read_map  reads attention maps that are computed some queries at a time; None: nobody reads them
    unruled   names of functions without a rule that the signal passed by ordinary gradient
    operand_signals  the signals at single operands of matrix products that are read, None until they are there
    """

    rule: Rule
    biases: BiasTerms | None = None
    read_map: ReadMap | None = None
    unruled: set[str] = field(default_factory=set)
    operand_signals: dict[Reader, Tensor | None] = field(default_factory=dict)


#: Of each field of signals, the tensors at which it has what arrived; None where a block has none, or where it was not asked for.
Places = dict[str, list[Tensor | None]]


def places_of(nodes: Nodes, structure: ModelStructure, pixels: Tensor | None, fields: Fields) -> Places:
    """Return a dict from each name of a field of :class:`Signals` to the tensors of the recorded pass at which its signals arrive, one for
    each block; None for those that ``fields`` does not request. The tensors are found in ``nodes`` and ``structure``; ``pixels`` are those
    from which the pass started.
    """
    where: dict[str, Callable[[], Sequence[Tensor | None]]] = {
        "block_inputs": lambda: [block.input for block in nodes.blocks],
        "block_outputs": lambda: [block.output for block in nodes.blocks],
        "attention_inputs": lambda: structure.attention_inputs,
        "contexts": lambda: structure.contexts,
        "class_attentions": lambda: structure.class_attention.attentions,
        "class_contexts": lambda: [None if parts is None else parts.output for parts in structure.class_attention.parts],
        "pooling": lambda: [structure.pooling],
        "placed": lambda: [None if structure.positions is None else structure.positions[1]],
        "pixels": lambda: [pixels],
    }
    names = {field.partition("[")[0] for field in fields}
    places: Places = {}
    for name, find in where.items():
        known = find() if name in names else ()
        places[name] = [place if is_among(fields, name, block, len(known)) else None for block, place in enumerate(known)]
    maps = structure.attention_maps if "attentions" in names else []
    places["attentions"] = [
        source if is_among(fields, "attentions", number, len(maps)) else None
        for number, each in enumerate(maps)
        for source in (() if each is None else each.sources)
    ]
    return places


def readers_of(places: Places, structure: ModelStructure) -> list[Reader | None]:
    """Return for each tensor in ``places``, in their order, the matrix product whose own signal is read there; None where the whole signal
    is. ``structure`` holds the attention maps.
    """
    readers: list[Reader | None] = []
    for name, several in places.items():
        maps = structure.attention_maps if name == "attentions" and several else []
        of_maps = [reader for each in maps if each is not None for reader in each.readers or [None] * len(each.sources)]
        pairs = zip(several, of_maps or [None] * len(several), strict=True)
        readers += [reader for place, reader in pairs if place is not None]
    return readers


def signals_at(
    places: Places,
    arrived: list[Tensor],
    fields: Fields,
    backward_pass: BackwardPass,
    stopwatch: Stopwatch,
    structure: ModelStructure,
) -> Signals:
    """Build :class:`Signals` from the tensors that ``arrived`` at ``places`` in a backward pass, in the order of the places. Signals at
    attention weights are arranged as maps; bias terms and names of functions without a rule come from ``backward_pass``, the time from
    ``stopwatch``. ``fields`` are the signals that were asked for, and ``structure`` holds the attention maps.
    """
    left, is_asked = iter(arrived), any(field.startswith("attentions") for field in fields)
    values = {name: tuple(None if place is None else next(left) for place in several) for name, several in places.items()}
    maps = structure.attention_maps if is_asked else []
    values["attentions"] = _at_maps(values["attentions"], maps, backward_pass.rule.is_relevance)
    per_block: dict[str, Any] = {name: values[name] for name in PER_BLOCK}
    pooling, placed, pixels = (values[name][0] if values[name] else None for name in ("pooling", "placed", "pixels"))
    biases = backward_pass.biases
    return Signals(
        **per_block,
        pooling=pooling,
        placed=placed,
        pixels=pixels,
        bias=None if biases is None else biases.by_token,
        unplaced=None if biases is None else biases.unplaced,
        unruled=frozenset(backward_pass.unruled),
        stopwatches=(stopwatch,),
        fields=fields,
    )


def _at_maps(at_sources: Sequence[Tensor | None], maps: Sequence[AttentionMap | None], is_relevance: bool) -> tuple[Tensor | None, ...]:
    """Combine ``at_sources``, the signals that arrived at the source tensors of attention ``maps``, one after the other, into one signal
    (B, H, S, S) for each map, gradients or relevance (``is_relevance``); None for a missing map, and for one with a source that no signal
    reached.
    """
    what: Literal["relevance", "gradient"] = "relevance" if is_relevance else "gradient"
    left = iter(at_sources)
    several = [[next(left) for _ in (() if each is None else each.sources)] for each in maps]
    return tuple(
        None if each is None or any(signal is None for signal in signals) else each.arrange([s for s in signals if s is not None], what)
        for each, signals in zip(maps, several, strict=True)
    )


def missing_of(signals: Signals, x: Tensor, begun: Tensor, epsilon: float) -> Tensor:
    """Return what is missing in the account of a backward pass, (B,): ``begun`` (B,), the sum with which it began, minus the products of
    the embedded tokens ``x`` with their signals and minus all bias terms. A difference no larger than rounding counts as 0; ``epsilon`` is
    the rounding unit of the coarsest type in which the model computes.
    """
    assert signals.bias is not None
    assert signals.unplaced is not None
    terms = (x * signals.block_inputs[0]).flatten(1)
    missing = begun - (terms.sum(1) + signals.bias.sum(1) + signals.unplaced)
    size = terms.abs().sum(1) + signals.bias.abs().sum(1) + signals.unplaced.abs()
    rounding = ROUNDING_OF_ACCOUNT * max(torch.finfo(x.dtype).eps, epsilon) * size
    return torch.where(missing.abs() <= rounding, 0.0, missing)  # what is no number is missing
