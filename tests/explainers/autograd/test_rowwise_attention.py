"""Attention of long rows of tokens: the signals of steps that are recorded whole, and hardly more memory than the model takes itself."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.autograd import memory, rowwise_attention
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.models.libraries import calls
from explainers.records.trace import Trace
from tests.explainers.support.wrapped import inputs, one_hot, wrapped
from tests.support.task_models import picture_writer

NAMES = ["vit", "eva02", "cait", "hf-clip", "bert", "llama"]
FIELDS = frozenset(["block_inputs", "block_outputs", "bias"])


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp", "lrp", "conservative"])
@pytest.mark.parametrize("name", NAMES)
def test_signals_are_those_of_an_ordinary_recording(name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, as another order of sums in the fused kernel is another rounding; a few queries at a time. Llama's norms are computed in
    float32 all the same, which LRP amplifies.
    """
    if (name, rule) == ("llama", "lrp"):
        pytest.skip("its rounding is too large to compare")
    exact: Any = {"rtol": 1e-4, "atol": 1e-6} if name == "llama" else {"rtol": 1e-6, "atol": 1e-9}
    model, tensors = wrapped(name, torch.float64), inputs(name, dtype=torch.float64)
    wanted = Recording(model, tensors).backward(RULES[rule], one_hot(Recording(model, tensors)), FIELDS)
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(rowwise_attention, "WEIGHTS_AT_ONCE", 40)
    ran: list[int] = []
    backward = rowwise_attention.RowwiseAttention.backward

    def counted(ctx: Any, *signals: Any) -> Any:
        ran.append(1)
        return backward(ctx, *signals)

    monkeypatch.setattr(rowwise_attention.RowwiseAttention, "backward", staticmethod(counted))
    recording = Recording(model, tensors, recomputed=True)
    found = recording.backward(RULES[rule], one_hot(recording), FIELDS)
    assert ran
    assert wanted.bias is not None
    assert found.bias is not None
    for ours, theirs in zip(
        [*found.block_inputs, *found.block_outputs, found.bias], [*wanted.block_inputs, *wanted.block_outputs, wanted.bias], strict=True
    ):
        torch.testing.assert_close(ours, theirs, **exact)


