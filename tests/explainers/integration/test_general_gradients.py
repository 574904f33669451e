"""Methods whose gradients are averaged along a path, and methods of models that pool their tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods import METHODS
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, one_hot, wrapped

STEPS = 5


def scores(name: str, *specs: str) -> list[Tensor]:
    result = explainers.explain(wrapped(name), inputs(name, 2), target=TARGET, methods=list(specs))
    return [result[1][spec].scores.double() for spec in specs]


def along_the_path(name: str, rule: str, points: np.ndarray, weights: np.ndarray) -> tuple[Recording, dict[str, list[Tensor]]]:
    """The pass of the second sample, and its mean signals, one pass a point."""
    model, tensors = wrapped(name), {key: value[1:] for key, value in inputs(name, 2).items()}
    total: dict[str, list[Tensor]] = {}
    for point, weight in zip(points, weights, strict=True):
        recording = Recording(model, tensors, entry=lambda x, point=point: x * float(point))  # type: ignore[misc]
        found = recording.cached_backward(RULES[rule], one_hot(recording, TARGET))
        for key in ("block_inputs", "attentions", "contexts", "bias"):
            several = [found.bias] if key == "bias" else list(getattr(found, key))
            total[key] = [old + weight * new for old, new in zip(total.get(key, [torch.zeros(())] * len(several)), several, strict=True)]
    return Recording(model, tensors), total


def gauss(steps: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


def close(ours: Tensor, expected: Tensor) -> None:
    expected = expected.detach()
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_integrated_input_times_gradient_is_integrated_gradients(name: str) -> None:
    ours, theirs = scores(name, f"input_x_gradient?integrated={STEPS}", f"integrated_gradients?steps={STEPS}")
    close(ours, theirs)


@pytest.mark.parametrize("rule", ["gradient", "libra"])
def test_fullgrad_plus_with_integrated_gradients(rule: str) -> None:
    recording, mean = along_the_path("vit", rule, *gauss(STEPS))
    pairs = zip(recording.block_inputs, mean["block_inputs"], strict=True)
    expected = torch.stack([(x * g).sum(-1) for x, g in pairs]).sum(0) + mean["bias"][0]
    close(scores("vit", f"fullgrad_plus:{rule}?integrated={STEPS}")[0], expected[0])


def test_generic_attention_with_integrated_gradients() -> None:
    recording, mean = along_the_path("vit", "gradient", *gauss(STEPS))
    eye = torch.eye(recording.block_inputs[0].shape[1], dtype=torch.float64)
    joint = eye
    for a, g in zip(recording.attentions, mean["attentions"], strict=True):
        assert a is not None
        joint = (eye + (a * g).clamp(min=0).mean(1)[0]) @ joint
    close(scores("vit", f"generic_attention?integrated={STEPS}")[0], joint[0])


def test_grad_eclip_with_integrated_gradients() -> None:
    """The mean gradient stands in the place of the gradient; the cosines of query and keys, as the plain map has them, stay."""
    recording, mean = along_the_path("vit", "gradient", *gauss(STEPS))
    plain = recording.cached_backward(RULES["gradient"], one_hot(recording, TARGET)).contexts[-1]
    parts = recording.parts[-1]
    assert plain is not None
    assert parts is not None
    before, after = ((gradient[:, :, :1] * parts.value.detach()).sum((1, 3))[0] for gradient in (plain, mean["contexts"][-1]))
    ours, integrated = scores("vit", "grad_eclip", f"grad_eclip?integrated={STEPS}")
    known = before > 1e-6 * before.abs().max()
    known[0] = False  # the classification token stands for no patch
    assert known.sum() > 2
    close(integrated[known], (ours / before * after).clamp(min=0)[known])
    assert not torch.allclose(integrated, ours, rtol=0.01)
    with pytest.raises(ExplainerError, match="leave one of them out"):
        scores("vit", "grad_eclip?integrated=3&single_head=true")


def test_the_riemann_sum_of_the_papers() -> None:
    points = np.arange(1, STEPS + 1) / STEPS
    recording, mean = along_the_path("vit", "gradient", points, np.full(STEPS, 1 / STEPS))
    expected = (recording.block_inputs[0] * mean["block_inputs"][0]).sum(-1)
    close(scores("vit", f"integrated_gradients?quadrature=riemann&steps={STEPS}")[0], expected[0])


def test_the_path_is_one_of_tokens() -> None:
    with pytest.raises(ExplainerError, match="at the embedded tokens"):
        scores("vit", "input_x_gradient?integrated=3&at=pixels")


# --- pooled heads ---------------------------------------------------------------------------------------------------

ROWS = ["raw_attention", "rollout", "generic_attention", "gradcam_attention", "token_tm", "transformer_attribution", "partial_lrp"]


def pooled(name: str) -> Recording:
    return Recording(wrapped(name), {key: value[1:] for key, value in inputs(name, 2).items()})


@pytest.mark.parametrize("name", ["eva02", "beitv2"])
def test_the_row_of_a_class_token_that_the_head_does_not_read(name: str) -> None:
    model = wrapped(name)
    reason = next(v.reason for v in explainers.variants(model) if v.spec == "rollout")
    assert "row=class_token" in str(reason)
    result = explainers.explain(model, inputs(name, 2), target=TARGET, methods=[f"{spec}?row=class_token" for spec in ROWS])[1]
    attention = pooled(name).attentions[-1]
    assert attention is not None
    close(result["raw_attention?row=class_token"].scores.double(), attention.mean(1)[0, 0])
    for one in result.maps:
        # what the head does not read has no gradient in the last block: those methods say that their map is empty
        last = one.method_name in ("gradcam_attention", "partial_lrp")
        assert bool(one.scores[one.content].any()) != last
        assert any("zero everywhere" in note for note in one.notes) == last
        assert any("class token, although the head of this model pools all tokens" in note for note in one.notes), one.method


@pytest.mark.parametrize("name", ["eva02", "siglip"])
def test_the_mean_over_all_tokens(name: str) -> None:
    model = wrapped(name)
    result = explainers.explain(model, inputs(name, 2), target=TARGET, methods=[f"{spec}?row=mean" for spec in ROWS])[1]
    halves = [a.mean(1)[0] for a in pooled(name).attentions if a is not None]
    joint = torch.eye(len(halves[0]), dtype=torch.float64)
    for half in halves:
        joint = (half + torch.eye(len(half))) / 2 @ joint
    close(result["rollout?row=mean"].scores.double(), joint.mean(0))
    for one in result.maps:
        assert any("mean over the rows of all tokens" in note for note in one.notes), one.method


def test_every_row_that_is_offered_is_read() -> None:
    offered = [f"{name}?row={row}" for name, method in METHODS.items() if "row" in method.options for row in method.options["row"].choices]
    assert {"attention_flow?row=class_token", "grad_eclip?row=mean"} <= set(offered)
    result = explainers.explain(wrapped("eva02"), inputs("eva02", 2), target=TARGET, methods=offered)[1]
    assert [one.method for one in result.maps] == offered
    assert all("row=" in one.method and one.notes for one in result.maps)


def test_padding_counts_for_nothing_in_the_mean() -> None:
    second = {key: value[1:] for key, value in inputs("bert", 2).items()}
    alone = explainers.explain(wrapped("bert"), second, target=TARGET, methods=["rollout?row=mean"])
    both = explainers.explain(wrapped("bert"), inputs("bert", 2), target=TARGET, methods=["rollout?row=mean"])[1]
    close(both.maps[0].scores.double(), alone.maps[0].scores.double())


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("siglip", "rollout?row=class_token", "no classification token"),
        ("eva02", "attention_flow?row=mean", "one of class_token"),
        ("eva02", "transformer_attribution?published_code=true&row=mean", "leave published_code or row=mean out"),
    ],
)
def test_rows_that_are_not_there(name: str, spec: str, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        scores(name, spec)
