"""Models as people bring them: other channels, outputs, layouts and wrappers than the libraries' own. Twins hold the numbers."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

import explainers
from explainers import ExplainerError, Preprocessing

# isort: split
from timm.models.vision_transformer import VisionTransformer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    FNetConfig,
    FNetForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
    ViTConfig,
    ViTForImageClassification,
)

from tests.explainers.support.saved_models import save_transformers

SHAPE: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 3}
AS_IMAGE: dict[str, Any] = {"kind": "image", "preprocess": Preprocessing(resize=(32, 32), fit="squash")}
TEXT, TEXTS = "a very good film", ["a very good film", "bad", "a film"]


def picture(seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 48, 3), dtype=np.uint8))


def vit(**other: Any) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(**{**SHAPE, **other}).eval()


def tokenizer(pads: bool = True) -> Any:
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "a", "film", "is", "good", "bad", "very"])}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", **({"pad_token": "[PAD]"} if pads else {}))


def same_maps(ours: Any, theirs: Any, inputs: Any, specs: list[str]) -> None:
    """The maps of two models that compute the same, to rounding."""
    both = [explainers.explain(model, inputs, target=0, methods=specs, precision="double") for model in (ours, theirs)]
    pairs = zip(*(result if isinstance(result, list) else [result] for result in both), strict=True)
    for one, other in pairs:
        for spec in specs:
            assert torch.allclose(one[spec].scores, other[spec].scores, rtol=1e-4, atol=1e-6), spec


# --- channels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 4, 13])
def test_pixels_have_as_many_channels_as_the_model_takes(channels: int) -> None:
    model = explainers.wrap(vit(in_chans=channels))
    pixels = {"pixel_values": torch.randn(1, channels, 32, 32)}
    result = explainers.explain(model, pixels, methods=["fullgrad:libra", "transformer_attribution"])
    assert result.completeness("libra") < 1e-5
    assert float(result.logits[0]) == pytest.approx(float(model.module(pixels["pixel_values"]).detach()[0, 0]), abs=1e-6)
    with pytest.raises(ExplainerError, match=rf"cannot take pixel_values of 3x32x32 .*: send {channels}x32x32"):
        explainers.explain(model, {"pixel_values": torch.zeros(1, 3, 32, 32)})


@pytest.mark.parametrize("build", [lambda: vit(in_chans=1), lambda: grey_vit_of_transformers()])
def test_a_picture_is_read_in_greys_by_a_model_of_greys(build: Callable[[], nn.Module]) -> None:
    """As Pillow makes greys of it, with the mean of what normalises the three colours."""
    model = explainers.wrap(build())
    smooth = picture().resize((6, 5)).resize((48, 40))
    prepared = model.prepare(smooth)
    assert prepared.tensors["pixel_values"].shape == (1, 1, 32, 32)
    grey = smooth.convert("L").convert("RGB")
    assert torch.allclose(prepared.tensors["pixel_values"], model.prepare(grey).tensors["pixel_values"], atol=0.05)
    (record,) = prepared.inputs
    shown = np.asarray(record.pixels)  # type: ignore[union-attr]
    assert (shown[..., 0] == shown[..., 2]).all()
    explainers.explain(model, picture(), methods=["fullgrad_plus:libra"]).figure()


def grey_vit_of_transformers() -> nn.Module:
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    return ViTForImageClassification(ViTConfig(**sizes, image_size=32, patch_size=8, num_channels=1, num_labels=3)).eval()


def test_a_picture_has_too_few_channels_for_other_models() -> None:
    with pytest.raises(ExplainerError, match=r"takes 13 channels, and a picture has 3: send \{'pixel_values'"):
        explainers.explain(explainers.wrap(vit(in_chans=13)), picture())


# --- texts --------------------------------------------------------------------------------------------------------------


class IdsAlone(nn.Module):
    """Takes ids and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Parameter(torch.randn(1, 12, 16))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2))
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places[:, : input_ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(x.mean(1))
        return out


def fnet() -> nn.Module:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 48, "max_position_embeddings": 32}
    return FNetForSequenceClassification(FNetConfig(vocab_size=50, **sizes, num_labels=2, use_tpu_fourier_optimizations=False)).eval()


