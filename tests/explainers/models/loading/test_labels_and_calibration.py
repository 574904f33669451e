"""labels.json and calibration.json beside the weights."""

from __future__ import annotations

import explainers  # before timm

# isort: split
import json
from pathlib import Path
from typing import Any

import pytest
import timm
from safetensors.torch import save_file
from timm.data import ImageNetInfo

from explainers import AnyOf, ExplainerError, explain
from explainers.models import catalogue
from explainers.models.companion_files.calibration import AbstentionThreshold, Calibration, read_calibration
from explainers.models.labels import ClassEntry, read_classes
from explainers.models.loading import calibration_of
from tests.explainers.support.explained import picture
from tests.explainers.support.saved_models import save_timm, save_transformers

ROWS = [
    {"label": "red ant", "group": "insect", "groups": ["insect", "animal"], "synonyms": ["emmet"], "wnid": "n02219486"},
    {"label": "bee", "group": "insect", "groups": ["insect", "animal"]},
    {"label": "cat", "group": "pet"},
    {"label": "dog", "group": "pet", "groups": ["pet", "animal"]},
    {"label": "eel"},
]
LINE = {"score": "max_probability", "line": 1.5, "below": True, "measured": "On nothing: this model is random."}
CALIBRATION = {"temperature": 2, "lines": {"something_else": LINE}}


def write(folder: Path, labels: Any = None, calibration: Any = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("labels.json", labels), ("calibration.json", calibration)):
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_a_folder_says_what_its_classes_are_and_where_not_to_believe_it(tmp_path: Path) -> None:
    save_timm(tmp_path)
    plain = explainers.load(tmp_path)
    assert (plain.labels[0], plain.groups, plain.calibration) == ("ant", {}, Calibration())
    model = explainers.load(write(tmp_path, ROWS, CALIBRATION))
    assert list(model.labels) == ["red ant", "bee", "cat", "dog", "eel"]
    assert model.groups == {"insect": (0, 1), "animal": (0, 1, 3), "pet": (2, 3)}
    assert model.synonyms == {"emmet": (0,)}
    assert model.classes[2] == ClassEntry("cat", "pet", ("pet",))
    assert model.classes[0].to_json() == ROWS[0]
    assert model.weights_digest == plain.weights_digest
    result = explain(model, picture(), target=AnyOf("pet"), methods="random")
    assert result.target.label == "any pet"
    assert result.abstention is not None
    assert result.abstention.says == "it may be something that the model does not know"


def test_a_transformers_folder_has_them_too(tmp_path: Path) -> None:
    save_transformers(tmp_path)
    rows = [{"label": "bad"}, {"label": "neutral"}, {"label": "good"}]
    write(tmp_path, rows, {"lines": {"no_opinion": {**LINE, "score": "neutral_probability"}}})
    result = explain(explainers.load(tmp_path), "a dull plot", methods="random")
    assert result.abstention is not None
    assert result.abstention.kind == "no_opinion"


