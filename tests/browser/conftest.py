"""Two servers, of tiny and of embedded models, and a Chromium for all these tests; each test has a browser context of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.support.serving import launched, played, served
from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.typefaces import DEJAVU, font_files
from tests.browser.support.visit import Visit, visit
from tests.server.support.gated_models import GatedModels
from tests.support.embedded_models import loaded
from vitrine_server.jobs.catalogue.model_source import ModelSource


class SharedModels:
    """Where the models come from."""

    def source(self) -> ModelSource:
        """Those of ``explainers``, with the embedded models that other tests of this process load or have loaded."""
        return ModelSource(load=lambda name, device=None: loaded(name))


@pytest.fixture(scope="package")
def trained_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the embedded models: in this process, which has imported what models need for the tiny ones."""
    with served(tmp_path_factory.mktemp("server"), SharedModels()) as url:
        yield url


@pytest.fixture(scope="module")
def gated_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, GatedModels]]:
    """The address of a server, and its models, which a test can hold."""
    with GatedModels().in_registry() as models, played(tmp_path_factory.mktemp("gated"), models) as address:
        yield address, models


@pytest.fixture(scope="package")
def tiny_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tiny_server(tmp_path_factory.mktemp("tiny")) as address:
        yield address


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """A server of tiny models, which answer at once; for tests marked ``trained`` that of the embedded ones."""
    is_trained = request.node.get_closest_marker("trained") is not None
    return str(request.getfixturevalue("trained_address" if is_trained else "tiny_address"))


@pytest.fixture(scope="package")
def browsers() -> Iterator[Callable[[str], Browser]]:
    """A Chromium for each of the typefaces that are asked for, one each."""
    with sync_playwright() as playwright, ExitStack() as stack:
        yield cache(lambda typeface: stack.enter_context(launched(playwright, typeface)))


@pytest.fixture(scope="package")
def browser(browsers: Callable[[str], Browser]) -> Browser:
    return browsers(DEJAVU)


def typeface_of(request: pytest.FixtureRequest) -> str:
    """The typeface that a test was parametrised with, else DejaVu. Skips where Liberation, which only the system brings, is missing."""
    typeface: str = getattr(request, "param", DEJAVU)
    if not font_files(typeface):
        pytest.skip(f"the {typeface} fonts are not installed: `make chromium` installs them on Debian as root")
    return typeface


@pytest.fixture
def desk(browsers: Callable[[str], Browser], address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A desktop, 1440 pixels wide; ``parametrize("desk", TYPEFACES, indirect=True)`` runs a test with each of the system's typefaces."""
    yield from visit(browsers(typeface_of(request)), address)


@pytest.fixture
def phone(browsers: Callable[[str], Browser], address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A phone, 390 pixels wide; see ``desk`` for typefaces."""
    yield from visit(browsers(typeface_of(request)), address, 390)
