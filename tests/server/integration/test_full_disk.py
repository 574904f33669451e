"""What is deleted goes on a disk that is really full: a small one of memory, in a namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PYTHONPATH, ROOT
from tests.server.support.marked_store import MARK, add, is_kept, opened
from vitrine_server.http.problems import Problem

# Runs in a fresh interpreter: sys.argv[1] is a folder on the small disk.
SCRIPT = r"""
import os
import sys
from pathlib import Path

from vitrine_server.http.problems import Problem
from tests.server.support.marked_store import MARK, UPLOAD_BYTES, add, is_kept, opened

folder = Path(sys.argv[1])
store = opened(folder / "home")
ids = [add(store, MARK * 16 + os.urandom(UPLOAD_BYTES) + MARK) for _ in range(2)]
shared = os.urandom(1000)
first, second = add(store, shared), add(store, shared)
store.database.give_back()  # the log of SQLite has no room of its own any more
spared = []
spare_room = store.database.spare_room
store.database.spare_room = lambda one: (spared.append(one), spare_room(one))[1]
with open(folder / "filler", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(512))
    except OSError:
        pass
try:
    add(store, os.urandom(100_000))
except Problem as problem:
    assert problem.status == 507
else:
    raise AssertionError("there is room")
for one in (*ids, first):
    assert store.delete(one)
    assert store.document(one) is None
assert spared
assert store.upload(second) == shared
assert store.delete(second)
assert not is_kept(folder / "home")
assert store.check() is None
add(store, os.urandom(100_000))
print("done")
"""


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no disk of memory can be mounted here: unshare -rm is refused")
def test_deletion_works_on_a_disk_that_is_full(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=14m none "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "-rm", "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, SCRIPT]
    environ = os.environ | {"PYTHONPATH": PYTHONPATH}
    done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


def test_what_is_deleted_in_the_reserve_is_overwritten_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no disk can be filled: the first try is refused as on a full one."""
    store = opened(tmp_path)
    delete, refusals = store._delete, [Problem(507, "disk-full", "Full."), None, Problem(507, "disk-full", "Full."), None]

    def refused_once(one: str) -> bool:
        if (refusal := refusals.pop(0)) is not None:
            raise refusal
        return delete(one)

    monkeypatch.setattr(store, "_delete", refused_once)
    shared = MARK + os.urandom(700_000)
    first, second, other = add(store, shared), add(store, shared), add(store, b"another")
    assert store.delete(first)
    assert store.upload(second) == shared
    assert store.delete(second)
    assert (store.document(first), store.document(second), store.upload(other)) == (None, None, b"another")
    assert not refusals
    picture = store.file(other, "input.png")
    assert picture is not None
    assert picture.startswith(MARK)
    assert (tmp_path / "vitrine.reserve").stat().st_size == 1 << 20
    assert store.database.file.execute("PRAGMA secure_delete").fetchone() == (1,)  # type: ignore[attr-defined]
    monkeypatch.undo()
    assert store.delete(other)
    assert not is_kept(tmp_path)
    store.close()
