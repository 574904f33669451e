"""Versions and hashes fit what is declared: constraints.txt, deploy/requirements, the Dockerfile, and the actions of workflows."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

import pytest
from packaging.utils import canonicalize_name

from tests.conftest import ROOT
from tests.support.distributions import distributions
from tools.pins import CONSTRAINTS, FOLDER, PYTHON, TORCH_PACKAGES, complete, read_hashes, read_pins

PINNED = read_pins(CONSTRAINTS.read_text("utf-8"))
FILES = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("*.txt")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def installed(names: set[str]) -> set[str]:
    return {name for name in names if next(metadata.distributions(name=name), None) is not None}


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_distribution_of_an_extra_is_pinned(extra: str) -> None:
    """What it names, what these bring along as far as they are installed here, and what the lists with hashes have."""
    lines = EXTRAS[extra] if extra else PROJECT["project"]["dependencies"]
    assert sorted(distributions(lines) - PINNED.keys()) == []


def test_what_is_installed_here_has_the_pinned_versions() -> None:
    lines = [*PROJECT["project"]["dependencies"], *EXTRAS["test"]]
    there = {name: metadata.version(name).partition("+")[0] for name in installed(distributions(lines))}
    assert {name: version for name, version in there.items() if PINNED[name] != version} == {}


def test_the_lists_hold_what_the_image_installs_and_no_more() -> None:
    project = PROJECT["project"]
    server = {name for name in distributions(project["dependencies"]) if not TORCH_PACKAGES.fullmatch(name)}
    of_torch = {name for name in PINNED if TORCH_PACKAGES.fullmatch(name)}
    assert read_pins(FILES["server"]).keys() == server
    assert read_pins(FILES["torch"]).keys() == of_torch
    assert read_pins(FILES["heif"]).keys() == {"pillow-heif"}
    assert read_pins(FILES["build"]).keys() == distributions(PROJECT["build-system"]["requires"])
    assert read_pins(FILES["supply"]).keys() >= {canonicalize_name(name) for name in EXTRAS["supply"]}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_list_has_the_versions_of_the_constraints_and_a_hash_for_each(name: str) -> None:
    """`make pins` writes it again."""
    pins = read_pins(FILES[name])
    assert pins == {one: PINNED[one] for one in pins}
    hashes = read_hashes(FILES[name])
    assert [one for one in pins if not hashes[one]] == []
    every = [line for line in FILES[name].splitlines() if "--hash" in line]
    assert sum(map(len, hashes.values())) == len(every) == len({*every})


def test_the_image_installs_nothing_without_a_hash() -> None:
    """But for its own wheel, and the torch of an index that the builder names."""
    commands = re.findall(r"pip install [^;&]*", DOCKERFILE.replace("\\\n", ""))
    assert len(commands) >= 6
    others = [command for command in commands if "--require-hashes -r " not in command]
    assert [command.split()[-1] for command in others] == ["own.txt", "/wheels/*.whl"]
    named = re.findall(r"-r (?:deploy/requirements/)?([\w.]+\.txt)", DOCKERFILE)
    assert {*named} - {"own.txt"} == {f"{name}.txt" for name in FILES}


def test_the_lists_are_for_the_python_of_the_image() -> None:
    assert re.search(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)[1] == PYTHON  # type: ignore[index]
    assert f"for Python {PYTHON} on Linux" in FILES["server"]


def test_what_the_constraints_lack_is_added_at_their_end() -> None:
    assert complete("# ours\na_b==1\n", "a-b==1\nc==2 \\\n    --hash=sha256:00\n") == "# ours\na_b==1\nc==2\n"


def test_actions_are_pinned_by_commit() -> None:
    """With the version that the commit has, for whoever reads it."""
    workflows = [path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.y*ml")]
    used = [line for text in workflows for line in re.findall(r"uses: *(.+)", text)]
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*", line)] == []
