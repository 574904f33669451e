"""Forms of models that people have: experts without tokens, padding inside, writes into the input, few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.self_check.sample import picture
from tests.explainers.support.own_vit import RECIPE, D, ViT
from tests.support.vocabularies import wordpiece

SPECS = [
    *("input_x_gradient", "fullgrad_plus:libra", "input_x_gradient:attnlrp", "input_x_gradient:cp-lrp-gamma", "transformer_attribution"),
    *("lrp", "decompx", "alti", "globenc"),
]


def vit(**how: Any) -> nn.Module:
    torch.manual_seed(0)
    return ViT(**how).eval()


@pytest.mark.parametrize(("spec", "blocks"), [("hirescam", 2), ("hirescam", 1), ("input_x_gradient", 1), ("input_x_gradient", 2)])
def test_tokens_that_reach_the_head_through_one_normalisation_alone(spec: str, blocks: int) -> None:
    module = vit()
    module.blocks = module.blocks[:blocks]
    model = explainers.wrap(module.double(), kind="image", preprocess=RECIPE)
    result = explainers.explain(model, picture(), 1, [spec, f"{spec}:libra"])
    is_epsilon = spec == "hirescam" or blocks == 1
    notes = [any("epsilon of the normalisation" in note for note in each.notes) for each in result.maps]
    patches, held = (each.scores[each.content].abs().max() for each in result.maps)
    assert notes == [is_epsilon, False]
    assert bool(patches < 1e-2 * held) == is_epsilon


def test_an_expert_that_got_no_tokens_changes_no_map() -> None:
    plain, idle = (
        explainers.explain(explainers.wrap(vit(has_idle=one), kind="image", preprocess=RECIPE), picture(), 1, SPECS) for one in (0, 1)
    )
    for spec in SPECS:
        torch.testing.assert_close(idle[spec].scores, plain[spec].scores, rtol=1e-4, atol=1e-6)


def test_an_expert_without_tokens_in_code_of_ones_own() -> None:
    module, x = vit(has_idle=True), torch.randn(1, 3, 32, 32).requires_grad_()
    with explainers.backward_rule("libra") as block:
        (signal,) = torch.autograd.grad(module(x)[:, 1].sum(), x)
    assert bool(signal.isfinite().all())
    assert block.unruled <= {"index_add"}


def _slice(x: Tensor) -> None:
    x[:, :, :8] *= 2


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "sub_": lambda x: x.sub_(0.5).div_(0.25),
    "slice": _slice,
    "setitem": lambda x: x.__setitem__((slice(None), 0), x[:, 1] * 2),
    "relu": lambda x: F.relu(x - 0.5, inplace=True) + F.relu(x, inplace=True),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_model_may_write_into_its_pictures(write: str) -> None:
    model = explainers.open(vit(write=WRITES[write]), kind="image", preprocess=RECIPE)
    assert model.report is not None
    assert not model.report.failures, str(model.report)
    pixels = model.tensors(picture())["pixel_values"]
    kept = pixels.clone()
    with torch.no_grad():
        logits = model.module(pixels.clone())
    result = explainers.explain(model, {"pixel_values": pixels}, 1, ["input_x_gradient?at=pixels", "occlusion", "integrated_gradients"])
    torch.testing.assert_close(result.logits, logits[0])
    assert torch.equal(pixels, kept)

    leaf = kept.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.module(leaf * 1.0)[:, 1].sum(), leaf)
    by_patch = (gradient * kept).sum(1).unflatten(-1, (4, 8)).unflatten(-3, (4, 8)).sum((-3, -1)).flatten()
    one = result["input_x_gradient?at=pixels"]
    torch.testing.assert_close(one.scores[one.content], by_patch, rtol=1e-3, atol=1e-5)


SIZE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 80,
    "pad_token_id": 1,
}


def test_a_model_that_pads_inside_is_asked_with_words_gone() -> None:
    torch.manual_seed(0)
    tokenizer = wordpiece(24)
    config = hf.LongformerConfig(vocab_size=len(tokenizer), attention_window=4, num_labels=3, **SIZE)
    model = explainers.wrap(hf.LongformerForSequenceClassification(config).eval(), tokenizer=tokenizer)
    text = "not a good film"
    result = explainers.explain(model, text, 1, ["occlusion", "rise?samples=8", "lime?samples=8", "kernel_shap?samples=8", "fullgrad"])
    assert all(bool(one.scores.isfinite().all()) for one in result.maps)
    tensors = model.tensors(text)
    one = result["occlusion"]
    for place in one.content.nonzero()[:, 0].tolist():
        ids = tensors["input_ids"].clone()
        ids[0, place] = tokenizer.mask_token_id
        with torch.no_grad():
            fall = result.logits[1] - model.module(**{**tensors, "input_ids": ids}).logits[0, 1]
        torch.testing.assert_close(one.scores[place], fall, rtol=1e-3, atol=1e-5)
    assert result.completeness("libra") < 1e-4


class OwnText(nn.Module):
    """A classifier of one's own, which says nothing of its vocabulary."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.bert, self.head = hf.BertModel(hf.BertConfig(vocab_size=words, **SIZE)), nn.Linear(32, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        out: Tensor = self.head(self.bert(input_ids, attention_mask=attention_mask).pooler_output)
        return out


