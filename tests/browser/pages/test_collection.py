"""The Collection page: rows, filters by every control, the plane, and the way to the workbench and back."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.visit import Visit
from tests.server.conftest import png
from tests.support.made_up_collection import made_up_row, text_row, write_collection, wrong

MANY = 600  # rows of the collection of pictures
WRONG = 7


@pytest.fixture(scope="module")
def collection_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a collection of many pictures, some of them there to be opened, and one of texts."""
    folder = tmp_path_factory.mktemp("collections")
    rows = [wrong(0, "bee", 0.9, own_columns={"camera": "North"}), *(wrong(3 * i, "cat", 0.8) for i in range(1, WRONG))]
    known = {row.index for row in rows}
    rows += [made_up_row(index, own_columns={"camera": "South"}) for index in range(MANY) if index not in known]
    for row in rows:
        (folder / "data" / row.input).parent.mkdir(parents=True, exist_ok=True)
        (folder / "data" / row.input).write_bytes(png(row.index % 3))
    sources = {"data": str(folder / "data"), "folder": None, "split": None}
    write_collection(folder / "all/photos", sorted(rows, key=lambda row: row.index), group=50, sources=sources)
    write_collection(folder / "all/films", [text_row(0, "a fine film"), text_row(1, "a bad film")], model="reviews-bert")
    at_corner = {"scores": [127 * (patch == 3) for patch in range(16)]}
    marked = [made_up_row(index, first=at_corner if index % 3 == 2 else None) for index in range(180)]
    marked[:2] = [made_up_row(index, labels=["yak"], right=None) for index in range(2)]
    write_collection(folder / "all/marked", marked, model="gone", weights_digest="0" * 64)
    (folder / "all/films/slices.html").write_text(
        "<!doctype html><title>Slices of films</title><style>p { color: red }</style><body><p id=fine>fine", "utf-8"
    )
    with tiny_server(tmp_path_factory.mktemp("tiny"), collections=str(folder / "all")) as address:
        yield address


@pytest.fixture
def address(collection_address: str) -> str:
    return collection_address


def opened(visit: Visit, title: str, query: str = "") -> Page:
    """The page with the collection of this title, once its rows are drawn."""
    listed = {each["title"]: each["id"] for each in visit.get("/api/collections")["collections"]}
    visit.page.goto(f"{visit.address}/collection?c={listed[title]}{query}")
    drawn(visit.page)
    return visit.page


def drawn(page: Page) -> None:
    expect(page.locator("#rows")).to_have_attribute("aria-busy", "false")


def names(page: Page) -> Locator:
    """The names of the rows in view, from the top."""
    return page.locator(".tabulator-row .open")


def select(page: Page, title: str) -> Locator:
    """The select of the filters with this title."""
    return page.locator("#filters .field").filter(has=page.get_by_text(title, exact=True)).locator("select")


def test_the_page_says_that_it_reads_a_collection(desk: Visit) -> None:
    page = desk.page
    held: list[Route] = []
    listed = {each["title"]: each["id"] for each in desk.get("/api/collections")["collections"]}
    page.route(f"**/api/collections/{listed['photos']}", lambda route: held.append(route))
    page.goto(f"{desk.address}/collection?c={listed['photos']}")
    expect(page.locator("#opening")).to_have_text(f"Reading {MANY} rows of photos …")
    expect(page.locator("#view")).to_be_hidden()
    page.route("**/selection?*", lambda route: held.append(route))
    held.pop().continue_()
    expect(page.locator("#opening")).to_be_hidden()
    expect(page.locator("#status")).to_have_text("Reading the rows …")
    page.unroute("**/selection?*")
    held.pop().continue_()
    drawn(page)
    expect(page.locator("#status")).to_contain_text("right")


