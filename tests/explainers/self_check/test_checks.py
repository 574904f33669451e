"""A check fails where something is wrong, and every explanation says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError, Preprocessing
from explainers.errors import MemoryShortageError, is_memory_shortage
from explainers.models.catalogue import embedded_names
from explainers.models.model import Model
from explainers.models.opening.open_model import open_model
from explainers.models.structure.repeating import why_not_repeatable
from explainers.records import session
from explainers.self_check import checks
from explainers.self_check.opening import check_model
from explainers.self_check.sample import picture
from tests.support.own_models.case import text_model, vit
from tests.support.vocabularies import wordpiece


def opened(**how: Any) -> Model:
    return open_model(vit(), **how).model


def failed(model: Model, twin: nn.Module | None = None) -> dict[str, str]:
    report = check_model(model, twin).report
    assert report is not None
    return {check.name: check.detail for check in report.failures}


def test_a_whole_model_fails_nothing() -> None:
    assert not failed(opened())


@pytest.mark.parametrize(("place", "name"), [(session, "check_memory"), (checks, "_logits")], ids=["the recording", "a check"])
def test_too_little_memory_is_no_failure_of_the_model(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    """An estimate that forbids a pass: it would stand in the notes of every map for as long as the model is loaded."""

    def full(*given: Any, **how: Any) -> None:
        raise MemoryShortageError("This needs about 9 GB, and 2 GB are free.")

    monkeypatch.setattr(place, name, full)
    with pytest.raises(MemoryShortageError):
        check_model(opened())


def test_a_shortage_is_recognised_through_what_it_was_turned_into() -> None:
    error = ExplainerError("cat.jpg cannot be explained")
    assert not is_memory_shortage(error)
    error.__cause__ = MemoryShortageError("This needs about 9 GB.")
    assert is_memory_shortage(error)
    error.__cause__ = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")
    assert is_memory_shortage(error)


def test_other_logits_than_the_modules_are_found() -> None:
    model = opened()
    calls: list[int] = []

    def off(tensors: Any) -> Tensor:
        calls.append(1)
        return model.forward(tensors) * (1.01 if len(calls) == 1 else 1)  # the first call is the recorded one

    assert "logits" in failed(replace(model, forward=off))


def test_a_twin_that_answers_otherwise_is_found() -> None:
    twin = vit()
    with torch.no_grad():
        twin.head.bias.add_(1)  # type: ignore[union-attr, operator]
    assert "of the largest of logits" in failed(opened(), twin)["logits"]


def test_another_preparation_than_timms_is_found() -> None:
    model = opened()
    other = opened(preprocess=Preprocessing(resize=(160, 160), fit="squash", mean=(0.0, 0.0, 0.0)))
    assert "same as timm's eval transform: no" in failed(replace(model, prepare_input=other.prepare_input))["library"]


def test_other_probabilities_than_the_pipelines_are_found() -> None:
    model = open_model(text_model(), tokenizer=wordpiece()).model
    assert not failed(model)
    other = replace(model, prepare_input=lambda inputs: model.prepare_input("a bad film"))
    assert "same as transformers' pipeline: no" in failed(other)["library"]


class Squared(torch.autograd.Function):
    """A function whose backward is not its derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def backward(ctx: Any, signal: Tensor) -> Tensor:
        return signal


class Curved(nn.Module):
    """Its logits pass a curve that no rule accounts for."""

    def __init__(self) -> None:
        super().__init__()
        self.net = vit()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = Squared.apply(self.net(x))
        return out


def test_what_libra_does_not_account_for_is_said_at_every_explanation() -> None:
    how: Any = {"kind": "image", "preprocess": Preprocessing(resize=(160, 160), fit="squash")}
    model = explainers.open(Curved().eval(), **how)
    assert model.report is not None
    assert [check.name for check in model.report.failures] == ["completeness"]
    result = explainers.explain(model, picture(), methods="saliency")
    assert any(note.startswith(f"When {model.name} was opened, a check failed. FullGrad under Libra") for note in result.notes)


def test_a_sum_that_misses_nothing_speaks_of_no_rounding() -> None:
    assert checks._say_sum(3.25, 0.0) == "3.25"
    assert checks._say_sum(-3.25, 2e-7) == "-3.25, but for 2e-07 of rounding"


def test_a_model_that_gives_no_finite_numbers_fails() -> None:
    module = vit()
    with torch.no_grad():
        module.head.bias.fill_(torch.nan)  # type: ignore[union-attr, operator]
    assert failed(open_model(module).model)


def test_each_method_is_asked_where_all_is_wanted() -> None:
    model = explainers.open(text_model(), tokenizer=wordpiece(), check="all")
    assert model.report is not None
    by_name = {check.name: check for check in model.report.checks}
    assert set(explainers.METHODS) <= set(by_name)
    assert not model.report.failures, str(model.report)
    assert by_name["conservation"].state == "passed"
    assert by_name["grad_eclip"].state in ("passed", "not asked")
    assert any(check.state == "not asked" and check.detail for check in by_name.values())


def test_no_check_is_made_where_none_is_wanted() -> None:
    model = explainers.open(vit(), check="none")
    assert model.report is not None
    assert model.report.checks == ()


def test_the_report_is_text_json_and_html() -> None:
    model = explainers.open(vit())
    report = model.report
    assert report is not None
    text = str(report)
    for line in (
        "family",
        "6 in blocks",
        "10 x 10 patches",
        "5 classes",
        "Guessed:",
        "output=",
        "labels=",
        "same as timm's eval transform: yes",
    ):
        assert line in text
    assert report.to_json()["checks"][0]["name"] == "logits"
    assert report._repr_html_().startswith("<pre>")


