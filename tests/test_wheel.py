"""The wheel works where it is installed, with the checkout out of sight."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import httpx
import pytest

from tests.conftest import ROOT
from tests.support.distributions import default_distributions
from tests.support.example_package import install_example

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

# Runs in a fresh interpreter: sys.argv are the folders in which the wheel and the example package are installed, and the checkout. At its
# end it is the command, as it is installed.
SCRIPT = r"""
import re
import runpy
import sys
from pathlib import Path

site, example, checkout = map(Path, sys.argv[1:])
sys.path[:] = [str(site), str(example), *(entry for entry in sys.path if Path(entry).resolve() != checkout)]

import explainers
import torch
import vitrine_server
from explainers.metrics import METRICS
from fastapi.testclient import TestClient
from PIL import Image
from vitrine_server.app import create_app
from vitrine_server.cli import main
from vitrine_server.settings import load_settings

for package in (explainers, vitrine_server):
    assert Path(package.__file__).is_relative_to(site), package.__file__

with TestClient(create_app(load_settings({"home": "home"}))) as client:
    there = set()  # of pages that have the same
    for path in ("/", "/image", "/prompt", "/text", "/methods", "/models"):
        answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        assert "<html" in answer.text, path
        files = re.findall(r'"(/static/[^"#?]+)', answer.text)
        assert len(files) >= 2, path
        assert all(client.get(file).status_code == 200 for file in set(files) - there), path
        there.update(files)
    samples = client.get("/api/samples").json()["samples"]
    kinds = {sample["kind"]: sample for sample in samples}
    picture = client.get(kinds["image"]["image"]).content
    answered = client.get("/api/methods").json()
    listed = client.get("/api/rules").json()
    rules = [rule["name"] for rule in listed["rules"]]
    activations = [choice["value"] for kind in listed["kinds"] if kind["name"] == "activation" for choice in kind["choices"]]
    page = client.get("/methods/gradient_norm")
Path("photo.png").write_bytes(picture)

models = {name: explainers.load(name) for name in ("scenes-vit", "reviews-bert")}
for (name, model), given in zip(models.items(), ("photo.png", kinds["text"]["text"]), strict=True):
    result = explainers.explain(model, given, methods=["rollout"])
    assert result.maps[0].scores.isfinite().all()
    print(name, result.targets[0].label)
assert main(["models"]) == 0

spread = METRICS["gini"](scores=torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 5]]))
assert spread.tolist() == [0.0, 0.75], spread
methods = ["gradient_norm", "gradient_norm:frozen", "fullgrad_plus:frozen", "fullgrad_plus", "fullgrad_plus:guided"]
result = explainers.explain(models["scenes-vit"], Image.effect_noise((128, 128), 90), 0, methods)
maps = {one.method: one.scores for one in result.maps}
assert (maps["gradient_norm"] >= 0).all()
assert not torch.allclose(maps["gradient_norm"], maps["gradient_norm:frozen"])
assert not torch.allclose(maps["fullgrad_plus"], maps["fullgrad_plus:frozen"])
assert result.versions["vitrine-example"] == "0.1"
both = explainers.explain(models["scenes-vit"], Image.effect_noise((128, 128), 90), explainers.TARGETS["mean"]((0, 1)), ["rollout"]).target
assert both.of.startswith("mean:"), both
runs = {pair["spec"] for one in answered["methods"] for pair in one["pairs"] if pair["reason"] is None}
assert runs >= set(methods), runs
assert "transformer_attribution:frozen" not in runs  # it reads relevance
assert rules[-2:] == ["guided", "frozen"]
assert activations[-1] == "guided"
assert not torch.allclose(maps["fullgrad_plus"], maps["fullgrad_plus:guided"])
assert page.status_code == 200 and "Length of the gradient at each token" in page.text
command = str(site / "bin" / "vitrine")
sys.argv[:] = [command, "methods"]
runpy.run_path(command, run_name="__main__")
"""


def version() -> str:
    """The version, which pyproject.toml alone says."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def outside() -> dict[str, str]:
    """The environment variables of somebody who has no checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VITRINE_"))}


def ignore_pattern(line: str) -> re.Pattern[str]:
    """A pattern of a .dockerignore file: as Go's filepath.Match, with ** for any number of folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", posixpath.normpath(line.strip()).lstrip("/"))
    meant = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meant.get(part, re.escape(part)) for part in parts))


