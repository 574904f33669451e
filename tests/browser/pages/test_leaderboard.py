"""The Leaderboard page: what ships, in words and maps; and runs with figures written by hand: sorting, ties, examples, two metrics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.support.gated_models import STEPS, GatedModels
from tests.support.made_up_run import texts, write_run
from vitrine_server.metric_lines import LINES

FIGURES = "/leaderboard/figures"
FIRST = f"{FIGURES}?run=first"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that is given two runs."""
    folder: Path = tmp_path_factory.mktemp("board")
    write_run(folder / "runs" / "first")
    write_run(folder / "runs" / "second", "reviews-bert", of=texts())
    with played(folder / "home", GatedModels(), runs=(str(folder / "runs"),)) as address:
        yield address


@pytest.fixture
def desk(browser: Browser, board: str) -> Iterator[Visit]:
    yield from visit(browser, board)


def order(page: Page) -> list[str]:
    """The methods, from the top."""
    specs: list[str] = page.locator("#figures tbody tr").evaluate_all("(rows) => rows.map((row) => row.dataset.spec)")
    return specs


def cases(page: Page) -> Locator:
    """The examples, once they are there: the best and the worst."""
    figures = page.locator("tr.open figure")
    figures.nth(1).wait_for()
    expect(figures).to_have_count(2)
    return figures


