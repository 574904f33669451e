"""The words of refusals that docs/families.md lists are those of the code."""

from __future__ import annotations

import re

import pytest

import explainers
from explainers.autograd.structure.attention_kinds import OVER_CHANNELS
from explainers.methods.requirements import missing_requirements
from tests.explainers.autograd import test_attention_trial
from tests.explainers.autograd.structure import test_attention_maps
from tests.explainers.support.attention_forms import PREPROCESS, Form
from tools.families_table import PAGE
from tools.refusals import refusals

REFUSED = {
    **{name: Form(form) for name, (form, _) in test_attention_maps.REFUSED.items()},
    **{name: form for name, form in test_attention_trial.FORMS.items() if form.refused},
}


def test_the_page_lists_every_refusal() -> None:
    """``python -m tools.families_table`` writes it again."""
    page = PAGE.read_text("utf-8")
    for title, texts in refusals().items():
        assert len(texts) > 5, title
        assert f"{title}\n\n" + "\n".join(f"- {text}" for text in texts) in page


def test_words_are_found_through_constants_choices_and_functions() -> None:
    attention, *_, opening = refusals().values()
    assert OVER_CHANNELS.no_map in attention  # an argument by name
    assert any(text.startswith("no softmax runs in them") for text in attention)  # a constant of another module
    assert any(text.startswith("each key of their attention") for text in attention)  # one of two constants
    assert any(text.startswith("their attention is linear") for text in attention)  # what a function returns
    assert any(text.startswith("the model also sees the image") for text in opening)  # a value of a dict


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_model_is_refused_with_is_on_the_list(name: str) -> None:

    lacks = missing_requirements(explainers.wrap(REFUSED[name].vit(), kind="image", preprocess=PREPROCESS))
    known = [re.escape(text).replace("…", ".+") for texts in refusals().values() for text in texts]
    (reason,) = re.findall(r"without an attention map over all its tokens: (.*)\. What reads none", lacks["attention"])
    assert any(re.fullmatch(text, reason) for text in known)
