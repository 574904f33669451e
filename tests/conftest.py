"""What every test runs under: none of the person's own settings, and none of their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

BROWSER = "browser"
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True, scope="session")
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the ``VITRINE_`` variables of the person who runs the tests; store in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VITRINE_")]:
            patch.delenv(name)
        patch.setenv("VITRINE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (``-n 2 --dist loadgroup``) a file stays in one of them, and so do all browser tests: they share a server."""
    for item in items:
        file = item.path.relative_to(ROOT)
        item.add_marker(pytest.mark.xdist_group(BROWSER if file.parent.name == BROWSER else file.as_posix()))
