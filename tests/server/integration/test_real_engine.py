"""The server on the real engine, with tiny random models: what it sends is what ``explainers`` computes."""

from __future__ import annotations

import io
import json
import shlex
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load

import explainers
from explainers.methods.requirements import missing_requirements
from explainers.models.catalogue import CATALOGUE, CatalogueEntry
from explainers.models.inputs.images import Preprocessing
from explainers.rendering.overlays import render_overlay
from tests.families import FAMILIES
from tests.server.conftest import Site, picture, png
from tests.server.support.checked_client import CheckedClient
from tests.server.support.tiny_models import CLASSES, TEXT, tiny, tiny_site
from vitrine_server import registries
from vitrine_server.app import create_app
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.method_ranking import default_specs, ranking_for
from vitrine_server.samples import read_samples, sample_folders
from vitrine_server.settings import load_settings

SOME = ["rollout", "fullgrad_plus:libra", "transformer_attribution", "integrated_gradients?steps=4", "random"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        assert one.get("/readyz")["status"] == "ready"
        yield one


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """An explanation without what differs from run to run."""
    own = {name: document[name] for name in ("model", "weights_digest", "versions", "input", "targets", "top", "methods", "notes")}
    own["input"] = {name: value for name, value in own["input"].items() if name != "sha256"}  # of the file, which the engine never sees
    return own | {"maps": [{name: value for name, value in one.items() if name != "seconds"} for one in document["maps"]]}


def expected(name: str, source: Any, **arguments: Any) -> explainers.Explanation:
    found = explainers.explain(tiny(name), source, **arguments)
    assert isinstance(found, explainers.Explanation)
    return found


def test_an_image(site: Site) -> None:
    document = site.ask(png(), target=["1", "0"], methods=SOME, wait=True).json()
    result = expected("scenes-vit", picture(), target=[1, 0], methods=SOME)
    assert plain(document) == plain(result.to_json())
    assert document["targets"][0]["index"] == 1
    root = f"/api/explanations/{document['id']}/maps"
    label = result.targets[1].label
    one = result["fullgrad_plus:libra", label]
    values = np.load(io.BytesIO(site.client.get(f"{root}/fullgrad_plus%3Alibra.npy", params={"target": label}).content))
    assert one.patches is not None
    assert np.array_equal(values, one.scores[one.content].reshape(one.patches).numpy())
    shown = Image.open(io.BytesIO(site.client.get(f"{root}/fullgrad_plus%3Alibra.png", params={"target": label}).content))
    assert shown.tobytes() == render_overlay(result, one).tobytes()


def test_double_precision_is_asked_for_in_the_form_or_the_address(site: Site, refused: Callable[..., Any]) -> None:
    def ask(**query: str) -> Any:
        form = {"model": "scenes-vit", "target": "1", "methods": ["lrp", "rollout"]}
        return site.client.post("/api/explanations", params={"wait": "1", **query}, data=form, files={"image": ("photo", png())})

    document = ask(precision="double").json()
    assert document["precision"] == "double"
    assert document["maps"][0]["precision"] == {"dtype": "float64", "why": "precision=double was asked for.", "rounding": None}
    own = {"dtype": "float32", "why": "The model's weights are float32, and TF32 was off.", "rounding": None}
    assert document["maps"][1]["precision"] == own
    assert plain(document) == plain(expected("scenes-vit", picture(), target=1, methods=["lrp", "rollout"], precision="double").to_json())
    assert site.ask(png(), target="1", methods=["lrp", "rollout"], precision="double", wait=True).json() == document
    plainly = ask().json()
    assert plainly["id"] != document["id"]
    assert "precision" not in plainly
    assert plainly["maps"][0]["precision"]["rounding"] > 0
    code = site.get(f"/api/explanations/{document['id']}/code")
    assert 'precision="double"' in code["python"]
    assert "--form-string precision=double" in code["curl"]
    refused(ask(precision="half"), 422, "invalid-request")


def test_the_picture_as_seen_is_what_the_model_was_given(site: Site) -> None:
    document = site.ask(png(2, (90, 61)), methods=["random"], wait=True).json()
    root = f"/api/explanations/{document['id']}"
    tensors = load(site.client.get(f"{root}/tensors.safetensors").content)
    seen = np.asarray(Image.open(io.BytesIO(site.client.get(f"{root}/input.png").content)))
    assert seen.shape == (*reversed(document["input"]["seen"]), 3)
    np.testing.assert_array_equal(seen, (tensors["pixel_values"][0] * 255).round().permute(1, 2, 0).numpy())


def test_a_text(site: Site) -> None:
    document = site.ask(model="reviews-bert", text=TEXT, target="for", methods=SOME, wait=True).json()
    result = expected("reviews-bert", TEXT, target="for", methods=SOME)
    assert plain(document) == plain(result.to_json())
    root = f"/api/explanations/{document['id']}/maps"
    shown = Image.open(io.BytesIO(site.client.get(f"{root}/rollout.png").content))
    assert shown.tobytes() == render_overlay(result, result["rollout"]).tobytes()
    values = np.load(io.BytesIO(site.client.get(f"{root}/rollout.npy").content))
    assert torch.equal(torch.from_numpy(values), result["rollout"].scores)


def test_prompts(site: Site) -> None:
    prompts = ["a good film", "the bad movie"]
    document = site.ask(png(), model="clip", prompt=prompts, methods=SOME, wait=True).json()
    assert plain(document) == plain(expected("clip", picture(), target=prompts, methods=SOME).to_json())
    assert [one["prompt"] for one in document["targets"]] == prompts


def test_the_words_of_prompts(site: Site) -> None:
    prompts = ["a good film", "the bad movie"]
    document = site.ask(png(), model="clip", prompt=prompts, side="text", methods=SOME, wait=True).json()
    result = expected("clip", picture(), target=prompts, methods=SOME, side="text")
    assert plain(document) == plain(result.to_json())
    assert document["prompts"] == result.to_json()["prompts"]
    other = site.ask(png(), model="clip", prompt=prompts, side="image", methods=SOME, wait=True).json()
    assert other["id"] != document["id"]
    assert "prompts" not in other
    where = f"/api/explanations/{document['id']}/maps/rollout"
    shown = Image.open(io.BytesIO(site.client.get(f"{where}.png", params={"target": prompts[1]}).content))
    assert shown.tobytes() == render_overlay(result, result["rollout", prompts[1]]).tobytes()
    values = np.load(io.BytesIO(site.client.get(f"{where}.npy", params={"target": prompts[1]}).content))
    assert torch.equal(torch.from_numpy(values), result["rollout", prompts[1]].scores)
    assert [one["method"] for one in site.ask(png(1), model="clip", prompt="a", side="text", methods=None, wait=True).json()["maps"]] == (
        explainers.default_methods(tiny("clip").seen_from("text"))
    )


def test_two_texts(site: Site) -> None:
    pair = explainers.TextPair(TEXT, "not a bad film")
    document = site.ask(model="reviews-bert", text=pair.first, text_pair=pair.second, methods=SOME, wait=True).json()
    result = expected("reviews-bert", pair, methods=SOME)
    assert plain(document) == plain(result.to_json())
    assert document["input"]["text_pair"] == pair.second
    shown = Image.open(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/maps/rollout.png").content))
    assert shown.tobytes() == render_overlay(result, result["rollout"]).tobytes()
    assert site.ask(model="reviews-bert", text=TEXT, methods=SOME, wait=True).json()["id"] != document["id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"image": png(3, (30, 40)), "target": ["1", "0"]},
        {"image": png(3), "target": "2", "against": "0"},
        {"image": png(3), "target": ["any:insect", "any:pet"]},
        {"image": png(3), "target": ["any:insect", "hound"], "against": "any:pet"},
        {"image": png(3), "target": "any:insect", "read": "probability", "methods": ["input_x_gradient:libra"]},
        {"image": png(3), "target": "finer:2"},
        {"image": png(3), "target": "over:0.01"},
        {"image": png(3), "model": "clip", "prompt": ["a good film", "the bad movie"]},
        {"image": png(3), "model": "clip", "prompt": ["a good film", "the bad movie"], "side": "text"},
        {"model": "reviews-bert", "text": TEXT, "text_pair": 'a "bad"\nfilm'},
        {"model": "reviews-bert", "text": TEXT, "target": "for", "read": "probability", "methods": ["input_x_gradient:libra"]},
    ],
    ids=lambda fields: "-".join(str(value)[:20] for name, value in fields.items() if name not in ("image", "methods")),
)
def test_the_python_lines_give_the_same_scores(
    site: Site, fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = site.ask(wait=True, **{"methods": SOME, **fields}).json()
    bundle = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    bundle.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explainers, "load", tiny)
    for code in (bundle.read("reproduce.py").decode(), site.get(f"/api/explanations/{document['id']}/code")["python"]):
        fetched: list[str] = []
        monkeypatch.setattr(urllib.request, "urlretrieve", lambda address, name, fetched=fetched: fetched.append(address))
        made: dict[str, Any] = {}
        exec(compile(code, "reproduce.py", "exec"), made)
        again = json.loads(json.dumps(made["result"].to_json()))
        assert [one["scores"] for one in again["maps"]] == [one["scores"] for one in document["maps"]]
        assert [one["target"] for one in again["maps"]] == [one["target"] for one in document["maps"]]
        assert capsys.readouterr().out.count("tensor(") == len(document["maps"])
    sent = [tuple(word.split("=", 1)) for word in shlex.split(bundle.read("reproduce.sh").decode()) if "=" in word and "http" not in word]
    form: dict[str, Any] = {name: [value for other, value in sent if other == name] for name, _ in sent if name != "image"}
    picture = next((bundle.read(value.removeprefix("@")) for name, value in sent if name == "image"), None)
    asked = site.ask(picture, wait=True, **form).json()
    assert [one["label"] for one in asked["targets"]] == [one["label"] for one in document["targets"]]
    assert asked["targets"] == document["targets"]
    assert [one["scores"] for one in asked["maps"]] == [one["scores"] for one in document["maps"]]
    address = f"/api/explanations/{document['id']}/tensors.safetensors"
    assert [one.removeprefix("http://testserver") for one in fetched] == ([address] if "image" in fields else [])
    if "image" in fields:
        assert site.client.get(address).content == (tmp_path / "tensors.safetensors").read_bytes()


def test_studies_follow_a_group(site: Site) -> None:
    fields: dict[str, Any] = {"target": ["any:animal", "any:pet"], "methods": ["input_x_gradient"], "wait": True}
    document = site.ask(png(4), **fields).json()
    where, label = f"/api/explanations/{document['id']}", "any pet"
    target = document["targets"][1]
    assert (target["label"], target["group"], target["of"]) == (label, "pet", "any:pet")
    asked = {"target": label, "fractions": [0, 0.5], "order": "most"}
    curves = site.client.post(f"{where}/deletion-test", json=asked).json()["curves"][0]
    assert curves["logit"][0] == pytest.approx(target["logit"], abs=1e-4)
    assert curves["probability"][0] == pytest.approx(target["probability"], abs=1e-5)  # at the model's temperature
    mixed = site.client.post(f"{where}/mix", json={"method": "input_x_gradient", "rule": {}, "target": label}).json()
    scores = next(one["scores"] for one in document["maps"] if one["target"] == label)
    assert mixed["map"]["scores"] == pytest.approx(scores, rel=1e-3, abs=1e-6)


def test_an_abstention_is_in_the_document_and_in_the_started_event(site: Site) -> None:
    identity = site.ask(png(8), methods=["random"]).json()["id"]
    document = site.finish(identity)
    abstention = document["abstention"]
    assert (abstention["kind"], abstention["says"]) == ("something_else", "it may be something that the model does not know")
    assert abstention["line"] == 1.1
    assert abstention["score"] == pytest.approx(document["top"][0]["probability"])
    events = {name: data for _, name, data in site.events(f"/api/explanations/{identity}/events")}
    assert events["started"]["abstention"] == abstention
    assert "abstention" not in site.ask(model="reviews-bert", text=TEXT, methods=["random"], wait=True).json()


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("any:pets", "did you mean pet"),
        ("any:bee", "without any:"),
        ("pet", "ask for any:pet"),
        ("hounds", "did you mean dog"),
    ],
)
def test_a_group_or_class_that_is_not_there_names_near_ones(site: Site, target: str, hint: str) -> None:
    answer = site.ask(png(), target=target, methods=["random"], wait=True)
    assert answer.status_code == 422
    problem = answer.json()
    assert hint in problem["detail"]
    assert "any: and a group" in problem["send"]


