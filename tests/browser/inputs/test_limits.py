"""Limits are told before anything is sent, in the words with which the server would refuse, and what was chosen stays."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.browser.support.serving import HTTP, played
from tests.browser.support.visit import Visit, visit
from tests.server.support.gated_models import GatedModels


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that takes little."""
    limits = {"max_upload_mb": 0.01, "max_megapixels": 0.01, "max_text_chars": 50, "max_methods": 3, "max_targets": 2}
    with played(tmp_path_factory.mktemp("small"), GatedModels(), **limits) as address:
        yield address


@pytest.fixture
def desk(browser: Browser, small: str) -> Iterator[Visit]:
    yield from visit(browser, small)


def file(size: tuple[int, int], noise: bool = False) -> bytes:
    values = (
        np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        if noise
        else np.zeros((size[1], size[0], 3), np.uint8)
    )
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


def posts(desk: Visit) -> list[str]:
    sent: list[str] = []
    desk.page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    return sent


def refusal(address: str, **fields: Any) -> Any:
    """What the server says of the same."""
    image = fields.pop("image", None)
    answer = HTTP.post(f"{address}/api/explanations", data=fields, files={"image": ("photo.png", image)} if image else None)
    assert answer.status_code in (413, 422)
    return answer.json()


@pytest.mark.parametrize("what", ["upload", "pixels"])
def test_a_picture_over_the_limit_is_not_sent(desk: Visit, what: str) -> None:
    picture = file((90, 90), noise=True) if what == "upload" else file((200, 200))
    assert (len(picture) > 10_000) == (what == "upload")
    page = desk.open("/image", maps=False)
    sent = posts(desk)
    page.get_by_label("Picture file").set_input_files({"name": "photo.png", "mimeType": "image/png", "buffer": picture})
    problem = page.locator("#input-problem .problem")
    refused = refusal(desk.address, model="scenes-vit", image=picture)
    expect(problem).to_contain_text(f"{refused['title']}{refused['detail']} {refused['send']}")
    assert sent == []


def test_a_text_over_the_limit_is_not_sent_and_stays(desk: Visit) -> None:
    page = desk.open("/text", maps=False)
    sent = posts(desk)
    text = "long " * 12
    page.locator("#text").fill(text)
    page.get_by_role("button", name="Explain this review").click()
    refused = refusal(desk.address, model="reviews-bert", text=text)
    expect(page.locator("#input-problem .problem")).to_contain_text(f"{refused['detail']} {refused['send']}")
    expect(page.locator("#text")).to_have_value(text)
    assert sent == []


def test_no_more_prompts_than_the_server_takes(desk: Visit) -> None:
    page = desk.open("/prompt", maps=False)
    add = page.get_by_role("button", name="Add a prompt")
    add.click()
    expect(add).to_be_disabled()
    expect(page.locator("#prompts input")).to_have_count(2)
    page.locator("#prompts input").first.evaluate(
        """(field) => {
          const data = new DataTransfer();
          data.setData("text", "a\\nb\\nc");
          field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    expect(page.locator("#prompts")).to_contain_text("At most 2 prompts at once")


def test_more_methods_than_the_server_takes_cannot_be_sent(desk: Visit) -> None:
    page = desk.open("/text?methods=random&methods=rollout&methods=saliency&methods=hirescam", maps=False)
    sent = posts(desk)
    page.locator("#text").fill("short")
    page.get_by_role("button", name="Explain this review").click()
    refused = refusal(desk.address, model="reviews-bert", text="short", methods=["random", "rollout", "saliency", "hirescam"])
    expect(page.locator("#input-problem .problem")).to_contain_text(f"{refused['detail']} {refused['send']}")
    assert sent == []


def test_all_quick_methods_fit_where_nothing_was_set() -> None:
    from explainers import variants
    from vitrine_server.settings import Settings

    assert sum(not variant.slow for variant in variants()) <= Settings().max_methods