def docker_context(root: Path) -> list[str]:
    """The files below ``root`` that ``docker build`` sends. Of the patterns that match a file, or a folder that it is in, the last one
    says whether it is left out; one that begins with ! says that it is not.
    """
    lines = [line.strip() for line in (root / ".dockerignore").read_text("utf-8").splitlines()]
    rules = [(ignore_pattern(line.removeprefix("!")), line.startswith("!")) for line in lines if line and not line.startswith("#")]
    kept = [line.removeprefix("!").partition("*")[0] for line in lines if line.startswith("!")]

    def is_sent(path: str) -> bool:
        names = [path, *(str(parent) for parent in PurePosixPath(path).parents if str(parent) != ".")]
        return next((keeps for pattern, keeps in reversed(rules) if any(pattern.fullmatch(name) for name in names)), True)

    found = []
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        # what is left out whole, such as the virtual environment, need not be looked through
        paths = {name: (below / name).as_posix() for name in folders}
        inside = {name: any(f"{line}/".startswith(f"{path}/") or path.startswith(line) for line in kept) for name, path in paths.items()}
        folders[:] = [name for name, path in paths.items() if is_sent(path) or inside[name]]
        found += [path for name in files if is_sent(path := (below / name).as_posix())]
    return sorted(found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], check=True)
    (built,) = folder.glob("vitrine_xai-*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed") / "site"
    subprocess.run([*PIP, "install", "--no-deps", "--no-index", "--no-compile", "--target", folder, wheel], check=True)
    return folder


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the example of docs/extending.md is installed."""
    return install_example(tmp_path_factory.mktemp("example"))


def test_everything_is_inside(wheel: Path) -> None:
    """Every file of the packages, the templates and the static files, and the licence."""
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {"explainers": "explainers", "server/vitrine_server": "vitrine_server"}  # of each folder, where the wheel has it
    inside |= {folder: f"vitrine_server/{folder}" for folder in ("templates", "static")}
    for folder, place in inside.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in str(path):
                assert f"{place}/{path.relative_to(ROOT / folder).as_posix()}" in names
    assert not [name for name in names if name.startswith(("server/", "embedded/", "recipes/"))]
    theirs = [*(ROOT / "static" / "fonts").glob("*-OFL.txt"), *(ROOT / "static" / "vendor").glob("*-LICENSE")]
    for licence in ("LICENSE", *(path.relative_to(ROOT).as_posix() for path in theirs)):
        assert any(name.endswith(f"licenses/{licence}") for name in names), licence


def test_docker_sends_all_that_the_image_is_made_from(wheel: Path, tmp_path: Path) -> None:
    """The wheel of exactly what .dockerignore lets through is that of the checkout."""
    context, folder = tmp_path / "context", tmp_path / "wheels"
    sent = docker_context(ROOT)
    for path in sent:
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, context / path)
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE):
        assert all((context / name).exists() for name in copied.split()), copied
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, context], check=True)
    (built,) = folder.glob("vitrine_xai-*.whl")
    assert set(zipfile.ZipFile(built).namelist()) == set(zipfile.ZipFile(wheel).namelist())
    assert not [path for path in sent if path.startswith((".", "tests/", "docs/screenshots"))]


@pytest.mark.parametrize(
    ("patterns", "sent"),
    [
        (["*", "!a"], ["a/b/c.py", "a/d.pyc"]),
        (["*", "!a/b"], ["a/b/c.py"]),  # the folder above is not sent, and this one in it is
        (["*", "!a", "a/b"], ["a/d.pyc"]),  # the last one that matches counts
        (["**/*.pyc"], ["a/b/c.py", "e.md", "f/d.md"]),
        (["*.md"], ["a/b/c.py", "a/d.pyc", "f/d.md"]),  # one star stays in its folder
        (["**", "!**/d.*"], ["a/d.pyc", "f/d.md"]),
        (["# a", "", "/a/", "?.md"], ["f/d.md"]),
    ],
)
def test_dockerignore_is_read_as_docker_reads_it(tmp_path: Path, patterns: list[str], sent: list[str]) -> None:
    """The examples follow from the documentation of .dockerignore files."""
    for name in ("a/b/c.py", "a/d.pyc", "e.md", "f/d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".dockerignore").write_text("\n".join(patterns), "utf-8")
    assert [path for path in docker_context(tmp_path) if path != ".dockerignore"] == sent


def test_it_works_outside_the_checkout_and_another_package_adds_a_rule_a_method_and_a_metric(
    site: Path, example: Path, tmp_path: Path
) -> None:
    """With the example of docs/extending.md beside the wheel: in Python, over HTTP, and with the command as it is installed."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, site, example, ROOT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    first, second, *listed = done.stdout.splitlines()
    assert [line.split()[0] for line in (first, second)] == ["scenes-vit", "reviews-bert"]
    assert "scenes-vit" in "\n".join(listed)
    assert "gradient_norm:frozen" in "\n".join(listed)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment into which pip installed the wheel. Before that it had what pip would fetch, linked from here, and no more."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    where = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    for name in default_distributions():
        files = metadata.files(name) or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(metadata.distribution(name).locate_file(top))))
    assert subprocess.run([python, "-I", "-c", "import explainers"], capture_output=True, check=False).returncode != 0
    # with no index, pip fails where the wheel requires anything that is not there
    subprocess.run([*PIP, "--python", python, "install", "--no-index", "--no-compile", wheel], check=True, env=outside())
    return folder


