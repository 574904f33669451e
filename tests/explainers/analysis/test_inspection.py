"""What the heads attend to and what the blocks add, against twins that are written out without the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers import HEAD_QUANTITIES, METHODS, RULES, ExplainerError, Session, contributions, explain, head_maps
from explainers.analysis.inspection import DIGITS
from explainers.models.model import Model
from tests.explainers.support import twins
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

TARGET = 1
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-6}  # the maps are handed out in float32
RELEVANT = ("transformer_attribution_last_block", "partial_lrp:deep_taylor")


def asked(name: str, **how: Any) -> Session:
    return Session(wrapped(name), inputs(name, 1), TARGET, **how)


def twin(name: str, given: Session) -> twins.Pass:
    x1 = given.recording.block_inputs[0].detach()
    module = given.model.module
    rule = RULES["gradient"]
    return twins.vit(module, x1, rule) if name == "vit" else twins.bert(module, x1, rule, given.recording.mask)


@pytest.mark.parametrize("name", ["vit", "bert"])
@pytest.mark.parametrize("quantity", ["attention", "gradient", "product"])
@pytest.mark.parametrize("token", [None, 2])
def test_heads_are_those_of_a_model_written_out(name: str, quantity: str, token: int | None) -> None:
    given = asked(name)
    made = twin(name, given)
    pairs = zip(made.attentions, made.gradients(made.attentions, TARGET), strict=True)
    expected = {"attention": lambda a, g: a, "gradient": lambda a, g: g, "product": lambda a, g: (a * g).clamp(min=0)}[quantity]
    found = head_maps(given, quantity, token=token)
    prefix = 1 if name == "vit" else 0  # a patch counts from the first patch, a word piece from the first token
    row = 0 if token is None else token + prefix
    assert (found.origin, found.token) == ("class_token" if token is None else "token", row)
    for block, (a, g) in enumerate(pairs):
        ours = found.blocks[block]
        assert ours is not None
        torch.testing.assert_close(ours, expected(a, g)[0, :, row].detach().float(), **CLOSE)
    if quantity == "attention":
        torch.testing.assert_close(sum(b.sum(-1) for b in found.blocks.values() if b is not None), torch.full((2,), 2.0))


@pytest.mark.parametrize(("quantity", "method"), [("weighted", RELEVANT[0]), ("relevance", RELEVANT[1])])
def test_relevance_is_what_the_methods_read(quantity: str, method: str) -> None:
    """Both are tested against numbers from published code elsewhere: their last block is that of the strip, mean of the heads."""
    rows = head_maps(asked("vit"), quantity).blocks[1]
    assert rows is not None
    rows = rows.clamp(min=0) if quantity == "relevance" else rows
    scores = explain(wrapped("vit"), inputs("vit", 1), TARGET, method)[method].scores
    torch.testing.assert_close(rows.mean(0), scores, **CLOSE)


def test_a_model_that_pools_is_read_on_average() -> None:
    name = "siglip"
    found = head_maps(asked(name))
    assert (found.origin, found.token) == ("mean", None)
    recording = asked(name).recording
    for block, rows in found.blocks.items():
        assert rows is not None
        a = recording.attentions[block]
        assert a is not None
        torch.testing.assert_close(rows, a[0].mean(1).detach().float(), **CLOSE)


def test_a_causal_model_is_read_from_its_last_token() -> None:
    tensors = inputs("gpt2", 2)
    for sample, length in enumerate(tensors["attention_mask"].sum(1).tolist()):
        own = {key: tensor[sample : sample + 1] for key, tensor in tensors.items()}
        found = head_maps(Session(wrapped("gpt2"), own, TARGET))
        assert (found.origin, found.token) == ("read_token", length - 1)
        first = head_maps(Session(wrapped("gpt2"), own, TARGET), token=0)
        for rows in first.blocks.values():
            assert rows is not None
            assert rows.shape == (2, length)  # padding is left out
            torch.testing.assert_close(rows, torch.eye(length)[:1].expand(2, -1))  # the first token sees itself alone


def test_the_words_of_a_prompt() -> None:
    model = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16))
    pixels = {"pixel_values": FAMILIES["hf-clip"].inputs(1)["pixel_values"]}
    found = head_maps(Session(model, pixels, "a good film", side="text"))
    assert (found.origin, found.grid, found.target) == ("read_token", None, "a good film")
    document = found.to_json()
    assert document["token"] == found.token
    assert len(document["blocks"][0]["heads"][0]["scores"]) == len(found.content)


def test_one_block_and_one_head() -> None:
    whole, part = head_maps(asked("vit")), head_maps(asked("vit"), block=1, head=1)
    assert list(part.blocks) == [1]
    assert part.blocks[1] is not None
    assert whole.blocks[1] is not None
    torch.testing.assert_close(part.blocks[1], whole.blocks[1][1:])


def test_heads_as_json() -> None:
    found = head_maps(asked("vit"), "gradient", token=2)
    document = found.to_json()
    assert (document["token"], document["signed"], document["target"]) == (2, True, "class 1")
    rows, columns = document["grid"]
    rounded = {"rel": 10.0 ** (1 - DIGITS), "abs": 1e-30}
    for one in document["blocks"]:
        block = found.blocks[one["block"]]
        assert block is not None
        for shown, row in zip([*one["heads"], one["mean"]], [*block, block.mean(0)], strict=True):
            assert len(shown["scores"]) == rows * columns
            assert shown["scores"] == pytest.approx(row[1:].tolist(), **rounded)
            assert shown["outside"] == pytest.approx(float(row[0]), **rounded)
            assert all(value == float(f"{value:.4g}") for value in shown["scores"])


def test_blocks_without_attention() -> None:
    with pytest.raises(ExplainerError, match="no heads to look at"):
        head_maps(asked("mixer"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"quantity": "heat"}, "no 'heat' of a head; there are attention, gradient"),
        ({"token": 12}, "no patch 12: there are 12"),
        ({"token": -1}, "no patch -1"),
        ({"block": 2}, "no block 2: there are 2"),
        ({"head": 2}, "no head 2: there are 2"),
    ],
)
def test_what_is_not_there_is_said(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        head_maps(asked("vit"), **how)


def test_every_quantity_says_what_it_is() -> None:
    for one in HEAD_QUANTITIES.values():
        assert one.says.endswith((".", ")."))
        assert one.rule is None or one.rule in RULES


# --- what each block adds --------------------------------------------------------------------------------------------

SUMMED = [name for name, one in METHODS.items() if one.summed and name != "clip_decomposition"]  # that is of prompts, and tested there


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "bert", "gpt2"])
@pytest.mark.parametrize("spec", [*SUMMED, "fullgrad_plus:libra"])
def test_what_the_blocks_add_is_the_map(name: str, spec: str) -> None:
    found = contributions(asked(name), spec)
    scores = explain(wrapped(name), inputs(name, 1), TARGET, spec)[spec].scores
    parts: list[Tensor] = [*found.blocks.values(), *([] if found.rest is None else [found.rest])]
    assert len(found.blocks) == (1 if spec == "attcat" else 2)
    torch.testing.assert_close(torch.stack(parts).sum(0), scores, **CLOSE)
    document = found.to_json()
    total = sum(one["total"] for one in [*document["blocks"], *([document["rest"]] if document["rest"] else [])])
    assert total == pytest.approx(float(scores[found.content].sum()), rel=1e-4, abs=1e-5)


def test_what_a_block_adds_is_its_input_times_gradient() -> None:
    given = asked("vit")
    made = twin("vit", given)
    found = contributions(given, "fullgrad_plus")
    for block, (x, g) in enumerate(zip(made.inputs, made.gradients(made.inputs, TARGET), strict=True)):
        torch.testing.assert_close(found.blocks[block], (x * g).sum(-1)[0].detach().float(), **CLOSE)
    assert found.rest is not None
    torch.testing.assert_close(found.rest, made.bias_terms(TARGET)[0].float(), **CLOSE)


def test_a_method_that_is_no_sum_says_so() -> None:
    with pytest.raises(ExplainerError, match=r"rollout is no sum over the blocks.*gradcam_plus"):
        contributions(asked("vit"), "rollout")


def test_every_sum_over_blocks_is_declared() -> None:
    """A method that keeps its terms says so, and the other way round."""
    model: Model = wrapped("vit")
    given = Session(model, inputs("vit", 1), TARGET, pixels=True)
    for name, one in METHODS.items():
        if one.slow or "patch_features" in one.needs or (one.rule is not None and RULES[one.rule].is_relevance):
            continue
        trace = given.trace(given.chosen[0], None if one.rule is None else RULES[one.rule])
        assert bool(one.read(trace).terms) == one.summed, name
