"""Maps of the pixels over HTTP: the method's own numbers, and a refusal where it has none."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import explainers
from tests.server.conftest import Check, Site, picture, png
from tests.server.support.tiny_models import tiny, tiny_site

FINE = "input_x_gradient?at=pixels"
COARSE = "input_x_gradient"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


@pytest.fixture(scope="module")
def document(site: Site) -> dict:
    found: dict = site.ask(png(), target=["0", "1"], methods=[FINE, COARSE], wait=True).json()
    return found


def path(document: dict, spec: str, suffix: str) -> str:
    return f"/api/explanations/{document['id']}/maps/{quote(spec, safe='')}.{suffix}"


def test_the_numbers_are_those_of_the_method(site: Site, document: dict) -> None:
    model = tiny("scenes-vit")
    labels = [one["label"] for one in document["targets"]]
    result = explainers.explain(model, picture(), labels, [FINE])
    for one in (one for one in document["maps"] if one["method"] == FINE):
        pixels = result[FINE, one["target"]].pixels
        assert pixels is not None
        assert one["pixels"] == list(pixels.shape)
        query = {"target": one["target"], "at": "pixels"}
        values = np.load(io.BytesIO(site.client.get(path(document, FINE, "npy"), params=query).content))
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, pixels.numpy(), rtol=1e-4, atol=1e-7)
        told = site.client.get(path(document, FINE, "json"), params=query).json()
        np.testing.assert_array_equal(np.float32(told["scores"]), values)
        assert told["range"] == [pytest.approx(values.min()), pytest.approx(values.max())]
        rows, columns = one["grid"]
        cells = values.reshape(rows, values.shape[0] // rows, columns, -1).sum((1, 3))
        np.testing.assert_allclose(cells.ravel(), one["scores"], rtol=1e-4, atol=1e-6)  # the patches are sums of the pixels
        patches = np.load(io.BytesIO(site.client.get(path(document, FINE, "npy"), params={"target": one["target"]}).content))
        assert patches.shape == (rows, columns)
    assert site.client.get(path(document, COARSE, "json")).json() == next(one for one in document["maps"] if one["method"] == COARSE)


def test_a_picture_draws_each_pixel_as_it_is(site: Site, document: dict) -> None:
    fine = Image.open(io.BytesIO(site.client.get(path(document, FINE, "png"), params={"at": "pixels"}).content))
    coarse = Image.open(io.BytesIO(site.client.get(path(document, FINE, "png")).content))
    assert fine.size == coarse.size
    assert fine.tobytes() != coarse.tobytes()


def test_a_method_without_pixels_says_so(site: Site, document: dict, refused: Check) -> None:
    for suffix in ("npy", "png", "json"):
        problem = refused(site.client.get(path(document, COARSE, suffix), params={"at": "pixels"}), 404, "no-pixels")
        assert "one score for each patch" in problem["detail"]
        assert "lrp" in problem["send"]
        assert FINE in problem["send"]
    assert "pixels" not in next(one for one in document["maps"] if one["method"] == COARSE)


def test_the_bundle_holds_them(site: Site, document: dict) -> None:
    archive = zipfile.ZipFile(io.BytesIO(site.client.get(f"/api/explanations/{document['id']}/bundle.zip").content))
    names = [name for name in archive.namelist() if name.endswith(".pixels.npy")]
    assert len(names) == 2
    assert not [name for name in archive.namelist() if name.startswith("pixels of")]
    assert list(np.load(io.BytesIO(archive.read(names[0]))).shape) == document["maps"][0]["pixels"]
    assert "maps/*.pixels.npy" in archive.read("README.txt").decode()
