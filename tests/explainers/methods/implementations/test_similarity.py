"""Maps that compare each patch with the prompt: what they are asked, which models they refuse, and that a trained one finds things."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.methods.requirements import lacks_of
from explainers.models.encoders import encoder
from tests.conftest import ROOT
from tests.explainers.support.wrapped import inputs, wrapped

SPECS = ("maskclip", "sclip", "clearclip", "naclip", "gem", "clip_surgery")
PICTURE = ROOT / "explainers" / "embedded" / "samples"


@cache
def clip() -> explainers.Model:
    return explainers.load("clip", "cpu")


@cache
def picture() -> Image.Image:
    path = next(iter(sorted(Path(PICTURE).rglob("*.jpg")) or sorted(Path(PICTURE).rglob("*.png"))))
    return Image.open(path).convert("RGB")


def patches(result: explainers.Explanation, spec: str) -> Tensor:
    return result[spec].scores[result[spec].content]


def text_features(prompt: str) -> Tensor:
    read = clip().prompt_inputs
    assert read is not None
    with torch.no_grad():
        return torch.nn.functional.normalize(encoder(clip(), "text").forward(read([prompt]).tensors), dim=-1)[0]


@pytest.mark.slow
def test_maskclip_by_hand() -> None:
    """Hooks that make the last attention an identity, then the tower's own norm and projection, patch by patch."""
    model = clip()
    tensors = model.tensors(picture())
    tower = model.module.vision_model.timm_model
    block = tower.blocks[-1]
    with torch.no_grad():
        x = tower.forward_features(tensors["pixel_values"])  # to know the number of tokens
        taken: list[Tensor] = []
        handle = block.register_forward_pre_hook(lambda child, args: taken.append(args[0]))
        tower.forward_features(tensors["pixel_values"])
        handle.remove()
        z = block.norm1(taken[0])
        values = block.attn.qkv(z).chunk(3, -1)[2]
        y = taken[0] + block.ls1(block.attn.proj(values))
        y = y + block.ls2(block.mlp(block.norm2(y)))
        features = torch.nn.functional.normalize(model.module.visual_projection(tower.fc_norm(tower.norm(y))), dim=-1)[0]
    assert x.shape == y.shape
    cosines = features @ text_features("a photo of a dog")
    result = explainers.explain(model, picture(), target="a photo of a dog", methods=["maskclip"])
    assert torch.allclose(patches(result, "maskclip"), cosines[model.layout_of(tensors).prefix :], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_a_contrast_is_the_difference_and_a_probability_a_share(spec: str) -> None:
    a, b = "a photo of a dog", "a photo of grass"
    if spec == "clip_surgery":
        spec = "clip_surgery?features=false"
    targets: list[object] = [a, b, explainers.Contrast(a, b), explainers.Probability(a)]
    result = explainers.explain(clip(), picture(), target=targets, methods=[spec])
    first, second, contrast, share = (m.scores[m.content] for m in result.maps)
    assert torch.allclose(contrast, first - second, atol=1e-6)
    assert float(first.abs().max()) <= 1
    scale = clip().details["logit_scale"]
    expected = torch.stack([first, second]).mul(scale / clip().calibration.temperature).softmax(0)[0]
    assert float((share - expected).abs().max()) < 1e-4 + clip().calibration.lapse


@pytest.mark.slow
def test_one_prompt_alone_is_set_against_an_empty_text() -> None:
    result = explainers.explain(clip(), picture(), target="a photo of a dog", methods=["clip_surgery", "clip_surgery?features=false"])
    plain, surgery = patches(result, "clip_surgery?features=false"), patches(result, "clip_surgery")
    other = plain - surgery
    assert 0 < float(other.std()) < 1
    assert float(other.abs().max()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_a_batch_gives_the_maps_of_its_pictures(spec: str) -> None:
    turned = picture().transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    both = explainers.explain(clip(), [picture(), turned], target=["a photo of a dog"], methods=[spec])
    alone = explainers.explain(clip(), turned, target=["a photo of a dog"], methods=[spec])
    assert torch.allclose(patches(both[1], spec), patches(alone, spec), atol=1e-5)


@pytest.mark.parametrize("family", ["vit", "hf-siglip"])
def test_a_model_without_such_patches_says_why(family: str) -> None:
    said = "does not compare an image with prompts" if family == "vit" else "pools its patches"
    assert said in lacks_of(Recording(wrapped(family, torch.float32), inputs(family, 1, torch.float32)))["patch_features"]
