"""Information-flow routes of decoders of several families, against importance written out for each model from its modules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.models.model import Model
from tests.explainers.support.explained import image_model
from tests.support.vocabularies import byte_level, whole_text
from vitrine_server.cli import main

# isort: split
import transformers
from tokenizers import processors

PROMPT = "a good film, not a bad movie"
SAME = {"rtol": 0, "atol": 1e-6}


def writer(kind: str) -> Model:
    """A decoder with random weights, biases among them, in float64."""
    torch.manual_seed(0)
    tokenizer: Any = byte_level(40) if kind == "GPT2LMHeadModel" else whole_text(40)
    first = tokenizer.cls_token
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A", special_tokens=[(first, tokenizer.cls_token_id)]
    )
    size: dict[str, Any] = {"vocab_size": len(tokenizer), "bos_token_id": 2, "eos_token_id": 3}
    if kind == "GPT2LMHeadModel":
        size |= {"n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.3}
    elif kind == "OPTForCausalLM":
        size |= {"max_position_embeddings": 40, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
        size |= {"word_embed_proj_dim": 32, "init_std": 0.3}
    else:
        size |= {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.3}
        size |= {"max_position_embeddings": 40, **({} if "NeoX" in kind else {"num_key_value_heads": 2})}
    config = getattr(transformers, kind.replace("ForCausalLM", "").replace("LMHeadModel", "") + "Config")(**size)
    module: Any = getattr(transformers, kind)(config).eval()
    module.generation_config.max_new_tokens = 3
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
        module.get_output_embeddings().weight[:270] *= 0.1  # it writes words, as its bytes hardly count
    return explainers.wrap(module.double(), tokenizer=tokenizer)


def llama_parts(layer: Any) -> tuple[Any, Any, Any]:
    return layer.self_attn.v_proj, layer.self_attn.o_proj.weight, layer.post_attention_layernorm


def gpt2_parts(layer: Any) -> tuple[Any, Any, Any]:
    return layer.attn.c_attn, layer.attn.c_proj.weight.T, layer.ln_2


def opt_parts(layer: Any) -> tuple[Any, Any, Any]:
    return layer.self_attn.v_proj, layer.self_attn.out_proj.weight, layer.final_layer_norm


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], tuple[Any, Any, Any]]]] = {
    "LlamaForCausalLM": (lambda module: module.model.layers, llama_parts),
    "Qwen2ForCausalLM": (lambda module: module.model.layers, llama_parts),
    "GPT2LMHeadModel": (lambda module: module.transformer.h, gpt2_parts),
    "OPTForCausalLM": (lambda module: module.model.decoder.layers, opt_parts),
}


def size_of(vector: Tensor) -> float:
    return float(vector.abs().sum())


def twin(model: Model, kind: str, ids: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The importance of each part of each vector, one after the other: of attention (to, heads, from) with the stream as a last head, and
    of MLP and stream (to, 2), for each block.
    """
    layers, parts = KINDS[kind]
    seen: dict[str, list[Tensor]] = {"in": [], "value": [], "mid": [], "out": []}
    module: Any = model.module
    hooks = []

    def keep(name: str, of_output: bool) -> Callable[..., None]:
        return lambda _, given, *out: seen[name].append(out[-1] if of_output else given[0])

    for layer in layers(module):
        value, _, norm = parts(layer)
        hooks += [layer.register_forward_pre_hook(keep("in", False)), value.register_forward_hook(keep("value", True))]
        hooks += [norm.register_forward_pre_hook(keep("mid", False)), layer.register_forward_hook(keep("out", True))]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        attentions = module(ids, output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    module.set_attn_implementation("sdpa")
    of_attention, of_mlp = [], []
    for number, layer in enumerate(layers(module)):
        x, mid, out = (
            (seen[name][number][0] if isinstance(seen[name][number], tuple) else seen[name][number]).view(ids.shape[1], -1)
            for name in ("in", "mid", "out")
        )
        weights, weight = attentions[number][0].double(), parts(layer)[1].detach()
        (heads, tokens, _), value = weights.shape, seen["value"][number][0].detach()
        value = value[:, -32:] if kind == "GPT2LMHeadModel" else value
        depth = weight.shape[1] // heads
        rows, mlps = torch.zeros(tokens, heads + 1, tokens, dtype=torch.float64), torch.zeros(tokens, 2, dtype=torch.float64)
        for i in range(tokens):
            o = mid[i].detach()
            for h in range(heads):
                column = h * (value.shape[1] // depth) // heads * depth
                for j in range(tokens):
                    v = weights[h, i, j] * weight[:, h * depth : (h + 1) * depth] @ value[j, column : column + depth]
                    rows[i, h, j] = max(0.0, size_of(o) - size_of(o - v))
            rows[i, heads, i] = max(0.0, size_of(o) - size_of(o - x[i]))
            whole = out[i].detach()
            mlps[i] = torch.tensor([max(0.0, size_of(whole) - size_of(whole - v)) for v in (whole - o, o)])
        of_attention.append(rows / rows.sum((1, 2), keepdim=True))
        of_mlp.append(mlps / mlps.sum(1, keepdim=True))
    return of_attention, of_mlp


@pytest.mark.parametrize("kind", KINDS)
def test_every_edge_is_as_written_out(kind: str) -> None:
    model = writer(kind)
    flow = explainers.information_flow(model, PROMPT, threshold=0.0)
    result = explainers.explain(model, PROMPT, methods="random")
    ids = result.tensors["input_ids"]
    of_attention, of_mlp = twin(model, kind, ids)
    assert flow.start == model.tensors(PROMPT)["input_ids"].shape[1] - 1
    assert len(flow.tokens) == ids.shape[1]
    shares = torch.zeros(ids.shape[1], dtype=torch.float64)
    shares[flow.start] = 1
    for block in (1, 0):
        steps = [step for step in flow.steps if step.block == block]
        assert {step.token for step in steps} == set(shares.nonzero()[:, 0].tolist())
        ours = torch.zeros_like(of_attention[block])
        for route in flow.routes:
            if route.block == block:
                ours[route.target, :-1, route.source] = torch.tensor(route.heads, dtype=torch.float64)
        for step in steps:
            ours[step.token, -1, step.token] = step.around_attention
            torch.testing.assert_close(ours[step.token], of_attention[block][step.token], **SAME)
            both = torch.tensor([step.mlp, step.around_mlp], dtype=torch.float64)
            torch.testing.assert_close(both, of_mlp[block][step.token], **SAME)
        shares = shares @ of_attention[block].sum(1)
    torch.testing.assert_close(flow.input_shares, shares, **SAME)
    assert float(flow.input_shares.sum()) == pytest.approx(1)


@pytest.mark.parametrize("renormalise", [False, True])
def test_a_threshold_leaves_weak_routes_out(renormalise: bool) -> None:
    model, threshold = writer("LlamaForCausalLM"), 0.1
    whole = explainers.information_flow(model, PROMPT, threshold=0.0)
    flow = explainers.information_flow(model, PROMPT, threshold=threshold, renormalise=renormalise)
    assert 0 < len(flow.routes) < len(whole.routes)
    importances = {(route.block, route.source, route.target): route for route in whole.routes}
    around = {(step.block, step.token): step.around_attention for step in whole.steps}
    for route in flow.routes:
        all_of_it = importances[route.block, route.source, route.target]
        if renormalise:
            assert all(before > threshold for head, before in zip(route.heads, all_of_it.heads, strict=True) if head)
        else:
            assert route == all_of_it
            assert route.importance + (around[route.block, route.target] if route.source == route.target else 0) > threshold
    for step in flow.steps:
        if renormalise:
            into = sum(route.importance for route in flow.routes if (route.block, route.target) == (step.block, step.token))
            assert into + step.around_attention == pytest.approx(1)
            assert step.mlp + step.around_mlp == pytest.approx(1)
        else:
            assert all(edge == 0 or edge > threshold for edge in (step.mlp, step.around_mlp))
    reached = {(step.block, step.token) for step in flow.steps}
    assert {(route.block, route.target) for route in flow.routes} <= reached
    assert {(route.block - 1, route.source) for route in flow.routes if route.block} <= reached
    assert float(flow.input_shares.sum()) == pytest.approx(1) if renormalise else float(flow.input_shares.sum()) < 1


def test_a_place_of_the_answer_and_a_classifier() -> None:
    model = writer("LlamaForCausalLM")
    first = explainers.information_flow(model, PROMPT)
    later = explainers.information_flow(model, PROMPT, f"token:{first.start + 2}")
    assert (later.start, later.answer) == (first.start + 1, later.tokens[first.start + 2])
    assert first.answer == first.tokens[first.start + 1]
    torch.testing.assert_close(first.head_importance.sum(), torch.tensor(sum(r.importance for r in first.routes), dtype=torch.float64))
    config = transformers.Qwen2Config(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
    )
    module: Any = transformers.Qwen2ForSequenceClassification(config).eval()
    flow = explainers.information_flow(explainers.wrap(module), {"input_ids": torch.tensor([[5, 9, 11, 30]])})
    assert flow.start == 3
    assert flow.answer == explainers.wrap(module).labels[int(module(torch.tensor([[5, 9, 11, 30]])).logits.argmax())]


@pytest.mark.parametrize(
    ("kind", "match"),
    [("GPTNeoXForCausalLM", "both run in parallel"), ("Olmo2ForCausalLM", "does more to what its attention gives")],
)
def test_blocks_of_another_form_are_refused(kind: str, match: str) -> None:
    with pytest.raises(ExplainerError, match=match):
        explainers.information_flow(writer(kind), PROMPT)


def test_what_reads_no_text_and_a_threshold_out_of_range_are_refused() -> None:
    with pytest.raises(ExplainerError, match="does not read texts alone"):
        explainers.information_flow(image_model("vit"), PROMPT)
    with pytest.raises(ExplainerError, match="send a share"):
        explainers.information_flow(writer("LlamaForCausalLM"), PROMPT, threshold=1.0)


def test_the_command_prints_and_writes_it(tmp_path: Path, capsys: Any) -> None:
    model = writer("GPT2LMHeadModel")
    folder, module = tmp_path / "model", model.module
    module.float().save_pretrained(folder)  # type: ignore[operator]
    model.task.tokenizer.save_pretrained(folder)  # type: ignore[union-attr]
    capsys.readouterr()
    arguments = ["information-flow", PROMPT, "--model", str(folder)]
    assert main([*arguments, "--threshold", "0.1", "--json", "--out", str(tmp_path / "flow.svg")]) == 0
    printed = json.loads(capsys.readouterr().out)
    flow = explainers.information_flow(explainers.open(folder, check="none"), PROMPT, threshold=0.1)
    assert printed == json.loads(json.dumps(flow.to_json()))
    assert [route["importance"] for route in printed["routes"]] == [route.importance for route in flow.routes]
    assert flow.answer in str(flow)
    assert (tmp_path / "flow.svg").stat().st_size
    assert main([*arguments, "--out", str(tmp_path / "flow.txt")]) == 2
    assert "end it in .json, .png, .pdf or .svg" in capsys.readouterr().err