@pytest.mark.parametrize("rule", ["gradient", "libra", "attnlrp"])
@pytest.mark.parametrize("name", ["vit", "eva02", "hf-clip", "bert", "llama"])
def test_attention_maps_are_read_on_the_way_back(name: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights and signals, put together of some queries at a time, are those of an ordinary recording, from the last block back."""
    exact: Any = {"rtol": 1e-4, "atol": 1e-6} if name == "llama" else {"rtol": 1e-6, "atol": 1e-9}
    model, tensors = wrapped(name, torch.float64), inputs(name, dtype=torch.float64)
    kept = Recording(model, tensors)
    signals = kept.backward(RULES[rule], one_hot(kept)).attentions
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(rowwise_attention, "WEIGHTS_AT_ONCE", 40)
    recording = Recording(model, tensors, recomputed=True)
    assert recording.has_maps_by_rows
    parts: dict[int, list[tuple[Tensor, Tensor]]] = {}
    recording.backward(
        RULES[rule],
        one_hot(recording),
        frozenset(["block_inputs[1]"]),
        read_map=lambda block, queries, weights, signal: parts.setdefault(block, []).append((weights, signal)),
    )
    assert list(parts) == list(range(len(signals) - 1, 0, -1))
    for block, read in parts.items():
        assert len(read) > 1
        for found, wanted in zip(zip(*read, strict=True), (kept.attentions[block], signals[block]), strict=True):
            torch.testing.assert_close(torch.cat(found, 2), wanted, **exact)


def test_attention_maps_of_activations_that_are_kept_are_not_read_by_rows() -> None:
    assert not Recording(wrapped("vit"), inputs("vit")).has_maps_by_rows
    assert not Recording(wrapped("mixer"), inputs("mixer"), recomputed=True).has_maps_by_rows
    assert not Recording(wrapped("vit"), inputs("vit"), recomputed=True).has_maps_by_rows  # too short for it


@pytest.mark.parametrize("spec", ["rollout", "generic_attention", "generic_attention:libra?start_layer=1", "attcat"])
def test_maps_start_at_the_token_that_the_head_reads(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tensors = wrapped("bert"), {name: tensor[:1] for name, tensor in inputs("bert").items()}
    wanted: Any = explainers.explain(model, tensors, methods=[spec])
    read, calls_of = Trace.read_maps, list[int]()
    monkeypatch.setattr(Trace, "read_maps", lambda self, *args: (calls_of.append(1), read(self, *args))[1])
    monkeypatch.setattr(memory, "LONG_ROW_WEIGHTS", 0)
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    found: Any = explainers.explain(model, tensors, methods=[spec])
    assert calls_of
    torch.testing.assert_close(found[spec].scores, wanted[spec].scores, rtol=1e-4, atol=1e-6)


def test_a_long_text_is_explained_by_rows_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same map; methods that read all attention maps at once get them as before."""
    model: Any = picture_writer()
    asked = explainers.PicturePrompt(Image.effect_noise((40, 50), 90).convert("RGB"), "a good <image> film")
    methods = ["input_x_gradient:libra", "fullgrad:libra"]
    wanted: Any = explainers.explain(model, asked, methods=methods)
    shares: Any = explainers.prior_or_pixels(model, asked)
    seen: list[bool] = []
    made = Recording.__init__

    def note(self: Any, *args: Any, **options: Any) -> None:
        seen.append(bool(options.get("recomputed")))
        made(self, *args, **options)

    monkeypatch.setattr(Recording, "__init__", note)
    monkeypatch.setattr(memory, "LONG_ROW_WEIGHTS", 100)
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(rowwise_attention, "WEIGHTS_AT_ONCE", 500)
    found: Any = explainers.explain(model, asked, methods=methods)
    assert True in seen
    for spec in methods:
        torch.testing.assert_close(found[spec].scores, wanted[spec].scores, rtol=1e-4, atol=1e-5)
        assert found[spec].notes == wanted[spec].notes  # the rules know fused attention
    seen.clear()
    again: Any = explainers.prior_or_pixels(model, asked)
    assert seen == [True, True]
    torch.testing.assert_close(again.original.shares, shares.original.shares, rtol=1e-4, atol=1e-5)
    seen.clear()
    whole: Any = explainers.explain(model, asked, methods=["raw_attention?row=mean"])
    assert True not in seen
    assert bool(whole["raw_attention?row=mean"].scores.abs().sum() > 0)


#: Methods that read attention maps some queries at a time.
BY_ROWS = [
    "rollout?row=mean",
    "rollout?row=mean&start_layer=1",
    "generic_attention:libra?row=mean",
    "generic_attention:attnlrp?row=mean&start_layer=-1",
    "attcat:libra",
    "attcat?published_code=true",
]


@pytest.mark.parametrize("spec", BY_ROWS)
def test_attention_maps_of_a_long_text_are_read_some_queries_at_a_time(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map, and its notes, are those of attention maps that are read whole."""
    model: Any = picture_writer()
    asked = explainers.PicturePrompt(Image.effect_noise((40, 50), 90).convert("RGB"), "a good <image> film")
    wanted: Any = explainers.explain(model, asked, methods=[spec])[spec]
    made, read, recomputed, queries = Recording.__init__, Trace.read_maps, list[bool](), list[int]()

    def note(self: Any, *args: Any, **options: Any) -> None:
        recomputed.append(bool(options.get("recomputed")))
        made(self, *args, **options)

    def count(self: Any, take: Any, *args: Any) -> None:
        def counted(block: int, rows: slice, weights: Any, signal: Any) -> None:
            queries.append(weights.shape[2])
            take(block, rows, weights, signal)

        read(self, counted, *args)

    monkeypatch.setattr(Recording, "__init__", note)
    monkeypatch.setattr(Trace, "read_maps", count)
    monkeypatch.setattr(memory, "LONG_ROW_WEIGHTS", 100)
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    monkeypatch.setattr(rowwise_attention, "WEIGHTS_AT_ONCE", 500)
    found: Any = explainers.explain(model, asked, methods=[spec])[spec]
    tokens = len(model.prepare(asked).tensors["input_ids"][0])
    assert True in recomputed
    assert max(queries) < tokens / 2
    torch.testing.assert_close(found.scores, wanted.scores, rtol=1e-4, atol=1e-6)
    assert found.notes == wanted.notes


def test_gradients_along_a_path_read_attention_maps_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = picture_writer()
    asked = explainers.PicturePrompt(Image.effect_noise((40, 50), 90).convert("RGB"), "a good <image> film")
    spec = "generic_attention?integrated=2&row=mean"
    wanted: Any = explainers.explain(model, asked, methods=[spec])[spec]
    monkeypatch.setattr(memory, "LONG_ROW_WEIGHTS", 100)
    monkeypatch.setattr(rowwise_attention, "MIN_WEIGHTS", 0)
    found: Any = explainers.explain(model, asked, methods=[spec])[spec]
    torch.testing.assert_close(found.scores, wanted.scores)


def test_of_a_long_text_the_logits_that_are_read_are_computed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = copy.deepcopy(picture_writer())
    asked = explainers.PicturePrompt(Image.effect_noise((40, 50), 90).convert("RGB"), "a good <image> film")
    places = ("answer", "words")
    wanted: Any = [explainers.explain(model, asked, methods="fullgrad:libra", at=at) for at in places]
    monkeypatch.setattr(calls, "_LONG_TEXT", 10)
    prepared = model.prepare(asked)
    rows: list[int] = []
    handle = model.module.lm_head.register_forward_hook(lambda _, args, out: rows.append(out.shape[1]))
    try:
        model.at("answer", prepared).forward(prepared.tensors)
    finally:
        handle.remove()
    assert rows == [prepared.tensors["input_ids"].shape[1], 5]  # to find the places, then the four tokens of the answer and the end
    for at, before in zip(places, wanted, strict=True):
        found: Any = explainers.explain(model, asked, methods="fullgrad:libra", at=at)
        assert found.target.logit == pytest.approx(before.target.logit, rel=1e-5)
        torch.testing.assert_close(found["fullgrad:libra"].scores, before["fullgrad:libra"].scores, rtol=1e-4, atol=1e-5)


_PEAK = """
import resource, sys, torch
torch.set_num_threads(1)
import explainers
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
module = LlamaForCausalLM(LlamaConfig(vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=4096, initializer_range=0.3, bos_token_id=1, eos_token_id=2, pad_token_id=0)).eval()
module.generation_config.max_new_tokens = 2
model = explainers.wrap(module)
ids = torch.randint(3, 300, (1, 4000), generator=torch.Generator().manual_seed(0))
explainers.explain(model, {"input_ids": ids[:, :40]}, methods="input_x_gradient:libra")
prepared = model.prepare({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
generation = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
explainers.explain(model, prepared, methods=sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / generation)
"""


@pytest.mark.parametrize(("spec", "most"), [("input_x_gradient:libra", 1.5), ("generic_attention:libra?row=mean", 2)])
def test_4000_tokens_take_hardly_more_memory_than_writing(spec: str, most: float) -> None:
    """The most memory of a process that writes an answer to 4,000 tokens and explains it, over that of writing alone."""
    done = subprocess.run([sys.executable, "-c", _PEAK, spec], capture_output=True, text=True, check=True, timeout=110)
    assert float(done.stdout.split()[-1]) < most
