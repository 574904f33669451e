"""The maps of the Methods page that were made ahead, and the way back of a signal through a block."""

from __future__ import annotations

import base64
import json

import pytest
import timm
import torch
from torch.nn import functional as F

import explainers
from explainers.autograd.rules import RULES
from explainers.methods.registry import METHODS
from recipes.assets.method_gallery import OUT, STAGES, pack_scores, way_back
from tests.conftest import ROOT

GALLERY = json.loads(OUT.read_text("utf-8"))


def test_every_method_of_the_registry_has_its_map() -> None:
    image, listed = GALLERY["image"], {variant.spec: variant for variant in explainers.variants()}
    of_prompts = {spec for spec in listed if {"patch_features", "prompts"} & METHODS[listed[spec].method_name].needs}
    of_boxes = {spec for spec in listed if "boxes" in METHODS[listed[spec].method_name].needs}  # no model inside finds boxes
    assert set(image["maps"]) == set(listed) - of_prompts - of_boxes
    assert of_prompts <= set(GALLERY["clip"]["maps"])  # these are drawn on the map of a prompt
    rows, columns = image["grid"]
    assert {len(base64.b64decode(scores)) for scores in image["maps"].values()} == {rows * columns}
    assert OUT.stat().st_size < 600_000


def test_the_photo_of_the_gallery_is_a_sample_that_ships() -> None:
    index = json.loads((ROOT / "explainers/embedded/samples/photos/index.json").read_text("utf-8"))
    samples = {sample["id"]: sample for sample in index["samples"]}
    assert GALLERY["image"]["sample"] in samples
    assert samples[GALLERY["image"]["sample"]]["image"] in (ROOT / "explainers/embedded/samples/photos/NOTICE").read_text("utf-8")


def test_the_quick_maps_are_those_that_the_models_give_now() -> None:
    """Of the three models that ship, on the same photo, prompt and sentence."""
    photo = str(ROOT / "explainers" / "embedded" / "samples" / "photos" / "dogs.jpg")
    for spec in ("transformer_attribution", "fullgrad_plus:libra"):
        result = explainers.explain(explainers.load("photos-vit"), photo, None, [spec])
        scores = result[spec].scores[result[spec].content]
        stored = torch.frombuffer(bytearray(base64.b64decode(GALLERY["image"]["maps"][spec])), dtype=torch.int8).float() / 127
        assert result.target.label == GALLERY["image"]["label"]
        assert stored == pytest.approx(scores / scores.abs().max(), abs=0.01)


def test_scores_are_kept_in_127_steps() -> None:
    kept = base64.b64decode(pack_scores(torch.tensor([2.0, -1.0, 0.0])))
    assert [int.from_bytes([byte], "big", signed=True) for byte in kept] == [127, -64, 0]


def test_the_way_back_is_that_of_autograd_under_the_gradient_and_keeps_the_sum_under_libra() -> None:
    """A tiny random ViT, gone through by hand: value times gradient at each place of its first block."""
    torch.manual_seed(3)
    module = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=16, depth=2, embed_dim=24, num_heads=2, num_classes=3
    ).double()
    module.eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    image = torch.randn(1, 3, 32, 32, dtype=torch.float64)
    ways = way_back(explainers.wrap(module, labels=["a", "b", "c"]), {"pixel_values": image}, 1, [RULES["gradient"], RULES["libra"]], 0)

    block = module.blocks[0]
    x = module._pos_embed(module.patch_embed(image)).detach().requires_grad_()
    branch = x.view_as(x)
    normed = block.norm1(branch)
    qkv = block.attn.qkv(normed).reshape(1, -1, 3, 2, 12).permute(2, 0, 3, 1, 4)
    attended = F.softmax(qkv[0] @ qkv[1].transpose(-1, -2) / 12**0.5, -1) @ qkv[2]
    attended = attended.transpose(1, 2).reshape(1, -1, 24)
    middle = x + block.attn.proj(attended)
    branch2 = middle.view_as(middle)
    normed2 = block.norm2(branch2)
    before = block.mlp.fc1(normed2)
    after = F.gelu(before)
    output = middle + block.mlp.fc2(after)
    logit = module.head(module.norm(module.blocks[1](output))[:, 0])[0, 1]
    places = [output, after, before, normed2, branch2, middle, attended, normed, branch, x]
    signals = torch.autograd.grad(logit, places)
    assert ways["gradient"]["norms"] == pytest.approx([float(signal.norm()) for signal in signals], rel=1e-3)
    carried = [float((value.detach() * signal).sum()) for value, signal in zip(places, signals, strict=True)]
    assert ways["gradient"]["carried"] == pytest.approx(carried, rel=1e-3, abs=1e-3)

    at = dict(zip(STAGES, ways["libra"]["carried"], strict=True))
    assert at["activation_output"] == pytest.approx(at["activation_input"], rel=1e-3)


def test_what_the_stored_way_says_of_rules() -> None:
    """LayerNorm does not change when its input is made larger, so an ordinary gradient carries nothing through it (Euler's theorem, but for
    epsilon); Libra keeps all at gates, and at norms and attention but for what their biases hold, and AttnLRP about halves what comes
    through attention.
    """
    stages = GALLERY["way"]["stages"]
    assert set(GALLERY["way"]["rules"]) == set(RULES)
    gradient, libra, attnlrp = (
        dict(zip(stages, GALLERY["way"]["rules"][rule]["carried"], strict=True)) for rule in ("gradient", "libra", "attnlrp")
    )
    for norm in (("mlp_norm_output", "mlp_norm_input"), ("attention_input", "attention_norm_input")):
        assert abs(gradient[norm[1]]) < 1e-3 * abs(gradient[norm[0]])
        assert libra[norm[1]] == pytest.approx(libra[norm[0]], rel=0.02)  # biases hold the rest
    assert libra["activation_input"] == pytest.approx(libra["activation_output"], rel=1e-3)
    assert libra["attention_input"] == pytest.approx(libra["attention_output"], rel=0.02)
    assert attnlrp["attention_input"] / attnlrp["attention_output"] == pytest.approx(0.45, abs=0.01)
