"""Ours against what the published code of others gave: every array in tests/golden, each folder with its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import relevance
from explainers.methods import METHODS
from explainers.methods.attention import product
from explainers.recording import Recording
from explainers.result import Attribution
from explainers.rules import RULES, Rule
from explainers.targets import Chosen
from explainers.trace import Trace
from tests.engine.golden import GOLDEN, Case, arrays_of

TOLERANCE = 1e-5  # of the largest value
IN_FLOAT32 = 5  # times what the published code's own float32 differs from its float64: as many roundings, in another order


def tokens(one: Attribution) -> Tensor:
    return one.scores


def patches(one: Attribution) -> Tensor:
    return one.scores[one.content]


def pixels(one: Attribution) -> Tensor:
    assert one.pixels is not None
    return one.pixels


def class_token_zero(one: Attribution) -> Tensor:
    """Their code sets [CLS] to 0 after the map is made; ours keeps what it got."""
    return torch.cat([torch.zeros(1), one.scores[1:]])


def min_max(one: Attribution) -> Tensor:
    """Their code ends with this scaling."""
    found = patches(one)
    return (found - found.min()) / (found.max() - found.min())


@dataclass(frozen=True)
class Row:
    """The spec (or the read-out with a rule of Python) that gives an array, what of it is compared, and axes that theirs is summed over."""

    method: Any
    shown: Callable[[Attribution], Tensor] = tokens
    summed: tuple[int, ...] = ()


CP_LRP = Rule(attention="constant", norm="constant", activation="gate")
ATTENTION_CONSTANT = Rule(attention="constant")
MEAN_CONSTANT = Rule(attention="constant", norm="constant_mean")
TRAPEZOID = "integrated_gradients?quadrature=riemann_trapezoid"

BERT = {
    "transformer_attribution": Row("transformer_attribution?published_code=true&start_layer=0"),
    "transformer_attribution_last": Row("transformer_attribution?published_code=true"),
    "partial_lrp": Row("partial_lrp:deep_taylor"),
    "partial_lrp_origlrp": Row("partial_lrp"),
    "full_lrp": Row("lrp:deep_taylor", class_token_zero),
    "full_lrp_origlrp": Row("lrp", class_token_zero),
    "raw_attention": Row("raw_attention", class_token_zero),
    "rollout": Row("rollout", class_token_zero),
}
ALI = {
    "gradient_x_input": Row("input_x_gradient"),
    "ah": Row(("input_x_gradient", ATTENTION_CONSTANT)),
    "ah_ln": Row("input_x_gradient:conservative"),
}
ROWS: dict[str, dict[str, Row]] = {
    "chefer-vit": {
        "transformer_attribution": Row("transformer_attribution", patches),
        "transformer_attribution_start_layer_1": Row("transformer_attribution?start_layer=1", patches),
        "lrp_rollout": Row("transformer_attribution_without_gradient?published_code=true", patches),
        "ablation_last_grad_relevance": Row("transformer_attribution_last_block", patches),
        "ablation_second_grad_relevance": Row("transformer_attribution_second_block", patches),
        "partial_lrp": Row("partial_lrp:deep_taylor", patches),
        "partial_lrp_origlrp": Row("partial_lrp", patches),
        "lrp_full": Row("lrp:deep_taylor", pixels),
        "raw_attention": Row("raw_attention", patches),
        "attention_rollout": Row("rollout", patches),
        "attention_rollout_start_layer_1": Row("rollout?start_layer=1", patches),
        "gradcam_attention": Row("gradcam_attention", min_max),
    },
    "chefer-bert": BERT,
    "chefer-bert-padded": {key: row for key, row in BERT.items() if not key.startswith("transformer_attribution")},
    "generic-attention-vit": {"generic_attention": Row("generic_attention", patches)},
    "attnlrp-vit": {
        "attnlrp": Row("input_x_gradient:attnlrp"),
        "attnlrp_pixels": Row("input_x_gradient:attnlrp?at=pixels", pixels),
        "cp_lrp": Row(("input_x_gradient", CP_LRP)),
        "cp_lrp_pixels": Row(("input_x_gradient?at=pixels", CP_LRP), pixels),
    },
    "attnlrp-bert": {"attnlrp": Row("input_x_gradient:attnlrp"), "cp_lrp": Row(("input_x_gradient", CP_LRP))},
    "conservative-independent": ALI,
    "conservative-published": {**ALI, "ah_ln_mean_detached": Row(("input_x_gradient", MEAN_CONSTANT))},
    "integrated-gradients-vit": {
        "ig_gausslegendre": Row("integrated_gradients?at=pixels", pixels, (1,)),
        "ig_riemann_trapezoid": Row(f"{TRAPEZOID}&at=pixels", pixels, (1,)),
    },
    "integrated-gradients-bert": {
        "ig_embeddings_zero_gausslegendre": Row("integrated_gradients", tokens, (2,)),
        "ig_embeddings_zero_riemann_trapezoid": Row(TRAPEZOID, tokens, (2,)),
        "lig_embeddings_pad_gausslegendre": Row("integrated_gradients?baseline=pad", tokens, (2,)),
        "lig_embeddings_pad_riemann_trapezoid": Row(f"{TRAPEZOID}&baseline=pad", tokens, (2,)),
    },
    "generic-attention-clip": {},
}
#: Arrays that are no spec's scores as they are: the test that accounts for each is below, or the reason why there is none.
BESIDE: dict[str, set[str]] = {
    "chefer-vit": {"ablation_second_relevance", "lrp_full_origlrp"},
    "chefer-bert": {"gradcam"},
    "chefer-bert-padded": {"gradcam", "transformer_attribution", "transformer_attribution_last"},
    # zennit's gamma on the weights of convolutions and of the feed-forward layers: our rules have no gamma, as AttnLRP's paper has none
    # outside its tuned variant for ViTs
    "attnlrp-vit": {"cp_lrp_gamma", "cp_lrp_gamma_pixels"},
    "attnlrp-bert": {"attnlrp_inputs_embeds", "cp_lrp_inputs_embeds"},
    "integrated-gradients-vit": {"logits_baseline", "delta_gausslegendre", "delta_riemann_trapezoid"},
    "integrated-gradients-bert": {
        "logits_baseline_word_embeddings",
        *(
            f"{prefix}{path}_{quadrature}"
            for quadrature in ("gausslegendre", "riemann_trapezoid")
            for prefix, path in (
                ("ig_", "word_embeddings_zero"),
                ("", "lig_word_embeddings_pad"),
                ("delta_", "word_embeddings_zero"),
                ("delta_", "embeddings_zero"),
                ("delta_lig_", "word_embeddings_pad"),
                ("delta_lig_", "embeddings_pad"),
            )
        ),
    },
    "generic-attention-clip": {"image_relevance", "image_relevance_all_layers", "text_eot_row", "text_eot_row_all_layers"}
    | {"text_relevance", "text_relevance_all_layers"},
}


@cache
def case_of(name: str, dtype: torch.dtype = torch.float64) -> Case:
    """Shared by tests, so never change it."""
    return Case(name, dtype)


def explained(case: Case, method: Any) -> Attribution:
    return explainers.explain(case.model, case.inputs, target=case.target, methods=[method]).maps[0]


def test_every_array_of_every_folder_is_accounted_for_and_has_a_source() -> None:
    folders = {p.name for p in GOLDEN.iterdir() if p.is_dir()}
    assert folders == set(ROWS) == set(BESIDE) | {name for name in ROWS if name not in BESIDE}
    for name in folders:
        assert arrays_of(name) == {"logits"} | set(ROWS[name]) | BESIDE.get(name, set()), name
        assert "Source: " in (GOLDEN / name / "README.md").read_text()


@pytest.mark.parametrize("name", [name for name in ROWS if name != "generic-attention-clip"])
def test_logits(name: str) -> None:
    case = case_of(name)
    with torch.no_grad():
        assert case.difference(case.model.forward(case.inputs), "logits") < 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("name", "array"), [(name, array) for name, rows in ROWS.items() for array in rows])
def test_scores_are_those_of_the_published_code(name: str, array: str, dtype: torch.dtype) -> None:
    """In float64 within 1e-5; in float32 within what float32 can reach there, which the published code's own run shows."""
    case, row = case_of(name, dtype), ROWS[name][array]
    bound = TOLERANCE if dtype == torch.float64 else max(TOLERANCE, IN_FLOAT32 * case.about["float32_error"][array])
    assert case.difference(row.shown(explained(case, row.method)), array, row.summed) < bound


