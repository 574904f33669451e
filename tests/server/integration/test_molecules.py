"""Molecules over HTTP: what is asked of texts is asked of them, and what is wrong with one is said."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from explainers.models.inputs import molecules
from tests.server.conftest import Site, png
from tests.server.support.tiny_models import make_tiny, tiny_site
from tests.support.molecule_models import NITROBENZENE

METHODS = ["fullgrad_plus:libra", "raw_attention", "random"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home"), names={"molecules": "molecule"}) as one:
        yield one


@pytest.fixture(scope="module")
def document(site: Site) -> Any:
    return asked(site, NITROBENZENE)


def asked(site: Site, smiles: str, **fields: Any) -> Any:
    answer = site.ask(wait=True, model="molecules", text=smiles, methods=METHODS, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_explanation_has_the_bonds_the_groups_and_a_plain_drawing(document: Any) -> None:
    read = document["input"]
    assert (read["kind"], read["text"]) == ("text", NITROBENZENE)
    assert [word["text"] for word in read["words"]] == ["C"] * 6 + ["N", "O", "O"]
    part = read["molecule"]
    assert {"atoms": [6, 7], "order": 2.0} in part["bonds"]
    assert part["toxicophores"] == [{"name": "aromatic nitro", "atoms": [5, 6, 7, 8]}]
    assert part["drawing"]["svg"].startswith("<svg ")
    assert len(part["drawing"]["places"]) == 9
    assert [len(one["scores"]) for one in document["maps"]] == [10] * 3


def test_a_summary_shows_its_map_and_no_letters_of_atoms(site: Site, document: Any) -> None:
    summary = site.get(f"/api/explanations/{document['id']}/summary")
    assert Image.open(io.BytesIO(site.client.get(summary["map"]).content)).width == 320
    assert "words" not in summary


def test_the_studies_of_texts_are_those_of_molecules(site: Site, document: Any) -> None:
    path = f"/api/explanations/{document['id']}"
    test = site.client.post(f"{path}/deletion-test", json={}).json()
    assert (test["how"], test["tokens"]) == ("removed", 9)
    gone = site.client.post(f"{path}/deletion-test", json={"remove": [7, 8, 9]}).json()
    assert gone["removed"] == [7, 8, 9]
    heads = site.client.post(f"{path}/layers", json={"quantity": "attention", "token": 7}).json()
    assert (heads["origin"], heads["token"]) == ("token", 7)
    assert site.client.get(f"{path}/maps/raw_attention.png").status_code == 200


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"text": "CC(C)(C)(C)C"}, "no possible molecule, at character 2"),
        ({"text": "C1CC"}, "the ring that begins at character 2 is not closed"),
        ({"image": png()}, "reads molecules, not images"),
        ({"text": "CC", "text_pair": "CO"}, "reads one molecule"),
        ({"text": "CC", "prompt": "a cat"}, "has classes and takes no prompt"),
    ],
)
def test_what_cannot_be_read_is_refused(site: Site, fields: dict[str, Any], says: str) -> None:
    answer = site.ask(fields.pop("image", None), wait=True, model="molecules", methods=METHODS, **fields)
    problem = answer.json().get("problem", answer.json())
    assert says in problem["detail"]


def test_without_rdkit_the_model_says_what_to_install_and_the_others_answer(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(molecules, "find_spec", lambda name: None)
    names = {"molecules": "molecule", "reviews-bert": "text"}
    with tiny_site(tmp_path_factory.mktemp("without"), make_tiny, names) as site:
        states = {model["name"]: model["state"] for model in site.get("/api/models")["models"]}
        assert states == {"molecules": "not-installed", "reviews-bert": "loaded"}
        assert site.get("/readyz") == {"status": "ready", "models": states}
        answer = site.ask(model="molecules", text=NITROBENZENE, methods=METHODS)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:vitrine:problem:not-installed")
        assert "pip install -e '.[molecules]'" in answer.text
        assert site.ask(wait=True, model="reviews-bert", text="a good film", methods=METHODS).status_code == 200