def test_many_at_once_get_the_same_numbers_as_alone(site: Site) -> None:
    answers = [site.ask(png(seed), methods=["random", *SOME[:3]]) for seed in (5, 6)]
    answers.append(site.ask(model="reviews-bert", text=TEXT, methods=SOME[:2]))
    ids = [answer.json()["id"] for answer in answers]
    together = [plain(site.finish(one)) for one in ids]
    alone = [
        *(plain(expected("scenes-vit", picture(seed), methods=["random", *SOME[:3]]).to_json()) for seed in (5, 6)),
        plain(expected("reviews-bert", TEXT, methods=SOME[:2]).to_json()),
    ]
    assert together == alone


def test_the_default_methods_are_the_models(site: Site) -> None:
    model = tiny("scenes-vit")
    usual = default_specs(ranking_for("image", "scenes-vit"), explainers.variants(model))
    assert site.ask(png(7), methods=None, wait=True).json()["methods"] == usual


def test_methods_have_the_bounds_and_reasons_of_the_side(site: Site) -> None:
    model = tiny("clip")
    for side, path in (("image", ""), ("text", "&side=text")):
        seen = model.seen_from(side)
        listed = site.get(f"/api/methods?model=clip{path}")
        assert listed["methods"] == json.loads(json.dumps(registries.methods(seen)))
        runs = {one.spec for one in explainers.variants(seen) if one.reason is None}
        assert listed["presets"]
        assert all(set(one["specs"]) <= runs for one in listed["presets"])
        assert {one["family"] for one in listed["methods"]} <= {one["name"] for one in listed["families"]}
        assert [one["reason"] for one in listed["variants"]] == [one.reason for one in explainers.variants(seen)]
        start = next(one for one in listed["methods"] if one["name"] == "rollout")["options"][0]
        assert (start["minimum"], start["maximum"]) == (-len(seen.blocks), len(seen.blocks) - 1)


