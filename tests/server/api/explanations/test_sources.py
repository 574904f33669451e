"""Ask again about the input of an explanation: the server keeps what it was sent, bit for bit, and forgets it when it is told to."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Check, Site, Sites, picture, png
from tests.server.support.gated_models import Gate
from vitrine_server.store.database import SqliteDatabase
from vitrine_server.store.store import Store
from vitrine_server.store.tables import SCHEMA_VERSION


def jpeg(seed: int = 0, size: tuple[int, int] = (1400, 900)) -> bytes:
    buffer = io.BytesIO()
    picture(seed, size).save(buffer, "JPEG", quality=70)
    return buffer.getvalue()


def numbers(document: dict[str, Any]) -> list[Any]:
    return [[one["scores"] for one in document["maps"]], document["top"], document["input"]]


def uploads(home: Path) -> list[bytes]:
    with sqlite3.connect(home / "vitrine.sqlite") as store:
        return [row[0] for row in store.execute("SELECT data FROM uploads")]


def test_the_same_picture_by_reference_gives_the_same_numbers(site: Site) -> None:
    sent = jpeg()
    first = site.ask(sent, target="zebra", wait=True).json()
    other = site.ask(source=first["id"], target="dog", wait=True).json()
    again = site.ask(source=other["id"], target="zebra", methods=["fullgrad_plus:libra", "rollout", "random"], wait=True).json()
    assert numbers(other)[1:] == numbers(first)[1:]
    assert [one["scores"] for one in again["maps"] if one["method"] != "random"] == [
        one["scores"] for spec in ("fullgrad_plus:libra", "rollout") for one in first["maps"] if one["method"] == spec
    ]
    assert not any("copy" in note for note in other["notes"])
    assert site.ask(source=first["id"], target="zebra", wait=True).json()["id"] == first["id"]  # the same question


def test_it_serves_another_model_and_texts_too(site: Site) -> None:
    first = site.ask(jpeg(1), wait=True).json()
    prompted = site.ask(source=first["id"], model="clip", prompt=["a dog"], wait=True).json()
    assert prompted["input"] == first["input"]
    text = site.ask(model="reviews-bert", text="good, and\nlong", wait=True).json()
    again = site.ask(model="reviews-bert", source=text["id"], target="positive", wait=True).json()
    assert again["input"] == text["input"]


def test_it_can_be_asked_of_one_that_is_not_finished(site: Site) -> None:
    gate: Gate = site.models.gate("forward")
    sent = jpeg(2)
    running = site.ask(sent).json()["id"]
    gate.wait()
    queued = site.ask(source=running, target="dog").json()["id"]
    gate.open()
    site.finish(queued)
    assert site.get(f"/api/explanations/{queued}")["input"] == site.get(f"/api/explanations/{running}")["input"]


def test_what_is_wrong_with_a_source_is_said(site: Site, refused: Check) -> None:
    first = site.ask(png(), wait=True).json()["id"]
    assert "deleted or forgotten" in refused(site.ask(source="nothing"), 404, "no-such-source")["detail"]
    assert "a source" in refused(site.ask(png(), source=first), 422, "one-input")["detail"]
    refused(site.ask(source=[first, first]), 422, "repeated-field")
    refused(site.ask(source=first, model="reviews-bert"), 422, "wrong-input")
    site.client.delete(f"/api/explanations/{first}")
    refused(site.ask(source=first), 404, "no-such-source")


def test_an_upload_is_kept_once_and_goes_with_its_last_explanation(sites: Sites) -> None:
    sent = jpeg(3)
    with sites() as site:
        first = site.ask(sent, wait=True).json()["id"]
        second = site.ask(source=first, target="dog", wait=True).json()["id"]
        assert uploads(sites.home) == [sent]
        site.client.delete(f"/api/explanations/{first}")
        assert uploads(sites.home) == [sent]
        third = site.ask(source=second, target="elephant", wait=True).json()["id"]
        for one in (second, third):
            site.client.delete(f"/api/explanations/{one}")
        assert uploads(sites.home) == []
    with sqlite3.connect(sites.home / "vitrine.sqlite") as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert sent[200:400] not in (sites.home / "vitrine.sqlite").read_bytes()  # overwritten, not only unlinked


def test_the_oldest_make_room_and_take_their_uploads_along(sites: Sites) -> None:
    with sites(keep=2) as site:
        for seed in range(4):
            site.ask(png(seed), wait=True)
        assert uploads(sites.home) == [png(2), png(3)]


@pytest.fixture
def old(sites: Sites) -> str:
    """An explanation in a store of the first schema, in which uploads were not kept."""
    with sites() as site:
        one: str = site.ask(jpeg(4), wait=True).json()["id"]
    with sqlite3.connect(sites.home / "vitrine.sqlite", isolation_level=None) as store:
        store.execute("DROP TABLE alembic_version")
        store.execute("DROP INDEX explanations_upload")
        store.execute("DROP INDEX explanations_unfinished")
        for column in ("upload", "owner", "turn", "address", "claimed_by", "claimed_until", "attempts", "wish"):
            store.execute(f"ALTER TABLE explanations DROP COLUMN {column}")
        store.execute("DROP TABLE uploads")
        store.execute("PRAGMA user_version=1")
    return one


def test_a_store_of_before_is_read_and_its_explanations_still_answer(sites: Sites, old: str) -> None:
    with sites() as site:
        before = site.get(f"/api/explanations/{old}")
        after = site.ask(source=old, target="dog", wait=True).json()
        assert any("numbers can differ" in note for note in after["notes"])
        assert (after["input"]["width"], after["input"]["height"]) == (1024, 658)  # the copy that was kept
        assert before["state"] == "done"
        site.ask(jpeg(4), wait=True)  # the same question with the file at hand: now it is kept
        assert jpeg(4) in uploads(sites.home)
        assert site.ask(source=old, target="elephant", wait=True).json()["input"] == before["input"]
    Store(SqliteDatabase(sites.home), 10).close()
    with sqlite3.connect(sites.home / "vitrine.sqlite") as store:
        assert store.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
