"""A model of one's own, from its file to its first map on the page."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, Route, expect
from safetensors.torch import save

from tests.browser.support.accessibility import no_violation
from tests.browser.support.visit import Visit
from tests.server.conftest import png
from tests.support.own_models.case import CLASSES, save_text, text_model, vit
from tests.support.picture_models import build, qwen2_5_vl

FOUND = "✓Architecture: timm/test_vit"  # by the names and shapes of its weights


def weights() -> bytes:
    return save(dict(vit().state_dict()))


def look(page: Page, name: str, data: bytes) -> None:
    page.locator("#files").set_input_files({"name": name, "mimeType": "application/octet-stream", "buffer": data})
    expect(page.locator("#how")).to_be_visible()


def open_it(page: Page) -> None:
    page.get_by_role("button", name="Open it").click()
    expect(page.locator("#report .checks li, #report .problem").first).to_be_visible(timeout=60_000)


def test_from_a_file_to_a_true_map(desk: Visit) -> None:
    page = desk.open("/your-model", maps=False)
    look(page, "fish.safetensors", weights())
    expect(page.locator("#seen")).to_contain_text("a file of 80 tensors, 5 classes")
    expect(page.get_by_label("Architecture")).to_have_value("timm/test_vit")
    page.get_by_label("Names of its classes, one a line").fill("\n".join(CLASSES))
    open_it(page)
    expect(page.locator("#report")).to_contain_text(re.compile(r"own/fish(-\d)? is open"))
    expect(page.locator("#report .checks .failed")).to_have_count(0)
    expect(page.locator("#report")).to_contain_text("same as timm's eval transform: yes")
    expect(page.locator("#report")).to_contain_text("ant, bee, cat, dog, eel")
    no_violation(page)
    page.get_by_role("link", name="Explain a picture with it").click()
    expect(page.locator(".plate canvas").first).to_be_visible(timeout=60_000)
    page.wait_for_url(re.compile(r"[?&]id=\w+"))
    explanation = desk.get(f"/api/explanations/{page.url.rpartition('id=')[2].partition('&')[0]}")
    assert explanation["model"].startswith("own/fish")


def test_names_of_classes_in_the_file_are_not_asked_for_again(desk: Visit) -> None:
    page = desk.open("/your-model", maps=False)
    data = io.BytesIO()
    torch.save({"model": vit().state_dict(), "classes": list(CLASSES)}, data)
    look(page, "named.pth", data.getvalue())
    names = page.get_by_label("Names of its classes, one a line")
    expect(names).to_have_value("\n".join(CLASSES))
    expect(page.locator("#labels-note")).to_have_text("Read from the files. Change them if they are wrong.")
    assert page.locator("#architectures option[value='timm/vit_base_patch16_224']").count() == 1  # suggestions for a field of free text
    sent: list[dict[str, str]] = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.url.endswith("/api/opening/open") else None)
    open_it(page)
    expect(page.locator("#report")).to_contain_text("ant, bee, cat, dog, eel")
    assert "labels" not in sent[0]  # the server has them from the file
    look(page, "fish.safetensors", weights())
    expect(names).to_have_value("")
    expect(page.locator("#labels-note")).to_be_hidden()


def test_the_page_says_how_far_it_is(desk: Visit) -> None:
    page = desk.open("/your-model", maps=False)
    stages = page.locator("#stages li")
    looks: list[Route] = []
    page.route("**/api/opening/look", lambda route: looks.append(route))
    page.locator("#files").set_input_files({"name": "fish.safetensors", "mimeType": "application/octet-stream", "buffer": weights()})
    expect(stages).to_have_text(["✓Received", "…Reading", "·Architecture found", "·Opened", "·Checked"])
    expect(page.locator("#progress progress")).to_have_count(0)  # nothing is sent any more
    looks.pop().continue_()
    expect(stages).to_have_text(["✓Received", "✓Read", FOUND, "·Opened", "·Checked"])
    openings: list[Route] = []
    page.route("**/api/opening/open", lambda route: openings.append(route))
    page.get_by_role("button", name="Open it").click()
    expect(stages).to_have_text(["✓Received", "✓Read", FOUND, "…Opening", "·Checked"])
    no_violation(page)
    openings.pop().continue_()
    expect(stages).to_have_text(["✓Received", "✓Read", FOUND, "✓Opened", "✓Checked"], timeout=60_000)


def test_the_stage_that_failed_is_marked(desk: Visit) -> None:
    page = desk.open("/your-model", maps=False)
    look(page, "fish.safetensors", weights())
    page.get_by_label("Architecture").fill("timm/test_vit2")
    open_it(page)
    expect(page.locator("#stages li")).to_have_text(["✓Received", "✓Read", "✓Architecture: timm/test_vit2", "✗Opened", "·Checked"])


def test_a_folder_of_a_text_model_is_brought_whole(desk: Visit, tmp_path: Path) -> None:
    module = text_model()
    save_text(tmp_path / "my-bert", module)
    page = desk.open("/your-model", maps=False)
    page.locator("#folder").set_input_files(tmp_path / "my-bert")
    expect(page.locator("#seen")).to_contain_text("a folder that transformers saved", timeout=60_000)
    expect(page.locator("#architecture-field")).to_be_hidden()
    expect(page.locator("#stages li").nth(2)).to_have_text("✓Architecture: BertForSequenceClassification of transformers")
    open_it(page)
    expect(page.get_by_role("link", name="Explain a text with it")).to_have_attribute("href", re.compile("/text.model=own%2Fmy-bert"))
    several = page.get_by_role("link", name="Ask several texts")
    expect(several).to_have_attribute("href", re.compile("/collection.model=own%2Fmy-bert"))
    href = str(several.get_attribute("href"))
    page.get_by_role("link", name="Explain a text with it").click()
    page.get_by_label("The text to explain").fill("a fine film")
    page.get_by_role("button", name="Explain this text").click()
    page.wait_for_url(re.compile(r"[?&]id=\w+"))
    expect(page.locator("#several")).to_have_attribute("href", href)
    before = desk.id
    page.reload()
    page.locator("#samples button").first.click()  # a sample asks the model that the person brought, also where the address is an answer's
    desk.next_maps(before)
    assert desk.document()["model"].startswith("own/my-bert")


def test_a_folder_of_a_model_of_pictures_and_texts_is_asked(desk: Visit, tmp_path: Path) -> None:
    module, processor = build(qwen2_5_vl)
    processor.chat_template = (
        "{% for message in messages %}{% for part in message.content %}{{ part.text if part.type == 'text' else '<|image_pad|>' }}"
        "{% endfor %}{% endfor %}: "
    )
    for part in (module, processor):
        part.save_pretrained(tmp_path / "my-qwen")  # type: ignore[operator]
    page = desk.open("/your-model", maps=False)
    page.locator("#folder").set_input_files(tmp_path / "my-qwen")
    expect(page.locator("#seen")).to_contain_text("a folder that transformers saved", timeout=60_000)
    open_it(page)
    expect(page.locator("#report")).to_contain_text("pictures with a text")
    expect(page.locator("#report .checks .failed")).to_have_count(0)
    page.get_by_role("link", name="Ask it about a picture").click()
    question = page.get_by_placeholder("What is in this picture?")
    expect(question).to_have_value("")  # no film review
    expect(page.locator("#samples")).to_be_hidden()
    expect(page.get_by_label("with the model’s chat template around it")).to_be_checked()
    picture = tmp_path / "cat.png"
    picture.write_bytes(png(1, (64, 48)))
    page.get_by_label("Picture file", exact=True).set_input_files(picture)
    question.fill("a good film")
    page.get_by_role("button", name="Ask about this picture").click()
    expect(page.locator(".plate .map-canvas[data-drawn=true]").first).to_be_visible(timeout=60_000)
    page.wait_for_url(re.compile(r"[?&]id=\w+"))
    explanation = desk.get(f"/api/explanations/{page.url.rpartition('id=')[2].partition('&')[0]}")
    assert (explanation["model"], explanation["chat"], explanation["input"]["picture"]["grid"]) == ("own/my-qwen", True, [3, 4])
    no_violation(page)


def test_what_cannot_be_opened_says_why_and_has_a_report(desk: Visit) -> None:
    page = desk.open("/your-model", maps=False)
    look(page, "fish.safetensors", weights())
    page.get_by_label("Architecture").fill("timm/test_vit2")
    open_it(page)
    expect(page.locator("#report .problem")).to_contain_text("may be of timm/test_vit")
    page.get_by_text("A report for somebody who can help").click()
    expect(page.locator("#report pre")).to_contain_text("open(a file .safetensors, architecture=timm/test_vit2")
    data = io.BytesIO()
    torch.save(vit(), data)
    page.locator("#files").set_input_files({"name": "whole.pth", "mimeType": "application/octet-stream", "buffer": data.getvalue()})
    expect(page.locator("#progress .problem")).to_contain_text("and not weights alone")
    assert "422" in desk.complaints.pop()


def test_a_path_is_looked_at(desk: Visit, tmp_path: Path) -> None:
    torch.save({"model": vit().state_dict()}, tmp_path / "best.pth")
    page = desk.open("/your-model", maps=False)
    page.get_by_label("or its path on this machine").fill(str(tmp_path / "best.pth"))
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#seen")).to_contain_text("a file of 80 tensors under 'model'")
    page.get_by_label("or its path on this machine").fill("/nowhere")
    page.get_by_role("button", name="Look").click()
    expect(page.locator("#progress .problem")).to_contain_text("no such file or folder")
    assert "404" in desk.complaints.pop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(phone: Visit, scheme: str) -> None:
    page = phone.open("/your-model", maps=False)
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    expect(page.locator("#drop")).to_be_visible()
    look(page, "fish.safetensors", weights())
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    no_violation(page)
