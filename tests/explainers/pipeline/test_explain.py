"""The public face: which methods explain runs, what it says along the way, what it refuses and what it promises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import Cancelled, ExplainerError, explain
from explainers.methods import METHODS
from explainers.records.result import Attribution, Explanation
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Block, Vit, built, pixels
from tests.explainers.support.explained import LABELS, TEXT, image_model, picture, text_model
from tests.explainers.support.toys import toy
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES

# --- methods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([], "empty"),
        ("roll_out", "did you mean rollout"),
        ("qqqq", "there are raw_attention"),
        ("rollout:libra", "no backward signal"),
        ("hirescam:nonsense", "no rule 'nonsense'"),
        ("transformer_attribution:libra", "makes no sense"),
        ("hirescam:deep_taylor", "makes no sense|choose one of"),
        ("rollout?start=1", "no option 'start'"),
        ("rollout?start_layer=x", "whole number"),
        ("rollout?start_layer=1.5", "whole number"),
        ("rollout?start_layer=999", "whole number from -2 to 1"),
        ("transformer_attribution?start_layer=-3", "whole number from -2 to 1"),
        ("legrad?layers=3", "whole number from 1 to 2"),
        ("rollout?start_layer=0&start_layer=1", "twice"),
        ("rollout?start_layer", "write options as"),
        ("attcat?published_code=perhaps", "true or false"),
        ("integrated_gradients?steps=0", "whole number from 2 to 1000"),
        ("integrated_gradients?steps=nan", "whole number"),
        ("", "empty"),
        (":libra", "no method"),
        ("hirescam:", "no method"),
    ],
)
def test_wrong_specs(methods: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explain(image_model(), picture(), methods=methods)


def test_specs_are_taken_once_and_trimmed() -> None:
    result = explain(image_model(), picture(), methods=["rollout", " rollout ", "random"])
    assert result.methods == ["rollout", "random"]
    assert len(result.maps) == 2


@pytest.mark.parametrize("name", ["vit", "hf-vit"])
@pytest.mark.parametrize("shape", [(3, 10, 10), (1, 32, 24), (3, 64, 64)])
def test_tensors_of_a_size_that_the_model_cannot_take(name: str, shape: tuple[int, ...]) -> None:
    model = wrapped(name)
    height, width = model.details["input"]
    with pytest.raises(ExplainerError, match=rf"pixel_values of {'x'.join(map(str, shape))} .*: send 3x{height}x{width}"):
        explain(model, {"pixel_values": torch.zeros(1, *shape)}, methods="rollout")


def test_what_is_spelt_in_several_ways_is_computed_once_and_found_by_each() -> None:
    spellings = ["hirescam", "hirescam:gradient", "hirescam?integrated=0", "hirescam:gradient?integrated=0"]
    others = ["hirescam:libra", "hirescam?integrated=3", "rollout?start_layer=0", "rollout"]
    result = explain(image_model(), picture(), methods=[*spellings, *others])
    assert [attribution.method for attribution in result.maps] == result.methods == [spellings[0], *others[:3]]
    assert all(result[spec] is result.maps[0] for spec in spellings)
    assert result["rollout"] is result["rollout?start_layer=0"]
    assert explain(image_model(), picture(), methods="hirescam:gradient")["hirescam:gradient"].method == "hirescam:gradient"


def test_different_rules_without_a_name_have_a_map_each() -> None:
    model, changes = image_model(), [{"norm": "constant", "attention": "half"}, {"norm": "identity"}]
    rules = [explainers.Rule(**change) for change in changes]  # type: ignore[arg-type]
    result = explain(model, picture(), methods=[("input_x_gradient", rule) for rule in [*rules, rules[1]]] + [("hirescam", rules[1])])
    assert result.methods == ["input_x_gradient:custom", "input_x_gradient:custom-2", "hirescam:custom-2"]
    for spec, rule in zip(result.methods, [*rules, rules[1]], strict=True):
        alone = explain(model, picture(), methods=[(spec.partition(":")[0], rule)]).maps[0]
        assert torch.equal(result[spec].scores, alone.scores)
        assert result[spec].rule == spec.partition(":")[2]
    assert not torch.equal(result.maps[0].scores, result.maps[1].scores)


@pytest.mark.parametrize("model", [image_model, text_model], ids=["image", "text"])
def test_without_methods_the_usual_ones_run(model: Any) -> None:
    found = explain(model(), picture() if model is image_model else TEXT)
    assert found.methods == explainers.default_methods(model())
    assert {"rollout", "transformer_attribution", "fullgrad_plus:libra"} <= set(found.methods)
    assert len(found.maps) == len(found.methods)
    for one in found.maps:
        assert bool(one.scores.isfinite().all())
        assert one.title
        assert one.source.authors or one.method == "random"


@pytest.mark.parametrize("name", ["siglip", "eva02"])
def test_methods_of_the_classification_token_are_refused_where_there_is_none(name: str) -> None:
    model = image_model(name)
    for spec in ("raw_attention", "rollout", "transformer_attribution", "generic_attention"):
        with pytest.raises(ExplainerError, match="no classification token"):
            explain(model, picture(), methods=["random", spec])
    reasons = {v.spec: v.reason for v in explainers.variants(model)}
    assert "classification token" in str(reasons["rollout"])
    assert reasons["attcat"] is None
    assert reasons["fullgrad_plus:libra"] is None
    assert not {"rollout", "raw_attention"} & set(explainers.default_methods(model))
    assert explain(model, picture(), methods=["attcat", "fullgrad_plus:libra"]).maps


def test_methods_of_attention_are_refused_for_a_mixer() -> None:
    model = image_model("mixer")
    for spec in ("rollout", "attcat"):
        with pytest.raises(ExplainerError, match="attention"):
            explain(model, picture(), methods=spec)
    runs = [v.spec for v in explainers.variants(model) if v.reason is None]
    assert {"hirescam", "fullgrad:libra", "lrp:deep_taylor", "random"} <= set(runs)


def test_variants_without_a_model_have_no_reasons_and_unique_specs() -> None:
    listed = explainers.variants()
    assert all(v.reason is None for v in listed)
    assert len({v.spec for v in listed}) == len(listed)
    assert {v.method_name for v in listed} == set(METHODS)


# --- along the way --------------------------------------------------------------------------------------------------


class Watcher:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_prediction(self, explanation: Explanation) -> None:
        assert explanation.maps == []
        assert explanation.targets
        assert explanation.top()
        self.seen.append("prediction")

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        assert explanation.maps[-1] is attribution
        self.seen.append(f"{attribution.method} {attribution.target}")


def test_the_observer_hears_the_prediction_first_and_each_map_in_order() -> None:
    watcher = Watcher()
    explain(image_model(), picture(), target=["dog", "fork"], methods=["random", "rollout"], observer=watcher)
    assert watcher.seen == ["prediction", "random dog", "rollout dog", "random fork", "rollout fork"]


@pytest.mark.parametrize("after", [0, 1, 3])
def test_cancelling_stops_at_the_next_question(after: int) -> None:
    watcher, asked = Watcher(), []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > after

    with pytest.raises(Cancelled):
        explain(image_model(), picture(), methods=["random", "rollout", "hirescam", "attcat"], observer=watcher, cancelled=cancelled)
    assert len(asked) == after + 1
    assert len(watcher.seen) == max(0, after)


def test_cancelling_is_asked_inside_a_dear_method() -> None:
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(Cancelled):
        explain(image_model(), picture(), methods="integrated_gradients?steps=200", cancelled=cancelled)


@pytest.mark.parametrize("name", ["vit", "siglip", "bert", "mixer"])
def test_completeness(name: str) -> None:
    model = text_model() if name == "bert" else image_model(name)
    shown: Any = TEXT if name == "bert" else picture()
    result = explain(model, shown, target=1, methods=["fullgrad:libra", "fullgrad", "input_x_gradient:libra"])
    scale = float(result.logits.abs().max())
    assert result.completeness("libra") < 1e-4 * scale
    assert result.completeness("gradient") > 1e-3 * scale
    error = result["fullgrad:libra"].completeness_error
    assert error is not None
    assert error < 1e-4 * scale
    plain = result["fullgrad"].completeness_error
    assert plain == pytest.approx(result.completeness("gradient"), rel=1e-2)
    own = result["input_x_gradient:libra"].completeness_error
    assert own == pytest.approx(abs(result.target.logit - float(result["input_x_gradient:libra"].scores.sum())), rel=1e-3)
    for rule in ("deep_taylor", "lrp", "nonsense"):
        with pytest.raises(ExplainerError, match="carries gradients"):
            result.completeness(rule)


def test_completeness_of_one_of_a_padded_batch() -> None:
    for result in explain(text_model(), ["a good film", TEXT], methods="random"):
        assert result.completeness("libra") < 1e-4 * float(result.logits.abs().max())


def test_numbers_that_are_not_finite_are_refused() -> None:
    model = toy(lambda x: torch.cat([x.flatten(1), (x * 1e300 * 1e300).flatten(1)], 1))
    x = torch.ones(2, 3, 4, dtype=torch.float64)
    with pytest.raises(ExplainerError, match=r"not finite.*: check the weights"):
        explain(model, {"x": x}, target=20, methods="input_x_gradient")


def test_numbers_that_are_not_finite_though_the_answer_is_are_not_blamed_on_the_weights() -> None:
    def running(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        """Attention key by key, with the largest score so far."""
        most, total, given = torch.full_like(q[..., :1], -torch.inf), torch.zeros_like(q[..., :1]), torch.zeros_like(q)
        for keys in (slice(0, 9), slice(9, None)):
            scores = q @ k[:, :, keys].mT / q.shape[-1] ** 0.5
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            weights, before = (scores - now).exp(), (most - now).exp()
            total, given, most = total * before + weights.sum(-1, keepdim=True), given * before + weights @ v[:, :, keys], now
        return given / total

    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(running)) for _ in range(2)]))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    with pytest.raises(ExplainerError, match=r"weights are not at fault\. Vit has blocks without an attention map"):
        explainers.explain(model, {"pixel_values": pixels()}, 1, ["decompx"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_input_with_numbers_that_are_not_finite_is_refused_by_name(value: float) -> None:
    tensors = FAMILIES["vit"].inputs(2)
    tensors["pixel_values"][1, 0, 3, 3] = value
    with pytest.raises(ExplainerError, match="pixel_values holds numbers that are not finite"):
        explain(wrapped("vit"), tensors, target=0, methods="input_x_gradient")


def test_the_versions_and_the_digest_that_numbers_depend_on() -> None:
    result = explain(image_model(), picture(), methods="random")
    assert {"python", "torch", "timm", "transformers", "vitrine"} <= set(result.versions)
    assert result.weights_digest == image_model().weights_digest
    assert len(result.weights_digest) == 64
    other = explainers.wrap(FAMILIES["vit"].build(seed=1))
    assert other.weights_digest != image_model().weights_digest


# --- the promise ----------------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A Transformer of a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 8, 8)
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)))
        self.head = nn.Linear(8, 5)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.patch(pixel_values).flatten(2).transpose(1, 2)
        return self.head(self.blocks(x).mean(1))


def test_a_users_own_module_under_every_rule_that_a_method_knows() -> None:
    torch.manual_seed(0)
    from explainers.models.inputs.images import Preprocessing

    model = explainers.wrap(Small().eval(), kind="image", labels=LABELS, preprocess=Preprocessing(resize=(32, 32), fit="squash"))
    runs = [v.spec for v in explainers.variants(model) if v.reason is None and not v.slow]
    result = explain(model, picture(), target="dog", methods=runs)
    assert result.completeness("libra") < 1e-5
    assert len(result.maps) == len(runs)


def test_explaining_leaves_the_model_as_it_was() -> None:
    model = wrapped("bert")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    explain(model, inputs("bert"), target=0, methods=["transformer_attribution", "integrated_gradients?steps=2", "fullgrad:libra"])
    assert all(p.grad is None for p in model.module.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.module.state_dict().items())


def test_what_a_map_promises_holds_and_nothing_else_is_promised() -> None:
    """Exactly where the scores promise the explained number they sum to it; with the ordinary gradient they do not, and say so."""
    model = image_model()
    specs = ["fullgrad:libra", "fullgrad", "input_x_gradient:libra", "input_x_gradient:libra?at=pixels", "integrated_gradients?steps=200"]
    result = explain(model, picture(), methods=specs)
    found = {one.method: one for one in result.maps}
    scale = max(1.0, abs(result.target.logit))
    assert found["fullgrad:libra"].adds_up_to == "the explained number"
    assert (found["fullgrad:libra"].completeness_error or 0) < 1e-4 * scale
    assert found["fullgrad"].adds_up_to is None
    assert (found["fullgrad"].completeness_error or 0) > 1e-3 * scale
    assert "biases" in (found["input_x_gradient:libra"].adds_up_to or "")
    assert found["input_x_gradient:libra?at=pixels"].adds_up_to is None
    assert "empty input" in (found["integrated_gradients?steps=200"].adds_up_to or "")
    assert (found["integrated_gradients?steps=200"].completeness_error or 0) < 1e-2 * scale
    assert found["fullgrad"].to_json()["adds_up_to"] is None


def test_what_is_shown_of_a_model_and_of_results_is_short() -> None:
    model = image_model()
    result = explain(model, picture(), 1, ["random", "fullgrad_plus:libra"])
    assert repr(model) == f"<Model {model.name}: image, 5 classes, {len(model.blocks)} blocks on cpu>"
    assert repr(result) == f"<Explanation of 'elephant' by {model.name}: 2 maps>"
    rows, columns = result.maps[0].patches or (0, 0)
    assert repr(result.maps[0]) == f"<Attribution random of 'elephant' over {rows} x {columns} patches>"


def test_methods_may_be_one_text_with_commas() -> None:
    result = explain(image_model(), picture(), 1, "random, fullgrad_plus:libra")
    assert [one.method for one in result.maps] == ["random", "fullgrad_plus:libra"]
    with pytest.raises(ExplainerError, match="list of methods is empty"):
        explain(image_model(), picture(), 1, " , ")
    with pytest.raises(ExplainerError, match="There is no rule 'lbra'; did you mean libra"):
        explain(image_model(), picture(), 1, "fullgrad_plus:lbra")
