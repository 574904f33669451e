"""The cosine of every patch with a prompt, where patches take the place of the classification token after the last blocks.

What MaskCLIP, SCLIP, ClearCLIP, NACLIP, GEM and CLIP Surgery share: they differ in the attention of the last blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.signals import AttentionParts
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.specs import Option
from explainers.records.trace import Trace

AFTER = ("block", "attention")  # what of the last block is kept: residual and MLP with its attention, or its attention alone
LESS = Option(
    str,
    "nothing",
    "what is taken away from the cosine: nothing, or its mean over the prompts of the question",
    choices=("nothing", "prompts"),
)
AMONG_PROMPTS = "This map shows what sets this prompt apart from the others. Ask for something else with it and it changes."
SHARE_ALREADY = "A probability is the prompt's share among the prompts at each patch: nothing that they have in common is taken away."
#: Logits (patches, prompts) of each sample of a recording, by method and options: all prompts come from the same passes.
_LOGITS: WeakKeyDictionary[Recording, dict[Hashable, list[Tensor]]] = WeakKeyDictionary()

NEAREST = 0.1  # of the patches, those that speak for a prompt being in the picture

Tokens = Callable[[PatchFeatures], Tensor]


def depends_on_other_prompts(options: Mapping[str, str]) -> bool:
    """Return whether a map with these options of a spec takes away what the prompts of its question have in common (:data:`LESS`)."""
    return options.get("less") == "prompts"


def after_option(default: str) -> Option:
    """Return the declaration of the option ``after``, with this default; it says which parts of the last block are applied."""
    return Option(str, default, "what of the last block is kept: all of it, or its attention without residual and MLP", choices=AFTER)


def patch_logits(trace: Trace, key: Hashable, tokens: Tokens, prompts: Mapping[str, Tensor] | None = None) -> list[Tensor]:
    """Return the logits (patches, prompts) of each sample of ``trace``: the model's head reads each patch's token instead of the
    classification token. ``tokens`` returns the tokens (1, S, D) that are taken as the last block's output.

    ``key`` identifies ``tokens`` and its settings, so that other targets of the same pass reuse the result. ``prompts`` are input tensors
    of prompts that replace those of the pass.
    """
    rows, columns = trace.layout.grid or (0, 0)
    patches = slice(trace.layout.prefix, trace.layout.prefix + rows * columns)
    logits_of_recording = _LOGITS.setdefault(trace.recording, {})
    if key not in logits_of_recording:
        logits = []
        for sample in range(len(trace.mask)):
            features = PatchFeatures(trace, sample, prompts)
            logits.append(features.logits(tokens(features)[0, patches]))
        logits_of_recording[key] = logits
    return logits_of_recording[key]


def scores_of(trace: Trace, logits: list[Tensor]) -> Tensor:
    """Turn ``logits`` (patches, prompts) of each sample of ``trace`` into scores (B, S): at each patch the cosine with the prompt, for a
    contrast the difference of two, for a probability its share among the prompts at this patch.
    """
    details = trace.recording.model.details
    scale, bias = details["logit_scale"], details.get("logit_bias", 0.0)
    scores = torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    for sample, patch_values in enumerate(logits):
        chosen = trace.chosen.only(sample).repeat(len(patch_values))
        values = patch_values if chosen.explains == "probability" else (patch_values - bias) / scale
        scores[sample, trace.layout.prefix : trace.layout.prefix + len(patch_values)] = chosen.value(values).to(scores)
    return scores


def cosine_map(trace: Trace, key: Hashable, tokens: Tokens, less: str) -> Tensor:
    """Return scores (B, S) of a recorded pass: the cosine of each patch with the prompt, computed by :func:`patch_logits` with the same
    ``key`` and ``tokens``. With ``less`` "prompts" its mean over all prompts is subtracted; with "nothing" it is not.
    """
    logits = patch_logits(trace, key, tokens)
    if less == "nothing":
        return scores_of(trace, logits)
    if trace.chosen.explains == "probability":
        trace.note(SHARE_ALREADY)
    elif logits[0].shape[1] == 1:
        trace.note("There is no other prompt to set this one against: ask for a second one, or leave less=prompts out.")
    else:
        trace.note(AMONG_PROMPTS)
        bias = trace.recording.model.details.get("logit_bias", 0.0)
        logits = [values - values.mean(1, keepdim=True) + bias for values in logits]
    return scores_of(trace, logits)


def _finish_block(features: PatchFeatures, attention_output: Tensor, after: str) -> Tensor:
    return attention_output if after == "attention" else features.after_block(attention_output)


def likeness(a: Tensor, b: Tensor, factor: float | Tensor | None = None) -> Tensor:
    """Return the inner products of each query with each key, (1, H, S, S), of two sets of heads ``a`` and ``b`` (1, H, S, d), times
    ``factor``, by default d^-1/2.
    """
    products = a @ b.mT
    return products * (a.shape[-1] ** -0.5 if factor is None else factor)


def reweigh_last_block(weights: Callable[[AttentionParts], Tensor], after: str) -> Tokens:
    """Return a function from patch features to the tokens (1, S, D) after the last block, with attention ``weights`` there; ``after``
    "attention" leaves out residual and MLP.
    """

    def tokens(features: PatchFeatures) -> Tensor:
        last = len(features.inputs) - 1
        return _finish_block(features, features.attention_output(last, weights(features.part(last))), after)

    return tokens


def attend_alone(parts: AttentionParts) -> Tensor:
    """Return attention weights (1, H, S, S) for the tokens in ``parts`` by which every token attends only to itself."""
    return torch.eye(parts.value.shape[-2]).to(parts.value).expand_as(parts.weights)


def nearest_patch_cosines(trace: Trace) -> Tensor:
    """Return for each sample and prompt of ``trace`` the mean cosine of the prompt with the tenth of the patches that are most like it, as
    MaskCLIP reads them: (samples, prompts).

    The result does not depend on the target. MaskCLIP's maps of the same pass reuse it. Raises ExplainerError for a model whose patches
    cannot be compared with prompts.
    """
    details = trace.recording.model.details
    of_samples = patch_logits(trace, ("maskclip", "block"), reweigh_last_block(attend_alone, "block"))
    cosines = [(logits - details.get("logit_bias", 0.0)) / details["logit_scale"] for logits in of_samples]
    return torch.stack([values.topk(max(1, round(NEAREST * len(values))), dim=0).values.mean(0) for values in cosines])