def test_the_most_suspicious_row_is_at_the_top(desk: Visit) -> None:
    page = opened(desk, "photos")
    expect(names(page).first).to_have_text("ant/00000.png")
    expect(page.locator("#status")).to_have_text(re.compile(rf"^{MANY} rows, 98\.8.%\s*right$"))
    expect(page.locator("#suspicion")).to_contain_text("wrong and sure")
    first = page.locator(".tabulator-row").first
    expect(first.locator(".chip")).to_have_text(["wrong and sure"])
    expect(first.locator("canvas")).to_have_count(2)
    expect(first.locator("img")).to_have_attribute("src", re.compile("thumbnails"))
    first.locator("img").evaluate("(image) => image.decode()")
    seen = first.locator("canvas").first.evaluate("(canvas) => new Set(canvas.getContext('2d').getImageData(0, 0, 120, 120).data).size")
    assert seen > 10  # colours of a map over a picture
    expect(page.locator(".tabulator-col .heads span")).to_have_text(["Picture", re.compile("FullGrad"), "Attention rollout"])
    expect(page.locator(".toggle", has_text="map off the object")).to_be_visible()
    expect(page.locator("#places")).to_be_hidden()
    assert page.locator(".tabulator-row").count() < 100  # only those near the window are there
    no_violation(page)


def test_the_page_on_slices_is_linked_where_it_is_there(desk: Visit) -> None:
    expect(opened(desk, "photos").get_by_role("link", name="What rows have in common")).to_be_hidden()
    page = opened(desk, "films")
    page.get_by_role("link", name="What rows have in common").click()
    expect(page).to_have_title("Slices of films")
    expect(page.locator("#fine")).to_have_css("color", "rgb(255, 0, 0)")  # its styles are let through
    page.get_by_role("link", name="← the rows of films").click()
    expect(page).to_have_url(re.compile(r"/collection\?c=films"))
    page.go_back()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Leaderboard").click()
    expect(page).to_have_title(re.compile("^Leaderboard"))


def test_rows_and_pictures_ahead_of_the_view_are_there_before_they_are_seen(desk: Visit) -> None:
    """After one look at the table; rows far away, and pictures further than some rows, are not asked for."""
    asked: list[str] = []
    desk.page.on("request", lambda request: asked.append(request.url))
    page = opened(desk, "photos")
    page.wait_for_function("() => document.querySelectorAll('.tabulator-row[aria-busy=false]').length > 0")
    expect(page.locator(".tabulator-row[aria-busy=true]")).to_have_count(0)
    page.locator(".tabulator-tableholder").evaluate("(holder) => { holder.scrollTop = 20 * 76 }")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.tabulator-row img')].filter((image) => image.complete && image.src).length > 10"
    )
    offsets = {int(found[1]) for url in asked if (found := re.search(r"/rows\?.*offset=(\d+)", url))}
    assert offsets >= {0, 50, 100}
    assert max(offsets) <= 150
    assert sum("/thumbnails/" in url for url in asked) < 80


def test_every_control_filters(desk: Visit) -> None:
    page = opened(desk, "photos")
    status = page.locator("#status")
    page.locator(".toggle", has_text="wrong and sure").click()
    expect(status).to_contain_text(f"{WRONG} of {MANY} rows")
    select(page, "Answer").select_option("bee")
    expect(status).to_contain_text(f"1 of {MANY} rows")
    expect(names(page)).to_have_text(["ant/00000.png"])
    assert desk.query["flag"] == ["wrong"]
    assert desk.query["answer"] == ["bee"]
    page.get_by_role("button", name="Show all rows").click()
    expect(status).to_contain_text(f"{MANY} rows")
    select(page, "camera").select_option("North")
    expect(status).to_contain_text(f"1 of {MANY} rows")
    page.get_by_role("button", name="Show all rows").click()
    page.locator("#filters [type=search]").fill("00012")
    expect(names(page)).to_have_text(["ant/00012.png"])
    page.locator("#filters [type=search]").fill("nowhere")
    expect(page.locator(".tabulator-placeholder")).to_contain_text("No row is left")