# --- Chefer et al. --------------------------------------------------------------------------------------------------


def test_relevance_of_the_second_blocks_attention() -> None:
    """Their second_layer without the gradient: no read-out of ours, but two lines over a trace."""
    case = case_of("chefer-vit")
    recording = Recording(case.model, case.inputs)
    trace = Trace(recording, Chosen(("",), torch.tensor([case.target])), RULES["deep_taylor"])
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
    signals = recording.signals(RULES["lrp"], case.one_hot(recording.logits))
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
    gradient = recording.signals(RULES["gradient"], case.one_hot(recording.logits)).attentions[-1]
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
    readout = METHODS["generic_attention"].readout
    rows = []
    for prompt in range(3):
        trace = Trace(recording, Chosen((str(prompt),), torch.tensor([prompt])), RULES["gradient"])
        rows.append(readout(trace, start_layer=start_layer)[0, 1:])
    assert case.difference(torch.stack(rows), key) < TOLERANCE


@pytest.mark.parametrize(("start_layer", "key"), [(0, "text_eot_row_all_layers"), (-1, "text_eot_row")])
def test_generic_attention_of_clips_text_tower(start_layer: int, key: str) -> None:
    """The three prompts are the samples here, and the image is what each is compared with; they have no attention mask."""
    case = case_of("generic-attention-clip")
    recording = Recording(case.model.seen_from("text"), case.inputs)
    assert torch.allclose(recording.logits[:, 0].detach(), case.published["logits"][0], atol=1e-5)
    trace = Trace(recording, Chosen(("the image",) * 3, torch.zeros(3, dtype=torch.long)), RULES["gradient"])
    assert case.difference(METHODS["generic_attention"].readout(trace, start_layer=start_layer), key) < TOLERANCE
    maps = [(a * g).clamp(min=0).mean(1) for a, g in zip(trace.attentions, trace.attention_grads, strict=True)]
    whole = product(trace.identity(), maps, start_layer)  # of which the read-out takes a row
    assert case.difference(whole, key.replace("eot_row", "relevance")) < TOLERANCE


