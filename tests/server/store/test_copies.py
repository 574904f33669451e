"""Backups while a server writes, their restoration, and damaged stores."""

from __future__ import annotations

import sqlite3
import stat
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from vitrine_server.settings import load_settings
from vitrine_server.store.copies import back_up, recover, restore
from vitrine_server.store.database import SqliteDatabase, StoreError
from vitrine_server.store.store import Store

PAGE = 4096
PICTURE = bytes(range(256)) * 200  # pages of its own


def document(number: int) -> dict[str, Any]:
    return {"id": f"{number:032x}", "state": "done", "created": f"2026-01-01T00:00:{number:02}.000+00:00", "maps": []}


def picture(number: int) -> bytes:
    return sha256(bytes([number])).digest() + PICTURE


def fill(store: Store, numbers: range) -> None:
    for number in numbers:
        store.add(document(number), {"input.png": picture(number)}, upload=picture(number) * 2, owner="somebody")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with closing(Store(SqliteDatabase(home), 100)) as store:
        fill(store, range(20))
    (home / "visitors.key").write_bytes(b"k" * 32)
    return home


def kept(home: Path) -> dict[str, tuple[bytes | None, bytes | None, str | None]]:
    with closing(Store(SqliteDatabase(home), 100)) as store:
        ids = [document(number)["id"] for number in range(60)]
        return {one: (store.file(one, "input.png"), store.upload(one), store.owner(one)) for one in ids if store.document(one)}


def whole(number: int) -> tuple[bytes, bytes, str]:
    return picture(number), picture(number) * 2, "somebody"


def test_a_backup_of_a_store_that_is_written_all_the_time_is_that_of_one_moment(home: Path, tmp_path: Path) -> None:
    with closing(Store(SqliteDatabase(home), 100)) as store:
        ended = threading.Event()

        def write() -> None:
            number = 20
            while not ended.is_set() and number < 60:
                fill(store, range(number, number + 1))
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        back_up(home, tmp_path / "backup")
        ended.set()
        writer.join()
    copied = kept(tmp_path / "backup")
    assert len(copied) >= 20
    assert list(copied.values()) == [whole(number) for number in range(len(copied))]
    files = [path for path in (tmp_path / "backup").iterdir() if path.name in ("vitrine.sqlite", "visitors.key")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600, 0o600]


def test_a_backup_that_fails_leaves_the_one_before(home: Path, tmp_path: Path) -> None:
    back_up(home, tmp_path / "backup")
    before = (tmp_path / "backup" / "vitrine.sqlite").read_bytes()
    scribble(home / "vitrine.sqlite", range(30, 40))
    with pytest.raises(StoreError, match="recover"):
        back_up(home, tmp_path / "backup")
    assert (tmp_path / "backup" / "vitrine.sqlite").read_bytes() == before
    assert not list((tmp_path / "backup").glob("*.part"))


def test_a_backup_is_restored_and_what_was_there_is_put_aside(home: Path, tmp_path: Path) -> None:
    back_up(home, tmp_path / "backup")
    with closing(Store(SqliteDatabase(home), 100)) as store:
        for number in range(5):
            store.delete(document(number)["id"])
        with pytest.raises(StoreError, match="stop it first"):
            restore(tmp_path / "backup", home)
    (home / "visitors.key").write_bytes(b"other")
    before = restore(tmp_path / "backup", home)
    assert list(kept(home).values()) == [whole(number) for number in range(20)]
    assert (home / "visitors.key").read_bytes() == b"k" * 32
    assert before is not None
    assert len(kept(before)) == 15
    assert (before / "visitors.key").read_bytes() == b"other"


def test_on_another_machine_a_backup_begins_the_home(home: Path, tmp_path: Path) -> None:
    back_up(home, tmp_path / "backup")
    assert restore(tmp_path / "backup", tmp_path / "new" / "home") is None
    assert len(kept(tmp_path / "new" / "home")) == 20


@pytest.mark.parametrize("content", [None, b"no store", b""])
def test_what_is_no_backup_is_not_restored(home: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "vitrine.sqlite").write_bytes(content)
    with pytest.raises(StoreError):
        restore(tmp_path, home)
    assert len(kept(home)) == 20


def scribble(file: Path, pages: range) -> None:
    data = bytearray(file.read_bytes())
    assert len(data) > pages.stop * PAGE
    for page in pages:
        data[page * PAGE : (page + 1) * PAGE] = b"\xa5" * PAGE
    file.write_bytes(data)


def test_what_can_be_read_of_a_damaged_store_joins_what_is_new(home: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "vitrine.sqlite.damaged-1"
    (home / "vitrine.sqlite").rename(damaged)
    with closing(sqlite3.connect(damaged)) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET rootpage = 1000000 WHERE name = 'explanations_number'")  # an index that is nowhere
    scribble(damaged, range(30, 60))
    with closing(Store(SqliteDatabase(home), 100)) as store:
        fill(store, range(30, 32))
    came, lost = recover(damaged, load_settings({"home": home}))
    assert came == 20
    assert lost > 0
    now = kept(home)
    assert len(now) == 22
    assert [now[document(number)["id"]] for number in (30, 31)] == [whole(30), whole(31)]
    sound = [number for number in range(20) if now[document(number)["id"]] == whole(number)]
    assert len(sound) >= 10
    for number in set(range(20)) - set(sound):  # what is lost is not there: nothing is made up
        _, upload, owner = now[document(number)["id"]]
        assert (upload in (None, picture(number) * 2), owner) == (True, "somebody")
    with closing(sqlite3.connect(home / "vitrine.sqlite")) as db:
        ids = [row[0] for row in db.execute("SELECT id FROM explanations ORDER BY number")]
        assert ids == [document(number)["id"] for number in (*range(20), 30, 31)]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("content", [b"noise" * PAGE, b""])
def test_of_what_is_no_store_nothing_is_recovered(home: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "noise").write_bytes(content)
    with pytest.raises(StoreError, match="restore a backup"):
        recover(tmp_path / "noise", load_settings({"home": home}))
    assert len(kept(home)) == 20
