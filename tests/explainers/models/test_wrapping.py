"""What ``wrap`` finds in modules of no family of the table, what its arguments change, and what it says where it cannot find something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import explainers.models.libraries.torchvision_ops

# isort: split
import pytest
import timm
import torch
from timm.models.densenet import DenseNet
from timm.models.regnet import RegNet, RegNetCfg
from timm.models.vgg import VGG
from torch import nn

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.errors import ExplainerError
from explainers.models.inputs.images import Preprocessing
from explainers.models.wrapping import wrap
from tests.families import FAMILIES


def test_hooks_are_gone_when_the_model_raises() -> None:
    module = FAMILIES["vit"].build()
    with pytest.raises(ExplainerError, match=r"trial pass .*\(2, 3, 40, 40\).* failed.*preprocess="):
        wrap(module, preprocess=Preprocessing(resize=(40, 40), crop=(40, 40)))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert torch.is_grad_enabled()


class Plain(nn.Module):
    """A user's own Transformer, of no library: patches, one class token, blocks in a list."""

    def __init__(self, depth: int = 3, token: bool = True) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16)) if token else None
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList([layer.__class__(16, 2, 32, batch_first=True, norm_first=True) for _ in range(depth)])
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).mT
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0] if self.token is not None else x.mean(1))


@pytest.mark.parametrize("token", [True, False])
def test_wraps_a_module_of_no_library(token: bool) -> None:
    module = Plain(token=token).eval()
    recipe = Preprocessing(resize=(24, 40), fit="squash")
    model = wrap(module, kind="image", preprocess=recipe)
    layout = model.layout_of({"pixel_values": torch.zeros(1, 3, 24, 40)})
    assert list(model.blocks) == list(module.layers)
    assert layout.grid == (3, 5)
    assert layout.prefix == int(token)
    assert layout.class_token == (0 if token else None)
    assert model.layout_of({"pixel_values": torch.zeros(1, 3, 33, 16)}).grid == (4, 2)
    assert model.labels == ["class 0", "class 1", "class 2", "class 3"]


def test_says_which_argument_to_pass() -> None:
    plain = Plain().eval()
    recipe = Preprocessing(resize=(24, 40), fit="squash")
    with pytest.raises(ExplainerError, match="kind="):
        wrap(plain)
    with pytest.raises(ExplainerError, match="preprocess="):
        wrap(plain, kind="image")
    with pytest.raises(ExplainerError, match="blocks="):
        wrap(nn.Sequential(nn.Conv2d(3, 4, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)), kind="image", preprocess=recipe)
    with pytest.raises(ExplainerError, match="blocks='layer' names no module"):
        wrap(plain, kind="image", preprocess=recipe, blocks="layer")
    with pytest.raises(ExplainerError, match="entry='norm' names no module"):
        wrap(plain, kind="image", preprocess=recipe, entry="norm")
    with pytest.raises(ExplainerError, match="prefix="):
        wrap(plain, kind="image", preprocess=recipe, prefix=99)
    with pytest.raises(ExplainerError, match=r"labels= holds 2 names; the model has 4 classes"):
        wrap(plain, kind="image", preprocess=recipe, labels=["a", "b"])
    with pytest.raises(ExplainerError, match=r"explainers.load"):
        wrap("vit_base_patch16_224")  # type: ignore[arg-type]


def test_arguments_overrule_what_would_be_found() -> None:
    module = Plain(depth=4).eval()
    model = wrap(
        module,
        name="plain",
        kind="image",
        preprocess=Preprocessing(resize=(24, 40), fit="squash"),
        blocks=list(module.layers)[1:],
        entry="layers.0",
        labels=["cat", "dog", "cat", "owl"],
        prefix=1,
    )
    assert list(model.blocks) == list(module.layers)[1:]
    assert model.entry is module.layers[0]
    assert model.labels == ["cat (0)", "dog", "cat (2)", "owl"]
    assert model.name == "plain"


class Maps(nn.Module):
    """A block that keeps a map of tokens, its channels first or last."""

    def __init__(self, width: int, last: bool) -> None:
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1) if not last else nn.Linear(width, width)
        self.more = nn.Linear(1, 1) if last else nn.Conv2d(width, width, 1)
        self.scale = nn.Parameter(torch.rand(width))
        self.last = last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mix(x) * (self.scale if self.last else self.scale.view(-1, 1, 1))