def test_a_count_of_the_matrix_shows_its_rows(desk: Visit) -> None:
    page = opened(desk, "photos")
    cell = page.get_by_role("button", name=f"{WRONG - 1} rows with the label ant answered cat")
    cell.click()
    expect(page.locator("#status")).to_contain_text(f"{WRONG - 1} of {MANY} rows")
    expect(cell).to_have_attribute("aria-pressed", "true")
    cell.click()
    expect(page.locator("#status")).to_contain_text(f"{MANY} rows")


def test_counts_of_reasons_and_the_matrix_are_those_of_the_filter(desk: Visit) -> None:
    page = opened(desk, "photos")
    sure = page.locator(".toggle", has_text="wrong and sure").locator(".figure")
    expect(sure).to_have_text(str(WRONG))
    select(page, "Answer").select_option("bee")
    expect(sure).to_have_text("1")
    expect(page.locator(".confusion tbody th")).to_have_text(["bee", "ant"])
    select(page, "Answer").select_option("any")
    select(page, "Label").select_option("cat")
    expect(sure).to_have_text("0")
    expect(page.locator(".confusion tbody th")).to_have_text(["cat"])


def test_the_sentence_on_the_order_is_that_of_the_order(desk: Visit) -> None:
    page = opened(desk, "photos")
    sentence = page.locator("#suspicion")
    expect(sentence).to_contain_text("Most suspicious first")
    page.locator(".sort[data-order=without]").click()
    expect(sentence).to_have_text("Sorted by the probability that is left without the top tenth, largest first.")
    page.locator(".sort[data-order=without]").click()
    expect(sentence).to_contain_text("smallest first")
    page.locator(".sort[data-order=suspicion]").click()
    expect(sentence).to_contain_text("Most suspicious first")


def test_a_row_is_enlarged_with_its_maps_and_the_names_of_their_methods(desk: Visit) -> None:
    page = opened(desk, "photos")
    page.get_by_role("button", name="Enlarge ant/00000.png").click()
    dialog = page.get_by_role("dialog", name="ant/00000.png")
    expect(dialog.locator("figcaption")).to_have_text(["Picture, as the model saw it", re.compile("FullGrad"), "Attention rollout"])
    for number in range(3):  # a picture of one colour takes 2 kB
        page.wait_for_function(f"() => document.querySelectorAll('dialog.enlarged canvas')[{number}].toDataURL().length > 8000")
    no_violation(page)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    expect(page).to_have_url(re.compile("/collection"))  # the row was not opened
    page.get_by_role("button", name="Enlarge ant/00000.png").press("Enter")
    dialog.get_by_role("button", name="Open in the workbench").click()
    expect(page).to_have_url(re.compile(r"/image\?.*id=\w"))


def test_a_box_in_the_plane_shows_its_rows(desk: Visit) -> None:
    page = opened(desk, "photos")
    over = page.locator("#plane .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 2, steps=4)
    page.mouse.up()
    expect(page.locator("#status")).to_contain_text(f"of {MANY} rows")
    drawn(page)
    x0, y0, x1, y1 = map(float, desk.query["box"])
    points = desk.get(f"/api/collections/{desk.query['c'][0]}/points")
    inside = sum(x0 <= x <= x1 and y0 <= y <= y1 for x, y in zip(points["x"], points["y"], strict=True))
    assert 20 < inside < MANY / 2
    assert int(page.locator("#status").inner_text().split()[0]) == pytest.approx(inside, abs=1)  # the address has five digits
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] - 5)
    expect(page.locator("#status")).to_have_text(re.compile(f"^{MANY} rows"))