def test_a_value_of_fewer_inputs_says_of_how_many(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    page.locator("#figures tbody tr").first.wait_for()
    cell = page.locator("tr[data-spec=rollout] td[data-metric=ap]")
    expect(cell.locator(".count")).to_have_text("5 of 7")
    expect(cell.get_by_role("button", name="5 of 7 inputs have a value")).to_be_visible()
    expect(page.locator("#figures .count")).to_have_count(1)
    expect(page.locator("#status")).to_contain_text("Inputs of these classes are left out, as the model does not have them: unicorn (2).")


def test_columns_sort_best_first_and_back(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    page.locator("#figures tbody tr").first.wait_for()
    assert order(page) == ["fullgrad:libra", "rollout", "random"]  # by the metric that decides, as it is not told the truth
    page.get_by_role("columnheader", name="Segmentation AP").get_by_role("button").click()
    assert order(page) == ["rollout", "fullgrad:libra", "random"]
    expect(page.get_by_role("columnheader", name="Segmentation AP")).to_have_attribute("aria-sort", "descending")
    page.keyboard.press("Enter")  # the focus stays on the heading
    assert order(page) == ["random", "fullgrad:libra", "rollout"]
    page.get_by_role("columnheader", name="Completeness error").get_by_role("button").click()
    assert order(page)[0] == "fullgrad:libra"  # the others have no value
    expect(page.get_by_role("columnheader", name="Completeness error")).to_have_attribute("aria-sort", "ascending")
    page.get_by_role("button", name="Method", exact=True).click()
    assert order(page) == ["fullgrad:libra", "random", "rollout"]
    page.reload()
    page.locator("#figures tbody tr").first.wait_for()
    assert order(page) == ["fullgrad:libra", "random", "rollout"]


def test_each_metric_has_its_mark_which_leads_to_what_metrics_are_worth(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    page.locator("#figures tbody tr").first.wait_for()
    document = page.request.get(f"{desk.address}/api/leaderboard").json()
    truth = {metric["name"]: metric["kinds"]["image"] for metric in document["truth"]["metrics"]}
    marks = page.locator("#figures thead a.truth")
    of_metrics = {metric["name"]: metric for metric in document["truth"]["metrics"]}
    in_doubt = {name: "in doubt" if of_metrics[name]["doubts"]["image"] else "" for name in ("mif", "ap")}
    of_mif, of_ap = (
        f"agrees with known truth: {truth[name]['tau']:.2f} {truth[name]['low']:.2f} to {truth[name]['high']:.2f}{in_doubt[name]}"
        for name in ("mif", "ap")
    )
    expect(marks).to_have_text([of_mif, re.compile("truth"), of_ap])  # the metric that decides first
    expect(page.locator("#why")).to_contain_text(f"it agrees best with known truth ({truth['mif']['tau']:.2f} of 1)")
    expect(page.locator("#meanings dt").first).to_have_text("MIF accuracy decides")
    expect(page.locator("#meanings dd").first).to_have_text(LINES["mif"])
    marks.first.click()
    section = page.locator("#truth")
    expect(section).to_be_in_viewport()
    section.locator("details summary").click()
    expect(section.get_by_role("listitem")).to_have_text(document["truth"]["sentences"])
    expect(section.locator(".advice")).to_have_text(document["truth"]["advice"])
    doubtful = next(metric for metric in of_metrics.values() if metric["doubts"]["image"])
    expect(section.locator(f"tr[data-metric={doubtful['name']}] th")).to_contain_text(doubtful["doubts"]["image"][0])
    mif = section.locator("tr[data-metric=mif]")
    expect(mif).to_contain_text(f"{truth['mif']['tau']:.2f} ({truth['mif']['low']:.2f} to {truth['mif']['high']:.2f})")
    (world, *_) = document["truth"]["worlds"]
    itself, inverse = (of_metrics["mif"]["controls"]["worlds"][world["name"]]["places"][name] for name in ("truth", "truth_inverted"))
    assert not world["marks_alone"]  # there the outline need not be the truth
    places = f"outline {itself['place']} of {itself['of'] + 1}, inverse {inverse['place']} of {inverse['of'] + 1}"
    expect(mif.get_by_text(places).first).to_be_visible()
    of_world = next(metric for metric in document["truth"]["metrics"] if metric["name"] == "mif")["worlds"][world["name"]]
    expect(mif.get_by_title(f"by truth that is {of_world['first_place']} of {len(world['methods'])}").first).to_be_visible()


def test_what_cannot_be_told_from_the_best_is_marked(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    tied = page.locator("#figures td.tied")
    expect(tied).to_have_count(3)
    of_mif = page.locator("#figures td.tied[data-metric=mif]")
    expect(of_mif).to_contain_text("80.0*")
    expect(of_mif.get_by_role("button")).to_have_attribute(
        "aria-label", "MIF accuracy of fullgrad:libra: 80.0 %, interval 78.0 to 83.0, tied for first. Show examples"
    )
    line = page.locator('#figures tr[data-spec="rollout"] td[data-metric=mif] svg line')
    left, right = (float(line.get_attribute(end) or "nan") for end in ("x1", "x2"))
    # 38 to 43 of a column that goes from 18 to 83, on 76 pixels
    assert [left, right] == pytest.approx([76 * 20 / 65, 76 * 25 / 65], abs=0.01)


def test_a_figure_opens_its_examples(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    page.locator('#figures tr[data-spec="rollout"] td[data-metric=ap] button').click()
    expect(page.get_by_role("heading", name="Segmentation AP of Rollout")).to_be_focused()
    assert page.locator('#figures tr[data-spec="rollout"] + tr.open').count() == 1  # under the figure that was asked
    figures = cases(page)
    expect(figures.first).to_contain_text("best: 90.0 %")
    expect(figures.last).to_contain_text("worst: 10.0 %")
    expect(figures.last).to_contain_text("zebra · scene 5")
    page.wait_for_function(
        "() => [...document.querySelectorAll('tr.open img')].every((image) => image.complete && image.naturalWidth === 160)"
    )
    page.reload()
    cases(page)
    page.get_by_role("button", name="Close").click()
    expect(page.locator("tr.open")).to_have_count(0)
    expect(page.locator('#figures tr[data-spec="rollout"] td[data-metric=ap] button')).to_be_focused()


def test_a_run_that_keeps_its_inputs_to_itself_opens_no_examples(desk: Visit) -> None:
    page = desk.open(f"{FIGURES}?run=reviews-bert-on-sst-2", maps=False)
    expect(page.locator("#status")).to_contain_text("keeps no examples")
    page.locator("#figures tbody tr").first.wait_for()
    expect(page.locator("#figures button.figure")).to_have_count(0)
    assert page.locator("#figures span.figure").count() > 50


def test_another_run_is_shown_with_its_words(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    title = next(model["title"] for model in desk.get("/api/models")["models"] if model["name"] == "reviews-bert")
    page.locator("#run").select_option(label=f"{title} on Scenes, 7 inputs (second), 28 Nov 2026")
    expect(page.locator("#figures tbody tr")).to_have_count(3)
    page.locator('#figures tr[data-spec="random"] td[data-metric=mif] button').click()
    words = cases(page).first.locator(".words span")
    expect(words).to_have_text(["A", "lovely", "film"])
    assert [word.get_attribute("class") for word in words.all()] == ["for s0", "for s4", "against s2"]
    assert desk.query["run"] == ["second"]


def test_all_runs_in_one_table(desk: Visit) -> None:
    """It is made when it is opened, follows what is selected, and can be taken along; the address keeps the selection."""
    page = desk.open(FIRST, maps=False)
    page.locator("#pivot summary").click()
    rows = page.locator("#pivot-table tbody tr")
    rows.first.wait_for()
    page.locator("[data-key=tmetric]").select_option("completeness")
    page.locator("[data-key=tmodel]").select_option("reviews-bert")
    expect(page.locator("#pivot-table thead th[scope=colgroup]")).to_have_text(["reviews-bert", "Scenes"])
    expect(page.locator("#pivot-table thead tr").last.locator("th")).to_have_text(["Method", "Completeness error\u00a0↓"])
    expect(rows.locator("th code")).to_have_text(["fullgrad:libra", "random", "rollout"])
    expect(rows.first.locator("td")).to_have_text("0[-0.02, 0.03]")
    expect(rows.last.locator("sup")).to_have_text("1")
    expect(page.locator("#pivot-notes li")).to_contain_text("promises no sum")
    page.reload()
    expect(page.locator("#pivot-status")).to_have_text("3 rows, 1 column.")
    with page.expect_download() as download:
        page.get_by_role("link", name="LaTeX").click()
    assert "Completeness error" in download.value.path().read_text("utf-8")
    page.locator("[data-key=tdata]").select_option("imdb")
    expect(page.locator("#pivot-notes")).to_contain_text("No run measured any of these methods")
    expect(rows).to_have_count(0)
    page.locator("[data-key=tdata]").select_option("All")
    page.locator("[data-key=tfamily]").select_option("attention")
    page.locator("[data-key=tmetric]").select_option("mif")
    page.locator("[data-key=trows]").select_option("settings")
    expect(rows.locator("th")).to_contain_text(["reviews-bert · IMDB", "reviews-bert · SST-2", "reviews-bert · Scenes"])
    no_violation(page)


def test_a_long_table_comes_in_parts(desk: Visit) -> None:
    """Of what ships, whose whole table is megabytes: what is read first are the first rows, and the rest where it is asked for."""
    address = "/api/leaderboard/table?metric=srg"
    whole = desk.get(address)
    page = desk.open(f"{FIGURES}?table=open&tmetric=srg", maps=False)
    rows, more = page.locator("#pivot-table tbody tr"), page.locator("#pivot-more button")
    shown = 0
    while shown < whole["row_count"]:
        shown = min(shown + 40, whole["row_count"])
        expect(rows).to_have_count(shown, timeout=30_000)
        if shown < whole["row_count"]:
            expect(page.locator("#pivot-status")).to_contain_text(f"{shown} of {whole['row_count']} rows")
            more.click()
    expect(more).to_have_count(0)
    assert shown > 40
    assert page.locator("#pivot-table tbody th .title").all_text_contents() == [row["title"] for row in whole["rows"]]


def test_two_metrics_side_by_side(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    page.locator("#scatter summary").click()
    plot = page.locator("#scatter .plot")
    expect(plot).to_have_attribute("aria-label", "Places of 1 method by MIF accuracy, joined to their places by Completeness error")
    page.locator("#scatter select").last.select_option(label="Segmentation AP")
    places = dict(page.locator(".slope").evaluate_all("(all) => all.map((node) => [node.dataset.spec, node.dataset.places])"))
    assert places == {"fullgrad:libra": "1 2", "rollout": "2 1", "random": "– –"}  # the first two cross
    names = page.locator(".slope text.end").evaluate_all("(all) => all.map((node) => [node.textContent, node.getBoundingClientRect().y])")
    assert [text.split("  ") for text, _ in names] == [["Fullgrad:Libra", "1"], ["Rollout", "2"], ["Random", "–"]]
    assert names[0][1] < names[1][1] < names[2][1]
    expect(page.locator(".slope.baseline")).to_have_attribute("data-spec", "random")


def test_no_name_of_the_plot_is_over_another_or_out_of_sight(browser: Browser, board: str) -> None:
    for width in (1440, 390):
        for visitor in visit(browser, board, width):
            page = visitor.open(f"{FIGURES}?run=photos-vit-on-coco&y=mif", maps=False)
            page.locator("#scatter summary").click()
            names = page.locator(".slope text.end")
            expect(names).to_have_count(31)
            boxes = names.evaluate_all(
                "(all) => all.map((node) => { const b = node.getBoundingClientRect(); return [b.top, b.bottom, b.left, b.right]; })"
            )
            boxes.sort()
            assert all(below[0] >= above[1] - 2 for above, below in itertools.pairwise(boxes))
            assert all(left >= 0 and right <= width for _, _, left, right in boxes)


@pytest.mark.parametrize("task", ["image", "clip", "text", "molecule"])
def test_a_task_is_no_longer_than_a_few_screens_of_a_phone(phone: Visit, task: str) -> None:
    phone.open(f"/leaderboard?task={task}", maps=False)
    expect(phone.page.locator(".places tbody").first).to_be_visible()
    assert phone.page.evaluate("() => document.documentElement.scrollHeight") <= 2500


@pytest.mark.parametrize("task", ["image", "clip", "text", "molecule"])
def test_a_task_is_one_screen_of_three_sentences_maps_and_a_plot(desk: Visit, task: str) -> None:
    """As the run that ships says; ties, chance and intervals can be seen."""
    page = desk.open(f"/leaderboard?task={task}", maps=False)
    said = desk.get("/api/leaderboard/rankings")["rankings"][task]
    expect(page.locator(".tasks [aria-current]")).to_have_attribute("data-task", task)
    sentences = page.locator(".sentences li")
    expect(sentences).to_have_text(said["sentences"])
    assert len(said["sentences"]) == 3
    groups = {
        group: [place["spec"] for place in said["places"] if place["group"] == group] for group in ("first", "behind", "chance", "worse")
    }
    drawn = page.locator(".places tbody").evaluate_all(
        "(all) => all.map((body) => [body.dataset.group, [...body.querySelectorAll('[data-spec]')].map((row) => row.dataset.spec)])"
    )
    assert drawn == [[group, specs] for group, specs in groups.items() if specs]
    first = said["places"][0]
    value = page.locator(f'.places tr[data-spec="{first["spec"]}"] td.num')
    expect(value).to_contain_text(f"{100 * first['value']:.1f}")
    expect(value).to_contain_text(f"{100 * first['low']:.1f} to {100 * first['high']:.1f}")
    expect(page.locator(".facts")).to_contain_text(said["metric"]["line"])
    expect(page.locator(".facts .why")).to_contain_text(said["why"])
    compared = [place["title"] for place in said["places"] if place["comparing"] and place["group"] == "first"]
    assert compared == (["MaskCLIP, minus the other prompts"] if task == "clip" else [])
    heading = f"Not recommended: {compared[0]}, as it depends on them" if compared else " tie for first"
    expect(page.locator(".places .group").first).to_contain_text(heading)
    inks = page.locator(".maps canvas").evaluate_all("(all) => all.map((canvas) => canvas.toDataURL())")
    assert len(inks) == len(set(inks)) == (3 if task in ("image", "clip") else 0)
    expect(page.locator(".maps .words")).to_have_count(3 if task == "text" else 0)
    assert page.locator(".key").count() == (0 if task == "molecule" else len({entry["signed"] for entry in said["trust"]}))
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 2500
    page.get_by_role("link", name="All figures of this run").click()
    expect(page.locator("#run")).to_have_value(said["run"])


def test_intervals_and_chance_lie_where_their_values_are(desk: Visit) -> None:
    page = desk.open("/leaderboard", maps=False)
    said = desk.get("/api/leaderboard/rankings")["rankings"]["image"]
    ends = [value for place in said["places"] for value in (place["low"], place["high"])] + [said["random"]]
    low, high = min(ends), max(ends)
    place = said["places"][-1]
    row = page.locator(f'.places tr[data-spec="{place["spec"]}"] .track')
    left, width, dot, line, all_of_it = row.evaluate(
        """(track) => {
          const box = track.getBoundingClientRect();
          const of = (name) => track.querySelector(name).getBoundingClientRect();
          const dot = of(".dot");
          return [of(".range").left - box.left, of(".range").width, (dot.left + dot.right) / 2 - box.left,
                  of(".chance-line").left - box.left, box.width];
        }"""
    )

    def at(value: float) -> float:
        return float(all_of_it * (0.02 + 0.96 * (value - low) / (high - low)))

    expected = [at(place["low"]), at(place["high"]) - at(place["low"]), at(place["value"]), at(said["random"])]
    assert [left, width, dot, line] == pytest.approx(expected, abs=0.6)


def test_a_model_that_has_changed_since_its_run_says_so(desk: Visit) -> None:
    said = desk.get("/api/leaderboard/rankings")
    models = desk.get("/api/models")
    models["models"] = [{**models["models"][0], "name": "photos-vit", "weights_digest": "0" * 64}]
    desk.page.route("**/api/models", lambda route: route.fulfill(json=models))
    page = desk.open("/leaderboard", maps=False)
    expect(page.locator(".facts .warn")).to_have_text("The model has changed since: its methods may rank otherwise now.")
    models["models"][0]["weights_digest"] = said["rankings"]["image"]["weights_digest"]
    page = desk.open("/leaderboard", maps=False)
    page.locator(".facts").wait_for()
    expect(page.locator(".facts .warn")).to_have_count(0)


def test_an_address_of_before_leads_to_the_page_of_all_figures(desk: Visit) -> None:
    page = desk.page
    page.goto(f"{desk.address}/leaderboard?run=first&sort=ap")
    page.locator("#figures tbody tr").first.wait_for()
    assert order(page) == ["rollout", "fullgrad:libra", "random"]
    page.goto(f"{desk.address}/leaderboard#measure")
    expect(page.locator("#measure")).to_have_attribute("open", "")
    assert page.url.endswith("/leaderboard/figures?run=photos-vit-on-coco#measure")


def test_a_run_is_found_by_its_name_and_its_date(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    expect(page.locator("#run option:checked")).to_contain_text("28 Nov 2026")
    every = page.locator("#run option").count()
    page.get_by_label("Find").fill("imdb")
    expect(page.locator("#run option")).to_have_count(1)
    expect(page.locator("#run")).to_have_value("reviews-bert-on-imdb")
    expect(page.locator(".choice [role=status]").first).to_have_text(f"1 of {every} runs")
    expect(page.locator("#sentences li").first).to_contain_text("Trust ")
    page.get_by_label("Find").fill("28 nov")
    expect(page.locator("#run option")).to_have_count(2)
    expect(page.locator("#run")).to_have_value("first")
    page.get_by_label("Find").fill("no such run")
    expect(page.locator(".choice [role=status]").first).to_have_text(f"0 of {every} runs")


def test_one_metric_decides_on_both_pages(desk: Visit) -> None:
    said = desk.get("/api/leaderboard/rankings")["rankings"]["image"]
    page = desk.open(f"{FIGURES}?run={said['run']}", maps=False)
    page.locator("#figures tbody tr").first.wait_for()
    assert [spec for spec in order(page) if spec != "random"][:8] == sorted(
        (place["spec"] for place in said["places"]), key=lambda spec: -next(p["value"] for p in said["places"] if p["spec"] == spec)
    )[:8]
    assert page.locator("#figures [data-sort]").nth(1).get_attribute("data-sort") == said["metric"]["name"]
    assert page.locator("#sentences li").all_inner_texts()[:3] == said["sentences"]


def test_a_column_in_which_random_numbers_are_among_the_best_is_grey_and_says_why(desk: Visit) -> None:
    page = desk.open(f"{FIGURES}?run=scenes-vit-on-scenes", maps=False)
    expect(page.locator("#figures [data-sort]")).to_have_count(5)  # the methods and the first few metrics
    expect(page.locator("#undecided li")).to_have_count(0)
    page.get_by_role("button", name="Show all 12 metrics").click()
    expect(page.locator("#figures [data-sort]")).to_have_count(13)
    assert desk.query["columns"] == ["all"]
    expect(page.locator("#undecided li")).to_have_count(2)
    expect(page.locator("#undecided li").first).to_contain_text(", in grey: A map of random numbers does as well as the best, and ")
    for metric in ("monotonicity_insertion", "monotonicity_deletion"):
        cells = page.locator(f"#figures td[data-metric={metric}]")
        expect(cells).to_have_count(31)
        assert set(cells.evaluate_all("(all) => all.map((cell) => cell.className)")) == {"muted"}
        assert not any("*" in text for text in cells.all_inner_texts())
    expect(page.locator('#figures tr[data-spec="random"] .star')).to_have_count(0)
    assert page.locator("#figures td[data-metric=srg] .star").count() == 2  # another column tells


def test_trials_of_a_few_inputs_stand_apart_from_the_runs(desk: Visit) -> None:
    page = desk.open(FIGURES, maps=False)
    expect(page.locator("#run optgroup")).to_have_count(2)
    inputs = {run["id"]: run["inputs"] for run in desk.get("/api/leaderboard")["runs"]}
    real, trials = (
        page.locator(f"#run optgroup:nth-child({place}) option").evaluate_all("(all) => all.map((option) => option.value)")
        for place in (1, 2)
    )
    assert min(inputs[run] for run in real) >= 5
    assert {inputs[run] for run in trials} == {1, 3}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility_with_figures(browser: Browser, board: str, scheme: str) -> None:
    for visitor in visit(browser, board, scheme=scheme):
        page = visitor.open(f"{FIRST}&metric=ap&method=rollout", maps=False)
        cases(page)
        no_violation(page)


def test_a_phone_scrolls_one_way_only(browser: Browser, board: str) -> None:
    for visitor in visit(browser, board, 390):
        page = visitor.open(f"{FIRST}&metric=ap&method=rollout", maps=False)
        cases(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390
        page.goto(f"{board}{FIGURES}?run=reviews-bert-on-sst-2")  # a run that ships, with more columns than a phone has room for
        page.locator("#figures tbody tr").first.wait_for()
        visitor.settled()  # what arrives later moves the table
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390
        name, figure = page.locator("#figures tbody th").first, page.locator("#figures tbody td").first
        before = name.bounding_box(), figure.bounding_box()
        page.locator("#figures").evaluate("(node) => node.scrollBy({ left: 120, behavior: 'instant' })")
        after = name.bounding_box(), figure.bounding_box()
        assert before[0] == after[0]  # it stays where the figures are scrolled
        assert before[1] is not None
        assert after[1] is not None
        assert before[1]["x"] - after[1]["x"] == 120


def test_the_figures_come_before_the_command(desk: Visit) -> None:
    page = desk.open(f"{FIGURES}?run=reviews-bert-on-sst-2", maps=False)
    page.locator("#figures tbody tr").first.wait_for()
    command = page.locator("#command")
    expect(command.locator("code")).to_be_hidden()
    table, below = page.locator("#figures").bounding_box(), command.bounding_box()
    assert table is not None
    assert below is not None
    assert below["y"] >= table["y"] + table["height"]
    command.locator("summary").click()
    expect(command.locator("code")).to_contain_text("vitrine evaluate --model reviews-bert")


def test_every_page_leads_to_it_in_one_line_of_the_menu(browser: Browser, board: str) -> None:
    for width in (1440, 390):
        for visitor in visit(browser, board, width):
            page = visitor.open("/methods", maps=False)
            tops = page.locator(".top nav a:visible").evaluate_all("(links) => links.map((link) => link.getBoundingClientRect().top)")
            assert len(set(tops)) == 1
            page.get_by_role("navigation", name="Pages").get_by_role("link", name="Leaderboard").click()
            expect(page.locator("h1")).to_have_text("Leaderboard")
            expect(page.locator(".top nav [aria-current]")).to_have_text("Leaderboard")


@pytest.fixture
def measured(browser: Browser, tmp_path: Path) -> Iterator[tuple[Visit, GatedModels]]:
    """A server without runs of its own, and its models."""
    with GatedModels().in_registry() as models, played(tmp_path, models) as address:
        for desk in visit(browser, address):
            yield desk, models


def test_a_run_is_begun_watched_stopped_and_gone_on_with(measured: tuple[Visit, GatedModels]) -> None:
    desk, models = measured
    gate = models.gate(f"{STEPS[0]} 1")
    page = desk.open(f"{FIGURES}#measure", maps=False)
    form, run = page.locator("#wanted"), page.locator("#run-list li")
    expect(form.get_by_label("Segmentation AP")).to_be_checked()
    expect(form.get_by_label("Segmentation AP")).to_have_accessible_description("Do the strongest parts of a map lie on the thing?")
    expect(form.locator(".time")).to_contain_text("20 inputs by")
    form.get_by_label("Model", exact=True).select_option("scenes-vit")
    form.get_by_label("As in", exact=True).select_option("chefer-table1-2")
    expect(form.get_by_label("Explained class")).to_have_value("gold")
    expect(form.get_by_label("Pictures")).to_have_value("squashed")
    assert "transformer_attribution?start_layer=1" in form.get_by_label("Specs of these methods").input_value()
    form.get_by_label("Specs of these methods").fill(STEPS[0])
    form.get_by_label("Explained class").select_option("predicted")
    form.get_by_label("Inputs", exact=True).fill("3")
    form.get_by_label("Equal steps").fill("5")
    form.get_by_label("Equal steps").press("Tab")
    expect(form.locator(".time")).to_have_text(
        "3 inputs by 1 method. How long it takes is known once the first input is measured: no earlier run of this model says."
    )
    page.get_by_role("button", name="Begin the run").click()
    expect(run.locator("progress")).to_have_js_property("value", 1)
    expect(run).to_contain_text("1 of 3 inputs")
    gate.wait()
    page.reload()
    expect(run).to_contain_text("1 of 3 inputs")  # whoever comes later sees it too
    wanted = desk.get("/api/runs")["runs"][0]
    assert (wanted["target"], wanted["resize"], wanted["steps"], wanted["right"]) == ("predicted", "squashed", 5, "first")
    with page.expect_response(lambda response: response.url.endswith("/stop")):
        run.get_by_role("button", name="Stop").click()
    gate.open()
    expect(run).to_contain_text("stopped after 1 of 3 inputs")
    run.get_by_role("button", name="Go on").click()
    expect(run).to_contain_text("3 inputs measured")
    assert models.calls.count(STEPS[0]) == 4  # the first input once; the second, in whose midst it was stopped, again
    expect(page.locator("#run optgroup").first).to_have_attribute("label", "Measured here")
    expect(page.locator("#run option:checked")).to_contain_text("scenes-vit-on-scenes")
    expect(page.locator("#figures tbody tr")).to_have_count(1)
    run.get_by_role("button", name="Delete").click()
    expect(run).to_have_count(0)
    expect(page.locator("#run option:checked")).not_to_contain_text("scenes-vit-on-scenes")


def test_a_file_of_ones_own_is_sent_and_what_it_lacks_is_said(measured: tuple[Visit, GatedModels]) -> None:
    desk, _ = measured
    page = desk.open(f"{FIGURES}#measure", maps=False)
    form = page.locator("#wanted")
    form.get_by_label("Model", exact=True).select_option("reviews-bert")
    expect(form.get_by_label("Data set").locator("option:enabled")).to_have_text(["Sample reviews, 6 inputs", "A file of yours ..."])
    expect(form.get_by_label("Segmentation AP")).to_have_count(0)
    form.get_by_label("Data set").select_option(label="A file of yours ...")
    expect(page.get_by_role("button", name="Begin the run")).to_be_disabled()
    form.get_by_label("File").set_input_files({"name": "films.txt", "mimeType": "text/plain", "buffer": b"A fine film"})
    expect(form.get_by_role("alert")).to_contain_text(".csv or .jsonl of texts")
    form.get_by_label("File").set_input_files({"name": "films.csv", "mimeType": "text/csv", "buffer": b"text\nA fine film\nA bad film\n"})
    expect(form.get_by_role("status")).to_have_text("2 inputs, without classes.")
    form.get_by_text("that cannot be used, and why").click()
    expect(form).to_contain_text("needs words that people marked: texts gives no rationale")
    form.get_by_text("How it is measured").click()
    expect(form.get_by_label("Explained class").locator("option[value=gold]")).to_be_disabled()
    expect(form.get_by_label("show the best and worst inputs")).not_to_be_checked()
    no_violation(page)
    form.get_by_label("Methods", exact=True).select_option(label="These methods:")
    form.get_by_label("Specs of these methods").fill("random")
    for _ in range(2):  # the second time the server has dropped the file, and it is sent again
        with page.expect_response(lambda response: response.url.endswith("/api/runs") and response.status == 202):
            page.get_by_role("button", name="Begin the run").click()
        expect(page.locator("#run-list li")).to_contain_text("2 inputs measured")
    assert len(desk.complaints) == 2  # of the browser, about the two refusals
    desk.complaints.clear()
    page.get_by_role("button", name="Delete").click()
    while page.locator("#wanted [name=metrics]:checked").count():
        page.locator("#wanted [name=metrics]:checked").first.uncheck()
    page.get_by_role("button", name="Begin the run").click()
    expect(page.get_by_role("alert")).to_contain_text("No metric is ticked")


def test_which_maps_earn_a_claim_is_folded_and_opens_by_its_address(desk: Visit) -> None:
    page = desk.open(FIRST, maps=False)
    claims = page.locator("#claims")
    expect(claims).to_be_visible()
    expect(claims.locator("table")).to_be_hidden()
    page = desk.open(f"{FIRST}#claims", maps=False)
    table = page.get_by_role("region", name="Which maps earn a claim").locator("table")
    expect(table).to_be_visible()
    expect(table.locator("thead")).to_contain_text("scenes-vit, 6 inputs of Scenes")
    row = table.locator("tr[data-spec=random]")
    expect(row).to_contain_text(re.compile(r"\d of 6\s*\d+ to \d+ %"))
