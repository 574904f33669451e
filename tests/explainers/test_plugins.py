"""Packages that cannot be loaded are named, whatever they add."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import explainers
import explainers.datasets
from explainers import ExplainerError, plugins


@pytest.fixture
def broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that adds modules to every group and has none of them."""
    information = tmp_path / "broken_package-1.5.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1.5\n", "utf-8")
    groups = [f"[{group}]\nbroken = broken_package.of_a_group" for group in plugins.ENTRY_POINT_GROUPS]
    (information / "entry_points.txt").write_text("\n".join(groups), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._declared.cache_clear()
    yield
    plugins._declared.cache_clear()


def said(group: str) -> str:
    return rf"broken_package\.of_a_group, which broken-package adds as {group}, .*ModuleNotFoundError.* Mend broken-package"


@pytest.mark.parametrize("group", plugins.ENTRY_POINT_GROUPS)
def test_a_package_that_cannot_be_loaded_is_named(group: str, broken_package: None) -> None:
    with pytest.raises(ExplainerError, match=said(group)):
        plugins.load_group(group)


def test_so_it_is_where_a_group_is_asked_for(tmp_path: Path, broken_package: None) -> None:
    with pytest.raises(ExplainerError, match=said("vitrine.rules")):
        plugins.load_plugins()
    with pytest.raises(ExplainerError, match=said("vitrine.datasets")):
        importlib.reload(explainers.datasets)
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "known_to_a_package_alone"}), "utf-8")
    with pytest.raises(ExplainerError, match=said("vitrine.architectures")):
        explainers.load(tmp_path)


def test_its_version_is_known_and_it_has_no_sources(broken_package: None) -> None:
    assert plugins.plugin_versions()["broken-package"] == "1.5"
    assert not [path for path in plugins.plugin_sources() if "broken" in path.name]


def test_what_vitrine_itself_adds_is_among_the_sources() -> None:
    assert {"datasets.py"} <= {path.name for path in plugins.plugin_sources()}
