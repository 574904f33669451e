"""What a map of Integrated Gradients says of its own integral."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import METHODS
from explainers.records.result import Attribution
from tests.explainers.support.pair import TARGET
from tests.explainers.support.wrapped import inputs, wrapped


def maps(spec: str) -> list[Attribution]:
    results = explainers.explain(wrapped("vit"), inputs("vit", 3), target=TARGET, methods=[spec])
    return [result.maps[0] for result in results]


@pytest.mark.parametrize("quadrature", ["gauss_legendre", "riemann"])
@pytest.mark.parametrize("at", ["tokens", "pixels"])
def test_integrated_gradients_say_how_much_of_the_difference_they_miss(quadrature: str, at: str) -> None:
    spec = f"integrated_gradients?quadrature={quadrature}&at={at}&steps="
    whole = [float(one.scores.sum()) for one in maps(f"integrated_gradients?at={at}&steps=300")]  # what the scores add up to in the end
    missing = 0
    for steps in (2, 40):
        for one, difference in zip(maps(f"{spec}{steps}"), whole, strict=True):
            assert one.completeness_error is not None
            notes = [note for note in one.notes if note.startswith("The scores should add up to ")]
            is_missing = one.completeness_error > 0.05 * abs(difference)
            assert len(notes) == is_missing
            missing += is_missing
            if notes:
                assert f"by {one.completeness_error:.2g}" in notes[0]
                assert notes[0].endswith(f"raise steps, now {steps}.")
    assert missing


def test_a_rule_under_which_no_number_of_steps_adds_up_is_not_asked_for_more() -> None:
    assert all("raise steps" not in note for one in maps("integrated_gradients:libra?steps=2") for note in one.notes)


@pytest.mark.parametrize("name", ["vit", "bert", "swin"])
def test_a_path_at_a_block_adds_up_to_what_the_model_says_less_what_it_says_there_without_tokens(name: str) -> None:
    """The twin replaces what the block takes by a hook: the answer to zeros there is what the scores leave out."""
    model, tensors = wrapped(name), inputs(name, 1)
    found = explainers.explain(model, tensors, target=TARGET, methods=["integrated_gradients?at=block:1&steps=300"])
    one = (found[0] if isinstance(found, list) else found).maps[0]

    def without(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (torch.zeros_like(args[0]), *args[1:])

    with torch.no_grad():
        whole = float(model.forward(tensors)[0, TARGET])
        handle = model.blocks[1].register_forward_pre_hook(without)
        empty = float(model.forward(tensors)[0, TARGET])
        handle.remove()
    assert float(one.scores.double().sum()) == pytest.approx(whole - empty, abs=1e-4)
    assert one.completeness_error == pytest.approx(0, abs=1e-4)
    assert abs(whole - empty) > 1e-2


def test_a_path_at_a_block_is_the_gradient_there_times_the_token() -> None:
    """By autograd on the second block alone, at the points of the plain sum."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    found = explainers.explain(model, tensors, target=TARGET, methods=["integrated_gradients?at=block:-1&quadrature=riemann&steps=4"])
    one = (found[0] if isinstance(found, list) else found).maps[0]
    taken: list[torch.Tensor] = []
    handle = model.blocks[1].register_forward_pre_hook(lambda module, args: taken.append(args[0].detach()))
    with torch.no_grad():
        model.forward(tensors)
    handle.remove()
    (tokens,), module = taken, model.module
    total = torch.zeros_like(tokens)
    for point in (0.25, 0.5, 0.75, 1.0):
        moved = (point * tokens).requires_grad_()
        logit = module.forward_head(module.norm(model.blocks[1](moved)))[0, TARGET]
        total += torch.autograd.grad(logit, moved)[0] / 4
    torch.testing.assert_close(one.scores.double(), (tokens * total).sum(-1)[0], rtol=1e-5, atol=1e-7)


def test_block_0_of_a_clip_is_behind_the_norm_that_follows_its_embedding() -> None:
    """Before that norm the path is another one: the norm takes all of it to nearly the same tokens."""
    pixels = {"pixel_values": inputs("hf-clip-classifier", 1)["pixel_values"]}
    found = explainers.explain(
        wrapped("hf-clip-classifier"), pixels, target=TARGET, methods=["integrated_gradients", "integrated_gradients?at=block:0"]
    )
    at_tokens, at_block = (found[0] if isinstance(found, list) else found).maps
    assert float((at_tokens.scores - at_block.scores).abs().max()) > 1e-3


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("block:2", "Option at='2' is not a whole number from -2 to 1"),
        ("block:", "Option at='' is not a whole number"),
        ("block", "is not one of tokens, pixels, or block:N, with N a block of the model counted from 0"),
    ],
)
def test_a_block_that_is_not_there_is_refused_with_those_that_are(at: str, says: str) -> None:
    with pytest.raises(explainers.ExplainerError, match=says):
        maps(f"integrated_gradients?at={at}")


def test_noise_has_no_place_at_a_block_and_padding_is_for_texts_there_too() -> None:
    assert "block:" not in METHODS["smoothgrad"].options["at"].allowed  # noise is drawn at the input alone
    with pytest.raises(explainers.ExplainerError, match="baseline=pad is for texts"):
        maps("integrated_gradients?at=block:1&baseline=pad")