def test_what_the_model_is(site: Site) -> None:
    document = site.get("/api/models/scenes-vit")
    model = tiny("scenes-vit")
    assert document["labels"] == list(model.labels)
    assert document["weights_digest"] == model.weights_digest
    assert document["details"]["blocks"] == len(model.blocks)
    assert "missing_requirements" not in document["details"]
    assert [one["spec"] for one in document["variants"]] == [one.spec for one in explainers.variants()]
    assert document["classes"] == [one.to_json() for one in CLASSES]
    assert document["calibration"]["temperature"] == 1.5
    assert document["calibration"]["lines"][0]["measured"] == "Measured on nothing."
    assert not {"classes", "calibration"} & set(site.get("/api/models/reviews-bert"))


@contextmanager
def site_of(home: Path, family: str) -> Iterator[tuple[Site, explainers.Model]]:
    """A server with the tiny model of one family, which is also returned."""
    size = FAMILIES[family].size
    model = explainers.wrap(FAMILIES[family].build(), name="scenes-vit", preprocess=Preprocessing(resize=size, crop=size))
    catalogue = [CatalogueEntry("scenes-vit", "image", "", "", True, "")]
    source = ModelSource(catalogue, lambda name, device: model)
    with CheckedClient(create_app(load_settings({"home": home}), source, [])) as client:
        site = Site(client)
        site.wait_for_models("scenes-vit")
        yield site, model