class Stages(nn.Module):
    """Two stages: 4 blocks over 6 x 4 patches of width 8, then 2 over 3 x 2 of width 16."""

    def __init__(self, last: bool, width: int = 8) -> None:
        super().__init__()
        self.stem, self.down, self.last = nn.Conv2d(3, width, 4, 4), nn.Conv2d(width, 2 * width, 2, 2), last
        self.first = nn.Sequential(*(Maps(width, last) for _ in range(4)))
        self.second = nn.ModuleList([nn.Sequential(Maps(2 * width, last)), nn.Sequential(Maps(2 * width, last))])
        self.head = nn.Linear(2 * width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def through(blocks: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return blocks(x.movedim(1, -1)).movedim(-1, 1) if self.last else blocks(x)

        x = self.down(through(self.first, self.stem(x)))
        x = through(nn.Sequential(*self.second), x)
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("width", [8, 3])  # with 3 the second stage's maps are as high as half its width
@pytest.mark.parametrize("last", [True, False], ids=["channels-last", "channels-first"])
def test_of_stages_the_blocks_are_the_longest_row_over_the_final_patches(last: bool, width: int) -> None:
    module = Stages(last, width).eval()
    model = wrap(module, kind="image", preprocess=Preprocessing(resize=(24, 16), fit="squash"))
    assert list(model.blocks) == [module.second[0][0], module.second[1][0]]  # two rows, one after the other
    assert model.entry is module.second[0][0]
    assert (model.block_kind.channels, model.details["width"]) == (3 if last else 1, 2 * width)
    assert model.layout_of({"pixel_values": torch.zeros(1, 3, 24, 16)}).grid == (3, 2)


class Groups(nn.Module):
    """Blocks over groups of tokens, (batch, groups, tokens, width); in the end there is one group."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 3)
        self.blocks = nn.ModuleList([Maps(8, True), Maps(8, True)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).mT.unsqueeze(1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2)))


def test_a_group_of_tokens_is_no_row_of_a_map() -> None:
    model = wrap(Groups().eval(), kind="image", preprocess=Preprocessing(resize=(24, 16), fit="squash"))
    pixels = {"pixel_values": torch.zeros(1, 3, 24, 16)}
    assert model.layout_of(pixels).grid == (6, 4)
    assert Recording(model, pixels).layout.grid == (6, 4)


def test_the_first_stage_can_be_asked_for() -> None:
    module = Stages(False).eval()
    model = wrap(module, kind="image", preprocess=Preprocessing(resize=(24, 16), fit="squash"), blocks="first")
    assert list(model.blocks) == list(module.first)
    assert model.layout_of({"pixel_values": torch.zeros(1, 3, 24, 16)}).grid == (6, 4)
    with pytest.raises(ExplainerError, match="tokens of one shape"):
        wrap(
            module,
            kind="image",
            preprocess=Preprocessing(resize=(24, 16), fit="squash"),
            blocks=[module.first[0], module.second[0][0]],
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "blocks", "grid"),
    [
        (lambda: VGG([8, "M", 8, "M", 12, 12, "M"], num_classes=3), "features.8", (16, 12)),  # its last convolution
        (lambda: DenseNet(growth_rate=4, block_config=(1, 2), num_classes=3), "features.norm5", (8, 6)),
        (lambda: RegNet(RegNetCfg(w0=8, wa=8.0, wm=2.0, group_size=4, depth=6, se_ratio=0.25), num_classes=3), "s3.b2", (4, 3)),
    ],
    ids=["vgg", "densenet", "regnety"],
)
def test_convolutional_networks_without_a_list_of_blocks(make: Callable[[], nn.Module], blocks: str, grid: tuple[int, int]) -> None:
    """Blocks with names of their own, or the last layer that keeps the shape of its map; FullGrad adds up to the answer."""
    module = make().eval()
    model = wrap(module, kind="image", preprocess=Preprocessing(resize=(64, 48), fit="squash"))
    assert model.blocks[0] is module.get_submodule(blocks)
    pixels = {"pixel_values": torch.rand(1, 3, 64, 48, generator=torch.Generator().manual_seed(0))}
    assert model.layout_of(pixels).grid == grid
    error = explainers.explain(model, pixels, target=1, methods=["fullgrad:libra"]).maps[0].completeness_error
    assert error is not None
    assert error < 1e-4


def _timm(name: str, **arguments: Any) -> nn.Module:
    module: nn.Module = timm.create_model(name, num_classes=3, **arguments).eval()
    return module


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: _timm("crossvit_tiny_240", embed_dim=(24, 24), num_heads=(2, 2), crop_scale=True), "does not see the whole image"),
        # of one block of two branches, one of which is taken for the whole
        (lambda: _timm("crossvit_tiny_240", embed_dim=(24, 24), num_heads=(2, 2), depth=((1, 1, 0),)), "a way round the blocks"),
        (lambda: _timm("mobilevitv2_050"), "4 groups of 16 tokens"),
    ],
    ids=["crop", "one of two branches", "mobilevitv2"],
)
def test_models_whose_tokens_have_no_one_order_are_refused_with_the_reason(make: Callable[[], nn.Module], reason: str) -> None:
    """Mobile ViT v2 was explained before, with the patches of its map in another order than those of the image."""
    with pytest.raises(ExplainerError, match=reason):
        wrap(make())


@pytest.mark.parametrize("name", ["mobilevit_xxs", "edgenext_xx_small"])
def test_hybrids_are_explained_at_a_stage_of_maps(name: str) -> None:
    """Where their Transformers take patches out of order, the blocks are those of the last stage that keeps the map."""
    model = wrap(_timm(name))
    assert model.block_kind.channels in (1, 3)
    size = model.details["input"]
    rows, columns = model.layout_of({"pixel_values": torch.zeros(1, 3, *size)}).grid or (0, 0)
    assert rows * columns == Recording(model, {"pixel_values": torch.zeros(1, 3, *size)}).block_inputs[0].shape[1]


def test_linear_attention_has_its_rules_and_its_maps_no_note() -> None:
    """Queries times (keys times values) over a normaliser of both, as EfficientViT is made by its library."""
    model = wrap(_timm("efficientvit_b0"))
    pixels = {"pixel_values": torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))}
    specs = ["fullgrad:libra", "input_x_gradient:attnlrp"]
    recording = Recording(model, pixels)
    for attribution in explainers.explain(model, pixels, target=1, methods=specs).maps:
        assert not any("without a softmax" in note for note in attribution.notes)
    for rule in RULES.values():
        assert not recording.cached_backward(rule, torch.ones_like(recording.logits)).unruled, rule.name


def test_a_row_inside_a_block_is_not_the_blocks() -> None:
    import transformers

    config = transformers.MobileBertConfig(
        vocab_size=64,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        embedding_size=24,
        intra_bottleneck_size=24,
        true_hidden_size=24,
        num_feedforward_networks=4,
    )
    module = transformers.MobileBertForSequenceClassification(config).eval()
    assert list(wrap(module).blocks) == list(module.mobilebert.encoder.layer)


def test_a_text_model_without_a_mask() -> None:
    import transformers

    config = transformers.FNetConfig(vocab_size=64, hidden_size=24, num_hidden_layers=2, intermediate_size=48)
    model = wrap(transformers.FNetForSequenceClassification(config).eval())
    assert model.layout_of({"input_ids": torch.full((1, 7), 9)}).class_token == 0


def test_a_model_without_a_head_gives_features() -> None:
    import timm
    import transformers

    bare = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=1, num_heads=2, num_classes=0, global_pool=""
    )
    assert str(wrap(bare).details["task"]) == "features"
    config = transformers.BertConfig(vocab_size=64, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
    assert wrap(transformers.BertModel(config)).details["task"] == "features"


def test_moves_tensors_with_the_module_and_casts_pixels_to_its_type() -> None:
    model = wrap(FAMILIES["vit"].build().double())
    tensors = model.tensors({"pixel_values": torch.zeros(1, 3, 32, 24)})
    assert tensors["pixel_values"].dtype == torch.float64
    assert model.forward(tensors).dtype == torch.float64


def test_refuses_tensors_that_the_model_does_not_take() -> None:
    model = wrap(FAMILIES["bert"].build())
    with pytest.raises(ExplainerError, match="does not take pixel_values"):
        model.forward({"pixel_values": torch.zeros(1, 3, 8, 8)})
    with pytest.raises(ExplainerError, match="input_ids hold 21 tokens; the model takes 20"):
        model.prepare({"input_ids": torch.full((1, 21), 9)})
    with pytest.raises(ExplainerError, match="'input_ids': integer tensor"):
        model.prepare({"input_ids": torch.zeros(1, 4)})
    with pytest.raises(ExplainerError, match="tokenizer="):
        model.prepare("a good film")


def test_gradients_are_kept_whatever_the_caller_switched_off() -> None:
    module = FAMILIES["deit3"].build()
    with torch.inference_mode():
        model = wrap(module)
        result = explainers.explain(model, {"pixel_values": torch.zeros(1, 3, 32, 24)}, methods="fullgrad:libra")
        made_here = FAMILIES["vit"].build()
    assert result.maps[0].completeness_error == pytest.approx(0, abs=1e-5)
    with pytest.raises(ExplainerError, match="build the model outside"):
        wrap(made_here)
