"""Two inputs side by side: each word to its patches on the Prompt page, and why two inputs are alike, against the numbers of the API."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Locator, Response, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.questions import explained
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit
from tests.server.conftest import png

PATIENCE = 120_000
TINTS = "(buttons) => buttons.map((button) => [button.className.split(' ')[0], Number(button.style.getPropertyValue('--a'))])"
PIXELS = "(canvas) => canvas.toDataURL()"


def answer_told(response: Response) -> Any:
    """What the page was told, asked for again beside it: Chromium keeps no streams."""
    return HTTP.post(response.url, json=response.request.post_data_json).raise_for_status().json()


def sample(visit: Visit, model: str) -> bytes:
    chosen = next(sample for sample in visit.get("/api/samples")["samples"] if sample["model"] == model)
    return HTTP.get(visit.address + chosen["image"]).content


def flipped(picture: bytes) -> bytes:
    buffer = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(buffer, "PNG")
    return buffer.getvalue()


def drawer(visit: Visit, name: str) -> Locator:
    part = visit.page.locator(f"#drawer-{name}")
    part.locator("summary").click()
    return part


def kinds(scores: list[float]) -> list[str]:
    return ["pro" if score > 0 else "con" if score < 0 else "" for score in scores]


@pytest.mark.parametrize("width", ["desk", "phone"])
def test_each_word_lights_its_patches_and_each_patch_its_words(width: str, request: pytest.FixtureRequest) -> None:
    visit: Visit = request.getfixturevalue(width)
    prompt = "a red ball on grass"
    visit.open(f"/prompt?id={explained(visit, 'prompt', sample(visit, 'clip'), prompt=[prompt, 'a dog'])}")
    with visit.page.expect_response("**/interactions", timeout=PATIENCE) as answer:  # what the page was told: it takes the model a while
        part = drawer(visit, "promptinteraction")
    words, canvas, said = part.locator(".reading button"), part.locator("canvas"), part.locator(".said")
    expect(words).to_have_text(prompt.split(), timeout=PATIENCE)
    assert answer.value.request.post_data_json == {"prompt": prompt}
    interaction = answer_told(answer.value)
    assert [kind for kind, _ in words.evaluate_all(TINTS)] == kinds(interaction["first"]["scores"])
    before = canvas.evaluate(PIXELS)
    columns = interaction["second"]["grid"][1]
    for place in (1, 2):
        words.nth(place).hover()
        best = max(range(len(interaction["pairs"][place])), key=interaction["pairs"][place].__getitem__)
        partner = f"row {best // columns + 1}, column {best % columns + 1} (+" if max(interaction["pairs"][place]) > 0 else "nothing"
        expect(said).to_contain_text(f"“{prompt.split()[place]}” goes with {partner}")
        assert canvas.evaluate(PIXELS) != before
    words.nth(1).focus()
    words.nth(1).press("ArrowRight")
    expect(words.nth(2)).to_be_focused()
    words.nth(2).press("Enter")
    expect(words.nth(2)).to_have_attribute("aria-pressed", "true")
    words.nth(2).press("Escape")
    expect(words.nth(2)).to_have_attribute("aria-pressed", "false")
    map_canvas = part.locator(".map-canvas")
    map_canvas.scroll_into_view_if_needed()
    map_canvas.focus()
    map_canvas.press("Home")  # the strongest patch of the picture's own map
    scores = interaction["second"]["scores"]
    patch = max(range(len(scores)), key=lambda i: abs(scores[i]))
    column = [row[patch] for row in interaction["pairs"]]
    expect(said).to_contain_text(f"Row {patch // columns + 1}, column {patch % columns + 1} goes with")
    assert [kind for kind, _ in words.evaluate_all(TINTS)] == kinds(column)
    partner = f"“{prompt.split()[column.index(max(column))]}” (+" if max(column) > 0 else "nothing on the other side"
    expect(said).to_contain_text(f"goes with {partner}")
    part.get_by_label("Words of").select_option("a dog")
    expect(words).to_have_text(["a", "dog"], timeout=PATIENCE)
    assert visit.query["promptinteraction.prompt"] == ["a dog"]
    with visit.page.expect_response("**/interactions", timeout=PATIENCE) as answer:
        part.get_by_label("by").select_option("published")
    published = {"rule": "gradient", "steps": 50, "baseline": "empty", "block": "last", "quadrature": "riemann"}
    assert answer.value.request.post_data_json == {"prompt": "a dog", **published}
    assert visit.query["promptinteraction.way"] == ["published"]
    note = next(note for note in answer_told(answer.value)["notes"] if note.startswith("The pairs add up to"))
    expect(part.get_by_text(note)).to_be_visible(timeout=PATIENCE)
    no_violation(visit.page)


def test_what_is_fitted_says_how_well_it_predicts(desk: Visit) -> None:
    prompt = "a red ball"
    desk.open(f"/prompt?id={explained(desk, 'prompt', sample(desk, 'clip'), prompt=[prompt])}")
    with desk.page.expect_response("**/faithful-interactions", timeout=PATIENCE) as answer:
        part = drawer(desk, "promptinteraction")
        part.get_by_label("by").select_option("fixlip")
    assert answer.value.request.post_data_json == {"prompt": prompt}
    fitted = answer_told(answer.value)
    share = max(0, round(100 * fitted["faithfulness"]))
    prompts, pictures = fitted["coalitions"]
    said = f"fitted to the answers for {prompts} prompts and {pictures} pictures with parts left out. It explains {share} %"
    expect(part.locator(".said")).to_contain_text(said, timeout=PATIENCE)
    words = part.locator(".reading button")
    assert [kind for kind, _ in words.evaluate_all(TINTS)] == kinds(fitted["first"]["scores"])
    assert desk.query["promptinteraction.way"] == ["fixlip"]
    no_violation(desk.page)


def test_why_two_pictures_are_alike(desk: Visit) -> None:
    picture = png(1)
    other = explained(desk, "image", flipped(picture))
    desk.open(f"/image?id={explained(desk, 'image', picture)}")
    desk.page.evaluate("(id) => localStorage.setItem('vitrine.history', JSON.stringify([id]))", other)
    part = drawer(desk, "inputinteraction")
    with desk.page.expect_response("**/alike", timeout=PATIENCE) as answer:
        part.locator(f".others [data-id='{other}']").click()
    interaction = answer_told(answer.value)
    expect(part.locator("canvas")).to_have_count(2, timeout=PATIENCE)
    said = f"The pairs add up to {interaction['total']:.3f} and the cosine is {interaction['cosine']:.3f}"
    expect(part.get_by_text(said)).to_be_visible()
    expect(part.locator(".said")).to_contain_text("Cosine")
    expect(part.locator(f".others [data-id='{other}']")).to_have_attribute("aria-pressed", "true")
    assert part.locator(f".others [data-id='{other}'] img").evaluate("(img) => img.naturalWidth") > 0
    first, second = part.locator(".map-canvas").all()
    before = second.locator("canvas").evaluate(PIXELS)
    first.focus()
    first.press("Home")
    scores, columns = interaction["first"]["scores"], interaction["second"]["grid"][1]
    patch = max(range(len(scores)), key=lambda i: abs(scores[i]))
    best = max(range(len(interaction["pairs"][patch])), key=interaction["pairs"][patch].__getitem__)
    partner = f"row {best // columns + 1}, column {best % columns + 1} (+" if max(interaction["pairs"][patch]) > 0 else "nothing"
    expect(part.locator(".said")).to_contain_text(f"goes with {partner}")
    assert second.locator("canvas").evaluate(PIXELS) != before
    assert desk.query["inputinteraction.other"] == [other]


def test_another_picture_is_given_where_it_is_compared(desk: Visit) -> None:
    desk.open(f"/image?id={explained(desk, 'image', png(1))}")
    part = drawer(desk, "inputinteraction")
    with desk.page.expect_response("**/alike", timeout=PATIENCE) as answer:
        part.get_by_label("Another picture").set_input_files({"name": "other.png", "mimeType": "image/png", "buffer": png(2)})
    expect(part.locator("canvas")).to_have_count(2, timeout=PATIENCE)
    other = answer.value.request.post_data_json["other"]
    expect(part.locator(".others button").first).to_have_attribute("data-id", other)
    assert desk.query["inputinteraction.other"] == [other]
    assert desk.id != other  # what is on show stays


def test_a_cosine_is_said_in_words(desk: Visit) -> None:
    page = desk.open("/history", maps=False)
    says = {
        0.95: "nearly the same",
        0.6: "much in common",
        0.2: "a little in common",
        0.01: "nothing to do with each other",
        -0.05: "nothing to do with each other",
        -0.4: "Cosine \u22120.400, below 0: for the model the two are opposites.",
    }
    tell = "(all) => script('tools/inputinteraction.js').then(({ cosineInWords }) => all.map(cosineInWords))"
    for said, part in zip(page.evaluate(tell, list(says)), says.values(), strict=True):
        assert part in said


def test_another_text_is_given_where_it_is_compared(desk: Visit) -> None:
    desk.open(f"/text?id={explained(desk, 'text', text='A warm and wonderful film.')}")
    part = drawer(desk, "inputinteraction")
    part.get_by_label("or with this text").fill("A bad film.")
    part.get_by_role("button", name="Compare").click()
    expect(part.locator(".reading")).to_have_count(2, timeout=PATIENCE)
    expect(part.locator(".others q")).to_have_text("A bad film.")
    no_violation(desk.page)


def test_why_two_texts_are_alike(desk: Visit) -> None:
    texts = ["A warm and wonderful film.", "A dull, boring mess."]
    other = explained(desk, "text", text=texts[1])
    desk.open(f"/text?id={explained(desk, 'text', text=texts[0])}")
    part = drawer(desk, "inputinteraction")
    expect(part.locator(".body")).to_contain_text("Explain a second input with this model first", timeout=PATIENCE)
    part.locator("summary").click()
    desk.page.evaluate("(id) => localStorage.setItem('vitrine.history', JSON.stringify([id]))", other)
    part.locator("summary").click()
    with desk.page.expect_response("**/alike", timeout=PATIENCE) as answer:
        part.locator(f".others [data-id='{other}']").click()
    expect(part.locator(".reading")).to_have_count(2, timeout=PATIENCE)
    interaction = answer_told(answer.value)
    first, second = (part.locator(".reading").nth(i).locator("button") for i in range(2))
    word = [word["text"] for word in interaction["first"]["input"]["words"]].index("wonderful")
    first.nth(word).hover()
    assert [kind for kind, _ in second.evaluate_all(TINTS)] == kinds(interaction["pairs"][word])
    no_violation(desk.page)
