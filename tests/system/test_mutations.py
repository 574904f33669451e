"""Thousands of files and texts that are nearly what they should be, to a server in a process of its own: it refuses them and lives."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.server.support.hostile import DEEDS, KIND
from tests.server.support.mutations import pictures, texts
from tests.system.support.attacked import MODEL, Attacked, ask

pytestmark = pytest.mark.system
MUTATIONS = int(os.environ.get("SYSTEM_MUTATIONS", "400"))
SEED = int(os.environ.get("SYSTEM_SEED", "1"))
CLIENTS = 4
BY_WORD = [word.encode() for word in DEEDS]  # on which the model crashes, and so on


def test_thousands_of_mutations(tmp_path: Path) -> None:
    with Attacked(tmp_path) as server, httpx.Client(base_url=server.address, timeout=120) as client, ThreadPoolExecutor(CLIENTS) as pool:

        def picture(data: bytes) -> int:
            """It is decoded, and then the model takes no pictures."""
            return client.post("/api/explanations", data={"model": MODEL}, files={"image": data}).status_code

        def text(data: bytes) -> int:
            return client.post("/api/explanations?wait=1", data={"model": MODEL, "text": data, "methods": "rollout"}).status_code

        statuses = Counter(pool.map(picture, pictures(MUTATIONS, SEED)))
        assert set(statuses) <= {413, 415, 422}, statuses
        harmless = (one for one in texts(MUTATIONS // 5, SEED) if not any(word in one.lower() for word in BY_WORD))
        statuses = Counter(pool.map(text, harmless))
        assert set(statuses) <= {200, 400, 422, 429}, statuses
        assert ask(client, f"{KIND} {KIND}", wait=True).json()["state"] == "done"
        server.stop(10)
