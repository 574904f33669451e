"""What every test runs under: none of the person's own settings, and none of their folders."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = "test_wheel.py"
# One thread for each worker, and for what it starts: workers whose threads compete for the same cores are slower than one worker alone.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest in one file: at the end it would keep one worker busy and the others waiting."""
    items.sort(key=lambda item: item.path.name != LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import and collect without Python's garbage collector. Then keep what is there from being looked through again whenever it collects,
    and let it do so more rarely: models that are made and thrown away by the thousand would have it at work for a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the ``VITRINE_`` variables of the person who runs the tests; store in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VITRINE_")]:
            patch.delenv(name)
        patch.setenv("VITRINE_HOME", str(tmp_path_factory.mktemp("home")))
        yield
