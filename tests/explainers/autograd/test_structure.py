"""What is asked of the list of nodes: attention and its parts, where it is written out step by step, against the modules' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.autograd.nodes import Move, Start
from explainers.autograd.operators import LinearMap, Softmax
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from explainers.autograd.signals import ACCOUNT, fields_of
from explainers.methods import METHODS
from explainers.methods.requests import parse
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.model import Model
from tests.explainers.support.double import in_double
from tests.explainers.support.wrapped import inputs, one_hot, wrapped
from tests.families import FAMILIES


def outputs_of(modules: list[nn.Module], model: Model, tensors: dict[str, Tensor]) -> list[Tensor]:
    """What each module gives in a plain pass."""
    given: list[Tensor] = []
    handles = [module.register_forward_hook(lambda module, args, out: given.append(out)) for module in modules]
    try:
        with torch.no_grad():
            model.forward(tensors)
    finally:
        for handle in handles:
            handle.remove()
    return given


def heads(x: Tensor, count: int = 2) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def assert_parts(recording: Recording, queries: list[Tensor], keys: list[Tensor], values: list[Tensor]) -> None:
    assert len(recording.parts) == len(queries) > 0
    for parts, weights, query, key, value in zip(recording.parts, recording.attentions, queries, keys, values, strict=True):
        assert parts is not None
        for ours, theirs in ((parts.query, query), (parts.key, key), (parts.value, value)):
            torch.testing.assert_close(ours.detach(), theirs, rtol=1e-12, atol=1e-14)
        assert parts.weights is weights


def eager_bert() -> tuple[nn.Module, Model, dict[str, Tensor]]:
    module: Any = FAMILIES["bert"].build().double()
    module.set_attn_implementation("eager")
    model = explainers.wrap(module)
    model.forward = in_double(model.forward)
    return module, model, inputs("bert", 2)


def test_eager_bert_gives_its_queries_keys_and_values() -> None:
    module, model, tensors = eager_bert()
    layers: Any = module.get_submodule("bert.encoder.layer")
    maps = [getattr(layer.attention.self, name) for layer in layers for name in ("query", "key", "value")]
    given = [heads(x) for x in outputs_of(maps, model, tensors)]
    recording = Recording(model, tensors)
    assert_parts(recording, given[0::3], given[1::3], given[2::3])
    for (weight, bias), layer in zip(recording.structure.output_projections, layers, strict=True):  # type: ignore[misc]
        assert bias is not None
        assert torch.equal(weight, layer.attention.output.dense.weight)
        assert torch.equal(bias, layer.attention.output.dense.bias)


@pytest.mark.parametrize("method", ["grad_eclip", "grad_eclip:libra"])
def test_eager_and_fused_bert_give_one_map_of_queries_keys_and_values(method: str) -> None:
    _, model, tensors = eager_bert()
    eager = explainers.explain(model, tensors, target=1, methods=[method])
    fused = explainers.explain(wrapped("bert"), tensors, target=1, methods=[method])
    for a, b in zip(eager, fused, strict=True):
        torch.testing.assert_close(a[method].scores, b[method].scores, rtol=1e-6, atol=1e-9)


def test_cait_gives_its_queries_keys_and_values() -> None:
    """Its queries are scaled before they meet the keys, and scores and weights are mixed between heads."""
    model, tensors = wrapped("cait"), inputs("cait", 2)
    blocks: Any = model.blocks
    parts = [x.unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4) for x in outputs_of([b.attn.qkv for b in blocks], model, tensors)]
    recording = Recording(model, tensors)
    assert_parts(recording, *([part[i] for part in parts] for i in range(3)))
    for (weight, _), block in zip(recording.structure.output_projections, blocks, strict=True):  # type: ignore[misc]
        assert torch.equal(weight, block.attn.proj.weight)


@pytest.mark.parametrize("name", ["vit", "bert", "cait", "gpt2", "swin", "siglip"])
def test_projections_are_the_linear_maps_before_and_after_attention(name: str) -> None:
    recording = Recording(wrapped(name), inputs(name, 1))
    weights = [node.settings["w"] for node in recording.nodes.ran if node.position in recording.structure.projections]
    names = {of: key for key, parameter in recording.model.module.named_parameters() for of in [parameter.data_ptr()]}
    projecting = {names[weight.data_ptr()].removesuffix(".weight").rsplit(".", 1)[-1] for weight in weights if weight.data_ptr() in names}
    expected = {
        "vit": {"qkv", "proj"},
        "bert": {"query", "key", "value", "dense"},
        "cait": {"qkv", "q", "k", "v", "proj", "proj_w"},  # the last mixes the weights between heads
        "gpt2": {"c_attn", "c_proj"},
        "swin": {"qkv", "proj"},
        "siglip": {"qkv", "kv", "proj"},
    }
    assert projecting == expected[name]


def test_a_list_begins_with_what_is_explained_and_says_what_ran() -> None:
    recording = Recording(wrapped("vit"), inputs("vit", 1))
    nodes = recording.nodes
    assert nodes.entry is not None
    assert nodes.ran[nodes.entry - 1].operator is Start
    for block in nodes.blocks:
        inside = nodes.nodes_in(block)
        assert [node.operator for node in inside].count(Softmax) == 1
        assert [node.operator for node in inside].count(LinearMap) == 4
        assert all(path.place < node.place for node in inside for path in node.paths)
        assert any(node.operator is Move for node in inside)


def test_a_recording_has_few_fields() -> None:
    assert len(vars(Recording(wrapped("vit"), inputs("vit", 1)))) <= 15


def test_a_backward_pass_goes_no_further_than_what_is_asked_for() -> None:
    recording = Recording(wrapped("vit"), inputs("vit"))
    gradient, rule = one_hot(recording), RULES["gradient"]
    whole = recording.backward(rule, gradient)
    part = recording.backward(rule, gradient, fields_of(["attentions[-1]"]))
    assert whole.attentions[-1] is not None
    assert part.attentions[-1] is not None
    assert torch.equal(part.attentions[-1], whole.attentions[-1])
    assert part.attentions[:-1] == (None,) * (len(whole.attentions) - 1)
    assert (part.block_inputs, part.pooling, part.bias) == ((), None, None)


def test_what_was_not_asked_for_at_first_is_brought_by_another_pass() -> None:
    recording = Recording(wrapped("vit"), inputs("vit"))
    gradient, rule = one_hot(recording), RULES["gradient"]
    first = recording.cached_backward(rule, gradient, fields_of(["attentions[-1]"]))
    assert recording.cached_backward(rule, gradient, fields_of(["attentions[-1]"])) is first
    assert recording.signals(rule, gradient, fields_of(["attentions[-1]"])) is first  # its name in 0.2
    both = recording.cached_backward(rule, gradient, fields_of(["block_inputs[0]"]))
    assert both.attentions[-1] is not None
    assert torch.equal(both.block_inputs[0], recording.backward(rule, gradient).block_inputs[0])
    assert recording.cached_backward(rule, gradient, fields_of(["attentions[-1]"])) is both


def test_a_rule_that_accounts_for_the_answer_says_what_is_missing_where_it_is_asked() -> None:
    recording, rule = Recording(wrapped("vit"), inputs("vit")), RULES["libra"]
    part = recording.backward(rule, one_hot(recording), fields_of(["attentions[-1]"]))
    assert (part.missing, part.bias, part.block_inputs) == (None, None, ())
    whole = recording.backward(rule, one_hot(recording), fields_of(["attentions[-1]"]) | ACCOUNT)
    assert whole.missing is not None
    assert whole.bias is not None


def test_a_map_under_such_a_rule_asks_for_it() -> None:
    for spec in ("gradcam_attention:libra", "fullgrad_plus:libra"):
        (fields,) = parse(spec).fields.values()
        assert fields >= ACCOUNT


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.rule is not None and not method.slow])
@pytest.mark.parametrize("family", ["vit", "cait", "bert"])
def test_a_method_reads_what_it_declares(name: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass for each rule and each logits, and none more for what was not declared."""
    method, passes, back = METHODS[name], [], Recording.backward
    if reason_against(method, missing_requirements(wrapped(family))) is not None:
        pytest.skip("cannot run")

    def counted(self: Recording, rule: Rule, start: Any, fields: Any, logits: Any = None) -> Any:
        passes.append((id(self), rule.name, logits))  # LeGrad's are those of each block
        return back(self, rule, start, fields, logits)

    monkeypatch.setattr(Recording, "backward", counted)
    explainers.explain(wrapped(family), inputs(family, 1), target=1, methods=[name])
    assert passes
    assert len(set(passes)) == len(passes)


def test_a_field_that_does_not_exist_is_refused() -> None:
    for name in ("attention", "pixels[0]", "attentions[x]", "attentions[1"):
        with pytest.raises(ValueError, match="no field"):
            fields_of([name])
