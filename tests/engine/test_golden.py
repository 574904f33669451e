"""Ours against what the published code of others gave: the arrays in tests/golden, each folder with its source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.methods import METHODS
from explainers.recording import Recording
from explainers.rules import RULES, Rule
from explainers.targets import Chosen
from explainers.trace import Trace

# isort: split
import timm
import transformers

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
TOLERANCE = 1e-5  # of the largest value


class Case:
    """One folder: its model in float64, its inputs, its published arrays."""

    def __init__(self, name: str) -> None:
        folder = GOLDEN / name
        about = json.loads((folder / "model.json").read_text())
        self.module = _build(about).double().eval()
        with np.load(folder / "weights.npz") as weights:
            state = {key: torch.tensor(weights[key]).double() for key in weights}
        missing, unexpected = self.module.load_state_dict(state, strict=False)
        assert not unexpected
        assert all(key.endswith("position_ids") for key in missing), missing
        with np.load(folder / "inputs.npz") as inputs:
            self.inputs = {key: _as_input(inputs[key]) for key in inputs}
        with np.load(folder / "outputs.npz") as outputs:
            self.published = {key: torch.tensor(outputs[key]).double() for key in outputs}
        self.target = about["target"]
        self.model = explainers.wrap(self.module)

    def difference(self, ours: Tensor, key: str) -> float:
        """The largest difference, in units of the largest published value."""
        theirs = self.published[key].flatten()
        return float((ours.double().flatten() - theirs).abs().max() / theirs.abs().max())


def _build(about: dict[str, Any]) -> nn.Module:
    if about["library"] == "timm":
        return timm.models.vision_transformer.VisionTransformer(**about["kwargs"])
    config = about["class"].replace("ForSequenceClassification", "").replace("Model", "") + "Config"
    module: nn.Module = getattr(transformers, about["class"])(getattr(transformers, config)(**about["config"]))
    return module


def _as_input(array: Any) -> Tensor:
    tensor = torch.tensor(array)
    return tensor.double() if tensor.is_floating_point() else tensor


def test_every_folder_of_golden_numbers_is_used_and_names_its_source() -> None:
    folders = {p.name for p in GOLDEN.iterdir() if p.is_dir()}
    assert folders == {"chefer-vit", "chefer-bert", "attnlrp-bert", "integrated-gradients-bert", "generic-attention-clip"}
    for name in folders:
        assert "commit" in (GOLDEN / name / "README.md").read_text()


@pytest.fixture(scope="module")
def vit() -> Case:
    return Case("chefer-vit")


@pytest.fixture(scope="module")
def bert() -> Case:
    return Case("chefer-bert")


VIT = {
    "transformer_attribution": "transformer_attribution",
    "transformer_attribution?start_layer=1": "transformer_attribution_start_layer_1",
    "partial_lrp:deep_taylor": "partial_lrp",
    "partial_lrp": "partial_lrp_origlrp",
    "raw_attention": "raw_attention",
    "rollout": "attention_rollout",
    "transformer_attribution_without_gradient?published_code=true": "lrp_rollout",
    "transformer_attribution_last_block": "ablation_last_grad_relevance",
    "transformer_attribution_second_block": "ablation_second_grad_relevance",
    "rollout?start_layer=1": "attention_rollout_start_layer_1",
}


def test_vit_logits(vit: Case) -> None:
    result = explainers.explain(vit.model, vit.inputs, target=vit.target, methods="raw_attention")
    assert vit.difference(result.logits, "logits") < 1e-6


@pytest.mark.parametrize("spec", VIT)
def test_vit_patches(vit: Case, spec: str) -> None:
    one = explainers.explain(vit.model, vit.inputs, target=vit.target, methods=spec)[spec]
    assert vit.difference(one.scores[one.content], VIT[spec]) < TOLERANCE


def test_vit_gradcam_after_the_min_max_scaling_that_the_published_code_ends_with(vit: Case) -> None:
    one = explainers.explain(vit.model, vit.inputs, target=vit.target, methods="gradcam_attention")["gradcam_attention"]
    patches = one.scores[one.content].double()
    scaled = (patches - patches.min()) / (patches.max() - patches.min())
    assert vit.difference(scaled, "gradcam_attention") < TOLERANCE


def test_vit_lrp_to_the_pixels(vit: Case) -> None:
    one = explainers.explain(vit.model, vit.inputs, target=vit.target, methods="lrp:deep_taylor")["lrp:deep_taylor"]
    assert one.pixels is not None
    assert vit.difference(one.pixels, "lrp_full") < TOLERANCE
    rows, columns = one.patches
    cells = one.pixels.reshape(rows, 8, columns, 8).sum((1, 3)).flatten()
    assert torch.allclose(one.scores[one.content], cells, atol=1e-6 * float(cells.abs().max()))


def test_vit_lrp_baseline_but_for_the_published_rounding_at_each_copy(vit: Case) -> None:
    """Their operator for a tensor used twice gives x * (R / (x + 1e-9)), not R: 1.03e-5 of the largest value, all from that.

    With that factor put at the two copies of each block, the difference is 1e-7 or less.
    """
    one = explainers.explain(vit.model, vit.inputs, target=vit.target, methods="lrp")["lrp"]
    assert one.pixels is not None
    assert vit.difference(one.pixels, "lrp_full_origlrp") < 2e-5

    def copy(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0]
        if x.requires_grad:
            x.register_hook(lambda signal: signal * (x.detach() / (x.detach() + 1e-9)))

    handles = [norm.register_forward_pre_hook(copy) for block in vit.module.blocks for norm in (block.norm1, block.norm2)]
    try:
        recording = Recording(vit.model, vit.inputs, pixels=True)
    finally:
        for handle in handles:
            handle.remove()
    signals = recording.signals(RULES["lrp"], _one_hot(recording.logits, vit.target))
    assert signals.pixels is not None
    assert vit.difference(signals.pixels.sum(1), "lrp_full_origlrp") < 1e-7


BERT = {
    "transformer_attribution?published_code=true&start_layer=0": "transformer_attribution",
    "transformer_attribution?published_code=true": "transformer_attribution_last",
    "lrp:deep_taylor": "full_lrp",
    "lrp": "full_lrp_origlrp",
    "partial_lrp:deep_taylor": "partial_lrp",
    "partial_lrp": "partial_lrp_origlrp",
    "raw_attention": "raw_attention",
    "rollout": "rollout",
}
CLS_SET_TO_ZERO = {"lrp:deep_taylor", "lrp", "raw_attention", "rollout"}  # by their code after the map is made; ours keeps what [CLS] got


@pytest.mark.parametrize("spec", BERT)
def test_bert_tokens(bert: Case, spec: str) -> None:
    scores = explainers.explain(bert.model, bert.inputs, target=bert.target, methods=spec)[spec].scores.clone()
    if spec in CLS_SET_TO_ZERO:
        assert float(bert.published[BERT[spec]][0, 0]) == 0
        scores[0] = 0
    assert bert.difference(scores, BERT[spec]) < TOLERANCE


def test_bert_gradcam_up_to_the_scale_of_the_whole_map(bert: Case) -> None:
    """Their min-max runs over the whole map of attention, whose smallest entry is 0: a factor."""
    result = explainers.explain(bert.model, bert.inputs, target=bert.target, methods="gradcam_attention")
    scores = result["gradcam_attention"].scores.double()
    theirs = bert.published["gradcam"][0]
    factor = theirs.max() / scores.max()
    assert bert.difference(scores * factor, "gradcam") < TOLERANCE


CP_LRP = Rule(attention="constant", norm="constant", activation="gate")


@pytest.mark.parametrize(("key", "rule"), [("attnlrp", RULES["attnlrp"]), ("cp_lrp", CP_LRP)])
def test_attnlrp_of_bert(key: str, rule: Rule) -> None:
    case = Case("attnlrp-bert")
    recording = Recording(case.model, case.inputs)
    signals = recording.signals(rule, _one_hot(recording.logits, case.target))
    x = recording.block_inputs[0].detach()
    assert case.difference((x * signals.block_inputs[0]).sum(-1), key) < TOLERANCE
    if key == "attnlrp":
        spec = "input_x_gradient:attnlrp"
        scores = explainers.explain(case.model, case.inputs, target=case.target, methods=spec)[spec].scores
        assert case.difference(scores, key) < TOLERANCE


def test_integrated_gradients_of_bert() -> None:
    case = Case("integrated-gradients-bert")
    one = explainers.explain(case.model, case.inputs, target=case.target, methods="integrated_gradients")["integrated_gradients"]
    theirs = case.published["ig_embeddings_zero_gausslegendre"].sum(-1)
    assert float((one.scores.double() - theirs).abs().max() / theirs.abs().max()) < TOLERANCE
    assert one.completeness_error is not None
    assert one.completeness_error < abs(float(case.published["delta_embeddings_zero_gausslegendre"])) + 1e-7


@pytest.mark.parametrize(("start_layer", "key"), [(0, "image_relevance_all_layers"), (-1, "image_relevance")])
def test_generic_attention_of_clips_image_tower(start_layer: int, key: str) -> None:
    """Each prompt's map, over one recording of one image and three prompts."""
    case = Case("generic-attention-clip")
    ids = case.inputs["input_ids"]
    recording = Recording(case.model, {**case.inputs, "attention_mask": torch.ones_like(ids)})
    assert torch.allclose(recording.logits[0].detach(), case.published["logits"][0], atol=1e-5)
    readout = METHODS["generic_attention"].readout
    rows = []
    for prompt in range(3):
        trace = Trace(recording, Chosen((str(prompt),), torch.tensor([prompt])), RULES["gradient"])
        rows.append(readout(trace, start_layer=start_layer)[0, 1:])
    assert case.difference(torch.stack(rows), key) < TOLERANCE


def _one_hot(logits: Tensor, target: int) -> Tensor:
    seed = torch.zeros_like(logits)
    seed[:, target] = 1
    return seed