def wait_until_ready(address: str) -> None:
    """Type each line of docs/operations.md that waits for /readyz, with the address of this server."""
    lines = (ROOT / "docs" / "operations.md").read_text("utf-8").splitlines()
    commands = [line[line.index("curl") :] for line in lines if "curl" in line and line.endswith("/readyz")]
    assert len(commands) >= 3
    for command in dict.fromkeys(commands):
        *words, _ = shlex.split(command)
        subprocess.run([*words, "--silent", f"{address}/readyz"], check=True, capture_output=True, timeout=120)


def test_what_pip_installs_into_an_empty_environment_opens_the_pages_and_explains(environment: Path, tmp_path: Path) -> None:
    command = environment / "bin" / "vitrine"
    told = subprocess.run([command, "--version"], check=True, capture_output=True, text=True, cwd=tmp_path, env=outside())
    assert told.stdout == f"vitrine {version()}\n"
    words = [command, "serve", "--port", "0", "--device", "cpu", "--home", tmp_path / "home"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=outside()) as server:
        try:
            assert server.stdout is not None
            log: list[str] = []
            for line in server.stdout:
                log.append(line)
                if at := re.search(r"Vitrine is at (http://\S+)", line):
                    break
            else:
                pytest.fail("".join(log))
            with httpx.Client(base_url=at[1], timeout=120) as client:
                for path in ("/", "/image", "/prompt", "/text", "/history", "/methods", "/models", "/leaderboard", "/methods/rollout"):
                    page = client.get(path)
                    assert page.status_code == 200, path
                    for file in set(re.findall(r'"(/static/[^"#?]+)', page.text)):
                        assert client.get(file).status_code == 200, file
                assert client.get("/api/openapi.json").json()["info"]["version"] == version()
                assert "loaded" in client.get("/api/models/events", params={"name": "scenes-vit"}).text
                assert "[molecules]" in client.get("/api/models/events", params={"name": "molecules"}).text
                wait_until_ready(at[1])
                states = client.get("/readyz").json()["models"]
                assert states["molecules"] == "not-installed", states
                assert states["scenes-vit"] == "loaded", states
                sample = next(one for one in client.get("/api/samples").json()["samples"] if one["model"] == "scenes-vit")
                asked = {"model": "scenes-vit", "methods": ["fullgrad_plus:libra", "rollout"]}
                picture = {"image": ("sample", client.get(sample["image"]).content)}
                answer = client.post("/api/explanations", params={"wait": 1}, data=asked, files=picture)
                assert answer.status_code == 200, answer.text
                made = answer.json()
                assert made["versions"]["vitrine"] == version()
                assert [one["method"] for one in made["maps"]] == asked["methods"]
                assert all(len(set(one["scores"])) > 1 for one in made["maps"])
        finally:
            server.terminate()


