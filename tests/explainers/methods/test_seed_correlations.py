"""What maps drawn at random say of two seeds, against maps of several seeds."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch

import explainers
from explainers.methods.registry import METHODS
from explainers.methods.seed_correlations import SAMPLE_GROUPS, group_of, samples_for, seed_correlation
from explainers.records.notes import kind_of
from tests.explainers.support.explained import TEXT, text_model
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, wrapped

# isort: split
import timm

DRAWN = [
    "rise?samples=60",
    "kernel_shap?samples=60",
    "lime?samples=60&alpha=0.0001",
    "smoothgrad?draws=32",
    "smoothgrad?draws=32&at=pixels",
]


@pytest.mark.parametrize("signal", [0.3, 1.0, 3.0])
def test_the_estimate_for_means_is_the_share_of_the_variance_that_seeds_have_in_common(signal: float) -> None:
    """Means of 100 normal samples: what two seeds correlate by is known, s^2 / (s^2 + 1 / 100) with scores of standard deviation s."""
    generator = torch.Generator().manual_seed(3)
    features, samples = 4000, 100
    common = torch.randn(features, generator=generator, dtype=torch.float64) * signal / 10
    drawn = common + torch.randn(samples, features, generator=generator, dtype=torch.float64)
    groups = group_of(samples)
    without = torch.stack([drawn[groups != group].mean(0) for group in range(SAMPLE_GROUPS)])
    estimate = seed_correlation(drawn.mean(0), without + 5)  # what all scores have alike is no noise
    assert estimate == pytest.approx(signal**2 / (signal**2 + 1), abs=0.04)


def test_no_estimate_without_groups_or_variance() -> None:
    assert seed_correlation(torch.ones(5), torch.ones(10, 5)) is None
    assert seed_correlation(torch.arange(5.0), torch.arange(5.0)[None]) is None


@pytest.mark.parametrize(("correlation", "expected"), [(0.5, 400), (0.07, 5400), (0.8, 100), (0.0, 20000)])
def test_the_samples_that_are_needed_follow_from_the_noise(correlation: float, expected: int) -> None:
    """A signal of variance 1 and a noise of (1 - r) / r with 100 samples: at 0.8 a noise of 1/4 is left."""
    assert samples_for(correlation, 100) == expected
    noise = (1 - max(correlation, 0.02)) / max(correlation, 0.02) * 100 / samples_for(correlation, 100)
    assert 0.79 < 1 / (1 + noise) < 0.82


@pytest.mark.slow
@pytest.mark.parametrize("spec", DRAWN)
def test_maps_of_several_seeds_correlate_as_each_of_them_says(spec: str) -> None:
    seeds = 6
    maps = [explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, spec, seed=seed).maps[0] for seed in range(seeds)]
    matrix = np.corrcoef(np.stack([one.scores[one.content].numpy() for one in maps]))
    found = float(np.mean([matrix[i, j] for i, j in itertools.combinations(range(seeds), 2)]))
    said = float(np.mean([one.seed_correlation for one in maps if one.seed_correlation is not None]))
    assert said == pytest.approx(found, abs=0.15)
    assert json.loads(json.dumps(maps[0].to_json()))["seed_correlation"] == maps[0].seed_correlation


def test_every_method_that_another_seed_changes_says_so_and_no_other() -> None:
    small = {"rise": "samples=20", "kernel_shap": "samples=20", "lime": "samples=20&alpha=0.0001", "smoothgrad": "draws=4"}
    same = {"integrated_gradients": "steps=2", "eagle": "side=2"}  # whatever the seed
    small |= same
    specs = [f"{name}?{small[name]}" if name in small else name for name in METHODS if name != "occlusion"]
    runnable = []
    for spec in specs:
        try:
            explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, spec)
            runnable.append(spec)
        except explainers.ExplainerError:
            continue
    one, other = (explainers.explain(wrapped("vit"), inputs("vit", 1), TARGET, runnable, seed=seed) for seed in (0, 1))
    changed = {a.method_name for a, b in zip(one.maps, other.maps, strict=True) if not torch.equal(a.scores, b.scores)}
    assert changed == {one.method_name for one in one.maps if one.seed_correlation is not None} == {*small, "random"} - {*same}


def test_a_map_of_noise_says_so_and_what_to_ask_for() -> None:
    """196 patches hidden each on its own, which 100 samples do not determine; 16 squares of them, as is usual, they do."""
    torch.manual_seed(0)
    module = timm.models.VisionTransformer(img_size=56, patch_size=4, embed_dim=24, depth=1, num_heads=2, num_classes=5)
    model = explainers.wrap(module)
    pixels = {"pixel_values": torch.randn(1, 3, 56, 56, generator=torch.Generator().manual_seed(1))}
    specs = ["kernel_shap?samples=100&features=196", "kernel_shap?samples=200"]
    noisy, usual = explainers.explain(model, pixels, 1, specs).maps
    assert noisy.seed_correlation is not None
    assert noisy.seed_correlation < 0.5
    (note,) = noisy.notes
    assert note.startswith("This map is mostly noise: with another seed it would correlate with this one by about ")
    assert kind_of(note) == "noise"
    assert f"samples={samples_for(noisy.seed_correlation, 100)}" in note
    assert usual.seed_correlation is not None
    assert usual.seed_correlation > 0.8
    assert usual.notes == ()
    other = explainers.explain(model, pixels, 1, specs, seed=1).maps
    for mine, its, bound in ((noisy, other[0], (-0.3, 0.6)), (usual, other[1], (0.8, 1.0))):
        assert bound[0] < float(np.corrcoef(mine.scores[1:], its.scores[1:])[0, 1]) < bound[1]


def test_a_text_read_in_windows_has_the_correlation_of_its_noisiest_window() -> None:
    text = " ".join([TEXT] * 4)
    model, methods = text_model(), "rise?samples=16"
    whole = explainers.explain(model, text, methods=methods).maps[0]
    windows = model.windows(text)
    assert windows is not None
    assert len(windows) > 2
    parts = explainers.explain(model, windows.prepared, target=whole.target, methods=methods)
    noisiest = min((part.maps[0] for part in parts), key=lambda one: one.seed_correlation)
    assert whole.seed_correlation == pytest.approx(noisiest.seed_correlation)
    assert [note for note in whole.notes if kind_of(note) == "noise"] == [note for note in noisiest.notes if kind_of(note) == "noise"]
