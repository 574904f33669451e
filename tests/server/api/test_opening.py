"""A model of one's own over HTTP: brought by upload or path, looked at, opened, and asked."""

from __future__ import annotations

import io
import json
import os
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from tests.explainers.support.saved_models import save_timm
from tests.server.conftest import Site, Sites
from tests.server.support.gated_models import GatedModels
from tests.support.own_models.case import ARCHITECTURE, CLASSES, vit
from vitrine_server.api.opening import _slug
from vitrine_server.http.archives import safe_path
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_source import load_model
from vitrine_server.jobs.catalogue.own_models import OwnModels


class WithOwn(GatedModels):
    """Tiny models, and those of one's own as the server opens them."""

    def load(self, name: Any, device: str | None, /, **ways: Any) -> Any:
        if isinstance(name, Path):
            return load_model(name, device, **ways)
        return super().load(name, device, **ways)


@contextmanager
def home(sites: Sites, **settings: Any) -> Iterator[Site]:
    """A server that is asked by a name of its own machine."""
    with sites(WithOwn(), loaded=False, **settings) as site:
        site.client.base_url = "http://127.0.0.1:8000"  # type: ignore[assignment]
        yield site


def weights(module: Any = None) -> bytes:
    return save(dict((module or vit()).state_dict()))


def zipped(folder: Path, **names: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder.parent))
        for name, content in names.items():
            archive.writestr(name, content)
    return data.getvalue()


def bring(site: Site, files: dict[str, bytes]) -> str:
    upload: str = site.client.post("/api/opening").json()["id"]
    for name, content in files.items():
        answer = site.client.put(f"/api/opening/{upload}/file", params={"name": name}, content=content)
        assert answer.status_code == 200, answer.text
    return upload


def opened(site: Site, **wanted: Any) -> tuple[str, Any]:
    answer = site.client.post("/api/opening/open", json=wanted)
    assert answer.status_code == 202, answer.text
    name = answer.json()["name"]
    site.events(answer.json()["events"])
    return name, site.get(f"/api/opening/report?name={name}")


def test_a_file_is_brought_looked_at_opened_and_listed(sites: Sites) -> None:
    with home(sites) as site:
        upload = bring(site, {"best.safetensors": weights()})
        look = site.client.post("/api/opening/look", json={"upload": upload}).json()
        assert (look["architectures"][0], look["classes"], look["name"]) == (ARCHITECTURE, 5, "best")
        name, answer = opened(site, upload=upload, name="best", architecture=ARCHITECTURE, labels="\n".join(CLASSES))
        assert name == "own/best"
        assert answer["state"] == "loaded", answer
        assert {check["state"] for check in answer["report"]["checks"]} <= {"passed", "not asked"}
        listed = site.get(f"/api/models/{name}")
        assert listed["labels"] == CLASSES
        assert answer["report"]["name"] == name


@pytest.mark.parametrize(
    ("folder", "name"),
    [("best.safetensors", "best"), ("model_best.pth.tar", "model_best"), ("my-qwen2.5-vl", "my-qwen2-5-vl"), (".", "model")],
)
def test_a_model_is_called_by_its_folder_without_the_ending_of_a_file(folder: str, name: str) -> None:
    assert _slug(folder) == name


def test_a_zip_of_a_folder_is_unpacked_and_what_is_code_is_left_out(sites: Sites, tmp_path: Path) -> None:
    save_timm(tmp_path / "my-model")
    (tmp_path / "my-model" / "modeling.py").write_text("raise SystemExit")
    with home(sites) as site:
        upload = bring(site, {"my-model.zip": zipped(tmp_path / "my-model")})
        look = site.client.post("/api/opening/look", json={"upload": upload}).json()
        assert look["architecture"].endswith(" of timm")
        assert (look["what"], look["name"], look["left_out"]) == ("a folder that timm saved", "my-model", ["modeling.py"])
        assert opened(site, upload=upload, name="zipped")[1]["state"] == "loaded"


def test_a_path_of_this_machine_is_opened(sites: Sites, tmp_path: Path) -> None:
    torch.save({"state_dict": vit().state_dict()}, tmp_path / "ckpt.pth")
    with home(sites) as site:
        assert site.get("/api/opening") == {"uploads": True, "paths": True, "most_mb": 4000.0, "why": None}
        name, answer = opened(site, path=str(tmp_path / "ckpt.pth"), labels='["a","b","c","d","e"]', labels_name="names.json")
        assert (name, answer["state"]) == ("own/ckpt", "loaded")
        again, _ = opened(site, path=str(tmp_path / "ckpt.pth"))
        assert again == "own/ckpt-2"


