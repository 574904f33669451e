"""What is explained where a model ends in a softmax or a sigmoid, and maps that are zero everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.models.outputs import like_probabilities, logits_of
from tests.explainers.support.explained import picture
from tests.families import FAMILIES

# isort: split
import transformers

SPECS = ["fullgrad:libra", "input_x_gradient:attnlrp", "generic_attention:libra", "transformer_attribution", "occlusion"]


class WithActivation(nn.Module):
    """A ViT of timm that ends in a function of its logits."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.vit = FAMILIES["vit"].build().double()
        self.pretrained_cfg = self.vit.pretrained_cfg
        self.function = function

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.function(self.vit(pixel_values))


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "F.softmax": (lambda z: F.softmax(z, -1), "softmax"),
    "Tensor.softmax": (lambda z: z.softmax(-1), "softmax"),
    "log_softmax": (lambda z: F.log_softmax(z, dim=-1), "softmax"),
    "nn.Softmax": (nn.Softmax(-1), "softmax"),
    "torch.sigmoid": (torch.sigmoid, "sigmoid"),
    "nn.Sigmoid, then moved": (lambda z: nn.Sigmoid()(z).unsqueeze(1).flatten(1).double(), "sigmoid"),
    "sigmoid in place": (lambda z: z.sigmoid_(), "sigmoid"),
    "sigmoid to bfloat16": (lambda z: z.sigmoid().bfloat16(), "sigmoid"),
    "sigmoid by columns": (lambda z: torch.cat([z[:, :2], z[:, 2:]], 1).sigmoid()[:, None][:, 0, :], "sigmoid"),
    "softmax across memory, then viewed": (lambda z: z.T.contiguous().T.softmax(-1).view(-1).view(z.shape), "softmax"),
    "softmax, and another tensor made of it": (lambda z: (p := z.softmax(-1), p.view(-1))[0], "softmax"),
}
#: Heads that give probabilities of which no function can be taken off.
REMAINING: dict[str, Callable[[Tensor], Tensor]] = {
    "times one": lambda z: z.sigmoid() * 1.0,
    "one of two": lambda z: 1 - z[:, :1].sigmoid(),
    "clamped": lambda z: z[:, :1].sigmoid().clamp(0, 1),
    "no and yes": lambda z: torch.cat([1 - z[:, :1].sigmoid(), z[:, :1].sigmoid()], 1),
    "stacked": lambda z: torch.stack([1 - z[:, 0].sigmoid(), z[:, 0].sigmoid()], 1),
    "columns of a softmax": lambda z: z.softmax(-1)[:, :2],
    "mean of two": lambda z: (z.softmax(-1) + (2 * z).softmax(-1)) / 2,
    "hard sigmoid": F.hardsigmoid,
    "through a view in place": lambda z: (z := z[:, :1].clone(), z[:, 0].sigmoid_())[0],
    "by hand": lambda z: z.exp() / z.exp().sum(-1, keepdim=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_before_the_final_activation_are_explained(name: str) -> None:
    function, kind = FUNCTIONS[name]
    plain = explainers.wrap(WithActivation(lambda z: z))
    model = explainers.wrap(WithActivation(function))
    assert (plain.details["final_activation"], model.details["final_activation"]) == (None, kind)
    tensors = FAMILIES["vit"].inputs(1)
    tensors = {"pixel_values": tensors["pixel_values"].double()}
    with torch.no_grad():
        assert torch.equal(model.forward(tensors), plain.forward(tensors))
    expected, found = (explainers.explain(m, tensors, target=1, methods=SPECS) for m in (plain, model))
    for spec in SPECS:
        assert found[spec].scores.any()
        assert torch.equal(found[spec].scores, expected[spec].scores), spec
    assert found["fullgrad:libra"].completeness_error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", REMAINING)
def test_outputs_that_look_like_probabilities_say_so(name: str) -> None:
    head = WithActivation(REMAINING[name])
    model = explainers.wrap(head)
    assert model.details["final_activation"] is None
    result = explainers.explain(model, image(), 0, "input_x_gradient")
    with torch.no_grad():
        assert float(result.logits[0]) == pytest.approx(float(head(**image())[0, 0]))
    if head(**image()).shape[-1] == 1:  # a value, by the tangent of its curve
        assert model.output == "regression"
        assert any("tangent" in note for note in result.notes)
        return
    (note,) = [note for note in result.to_json()["notes"] if "look like probabilities" in note]
    assert 'output="regression"' in note
    values = explainers.explain(explainers.wrap(WithActivation(REMAINING[name]), output="regression"), image(), 0, "input_x_gradient")
    assert not values.notes
    assert values.target.logit == pytest.approx(result.target.logit)


@pytest.mark.parametrize(
    "function", [lambda z: z, lambda z: z.sigmoid(), lambda z: z.sigmoid() @ torch.eye(z.shape[1], dtype=z.dtype)[:3].T]
)
def test_other_outputs_have_no_such_note(function: Callable[[Tensor], Tensor]) -> None:
    assert not explainers.explain(explainers.wrap(WithActivation(function)), image(), 0, "input_x_gradient").notes


def test_a_value_before_a_sigmoid_says_so() -> None:
    result = explainers.explain(explainers.wrap(WithActivation(torch.sigmoid), output="regression"), image(), 0, "input_x_gradient")
    assert any("ends in a sigmoid" in note and "not the value that the model returns" in note for note in result.notes)


@pytest.mark.parametrize(
    "column",
    [
        lambda z: torch.sigmoid(z[:, 0])[:, None],
        lambda z: torch.sigmoid(z).squeeze(),
        lambda z: torch.sigmoid(z)[:, 0],
        lambda z: z.squeeze(-1),
    ],
)
def test_one_logit_of_any_shape_is_explained_as_a_column(column: Callable[[Tensor], Tensor]) -> None:
    plain, other = Head(1), Head(1, column)
    expected, found = (
        explainers.explain(explainers.wrap(head), image(), [0, 1], ["fullgrad:libra", "transformer_attribution"]) for head in (plain, other)
    )
    assert [t.probability for t in found.targets] == [t.probability for t in expected.targets]
    for ours, theirs in zip(found.maps, expected.maps, strict=True):
        assert ours.scores.any()
        torch.testing.assert_close(ours.scores, theirs.scores)


def test_a_tensor_of_probabilities_that_is_changed_afterwards_is_left_alone() -> None:
    model = WithActivation(lambda z: 2 * torch.sigmoid(z))
    tensors = {"pixel_values": FAMILIES["vit"].inputs(1)["pixel_values"].double()}
    logits, final_activation = logits_of(lambda given: model(**given), tensors)
    assert final_activation is None
    assert not like_probabilities(logits, lambda given: model(**given), tensors)


def test_a_softmax_on_the_way_is_none_of_the_head() -> None:
    """Also where its scores lie in another order of memory than what it gives, which is viewed: as attention may do it."""
    model = explainers.wrap(WithActivation(lambda z: z - z.T.contiguous().T.softmax(-1).view(-1).view(z.shape)))
    assert (model.details["final_activation"], model.head_activation.looks_like_probabilities) == (None, False)


def test_a_map_that_is_zero_everywhere_says_so() -> None:
    model = explainers.wrap(WithActivation(lambda z: 2 * torch.sigmoid(z)).float())
    result = explainers.explain(model, picture(), target=0, methods=["fullgrad_plus:libra", "rollout"])
    empty, full = result.maps
    assert not empty.scores[empty.content].any()
    assert any("zero everywhere" in note for note in empty.notes)
    assert any("zero everywhere" in note for note in empty.to_json()["notes"])
    assert not any("zero everywhere" in note for note in full.notes)


# --- what logits mean -------------------------------------------------------------------------------------------------


class Head(nn.Module):
    """A ViT of timm with another number of outputs, and a function of these."""

    def __init__(self, classes: int, function: Callable[[Tensor], Tensor] = lambda z: z) -> None:
        super().__init__()
        self.vit = FAMILIES["vit"].build().double()
        self.pretrained_cfg = self.vit.pretrained_cfg
        torch.manual_seed(0)
        self.vit.reset_classifier(classes)
        self.vit.double()
        self.function = function

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.function(self.vit(pixel_values))


def image() -> dict[str, Tensor]:
    return {"pixel_values": FAMILIES["vit"].inputs(1)["pixel_values"].double()}


def test_one_logit_makes_two_classes() -> None:
    head = Head(1)
    model = explainers.wrap(head, labels=["fracture"])
    assert (model.output, model.labels, model.details["classes"]) == ("sigmoid", ["fracture", "no fracture"], 2)
    assert explainers.wrap(head, output="regression").details["classes"] is None
    z = float(head(**image()).detach())
    result = explainers.explain(
        model, image(), ["fracture", "no fracture"], ["input_x_gradient", "fullgrad:libra", "transformer_attribution"]
    )
    yes, no = result.targets
    assert (yes.logit, no.logit) == (pytest.approx(z), pytest.approx(-z))
    assert yes.probability == pytest.approx(torch.tensor(z).sigmoid().item())
    assert (yes.probability or 0) + (no.probability or 0) == pytest.approx(1)
    assert result.top()[0].label == ("fracture" if z > 0 else "no fracture")
    for spec in ("input_x_gradient", "fullgrad:libra"):
        torch.testing.assert_close(result[spec, "fracture"].scores, -result[spec, "no fracture"].scores)
    assert result["fullgrad:libra", "no fracture"].completeness_error == pytest.approx(0, abs=1e-9)
    both = [result["transformer_attribution", label].scores for label in ("fracture", "no fracture")]
    assert all(one.any() for one in both)
    assert not torch.allclose(*both, rtol=0.1)


def test_relevance_of_no_is_that_of_a_layer_with_the_opposite_weights() -> None:
    head = Head(1)
    model = explainers.wrap(head)
    opposite = Head(1)
    opposite.load_state_dict(head.state_dict())
    with torch.no_grad():
        opposite.vit.head.weight.neg_()
        opposite.vit.head.bias.neg_()
    ours = explainers.explain(model, image(), 1, ["lrp", "transformer_attribution"])
    theirs = explainers.explain(explainers.wrap(opposite), image(), 0, ["lrp", "transformer_attribution"])
    for one, other in zip(ours.maps, theirs.maps, strict=True):
        torch.testing.assert_close(one.scores, other.scores)


def test_a_single_sigmoid_is_taken_off_before_it_makes_two_classes() -> None:
    model = explainers.wrap(WithActivation(lambda z: torch.sigmoid(z[:, :1])), labels=["here", "gone"])
    assert (model.output, model.details["final_activation"], model.labels) == ("sigmoid", "sigmoid", ["here", "gone"])
    with torch.no_grad():
        z = explainers.wrap(WithActivation(lambda z: z)).forward(image())[:, :1]
        assert torch.equal(model.forward(image()), torch.cat([z, -z], 1))


def test_several_labels_have_each_its_own_probability() -> None:
    model = explainers.wrap(Head(5), output="sigmoid")
    result = explainers.explain(model, image(), [explainers.Probability(2), 2], "input_x_gradient")
    assert torch.equal(result.probabilities, result.logits.sigmoid())
    assert result.to_json()["output"] == "sigmoid"
    p = float(result.probabilities[2])
    assert result.targets[0].probability == pytest.approx(p)
    torch.testing.assert_close(result.maps[0].scores, p * (1 - p) * result.maps[1].scores)


def test_a_value_has_no_probability() -> None:
    model = explainers.wrap(Head(2), output="regression", labels=["age", "height"])
    result = explainers.explain(model, image(), "height", "input_x_gradient")
    assert result.target.probability is None
    assert all("probability" not in one for one in result.to_json()["top"])
    with pytest.raises(ExplainerError, match="values, not probabilities"):
        explainers.explain(model, image(), explainers.Probability("age"), "random")
    with pytest.raises(ExplainerError, match="softmax, sigmoid, regression"):
        explainers.wrap(Head(2), output="values")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "labels", "expected"),
    [(None, 3, "softmax"), (None, 1, "regression"), ("regression", 3, "regression"), ("multi_label_classification", 3, "sigmoid")],
)
def test_the_configuration_of_transformers_says_what_logits_mean(problem: str | None, labels: int, expected: str) -> None:
    config = transformers.BertConfig(
        vocab_size=32, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8, max_position_embeddings=16
    )
    config.num_labels, config.problem_type = labels, problem
    assert explainers.wrap(transformers.BertForSequenceClassification(config)).output == expected
