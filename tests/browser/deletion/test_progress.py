"""How far the deletion test is, on a page whose model is held between its passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.turnstile import Gated, Turnstile


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Turnstile]]:
    gated = Gated()
    with played(tmp_path_factory.mktemp("progress"), gated, device="cpu") as address:
        yield address, gated.turnstile
        gated.turnstile.let(None)


@pytest.fixture
def desk(browser: Browser, stage: tuple[str, Turnstile]) -> Iterator[Visit]:
    yield from visit(browser, stage[0])


def test_the_page_counts_what_is_asked_and_a_new_picture_passes(desk: Visit, stage: tuple[str, Turnstile], tmp_path: Path) -> None:
    _, turnstile = stage
    page = desk.open("/image?methods=rollout&methods=fullgrad_plus:libra", maps=False)
    give = page.get_by_label("Picture file")
    give.set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(1)})
    desk.next_maps(None)
    bar = page.get_by_role("progressbar", name="Deletion test")
    expect(bar).to_be_hidden()
    turnstile.let(12)
    page.locator("#removed").fill("20")
    turnstile.wait()
    expect(bar).to_be_visible()
    most = int(bar.get_attribute("aria-valuemax") or 0)
    done = int(bar.get_attribute("aria-valuenow") or 0)
    assert 0 < done < most
    expect(bar).to_have_text(f"asked {done} of {most} pictures")
    expect(bar).to_have_attribute("aria-valuetext", f"asked {done} of {most} pictures")
    expect(page.locator(".said")).to_have_text(f"asked {done} of {most} pictures", use_inner_text=True)
    expect(page.locator(".curves")).to_contain_text("All maps are there.")
    expect(page.locator(".curves")).not_to_contain_text("when all maps are there")
    turnstile.let(1)
    turnstile.wait()
    expect(bar).not_to_have_attribute("aria-valuenow", str(done))

    before = desk.id
    with page.expect_response("**/api/explanations"):  # from now on the picture waits for the pass that is held
        give.set_input_files({"name": "b.png", "mimeType": "image/png", "buffer": png(2)})
    turnstile.let(1)  # the pass that is held: the picture is answered, and nobody waits for the test of the first one any more
    desk.next_maps(before)
    turnstile.let(None)
    expect(page.locator(".panels svg")).to_have_count(2)
    expect(bar).to_be_hidden()
    expect(page.locator(".said")).to_contain_text("shares measured")