def test_what_cannot_be_opened_has_a_report_without_paths(sites: Sites, tmp_path: Path) -> None:
    torch.save({"state_dict": vit().state_dict()}, tmp_path / "ckpt.pth")
    with home(sites) as site:
        name, answer = opened(site, path=str(tmp_path / "ckpt.pth"), architecture="timm/test_vit2")
        assert answer["state"] == "failed"
        assert "open(a file .pth, architecture=timm/test_vit2)" in answer["failure"]
        assert str(tmp_path) not in answer["failure"]
        problem = next(entry for entry in site.get("/api/models")["models"] if entry["name"] == name)["problem"]
        assert "may be of timm/test_vit" in problem["detail"]


@pytest.mark.parametrize(
    ("settings", "host", "uploads", "paths"),
    [
        ({}, "127.0.0.1:8000", True, True),
        ({}, "localhost:8000", True, True),
        ({"allowed_hosts": ("vitrine.example",)}, "vitrine.example", False, False),
        ({"host": "0.0.0.0"}, "127.0.0.1:8000", False, False),
        ({"host": "0.0.0.0", "own_models": "uploads"}, "127.0.0.1:8000", True, False),
        ({"host": "0.0.0.0", "own_models": "all"}, "127.0.0.1:8000", True, True),
        ({"own_models": "off"}, "127.0.0.1:8000", False, False),
    ],
)
def test_who_may_bring_a_model(settings: Any, host: str, uploads: bool, paths: bool, sites: Sites, tmp_path: Path) -> None:
    with home(sites, **settings) as site:
        site.client.base_url = f"http://{host}"  # type: ignore[assignment]
        allowed = site.get("/api/opening")
        assert (allowed["uploads"], allowed["paths"]) == (uploads, paths)
        assert site.client.post("/api/opening").status_code == (201 if uploads else 403)
        look = site.client.post("/api/opening/look", json={"path": str(tmp_path)})
        assert look.status_code == (422 if paths else 403), look.text
        assert paths or look.json()["type"].endswith("own-models-not-allowed")


PROXIES = (
    *("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"),
    *("X-Real-IP", "Via", "CF-Connecting-IP", "True-Client-IP"),
)


@pytest.mark.parametrize(
    ("peer", "headers", "is_here"),
    [
        ("127.0.0.1", [("Host", "localhost")], True),
        ("::1", [("Host", "[::1]:8000")], True),
        ("::ffff:127.0.0.1", [("Host", "127.0.0.1")], True),
        ("10.0.0.7", [("Host", "localhost")], False),
        ("10.0.0.7", [("Host", "localhost"), ("X-Forwarded-For", "127.0.0.1")], False),
        ("127.0.0.1", [("Host", "vitrine.example")], False),
        ("127.0.0.1", [("Host", "localhost"), ("Host", "localhost")], False),
        *(("127.0.0.1", [("Host", "localhost"), (header, "127.0.0.1")], False) for header in PROXIES),
    ],
)
def test_the_connection_says_who_sits_at_the_machine(sites: Sites, peer: str, headers: list[tuple[str, str]], is_here: bool) -> None:
    """Not what a client or a proxy says: a proxy hands on ``Host: localhost``."""
    for names in ({}, {"allowed_hosts": ("vitrine.example",), "trusted_proxies": ("127.0.0.1", "10.0.0.7")}):
        with home(sites, **names) as site:
            site.client._transport.client = (peer, 50000)  # type: ignore[attr-defined]
            answer = site.client.get("/api/opening", headers=headers)  # type: ignore[arg-type]
            assert answer.status_code in ((200,) if is_here else (200, 403))
            assert (answer.json().get("uploads", False), answer.json().get("paths", False)) == (is_here, is_here)
            look = site.client.post("/api/opening/look", json={"path": "/etc"}, headers=headers)  # type: ignore[arg-type]
            assert look.status_code == (422 if is_here else 403)


@pytest.mark.parametrize("header", PROXIES)
def test_nothing_is_changed_by_way_of_a_proxy_that_nobody_named(sites: Sites, header: str) -> None:
    """All who come through it would be one person, and that the person at the machine."""
    with home(sites) as site:
        answer = site.client.post("/api/runs", json={}, headers={"Host": "localhost", header: "1"})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (403, "unknown-proxy")
    with home(sites, allowed_hosts=("localhost",)) as site:
        assert site.client.post("/api/runs", json={}, headers={"Host": "localhost", header: "1"}).status_code == 422


