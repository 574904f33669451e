"""Maps of CLIP that compare each patch with the prompt, against the published code of six repositories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.signals import AttentionParts
from explainers.methods import parse
from explainers.methods.implementations.similarity import neighbourhood
from explainers.methods.prompt_cosines import patch_logits, reweigh_last_block, scores_of
from explainers.records.targets import Classes, Contrast, resolve, resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.golden import Case

PROMPTS = 3
TOLERANCE = 1e-9


@cache
def case() -> Case:
    return Case("clip-dense")


@cache
def openclip_model() -> explainers.Model:
    """The weights of the case in a model of OpenCLIP, whose attention is torch's own module with q, k, v in one matrix."""
    open_clip = pytest.importorskip("open_clip")
    config, weights = case().about["config"], case().module.state_dict()
    vision, text = config["vision_config"], config["text_config"]
    state = {
        "visual.class_embedding": weights["vision_model.embeddings.class_embedding"],
        "visual.conv1.weight": weights["vision_model.embeddings.patch_embedding.weight"],
        "visual.positional_embedding": weights["vision_model.embeddings.position_embedding.weight"],
        "visual.proj": weights["visual_projection.weight"].T,
        "token_embedding.weight": weights["text_model.embeddings.token_embedding.weight"],
        "positional_embedding": weights["text_model.embeddings.position_embedding.weight"],
        "text_projection": weights["text_projection.weight"].T,
        "logit_scale": weights["logit_scale"],
    }
    names = {"visual.ln_pre": "vision_model.pre_layrnorm", "visual.ln_post": "vision_model.post_layernorm"}
    names |= {"ln_final": "text_model.final_layer_norm"}
    for ours, theirs, count in (("visual.", "vision_model", vision["num_hidden_layers"]), ("", "text_model", text["num_hidden_layers"])):
        for i in range(count):
            block, layer = f"{ours}transformer.resblocks.{i}", f"{theirs}.encoder.layers.{i}"
            parts = {"ln_1": "layer_norm1", "ln_2": "layer_norm2", "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
            parts["attn.out_proj"] = "self_attn.out_proj"
            names |= {f"{block}.{name}": f"{layer}.{other}" for name, other in parts.items()}
            for what in ("weight", "bias"):
                state[f"{block}.attn.in_proj_{what}"] = torch.cat([weights[f"{layer}.self_attn.{x}_proj.{what}"] for x in "qkv"])
    state |= {f"{name}.{what}": weights[f"{other}.{what}"] for name, other in names.items() for what in ("weight", "bias")}
    image = {"layers": vision["num_hidden_layers"], "width": vision["hidden_size"], "image_size": vision["image_size"]}
    image |= {"head_width": vision["hidden_size"] // vision["num_attention_heads"], "patch_size": vision["patch_size"]}
    words = {"context_length": text["max_position_embeddings"], "vocab_size": text["vocab_size"], "width": text["hidden_size"]}
    words |= {"heads": text["num_attention_heads"], "layers": text["num_hidden_layers"]}
    words |= {"mlp_ratio": text["intermediate_size"] / text["hidden_size"]}
    module = open_clip.CLIP(embed_dim=config["projection_dim"], vision_cfg=image, text_cfg=words, quick_gelu=True)
    module.load_state_dict(state)
    return explainers.wrap(module.double().eval())


def openclip_inputs() -> dict[str, Tensor]:
    """The inputs of the case, its texts as long as OpenCLIP's text side takes them."""
    length = case().about["config"]["text_config"]["max_position_embeddings"]
    ids = case().inputs["input_ids"]
    return {"pixel_values": case().inputs["pixel_values"], "input_ids": F.pad(ids, (0, length - ids.shape[1]))}


def trace_of(prompt: int, model: explainers.Model | None = None, tensors: Mapping[str, Tensor] | None = None) -> Trace:
    """The pass of the case, or of another model and input, asked about one of its prompts."""
    model, tensors = model or case().model, dict(tensors or case().inputs)
    recording = Recording(model, tensors)
    chosen = resolved_class((f"prompt {prompt}",), torch.tensor([prompt]))

    def answer(sample: int, repeats: int, change: Callable[[str, Tensor], Tensor]) -> Tensor:
        return model.forward({name: change(name, tensor) for name, tensor in tensors.items()})

    return Trace(recording, chosen, None, answer=answer)


@pytest.mark.parametrize(
    ("array", "spec"),
    [
        ("maskclip", "maskclip"),
        ("maskclip_attention_only", "maskclip?after=attention"),
        ("sclip", "sclip"),
        ("sclip_attention_only", "sclip?after=attention"),
        ("clearclip", "clearclip"),
        ("clearclip_whole_block", "clearclip?after=block"),
        ("naclip", "naclip"),
        ("naclip_std1", "naclip?std=1"),
        ("naclip_whole_block", "naclip?after=block"),
        ("gem", "gem"),
        ("gem_depth4", "gem?layers=3"),
        ("gem_iterations2", "gem?iterations=2"),
        ("gem_inverse_temperature5", "gem?inverse_temperature=5"),
        ("gem_depth2_iterations0", "gem?layers=1&iterations=0"),
        ("clip_surgery_architecture", "clip_surgery?features=false"),
        ("clip_surgery", "clip_surgery"),
    ],
)
def test_maps_are_those_of_the_published_code(array: str, spec: str) -> None:
    theirs = case().published[f"map|{array}"][0]
    for prompt in range(PROMPTS):
        trace = trace_of(prompt)
        request = parse(spec)
        scores = request.read(trace).scores[0, trace.content[0]]
        assert float((scores - theirs[prompt]).abs().max()) < TOLERANCE


@pytest.mark.parametrize("spec", ["maskclip", "sclip", "clearclip", "naclip", "gem", "clip_surgery"])
def test_a_model_of_openclip_gives_the_same_maps(spec: str) -> None:
    for prompt in range(PROMPTS):
        trace = trace_of(prompt, openclip_model(), openclip_inputs())
        scores = parse(spec).read(trace).scores[0, trace.content[0]]
        assert float((scores - case().published[f"map|{spec}"][0, prompt]).abs().max()) < TOLERANCE


def last_block(name: str, trace: Trace, parts: AttentionParts) -> Tensor:
    """Attention of the last block in the ablations of NACLIP's code, and the model's own."""
    window = neighbourhood(trace, 5).to(parts.key)
    lengths = parts.query.norm(dim=-1)[..., :, None] * parts.key.norm(dim=-1)[..., None, :] * parts.key.shape[-1] ** -0.5
    return {
        "vanilla": parts.weights,
        "kk": (parts.key @ parts.key.mT * parts.key.shape[-1] ** -0.5).softmax(-1),
        "neighbours_only": (lengths.mean() * window).softmax(-1).expand_as(parts.weights),
    }[name]


@pytest.mark.parametrize(("name", "after"), [("vanilla", "block"), ("kk", "attention"), ("neighbours_only", "attention")])
def test_ablations_and_the_model_as_it_is(name: str, after: str) -> None:
    """The same way to the prompts with attention that no method has."""
    for prompt in range(PROMPTS):
        trace = trace_of(prompt)
        tokens = reweigh_last_block(lambda parts, trace=trace: last_block(name, trace, parts), after)  # type: ignore[misc]
        scores = scores_of(trace, patch_logits(trace, name, tokens))[0, trace.content[0]]
        assert float((scores - case().published[f"map|{name}"][0, prompt]).abs().max()) < TOLERANCE


def test_a_redundant_prompt_is_a_contrast_without_feature_surgery() -> None:
    trace = trace_of(0)
    trace.chosen = resolve(Contrast(0, PROMPTS - 1), Classes([str(i) for i in range(PROMPTS)]), torch.zeros(1, PROMPTS))
    scores = parse("clip_surgery?features=false").read(trace).scores[0, trace.content[0]]
    assert float((scores - case().published["map|clip_surgery_redundant_last_prompt"][0, 0]).abs().max()) < TOLERANCE


@pytest.mark.parametrize("spec", ["maskclip", "sclip", "clearclip", "naclip", "gem"])
def test_less_prompts_is_the_published_map_less_the_mean_of_all_prompts(spec: str) -> None:
    theirs = case().published[f"map|{spec}"][0]
    for prompt in range(PROMPTS):
        trace = trace_of(prompt)
        scores = parse(f"{spec}?less=prompts").read(trace).scores[0, trace.content[0]]
        assert float((scores - (theirs[prompt] - theirs.mean(0))).abs().max()) < TOLERANCE
        assert "sets this prompt apart from the others" in " ".join(trace.notes)


def test_logits() -> None:
    recording = trace_of(0).recording
    assert float((recording.logits.detach() - case().published["logits_per_image"]).abs().max()) < TOLERANCE
