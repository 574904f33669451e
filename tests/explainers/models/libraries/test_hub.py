"""Models from the hub's cache and from a hub, and what is said when that cannot be."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save_file

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import timm

from explainers.errors import ExplainerError
from explainers.models import catalogue
from explainers.models.catalogue import CATALOGUE, CatalogueEntry
from explainers.models.libraries import hub
from explainers.models.loading import card, fetch, is_downloaded, load, repository_of
from tests.explainers.support.saved_models import COMMIT, REGISTERED, cache_folder, save_transformers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a hub that cannot be reached."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "cache"


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


@pytest.mark.parametrize("name", ["hf/someone/other", f"timm/{REGISTERED}"])
def test_without_a_network_it_says_so(cache: Path, name: str) -> None:
    with pytest.raises(ExplainerError, match=r"not in the local cache and http://127\.0\.0\.1:9 cannot be reached.*ships with Vitrine$"):
        load(name)


def test_a_hub_that_never_answers_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ExplainerError, match="cannot be reached"):
            load("hf/someone/other")


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as its client needs: the listing of one model, and its files."""

    files: ClassVar[dict[str, bytes]] = {}
    refused: ClassVar[tuple[int, str] | None] = None
    breaks_after: ClassVar[int | None] = None  # bytes of a file
    asked: ClassVar[list[tuple[str, int]]] = []  # the files, each with its first byte

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.split("?")[0]
        content: bytes | None = None
        if path in ("/api/models/someone/tiny", "/api/models/someone/tiny/revision/main", f"/api/models/someone/tiny/revision/{COMMIT}"):
            siblings = [{"rfilename": name, "size": len(data)} for name, data in self.files.items()]
            content = json.dumps({"id": "someone/tiny", "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}).encode()
        elif path.startswith(("/someone/tiny/resolve/main/", f"/someone/tiny/resolve/{COMMIT}/")):
            content = self.files.get(path.rsplit("/", 1)[1])
        if self.refused is not None or content is None:
            status, code = self.refused or (404, "RepoNotFound")
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        size, rest = len(content), content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:08x}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.asked.append((path, first))
            self.wfile.write(rest[: self.breaks_after])
            if len(rest) > len(rest[: self.breaks_after]):
                self.close_connection, type(self).refused = True, (500, "")

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def small_hub(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    save_transformers(tmp_path / "made")
    files = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    handler = type("Handler", (Hub,), {"files": files | {"README.md": b"card", "pytorch_model.bin": b"old"}, "refused": None, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
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
    assert any(re.fullmatch(r"downloading someone/tiny: 0\.\d\d of 0\.\d\d MB", text) for text in told)
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


PINNED = "hf/someone/tiny"


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue that names the commit and the classes of the model on the hub."""
    entry = CatalogueEntry(PINNED, "text", "Tiny", "Tiny.", False, "transformers", revision=COMMIT, labels=("one", "two", "three"))
    monkeypatch.setattr(catalogue, "CATALOGUE", [entry])


def test_a_pinned_model_is_taken_at_its_commit_and_has_the_classes_that_the_catalogue_names(
    small_hub: type[Hub], cache: Path, pinned: None
) -> None:
    assert not is_downloaded(PINNED)
    assert list(load(PINNED, "cpu").labels) == ["one", "two", "three"]
    assert {path.split("/resolve/")[1].split("/")[0] for path, _ in small_hub.asked if "/resolve/" in path} == {COMMIT}
    assert is_downloaded(PINNED)
    asked = len(small_hub.asked)
    load(PINNED, "cpu")
    assert len(small_hub.asked) == asked


def test_a_commit_that_the_hub_no_longer_has(small_hub: type[Hub]) -> None:
    small_hub.refused = (404, "RevisionNotFound")
    with pytest.raises(ExplainerError, match=f"the hub no longer has the commit {COMMIT} of someone/tiny"):
        hub.fetch("someone/tiny", revision=COMMIT)


def test_a_download_that_broke_off_goes_on_where_it_stopped(small_hub: type[Hub], cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_hub.files = {"config.json": b"{}", "model.safetensors": b"w" * 100_000}
    small_hub.breaks_after = 60_000
    monkeypatch.setattr(hub, "LARGE_BYTES", 1000)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with pytest.raises(ExplainerError, match="broke off"):
        hub.fetch("someone/tiny", revision=COMMIT)
    small_hub.breaks_after, small_hub.refused = None, None
    small_hub.asked.clear()
    told: list[float | None] = []
    folder = hub.fetch("someone/tiny", lambda text, fraction: told.append(fraction), COMMIT)
    assert (folder / "model.safetensors").read_bytes() == b"w" * 100_000
    first = dict(small_hub.asked)[f"/someone/tiny/resolve/{COMMIT}/model.safetensors"]
    assert first == 60_000
    fractions = [fraction for fraction in told if fraction is not None]
    assert fractions[0] == pytest.approx(0.7, abs=0.001)  # with the first chunk that came now
    assert fractions[-1] == 1.0


def test_a_disk_without_room_is_told_before_anything_is_downloaded(
    small_hub: type[Hub], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_hub.files["model.safetensors"] = b"w" * 30_000_000
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=120_000_000))
    with pytest.raises(ExplainerError, match=r"someone/tiny needs 30 MB, and 120 MB are free on the disk .* make room there"):
        hub.fetch("someone/tiny")
    assert not any("/resolve/" in path for path, _ in small_hub.asked)
    begun = cache / "models--someone--tiny" / "blobs"
    begun.mkdir(parents=True)
    (begun / "a.incomplete").write_bytes(b"w" * 15_000_000)  # 15 MB are missing
    hub.fetch("someone/tiny")


def test_offline_a_model_that_is_not_there_is_refused_without_asking(
    small_hub: type[Hub], pinned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ExplainerError, match="offline mode is on"):
        load(PINNED)
    assert not small_hub.asked


def test_each_page_has_one_model_that_is_one_press_away_at_a_commit_of_known_size() -> None:
    recommended = [entry for entry in CATALOGUE if entry.recommended]
    assert [entry.kind for entry in recommended] == ["image", "clip", "text"]
    for entry in recommended:
        assert re.fullmatch("[0-9a-f]{40}", entry.revision or "")
        assert (entry.megabytes or 0) > 100


def test_a_timm_model_of_the_catalogue_lies_on_the_hub_under_its_own_name() -> None:
    names = [entry.name for entry in CATALOGUE if entry.name.startswith("timm/")]
    assert names
    for name in names:
        assert timm.get_pretrained_cfg(name.removeprefix("timm/")).hf_hub_id == name
        assert repository_of(name) == name