def test_the_version_is_that_of_the_newest_release_in_the_changelog() -> None:
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert releases[0] == version()
    assert "0.1.0" in releases


def test_a_package_that_cannot_be_loaded_is_named(site: Path, example: Path, tmp_path: Path) -> None:
    installed = shutil.copytree(example, tmp_path / "installed")
    module = installed / "vitrine_example.py"
    module.write_text(module.read_text("utf-8").replace('"frozen",', '"libra",'), "utf-8")
    environ = os.environ | {"PYTHONPATH": f"{site}{os.pathsep}{installed}"}
    command = [sys.executable, "-c", "import explainers"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode != 0
    assert "vitrine_example, which vitrine-example adds as vitrine.rules, cannot be loaded" in done.stderr
    assert "There is already a rule libra." in done.stderr


OF_ONE_S_OWN = """
import sys

sys.path.insert(0, "")  # as where Python is typed
import server, embedded, recipes

assert server.IS_OWN and embedded.IS_OWN and recipes.IS_OWN
import explainers
from explainers.datasets import DATASETS, open_dataset

model = explainers.load("scenes-vit", "cpu")
assert "scenes" in DATASETS, sorted(DATASETS)
sample = next(iter(open_dataset("scenes")))
assert len(explainers.explain(model, sample.image, methods=["rollout"]).maps) == 1
pages = explainers.serve(model)
from urllib.request import urlopen

assert urlopen(pages.url).status == 200
pages.stop()
"""


def test_modules_of_one_s_own_may_be_called_as_folders_of_ours(environment: Path, tmp_path: Path) -> None:
    """A folder with a server.py, an embedded.py and a recipes.py: Python and the command line take none of them for ours."""
    for name in ("server", "embedded", "recipes"):
        (tmp_path / f"{name}.py").write_text("IS_OWN = True\n", "utf-8")
    (tmp_path / "mine.py").write_text(OF_ONE_S_OWN, "utf-8")
    programs = environment / "bin"
    subprocess.run([programs / "python", "mine.py"], check=True, cwd=tmp_path, env=outside(), timeout=240)
    out = tmp_path / "out"
    asked = ["explain", ROOT / "explainers/embedded/samples/scenes/zebra-elephant.png", "--model", "scenes-vit", "--methods", "rollout"]
    for command in ([programs / "vitrine"], [programs / "python", "-m", "vitrine_server.cli"]):  # the second looks into this folder first
        subprocess.run([*command, *asked, "--out", out], check=True, capture_output=True, cwd=tmp_path, env=outside(), timeout=240)
    assert list(out.rglob("*.png"))


def test_a_wheel_is_small_and_has_types(wheel: Path) -> None:
    assert wheel.stat().st_size < 88e6  # nine tenths are six models, and trained weights hardly shrink; with five of them 70 was the aim
    assert {"explainers/py.typed", "vitrine_server/py.typed"} <= set(zipfile.ZipFile(wheel).namelist())
