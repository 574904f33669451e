"""GIM against its authors' package: gradients of the whole rule, of each part, and of the package as it is; its word scores."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from tests.explainers.support.golden import Case
from tests.explainers.support.golden_rows import GIM_OF, case_of

#: transformers' RMSNorm and rotary tables compute in float32.
TOLERANCE = {"gim-bert": 1e-12, "gim-llama": 1e-6}
#: What takes the word embeddings: of Llama the first block itself.
ENTRY = {"gim-bert": "bert.embeddings.LayerNorm", "gim-llama": None}


def gradient(case: Case, rule: Rule) -> Tensor:
    recording = Recording(case.model, case.inputs)
    signals = recording.cached_backward(rule, case.one_hot(recording.logits))
    assert not signals.unruled
    return signals.block_inputs[0]


@pytest.mark.parametrize(("name", "tag"), [(name, tag) for name, rules in GIM_OF.items() for tag in ("full", *rules)])
def test_gradient_where_tokens_enter_the_first_block(name: str, tag: str) -> None:
    rule = RULES["gim"] if tag == "full" else GIM_OF[name][tag]
    assert case_of(name).difference(gradient(case_of(name), rule), f"{tag}|gradient_block0") < TOLERANCE[name]


@pytest.mark.parametrize("name", GIM_OF)
def test_gradient_and_scores_at_the_word_embeddings(name: str) -> None:
    """Their scores are of the way from another word, which input_x_gradient, whose way begins at zero, has no option for."""
    case = Case(name, entry=ENTRY[name])
    found = gradient(case, RULES["gim"])
    assert case.difference(found, "full|gradient_embeddings") < TOLERANCE[name]
    words = case.module.get_input_embeddings()
    difference = words(case.inputs["input_ids"]) - words(torch.zeros_like(case.inputs["input_ids"]))
    assert case.difference((found * difference).sum(-1), "explain_full") < TOLERANCE[name]


@pytest.mark.parametrize("name", GIM_OF)
def test_the_parts_differ_by_more_than_the_tolerance(name: str) -> None:
    """Else the comparisons above would tell nothing apart. Of what was published some is the same as a part."""
    case, tags = case_of(name), [tag for tag in ("full", *GIM_OF[name]) if not tag.startswith("published")]
    for one in tags:
        for other in tags:
            if one != other:
                assert case.difference(case.theirs(f"{one}|gradient_block0"), f"{other}|gradient_block0") > 1e-3, (one, other)