def test_a_press_opens_the_workbench_and_back_returns(desk: Visit) -> None:
    page = opened(desk, "photos")
    page.locator(".sort[data-order=input]").click()
    expect(names(page).first).to_have_text("ant/00000.png")
    expect(page.locator(".tabulator-col[aria-sort=ascending]")).to_contain_text("Input")
    page.locator(".tabulator-tableholder").evaluate("(holder) => { holder.scrollTop = 76 * 300; }")  # far from any page that is here
    expect(names(page).filter(has_text="bee/00304.png")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]at=300(&|$)"))
    names(page).filter(has_text="bee/00304.png").press("Enter")
    expect(page).to_have_url(re.compile(r"/image\?.*id=\w"))
    desk.maps()
    document = desk.document()
    assert document["model"] == "scenes-vit"
    assert [each["method"] for each in document["maps"]] == ["fullgrad_plus:libra", "rollout"]
    page.go_back()
    drawn(page)
    expect(page.locator(".tabulator-row.opened .open")).to_have_text("bee/00304.png")
    expect(names(page).filter(has_text="bee/00304.png")).to_be_in_viewport()
    assert desk.query["order"] == ["input"]


def test_texts_have_their_words_and_open_on_their_page(desk: Visit) -> None:
    page = opened(desk, "films")
    expect(page.locator(".tabulator-row .words").first).to_have_text("a fine film")
    expect(page.locator(".tabulator-row .words .s4").first).to_have_text("film")
    page.locator(".tabulator-row").first.locator(".words").click()
    expect(page).to_have_url(re.compile(r"/text\?.*id=\w"))
    desk.maps()


def test_a_picture_that_is_gone_is_said(desk: Visit) -> None:
    page = opened(desk, "photos")
    page.route("**/inputs/*", lambda route: route.fulfill(status=409, content_type="application/problem+json", body=GONE))
    page.locator(".tabulator-row").first.locator(".what").click()
    expect(page.get_by_role("alert")).to_contain_text("not where it was collected")
    desk.refused(409)


GONE = '{"type": "urn:vitrine:problem:input-gone", "title": "Gone", "status": 409, "detail": "The picture is not where it was collected."}'


def test_on_a_phone_nothing_is_wider_than_the_window(phone: Visit) -> None:
    page = opened(phone, "photos")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    expect(page.locator(".tabulator-row").first.locator(".what")).to_have_text("bee")
    no_violation(page)


def test_a_zip_becomes_a_table(desk: Visit) -> None:
    page = opened(desk, "films")
    page.get_by_text("Ask a model about many pictures or texts of yours").click()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for number, name in enumerate(("left/a.png", "right/b.png")):
            file.writestr(name, png(number))
    page.locator("#wanted-file").set_input_files({"name": "mine.zip", "mimeType": "application/zip", "buffer": archive.getvalue()})
    expect(page.locator("#make")).to_contain_text("2 inputs, with classes")
    page.locator("#wanted [name=model]").select_option("scenes-vit")
    page.get_by_label("Labels are classes of the model").uncheck()
    page.get_by_role("button", name="Make the table").click()
    made = page.locator("#run-list li")
    expect(made).to_contain_text("mine.zip: 2 inputs collected")
    made.get_by_role("button", name="Open").click()
    expect(page.locator("#which option:checked")).to_contain_text("mine.zip")
    drawn(page)
    expect(page.locator(".tabulator-row")).to_have_count(2)
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#which option", has_text="mine.zip")).to_have_count(0)


def test_a_place_that_rows_of_an_answer_share_is_said(desk: Visit) -> None:
    page = opened(desk, "marked")
    expect(page.locator("#unknown-labels")).to_have_text(
        "2 of 180 rows have a label that this model does not know, and have no verdict: “yak” (2)."
    )
    places = page.locator("#places li")
    expect(places).to_contain_text("60 of 60 rows rightly answered “cat” have much of their evidence in the upper right corner.")
    places.get_by_role("link", name="Show them").click()
    drawn(page)
    expect(page.locator("#status")).to_contain_text("60 of 180 rows")
    expect(page.locator(".toggle", has_text="same place as others").locator("input")).to_be_checked()
    no_violation(page)