@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_a_model_of_fewer_words_than_positions_opens(with_tokenizer: bool) -> None:
    tokenizer = wordpiece(24)
    words = len(tokenizer)
    assert words < SIZE["max_position_embeddings"]
    torch.manual_seed(0)
    module = OwnText(words).eval()
    model = explainers.wrap(module, kind="text", tokenizer=tokenizer if with_tokenizer else None)
    ids = torch.tensor([[2, 6, 7, 3]])
    result = explainers.explain(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, 1, ["input_x_gradient"])
    with torch.no_grad():
        torch.testing.assert_close(result.logits, module(ids, torch.ones_like(ids))[0])


ENCODER_DECODER: dict[str, Any] = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 24, "num_labels": 3},
    **{"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3},
}
T5: dict[str, Any] = {
    **{"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads": 2, "num_labels": 3},
    **{"pad_token_id": 1, "eos_token_id": 3, "decoder_start_token_id": 1},
}


class Beside(nn.Module):
    """A classifier that also counts words beside its blocks."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.deep, self.wide = OwnText(words), nn.EmbeddingBag(words, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        out: Tensor = self.deep(input_ids, attention_mask) + self.wide(input_ids)
        return out


@pytest.mark.parametrize(
    "make",
    [
        lambda words: hf.BartModel(hf.BartConfig(vocab_size=words, **ENCODER_DECODER)),
        Beside,
    ],
)
def test_a_model_that_reads_words_by_two_ways_is_refused(make: Callable[[int], nn.Module]) -> None:
    tokenizer = wordpiece(24)
    torch.manual_seed(0)
    with pytest.raises(explainers.ExplainerError, match="reads the words by another way too"):
        explainers.wrap(make(len(tokenizer)).eval(), kind="text", tokenizer=tokenizer)


def test_an_encoder_alone_is_explained() -> None:
    tokenizer = wordpiece(24)
    torch.manual_seed(0)
    module = hf.T5ForTokenClassification(hf.T5Config(vocab_size=len(tokenizer), **T5)).eval()
    assert explainers.wrap(module, tokenizer=tokenizer).task is not None


class NormFirst(ViT):
    """A ViT whose patches, or whose embedded tokens, pass a LayerNorm before anything else."""

    def __init__(self, of_patches: bool) -> None:
        super().__init__()
        self.before = nn.LayerNorm(192, eps=1e-6) if of_patches else nn.LayerNorm(D)
        self.projected, self.of_patches = nn.Linear(192, D), of_patches

    def forward(self, x: Tensor) -> Tensor:
        if self.of_patches:
            cut = x.unflatten(-1, (4, 8)).unflatten(-3, (4, 8)).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
            x = self.projected(self.before(cut))
        else:
            x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        x = x if self.of_patches else self.before(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out


@pytest.mark.parametrize(("of_patches", "spec"), [(True, "input_x_gradient?at=pixels"), (False, "input_x_gradient")])
def test_a_map_of_the_epsilon_of_a_normalisation_says_so(of_patches: bool, spec: str) -> None:
    torch.manual_seed(0)
    model = explainers.wrap(
        NormFirst(of_patches).eval(),
        kind="image",
        preprocess=RECIPE,
        **({} if of_patches else {"entry": "before"}),  # type: ignore[arg-type]
    )
    pixels = {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))}
    other = "input_x_gradient" if of_patches else "input_x_gradient?at=pixels"
    libra = spec.replace("gradient", "gradient:libra", 1)
    result = explainers.explain(model, pixels, 1, [spec, libra, other])
    assert float(result[spec].scores.abs().max()) < 1e-2 * float(result[libra].scores.abs().max())
    assert any("epsilon of the normalisation" in note for note in result[spec].notes)
    assert not any("epsilon" in note for one in (libra, other) for note in result[one].notes)
    if of_patches:
        assert any("all but cancel" in note for note in result[spec].notes)
