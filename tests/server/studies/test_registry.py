"""Kinds of studies: each is declared once, and the one of docs/recipes.md answers as it stands there."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from fastapi import FastAPI

from tests.conftest import ROOT
from tests.server.conftest import Check, Site, picture, png
from tests.server.support.gated_models import image_model
from vitrine_server.api.studies import add_call
from vitrine_server.studies.registry import STUDIES, study

PATH = "/api/explanations/{id}/scaling"


@pytest.fixture
def extended(site: Site) -> Site:
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    _, _, section = page.partition("## Add a kind of study\n")
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(code, {"__name__": "scaling"})
    app = site.client.app
    assert isinstance(app, FastAPI)
    add_call(app.router, STUDIES.pop(PATH))
    return site


def test_the_study_of_the_recipe_answers(extended: Site, refused: Check) -> None:
    one = extended.ask(png(), wait=True).json()["id"]
    answer = extended.client.post(PATH.format(id=one), json={"factors": [0.5, 2]}).json()
    model = image_model()
    pixels = model.tensors(picture())["pixel_values"]
    expected = [model.forward({"pixel_values": factor * pixels}).max().item() for factor in (0.5, 2)]
    assert answer == {"id": one, "logits": pytest.approx(expected, rel=1e-5), "notes": []}
    assert refused(extended.client.post(PATH.format(id=one), json={"factors": []}), 422, "invalid-request")
    costs = extended.client.app.state.services.worker.costs  # type: ignore[attr-defined]
    assert costs.seconds("scenes-vit", "scaling", 0) is not None


def test_an_address_is_of_one_kind() -> None:
    def other(subject: Any) -> dict[str, Any]:
        return {}

    before = dict(STUDIES)
    with pytest.raises(ValueError, match="the address of mix already"):
        study("/api/explanations/{id}/mix", answer=Any)(other)
    assert before == STUDIES


def test_what_answers_a_study_can_go_to_another_process() -> None:
    assert STUDIES
    for kind in STUDIES.values():
        assert pickle.loads(pickle.dumps(kind.run)) is kind.run
