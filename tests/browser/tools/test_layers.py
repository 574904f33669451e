"""Layers and heads against the numbers of the API."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from explainers.rendering.colours import one_sign
from tests.browser.support.number_format import end_texts, percent, shown, shown_score
from tests.browser.support.questions import SCENES, explained
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit

PATIENCE = 120_000.0
LABELS = "(nodes) => nodes.map((node) => [`${node.dataset.block} ${node.dataset.head}`, node.getAttribute('aria-label')])"


def answer_to(desk: Visit, path: str, **body: Any) -> Any:
    """What the API says of the explanation on show."""
    answer = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/{path}", json=body)
    answer.raise_for_status()
    return answer.json()


def drawer(desk: Visit, path: str) -> Locator:
    """Layers and heads, opened on a page."""
    desk.open(path)
    return opened(desk)


def opened(desk: Visit) -> Locator:
    tool = desk.page.locator("#drawer-layers")
    tool.locator("summary").click()
    expect(tool.locator(".sums button").first).to_be_visible(timeout=PATIENCE)
    return tool


def cells(document: dict[str, Any]) -> dict[tuple[int, str], Any]:
    """(block, head) -> its map; the last of a row is the mean."""
    return {
        (block["block"], str(head)): cell
        for block in document["blocks"]
        for head, cell in [*enumerate(block["heads"]), ("mean", block["mean"])]
    }


def check_strip(tool: Locator, document: dict[str, Any], name: str) -> None:
    """There is a small map for every head, and each says where its strongest patch lies and how strong it is."""
    rows, columns = document["grid"]
    said = {}
    for (block, head), cell in cells(document).items():
        scores = np.array(cell["scores"])
        best = int((scores if one_sign(scores) < 0 else np.abs(scores)).argmax())  # all against: the order alone is meant
        assert len(scores) == rows * columns
        spot = f"Block {block + 1}, {'mean of the heads' if head == 'mean' else f'head {int(head) + 1}'}"
        where = f"row {best // columns + 1}, column {best % columns + 1}"
        said[f"{block} {head}"] = f"{spot}: strongest at {where}, {shown(scores[best])}"
    expect(tool.locator(".heads[aria-busy=false]")).to_be_attached(timeout=PATIENCE)
    for spot in (next(iter(said)), list(said)[-1]):  # those that come first and last: with them, all are there
        block, head = spot.split()
        expect(tool.locator(f'.heads button[data-block="{block}"][data-head="{head}"]'), name).to_have_attribute("aria-label", said[spot])
    expect(tool.locator(".heads[aria-busy=false]")).to_be_attached(timeout=PATIENCE)
    assert tool.locator(".heads button").evaluate_all(LABELS) == [[spot, label] for spot, label in said.items()], name


def check_large(tool: Locator, scores: list[float], signed: bool) -> None:
    """The ends of the colours of the large map."""
    ends = end_texts(scores, signed)
    expect(tool.locator(".large .ends span").first).to_have_text(ends[0])
    expect(tool.locator(".large .ends span").last).to_have_text(ends[1])


def test_every_quantity_of_every_head_and_attention_from_the_held_patch(desk: Visit) -> None:
    desk.open(f"/image?id={explained(desk, 'image')}")
    before, _ = desk.shift()
    tool = opened(desk)
    quantities = desk.get("/api/quantities")["quantities"]
    assert len(quantities) == 5
    for quantity in quantities:
        tool.get_by_role("radio", name=quantity["title"], exact=True).check()
        document = answer_to(desk, "layers", quantity=quantity["name"])
        check_strip(tool, document, quantity["name"])
        last = document["blocks"][-1]["mean"]
        check_large(tool, last["scores"], quantity["signed"])
        outside = percent(last["outside"]) if quantity["name"] == "attention" else shown(last["outside"])
        expect(tool.locator(".outside")).to_contain_text(f"{outside} of it")
        expect(tool.locator(".says")).to_have_text(quantity["says"])
    expect(tool.locator(".origin")).to_contain_text("classification token")
    moved, what = desk.shift()
    assert moved - before < 0.01, what

    tool.get_by_role("radio", name=quantities[0]["title"], exact=True).check()
    tool.get_by_role("radio", name="the held patch").check()
    expect(tool.locator(".origin")).to_contain_text("Click a patch in any map to hold it")
    grid = answer_to(desk, "layers")["grid"]
    map_canvas = tool.locator(".large .map-canvas")
    box = map_canvas.bounding_box()
    assert box is not None
    row, column = 1, 2
    map_canvas.click(position={"x": (column + 0.5) * box["width"] / grid[1], "y": (row + 0.5) * box["height"] / grid[0]})
    expect(tool.locator(".origin")).to_have_text(f"Seen from the patch in row {row + 1}, column {column + 1}.", timeout=PATIENCE)
    document = answer_to(desk, "layers", token=row * grid[1] + column)
    assert document["origin"] == "token"
    check_strip(tool, document, "token")
    expect(tool.locator(".large .patch.locked")).to_be_visible()
    expect(desk.plate("random").locator(".patch.locked")).to_be_visible()  # the same patch everywhere
    tool.get_by_role("radio", name="where the answer is read").check()
    check_strip(tool, answer_to(desk, "layers"), "answer")


@pytest.mark.trained
def test_a_head_is_chosen_and_walked_to(desk: Visit) -> None:
    tool = drawer(desk, SCENES)
    document = answer_to(desk, "layers")
    strip = cells(document)
    tool.locator('.heads button[data-block="1"][data-head="0"]').click()
    check_large(tool, strip[1, "0"]["scores"], False)
    expect(tool.locator(".large .caption")).to_have_text("Block 2, head 1, attention")
    keys = ("Right", "Down", "Up", "Left", "Left")
    for key, place in zip(keys, [(1, "1"), (2, "1"), (1, "1"), (1, "0"), (1, "0")], strict=True):
        desk.page.keyboard.press(f"Arrow{key}")
        expect(tool.locator(".heads button[aria-pressed=true]")).to_have_count(1)
        on = tool.locator(f'.heads button[data-block="{place[0]}"][data-head="{place[1]}"]')
        expect(on).to_have_attribute("aria-pressed", "true")
        expect(on).to_be_focused()
        check_large(tool, strip[place]["scores"], False)
    assert tool.locator(".heads button[tabindex='0']").count() == 1  # one stop for the Tab key


def test_what_each_block_adds(desk: Visit) -> None:
    tool = drawer(desk, "/image?methods=random")
    summed = [method for method in desk.get("/api/methods?model=scenes-vit")["methods"] if method["summed"]]
    specs = [pair["spec"] for method in summed for pair in method["pairs"] if not pair["reason"]]
    assert tool.locator("#layers-method option").evaluate_all("(options) => options.map((option) => option.value)") == specs
    for spec in ("fullgrad_plus:libra", "gradcam_plus", "legrad"):
        tool.get_by_label("Method").select_option(spec)
        document = answer_to(desk, "contributions", method=spec)
        rows = [*document["blocks"], *([document["rest"]] if document["rest"] else [])]
        totals_shown = [shown_score(row["total"], document["signed"]) for row in rows]
        expect(tool.locator(".sums .num")).to_have_text(totals_shown, timeout=PATIENCE)
        total = shown_score(sum(row["total"] for row in rows), document["signed"])
        expect(tool.locator(".sums p")).to_have_text(f"All bars add up to {total}, the sum of the map.")
        widths = tool.locator(".sums i").evaluate_all("(bars) => bars.map((bar) => bar.getBoundingClientRect().width)")
        totals = np.abs([row["total"] for row in rows])
        np.testing.assert_allclose(np.array(widths) / max(widths), totals / totals.max(), atol=0.01)
    tool.locator(".sums button").first.click()
    check_large(tool, document["blocks"][0]["scores"], document["signed"])
    expect(tool.locator(".large .caption")).to_contain_text(f"block {document['blocks'][0]['block'] + 1} adds")
    expect(tool.locator(".heads [aria-pressed=true]")).to_have_count(0)


def test_words(desk: Visit) -> None:
    tool = drawer(desk, "/text?methods=random")
    document = answer_to(desk, "layers")
    tokens = desk.document()["input"]["tokens"]
    expect(tool.locator(".origin")).to_contain_text(tokens[document["token"]]["text"])
    expect(tool.locator(".heads button")).to_have_count(len(cells(document)))
    tool.get_by_role("radio", name="the held word").check()
    tool.locator(".large .reading [data-w='4']").click()
    piece = desk.document()["input"]["words"][4]["tokens"][0]
    expect(tool.locator(".origin")).to_have_text(f"Seen from the word piece “{tokens[piece]['text']}”.", timeout=PATIENCE)
    held = answer_to(desk, "layers", token=piece)
    last = held["blocks"][-1]["mean"]
    words = desk.document()["input"]["words"]
    value = max(last["scores"][i] for i in words[4]["tokens"])
    expect(tool.locator(".large .value")).to_contain_text(shown(value))
    expect(tool.locator(".outside")).to_contain_text(percent(last["outside"]))


def test_prompts(desk: Visit) -> None:
    tool = drawer(desk, f"/prompt?id={explained(desk, 'prompt')}")
    labels = [target["label"] for target in desk.document()["targets"]]
    assert len(labels) > 1
    tool.get_by_role("radio", name="gradient", exact=True).check()
    tool.get_by_label("Target").select_option(labels[1])
    document = answer_to(desk, "layers", quantity="gradient", target=labels[1])
    check_strip(tool, document, labels[1])
    sums = answer_to(desk, "contributions", method="fullgrad_plus:libra", target=labels[1])
    expect(tool.locator(".sums .num").first).to_have_text(shown_score(sums["blocks"][0]["total"], True), timeout=PATIENCE)


@pytest.mark.trained
def test_the_words_of_a_prompt(desk: Visit) -> None:
    tool = drawer(desk, "/prompt?methods=random&side=text")
    prompt = desk.document()["prompts"][1]
    tool.get_by_label("Target").select_option(prompt["prompt"])
    document = answer_to(desk, "layers", target=prompt["prompt"])
    expect(tool.locator(".origin")).to_contain_text("[CLS], which the answer is read from", timeout=PATIENCE)
    content = [not token["special"] for token in prompt["tokens"]]
    scores = np.array(document["blocks"][-1]["mean"]["scores"])
    expect(tool.locator(".large .reading")).to_have_text(prompt["text"], timeout=PATIENCE)
    first = max(scores[i] for i in prompt["words"][0]["tokens"])
    tool.locator(".large .reading [data-w='0']").hover()
    expect(tool.locator(".large .value")).to_have_text(shown(first))
    strongest = tool.locator('.heads button[data-head="mean"]').last
    expect(strongest).to_have_attribute("aria-label", re.compile(f"strongest {re.escape(shown(scores[content].max()))}$"))


def many_heads(desk: Visit) -> None:
    """Let the page believe that the model has a great many heads; the server answers as ever."""
    listed = desk.get("/api/models")
    for model in listed["models"]:
        model["details"]["heads"] = 100
    desk.page.route("**/api/models", lambda route: route.fulfill(json=listed))


@pytest.mark.trained
def test_maps_of_a_large_model_are_asked_for_as_they_come_into_view(desk: Visit) -> None:
    many_heads(desk)
    desk.page.set_viewport_size({"width": 1440, "height": 400})
    sent: list[Any] = []
    desk.page.on("request", lambda request: sent.append(request.post_data_json["block"]) if request.url.endswith("/layers") else None)
    desk.open("/image?methods=random")
    summary = desk.page.locator("#drawer-layers summary")
    summary.evaluate("(node) => node.scrollIntoView({ block: 'end' })")
    before, _ = desk.shift()
    summary.click()
    tool = desk.page.locator("#drawer-layers")
    document = answer_to(desk, "layers")
    last = len(document["blocks"]) - 1
    check_large(tool, document["blocks"][last]["mean"]["scores"], False)
    waiting = tool.locator(".heads [aria-busy=true]")
    expect(waiting.first).to_be_attached()
    assert sent == [[0], [last]]  # what is large, and nothing out of view
    room = tool.locator(".heads").bounding_box()
    tool.locator(f'.heads button[data-block="{last}"][data-head="mean"]').scroll_into_view_if_needed()
    tool.locator('.heads [data-row="1"]').evaluate("(node) => node.scrollIntoView({ block: 'center' })")
    expect(waiting).to_have_count(0, timeout=PATIENCE)
    check_strip(tool, document, "all of them")
    asked_for = [block for blocks in sent for block in blocks]
    assert sorted(asked_for) == list(range(last + 1))  # each once
    after = tool.locator(".heads").bounding_box()
    assert room is not None
    assert after is not None
    assert (after["width"], after["height"]) == (room["width"], room["height"])
    moved, what = desk.shift()
    assert moved - before < 0.01, what


def test_a_head_that_is_not_there_yet_is_asked_for_when_it_is_chosen(desk: Visit) -> None:
    many_heads(desk)
    desk.open(f"/text?id={explained(desk, 'text')}")
    tool = opened(desk)
    tool.get_by_role("radio", name="gradient", exact=True).check()
    document = answer_to(desk, "layers", quantity="gradient")
    tool.locator('.heads button[data-block="1"][data-head="1"]').click()
    expect(tool.locator(".large .caption")).to_have_text("Block 2, head 2, gradient", timeout=PATIENCE)
    words = desk.document()["input"]["words"]
    scores = document["blocks"][1]["heads"][1]["scores"]
    tool.locator(".large .reading [data-w='2']").hover()
    expect(tool.locator(".large .value")).to_have_text(shown_score(sum(scores[i] for i in words[2]["tokens"]), True))


@pytest.mark.parametrize("page", ["image", "text"])
def test_it_fits_a_phone(phone: Visit, page: str) -> None:
    tool = drawer(phone, f"/{page}?methods=random")
    expect(tool.locator(".origin")).to_have_text(re.compile("classification token"))
    assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_what_a_head_adds_to_the_cosine_and_the_model_without_it(desk: Visit) -> None:
    tool = drawer(desk, f"/prompt?id={explained(desk, 'prompt')}")
    label = desk.document()["targets"][0]["label"]
    parts = answer_to(desk, "similarity", target=label)
    shares = tool.locator(".head-shares")
    expect(shares.locator(".head-sums p")).to_have_text(f"Together {shown(parts['cosine'])}: the cosine.", timeout=PATIENCE)
    heads = [(one["total"], block["block"], head) for block in parts["blocks"] for head, one in enumerate(block["heads"])]
    _, block, head = max(heads, key=lambda one: abs(one[0]))
    expect(shares.locator(".head-sums button .num").first).to_have_text(shown_score(parts["blocks"][block]["heads"][head]["total"], True))
    expect(shares).to_contain_text("has no words yet")  # a tiny random model
    shares.locator(".head-sums button").first.click()
    expect(tool.locator(".large .caption")).to_have_text(f"Block {block + 1}, head {head + 1}, attention")
    expect(shares.locator(".chosen-head")).to_contain_text(
        f"Adds {shown_score(heads[block * len(parts['blocks'][0]['heads']) + head][0], True)}"
    )
    ends = end_texts(parts["blocks"][block]["heads"][head]["scores"], True)
    expect(shares.locator(".ends span").last).to_have_text(ends[1])
    shares.get_by_role("button", name="Remove this head").click()
    answer = answer_to(desk, "without-head", target=label, block=block, head=head)
    expect(shares.locator(".answer")).to_contain_text(f"Without it the cosine is {shown(answer['without'])}", timeout=PATIENCE)
    expect(shares.locator(".answer li")).to_have_count(len(answer["prompts"]))


@pytest.mark.trained
def test_what_a_head_looks_for(desk: Visit) -> None:
    tool = drawer(desk, f"/prompt?id={explained(desk, 'prompt')}")
    shares = tool.locator(".head-shares")
    shares.locator(".head-sums button").first.click(timeout=PATIENCE)
    label = desk.document()["targets"][0]["label"]
    parts = answer_to(desk, "similarity", target=label)
    heads = [one for block in parts["blocks"] for one in block["heads"]]
    words = max(heads, key=lambda one: abs(one["total"]))["words"]
    expect(shares.locator("ul.looks-for li").first).to_have_text(f"{words[0]['text']} {percent(words[0]['share'])}")
    expect(shares.locator(".chosen-head")).to_contain_text(f"Chosen from {parts['texts']} texts on these pictures: {parts['pictures']}.")
