"""What sets other libraries beside this one: a row of the library that the tests have, on a tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import peers

# isort: split
import timm


def test_a_row_says_what_both_take_and_how_far_they_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = timm.models.vision_transformer.VisionTransformer(img_size=224, patch_size=16, embed_dim=24, depth=2, num_heads=2, num_classes=5)
    monkeypatch.setattr(peers, "vit", lambda: tiny.eval().requires_grad_(False))
    for name in ("Captum: saliency", "Captum: Integrated Gradients, 10 steps"):
        found = peers.measure(peers.ROWS[name])
        assert found["correlation"] > 0.9999
        assert found["difference"] < 1e-4
        assert min(*found["seconds"].values(), *found["MB"].values()) > 0


def test_captum_has_no_lrp_for_a_transformer() -> None:
    """The reason that stands in place of its row."""
    from captum.attr import LRP

    module = timm.models.vision_transformer.VisionTransformer(img_size=32, patch_size=16, embed_dim=8, depth=1, num_heads=2).eval()
    with pytest.raises(TypeError, match="no rule"):
        LRP(module).attribute(peers.photo()[..., :32, :32], target=1)


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "made").touch()
    assert peers.environment(tmp_path).parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
