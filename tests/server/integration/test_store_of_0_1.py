"""A store that a server of 0.1 left opens in this one. ``tests/data/store_0_1/README.md`` says how it was made."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.conftest import ROOT
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

LEFT = ROOT / "tests" / "data" / "store_0_1"
#: The page that an explanation opens on, and whether it has a picture.
PAGES = {"/image": True, "/prompt": True, "/text": False}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "vitrine.sqlite").write_bytes(gzip.decompress((LEFT / "vitrine.sqlite.gz").read_bytes()))
    shutil.copy(LEFT / "costs.json", folder)
    return folder


@pytest.fixture(scope="module")
def documents(home: Path) -> list[dict[str, Any]]:
    """The explanations as 0.1 wrote them, oldest first."""
    with closing(sqlite3.connect(home / "vitrine.sqlite")) as store:
        return [json.loads(row[0]) for row in store.execute("SELECT document FROM explanations ORDER BY number")]


@pytest.fixture(scope="module")
def client(home: Path, documents: list[dict[str, Any]]) -> Iterator[TestClient]:
    """A client of a server on that store."""
    with TestClient(create_app(load_settings({"home": home, "device": "cpu"}), samples=[]), base_url="http://localhost") as one:
        yield one


def holds(now: Any, then: Any) -> bool:
    """Whether everything that was said then is said now, with the same values; there may be more."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and holds(now[key], value) for key, value in then.items())
    if isinstance(then, list):
        return isinstance(now, list) and len(now) == len(then) and all(map(holds, now, then))
    return bool(now == then)


def test_what_was_said_is_held_to_its_values() -> None:
    assert holds({"a": [1, {"b": None}], "new": 2}, {"a": [1, {"b": None}]})
    assert not holds({"a": [1, {}]}, {"a": [1, {"b": None}]})
    assert not holds({"a": [1, 2]}, {"a": [1]})


def test_the_store_is_of_0_1(documents: list[dict[str, Any]]) -> None:
    assert {document["versions"]["vitrine"] for document in documents} == {"0.1.0"}
    assert [document["input"]["kind"] for document in documents] == ["image", "image", "text"]


def test_explanations_open(client: TestClient, documents: list[dict[str, Any]]) -> None:
    for document in documents:
        answer = client.get(f"/api/explanations/{document['id']}")
        assert answer.status_code == 200, answer.text
        assert holds(answer.json(), document)
        events = client.get(f"/api/explanations/{document['id']}/events")
        assert "event: done" in events.text


def test_the_history_shows_them(client: TestClient, documents: list[dict[str, Any]]) -> None:
    for document, (page, has_picture) in zip(documents, PAGES.items(), strict=True):
        path = f"/api/explanations/{document['id']}"
        summary = client.get(f"{path}/summary").json()
        assert (summary["page"], summary.get("title")) == (page, "A film" if page == "/text" else None)
        assert summary["specs"] == document["methods"]
        assert [target["label"] for target in summary["targets"]] == [target["label"] for target in document["targets"]]
        assert client.get(f"{path}/thumbnail.jpg").status_code == (200 if has_picture else 404)
        assert client.get(page, params={"id": document["id"]}).status_code == 200


def test_they_are_exported(client: TestClient, documents: list[dict[str, Any]]) -> None:
    for document in documents:
        path = f"/api/explanations/{document['id']}"
        bundle = client.get(f"{path}/bundle.zip")
        assert bundle.status_code == 200
        with zipfile.ZipFile(io.BytesIO(bundle.content)) as files:
            assert files.testzip() is None
            inside = [Path(name) for name in files.namelist()]
        assert {"reproduce.py", "reproduce.sh", "tensors.safetensors"} <= {file.name for file in inside}
        assert sum(file.suffix == ".npy" for file in inside) == len(document["maps"])
        for entry in document["maps"]:
            numbers = client.get(f"{path}/maps/{entry['method']}.npy", params={"target": entry["target"]})
            assert np.load(io.BytesIO(numbers.content)).ravel().tolist() == pytest.approx(entry["scores"], rel=1e-6), entry["method"]
        code = client.get(f"{path}/code").json()
        assert all(document["methods"][0] in lines for lines in code.values())


def test_such_a_store_can_be_written_to(client: TestClient, documents: list[dict[str, Any]]) -> None:
    path = f"/api/explanations/{documents[0]['id']}"
    assert client.patch(path, json={"title": "Opened again"}).status_code == 200
    assert client.get(f"{path}/summary").json()["title"] == "Opened again"
