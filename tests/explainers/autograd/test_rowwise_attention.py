"""Attention of long rows of tokens: the signals of steps that are recorded whole, and hardly more memory than the model takes itself."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
from PIL import Image

import explainers
from explainers.autograd import memory, rowwise_attention
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.models.libraries import calls
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


def test_a_long_text_is_explained_by_rows_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same map; methods that read attention get it as before."""
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
    seen.clear()
    again: Any = explainers.prior_or_pixels(model, asked)
    assert seen == [True, True]
    torch.testing.assert_close(again.original.shares, shares.original.shares, rtol=1e-4, atol=1e-5)
    seen.clear()
    attcat: Any = explainers.explain(model, asked, methods=["attcat:libra"])
    assert True not in seen
    assert bool(attcat["attcat:libra"].scores.abs().sum() > 0)


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


def test_4000_tokens_take_hardly_more_memory_than_writing() -> None:
    """The most memory of a process that writes an answer to 4,000 tokens and explains it, over that of writing alone."""
    done = subprocess.run([sys.executable, "-c", _PEAK, "input_x_gradient:libra"], capture_output=True, text=True, check=True, timeout=110)
    assert float(done.stdout.split()[-1]) < 1.5
