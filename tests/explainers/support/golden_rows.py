"""Which of our methods gives which array that published code gave, in each folder of tests/golden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import explainers
from explainers.autograd.rules import Rule, Strength
from explainers.records.result import Attribution
from tests.explainers.support.golden import Case

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
    """The spec (or the method with a rule of Python) that gives an array, what of it is compared, and axes that theirs is summed over."""

    method: Any
    shown: Callable[[Attribution], Tensor] = tokens
    summed: tuple[int, ...] = ()


CP_LRP = Rule(attention="constant", norm="constant", activation="gate")
MEAN_CONSTANT = Rule(attention="constant", norm="constant_mean")
TRAPEZOID = "integrated_gradients?quadrature=riemann_trapezoid"
#: GIM and its parts; what acts of the published package as it is, by its version and how the model attends.
GIM_PARTS: dict[str, Rule] = {
    "full_T4": Rule(attention="half_temperature", norm="constant", product="half", strength=Strength(temperature=4.0)),
    "full_T1": Rule(attention="half", norm="constant", product="half"),
    "only_norm": Rule(norm="constant"),
    "only_temperature": Rule(attention="temperature"),
    "only_qkv": Rule(attention="half"),
    "plain": Rule(),
}
GIM_OF: dict[str, dict[str, Rule]] = {
    "gim-bert": {
        **GIM_PARTS,
        "published_sdpa": GIM_PARTS["full_T1"],
        "published_eager": Rule(attention="temperature", norm="constant"),
    },
    "gim-llama": {
        **GIM_PARTS,
        "only_gate": Rule(product="half"),
        "full_0.1.4": Rule(attention="half_temperature", norm="constant"),
        "published_sdpa": Rule(attention="half", product="half"),
        "published_sdpa_0.1.4": Rule(attention="half"),
    },
}
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
    "ah": Row("input_x_gradient:conservative-attention"),
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
        "cp_lrp_gamma": Row("input_x_gradient:cp-lrp-gamma"),
        "cp_lrp_gamma_pixels": Row("input_x_gradient:cp-lrp-gamma?at=pixels", pixels),
    },
    "attnlrp-bert": {"attnlrp": Row("input_x_gradient:attnlrp"), "cp_lrp": Row(("input_x_gradient", CP_LRP))},
    "lxt-llama": {"attnLRP": Row("input_x_gradient:attnlrp"), "cp_LRP": Row("input_x_gradient:cp-lrp")},
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
    **{
        name: {
            "full|input_x_gradient_block0": Row("input_x_gradient:gim"),
            **{
                f"{tag}|input_x_gradient_block0": Row(("input_x_gradient", rule))
                for tag, rule in rules.items()
                if not tag.startswith("published")
            },
        }
        for name, rules in GIM_OF.items()
    },
    "agcam-vit": {},
    "generic-attention-clip": {},
    "exclip-openclip": {},
    "clip-dense": {},
    "clip-decomposition": {},
    "test-time-registers": {},
    "tis-vitcx-vit": {},
    "refinecam-vit": {},
    "tam-parts": {},
    "mda-vit": {},
    "nib-clip": {},
    "m2ib-clip": {},
    "eagle-vit": {},
    "fixlip": {},
    "information-flow-llama": {},
    "libragrad-eva02": {
        "raw_attention": Row("raw_attention?row=class_token"),
        "rollout": Row("rollout?row=class_token"),
        "token_tm": Row("token_tm?row=class_token"),
        "libra_token_tm": Row("token_tm:libra?row=class_token"),
        "libra_fullgrad_plus_without_attention": Row("fullgrad_plus:libra-attention"),
    },
    "globenc-alti-bert": {
        "globenc": Row("globenc?published_code=true"),
        "globenc_rows_normalised": Row("globenc"),
        "alti": Row("alti"),
    },
    "decompx-bert": {
        "decompx_nobias": Row("decompx"),
        "decompx_absdot": Row("decompx?biases=absdot"),
    },
}
FIXLIP = ("exact_banzhaf_p0.5_crossmodal_pairs_only", "exact_shapley_order2", "sampled_p0.3_budget300", "crossmodal_p0.5")
#: Arrays that are no spec's scores as they are: the test that accounts for each is below, or the reason why there is none.
BESIDE: dict[str, set[str]] = {
    "chefer-vit": {"ablation_second_relevance", "lrp_full_origlrp"},
    "chefer-bert": {"gradcam"},
    "chefer-bert-padded": {"gradcam", "transformer_attribution", "transformer_attribution_last"},
    "information-flow-llama": {
        "heads",
        "around_attention",
        "renormalised_0.04|attention",
        *(f"{name}|{kind}" for name in ("full", "at_0.04") for kind in ("attention", "mlp", "around_mlp")),
    },
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
    **{
        name: {*(f"{tag}|gradient_block0" for tag in ("full", *rules)), "full|gradient_embeddings", "explain_full"}
        for name, rules in GIM_OF.items()
    },
    "agcam-vit": {f"agcam|{of}{what}" for of in ("target", "top") for what in ("", "|scores", "|gradient")},
    "generic-attention-clip": {"image_relevance", "image_relevance_all_layers", "text_eot_row", "text_eot_row_all_layers"}
    | {"text_relevance", "text_relevance_all_layers"},
    "exclip-openclip": {
        *(f"{name}_layer{block}_N{steps}" for name in ("pairs", "terms") for block in (0, 2) for steps in (10, 50)),
        "image_embedding",
        "text_embedding",
    },
    "tis-vitcx-vit": {"probabilities", "tis_centroids", "tis_activations"}
    | {f"tis|{kept}|{what}" for kept in ("half", "ratios_0.5_0.25") for what in ("masks", "scores", "map")}
    | {f"vitcx|threshold0.3|{what}" for what in ("masks", "noise_over_0.1", "map")},
    "tam-parts": {"interference", "scale", "closed_form_scale", "cleaned", "scaled", "filtered"},
    "refinecam-vit": {f"refinecam|{cam}|{what}" for cam in ("gradcam", "gradcampp", "layercam") for what in ("layers", "target")},
    "mda-vit": {"probabilities", "probabilities_blurred", "probabilities_black", "segments", "hint_patches"}
    | {"insertion_order", "insertion_probabilities", "beginning", "deletion_order_best_first"}
    | {f"curve{number}|{what}" for number in (0, 1) for what in ("in", "out", "type", "exact")}
    | {f"{name}|gamma{gamma}" for name in ("map", "map_exact") for gamma in ("0", "0.5", "1")}
    | {f"mas|{way}|{what}" for way in ("ins", "del") for what in ("scores", "penalty", "density", "response", "auc", "auc_response")}
    | {
        f"{name}|{way}{what}"
        for name in ("monotonicity", "monotonicity_patches")
        for way in ("positive", "negative")
        for what in ("", "|response")
    },
    "nib-clip": {"image_features", "text_features", "cosine", "batch|layer2_steps10|image", "batch|layer2_steps10|text"}
    | {
        f"layer{block}_steps{steps}|{what}"
        for block in (2, 0)
        for steps in (10, 4)
        for what in ("image", "image_final_every_16", "text", "text_final")
    },
    "m2ib-clip": {"image_features", "text_features", "cosine"}
    | {
        f"{side}|{tag}|{what}"
        for side in ("image", "text")
        for tag in ("layer1_beta0.1", "layer1_beta1", "layer0_beta0.1")
        for what in ("losses", "alpha_steps", "capacity", "map", "final")
    },
    "eagle-vit": {
        f"{parts}|{what}" for parts in ("8x8", "4x4") for what in ("order", "insertion", "deletion", "map", "values", "ends", "asked")
    },
    "fixlip": {"empty_value", "full_value", "all_values_image_x_text", "split_of_budget_1024"}
    | {f"exact_banzhaf_p{p}_order{order}|{what}" for p in (0.3, 0.5, 0.7) for order in (1, 2) for what in ("constant", "first", "second")}
    | {f"exact_banzhaf_p{p}_order2|first_order_total" for p in (0.3, 0.5, 0.7)}
    | {f"{name}|{what}" for name in FIXLIP for what in ("constant", "first", "second")}
    | {f"sampled_p0.3_budget300|{what}" for what in ("coalitions", "weights")}
    | {f"crossmodal_p0.5|{what}_{side}" for what in ("coalitions", "counts", "sampled", "weights") for side in ("image", "text")}
    | {f"aid|{what}" for what in ("deletion_most_important_first", "deletion_least_important_first", "coalitions_mif", "coalitions_lif")}
    | {"aid|score", "faithfulness|coalitions"}
    | {f"aid_first_order|{what}" for what in ("score", "mif", "lif")}
    | {f"faithfulness|{what}" for what in ("r2", "r2_shapley", "r2_banzhaf", "mse", "mae", "correlation", "spearman_correlation")}
    | {"faithfulness|kendall_tau", "faithfulness|cosine_similarity"},
    "clip-dense": {"logits_per_image", "text_embeds", "image_embeds"}
    | {f"map|{name}" for name in ("vanilla", "kk", "neighbours_only", "clip_surgery_redundant_last_prompt")}
    | {f"map|{name}{after}" for name in ("maskclip", "sclip") for after in ("", "_attention_only")}
    | {f"map|{name}{after}" for name in ("clearclip", "naclip") for after in ("", "_whole_block")}
    | {f"map|{name}" for name in ("naclip_std1", "clip_surgery", "clip_surgery_architecture")}
    | {f"map|gem{how}" for how in ("", "_depth4", "_iterations2", "_inverse_temperature5", "_depth2_iterations0")},
    "clip-decomposition": {"representation", "text_embeds", "attentions_picture0", "attentions_heads", "mlps", "attentions_class_to_class"}
    | {"map_patches_prompts5", "map_chosen", "chosen", "textspan", "textspan_reconstruction"}
    | {"mean_ablated_mlps", "mean_ablated_class_to_class"},
    "test-time-registers": {"norms", "counted_images", "register_neurons"}
    | {f"{what}|{how}" for what in ("scores", "ranking") for how in ("plain", "sparse")}
    | {
        f"{what}|{tag}"
        for what in ("embedding", "class_attention", "last_block_output", "norms")
        for tag in (
            "original",
            "zero_token_only_registers1",
            *(f"layer_max_{patches}_registers1" for patches in ("zero", "mean", "only_outliers", "same")),
            "layer_max_zero_registers2",
            "layer_max_zero_registers1_scale2",
            "neuron_max_zero_registers1",
            "neuron_max_zero_registers2",
        )
    },
    "libragrad-eva02": {"generic_attention", "libra_generic_attention"},
    "globenc-alti-bert": {"globenc_lengths", "alti_after_second_norm"},
    "decompx-bert": {"decompx_norm", "decompx_equal", "decompx_biastoken"},  # other ways to share biases, which are no options here
}


@cache
def case_of(name: str, dtype: torch.dtype = torch.float64) -> Case:
    """Shared by tests, so never change it."""
    return Case(name, dtype)


@cache
def maps_of(name: str, dtype: torch.dtype) -> dict[str, Attribution]:
    """The map of every row of a folder, from one explanation: its forward pass and its signals are made once."""
    case, rows = case_of(name, dtype), ROWS[name]
    result = explainers.explain(case.model, case.inputs, target=case.target, methods=[row.method for row in rows.values()])
    return dict(zip(rows, result.maps, strict=True))


def explained(case: Case, method: Any) -> Attribution:
    return explainers.explain(case.model, case.inputs, target=case.target, methods=[method]).maps[0]
