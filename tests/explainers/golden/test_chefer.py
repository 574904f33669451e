"""Chefer et al. and what they compare with: arrays that are no scores of ours as they are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from explainers.autograd import relevance
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods import METHODS
from explainers.methods.implementations.attention import product
from explainers.records.targets import resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.golden import arrays_of
from tests.explainers.support.golden_rows import (
    BERT,
    TOLERANCE,
    case_of,
    explained,
    patches,
    pixels,
)


def test_relevance_of_the_second_blocks_attention() -> None:
    """Their second_layer without the gradient: no method of ours, but two lines over a trace."""
    case = case_of("chefer-vit")
    recording = Recording(case.model, case.inputs)
    trace = Trace(recording, resolved_class(("",), torch.tensor([case.target])), RULES["deep_taylor"])
    row = trace.class_row(trace.attention_grads[1].clamp(min=0).mean(1))
    assert case.difference(row[:, trace.layout.prefix :], "ablation_second_relevance") < TOLERANCE


def test_lrp_of_the_pixels_is_summed_over_each_patch() -> None:
    one = explained(case_of("chefer-vit"), "lrp:deep_taylor")
    rows, columns = one.patches or (0, 0)
    cells = pixels(one).reshape(rows, 8, columns, 8).sum((1, 3)).flatten()
    assert torch.allclose(patches(one), cells, atol=1e-6 * float(cells.abs().max()))


def test_lrp_baseline_but_for_the_published_rounding_at_each_copy() -> None:
    """Their operator for a tensor used twice gives x * (R / (x + 1e-9)), not R: 1.03e-5 of the largest value, all from that.

    With that factor put at the two copies of each block, the difference is 1e-7 or less.
    """
    case = case_of("chefer-vit")
    assert case.difference(pixels(explained(case, "lrp")), "lrp_full_origlrp") < 2e-5

    def copy(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0]
        if x.requires_grad:
            x.register_hook(lambda signal: signal * (x.detach() / (x.detach() + relevance.STABILISER)))

    handles = [norm.register_forward_pre_hook(copy) for block in case.module.blocks for norm in (block.norm1, block.norm2)]
    try:
        recording = Recording(case.model, case.inputs, pixels=True)
    finally:
        for handle in handles:
            handle.remove()
    signals = recording.cached_backward(RULES["lrp"], case.one_hot(recording.logits))
    assert signals.pixels is not None
    assert case.difference(signals.pixels.sum(1), "lrp_full_origlrp") < 1e-7


def test_gradcam_of_bert_up_to_the_scale_of_the_whole_map() -> None:
    """Their min-max runs over the whole map, whose smallest entry is 0 and whose largest may stand in another row: a factor."""
    case = case_of("chefer-bert")
    ours, theirs = explained(case, "gradcam_attention").scores.double(), case.theirs("gradcam")
    assert case.difference(ours * (theirs.max() / ours.max()), "gradcam") < TOLERANCE


def test_gradcam_of_a_padded_bert_but_for_padding_in_the_mean_of_the_gradient() -> None:
    """Their weight of a head is the mean gradient over all pairs, also of tokens that may not be attended, so that padding changes the map.

    Ours is the mean over the real pairs. With theirs in its place the numbers agree.
    """
    case = case_of("chefer-bert-padded")
    recording = Recording(case.model, case.inputs)
    gradient = recording.cached_backward(RULES["gradient"], case.one_hot(recording.logits)).attentions[-1]
    attention, real = recording.attentions[-1], case.inputs["attention_mask"][0].bool()
    assert gradient is not None
    assert attention is not None

    def scaled(weights: Tensor) -> Tensor:
        found = (weights[..., None, None] * attention.detach()).mean(1).clamp(min=0)
        row = (found / found.max())[0, 0, real]
        return torch.cat([torch.zeros(1), row[1:]])

    assert bool(gradient[..., ~real].any())
    assert case.difference(scaled(gradient.mean((-1, -2))), "gradcam") < TOLERANCE
    ours = explained(case, "gradcam_attention").scores.double()
    own = scaled(gradient[:, :, real][..., real].mean((-1, -2)))
    assert torch.allclose(ours / ours.max(), own / own.max(), atol=1e-6)
    assert case.difference(own, "gradcam") > 0.01


@pytest.mark.parametrize("array", ["transformer_attribution", "transformer_attribution_last"])
def test_transformer_attribution_of_a_padded_bert(array: str) -> None:
    """Theirs sets [CLS] to the smallest of the row, padding included, so to 0; ours to the smallest of the real tokens."""
    case = case_of("chefer-bert-padded")
    ours = explained(case, BERT[array].method).scores.double()
    theirs = case.published[array][0]
    padding = ~case.inputs["attention_mask"][0].bool()
    assert theirs[0] == 0
    assert not theirs[padding].any()
    assert ours[0] == ours[1:].min() > 0
    assert case.difference(torch.cat([torch.zeros(1), ours[1:]]), array) < TOLERANCE


@pytest.mark.parametrize("array", sorted(arrays_of("chefer-bert-padded") - {"logits"}))
def test_padding_has_no_score_in_theirs_either(array: str) -> None:
    case = case_of("chefer-bert-padded")
    assert not case.published[array][0, ~case.inputs["attention_mask"][0].bool()].any()


@pytest.mark.parametrize(("start_layer", "key"), [(0, "image_relevance_all_layers"), (-1, "image_relevance")])
def test_generic_attention_of_clips_image_tower(start_layer: int, key: str) -> None:
    """Each prompt's map, over one recording of one image and three prompts."""
    case = case_of("generic-attention-clip")
    ids = case.inputs["input_ids"]
    recording = Recording(case.model, {**case.inputs, "attention_mask": torch.ones_like(ids)})
    assert torch.allclose(recording.logits[0].detach(), case.published["logits"][0], atol=1e-5)
    method = METHODS["generic_attention"].function
    rows = []
    for prompt in range(3):
        trace = Trace(recording, resolved_class((str(prompt),), torch.tensor([prompt])), RULES["gradient"])
        rows.append(method(trace, start_layer=start_layer)[0, 1:])
    assert case.difference(torch.stack(rows), key) < TOLERANCE


@pytest.mark.parametrize(("start_layer", "key"), [(0, "text_eot_row_all_layers"), (-1, "text_eot_row")])
def test_generic_attention_of_clips_text_tower(start_layer: int, key: str) -> None:
    """The three prompts are the samples here, and the image is what each is compared with; they have no attention mask."""
    case = case_of("generic-attention-clip")
    recording = Recording(case.model.seen_from("text"), case.inputs)
    assert torch.allclose(recording.logits[:, 0].detach(), case.published["logits"][0], atol=1e-5)
    trace = Trace(recording, resolved_class(("the image",) * 3, torch.zeros(3, dtype=torch.long)), RULES["gradient"])
    assert case.difference(METHODS["generic_attention"].read(trace, start_layer=start_layer).scores, key) < TOLERANCE
    maps = [(a * g).clamp(min=0).mean(1) for a, g in zip(trace.attentions, trace.attention_grads, strict=True)]
    whole = product(trace.identity(), maps, start_layer)  # of which the method takes a row
    assert case.difference(whole, key.replace("eot_row", "relevance")) < TOLERANCE