def test_a_row_of_a_model_that_is_not_here_says_so(desk: Visit) -> None:
    page = opened(desk, "marked")
    page.locator(".tabulator-row").first.locator(".what").click()
    expect(page.get_by_role("alert")).to_contain_text("no model with the weights of “gone”")


def test_a_search_for_what_rows_have_in_common(desk: Visit) -> None:
    classes = desk.get("/api/models/scenes-vit")["labels"][:2]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(4):
            file.writestr(f"{classes[number % 2]}/{number}.png", png(number))
    request = desk.page.request
    data = request.post(f"{desk.address}/api/runs/data?name=slices.zip", data=archive.getvalue()).json()["name"]
    made = request.post(f"{desk.address}/api/collections", data={"model": "scenes-vit", "dataset": data}).json()["id"]
    desk.page.goto(f"{desk.address}/collection")
    expect(desk.page.locator("#run-list li", has_text="slices.zip")).to_contain_text("4 inputs collected")
    desk.page.goto(f"{desk.address}/collection?c={made}")
    drawn(desk.page)
    link = desk.page.get_by_role("link", name="What rows have in common")
    expect(link).to_be_hidden()
    desk.page.get_by_role("button", name="Find what rows have in common").click()
    expect(desk.page.locator("#searches li")).to_contain_text("slices.zip")
    expect(link).to_be_visible()
    no_violation(desk.page)
    desk.page.locator("#searches").get_by_role("button", name="Delete").click()
    expect(desk.page.locator("#searches li")).to_have_count(0)
    expect(link).to_be_hidden()
    desk.page.locator("#run-list li", has_text="slices.zip").get_by_role("button", name="Delete").click()


def test_texts_that_are_written_are_asked_and_their_words_ranked(desk: Visit) -> None:
    page = desk.page
    page.goto(f"{desk.address}/collection?model=reviews-bert")
    expect(page.locator("#wanted [name=model]")).to_have_value("reviews-bert")
    expect(page.locator("#view")).to_be_hidden()  # none of the collections that are there was asked for
    ask = page.get_by_role("button", name="Ask about these texts")
    expect(ask).to_be_disabled()
    page.get_by_role("button", name="Put in sample sentences").click()
    expect(page.locator(".written [role=status]")).to_have_text(re.compile(r"^\d+ texts$"))
    page.get_by_label("Your texts, one a line").fill("a fine film\n\nanother film\na bad film")
    expect(page.locator(".written [role=status]")).to_have_text("3 texts")
    no_violation(page)
    ask.click()
    page.wait_for_url(re.compile("[?&]c="))
    drawn(page)
    expect(page.locator("#status")).to_have_text("3 rows")
    name = page.url.rpartition("c=")[2].partition("&")[0]
    first = desk.get(f"/api/collections/{name}/words")["words"][0]
    expect(page.locator("#relied-says")).to_contain_text(f"Over these 3 texts the model relies most on “{first['word']}”")
    expect(page.locator("#relied tbody tr").first).to_contain_text(f"{first['marked']} of {first['texts']}")
    no_violation(page)
    page.locator("#relied tbody .link").first.click()
    expect(page.locator("#filters [type=search]")).to_have_value(first["word"])
    page.locator("#run-list li", has_text="3 texts").get_by_role("button", name="Delete").click()
    expect(page.locator("#run-list li", has_text="3 texts")).to_have_count(0)


def test_without_a_collection_it_says_how_to_make_one(tiny_address: str, desk: Visit) -> None:
    page = desk.page
    page.goto(f"{tiny_address}/collection")
    expect(page.locator("#make")).to_have_attribute("open", "")  # the form stands first, the terminal after it
    expect(page.locator("#none")).to_contain_text("vitrine collect")
    form, terminal = page.locator("#make").bounding_box(), page.locator("#none").bounding_box()
    assert form is not None
    assert terminal is not None
    assert form["y"] < terminal["y"]
    expect(page.locator("#view")).to_be_hidden()
