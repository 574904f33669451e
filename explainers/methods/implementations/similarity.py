"""Methods of models of images and prompts that compare every patch with the prompt, after one forward pass: MaskCLIP to GEM.

All change the attention of the last blocks, let the patches' tokens take the place of the classification token behind them, and read the
cosine with the prompt. None goes back through the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.recording import Recording
from explainers.autograd.signals import AttentionParts
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.models.inputs.types import TextInput
from explainers.records.trace import Trace

LAST_BLOCKS = Option(int, 6, "how many of the last blocks take part, or all where there are fewer", minimum=1, maximum=1000)
AFTER = ("block", "attention")  # what of the last block is kept: residual and MLP with its attention, or its attention alone
LESS = Option(
    str,
    "nothing",
    "what is taken away from the cosine: nothing, or its mean over the prompts of the question",
    choices=("nothing", "prompts"),
)
AMONG_PROMPTS = "What all prompts of this question have in common is taken away: with other prompts beside it the map would be another."
SHARE_ALREADY = "A probability is the prompt's share among the prompts at each patch: nothing that they have in common is taken away."
#: Logits (patches, prompts) of each sample of a recording, by method and options: all prompts come from the same passes.
_LOGITS: WeakKeyDictionary[Recording, dict[Hashable, list[Tensor]]] = WeakKeyDictionary()

NEAREST = 0.1  # of the patches, those that speak for a prompt being in the picture

Tokens = Callable[[PatchFeatures], Tensor]


def _after(default: str) -> Option:
    return Option(str, default, "what of the last block is kept: all of it, or its attention without residual and MLP", choices=AFTER)


def patch_logits(trace: Trace, key: Hashable, tokens: Tokens, prompts: Mapping[str, Tensor] | None = None) -> list[Tensor]:
    """Logits (patches, prompts) of each sample, where ``tokens`` gives what stands behind the last block (1, S, D).

    ``key`` names ``tokens`` and its settings: for other targets of the same pass nothing is computed anew. ``prompts`` are tensors of
    prompts in place of those of the pass.
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
    """Scores (B, S): at each patch the cosine with the prompt, for a contrast the difference of two, for a probability its share among the
    prompts at this patch.
    """
    details = trace.recording.model.details
    scale, bias = details["logit_scale"], details.get("logit_bias", 0.0)
    scores = torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    for sample, patch_values in enumerate(logits):
        chosen = trace.chosen.only(sample).repeat(len(patch_values))
        values = patch_values if chosen.explains == "probability" else (patch_values - bias) / scale
        scores[sample, trace.layout.prefix : trace.layout.prefix + len(patch_values)] = chosen.value(values).to(scores)
    return scores


def _map(trace: Trace, key: Hashable, tokens: Tokens, less: str) -> Tensor:
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


def _likeness(a: Tensor, b: Tensor, factor: float | Tensor | None = None) -> Tensor:
    """Products of heads (1, H, S, d) times ``factor``, d^-1/2 by default: (1, H, S, S)."""
    products = a @ b.mT
    return products * (a.shape[-1] ** -0.5 if factor is None else factor)


def reweigh_last_block(weights: Callable[[AttentionParts], Tensor], after: str) -> Tokens:
    """Tokens behind the last block with other attention weights in it."""

    def tokens(features: PatchFeatures) -> Tensor:
        last = len(features.inputs) - 1
        return _finish_block(features, features.attention_output(last, weights(features.part(last))), after)

    return tokens


@method(
    "maskclip",
    title="MaskCLIP",
    family="similarity",
    source=Citation(authors="Zhou, Loy & Dai", year=2022, title="Extract Free Dense Labels from CLIP", venue="ECCV", arxiv="2112.01071"),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="3 forward for all prompts",
    default=True,  # the first picture of which prompt wins where
    options={"after": _after("block"), "less": LESS},
)
def maskclip(trace: Trace, after: str = "block", less: str = "nothing") -> Tensor:
    """How like the prompt each patch is where the last block lets every patch look at itself alone.

    Attention of the last block is the identity, so that it gives the projected values; cosine of each patch's projected token with the
    prompt. after=attention leaves residual and MLP out, as the paper's formula has it; its code keeps them.
    """

    return _map(trace, ("maskclip", after), reweigh_last_block(_each_alone, after), less)


def _each_alone(parts: AttentionParts) -> Tensor:
    """Weights by which every token attends to itself alone."""
    return torch.eye(parts.value.shape[-2]).to(parts.value).expand_as(parts.weights)


def nearest_patch_cosines(trace: Trace) -> Tensor:
    """Of every prompt the mean cosine with the tenth of the patches that are most like it, as MaskCLIP reads them: (samples, prompts).

    No target counts; MaskCLIP's maps of the same pass then cost nothing more. Raises ExplainerError for a model whose patches cannot be
    compared with prompts.
    """
    details = trace.recording.model.details
    of_samples = patch_logits(trace, ("maskclip", "block"), reweigh_last_block(_each_alone, "block"))
    cosines = [(logits - details.get("logit_bias", 0.0)) / details["logit_scale"] for logits in of_samples]
    return torch.stack([values.topk(max(1, round(NEAREST * len(values))), dim=0).values.mean(0) for values in cosines])