def test_a_clip_folder_has_a_calibration_on_both_sides_and_no_labels(tmp_path: Path) -> None:
    save_transformers(tmp_path, "hf-clip")
    line = {**LINE, "score": "cosine"}
    model = explainers.load(write(tmp_path, calibration={"lines": {"not_in_picture": line}}))
    assert model.seen_from("text").calibration == model.calibration != Calibration()
    with pytest.raises(ExplainerError, match=r"labels.json names classes, and .* has none"):
        explainers.load(write(tmp_path, ROWS))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("{", "is not JSON"),
        ({"label": "a"}, "holds no list; the model has 2 classes"),
        ([{"label": "a"}], "holds 1 classes; the model has 2 classes"),
        ([{"label": "a"}, {"label": "a"}], "calls 2 classes 'a'"),
        ([{"label": "a"}, {"name": "b"}], "class 1: an object with a label"),
        ([{"label": "a"}, {"label": " "}], "class 1: an object with a label"),
        ([{"label": "a", "group": 3}, {"label": "b"}], "class 0: group must be a word"),
        ([{"label": "a", "groups": "pet"}, {"label": "b"}], "class 0: groups must be a list of words"),
        ([{"label": "a", "synonyms": [1]}, {"label": "b"}], "class 0: synonyms must be a list of words"),
    ],
)
def test_labels_of_another_form_are_refused(tmp_path: Path, rows: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        read_classes(write(tmp_path, rows) / "labels.json", 2)


def test_a_calibration_is_read_in_the_order_of_its_lines(tmp_path: Path) -> None:
    lines = {
        "unreadable_words": {**LINE, "score": "share_unknown", "below": False, "line": 0},
        "not_in_picture": {**LINE, "score": "cosine"},
    }
    found = read_calibration(write(tmp_path, calibration={"lines": lines}) / "calibration.json")
    assert found.temperature == 1
    assert [line.kind for line in found.thresholds] == ["unreadable_words", "not_in_picture"]
    assert found.thresholds[0] == AbstentionThreshold("unreadable_words", "share_unknown", 0.0, False, LINE["measured"])
    assert (found.thresholds[0].is_crossed(0.0), found.thresholds[0].is_crossed(0.1), found.thresholds[1].is_crossed(1.4)) == (
        False,
        True,
        True,
    )
    assert found.to_json()["lines"][0]["says"] == "words I don't read"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ([], "must be an object"),
        ({"lines": []}, "must be an object"),
        ({"temperature": 0}, "temperature must be a positive number, not 0"),
        ({"temperature": True}, "temperature must be a positive number"),
        ({"lapse": 1}, "lapse must be a share from 0 to less than 1, not 1"),
        ({"lapse": "0.1"}, "lapse must be a share"),
        ({"lines": {"unsure": LINE}}, "unsure: there is no such kind of abstention; there are something_else"),
        ({"lines": {"no_opinion": {**LINE, "score": "surprise"}}}, "no_opinion: score must be one of max_probability"),
        ({"lines": {"no_opinion": {**LINE, "line": "0.3"}}}, "line must be a number"),
        ({"lines": {"no_opinion": {**LINE, "below": 1}}}, "below true or false"),
        ({"lines": {"no_opinion": {**LINE, "measured": ""}}}, "measured must say, in a sentence"),
        ({"lines": {"no_opinion": {**LINE, "misses": 3}}}, "misses must be a sentence"),
    ],
)
def test_a_calibration_of_another_form_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        read_calibration(write(tmp_path, calibration=content) / "calibration.json")


def test_the_calibration_of_an_embedded_model_is_read_without_loading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_folder", lambda: tmp_path)
    (write(tmp_path / "scenes-vit") / "config.json").write_text("{}")
    assert calibration_of("scenes-vit") == Calibration()
    write(tmp_path / "scenes-vit", calibration=CALIBRATION)
    assert calibration_of("scenes-vit").temperature == 2
    assert calibration_of("timm/other") == Calibration()


@pytest.mark.parametrize("name", catalogue.embedded_names())
def test_the_calibrations_that_ship_can_be_read(name: str) -> None:
    for line in calibration_of(name).thresholds:
        assert len(line.measured.split()) > 5  # a sentence with its rates


def save_imagenet(folder: Path, labels: list[str], named: bool = True) -> Path:
    """A tiny Vision Transformer with 1,000 outputs, in the layout of timm's hub."""
    shape = {"img_size": 32, "patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2}
    module = timm.create_model("vit_tiny_patch16_224", num_classes=1000, **shape)
    cfg = {"input_size": [3, 32, 32], "mean": [0.5] * 3, "std": [0.5] * 3, "num_classes": 1000}
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 1000, "model_args": shape, "pretrained_cfg": cfg}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, "label_names": labels} if named else config))
    save_file(module.state_dict(), folder / "model.safetensors")
    return folder


def test_a_model_of_imagenets_classes_has_everyday_names_and_groups(tmp_path: Path) -> None:
    info = ImageNetInfo()
    synsets = info.label_names()
    plain = explainers.load(save_imagenet(tmp_path / "plain", [], named=False))
    for name, labels in (("synsets", synsets), ("words", [info.label_name_to_description(synset) for synset in synsets])):
        assert explainers.load(save_imagenet(tmp_path / name, labels)).labels == plain.labels
    assert (plain.labels[281], plain.classes[281].wnid) == ("tabby cat", "n02123045")
    assert 281 in plain.groups["cat"]
    assert plain.synonyms["hammerhead"] == (4,)
    result = explain(plain, picture(), target=AnyOf("dog"), methods="random")
    assert result.target.label == "any dog"
    same = explain(plain, picture(), target="tabby", methods="random")
    assert same.target.label == "tabby cat"


def test_other_thousands_of_classes_keep_their_names(tmp_path: Path) -> None:
    labels = [f"kind {index}" for index in range(1000)]
    model = explainers.load(save_imagenet(tmp_path / "other", labels))
    assert (model.labels, model.groups) == (labels, {})
    synsets = ImageNetInfo().label_names()
    turned = explainers.load(save_imagenet(tmp_path / "turned", synsets[::-1]))
    assert (turned.labels[-1], turned.groups) == ("n01440764", {})
