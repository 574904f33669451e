"""Collections that a visitor begins through the API, and follows to their end."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from tests.server.conftest import Site
from tests.server.support.gated_models import STEPS

WANTED = {"model": "scenes-vit", "dataset": "scenes", "methods": [STEPS[0]], "limit": 3, "removal": False, "labels": False}


def packed(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def sent(site: Site, name: str, content: bytes) -> Any:
    answer = site.client.post("/api/runs/data", params={"name": name}, content=content)
    assert answer.status_code == 201, answer.text
    return answer.json()["name"]


def begun(site: Site, **changes: Any) -> str:
    answer = site.client.post("/api/collections", json={**WANTED, **changes})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(site: Site, name: str) -> Any:
    assert site.events(f"/api/collections/{name}/events")[-1][1] == "ended"
    return site.get(f"/api/collections/{name}/progress")