# --- maps that start at the word embeddings -------------------------------------------------------------------------

BEFORE_NORM = "bert.embeddings.LayerNorm"  # its input is the sum of word, position and type embedding


@pytest.mark.parametrize(("key", "rule"), [("attnlrp", RULES["attnlrp"]), ("cp_lrp", CP_LRP)])
def test_attnlrp_at_the_word_embeddings(key: str, rule: Rule) -> None:
    """Their quick start multiplies the word embedding alone with its gradient, which is that of the sum of the embeddings."""
    case = Case("attnlrp-bert", entry=BEFORE_NORM)
    recording = Recording(case.model, case.inputs)
    gradient = recording.signals(rule, case.one_hot(recording.logits)).block_inputs[0]
    words = case.module.bert.embeddings.word_embeddings(case.inputs["input_ids"])
    assert case.difference((words * gradient).sum(-1), f"{key}_inputs_embeds") < TOLERANCE


def without_padding_row(module: nn.Module) -> None:
    """Then an input of padding has word embeddings of zero, and the positions that it has anyway."""
    with torch.no_grad():
        module.bert.embeddings.word_embeddings.weight[0] = 0


def of_word_embeddings(zero: bool) -> Case:
    return Case("integrated-gradients-bert", entry=BEFORE_NORM, change=without_padding_row if zero else None)


@pytest.mark.parametrize("quadrature", ["gausslegendre", "riemann_trapezoid"])
@pytest.mark.parametrize("zero", [True, False], ids=["zero", "pad"])
def test_integrated_gradients_of_the_word_embeddings(zero: bool, quadrature: str) -> None:
    """Between the sums of embeddings lies what lies between the word embeddings, as positions and types are the same at both ends."""
    case = of_word_embeddings(zero)
    method = (TRAPEZOID + "&" if quadrature == "riemann_trapezoid" else "integrated_gradients?") + "baseline=pad"
    one = explained(case, method)
    path = "word_embeddings_zero" if zero else "lig_word_embeddings_pad"
    assert case.difference(one.scores, f"ig_{path}_{quadrature}" if zero else f"{path}_{quadrature}", (2,)) < TOLERANCE
    assert one.completeness_error == pytest.approx(abs(float(case.published[f"delta_{path}_{quadrature}"])), rel=TOLERANCE, abs=1e-7)


def test_logits_where_the_word_embeddings_are_zero() -> None:
    case = of_word_embeddings(zero=True)
    blank = {**case.inputs, "input_ids": torch.zeros_like(case.inputs["input_ids"])}
    with torch.no_grad():
        assert case.difference(case.model.forward(blank), "logits_baseline_word_embeddings") < 1e-6


# --- Captum's account of what is missing ----------------------------------------------------------------------------

DELTAS = {
    ("integrated-gradients-vit", "delta_gausslegendre"): "ig_gausslegendre",
    ("integrated-gradients-vit", "delta_riemann_trapezoid"): "ig_riemann_trapezoid",
    **{
        ("integrated-gradients-bert", f"delta_{path}_{quadrature}"): f"{path if path.startswith('lig') else f'ig_{path}'}_{quadrature}"
        for path in ("embeddings_zero", "lig_embeddings_pad")
        for quadrature in ("gausslegendre", "riemann_trapezoid")
    },
}


@pytest.mark.parametrize(("name", "delta"), DELTAS)
def test_the_completeness_error_is_captums_delta(name: str, delta: str) -> None:
    case = case_of(name)
    error = explained(case, ROWS[name][DELTAS[name, delta]].method).completeness_error
    assert error == pytest.approx(abs(float(case.published[delta])), rel=TOLERANCE, abs=1e-7)


def test_logits_of_a_black_image() -> None:
    case = case_of("integrated-gradients-vit")
    with torch.no_grad():
        black = case.model.forward({"pixel_values": torch.zeros_like(case.inputs["pixel_values"])})
    assert case.difference(black, "logits_baseline") < 1e-6
