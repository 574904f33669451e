"""The files of numbers that a map can be taken away as."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from tests.server.conftest import Site, png
from vitrine_server.api.export import router
from vitrine_server.export.map_formats import MAP_FORMATS, MapFormat, scores_of


def test_scores_lie_as_their_patches() -> None:
    assert scores_of({"scores": [1, 2, 3, 4, 5, 6], "grid": [2, 3]}).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert scores_of({"scores": [1, 2, 3]}).shape == (3,)
    assert scores_of({"scores": [1]}).dtype == np.float32


@pytest.mark.parametrize("kind", MAP_FORMATS, ids=lambda kind: kind.ending)
def test_each_format_has_a_call_and_stands_in_the_bundle(site: Site, kind: MapFormat) -> None:
    document = site.ask(png(), wait=True).json()
    root = f"/api/explanations/{document['id']}"
    ending = kind.ending
    answer = site.client.get(f"{root}/maps/rollout.{ending}")
    assert answer.headers["content-type"] == kind.media_type
    assert answer.content == kind.write(scores_of(document["maps"][0]))
    archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"{root}/bundle.zip").content))
    assert archive.read(f"maps/rollout.{ending}") == answer.content
    assert f"maps/*.{ending}" in archive.read("README.txt").decode()
    assert f"/api/explanations/{{id}}/maps/{{spec:path}}.{ending}" in {route.path for route in router.routes}  # type: ignore[attr-defined]
