"""Models by name: embedded, or from a folder; and what is said when that cannot be."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

# isort: split
import timm

from explainers.errors import ExplainerError
from explainers.models import loading
from explainers.models.catalogue import CATALOGUE, embedded_names, embedded_path
from explainers.models.inputs.types import PicturePrompt
from explainers.models.loading import load
from explainers.models.wrapping import wrap
from tests.explainers.support.garbage import without_collection
from tests.explainers.support.saved_models import save_timm, save_transformers
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece


@pytest.mark.parametrize("half", [False, True])
def test_loads_a_folder_of_timm(tmp_path: Path, half: bool) -> None:
    module = save_timm(tmp_path / "mine", half)
    model = load(tmp_path / "mine", "cpu")
    pixels = torch.randn(2, 3, 32, 24)
    assert model.name == "mine"
    assert model.dtype == torch.float32
    assert list(model.labels) == ["ant", "bee", "cat", "dog", "eel"]
    assert not any(part.training for part in model.module.modules())
    with torch.no_grad():
        expected = (module.half().float() if half else module)(pixels)
        torch.testing.assert_close(model.forward({"pixel_values": pixels}), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("half", [False, True])
def test_loads_a_text_model_of_transformers(tmp_path: Path, half: bool) -> None:
    module = save_transformers(tmp_path, half=half)
    model = load(str(tmp_path), "cpu")
    assert (model.kind, list(model.labels)) == ("text", ["bad", "middling", "good"])
    assert model.dtype == torch.float32
    assert model.details["max_tokens"] == 20
    with torch.no_grad():
        ours = model.forward(model.tensors("a good film"))
        theirs = module.float()(**wordpiece()("a good film", return_tensors="pt")).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["hf-clip", "hf-vit", "hf-siglip-classifier"])
def test_loads_images_and_towers_of_transformers(tmp_path: Path, family: str) -> None:
    save_transformers(tmp_path, family)
    model = load(tmp_path, "cpu")
    prepared = model.prepare(Image.new("RGB", (50, 40)))
    assert model.kind == FAMILIES[family].kind
    assert prepared.notes == ((),)
    tensors = prepared.tensors | (model.prompt_inputs(["a good film", "bad"]).tensors if model.prompt_inputs else {})
    with torch.no_grad():
        assert model.forward(tensors).shape[0] == 1


@pytest.mark.parametrize(
    ("family", "lost", "message"),
    [
        ("bert", "config.json", r"lacks config\.json"),
        ("bert", "model.safetensors", r"lacks model\.safetensors"),
        ("bert", "tokenizer.json", r"lacks tokenizer\.json.*Tokenizer"),
        ("hf-vit", "preprocessor_config.json", r"lacks preprocessor_config\.json.*ImageProcessor"),
        ("hf-clip", "preprocessor_config.json", r"lacks preprocessor_config\.json.*ImageProcessor"),
        ("hf-clip", "tokenizer.json", r"lacks tokenizer\.json.*Tokenizer"),
    ],
)
def test_says_which_file_a_folder_lacks(tmp_path: Path, family: str, lost: str, message: str) -> None:
    save_transformers(tmp_path, family)
    (tmp_path / lost).unlink()
    with pytest.raises(ExplainerError, match=message):
        load(tmp_path, "cpu")


def test_damaged_folders(tmp_path: Path) -> None:
    save_timm(tmp_path / "weights")
    (tmp_path / "weights" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ExplainerError, match="cannot load"):
        load(tmp_path / "weights", "cpu")
    save_transformers(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ExplainerError, match="cannot load"):
        load(tmp_path / "bert", "cpu")
    (tmp_path / "bert" / "config.json").write_text("{")
    with pytest.raises(ExplainerError, match="is not JSON"):
        load(tmp_path / "bert", "cpu")
    (tmp_path / "bert" / "config.json").write_text("{}")
    with pytest.raises(ExplainerError, match="neither an architecture"):
        load(tmp_path / "bert", "cpu")


def test_a_checkpoint_without_a_head_is_refused(tmp_path: Path) -> None:
    """transformers would make up a random head and only warn."""
    module = save_transformers(tmp_path)
    module.bert.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"architectures": ["BertForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ExplainerError, match=r"lack .*classifier"):
        load(tmp_path, "cpu")
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["MyOwnBert"]}))
    with pytest.raises(ExplainerError, match="'MyOwnBert', which transformers does not have"):
        load(tmp_path, "cpu")


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForSequenceClassification"]}')
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}'
    )
    (tmp_path / "model-1-of-2.safetensors").touch()
    with pytest.raises(ExplainerError, match=r"lacks model-2-of-2\.safetensors"):
        load(tmp_path, "cpu")


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "no kind of device"), ("cuda:99", "is not there"), ("meta", "holds no numbers"), ("xpu", "cannot be used")],
)
def test_devices_that_are_not_there(tmp_path: Path, device: str, message: str) -> None:
    save_timm(tmp_path)
    with pytest.raises(ExplainerError, match=message):
        load(tmp_path, device)


def test_unknown_names_are_told_what_there_is() -> None:
    with pytest.raises(ExplainerError, match=r"no model 'scenes-vti'.*Embedded models.*timm/<name>"):
        load("scenes-vti")
    with pytest.raises(ExplainerError, match=r"Did you mean timm/vit_base_patch16_224"):
        load("timm/vit_base_patch16_242")
    with pytest.raises(ExplainerError, match="not the name of a model"):
        load("hf/too/many/parts")


def test_near_misses_of_the_catalogue() -> None:
    with pytest.raises(ExplainerError, match="Did you mean hf/openai/clip-vit-base-patch32"):
        load("openai/clip-vit-base-patch32")


def test_the_catalogue_names_what_ships_inside() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(set(names)) == len(names)
    embedded = [entry.embedded for entry in CATALOGUE]
    assert embedded == sorted(embedded, reverse=True)  # embedded ones first
    assert embedded_names() == [entry.name for entry in CATALOGUE if entry.embedded]
    root = embedded_path(names[0]).parent
    assert {path.name for path in root.iterdir() if (path / "config.json").is_file()} == set(embedded_names())
    with pytest.raises(ExplainerError, match="no embedded model 'nothing'"):
        embedded_path("nothing")
    for entry in CATALOGUE:
        assert entry.description.endswith(".")
        if entry.name.startswith("timm/"):
            cfg = timm.get_pretrained_cfg(entry.name.removeprefix("timm/"))
            assert cfg is not None
            assert cfg.hf_hub_id
            assert cfg.num_classes
            assert cfg.hf_hub_id.endswith(entry.name.removeprefix("timm/"))


@pytest.mark.slow
@pytest.mark.parametrize("name", embedded_names())
def test_embedded_models_load_and_answer(name: str) -> None:
    model = load(name, "cpu")
    entry = next(entry for entry in CATALOGUE if entry.name == name)
    assert model.name == name
    assert model.kind == entry.kind
    if model.kind == "molecule":
        pytest.importorskip("rdkit")
    given = {"text": "A film with a good plot.", "molecule": "c1ccccc1O"}
    picture = Image.new("RGB", (90, 70), (90, 140, 200))
    inputs: Any = PicturePrompt(picture, "<image> Is there a zebra?") if model.reads_pictures else given.get(model.kind, picture)
    prepared = model.prepare(inputs)
    assert prepared.notes == ((),)
    tensors = prepared.tensors | (model.prompt_inputs(["a photo of a zebra", "a photo of a dog"]).tensors if model.prompt_inputs else {})
    with torch.no_grad():
        logits = model.forward(tensors)
    assert torch.isfinite(logits).all()
    config: Any = model.module.config if model.reads_pictures else None
    outputs = 2 if model.kind == "clip" else config.text_config.vocab_size if model.reads_pictures else len(model.labels)
    assert logits.shape == (1, outputs)


def test_loads_what_can_be_explained_also_under_inference_mode(tmp_path: Path) -> None:
    save_timm(tmp_path / "mine")
    with torch.inference_mode():
        model = load(tmp_path / "mine", "cpu")
    assert not any(tensor.is_inference() for tensor in model.module.state_dict().values())


def test_loading_leaves_the_garbage_collector_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    was_on: list[bool] = []
    monkeypatch.setattr(loading, "wrap", lambda *given, **named: was_on.append(gc.isenabled()) or wrap(*given, **named))
    save_timm(tmp_path / "mine")
    load(tmp_path / "mine", "cpu")
    with without_collection():
        load(tmp_path / "mine", "cpu")
        was_on.append(gc.isenabled())  # it stays off for whoever switched it off
    assert was_on == [True, False, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_are_loaded_in_the_type_that_is_asked_for(dtype: torch.dtype) -> None:
    model = load("scenes-vit", "cpu", dtype=dtype)
    exact = load("scenes-vit", "cpu")
    assert model.dtype == dtype
    assert exact.dtype == torch.float32
    for ours, theirs in zip(model.module.parameters(), exact.module.parameters(), strict=True):
        assert torch.equal(ours, theirs.to(dtype))


def test_another_type_of_weights_is_refused() -> None:
    with pytest.raises(ExplainerError, match=r"float64: choose one of torch\.float32, torch\.bfloat16, torch\.float16"):
        load("scenes-vit", "cpu", dtype=torch.float64)