def test_a_number_that_pixels_hardly_change_has_no_gradient_to_compare() -> None:
    from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

    torch.manual_seed(0)  # a norm of ones and zeros gives every patch the same length, so that its projection on itself stays
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56, "patch_size": 14}
    module = Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**size, num_register_tokens=4)).eval()
    model = explainers.open(module, preprocess=Preprocessing(resize=(56, 56), fit="squash"))
    assert model.report is not None
    assert not model.report.failures
    assert any("zero but for rounding" in check.detail for check in model.report.checks)


@pytest.mark.parametrize("name", embedded_names())
def test_every_embedded_model_passes_its_own_checks(name: str) -> None:
    report = explainers.open(name).report
    assert report is not None
    assert {check.name for check in report.checks} == {"logits", "library", "gradient", "completeness"}
    assert not report.failures, str(report)


def test_a_gradient_that_rounding_moves_at_kinks_is_held_against_torchs_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this sample torch's own gradient in float32 is off from that in float64 by a hundredth: rectifiers close to zero."""
    model = open_model("photos-vit").model
    report = check_model(model).report
    assert report is not None
    assert "rounding of float32" in {check.name: check.detail for check in report.checks}["gradient"]

    plain = checks._run_plain

    def other(session: Any, *mode: Any) -> checks._Plain:
        one = plain(session, *mode)
        assert one.gradient is not None
        return replace(one, gradient=one.gradient * 1.02)

    monkeypatch.setattr(checks, "_run_plain", other)
    assert "in float64" in failed(model)["gradient"]


def test_weights_that_are_not_finite_are_named() -> None:
    module = vit()
    with torch.no_grad():
        module.head.weight[0, 0] = torch.nan  # type: ignore[union-attr, index]
    found = failed(open_model(module).model)
    assert found["logits"] == found["completeness"] == "weights are not finite: head.weight"


class Noisy(nn.Module):
    """A model of texts that drops numbers out whatever mode it is in."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return nn.functional.dropout(self.inner(input_ids, attention_mask=attention_mask).logits, 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_forward_that_draws_random_numbers_is_named(seed: int) -> None:
    """By the checks, or before them where the numbers drawn hide the model's tokens."""
    torch.manual_seed(seed)
    try:
        said = failed(open_model(Noisy(text_model()), tokenizer=wordpiece()).model)["logits"]
    except ExplainerError as error:
        said = str(error)
    assert "draws random numbers also in eval mode (dropout)" in said


def test_dropout_of_attention_in_eval_mode_is_told_from_what_a_model_keeps() -> None:
    q = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    calls = list[int]()

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return x + len(calls)

    reasons = [
        why_not_repeatable(run, {"x": q})
        for run in (
            lambda tensors: F.scaled_dot_product_attention(tensors["x"], q, q, dropout_p=0.5),
            lambda tensors: counted(tensors["x"]),
            lambda tensors: F.scaled_dot_product_attention(tensors["x"], q, q),
        )
    ]
    assert reasons[2] is None
    for reason, said in zip(reasons, ("it draws random numbers also in eval mode,", "it keeps something between"), strict=False):
        assert reason is not None
        assert said in reason


class Shaken(nn.Module):
    """A model of pictures whose patches are dropped out in whatever mode."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        inner.norm_pre = _Dropout()

    def forward(self, pixel_values: Tensor) -> Tensor:
        out: Tensor = self.inner(pixel_values) + nn.functional.dropout(pixel_values).mean()
        return out


class _Dropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x)


def test_chance_is_told_from_a_way_round_the_blocks() -> None:
    with pytest.raises(ExplainerError, match=r"two passes of the model over the same input differ by .*\(dropout\)"):
        explainers.wrap(Shaken(vit()), preprocess=Preprocessing((160, 160)))


def test_reports_say_what_models_without_classes_give() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.age = vit(4), nn.Linear(4, 1)

        def forward(self, pixel_values: Tensor) -> dict[str, Tensor]:
            kind = self.inner(pixel_values)
            return {"kind": kind, "age": self.age(kind)}

    report = open_model(Heads(), preprocess=Preprocessing((160, 160))).model.report
    assert report is not None
    assert {fact.name: fact.value for fact in report.facts}["outputs"] == "2 heads: kind (4 numbers), age (1 number)"
    assert "0 numbers" not in str(report)


@pytest.mark.parametrize("family", ["gpt2-lm", "bert-qa", "bert-mlm"])
def test_reports_of_models_that_are_asked_at_places_speak_of_no_classes(family: str) -> None:
    config: dict[str, Any] = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "vocab_size": 40}
    of_bert = hf.BertConfig(**config, intermediate_size=16, max_position_embeddings=16)
    made: dict[str, nn.Module] = {
        "gpt2-lm": hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=16)),
        "bert-qa": hf.BertForQuestionAnswering(of_bert),
        "bert-mlm": hf.BertForMaskedLM(of_bert),
    }
    report = open_model(made[family].eval()).model.report
    assert report is not None
    assert "0 classes" not in str(report)
    assert "0 numbers" not in str(report)
    assert "A place of it is explained: " in report.reading


def test_a_timm_model_is_not_called_by_the_tag_of_weights() -> None:
    assert opened().name == "test_vit"
