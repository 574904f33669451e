"""The methods that can run for a model, and the reasons why the others cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from torch import Tensor

from explainers.autograd.attention_trial import trial
from explainers.autograd.recording import Recording
from explainers.autograd.structure.around_attention import SumsElsewhere
from explainers.autograd.structure.attention_plan import AttentionPlan
from explainers.autograd.structure.model_structure import NoParts
from explainers.methods.class_attention import CLASS_ATTENTION, lacks_behind, needs_behind
from explainers.methods.declaration import Method
from explainers.methods.registry import METHODS
from explainers.methods.requests import parse
from explainers.methods.specs import BLOCK
from explainers.methods.two_rows import TWO_ROWS, lacks_of_rows
from explainers.methods.variants import Variant, all_variants_of, variants_of
from explainers.models.model import Model
from explainers.models.tasks import ObjectDetection


def missing_requirements(model: Model) -> dict[str, str]:
    """Return what the model lacks that a method may need, with the reason; keys as in ``needs`` of a method. One forward pass finds it out;
    the result is cached.
    """
    # Copies of a model share its details, and the reasons name the model: each name has its own.
    by_name: dict[str, dict[str, str]] = model.details.setdefault("missing_requirements", {})
    if model.name not in by_name:
        by_name[model.name] = lacks_of(trial(model, Recording))
    return by_name[model.name]


def lacks_of(recording: Recording) -> dict[str, str]:
    """Return what the model of ``recording`` lacks that a method may need, with the reason; keys as in :data:`METHOD_NEEDS`."""
    lacks = lacks_behind(recording) if recording.layout.class_token is None else {}
    name, kind = recording.model.name, recording.model.block_kind
    units = "atoms" if recording.model.kind == "molecule" else "words"
    plan = recording.structure.plan
    if any(a is None for a in recording.attentions):
        why = recording.structure.attention_kind.no_map or kind.no_attention or (None if plan is None else plan.reason)
        if why is None and len(recording.mask) > 1:
            why = "its attention is computed sample by sample, and is read where one input is explained at a time"
        because = "." if why is None else f": {why}."
        lacks["attention"] = (
            f"{name} has blocks without an attention map over all its tokens{because} What reads none runs: input_x_gradient, also under "
            "libra, and integrated_gradients."
        )
    if recording.layout.class_token is None and "class_token" not in lacks:
        lacks["class_token"] = (
            f"{name} has no classification token in its blocks whose attention could be read: {_what_head_reads(recording)}. "
            "The option row says where to start instead: row=class_token where there is such a token before the patches, or row=mean for "
            "what can start from all tokens."
        )
    lacks |= lacks_of_rows(recording)
    lacks |= {} if plan is None else _lacks_of_order(name, plan, bool(recording.detached))
    if any(m is None for m in recording.mid_residuals):
        why = kind.no_residual or (
            _PARALLEL if recording.structure.has_parallel_parts else _NO_RESIDUALS[recording.structure.sums_elsewhere]
        )
        lacks["residual"] = why.format(name=name)
    if recording.parts[-1] is None or recording.structure.output_projections[-1] is None:
        lacks["parts"] = _no_parts(recording, plan)
    lacks |= _lacks_in_attention(recording)
    if recording.structure.positions is None and (recording.pixels is not None or recording.model.reads_text):
        lacks["positions"] = (
            f"{name} reads {units}: positions are split from patches alone here. Rotary ones, for which the authors have a rule too, are "
            "not."
            if recording.model.reads_text
            else kind.no_positions.format(name=name)
            if kind.no_positions is not None
            else f"{name} adds no position embedding to its patches before its blocks: its positions are rotary, relative, "
            "or made by convolutions."
        )
    if recording.model.reads_text:
        lacks["image"] = f"{name} reads {units} here, and this is for images."
    if (footprint := recording.layout.footprint) is not None and footprint.is_of_other_pixels:
        lacks.setdefault("places", _OTHER_PIXELS.format(name=name, inside=f"{100 * footprint.inside:.0f} %"))
    if not isinstance(recording.model.task, ObjectDetection):
        lacks["boxes"] = f"{name} gives no boxes with a class each, and this compares boxes: it is for detectors."
    lacks |= _lacks_of_prompts(recording)
    masks_words = recording.model.kind != "molecule" and not recording.model.reads_pictures  # of others attention is masked
    if recording.model.reads_text and masks_words and recording.model.details.get("mask_token_id") is None:
        lacks["mask_token"] = f"The tokenizer of {name} has no mask token to hide words with."
    return lacks


def lacks_of_input(model: Model, tensors: Mapping[str, Tensor], first: int, count: int) -> dict[str, str]:
    """Return what the samples ``tensors`` lack, number ``first`` and those after it of the ``count`` inputs of a call, that a method may
    need, with the reason: tokens where they are drawn, for a ``model`` that may put them in an order of each input's own. It is looked for
    up to the first block, and only in such a model.
    """
    if model.first_misplaced is None:
        return {}
    layout = model.layout_of(tensors)
    misplaced = model.first_misplaced(tensors, layout)
    if misplaced is None:
        return {}
    thing = "text" if layout.grid is None else "picture"
    which = f"this {thing}" if count == 1 else f"{thing} {first + misplaced + 1} of {count}"
    runs = "occlusion" if layout.grid is None else "occlusion, and what goes back to its pixels: input_x_gradient?at=pixels"
    return {"places": _OF_CONTENT.format(name=model.name, which=which, thing=thing, runs=runs)}


_OF_CONTENT = (
    "For {which} {name} puts its tokens in another order than it mostly does, as where its forward mirrors, turns round or sorts a {thing} "
    "by what it shows, so that scores would be drawn at wrong places. What hides parts of the {thing} runs: {runs}."
)


def _lacks_in_attention(recording: Recording) -> dict[str, str]:
    """Return what the model of ``recording`` lacks of the numbers inside its blocks' attention that methods need: need -> reason."""
    name, lacks = recording.model.name, dict[str, str]()
    if not recording.structure.has_scores:
        lacks["scores"] = (
            f"{name} has blocks whose attention weights, as they meet the values, are not one softmax of scores: they are mixed between "
            "heads, scaled, made of several softmaxes or without one, or lie in another order. What reads the weights runs, such as "
            "generic_attention and gradcam_attention."
        )
    if any(x is None for x in recording.structure.attention_inputs):
        lacks["attention_input"] = (
            f"{name} has blocks {_why_no_input(recording)}. What reads tokens between the blocks runs, such as gradcam_plus and hirescam."
        )
    return lacks


