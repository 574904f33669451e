"""What every test runs under: none of the person's own settings, and none of their folders."""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Where a fresh interpreter finds the packages of the checkout.
PYTHONPATH = f"{ROOT}{os.pathsep}{ROOT / 'server'}"
# One thread for each worker, and for what it starts: workers whose threads compete for the same cores are slower than one worker alone.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def _seed(name: str) -> None:
    """Give torch the same random numbers for the same name, whatever ran before in this worker."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(zlib.crc32(name.encode()))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Seed what a file makes as it is imported."""
    _seed(collector.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed a test and its fixtures."""
    _seed(item.nodeid)


@pytest.fixture(autouse=True, scope="session")
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the ``VITRINE_`` variables of the person who runs the tests; store in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VITRINE_")]:
            patch.delenv(name)
        patch.setenv("VITRINE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True, scope="module")
def _freed_memory_goes_back() -> Iterator[None]:
    """Give the system, after each file, the memory that its tests have freed.

    glibc keeps it in heaps, where few small objects that live on hold whole regions of freed tensors. One file
    of explainers leaves 450 MB so, eight times what all live tensors take.
    """
    yield
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc alone has it
        trim(0)
