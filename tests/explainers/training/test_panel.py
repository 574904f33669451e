"""A panel sees the model as it is now, and leaves no trace in it."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import explainers  # before transformers

# isort: split
import transformers

from explainers import ExplainerError
from explainers.training import Panel
from tests.explainers.support.collected import LABELS, picture, tiny_bert
from tests.explainers.support.training import WRAPPING, loss_of, states, tiny_with_dropout

METHODS = ("input_x_gradient", "rollout")


def test_a_view_shows_the_maps_of_the_module_as_it_is() -> None:
    module = tiny_with_dropout()
    panel = Panel({"a": picture(1), "b": picture(2)}, METHODS, {"b": "cat"}, WRAPPING)
    first = panel.view(module)
    assert [image.name for image in first.images] == ["a", "b"]
    assert all(first.figures[f"correlation/{name}/{method}"] == pytest.approx(1) for name in "ab" for method in METHODS)
    model = explainers.wrap(copy.deepcopy(module), **WRAPPING)
    before = explainers.explain(model, picture(2), "cat", list(METHODS))
    assert first.figures["probability/b"] == pytest.approx(float(before.probabilities[LABELS.index("cat")]))
    with torch.no_grad():
        for each in module.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=torch.Generator().manual_seed(0)))
    second = panel.view(module)
    after = explainers.explain(explainers.wrap(copy.deepcopy(module), **WRAPPING), picture(2), "cat", list(METHODS))
    maps = [[each.maps[0].scores[1:].numpy() for each in (before, after)], [each.maps[1].scores[1:].numpy() for each in (before, after)]]
    for method, pair in zip(METHODS, maps, strict=True):
        assert second.figures[f"correlation/b/{method}"] == pytest.approx(np.corrcoef(*pair)[0, 1], abs=1e-4)
    assert second.images[1].caption.startswith(f"b: {after.top(1)[0].label} ")


def test_maps_of_another_class_are_not_compared() -> None:
    module = tiny_with_dropout()
    panel = Panel({"a": picture(1)}, ("rollout",), wrapping=WRAPPING)
    answer = explainers.explain(explainers.wrap(copy.deepcopy(module), **WRAPPING), picture(1), None, "rollout").top(1)[0]
    panel.view(module)
    with torch.no_grad():
        module.head.bias[answer.index] -= 100  # type: ignore[index,union-attr,operator]
    assert list(panel.view(module).figures) == ["probability/a"]


def test_a_view_leaves_everything_as_it_was() -> None:
    module = tiny_with_dropout().train()
    module.blocks[1].eval()  # type: ignore[index,union-attr]
    next(module.parameters()).requires_grad_(False)
    loss_of(module, 0).backward()
    before, gradients = states(module), [each.grad for each in module.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        Panel({"a": picture(1)}, (*METHODS, "random"), wrapping=WRAPPING).view(module)
    assert states(module) == before
    assert all(now is then for now, then in zip((each.grad for each in module.parameters()), gradients, strict=True))


def test_a_view_that_fails_leaves_everything_as_it_was() -> None:
    module = tiny_with_dropout().train()
    before = states(module)
    with pytest.raises(ExplainerError, match="no_such"):
        Panel({"a": picture(1)}, ("no_such",), wrapping=WRAPPING).view(module)
    assert states(module) == before


def test_texts_are_drawn_too(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    view = Panel({"a": "a dull film"}, ("rollout",), wrapping={"tokenizer": tokenizer}).view(model.module)
    assert view.images[0].picture.width > 100
    assert list(view.figures) == ["probability/a", "correlation/a/rollout"]


@pytest.mark.parametrize(
    ("inputs", "methods", "targets", "problem"),
    [({}, METHODS, {}, "at least one input"), ({"a": "x"}, (), {}, "one method"), ({"a": "x"}, METHODS, {"b": "cat"}, "names b")],
)
def test_panels_that_cannot_be_drawn_are_refused(
    inputs: dict[str, str], methods: tuple[str, ...], targets: dict[str, str], problem: str
) -> None:
    with pytest.raises(ExplainerError, match=problem):
        Panel(inputs, methods, targets)