@pytest.mark.parametrize("family", ["tnt", "crossvit"])
def test_streams_of_tokens_make_one_heatmap(tmp_path: Path, family: str) -> None:
    """Tokens inside patches and larger patches are in the map of the patches, as pictures and numbers have it."""
    rows, columns = FAMILIES[family].grid or (0, 0)
    with site_of(tmp_path, family) as (site, model):
        methods = ["fullgrad:libra", "lrp", "random"] + ["rollout", "legrad"] * ("attention" not in missing_requirements(model))
        document = site.ask(png(), target="1", methods=methods, wait=True).json()
        result = explainers.explain(model, picture(), target=1, methods=methods)
        for shown, one in zip(document["maps"], result.maps, strict=True):
            assert shown["grid"] == [rows, columns]
            assert len(shown["scores"]) == rows * columns
            root = f"/api/explanations/{document['id']}/maps/{shown['method'].replace(':', '%3A')}"
            values = np.load(io.BytesIO(site.client.get(f"{root}.npy").content))
            assert np.array_equal(values, one.scores[one.content].reshape(rows, columns).numpy())
            drawn = Image.open(io.BytesIO(site.client.get(f"{root}.png").content))
            assert drawn.tobytes() == render_overlay(result, one).tobytes()


def test_a_method_that_the_model_cannot_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    with site_of(tmp_path, "mixer") as (site, _):
        answer = site.ask(png(), methods="rollout")
        assert answer.status_code == 422
        assert "without an attention map" in answer.json()["detail"]
        able = answer.json()["send"].removeprefix("These can: ").removesuffix(".").split(", ")
        assert "fullgrad:libra" in able
        assert "rollout" not in able
        assert site.ask(png(), methods="input_x_gradient", wait=True).status_code == 200


def test_the_samples_that_ship() -> None:
    """Each names a model of the catalogue and has what its page needs."""
    samples = read_samples(sample_folders())
    kinds = {entry.name: entry.kind for entry in CATALOGUE if entry.embedded}
    assert {sample.entry["kind"] for sample in samples.values()} == {"image", "clip", "text", "molecule"}
    for sample in samples.values():
        assert kinds[sample.entry["model"]] == sample.entry["kind"]
        if sample.image is None:
            assert sample.entry["text"].strip()
        else:
            with Image.open(sample.image) as image:
                assert image.format == {".png": "PNG", ".jpg": "JPEG"}[sample.image.suffix]
                assert max(image.size) <= 512
        assert (sample.entry["kind"] == "clip") == bool(sample.entry.get("prompts"))