def _why_no_input(recording: Recording) -> str:
    """Return a clause about the blocks of the model in ``recording``: why one of them has no tensor that its attention takes."""
    structure = recording.structure
    block = next(i for i, x in enumerate(structure.attention_inputs) if x is None)
    if recording.attentions[block] is None:
        plan = structure.plan
        why = structure.attention_kind.no_map or recording.model.block_kind.no_attention or (None if plan is None else plan.reason)
        because = "" if why is None else f" ({why})"
        return f"without an attention map over all its tokens{because}, so that what its queries, keys and values are made of is not known"
    if structure.why_no_parts(block) == "several attentions":
        return "that attend several times, one after the other, so that there is no one tensor that their attention takes"
    return (
        "without a tensor (batch, tokens, width) of whose linear maps all queries, keys and values are made, as where these are "
        "convolutions of a map (batch, width, rows, columns)"
    )


def _what_head_reads(recording: Recording) -> str:
    """Return what the head of the model in ``recording``, which reads no classification token in its blocks, reads there instead: the end
    of a sentence.
    """
    read, layout = recording.tokens_read, recording.layout
    parts = "words or atoms" if recording.model.reads_text else "patches"
    if read is not None and 0 < int(read[0].sum()) < int(recording.mask[0].sum()):
        places = read[0].nonzero().flatten().tolist()
        if len(places) > 1 or layout.grid is None or not 0 <= places[0] - layout.prefix < math.prod(layout.grid):
            return f"its head reads {len(places)} of its {int(recording.mask[0].sum())} tokens, {parts} like others"
        row, column = divmod(places[0] - layout.prefix, layout.grid[1])
        return f"its head reads a patch, the one in row {row + 1} and column {column + 1}"
    return "its head pools all tokens, or such a token is added after them"


_OTHER_PIXELS = (
    "Tokens of {name} are not made of the squares of the picture at which they would be drawn: {inside} of what a token reads lies in its "
    "square and half a square around it, as where the forward cuts the picture into strips or every n-th pixel, reshapes a map without a "
    "transpose, or takes frequencies or the whole picture. Patches made by a convolution with a stride of their size, or by unfold, are "
    "such squares. What hides parts of the picture runs, such as occlusion, and what goes back to its pixels: input_x_gradient?at=pixels."
)
_NO_RESIDUALS: dict[SumsElsewhere | None, str] = {
    None: "{name} has blocks that do not add attention to a residual stream by a sum, all tokens at once.",
    "turned": "{name} has blocks that add attention to a residual stream whose axes are others than those of what they take and give, such "
    "as tokens before samples, (tokens, batch, width), turned inside. Let blocks take and give tokens as they add to them.",
    "part": "{name} has blocks that add attention to a part of each token's channels, as reversible ones do, so that no stream of whole "
    "tokens follows attention alone.",
}
_PARALLEL = (
    "{name} has blocks that add attention and an MLP to the residual stream in parallel, so that no stream follows attention alone. Where "
    "the two have layers of their own and are added in one expression, x + attention + MLP in any order, there is one. What multiplies "
    "attention runs, such as rollout, and what goes back from the answer."
)

