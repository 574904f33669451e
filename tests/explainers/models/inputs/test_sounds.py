"""Models of sounds are read as models of pictures: equal to transformers' own passes, and drawn where and when the sound is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from scipy.io import wavfile
from torch import Tensor, nn

import explainers
from explainers import ExplainerError, Sound
from explainers.models.inputs.sounds import read_sound
from explainers.models.inputs.types import ImageInput
from tests.support.sound_models import SOUND_FAMILIES, ast

RATE = 16000
METHODS = ["saliency", "input_x_gradient", "input_x_gradient:libra", "fullgrad_plus:libra"]


def chirp(seconds: float = 1.0, rate: int = RATE) -> Any:
    time = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * (400 * time + 900 * time**2))).astype(np.float32)


def made(name: str) -> tuple[Any, tuple[int, int]]:
    torch.manual_seed(0)
    make, grid = SOUND_FAMILIES[name]
    return make().eval(), grid


def plain_pass(module: Any, tensor: Tensor, entry: str) -> tuple[Tensor, Tensor, Tensor, float]:
    """The logits in float64 by the module itself, input x gradient and the size of the gradient at what its part ``entry`` takes, token by
    token, and the largest sum of the sizes of a token's terms: behind a norm they all but cancel.
    """
    exact = copy.deepcopy(module).double()
    taken: list[Tensor] = []

    def keep(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        taken.append(args[0].detach().requires_grad_())
        return (taken[0], *args[1:])

    handle = exact.get_submodule(entry).register_forward_pre_hook(keep)
    logits = exact(tensor.double()).logits
    handle.remove()
    logits[0, 1].backward()
    assert taken[0].grad is not None
    terms = (taken[0] * taken[0].grad)[0].detach()
    return logits[0].detach(), terms.sum(-1), taken[0].grad[0].abs().sum(-1), float(terms.abs().sum(-1).max())


def extracted(module: Any, samples: Any, preparation: Any) -> Tensor:
    """What the feature extractor of transformers makes of samples, as the module takes it."""
    made = preparation.extractor(samples, sampling_rate=RATE, return_tensors="pt")
    tensor: Tensor = made[module.main_input_name]
    return tensor


@pytest.mark.parametrize("name", SOUND_FAMILIES)
def test_a_sound_is_explained_as_the_plain_model_computes(name: str) -> None:
    module, grid = made(name)
    model = explainers.open(module)
    assert model.report is not None
    assert not model.report.failures
    assert "of transformers" in str(model.report)
    found = explainers.explain(model, Sound(chirp(), RATE), 1, METHODS, precision="double")
    assert isinstance(found, explainers.Explanation)
    entry = next(name for name, part in model.module.inner.named_modules() if part is model.entry)  # type: ignore[union-attr]
    logits, terms, gradients, size = plain_pass(module, extracted(module, chirp(), model.made_with["preprocess"]), entry)
    torch.testing.assert_close(found.logits.double(), logits, rtol=1e-5, atol=1e-6)
    attribution = found["input_x_gradient"]
    assert attribution.patches == grid
    rows, columns = grid

    def drawn(values: Tensor) -> Tensor:  # transformers' low frequencies come first, those of a picture last
        return values[-rows * columns :].unflatten(0, grid).flip(0).flatten()

    torch.testing.assert_close(attribution.shown_scores.double(), drawn(terms), rtol=0, atol=1e-5 * size)
    torch.testing.assert_close(found["saliency"].shown_scores.double(), drawn(gradients), rtol=1e-4, atol=0)  # which does not cancel
    assert found.completeness("libra") < 1e-4


def test_the_module_that_was_given_is_not_changed() -> None:
    module, _ = made("AST")
    tensor = torch.randn(1, 104, 48)
    before = module(tensor).logits
    names = [name for name, _ in module.named_modules()]
    explainers.explain(explainers.open(module, check="none"), Sound(chirp(), RATE), 0, ["rollout"])
    assert [name for name, _ in module.named_modules()] == names
    torch.testing.assert_close(module(tensor).logits, before, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "where"), [("AST", 0.55), ("AST", 0.2), ("Wav2Vec2, norms in each token", 0.7), ("Whisper", 0.3)])
def test_the_token_that_changes_with_a_stretch_is_drawn_at_that_stretch(name: str, where: float) -> None:
    module, (rows, columns) = made(name)
    model = explainers.open(module, check="none")
    rng = np.random.default_rng(0)
    samples = (0.1 * rng.normal(size=RATE)).astype(np.float32)
    changed = samples.copy()
    click = slice(round((where - 0.01) * RATE), round((where + 0.01) * RATE))
    changed[click] += (0.5 * rng.normal(size=click.stop - click.start)).astype(np.float32)
    prepared = [model.prepare(Sound(each, RATE)) for each in (samples, changed)]
    record = prepared[0].inputs[0]
    assert isinstance(record, ImageInput)
    assert record.sound is not None
    tokens = []

    def keep(_: nn.Module, args: tuple[Any, ...]) -> None:
        tokens.append(args[0].detach())

    handle = model.blocks[0].register_forward_pre_hook(keep)
    with torch.no_grad():
        for each in prepared:
            model.forward(each.tensors)
    handle.remove()
    change = (tokens[1] - tokens[0]).norm(dim=-1)[0, -rows * columns :].unflatten(0, (rows, columns)).sum(0)
    place = int(change.argmax()) + 0.5
    shown = record.sound.start + place * (record.sound.end - record.sound.start) / columns
    assert abs(shown - where) < (0.1 if rows > 1 else 0.05)  # a token of AST is 0.1 s; one of the others 0.02 s, with neighbours


def test_high_frequencies_are_drawn_above_low_ones() -> None:
    model = explainers.open(made("AST")[0], check="none")
    time = np.arange(RATE) / RATE
    waves = [np.sin(2 * np.pi * hertz * time).astype(np.float32) for hertz in (300, 5000)]
    low, high = (model.prepare(Sound(wave, RATE)).tensors["pixel_values"][0, 0] for wave in waves)
    assert low.mean(1).argmax() > high.mean(1).argmax()


def test_sounds_of_any_length_have_as_many_tokens_as_the_model_makes() -> None:
    module, _ = made("HuBERT")
    model = explainers.open(module, check="none")
    for seconds in (0.3, 1.7):
        found = explainers.explain(model, Sound(chirp(seconds), RATE), 1, ["input_x_gradient:libra"])
        assert isinstance(found, explainers.Explanation)
        count = int(module._get_feat_extract_output_lengths(torch.tensor(round(seconds * RATE))))
        assert found["input_x_gradient:libra"].patches == (1, count)


def test_a_folder_is_opened_with_its_feature_extractor_and_class_names(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = ast(id2label={0: "dog", 1: "rain", 2: "speech"})
    module.save_pretrained(tmp_path)
    hf.ASTFeatureExtractor(num_mel_bins=48, max_length=104, mean=-3.0, std=2.0).save_pretrained(tmp_path)
    model = explainers.open(tmp_path)
    assert list(model.labels) == ["dog", "rain", "speech"]
    assert model.details["sound_rate"] == RATE
    assert not any("prepared" in guess.what for guess in model.report.guesses)  # type: ignore[union-attr]
    assert model.made_with["preprocess"].extractor.mean == -3.0
    wavfile.write(tmp_path / "chirp.wav", 44100, np.stack([chirp(1, 44100)] * 2, 1))
    of_file = explainers.explain(model, tmp_path / "chirp.wav", "rain", ["rollout"])
    assert isinstance(of_file, explainers.Explanation)
    of_samples = explainers.explain(model, Sound(chirp(), RATE), "rain", ["rollout"])
    assert isinstance(of_samples, explainers.Explanation)
    torch.testing.assert_close(of_file.logits, of_samples.logits, rtol=0, atol=0.01)  # but for what resampling changes
    assert of_file.input.sound.whole == pytest.approx(1.0)  # type: ignore[union-attr]


def test_what_a_model_does_not_read_of_a_sound_is_said() -> None:
    model = explainers.open(made("AST")[0], check="none")
    long, short = (model.prepare(Sound(chirp(seconds), RATE)).notes[0] for seconds in (3.0, 0.5))
    assert any("3.0 s long" in note and "the rest is not explained" in note for note in long)
    assert any("0.5 s long" in note and "padding" in note for note in short)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint8, np.float32])
def test_a_wav_file_of_each_kind_is_read_from_minus_one_to_one(tmp_path: Path, dtype: Any) -> None:
    wave = chirp()
    if dtype == np.float32:
        stored = wave
    elif dtype == np.uint8:
        stored = (wave * 128 + 128).round().astype(np.uint8)
    else:
        stored = (wave * np.iinfo(dtype).max).astype(dtype)
    wavfile.write(tmp_path / "a.wav", RATE, stored)
    read = read_sound(tmp_path / "a.wav")
    assert read.rate == RATE
    np.testing.assert_allclose(read.samples, wave, atol=0.01 if dtype == np.uint8 else 1e-4)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("missing.wav", "there is no file 'missing.wav'"),
        (Sound(np.zeros(0, np.float32), RATE), "are no sound"),
        (Sound(np.array([np.nan], np.float32), RATE), "not finite"),
        (Sound(np.zeros(100, np.int16), RATE), "send floats"),
        (Sound(np.zeros(100, np.float32), 0), "rate=0"),
        (Sound(np.zeros(100, np.float32), RATE), "too short for one token"),
    ],
)
def test_what_is_no_sound_is_refused_in_words(sent: Any, said: str) -> None:
    model = explainers.open(made("Wav2Vec2")[0], check="none")
    with pytest.raises(ExplainerError, match=said):
        model.prepare(sent)


def test_a_picture_and_a_broken_file_are_refused_in_words(tmp_path: Path) -> None:
    from PIL import Image

    model = explainers.open(made("Wav2Vec2")[0], check="none")
    with pytest.raises(ExplainerError, match="takes sounds, not pictures"):
        model.prepare(Image.new("RGB", (8, 8)))
    (tmp_path / "a.wav").write_bytes(b"RIFF\x00\x00\x00\x00WAVEfmt ")
    with pytest.raises(ExplainerError, match=r"a\.wav is no \.wav file that can be read"):
        model.prepare(tmp_path / "a.wav")


def test_an_extractor_of_another_model_is_refused() -> None:
    with pytest.raises(ExplainerError, match="bands and frames, and the model takes 48 x 104"):
        explainers.open(made("AST")[0], preprocess=hf.ASTFeatureExtractor(num_mel_bins=32, max_length=104), check="none")
    with pytest.raises(ExplainerError, match="pass the feature extractor of this model"):
        explainers.open(made("AST")[0], preprocess=hf.Wav2Vec2FeatureExtractor(), check="none")
