"""Every layout of tests/support/own_models opens, passes its check and is explained, by the numbers of the plain model."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import pytest
import torch

import explainers
from explainers.self_check.sample import PROMPTS, TEXT, picture
from tests.support.own_models import CASES
from tools.own_models_table import PAGE, page

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.mark.parametrize("name", CASES)
def test_it_opens_is_checked_and_explained(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if case.needs and importlib.util.find_spec(case.needs) is None:
        pytest.skip(f"{case.needs} is not installed")
    given = case.make(tmp_path)
    model = explainers.open(given.what, **given.arguments)
    assert model.report is not None
    assert model.kind == case.kind
    assert not model.report.failures, str(model.report)
    assert any(check.state == "passed" for check in model.report.checks)
    assert case.labels is None or tuple(model.labels) == case.labels
    assert case.guess in " ".join(map(str, model.report.guesses))
    assert all(guess.what and guess.why and guess.argument for guess in model.report.guesses)

    channels = model.details["channels"]
    inputs = TEXT if case.kind == "text" else picture()
    if channels not in (None, 1, 3):
        inputs = {"pixel_values": torch.randn(1, channels, *model.details["input"])}  # type: ignore[assignment]
    target = PROMPTS[0] if case.kind == "clip" else 0
    prompts = {"prompts": list(PROMPTS)} if case.kind == "clip" else {}
    result = explainers.explain(model, inputs, target=target, methods=["fullgrad_plus:libra", "saliency"], **prompts)
    assert bool(result.maps[0].scores.abs().sum() > 0)
    assert not [note for note in result.notes if "check failed" in note]

    if given.module is not None:
        tensors = {**model.tensors(inputs), **(model.prompt_inputs(list(PROMPTS)).tensors if model.prompt_inputs else {})}
        ours, theirs = model.forward(tensors).detach(), _plain(given.module, tensors)
        assert ours.dtype == theirs.dtype
        assert torch.allclose(ours, theirs, atol=1e-4)


def _plain(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the module gives that somebody had, called as its owner calls it."""
    with torch.no_grad():
        if hasattr(module, "encode_text"):
            image = module.encode_image(tensors["pixel_values"], normalize=True)  # type: ignore[operator]
            text = module.encode_text(tensors["input_ids"], normalize=True)  # type: ignore[operator]
            return module.logit_scale.exp() * image @ text.T  # type: ignore[operator, union-attr, return-value]
        named = hasattr(module, "config") or "pixel_values" in module.forward.__code__.co_varnames
        out = module(**tensors) if named else module(*itertools.islice(tensors.values(), 1))
        for field in ("logits_per_image", "logits"):
            out = getattr(out, field, out)
        return out  # type: ignore[no-any-return]


def test_the_page_has_every_case() -> None:
    """``python -m tools.own_models_table`` writes it again."""
    text = PAGE.read_text("utf-8")
    assert page(text) == text
    assert all(case.have in text for case in CASES.values())