#: What the last block does that keeps its queries, keys and values from being read.
_NO_PARTS: dict[NoParts | None, str] = {
    "several attentions": "attends several times, one after the other",
    "several products": "attends by several products of weights and values, such as head by head, in chunks of queries or of keys, or in "
    "parallel branches. One product for all of them could be read",
    "several softmaxes": "makes its attention weights of several softmaxes, each of queries and keys of its own",
    "another width": "has queries and keys of another width than its values, to which its output projection cannot be applied",
    "another order": "attends with queries or keys that are not its tokens in their order",
    "other axes": "has attention weights of other axes than (batch, heads, queries, keys), as where groups of queries share keys along an "
    "axis of their own. Weights of these four could be read",
    "three axes": "multiplies attention weights and values in three axes, with samples and heads along one, as torch.bmm takes them, or "
    "without heads. Weights (batch, heads, queries, keys) that meet values (batch, heads, keys, width) by torch.matmul, which gives the "
    "same numbers, could be read",
    "keys first": "multiplies values by transposed weights, with keys before queries. Weights (batch, heads, queries, keys) could be read",
    None: "does not make its attention weights of queries and keys by one softmax that meets values as it is (fused attention does, and "
    "attn_implementation='sdpa' of transformers)",
}


def _no_parts(recording: Recording, plan: AttentionPlan | None) -> str:
    """Return a sentence on why queries, keys, values and output projection of the last block cannot be read in ``recording``, and which
    methods can be used instead. ``plan`` says how the model's attention was read, None if unknown.
    """
    name, structure = recording.model.name, recording.structure
    if recording.attentions[-1] is None:
        why = structure.attention_kind.no_map or recording.model.block_kind.no_attention or (None if plan is None else plan.reason)
        reason = "has no attention map over all its tokens" + ("" if why is None else f": {why}")
    elif recording.parts[-1] is None:
        reason = _NO_PARTS[structure.why_no_parts(-1)]
    else:
        reason = "passes what its attention gives through no linear layer of its own"
    runs = "input_x_gradient and occlusion" if recording.model.reads_text else "rise and tis, which hide other parts of the picture"
    return f"The last block of {name} {reason}. What reads no such parts runs, such as {runs}."


def _lacks_of_order(name: str, plan: AttentionPlan, has_detached: bool) -> dict[str, str]:
    """Return what a model called ``name`` lacks by its attention plan, need -> reason: one attention in each block, tokens in their order,
    or tokens that belong to places. ``has_detached``: whether numbers that the answer depends on leave the gradient.
    """
    lacks: dict[str, str] = {}
    if plan.has_several:
        lacks["one_attention"] = (
            f"{name} has blocks that attend several times, one after the other, so that no single map of a block goes with what it gives. "
            "rollout and generic_attention multiply all of them."
        )
    if not plan.keeps_order:
        mixed = ", or are mixed there by numbers that it takes out of the gradient (detach)" if has_detached else ""
        lacks["token_order"] = (
            f"Tokens of {name} change places between its blocks or inside them{mixed}, so that token i of one block is not token i of the "
            "next. "
            "What reads the tokens that enter the first block runs: input_x_gradient, integrated_gradients, occlusion."
        )
    if plan.no_product is not None or (plan.cuts_tokens and has_detached):
        reason = plan.no_product or "tokens are thrown away, or are taken out of the gradient (detach), which cannot be told apart"
        lacks["product"] = (
            f"In {name} {reason}, so that maps cannot be multiplied from block to block. What reads one block runs, such as raw_attention, "
            "and what goes back from the answer, such as input_x_gradient."
        )
    if plan.replaces_inside:
        lacks["own_tokens"] = (
            f"Blocks of {name} put other tokens in the places of some of their own, so that single tokens cannot be propagated through "
            "them. What multiplies attention runs, such as rollout, and what goes back from the answer."
        )
    if not plan.has_places:
        lacks["places"] = (
            f"The tokens of {name} are no patches of the picture: queries of its own read all patches before its blocks (as a Perceiver's "
            "latents do). What hides parts of the picture runs, such as occlusion, and what goes back to its pixels: "
            "input_x_gradient?at=pixels."
        )
    if not plan.keeps_inner_order:
        lacks["inner_order"] = (
            f"Inside its blocks {name} puts tokens into another order, so that row i of what is computed there is not of token i. "
            "What reads tokens between the blocks, or attention, runs."
        )
    return lacks


def _lacks_of_prompts(recording: Recording) -> dict[str, str]:
    """Return what the model of ``recording`` lacks to compare pictures, or their patches, with prompts: need -> reason."""
    model, lacks = recording.model, dict[str, str]()
    if model.kind != "clip" or "logit_scale" not in model.details:
        lacks["prompts"] = (
            f"{model.name} does not compare pictures with prompts by a cosine: this is for models such as CLIP. What averages gradients "
            "where tokens enter a block runs for others too: integrated_gradients?at=block:N."
        )
    if (reason := _no_patch_features(recording)) is not None:
        lacks["patch_features"] = reason
    return lacks


