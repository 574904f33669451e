"""Who asks fast sees the answer to the newest question, whatever arrives when: by what is drawn, what is said, and the address."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Error, Page, Route, expect

from tests.browser.support.serving import load_models, played
from tests.browser.support.visit import Visit, visit
from tests.server.support.gated_models import GatedModels

OTHER = "timm/other"  # a second model of images
COLOURS = {"red": (220, 30, 30), "blue": (20, 30, 120), "sand": (230, 220, 180), "leaf": (60, 160, 60)}
SAMPLE = "leaf"
# The middle of the picture under the first and the last plate, of the picture as it is shown, and whether any plate has none.
DRAWN = """
() => {
  const middle = (image, width, height) => {
    const canvas = new OffscreenCanvas(1, 1);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, width / 2, height / 2, 1, 1, 0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const image = document.querySelector("#picture .sheet img");
  return {
    plates: [...document.querySelectorAll("#plates .plate .map-canvas canvas:first-child")]
      .map((node) => middle(node, node.width, node.height)),
    picture: middle(image, image.naturalWidth, image.naturalHeight),
  };
}
"""


@dataclass(frozen=True)
class Shown:
    """What the page should show."""

    source: str  # a picture by its colour, or a text
    targets: tuple[str, ...]
    model: str


Act = tuple[Callable[[Page], None], Callable[[Shown], Shown]]  # what the person does, and what is asked after it


def file(colour: str) -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 40), COLOURS[colour]).save(buffer, "PNG")
    return {"name": f"{colour}.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


def upload(colour: str) -> Act:
    def after(before: Shown) -> Shown:
        return replace(before, source=colour, targets=before.targets if before.model == "clip" else ("zebra",))

    return lambda page: page.get_by_label("Picture file").set_input_files(file(colour)), after


def sample() -> Act:
    return lambda page: page.locator(f'#samples [data-id="{SAMPLE}"]').click(), lambda before: replace(
        before, source=SAMPLE, targets=("dog",)
    )


def pick(label: str) -> Act:
    return lambda page: page.locator("#classes li button", has_text=label).click(), lambda before: replace(before, targets=(label,))


def model(name: str) -> Act:
    return (
        lambda page: page.locator("#model-choice").select_option(name) and None,
        lambda before: replace(before, model=name, targets=("zebra",)),
    )


def look_for(*prompts: str) -> Act:
    def act(page: Page) -> None:
        for number, prompt in enumerate(prompts):
            page.locator("#prompts input").nth(number).fill(prompt)
        page.get_by_role("button", name="Look for these").click()

    return act, lambda before: replace(before, targets=prompts)


def read(text: str) -> Act:
    def act(page: Page) -> None:
        page.locator("#text").fill(text)
        page.get_by_role("button", name="Explain this review").click()

    return act, lambda before: replace(before, source=text, targets=("negative",))


FIRST = {
    "/image": (upload("red"), Shown("red", ("zebra",), "scenes-vit")),
    "/prompt": (upload("red"), Shown("red", ("a cup",), "clip")),
    "/text": (read("one two"), Shown("one two", ("negative",), "reviews-bert")),
}
PAIRS = {
    "upload, then class": ("/image", upload("blue"), pick("elephant")),
    "class, then upload": ("/image", pick("elephant"), upload("blue")),
    "upload, then upload": ("/image", upload("blue"), upload("sand")),
    "upload, then model": ("/image", upload("blue"), model(OTHER)),
    "model, then class": ("/image", model(OTHER), pick("elephant")),
    "model, then upload": ("/image", model(OTHER), upload("blue")),
    "upload, then sample": ("/image", upload("blue"), sample()),
    "sample, then class": ("/image", sample(), pick("elephant")),
    "upload, then prompts": ("/prompt", upload("blue"), look_for("a dog")),
    "prompts, then upload": ("/prompt", look_for("a dog"), upload("blue")),
    "upload, then upload, for prompts": ("/prompt", upload("blue"), upload("sand")),
    "text, then text": ("/text", read("three four five"), read("six")),
    "text, then class": ("/text", read("three four five"), pick("positive")),
    "class, then text": ("/text", pick("positive"), read("six")),
}


@dataclass
class Delays:
    """A page. While a test holds the answers of the server, they wait here until it lets them go."""

    visit: Visit
    path: str
    waiting: list[tuple[str, Route]] = field(default_factory=list)
    is_holding: bool = False

    @property
    def page(self) -> Page:
        return self.visit.page

    def open(self) -> None:
        """The example, without colours over the pictures."""
        self.visit.open(f"{self.path}?opacity=0&methods=rollout&methods=fullgrad_plus:libra", maps=False)
        if self.path != "/text":
            finished(self.page)
        for kind, path in (("asked", ""), ("events", "/*/events"), ("picture", "/*/input.png")):
            self.page.route(f"**/api/explanations{path}", partial(self._hold, kind))

    def hold(self) -> None:
        self.is_holding = True

    def _hold(self, kind: str, route: Route) -> None:
        if self.is_holding:
            self.waiting.append((kind, route))
        else:
            let_go([(kind, route)])

    def until(self, kind: str, count: int = 1) -> None:
        """Until so many answers of this kind wait."""
        while sum(waiting_kind == kind for waiting_kind, _ in self.waiting) < count:
            with suppress(Error):
                self.page.wait_for_event("request", timeout=200)
            self.page.evaluate("() => null")  # what Chromium said before it says this has arrived

    def take(self) -> list[tuple[str, Route]]:
        taken, self.waiting = self.waiting, []
        return taken

    def stop(self) -> None:
        """Let everything go, now and from now on."""
        self.is_holding = False  # the routes stay: a request that came while they were taken away would wait for ever
        let_go(self.take())

    def end(self, late: list[tuple[str, Route]]) -> None:
        """Let everything go, and what is ``late`` only when the rest is drawn."""
        before = self.visit.id
        self.stop()
        answered(self.page, before)
        let_go(late)


def let_go(routes: list[tuple[str, Route]]) -> None:
    for _, route in routes:
        with suppress(Error):  # the page itself has dropped the request
            route.continue_()


def answered(page: Page, before: str | None) -> None:
    """Until another explanation than ``before`` is finished; until then the status may tell of that one."""
    page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
    finished(page)


def finished(page: Page) -> None:
    page.wait_for_function("() => / in /.test(document.getElementById('status').textContent)")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of tiny models, with a sample and a second model of images."""
    home: Path = tmp_path_factory.mktemp("order")
    folder = home / "samples"
    folder.mkdir()
    Image.new("RGB", (40, 40), COLOURS[SAMPLE]).save(folder / "leaf.png")
    sample_entry = {"id": SAMPLE, "kind": "image", "model": "scenes-vit", "title": "A leaf", "image": "leaf.png", "target": "dog"}
    prompted = {**sample_entry, "id": "cup", "kind": "clip", "model": "clip", "prompts": ["a cup"]}
    (folder / "index.json").write_text(json.dumps({"samples": [sample_entry, prompted]}))
    with played(home / "server", GatedModels(), [folder]) as address:
        load_models(address, OTHER)
        yield address


@pytest.fixture
def desk(browser: Browser, stage: str) -> Iterator[Visit]:
    yield from visit(browser, stage)


def begin(delays: Delays) -> Shown:
    """Have the first answer on show."""
    first, shown = FIRST[delays.path]
    delays.open()
    ask(delays, first)
    check(delays, shown)
    return shown


def ask(delays: Delays, act: Act) -> None:
    before = delays.visit.id
    act[0](delays.page)
    answered(delays.page, before)


def check(delays: Delays, shown: Shown) -> None:
    """All that is on show belongs to one explanation, the one that the address names, and that answers the newest question."""
    desk, page = delays.visit, delays.page
    expect(page.locator("#answer")).to_have_text("”, “".join(shown.targets))
    document = desk.document()
    assert document["model"] == shown.model
    assert [target["label"] for target in document["targets"]] == list(shown.targets)
    expect(page).to_have_title(f"{shown.targets[0]} · {page.title().partition(' · ')[2]}")
    expect(page.locator("#model-choice")).to_have_value(shown.model)
    if page.url.split("?")[0].endswith("/text"):
        assert document["input"]["text"] == shown.source
        expect(page.locator("#plates .reading").first).to_have_text(shown.source)
        for plate in page.locator("#plates .reading").all():
            assert plate.text_content() == shown.source
        expect(page.locator("#text")).to_have_value(shown.source)
    else:
        page.wait_for_function("() => [...document.querySelectorAll('#plates .map-canvas')].every((face) => face.dataset.drawn === 'true')")
        page.wait_for_function("() => document.querySelector('#picture .sheet').style.visibility === ''")
        drawn = page.evaluate(DRAWN)
        assert drawn["picture"] == list(COLOURS[shown.source])
        grey = drawn["plates"][0][0]
        red, green, blue = COLOURS[shown.source]
        assert abs(grey - (46 + 0.74 * (0.2126 * red + 0.7152 * green + 0.0722 * blue))) < 2  # as `greyBase` draws it
        assert all(colour == [grey] * 3 for colour in drawn["plates"])
    assert len(document["maps"]) == page.locator("#plates .plate").count()
    assert not desk.complaints, desk.complaints


STAGES = ("sent", "taken", "begun, its picture last")
#: Classes are named for an input: while another one is asked about, they cannot be picked.
OLD_CLASSES = ("upload, then class", "sample, then class", "text, then class")


@pytest.mark.parametrize(
    ("pair", "stage_of_first"),
    [(pair, stage) for pair in PAIRS for stage in STAGES if pair not in OLD_CLASSES or stage.startswith("begun")],
)
def test_the_newest_question_decides(desk: Visit, pair: str, stage_of_first: str) -> None:
    path, first, second = PAIRS[pair]
    delays = Delays(desk, path)
    page, shown = delays.page, begin(delays)
    delays.hold()
    late: list[tuple[str, Route]] = []
    first[0](page)
    delays.until("asked")
    if stage_of_first != "sent":
        let_go(delays.take())
        delays.until("events")
    if stage_of_first.startswith("begun"):
        let_go(delays.take())
        expect(page.locator("#answer")).to_have_text("”, “".join(first[1](shown).targets))
        expect(page.locator("main.renewing")).to_have_count(0)  # the first answer may read as that before it did
        late = delays.take()
    second[0](page)
    delays.until("asked", 2 if stage_of_first == "sent" else 1)  # that of the first still waits, too
    delays.end(late)
    expected = second[1](first[1](shown))
    expect(page.locator("#answer")).to_have_text("”, “".join(expected.targets))
    finished(page)
    check(delays, expected)


@pytest.mark.parametrize("stage_of_first", STAGES[:2])
@pytest.mark.parametrize("pair", OLD_CLASSES)
def test_classes_of_the_input_before_are_not_asked_of_the_next(desk: Visit, pair: str, stage_of_first: str) -> None:
    path, first, second = PAIRS[pair]
    delays = Delays(desk, path)
    page, shown = delays.page, begin(delays)
    delays.hold()
    first[0](page)
    delays.until("asked")
    if stage_of_first == "taken":
        let_go(delays.take())
        delays.until("events")
    row = page.locator("#classes li button", has_text=second[1](shown).targets[0])
    box = row.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 10, box["y"] + 10)
    expect(page.locator("#status")).to_have_text("these classes are of the previous input")  # and nothing else is asked
    delays.stop()
    expect(page.locator("main.renewing")).to_have_count(0)
    finished(page)
    check(delays, first[1](shown))
    ask(delays, second)
    check(delays, second[1](first[1](shown)))


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
@pytest.mark.parametrize("asked", ["a class", "a picture"])
def test_a_press_on_a_class_survives_new_answers(desk: Visit, by: str, asked: str) -> None:
    """Pressed before the list is filled again, released after it: the class that was in sight is explained."""
    delays = Delays(desk, "/image")
    begin(delays)
    page = delays.page
    row = page.locator("#classes li button", has_text="dog")
    delays.hold()
    if asked == "a class":
        pick("elephant")[0](page)
    if by == "pointer":
        row.hover()
        page.mouse.down()
    else:
        row.focus()
        page.keyboard.down(" ")
    if asked == "a picture":
        upload("blue")[0](page)
    delays.until("asked")
    delays.end([])
    expect(page.locator("#answer")).to_have_text("elephant" if asked == "a class" else "zebra")
    if by == "pointer":
        page.mouse.up()
    else:
        page.keyboard.up(" ")
    expect(page.locator("#answer")).to_have_text("dog")
    finished(page)
    check(delays, Shown("red" if asked == "a class" else "blue", ("dog",), "scenes-vit"))
    expect(page.locator("#classes [aria-pressed=true]")).to_contain_text("dog")
    if by == "keyboard":
        expect(row).to_be_focused()  # it is still the same row


@pytest.mark.parametrize("path", ["/image", "/prompt"])
def test_a_picture_is_shown_before_its_answer(desk: Visit, path: str) -> None:
    delays = Delays(desk, path)
    page, shown = delays.page, begin(delays)
    delays.hold()
    upload("blue")[0](page)
    delays.until("asked")
    title = page.locator("#model-choice option:checked").inner_text()
    expect(page.locator("#picture .caption")).to_contain_text(f"asking {title}")
    page.wait_for_function("() => document.querySelector('#picture img').complete")
    assert page.evaluate(DRAWN)["picture"] == list(COLOURS["blue"])
    expect(page.locator("main.renewing")).to_have_count(1)  # the maps are still those of the picture before
    delays.end([])
    check(delays, replace(shown, source="blue"))