@pytest.mark.parametrize("build", [lambda: IdsAlone().eval(), fnet], ids=["ids alone", "FNet"])
def test_a_model_that_takes_no_mask_reads_one_text_at_a_time(build: Callable[[], nn.Module]) -> None:
    model = explainers.wrap(build(), kind="text", tokenizer=tokenizer())
    result = explainers.explain(model, TEXT, methods=["input_x_gradient:libra"])
    assert torch.allclose(result.logits, model.forward({"input_ids": model.tensors(TEXT)["input_ids"]})[0], atol=1e-6)
    assert len(explainers.explain(model, [TEXT, "bad very bad film"], methods=["input_x_gradient:libra"])) == 2
    with pytest.raises(ExplainerError, match="takes no attention_mask, so it would read the padding"):
        explainers.explain(model, TEXTS)


def test_a_tokenizer_without_padding_reads_texts_of_one_length() -> None:
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    model = explainers.wrap(
        GPT2ForSequenceClassification(GPT2Config(vocab_size=50, **sizes, num_labels=2)).eval(), tokenizer=tokenizer(False)
    )
    padded = explainers.wrap(model.module, tokenizer=tokenizer())
    same_maps(model, padded, TEXT, ["input_x_gradient:libra", "generic_attention"])
    with pytest.raises(ExplainerError, match="no padding token, and these texts differ in length: explain them one at a time"):
        explainers.explain(model, TEXTS)


# --- outputs ------------------------------------------------------------------------------------------------------------


class Heads(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.trunk, self.colour, self.form = vit(), nn.Linear(3, 5), form

    def forward(self, x: Tensor) -> Any:
        kind = self.trunk(x)
        return {
            "tuple": (kind, self.colour(kind)),
            "dict": {"kind": kind, "colour": self.colour(kind)},
            "hidden states": (kind, [kind[:, None].expand(-1, 5, -1)]),
            "one key": {"out": kind},
        }[self.form]


@pytest.mark.parametrize(
    ("form", "head", "classes"),
    [("tuple", 0, 3), ("tuple", 1, 5), ("dict", "colour", 5), ("dict", "kind", 3), ("hidden states", None, 3), ("one key", None, 3)],
)
def test_the_head_to_explain_is_named(form: str, head: Any, classes: int) -> None:
    module = Heads(form).eval()
    model = explainers.wrap(module, head=head, **AS_IMAGE)
    result = explainers.explain(model, picture(), methods=["fullgrad:libra"])
    given = module(model.tensors(picture())["pixel_values"])
    first = given[head if head is not None else "out" if form == "one key" else 0]
    assert result.logits.shape == (classes,)
    assert torch.allclose(result.logits, first[0].detach(), atol=1e-6)
    assert result.completeness("libra") < 1e-5


@pytest.mark.parametrize("form", ["tuple", "dict"])
def test_a_head_that_there_is_not(form: str) -> None:
    with pytest.raises(ExplainerError, match="no output head='shape'; it gives"):
        explainers.wrap(Heads(form).eval(), head="shape", **AS_IMAGE)


def test_a_model_of_transformers_may_return_tuples() -> None:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32}
    module = BertForSequenceClassification(BertConfig(vocab_size=50, **sizes, num_labels=2)).eval()
    twin = copy.deepcopy(module)
    twin.config.return_dict = False
    same_maps(*(explainers.wrap(m, tokenizer=tokenizer()) for m in (twin, module)), TEXT, ["fullgrad_plus:libra", "lrp"])


# --- layouts ------------------------------------------------------------------------------------------------------------


class TorchEncoder(nn.Module):
    """torch's own encoder, samples or tokens first, with a mask of padding."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.words, self.batch_first = nn.Embedding(50, 16), batch_first
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first), 2)
        self.head = nn.Linear(16, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.words(input_ids)
        x = self.encoder(x if self.batch_first else x.transpose(0, 1), src_key_padding_mask=attention_mask == 0)
        out: Tensor = self.head((x if self.batch_first else x.transpose(0, 1))[:, 0])
        return out


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("inputs", [TEXT, TEXTS], ids=["one", "three"])
def test_tokens_may_lie_before_samples(inputs: Any) -> None:
    rows, columns = TorchEncoder(True).eval(), TorchEncoder(False).eval()
    columns.load_state_dict(rows.state_dict())
    ours, theirs = (explainers.wrap(module, kind="text", tokenizer=tokenizer()) for module in (columns, rows))
    assert ours.block_kind.tokens_first
    assert not theirs.block_kind.tokens_first
    specs = [v.spec for v in explainers.variants(theirs) if v.reason is None and not v.slow]
    assert len(specs) > 30
    same_maps(ours, theirs, inputs, specs)
    assert torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(ExplainerError, match="lays tokens before samples"):
        explainers.explain(ours, inputs, methods=["decompx"])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(24), nn.Linear(24, 72, bias=False), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        out: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return out


class Loop(nn.Module):
    """Blocks in the form of vit-pytorch: pairs of modules that a loop calls, adding the residual itself."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.layers = nn.ModuleList(
            nn.ModuleList([Attention(), nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))]) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        for attention, mlp in self.layers:  # type: ignore[misc]
            x = attention(x) + x  # type: ignore[has-type]
            x = mlp(x) + x  # type: ignore[has-type]
        out: Tensor = self.norm(x)
        return out