def _no_patch_features(recording: Recording) -> str | None:
    """Return why the patches cannot be compared with a prompt in place of the classification token of the model in ``recording``; None if
    they can.
    """
    model = recording.model
    if model.kind != "clip" or model.reads_text or "logit_scale" not in model.details:
        return f"{model.name} does not compare an image with prompts here: this is for the image's side of models such as CLIP."
    if recording.layout.class_token is None:
        return (
            f"The head of {model.name} pools its patches by attention or a mean (as SigLIP's does) and reads no classification token, in "
            "whose place a patch could be put."
        )
    if any(parts is None for parts in recording.parts) or any(projection is None for projection in recording.structure.output_projections):
        return f"{model.name} has blocks whose queries, keys, values and output projection cannot be read."
    if not model.block_kind.is_row:
        return f"{model.name} has blocks that take more than one row of tokens."
    return None


def reason_against(method: Method, lacks: dict[str, str], options: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """Return why a method with these options cannot run for a model that ``lacks`` these needs (by name, with the reason); None if it
    can.
    """
    needs = method.needs
    if method.two_rows and TWO_ROWS in lacks:
        return None
    if method.class_attention and options.get("row") != "mean" and "class_token" in lacks and CLASS_ATTENTION not in lacks:
        needs = needs_behind(method.class_attention, needs)
    elif options.get("at") == "pixels":
        needs = needs - {"places"}
    elif str(options.get("at")).startswith(BLOCK):
        needs = needs | {"token_order"}
    elif options.get("row") is not None:
        needs = needs - {"class_token"}
    return next((reason for need, reason in lacks.items() if need in needs), None)


def remedies(model: Model, method: Method) -> tuple[str, ...]:
    """Return options, written as in a spec, each of which lets ``method`` run for a model for which it cannot run by default. Empty if it
    can, or if no option helps.
    """
    lacks = missing_requirements(model)
    options_of_rows = {f"row={row}": {"row": row} for row in method.options["row"].choices} if "row" in method.options else {}
    if reason_against(method, lacks) is None:
        return ()
    has_token = bool(model.details.get("class_token"))
    rows = (row for row, options in options_of_rows.items() if reason_against(method, lacks, options) is None)
    return tuple(row for row in rows if has_token or row == "row=mean")


def variants(model: Model | None = None) -> list[Variant]:
    """Return all methods, each with its own rules (:class:`explainers.methods.Variant`), in the fixed order of the pages; if a ``model`` is
    given, the ``reason`` of each says why it cannot run for it, or is None.
    """
    return _judge([v for m in METHODS.values() for v in variants_of(m)], model)


def all_variants(model: Model | None = None) -> list[Variant]:
    """Return all methods with every rule there is (:class:`explainers.methods.Variant`); the ``reason`` of each says why it makes no sense
    or, with a ``model``, why it cannot run for it, or is None.
    """
    return _judge([v for m in METHODS.values() for v in all_variants_of(m)], model)


def _judge(candidates: list[Variant], model: Model | None) -> list[Variant]:
    if model is None:
        return candidates
    lacks = missing_requirements(model)
    reasons = {method.name: reason_against(method, lacks) for method in METHODS.values()}
    variants_with_reasons = [
        v if v.reason or reasons[v.method_name] is None else replace(v, reason=reasons[v.method_name]) for v in candidates
    ]
    remedies_of = {method.name: remedies(model, method) for method in METHODS.values()}
    senseless_specs = {v.spec for v in candidates if v.reason}
    return [
        v if v.reason is None or v.spec in senseless_specs else replace(v, remedies=remedies_of[v.method_name])
        for v in variants_with_reasons
    ]


def default_methods(model: Model) -> list[str]:
    """Return the specs of the methods that a page shows first for ``model``."""
    return defaults_of(missing_requirements(model))


def defaults_of(lacks: dict[str, str]) -> list[str]:
    """Return the specs that are shown first for a model that ``lacks`` these needs (by name, with the reason)."""
    return [v.spec for v in variants() if v.default and reason_against(METHODS[v.method_name], lacks) is None]


def for_probability(specs: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the ``specs`` that can explain a probability, and a note that names the others and says why; the note is None if all can."""
    rules = {spec: parse(spec).rule for spec in specs}
    left_out = [spec for spec, rule in rules.items() if rule is not None and rule.is_relevance]
    note = f"Left out, because their rule starts from the score of one class and not from a probability: {', '.join(left_out)}."
    return [spec for spec in specs if spec not in left_out], note if left_out else None
