"""A model of molecules asked all that a text model is asked: every method runs or says why, and full accounts add up."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.methods.requirements import variants
from explainers.models.inputs.types import MoleculeInput
from explainers.records.result import Explanation
from tests.explainers.support.wrapped import wrapped
from tests.support.molecule_models import ETHANOL, LABELS, NITROBENZENE, tiny_model, tiny_module

FULL = ("fullgrad_plus:libra", "input_x_gradient:libra", "raw_attention", "transformer_attribution", "occlusion", "random")


@pytest.fixture(scope="module")
def batch() -> list[Explanation]:
    return explainers.explain(tiny_model(), [NITROBENZENE, ETHANOL], "mutagenic", FULL)


def test_the_blocks_the_token_of_the_graph_and_the_atoms_are_found() -> None:
    model = tiny_model()
    layout = model.layout_of(model.tensors(NITROBENZENE))
    assert (len(model.blocks), layout.prefix, layout.class_token, layout.grid) == (2, 1, 0, None)
    assert model.details["heads"] == 4


def test_every_method_that_a_model_of_texts_runs_runs_here_and_the_others_say_why() -> None:
    model = tiny_model()
    listed = variants(model)
    able = [variant.spec for variant in listed if variant.reason is None and not variant.slow]
    refused = {variant.spec: variant.reason for variant in listed if variant.reason is not None}
    assert all(reason and reason.endswith(".") for reason in refused.values())
    assert refused.keys() <= {variant.spec for variant in variants(wrapped("bert")) if variant.reason is not None}
    result = explainers.explain(model, NITROBENZENE, methods=able)
    assert all(attribution.scores.isfinite().all() and len(attribution.scores) == 10 for attribution in result.maps)


@pytest.mark.parametrize("spec", ["rise?samples=16", "kernel_shap?samples=16", "lime?samples=16", "integrated_gradients?steps=3"])
def test_slow_methods_run(spec: str) -> None:
    assert explainers.explain(tiny_model(), ETHANOL, methods=[spec])[spec].scores.isfinite().all()


def test_under_libra_atoms_and_biases_add_up_to_the_logit(batch: list[Explanation]) -> None:
    assert all(result.completeness("libra") < 2e-6 for result in batch)


def test_padding_changes_nothing(batch: list[Explanation]) -> None:
    alone = explainers.explain(tiny_model(), ETHANOL, "mutagenic", FULL)
    assert torch.allclose(alone.logits, batch[1].logits, atol=1e-5)
    for spec in FULL[:-1]:
        assert torch.allclose(alone[spec].scores, batch[1][spec].scores, atol=1e-4), spec


def test_words_are_atoms_and_occlusion_is_what_removal_says(batch: list[Explanation]) -> None:
    (result, _), model = batch, tiny_model()
    record = result.input
    assert isinstance(record, MoleculeInput)
    assert [word.text for word in result["occlusion"].words()] == ["C"] * 6 + ["N", "O", "O"]
    mask = torch.ones(9, 10, dtype=torch.long)
    mask[torch.arange(9), torch.arange(1, 10)] = 0
    tensors = {name: tensor.expand(9, *tensor.shape[1:]) for name, tensor in model.tensors(NITROBENZENE).items()}
    falls = result.logits[1] - model.forward({**tensors, "attention_mask": mask})[:, 1]
    assert torch.allclose(result["occlusion"].scores[1:], falls, atol=1e-5)
    part = result.to_json()["input"]["molecule"]
    assert [group["name"] for group in part["toxicophores"]] == ["aromatic nitro"]


def test_the_deletion_test_removes_atoms(batch: list[Explanation]) -> None:
    test = explainers.deletion_test(tiny_model(), batch[0], methods=["occlusion"])
    assert (test.how, test.tokens) == ("removed", 9)
    assert test.ranking[0].method == "occlusion"


def test_tensors_are_explained_as_the_molecule_is_and_bad_input_is_refused(batch: list[Explanation]) -> None:
    model = tiny_model()
    again = explainers.explain(model, model.tensors(ETHANOL), "mutagenic", ["raw_attention"])
    assert torch.allclose(again["raw_attention"].scores, batch[1]["raw_attention"].scores[:4], atol=1e-5)
    assert [token.text for token in again["raw_attention"].tokens] == ["", "1", "2", "3"]
    with pytest.raises(ExplainerError, match="each with one row for each molecule"):
        explainers.explain(model, {**model.tensors(ETHANOL), "atoms": torch.zeros(2, 3, 7, dtype=torch.long)})
    with pytest.raises(ExplainerError, match="the list of inputs is empty"):
        model.prepare([])
    with pytest.raises(ExplainerError, match="tiny molecules does not read texts"):
        explainers.word_probe(model, "CC{}", {"halogen": ["F", "Cl"]}, "mutagenic")


def test_a_module_is_opened_with_a_report_and_its_checks_pass() -> None:
    model = explainers.open(tiny_module(), kind="molecule", labels=LABELS)
    assert model.report is not None
    facts = {fact.name: fact.value for fact in model.report.facts}
    assert (facts["inputs"], facts["tokens"]) == ("molecules", "a token of the graph and up to 128 atoms")
    assert {check.state for check in model.report.checks} == {"passed", "not asked"}
