"""Methods of models of images and prompts that draw patches together on a second path through the last blocks: GEM, CLIP Surgery."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import PATCHES_ALONE, About
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.prompt_cosines import AMONG_PROMPTS, LESS, SHARE_ALREADY, Tokens, cosine_map, likeness, patch_logits, scores_of
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.models.inputs.types import TextInput
from explainers.records.trace import Trace

LAST_BLOCKS = Option(int, 6, "how many of the last blocks take part, or all where there are fewer", minimum=1, maximum=1000)


@method(
    "gem",
    title="GEM",
    family="similarity",
    source=Citation(
        authors="Bousselham et al.",
        year=2024,
        title="Grounding Everything: Emerging Localization Properties in Vision-Language Transformers",
        venue="CVPR",
        arxiv="2312.00878",
    ),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="3 forward for all prompts",
    options={
        "layers": LAST_BLOCKS,
        "iterations": Option(int, 1, "how often tokens are drawn to those like them", minimum=0, maximum=20),
        "inverse_temperature": Option(
            float, 0.0, "how sharply tokens are told apart; 0: from the mean length of what the block's attention is given", 0, 10_000
        ),
        "less": LESS,
    },
    about=About(
        formula=(
            r"s_j = \cos\left(\text{project}(y_j), t\right)",
            r"A^l = \text{mean} \, \text{softmax}\left(T u u'\right)",
        ),
        words=(
            "Next to the model's own path through its last blocks runs a second one, on which patches with like queries, keys or values u "
            "are drawn together; T says how sharply."
        ),
        trust="Use it where things are large and of one kind: it groups patches.",
        fails=(
            f"{PATCHES_ALONE} The published code counts one block less than its option says; here the number is that of blocks "
            "(Bousselham et al. 2024, arXiv 2312.00878)."
        ),
        line="How like the prompt each part looks, after parts of a kind are drawn together: a cosine, not a part of the score.",
    ),
)
def gem(trace: Trace, layers: int = 6, iterations: int = 1, inverse_temperature: float = 0.0, less: str = "nothing") -> Tensor:
    """Similarity of each patch to the prompt on a second path where patches with similar queries, keys or values are drawn together.

    y starts as the input of the first of the last blocks; each adds proj(mean_u softmax(T u u') v), u the unit-length queries, keys and
    values after ``iterations`` rounds of u <- softmax(T u u') u; T = mean |LN(x)| / sqrt d. No MLP; q, k, v are those of the model's own
    path. Cosine of each patch's projected token with the prompt. ``layers`` is the number of last blocks, ``inverse_temperature`` replaces
    T (0: T as above), ``less`` "prompts" subtracts the mean over the prompts.
    """

    def add(features: PatchFeatures, block: int) -> Tensor:
        parts = features.part(block)
        factor = inverse_temperature or features.attention_input(block).norm(dim=-1).mean() * parts.query.shape[-1] ** -0.5
        drawn_heads = [_draw_together(heads, factor, iterations) for heads in (parts.query, parts.key, parts.value)]
        return features.project(block, torch.stack([likeness(u, u, factor).softmax(-1) @ parts.value for u in drawn_heads]).mean(0))

    return cosine_map(trace, ("gem", layers, iterations, inverse_temperature), _second_path(trace, layers, add), less)


def _draw_together(heads: Tensor, factor: float | Tensor, iterations: int) -> Tensor:
    """Scale the vectors of ``heads`` (1, H, S, d) to unit length, replace each token ``iterations`` times by the mean of those like it, and
    return them. Weights are the softmax of ``factor`` times the cosines.
    """
    for _ in range(iterations):
        heads = F.normalize(heads, dim=-1)
        heads = likeness(heads, heads, factor).softmax(-1) @ heads
    return F.normalize(heads, dim=-1)


@method(
    "clip_surgery",
    title="CLIP Surgery",
    family="similarity",
    source=Citation(
        authors="Li et al.",
        year=2025,
        title="A closer look at the explainability of Contrastive language-image pre-training",
        venue="Pattern Recognition",
        arxiv="2304.05653",
    ),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="3 forward for all prompts",
    options={
        "layers": LAST_BLOCKS,
        "features": Option(bool, True, "take away what all prompts have in common (feature surgery); false: the plain cosine"),
    },
    about=About(
        formula=(r"s_j = w \cos\left(\text{project}(y_j), t\right) - \text{mean}_t \, w \cos\left(\text{project}(y_j), t\right)",),
        words=(
            "A second path through the last blocks on which patches attend to those with values like theirs; what a patch has in "
            "common with all prompts, or with an empty one, is taken away."
        ),
        trust="Use it with several prompts: its map shows what tells them apart.",
        fails=f"{PATCHES_ALONE} The map of a prompt depends on which others are asked with it (Li et al. 2025, arXiv 2304.05653).",
        line="How like this prompt each part looks, more than like the other prompts: cosines, no shares of the score.",
    ),
)
def clip_surgery(trace: Trace, layers: int = 6, features: bool = True) -> Tensor:
    """Similarity of each patch to the prompt, minus what it has in common with the other prompts, or with an empty one where the prompt is
    alone.

    y starts as the input of the first of the last blocks; each adds proj(softmax(v v' / sqrt d) v), without MLP. With cosines c_ij of patch
    i and prompt j and w_j the share of prompt j in the image (softmax of twice the cosine, over its mean): w_j c_ij less the mean of that
    over the prompts. Of one prompt: c_i less the cosine with an empty text. ``layers`` is the number of last blocks; without ``features``
    nothing is subtracted.
    """

    def add(features_of_sample: PatchFeatures, block: int) -> Tensor:
        value = features_of_sample.part(block).value
        return features_of_sample.attention_output(block, likeness(value, value).softmax(-1))

    tokens = _second_path(trace, layers, add)
    logits = patch_logits(trace, ("clip_surgery", layers), tokens)
    if features and trace.chosen.explains == "probability":
        trace.note(SHARE_ALREADY)
        features = False
    if not features:
        return scores_of(trace, logits)
    details = trace.recording.model.details
    scale, bias = details["logit_scale"], details.get("logit_bias", 0.0)
    if logits[0].shape[1] == 1:
        empty = _logits_of_empty_prompt(trace, tokens, layers)
        return scores_of(trace, [prompt - other + bias for prompt, other in zip(logits, empty, strict=True)])
    trace.note(AMONG_PROMPTS)
    image = (trace.recording.logits.detach() - bias) / scale
    shares = (2 * image).softmax(1)
    weights = shares / shares.mean(1, keepdim=True)
    cosines = [(patch_values - bias) / scale * w for patch_values, w in zip(logits, weights, strict=True)]
    return scores_of(trace, [(c - c.mean(1, keepdim=True)) * scale + bias for c in cosines])


def _logits_of_empty_prompt(trace: Trace, tokens: Tokens, layers: int) -> list[Tensor]:
    """Return the logits (patches, 1) of each sample of ``trace`` for an empty text; ``tokens`` makes the output tokens of the second path
    over the last ``layers`` blocks.
    """
    prepare_prompts = trace.recording.model.prompt_inputs
    if prepare_prompts is None:
        raise ExplainerError("This model came without a tokenizer, and one prompt alone is set against an empty text: send two prompts.")
    word = prepare_prompts(["a"])
    record = word.inputs[0]
    assert isinstance(record, TextInput)
    special = torch.tensor([token.special for token in record.tokens])
    empty = {name: tensor[:, special.to(tensor.device)] for name, tensor in word.tensors.items()}  # its first and its last token
    return patch_logits(trace, ("clip_surgery", layers, "empty"), tokens, empty)


def _second_path(trace: Trace, layers: int, add: Callable[[PatchFeatures, int], Tensor]) -> Tokens:
    """Return, for the model of ``trace``, a function from patch features to the output tokens of a second path over the last ``layers``
    blocks: the input of the first of these blocks plus the result of ``add`` for each block.
    """
    blocks = len(trace.recording.block_inputs)
    if layers > blocks:
        trace.note(f"This model has {blocks} blocks: all of them take part.")
    first = max(0, blocks - layers)

    def tokens(features: PatchFeatures) -> Tensor:
        y = features.inputs[first]
        for block in range(first, blocks):
            y = y + add(features, block)
        return y

    return tokens