@method(
    "sclip",
    title="SCLIP",
    family="similarity",
    source=Citation(
        authors="Wang, Mei & Yuille",
        year=2024,
        title="SCLIP: Rethinking Self-Attention for Dense Vision-Language Inference",
        venue="ECCV",
        arxiv="2312.01597",
    ),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="3 forward for all prompts",
    options={"after": _after("block"), "less": LESS},
)
def sclip(trace: Trace, after: str = "block", less: str = "nothing") -> Tensor:
    """How like the prompt each patch is where the last block lets patches look at patches that ask or answer alike.

    Attention of the last block is softmax(q q' / sqrt d) + softmax(k k' / sqrt d), whose rows add up to 2; cosine of each patch's
    projected token with the prompt.
    """

    def weights(parts: AttentionParts) -> Tensor:
        return _likeness(parts.query, parts.query).softmax(-1) + _likeness(parts.key, parts.key).softmax(-1)

    return _map(trace, ("sclip", after), reweigh_last_block(weights, after), less)


@method(
    "clearclip",
    title="ClearCLIP",
    family="similarity",
    source=Citation(
        authors="Lan et al.",
        year=2024,
        title="ClearCLIP: Decomposing CLIP Representations for Dense Vision-Language Inference",
        venue="ECCV",
        arxiv="2407.12442",
    ),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="2 forward for all prompts",
    options={"after": _after("attention"), "less": LESS},
)
def clearclip(trace: Trace, after: str = "attention", less: str = "nothing") -> Tensor:
    """How like the prompt each patch is where the last block attends by queries alone and nothing is added to what it gives.

    Attention of the last block is softmax(q q' / sqrt d); its residual and MLP are left out; cosine of each patch's projected token with
    the prompt.
    """
    weights = reweigh_last_block(lambda parts: _likeness(parts.query, parts.query).softmax(-1), after)
    return _map(trace, ("clearclip", after), weights, less)


@method(
    "naclip",
    title="NACLIP",
    family="similarity",
    source=Citation(
        authors="Hajimiri, Ben Ayed & Dolz",
        year=2025,
        title="Pay Attention to Your Neighbours: Training-Free Open-Vocabulary Semantic Segmentation",
        venue="WACV",
        arxiv="2404.08181",
    ),
    rule=None,
    signed=True,
    needs=("patch_features",),
    passes="2 forward for all prompts",
    options={
        "after": _after("attention"),
        "std": Option(float, 5.0, "width of the neighbourhood, in patches", minimum=0.1, maximum=1000),
        "less": LESS,
    },
)
def naclip(trace: Trace, after: str = "attention", std: float = 5.0, less: str = "nothing") -> Tensor:
    """How like the prompt each patch is where the last block lets patches look at patches with keys like theirs, near ones first.

    Attention of the last block is softmax(k k' / sqrt d + w), w_ij = exp(-dist(i, j)^2 / (2 std^2)) between patches, 0 for the
    classification token; residual and MLP are left out; cosine of each patch's projected token with the prompt.
    """

    def weights(parts: AttentionParts) -> Tensor:
        return (_likeness(parts.key, parts.key) + neighbourhood(trace, std).to(parts.key)).softmax(-1)

    return _map(trace, ("naclip", after, std), reweigh_last_block(weights, after), less)


def neighbourhood(trace: Trace, std: float) -> Tensor:
    """NACLIP's window (S, S): a Gaussian of the distance between patches, 0 in rows and columns of other tokens."""
    rows, columns = trace.layout.grid or (0, 0)
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).double()
    near = torch.exp(-torch.cdist(places, places).square() / (2 * std**2))
    around = (trace.layout.prefix, trace.layout.after)
    return F.pad(near, (*around, *around))


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
)
def gem(trace: Trace, layers: int = 6, iterations: int = 1, inverse_temperature: float = 0.0, less: str = "nothing") -> Tensor:
    """How like the prompt each patch is on a second path on which patches that are alike in queries, keys or values are drawn together.

    y starts as the input of the first of the last blocks; each adds proj(mean_u softmax(T u u') v), u the unit-length queries, keys and
    values after ``iterations`` rounds of u <- softmax(T u u') u; T = mean |LN(x)| / sqrt d. No MLP; q, k, v are those of the model's own
    path. Cosine of each patch's projected token with the prompt.
    """

    def add(features: PatchFeatures, block: int) -> Tensor:
        parts = features.part(block)
        factor = inverse_temperature or features.attention_input(block).norm(dim=-1).mean() * parts.query.shape[-1] ** -0.5
        drawn_heads = [_draw_together(heads, factor, iterations) for heads in (parts.query, parts.key, parts.value)]
        return features.project(block, torch.stack([_likeness(u, u, factor).softmax(-1) @ parts.value for u in drawn_heads]).mean(0))

    return _map(trace, ("gem", layers, iterations, inverse_temperature), _second_path(trace, layers, add), less)


def _draw_together(heads: Tensor, factor: float | Tensor, iterations: int) -> Tensor:
    """Heads (1, H, S, d) of unit length, each token ``iterations`` times replaced by the mean of those like it."""
    for _ in range(iterations):
        heads = F.normalize(heads, dim=-1)
        heads = _likeness(heads, heads, factor).softmax(-1) @ heads
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
)
def clip_surgery(trace: Trace, layers: int = 6, features: bool = True) -> Tensor:
    """How like the prompt each patch is, less what it has in common with the other prompts, or with an empty one where it is alone.

    y starts as the input of the first of the last blocks; each adds proj(softmax(v v' / sqrt d) v), without MLP. With cosines c_ij of
    patch i and prompt j and w_j the share of prompt j in the image (softmax of twice the cosine, over its mean): w_j c_ij less the mean of
    that over the prompts. Of one prompt: c_i less the cosine with an empty text.
    """

    def add(features_of_sample: PatchFeatures, block: int) -> Tensor:
        value = features_of_sample.part(block).value
        return features_of_sample.attention_output(block, _likeness(value, value).softmax(-1))

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
    """Logits (patches, 1) of each sample for an empty text."""
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
    """Tokens behind the last blocks on a path of their own: what the first of them is given, and what ``add`` gives for each."""
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
