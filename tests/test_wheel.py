"""The wheel works where it is installed, with the checkout out of sight."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

# Runs in a fresh interpreter: sys.argv is the folder the wheel is installed in, and the checkout.
SCRIPT = r"""
import re
import sys
from pathlib import Path

site, checkout = map(Path, sys.argv[1:])
sys.path[:] = [str(site), *(entry for entry in sys.path if Path(entry).resolve() != checkout)]

import embedded
import explainers
import server
from fastapi.testclient import TestClient
from server.app import create_app
from server.settings import load_settings

for package in (embedded, explainers, server):
    assert Path(package.__file__).is_relative_to(site), package.__file__

with TestClient(create_app(load_settings({"home": "home"}))) as client:
    for path in ("/", "/image", "/prompt", "/text", "/methods", "/models"):
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        assert "<html" in answer.text, path
        files = re.findall(r'"(/static/[^"#?]+)', answer.text)
        assert len(files) >= 2, path
        assert all(client.get(file).status_code == 200 for file in files), path
    samples = client.get("/api/samples").json()["samples"]
    kinds = {sample["kind"]: sample for sample in samples}
    picture = client.get(kinds["image"]["image"]).content
Path("photo.png").write_bytes(picture)

for name, given in (("scenes-vit", "photo.png"), ("reviews-bert", kinds["text"]["text"])):
    result = explainers.explain(explainers.load(name), given, methods=["rollout"])
    assert result.maps[0].scores.isfinite().all()
    print(name, result.targets[0].label)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("vitrine-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed") / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--target", folder, wheel], check=True)
    return folder


def test_everything_is_inside(wheel: Path) -> None:
    """Every file of the packages, the templates and the static files, and the licence."""
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("explainers", "server", "embedded", "templates", "static"):
        for path in (ROOT / folder).rglob("*"):
            file = path.relative_to(ROOT).as_posix()
            if path.is_file() and "__pycache__" not in file:
                assert (f"server/{file}" if folder in ("templates", "static") else file) in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_it_works_outside_the_checkout(site: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, site, ROOT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[::2] == ["scenes-vit", "reviews-bert"]


def test_the_command_is_installed(site: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [site / "bin" / "vitrine", "models"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "scenes-vit" in done.stdout
