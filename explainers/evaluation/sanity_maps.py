"""Maps of the same input from a model with random weights, and of slightly changed inputs from the same model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from explainers.evaluation.conservation import block_sums, without_prompts
from explainers.models.model import Model
from explainers.pipeline.explain import explain
from explainers.records.targets import TargetLike

DISTURBANCE_SHARE = 0.02  # largest change of a pixel as a share of the range of values, as in Yeh et al.
DISTURBED_DRAWS = 4


def layers_of(model: Model) -> list[list[nn.Parameter]]:
    """Return the groups of weights that are randomised together, from the output down: the modules after the blocks, then each block from
    the last.

    The modules after the blocks are those that the module registers after its last block. In a CLIP model these may be the other tower,
    which is left out.
    """
    blocks = list(dict.fromkeys(model.blocks))
    groups_of_blocks = [list(block.parameters()) for block in blocks]
    parameters_of_blocks = {id(parameter) for group in groups_of_blocks for parameter in group}
    parameters = list(model.module.parameters())
    last = max(i for i, parameter in enumerate(parameters) if id(parameter) in parameters_of_blocks)
    head = [] if model.kind == "clip" else [parameter for parameter in parameters[last + 1 :] if id(parameter) not in parameters_of_blocks]
    return [group for group in (head, *reversed(groups_of_blocks)) if group]


@contextmanager
def shuffle_layers(model: Model, seed: int) -> Iterator[Iterator[int]]:
    """Open a context that yields an iterator; each of its steps shuffles the weights of one more layer of ``model`` and gives the layer's
    number. All weights are restored at the end of the context.
    """
    groups = layers_of(model)
    copies = [(parameter, parameter.detach().clone()) for group in groups for parameter in group]
    draw = torch.Generator().manual_seed(seed)

    def steps() -> Iterator[int]:
        for number, group in enumerate(groups):
            with torch.no_grad():
                for parameter in group:
                    order = torch.randperm(parameter.numel(), generator=draw).to(parameter.device)
                    parameter.copy_(parameter.flatten()[order].view_as(parameter))
            yield number

    try:
        yield steps()
    finally:
        with torch.no_grad():
            for parameter, before in copies:
                parameter.copy_(before)


def randomised_scores(model: Model, tensors: Mapping[str, Tensor], target: TargetLike, specs: Sequence[str], seed: int) -> Tensor:
    """Return the scores (M, L, N) of one input, ``tensors``, by M methods (``specs``) for ``target``, while the weights of one more of the
    L layers of ``model`` at a time are shuffled; ``seed`` determines the shuffles.
    """
    with shuffle_layers(model, seed) as steps:
        return torch.stack([_scores(model, without_prompts(tensors), target, specs, seed) for _ in steps], 1)


def all_random_scores(model: Model, tensors: Mapping[str, Tensor], target: TargetLike, specs: Sequence[str], seed: int) -> Tensor:
    """Return the scores (M, N) of one input, ``tensors``, by M methods (``specs``) for ``target``, after the weights of all layers of
    ``model`` were shuffled; ``seed`` determines the shuffles.
    """
    with shuffle_layers(model, seed) as steps:
        for _ in steps:
            pass
        return _scores(model, without_prompts(tensors), target, specs, seed)


def disturbed_scores(model: Model, tensors: Mapping[str, Tensor], target: TargetLike, specs: Sequence[str], seed: int) -> Tensor:
    """Return the scores (M, K, N) by M methods (``specs``) for ``target`` and ``model`` of K copies of one picture in ``tensors`` with
    random noise added to its pixels, of at most `DISTURBANCE_SHARE` of the range of the pixels.
    """
    pixels = tensors["pixel_values"]
    reach = DISTURBANCE_SHARE * (pixels.amax() - pixels.amin())
    draw = torch.Generator().manual_seed(seed)
    maps = []
    for _ in range(DISTURBED_DRAWS):
        noise = (2 * torch.rand(pixels.shape, generator=draw) - 1).to(pixels) * reach
        maps.append(_scores(model, {**without_prompts(tensors), "pixel_values": pixels + noise}, target, specs, seed))
    return torch.stack(maps, 1)


#: The needs of metrics for which the model is explained again, and the function that computes each.
MAPS_OF_CHANGED_INPUTS = {
    "randomised": randomised_scores,
    "all_random": all_random_scores,
    "disturbed": disturbed_scores,
    "block_sums": block_sums,
}


def _scores(model: Model, inputs: dict[str, Tensor], target: TargetLike, specs: Sequence[str], seed: int) -> Tensor:
    """Explain ``target`` of ``model`` for one input by each of ``specs`` and return the scores (M, N) of its patches or words."""
    result = explain(model, inputs, target, specs, seed=seed)
    explanation = result[0] if isinstance(result, list) else result
    return torch.stack([explanation[spec].scores[explanation[spec].content] for spec in specs])