class PreNorm(nn.Module):
    """One class around attention and MLP, as in the first versions of vit-pytorch."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.norm, self.part = nn.LayerNorm(24), part

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.part(self.norm(x))
        return out


class WrappedLoop(Loop):
    """The same with both parts in modules of one class."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([PreNorm(attention), PreNorm(mlp)]) for attention, mlp in self.layers)  # type: ignore[misc, has-type]


class Block(nn.Module):
    def __init__(self, pair: nn.ModuleList) -> None:
        super().__init__()
        self.attention, self.mlp = pair

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x) + x
        out: Tensor = self.mlp(x) + x
        return out


class Chain(nn.Module):
    """The same blocks as modules."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.blocks, self.norm = nn.Sequential(*(Block(pair) for pair in loop.layers)), loop.norm  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.blocks(x))
        return out


class Written(nn.Module):
    """A Transformer of somebody's own around such blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 24, 8, 8), nn.Parameter(torch.randn(1, 1, 24))
        self.places, self.transformer, self.head = nn.Parameter(torch.randn(1, 17, 24)), Loop(), nn.Linear(24, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        out: Tensor = self.head(self.transformer(x)[:, 0])
        return out


@pytest.mark.parametrize("loop", [Loop, WrappedLoop])
def test_blocks_whose_parts_a_loop_calls_are_blocks(loop: type[Loop]) -> None:
    torch.manual_seed(0)
    looped = Written()
    looped.transformer = loop()
    looped.eval()
    blocked = copy.deepcopy(looped)
    blocked.transformer = Chain(blocked.transformer)  # type: ignore[assignment]
    ours, theirs = (explainers.wrap(module, **AS_IMAGE) for module in (looped, blocked))
    assert len(ours.blocks) == len(theirs.blocks) == 3
    assert ours.layout_of(ours.tensors(picture())) == theirs.layout_of(theirs.tensors(picture()))
    specs = [v.spec for v in explainers.variants(theirs) if v.reason is None and not v.slow]
    assert len(specs) > 50
    same_maps(ours, theirs, picture(), specs)
    tests = [explainers.deletion_test(model, explainers.explain(model, picture(), methods=["lrp"])) for model in (ours, theirs)]
    assert str(tests[0]) == str(tests[1])
    with pytest.raises(ExplainerError, match="adds the residual of its blocks in a loop"):
        explainers.explain(ours, picture(), methods=["globenc"])


def test_a_loop_in_the_forward_of_the_model_itself_is_refused_for_that_reason() -> None:
    class Flat(Written):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.norm = self.transformer.layers, self.transformer.norm
            del self.transformer

        def forward(self, pixels: Tensor) -> Tensor:
            x = self.patch(pixels).flatten(2).transpose(1, 2)
            for attention, mlp in self.layers:  # type: ignore[misc]
                x = attention(x) + x  # type: ignore[has-type]
                x = mlp(x) + x  # type: ignore[has-type]
            out: Tensor = self.head(self.norm(x)[:, 0])
            return out

    with pytest.raises(ExplainerError, match=r"the loop over 'layers', .* put the loop in a module of its own"):
        explainers.wrap(Flat().eval(), **AS_IMAGE)


def test_a_loop_whose_end_is_not_seen_is_refused() -> None:
    """Nothing takes what its last block gives as it is."""

    class Bare(Written):
        def forward(self, pixels: Tensor) -> Tensor:
            x = self.patch(pixels).flatten(2).transpose(1, 2)
            for attention, mlp in self.transformer.layers:  # type: ignore[misc]
                x = attention(x) + x  # type: ignore[has-type]
                x = mlp(x) + x  # type: ignore[has-type]
            out: Tensor = self.head(x[:, 0])
            return out

    with pytest.raises(ExplainerError, match=r"each block in 'transformer\.layers' is a list of modules that a loop calls one by one"):
        explainers.wrap(Bare().eval(), **AS_IMAGE)


# --- wrappers -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what torch.compile imports
@pytest.mark.parametrize("around", [nn.DataParallel, torch.optim.swa_utils.AveragedModel, torch.compile])
def test_what_training_lays_around_a_model_is_taken_off(around: Callable[[nn.Module], Any]) -> None:
    same_maps(explainers.wrap(around(vit())), explainers.wrap(vit()), picture(), ["fullgrad_plus:libra", "rollout"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_module_is_refused() -> None:
    with pytest.raises(ExplainerError, match=r"scripted or traced module .* wrap the Python module that it was made from"):
        explainers.wrap(torch.jit.trace(nn.Linear(3, 2), torch.zeros(1, 3)))


class WithoutGradient(nn.Module):
    def __init__(self, head_too: bool) -> None:
        super().__init__()
        self.trunk, self.head, self.head_too = vit(num_classes=0), nn.Linear(24, 3), head_too

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.trunk(x)
            inside: Tensor = self.head(features)
        outside: Tensor = self.head(features)
        return inside if self.head_too else outside


@pytest.mark.parametrize("head_too", [True, False])
def test_a_model_that_runs_without_gradients_is_told_so(head_too: bool) -> None:
    with pytest.raises(ExplainerError, match=r"forward runs them under torch\.no_grad"):
        explainers.explain(explainers.wrap(WithoutGradient(head_too).eval(), **AS_IMAGE), picture())


def test_a_head_of_zeros_is_told_so() -> None:
    module = vit()
    nn.init.zeros_(module.head.weight)  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="are the weights of its head zero"):
        explainers.wrap(module)


# --- copies -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pickle", "torch"])
def test_an_explanation_is_stored_and_read(way: str) -> None:
    result = explainers.explain(explainers.wrap(vit()), picture(), methods=["fullgrad:libra"])
    if way == "pickle":
        read = pickle.loads(pickle.dumps(result))
    else:
        buffer = io.BytesIO()
        torch.save(result, buffer)
        read = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert torch.equal(read["fullgrad:libra"].scores, result["fullgrad:libra"].scores)
    assert read.to_json() == result.to_json()
    read.figure()
    assert result.completeness("libra") < 1e-5
    with pytest.raises(ExplainerError, match=r"asks the model again, and .* stored holds none"):
        read.completeness("libra")


def test_a_copy_of_a_model_is_a_model_of_its_own() -> None:
    model = explainers.wrap(vit(), labels=["a", "b", "c"])
    copied = copy.deepcopy(model)
    same_maps(copied, model, picture(), ["fullgrad_plus:libra"])
    with torch.no_grad():
        copied.module.head.weight.mul_(2)  # type: ignore[union-attr, operator]
    assert copied.labels == ["a", "b", "c"]
    ours, theirs = (explainers.explain(m, picture(), target="a", methods=["fullgrad_plus:libra"]).logits for m in (copied, model))
    assert not torch.allclose(ours, theirs)


# --- folders ------------------------------------------------------------------------------------------------------------


def test_what_a_folder_lacks_is_passed(tmp_path: Path) -> None:
    """Labels, the meaning of the output, and a tokenizer by the name of another folder."""
    save_transformers(tmp_path / "whole")
    save_transformers(tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / "bare" / name).unlink(missing_ok=True)
    with pytest.raises(ExplainerError, match=r"lacks tokenizer\.json; .* or name a folder that has one: tokenizer="):
        explainers.load(tmp_path / "bare", "cpu")
    whole = explainers.load(tmp_path / "whole", "cpu")
    names = [f"kind {i}" for i in range(len(whole.labels))]
    bare = explainers.load(tmp_path / "bare", "cpu", tokenizer=tmp_path / "whole", labels=names, output="sigmoid")
    assert (list(bare.labels), bare.output) == (names, "sigmoid")
    assert torch.equal(bare.tensors("a film")["input_ids"], whole.tensors("a film")["input_ids"])
    with pytest.raises(ExplainerError, match="there is no folder 'nowhere'"):
        explainers.load(tmp_path / "bare", "cpu", tokenizer="nowhere")
