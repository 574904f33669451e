"""Models by name: embedded, from a folder, from the hub's cache, from a hub; and what is said when that cannot be."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from huggingface_hub import constants
from PIL import Image
from safetensors.torch import save_file

import explainers.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm
import transformers

from explainers.errors import ExplainerError
from explainers.models import hub
from explainers.models.catalogue import CATALOGUE, embedded_names, embedded_path
from explainers.models.loading import card, fetch, load
from tests.families import FAMILIES
from tests.vocabularies import wordpiece

TINY = {"embed_dim": 24, "depth": 2, "num_heads": 2, "img_size": [32, 24], "patch_size": 8}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REGISTERED = "test_vit.r160_in1k"  # timm's own tiny test model


def save_timm(folder: Path, half: bool = False) -> torch.nn.Module:
    """As timm's hub layout has it: config.json with the architecture, and the weights."""
    module = FAMILIES["vit"].build()
    cfg = {"input_size": [3, 32, 24], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "crop_pct": 1.0, "num_classes": 5}
    labels = ["ant", "bee", "cat", "dog", "eel"]
    config = {"architecture": "vit_tiny_patch16_224", "num_classes": 5, "model_args": TINY, "label_names": labels, "pretrained_cfg": cfg}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file({name: t.half() if half else t for name, t in module.state_dict().items()}, folder / "model.safetensors")
    return module


def save_transformers(folder: Path, family: str = "bert", half: bool = False) -> torch.nn.Module:
    module = FAMILIES[family].build()
    if family == "bert":
        module.config.id2label = {0: "bad", 1: "middling", 2: "good"}
    (module.half() if half else module).save_pretrained(folder)
    if FAMILIES[family].kind != "image":
        wordpiece().save_pretrained(folder)
    if FAMILIES[family].kind != "text":
        size = {"height": FAMILIES[family].size[0], "width": FAMILIES[family].size[1]}
        transformers.ViTImageProcessorPil(size=size).save_pretrained(folder)
    return module


def cache_folder(cache: Path, repository: str) -> Path:
    """Where the hub's client keeps ``repository``: a snapshot of a commit that the branch main points to."""
    place = cache / f"models--{repository.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(COMMIT)
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a hub that cannot be reached."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "cache"


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
    with pytest.raises(ExplainerError, match="gives features, not classes"):
        load("timm/vit_base_patch16_siglip_224.v2_webli")


def test_near_misses_of_the_catalogue() -> None:
    with pytest.raises(ExplainerError, match="Did you mean hf/openai/clip-vit-base-patch32"):
        load("openai/clip-vit-base-patch32")


def test_loads_transformers_models_from_the_cache_without_a_network(cache: Path) -> None:
    save_transformers(cache_folder(cache, "someone/tiny-bert"))
    model = load("hf/someone/tiny-bert", "cpu")
    assert model.name == "hf/someone/tiny-bert"
    assert list(model.labels) == ["bad", "middling", "good"]


def test_loads_timm_models_from_the_cache_without_a_network(cache: Path) -> None:
    folder = cache_folder(cache, f"timm/{REGISTERED}")
    module = timm.create_model(REGISTERED, pretrained=False).eval()
    (folder / "config.json").write_text("{}")
    save_file(module.state_dict(), folder / "model.safetensors")
    model = load(f"timm/{REGISTERED}", "cpu")
    pixels = torch.randn(1, 3, 160, 160)
    with torch.no_grad():
        torch.testing.assert_close(model.forward({"pixel_values": pixels}), module(pixels))
    assert model.labels[340] == "zebra"
    assert len(set(model.labels)) == 1000


def test_offline_mode_by_the_environment(tmp_path: Path) -> None:
    """HF_HUB_OFFLINE=1 and HF_HUB_CACHE are read when the hub's client is imported, so this needs a process of its own."""
    save_transformers(cache_folder(tmp_path, "someone/tiny-bert"))
    script = """
import explainers.torchvision_ops
from explainers.errors import ExplainerError
from explainers.models.loading import card, fetch, load
print(load("hf/someone/tiny-bert", "cpu").labels)
try:
    load("hf/someone/other")
except ExplainerError as problem:
    print(problem)
"""
    env = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120, env=env)
    assert "['bad', 'middling', 'good']" in ran.stdout, ran.stderr[-2000:]
    assert "someone/other is not in the local cache and offline mode is on (HF_HUB_OFFLINE)" in ran.stdout


@pytest.mark.parametrize("name", ["hf/someone/other", f"timm/{REGISTERED}"])
def test_without_a_network_it_says_so(cache: Path, name: str) -> None:
    with pytest.raises(ExplainerError, match=r"not in the local cache and http://127\.0\.0\.1:9 cannot be reached.*path of a folder"):
        load(name)