def test_what_is_no_file_is_not_opened(sites: Sites, tmp_path: Path) -> None:
    """Nor what a link leads to; and what is no path at all is said to be none."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-proc").symlink_to("/proc/self/environ")
    (tmp_path / "to-pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "deep").symlink_to(tmp_path / "deeper")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "again").symlink_to(tmp_path / "deeper")
    with socket.socket(socket.AF_UNIX) as listener, home(sites) as site:
        listener.bind(name := str(tmp_path / "s"))
        no_files = (
            "/dev/zero",
            "/dev",
            "//proc/self/cwd",
            "//dev",
            "/dev/stdin",
            "/proc/self/environ",
            "/proc/self/root/etc",
            "/proc",
            "/sys",
            name,
        )
        for path in (*no_files, "pipe", "to-proc", "to-pipe", "", " ", "''"):
            answer = site.client.post("/api/opening/look", json={"path": str(tmp_path / path) if path.strip(" '") else path})
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) in ((422, "no-file"), (422, "no-place")), path
        for path in ("a/" * 900, "x" * 1500, "a\0b", "~nobody-of-this-name/x", str(tmp_path / "circle"), f"{tmp_path}/pipe/x"):
            assert site.client.post("/api/opening/look", json={"path": path}).status_code == 404, path
        assert site.client.post("/api/opening/look", json={"path": str(tmp_path / "deep")}).status_code == 422
        wanted = {"path": str(tmp_path), "architecture": "ü" * 200}
        assert site.client.post("/api/opening/open", json=wanted).status_code < 500


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b.pth", "C:\\x.pth", "", ".", "a/..", "x\0.pth"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(Problem, match="is not the name of a file inside a folder"):
        safe_path(name, "Send files.")


def test_a_zip_that_leads_elsewhere_or_grows_is_refused(tmp_path: Path) -> None:
    store = OwnModels(tmp_path, 1_000_000)

    def unpack(name: str, content: bytes, link: bool = False) -> None:
        upload = store.begin(Visitor())
        with zipfile.ZipFile(upload.folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if link else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        store.unpack(upload)

    with pytest.raises(Problem, match="not the name of a file inside a folder"):
        unpack("../../evil.pth", b"x")
    with pytest.raises(Problem, match="holds a link"):
        unpack("link.pth", b"/etc/passwd", link=True)
    with pytest.raises(Problem, match="larger than 1 MB"):
        unpack("bomb.pth", b"\0" * 50_000_000)
    assert not list(tmp_path.rglob("evil.pth"))
    upload = store.begin(Visitor())
    (upload.folder / "no.zip").write_bytes(b"no zip")
    with pytest.raises(Problem, match="The zip cannot be read"):
        store.unpack(upload)


@pytest.mark.parametrize(
    ("base", "allow_models", "status"),
    [
        ("/etc", True, 422),
        ("../../models", True, 422),
        ("~/models/x", True, 422),
        ("google-bert/bert-base-uncased", True, 200),
        ("google-bert/bert-base-uncased", False, 403),
    ],
)
def test_an_adapter_from_elsewhere_names_no_folder_of_this_machine(base: str, allow_models: bool, status: int, sites: Sites) -> None:
    with home(sites, host="0.0.0.0", own_models="uploads", allow_models=allow_models) as site:
        upload = bring(site, {"a/adapter_config.json": json.dumps({"base_model_name_or_path": base}).encode()})
        assert site.client.post("/api/opening/look", json={"upload": upload}).status_code == status


def test_too_much_is_refused(sites: Sites) -> None:
    with home(sites, max_model_mb=0.001) as site:
        upload = site.client.post("/api/opening").json()["id"]
        answer = site.client.put(f"/api/opening/{upload}/file", params={"name": "a.pth"}, content=b"x" * 2000)
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (413, "model-too-large")
        assert site.client.delete(f"/api/opening/{upload}").status_code == 204
        assert site.client.delete(f"/api/opening/{upload}").status_code == 404


def test_each_stage_of_the_opening_is_told_once_it_is_done(sites: Sites) -> None:
    with home(sites) as site:
        upload = bring(site, {"best.safetensors": weights()})
        opening = site.client.post("/api/opening/open", json={"upload": upload, "architecture": ARCHITECTURE}).json()
        events = [(name, data.get("stage")) for _, name, data in site.events(opening["events"])]
        assert events == [("progress", None), ("progress", "opened"), ("progress", "checked"), ("loaded", None)]


@pytest.mark.parametrize(
    ("wanted", "status", "slug"),
    [
        ({}, 422, "no-place"),
        ({"upload": "000000000000"}, 404, "no-such-upload"),
        ({"path": "/nowhere/at/all"}, 404, "no-such-path"),
        ({"path": "a folder", "architecture": "/etc"}, 422, "not-a-name"),
        ({"path": "a folder", "labels": "{", "labels_name": "a.json"}, 422, "cannot-be-opened"),
    ],
)
def test_questions_that_make_no_sense(wanted: Any, status: int, slug: str, sites: Sites, tmp_path: Path) -> None:
    if wanted.get("path") == "a folder":
        wanted = {**wanted, "path": str(tmp_path)}
    with home(sites) as site:
        answer = site.client.post("/api/opening/open", json=wanted)
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (status, slug)


def test_the_server_opens_what_it_is_named_in_the_ways_of_its_settings(sites: Sites, tmp_path: Path) -> None:
    torch.save({"model": vit().state_dict()}, tmp_path / "best.pth")
    seen: list[tuple[str, dict[str, Any]]] = []

    class Listening(GatedModels):
        def load(self, name: str, device: str | None, /, **ways: Any) -> Any:
            seen.append((name, ways))
            return super().load(name, device, **ways)

    best = str(tmp_path / "best.pth")
    settings = {"models": (best, "timm/other"), "architecture": ARCHITECTURE, "labels": "names.txt"}
    with sites(Listening(), **settings) as site:
        site.wait_for_models(best, "timm/other")
    assert (best, {"architecture": ARCHITECTURE, "labels": "names.txt"}) in seen
    assert ("timm/other", {}) in seen


def test_what_is_no_file_is_not_read_in_a_folder_either(sites: Sites, tmp_path: Path) -> None:
    """Whatever it is called, and at any depth."""
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "model"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    (folder / "best.safetensors").write_bytes(weights())
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, home(sites) as site:
        listener.bind(str(tmp_path / "socket"))

        def look(path: Path) -> tuple[int, str]:
            answer = site.client.post("/api/opening/look", json={"path": str(path)})
            return answer.status_code, answer.json().get("type", "").rpartition(":")[2]

        assert look(folder) == (200, "")
        for name in ("config.json", "model.safetensors", "deep/er/vocab.txt", "linked/a.bin"):
            for leads_to in ("/proc/self/environ", "/dev/zero", "/sys/kernel", "pipe", "socket", "/proc/self", "/dev"):
                (folder / name).symlink_to(tmp_path / leads_to)
                assert look(folder) == (422, "no-file"), (name, leads_to)
                beside = look(folder / "best.safetensors")
                assert beside == ((200, "") if "/" in name else (422, "no-file")), (name, leads_to)
                opened = site.client.post("/api/opening/open", json={"path": str(folder)})
                assert opened.status_code == 422
                (folder / name).unlink()


def test_pipes_and_sockets_themselves_are_none_of_a_folder(sites: Sites, tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").write_bytes(weights())
    os.mkfifo(tmp_path / "p")
    with home(sites) as site:
        answer = site.client.post("/api/opening/look", json={"path": str(tmp_path)})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (422, "no-file")
        beside = site.client.post("/api/opening/look", json={"path": str(tmp_path / "best.safetensors")})
        assert beside.status_code == 200, beside.text  # it is not called as a file of a model is


def test_links_that_lead_to_files_and_nowhere_may_be_in_a_folder(sites: Sites, tmp_path: Path) -> None:
    """The cache of the hub is made of links."""
    (tmp_path / "blob").write_bytes(weights())
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "best.safetensors").symlink_to("../blob")
    (folder / "nothing.json").symlink_to("../nothing")
    (folder / "circle").symlink_to("circle")
    with home(sites) as site:
        assert site.client.post("/api/opening/look", json={"path": str(folder)}).status_code == 200


def test_a_folder_of_all_things_is_not_looked_through(sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.jobs.catalogue.model_paths.MAX_ENTRIES", 10)
    for number in range(11):
        (tmp_path / f"{number}.json").touch()
    with home(sites) as site:
        answer = site.client.post("/api/opening/look", json={"path": str(tmp_path)})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (422, "too-many-files")


@pytest.mark.parametrize(("base", "status"), [("/proc/self", 422), ("/dev", 422), ("{folder}", 200)])
def test_an_adapter_of_a_path_names_no_other_base_than_people_may(sites: Sites, tmp_path: Path, base: str, status: int) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base.format(folder=tmp_path)}))
    with home(sites) as site:
        assert site.client.post("/api/opening/look", json={"path": str(folder)}).status_code == status
