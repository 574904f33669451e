"""Calibration finds a temperature, a lapse and a threshold again; unknowable pictures are the same each time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from explainers.models.companion_files.calibration import parse_calibration
from recipes import calibration
from recipes.data.pictures import SIDE


def test_temperature_and_line_are_found_again() -> None:
    generator = torch.Generator().manual_seed(0)
    clean = 3 * torch.randn(3000, 12, generator=generator)
    truth = torch.multinomial(clean.softmax(1), 1, generator=generator)[:, 0]
    unknown = 0.1 * torch.randn(90, 12, generator=generator)
    document = calibration.calibrate(2 * clean, F.one_hot(truth, 12) > 0, unknown)
    assert document["temperature"] == pytest.approx(2, rel=0.08)
    line = document["lines"]["something_else"]
    assert line["below"] is True
    assert "100% of 90 pictures that show nothing it knows" in line["measured"]
    assert document["lapse"] <= 0.02  # none was put in
    found = parse_calibration(document, "found")
    assert float(calibration.is_known(2 * clean[clean.argmax(1) == truth], found).float().mean()) == pytest.approx(0.95, abs=0.02)
    assert not calibration.is_known(unknown, found).any()


def test_the_lapse_is_found_again() -> None:
    generator = torch.Generator().manual_seed(1)
    clean = 3 * torch.randn(3000, 12, generator=generator)
    truth = torch.multinomial(0.88 * clean.softmax(1) + 0.12 / 12, 1, generator=generator)[:, 0]
    right = clean.argmax(1) == truth
    found = calibration.fit_calibration(2 * clean, right)
    assert found.temperature == pytest.approx(2, rel=0.1)
    assert found.lapse == pytest.approx(0.12, abs=0.025)
    likeliest = calibration.largest_probability(2 * clean, found)
    assert float(likeliest.max()) == pytest.approx(1 - found.lapse + found.lapse / 12, abs=1e-3)
    assert calibration.calibration_error(likeliest, right) < calibration.calibration_error(clean.softmax(1).amax(1), right)


def test_the_calibration_error_is_the_gap_in_each_bin() -> None:
    likeliest = torch.tensor([0.95, 0.95, 0.25, 0.25])
    assert calibration.calibration_error(likeliest, torch.tensor([True, True, False, False])) == pytest.approx(0.15)
    assert calibration.calibration_error(likeliest, torch.tensor([True, False, True, False])) == pytest.approx((0.45 + 0.25) / 2)


def test_each_kind_of_unknowable_picture_is_made_the_same_each_time_and_shows_something() -> None:
    kinds, again = calibration.draw_unknowable(3), calibration.draw_unknowable(3)
    assert list(kinds) == ["textures, noise and pages of text", "line drawings", "shaded shapes", "charts", "soft grey shapes"]
    for kind, made in kinds.items():
        assert made.shape == (3, SIDE, SIDE, 3)
        assert torch.equal(made, again[kind])
        assert not torch.equal(made[0], made[1])
        assert made.float().flatten(1).std(1).min() > 2
    assert float((kinds["line drawings"].float().mean(-1) > 190).float().mean()) > 0.7  # mostly paper
    grey = kinds["soft grey shapes"]
    assert torch.equal(grey[..., 0], grey[..., 1])
    assert float((grey[..., 0] < 60).float().mean()) > 0.3  # much of it black


def test_made_up_pictures_are_the_same_each_time() -> None:
    first, again = calibration.draw_made_up(5), calibration.draw_made_up(5)
    assert torch.equal(first, again)
    assert first.shape == (5, SIDE, SIDE, 3)
    assert not torch.equal(first[0], first[4])