def test_a_hub_that_never_answers_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ExplainerError, match="cannot be reached"):
            load("hf/someone/other")


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as its client needs: the listing of one model, and its files."""

    files: ClassVar[dict[str, bytes]] = {}
    refused: ClassVar[tuple[int, str] | None] = None

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        content: bytes | None = None
        if path.startswith("/api/models/someone/tiny"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            content = json.dumps({"id": "someone/tiny", "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}).encode()
        elif path.startswith("/someone/tiny/resolve/main/"):
            content = self.files.get(path.rsplit("/", 1)[1])
        if self.refused is not None or content is None:
            status, code = self.refused or (404, "RepoNotFound")
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:08x}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def small_hub(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    save_transformers(tmp_path / "made")
    files = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    handler = type("Handler", (Hub,), {"files": files | {"README.md": b"card", "pytorch_model.bin": b"old"}, "refused": None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", constants.ENDPOINT + "/{repo_id}/resolve/{revision}/{filename}")
    yield handler
    server.shutdown()
    server.server_close()


def test_downloads_what_is_needed_and_tells_how_far_it_is(small_hub: type[Hub], cache: Path) -> None:
    told: list[tuple[str, float | None]] = []
    model = load("hf/someone/tiny", "cpu", progress=lambda text, fraction: told.append((text, fraction)))
    assert list(model.labels) == ["bad", "middling", "good"]
    small_hub.refused = (500, "")  # from now on the cache must do
    assert load("hf/someone/tiny", "cpu").weights_digest == model.weights_digest
    fractions = [fraction for _, fraction in told if fraction is not None]
    assert told[0] == ("asking the hub for someone/tiny", None)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    kept = {path.name for path in (cache / "models--someone--tiny" / "snapshots" / COMMIT).iterdir()}
    assert "pytorch_model.bin" not in kept  # the safetensors are enough
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= kept


def test_fetches_files_and_finds_the_card(small_hub: type[Hub], cache: Path, tmp_path: Path) -> None:
    told: list[str] = []
    assert card("hf/someone/tiny") is None
    fetch("hf/someone/tiny", lambda text, fraction: told.append(text))
    assert "downloading someone/tiny" in told
    assert card("hf/someone/tiny") == "card"
    small_hub.refused = (404, "RepoNotFound")  # no longer asked
    fetch("hf/someone/tiny")
    (tmp_path / "made" / "README.md").write_text("of the folder")
    fetch(str(tmp_path / "made"))
    assert card(str(tmp_path / "made")) == "of the folder"
    assert card(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        ((404, "RepoNotFound"), "the hub has no model 'someone/tiny'"),
        ((403, "GatedRepo"), "accept its terms"),
        ((500, ""), "cannot be reached"),
    ],
)
def test_what_a_hub_refuses(small_hub: type[Hub], refused: tuple[int, str], message: str) -> None:
    small_hub.refused = refused
    with pytest.raises(ExplainerError, match=message):
        load("hf/someone/tiny")


def test_a_repository_without_weights(small_hub: type[Hub]) -> None:
    del small_hub.files["model.safetensors"], small_hub.files["pytorch_model.bin"]
    with pytest.raises(ExplainerError, match="holds no weights that can be read"):
        load("hf/someone/tiny")


def test_a_download_that_breaks_off(small_hub: type[Hub]) -> None:
    class Flaky(dict):  # type: ignore[type-arg]
        def get(self, name: str, default: Any = None) -> Any:
            return None if name == "model.safetensors" else super().get(name, default)

    small_hub.files = Flaky(small_hub.files)
    with pytest.raises(ExplainerError, match=r"the download of someone/tiny broke off"):
        load("hf/someone/tiny")


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


@pytest.mark.parametrize("name", embedded_names())
def test_embedded_models_load_and_answer(name: str) -> None:
    model = load(name, "cpu")
    entry = next(entry for entry in CATALOGUE if entry.name == name)
    assert model.name == name
    assert model.kind == entry.kind
    inputs: Any = "A film with a good plot." if model.kind == "text" else Image.new("RGB", (90, 70), (90, 140, 200))
    prepared = model.prepare(inputs)
    assert prepared.notes == ((),)
    tensors = prepared.tensors | (model.prompt_inputs(["a photo of a zebra", "a photo of a dog"]).tensors if model.prompt_inputs else {})
    with torch.no_grad():
        logits = model.forward(tensors)
    assert torch.isfinite(logits).all()
    assert logits.shape == (1, 2 if model.kind == "clip" else len(model.labels))
