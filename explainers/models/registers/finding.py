"""Find the neurons that make a model's outlier tokens: once a model, over many pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.encoders import encoder
from explainers.models.model import Model
from explainers.models.registers.mlps import check_registers, last_linear_maps, norms_and_activations

NEURON_COUNT = 10
#: The histogram of norms: bins of their logarithm from the median up, the width of the empty stretch that parts outliers from others, and
#: the share of tokens that are outliers at most.
BINS, APART, MOST_OUTLIERS = 60, math.log(1.5), 0.2
#: The sparsity filter: a neuron whose activation is above this at half of the tokens or more is no register neuron.
RARELY, RARE_SHARE = 0.5, 0.5

Tensors = dict[str, Tensor]


def find_register_neurons(
    model: Model,
    pictures: Iterable[Any],
    *,
    block: int = -1,
    threshold: float | None = None,
    highest_block: int | None = None,
    count: int = NEURON_COUNT,
    sparse: bool = True,
    about: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> RegisterNeurons:
    """Find the ``count`` neurons whose activations at outlier tokens, those of unusually large norm, are largest on average.

    pictures   anything that the model prepares, about 100
    block      the block at whose output outlier tokens are recognised, counted from 0 or from -1 back
    threshold  the norm above which a token is an outlier; None: the gap in the histogram of the patches' norms over all pictures, if there
               is one
    highest_block  the last block, counted from 0, whose neurons are considered; None: those of the first half
    sparse     ignore a neuron for a picture if its activation is above 0.5 at half of the tokens, as in the authors' notebook
    about      what the pictures are, in words for people
    progress   called with the numbers of finished and of all passes

    The result is also set as ``model.register_neurons``; to keep it, call its ``.save("register_neurons.json")`` next to the weights. If no
    norm is above the threshold, or there is no gap, it has no neurons. Raises ExplainerError for a model of texts, a model without MLPs,
    and one to whose tokens none can be added.

    Source: Jiang, Dravid, Efros & Gandelsman, NeurIPS 2025, algorithm 1; published for CLIP ViT-B/16 with block=-1, threshold=30,
    highest_block=5, count=10, for DINOv2 ViT-L/14 with block=-2, threshold=150, highest_block=17, count=50.
    """
    check_registers(model)
    images = encoder(model, "image") if model.kind == "clip" else model
    inputs = [dict(picture) if isinstance(picture, Mapping) else images.tensors(picture) for picture in pictures]
    if not inputs:
        raise ExplainerError("There are no pictures to look for outlier tokens in: send about 100.")
    blocks = len(model.blocks)
    if not -blocks <= block < blocks:
        raise ExplainerError(f"There is no block {block}: there are {blocks}, counted from 0.")
    block %= blocks
    layers = last_linear_maps(images, inputs[0])
    passes = len(inputs) * (1 if threshold is not None else 2)

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, passes)

    before = 0
    if threshold is None:
        norms: list[Tensor] = []
        for tensors in inputs:
            tell(len(norms))
            prefix = model.layout_of(tensors).prefix
            norms.append(norms_and_activations(images, (), tensors)[0][:, block, prefix:].flatten().cpu())
        threshold, before = threshold_of(torch.cat(norms)), len(inputs)
    neurons: tuple[tuple[int, int], ...] = ()
    counted = 0
    if threshold is not None:
        scores, counted = neuron_scores(images, layers, inputs, block, threshold, sparse=sparse, tell=lambda done: tell(before + done))
        highest = blocks // 2 - 1 if highest_block is None else highest_block
        neurons = tuple(strongest_neurons(scores[: highest + 1], count)) if counted else ()
    register_neurons = RegisterNeurons(
        model.weights_digest, about or f"{len(inputs)} pictures", len(inputs), counted, block, threshold, neurons
    )
    model.register_neurons = register_neurons
    return register_neurons


def neuron_scores(
    model: Model,
    layers: Sequence[nn.Linear],
    inputs: Sequence[Tensors],
    block: int,
    threshold: float,
    *,
    sparse: bool = True,
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[list[Tensor], int]:
    """Return for each block of ``model`` the mean magnitude (F,) of each neuron at outlier tokens, averaged over the pictures that have
    such tokens; and the number of these pictures.

    ``layers`` are the last linear maps of the blocks' MLPs. Each of the ``inputs`` holds one picture. Outlier tokens are the tokens at the
    output of ``block`` with a norm above ``threshold``, including the class token. With ``sparse`` only neurons that are near zero at most
    other tokens count; ``tell`` is called with the number of pictures done.
    """
    totals = [torch.zeros(layer.in_features, dtype=torch.float64) for layer in layers]
    counted = 0
    for number, tensors in enumerate(inputs):
        tell(number)
        norms, activations = norms_and_activations(model, layers, tensors)
        outliers = norms[0, block] > threshold
        if not bool(outliers.any()):
            continue
        counted += 1
        for block_number, values in enumerate(activations):
            score = values[0][outliers].abs().mean(0)
            if sparse:
                score = score * ((values[0] < RARELY).double().mean(0) >= RARE_SHARE)
            totals[block_number] += score.double().cpu()
    return [total / max(1, counted) for total in totals], counted


def strongest_neurons(scores: Sequence[Tensor], count: int) -> list[tuple[int, int]]:
    """Return (block, neuron) of the ``count`` largest scores, the largest first."""
    places = [(block, neuron) for block, row in enumerate(scores) for neuron in range(len(row))]
    order = torch.cat(list(scores)).argsort(descending=True, stable=True)[:count].tolist() if places else []
    return [places[place] for place in order]


def threshold_of(norms: Tensor) -> float | None:
    """Return a norm that separates outliers from the other tokens; None if there are no outliers.

    It is the middle, by logarithm, of the longest run of empty bins in the histogram of the norms above their median. The run must span a
    factor of at least 1.5, with at most a fifth of the tokens above it.
    """
    logs = norms.double().clamp_min(torch.finfo(torch.float64).tiny).log()
    low, high = float(logs.median()), float(logs.max())
    if high - low < APART:
        return None
    counts = torch.histc(logs[logs >= low], BINS, low, high).tolist()
    best, start = (0, 0), None
    for place, number in enumerate([*counts, 1]):
        if number == 0 and start is None:
            start = place
        elif number and start is not None:
            best, start = max(best, (place - start, start)), None
    length, first = best
    width = (high - low) / BINS
    middle = low + (first + length / 2) * width
    is_apart = length * width >= APART and float((logs > middle).double().mean()) <= MOST_OUTLIERS
    return math.exp(middle) if is_apart else None
