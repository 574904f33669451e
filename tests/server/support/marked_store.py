"""A store whose files hold a mark, by which a test finds what was deleted."""

from __future__ import annotations

import os
from pathlib import Path

from vitrine_server.settings import load_settings
from vitrine_server.store.store import Store, open_store
from vitrine_server.store.tables import new_identity

MARK = os.urandom(64)
UPLOAD_BYTES = 2_000_000  # more than the reserve


def opened(home: Path) -> Store:
    return open_store(load_settings({"home": home}))


def add(store: Store, upload: bytes) -> str:
    """Store a finished explanation with this upload and a picture; its id."""
    document = {**new_identity(), "state": "done", "maps": []}
    store.add(document, {"input.png": MARK + os.urandom(200_000)}, upload)
    return str(document["id"])


def is_kept(home: Path) -> bool:
    """Whether anything marked is in a file of the store."""
    return any(MARK in path.read_bytes() for path in home.glob("vitrine.sqlite*"))
