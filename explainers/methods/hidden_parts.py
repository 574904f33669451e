"""Ask a model with parts of its input hidden: what the black-box methods that draw or enumerate maskings share.

Hidden patches get the mean colour (0 after normalisation), hidden word pieces the tokenizer's mask token; no attention is paid to hidden
atoms.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from explainers.methods.seed_correlations import add_seed_correlations
from explainers.methods.specs import Option
from explainers.models.removal.patches import paint_patches
from explainers.records.trace import MethodOutput, Trace

SAMPLES = Option(int, 400, "how many maskings to try", minimum=8, maximum=100_000)


def hide(trace: Trace, sample: int, keep: Tensor) -> Tensor:
    """Return the explained number (K,) of input number ``sample`` of ``trace`` under K maskings ``keep`` (K, features) from 0 (hidden) to 1
    (shown); a feature is a content token or a pixel.
    """

    def ask(first: int, number: int) -> Tensor:
        logits = trace.answer(sample, number, _hider(trace, sample, keep[first : first + number]))
        return trace.chosen.only(sample).repeat(number).value(logits)

    return torch.cat(list(trace.answer_passes.run(len(keep), ask)))


def likeness_when_hidden(trace: Trace, keep: Tensor) -> Tensor:
    """Return how like the explained box the most similar box is (K,), for the one picture of ``trace`` under K maskings ``keep`` (K,
    features) from 0 to 1, of patches or pixels.
    """

    def ask(first: int, number: int) -> Tensor:
        return trace.likeness(0, number, _hider(trace, 0, keep[first : first + number]))

    return torch.cat(list(trace.answer_passes.run(len(keep), ask)))


def _hider(trace: Trace, sample: int, keep: Tensor) -> Callable[[str, Tensor], Tensor]:
    grid = trace.layout.grid
    if grid is not None:

        def hide(name: str, tensor: Tensor) -> Tensor:
            if name != "pixel_values":
                return tensor
            is_of_pixels = keep.shape[1] != math.prod(grid)
            return tensor * keep.view(-1, 1, *tensor.shape[-2:]) if is_of_pixels else paint_patches(tensor, keep, grid)

        return hide
    if trace.recording.model.kind == "molecule" or trace.recording.model.reads_pictures:
        return partial(mask_attention, trace.content[sample], keep)
    mask_token = trace.recording.model.details["mask_token_id"]

    def replace(name: str, tensor: Tensor) -> Tensor:
        if name != "input_ids":
            return tensor
        return tensor.masked_fill(_hidden_tokens(tensor, trace.content[sample], keep), mask_token)

    return replace


def mask_attention(content: Tensor, keep: Tensor, name: str, tensor: Tensor) -> Tensor:
    """Return an input tensor, with attention to hidden parts switched off where it is the attention mask: for molecules, and texts with a
    picture.

    ``keep`` (K, features) says which of the ``content`` tokens (S,), atoms or words and patches, are shown; ``name`` is the tensor's name
    in the model's input.
    """
    if name != "attention_mask":
        return tensor
    return tensor.masked_fill(_hidden_tokens(tensor, content, keep), 0)


def _hidden_tokens(tensor: Tensor, content: Tensor, keep: Tensor) -> Tensor:
    """Return which tokens of an input ``tensor`` (K, tokens) are hidden, bool of that shape: the ``content`` tokens (bool) for which
    ``keep`` (K, features) is below one half. A model that pads inside (Longformer) has more tokens, none of them content.
    """
    is_hidden = torch.zeros_like(tensor, dtype=torch.bool)
    is_hidden[:, content[: tensor.shape[1]]] = keep < 0.5
    return is_hidden


def attribute_each(
    trace: Trace, attribute: Callable[[Callable[[Tensor], Tensor], Tensor], Sequence[Tensor]], samples: int | None = None
) -> MethodOutput:
    """Run ``attribute(f, ones)`` for each sample of ``trace``, with torch's generator seeded for it, and return the first result as the
    scores (B, S); ``ones`` is (1, features).

    f returns the explained number (K,) for maskings (K, features) in 0..1. Methods that draw ``samples`` return further results: the scores
    without each group of the samples.
    """
    scores, without = torch.zeros_like(trace.block_inputs[0][..., 0]), []
    for sample, seed in enumerate(trace.seeds):

        def f(keep: Tensor, sample: int = sample) -> Tensor:
            return hide(trace, sample, keep.flatten(1))

        ones = torch.ones(1, int(trace.content[sample].sum()), device=trace.block_inputs[0].device)
        with torch.no_grad(), torch.random.fork_rng(devices=[ones.device] if ones.is_cuda else []), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Captum warns of its own progress and of small linear fits
            torch.manual_seed(seed)
            attributions = attribute(f, ones)
        whole, *rest = (values.flatten().to(scores) for values in attributions)
        scores[sample, trace.content[sample]] = whole
        without.append(torch.stack(rest) if rest else whole[:0])
    output = MethodOutput(scores)
    return output if samples is None else add_seed_correlations(output, trace, without, "samples", SAMPLES, samples)
