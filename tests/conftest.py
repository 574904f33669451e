"""What every test runs under: none of the person's own settings, and none of their folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# One thread for each worker, and for what it starts: workers whose threads compete for the same cores are slower than one worker alone.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True, scope="session")
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the ``VITRINE_`` variables of the person who runs the tests; store in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VITRINE_")]:
            patch.delenv(name)
        patch.setenv("VITRINE_HOME", str(tmp_path_factory.mktemp("home")))
        yield
