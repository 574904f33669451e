"""What somebody sees first: the sentence over the plates, the four best methods, the model that answered, and where the rest is found."""

from __future__ import annotations

import itertools
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.support.questions import explained
from tests.browser.support.visit import Visit, view


@pytest.mark.trained
@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_what_the_maps_have_in_common_is_said_as_the_server_says_it_by_the_names_of_the_plates(desk: Visit, path: str) -> None:
    page = desk.open(path)
    document = desk.document()
    best = max(document["targets"], key=lambda target: target["probability"]) if path == "/prompt" else document["targets"][0]
    sentence = desk.get(f"/api/explanations/{document['id']}/agreement?target={quote(best['label'])}")["sentence"]
    assert sentence
    expect(page.locator("#overview")).to_contain_text(re.sub(r" \([^)]*\)", "", sentence))  # numbers are shown on hover
    expect(page.locator("#overview .agreement")).to_have_attribute("title", sentence)
    names = set(page.locator(".plate h2, .line h2").all_inner_texts())
    specs = {(attribution["title"], attribution["method"].partition("?")[2]) for attribution in document["maps"]}
    assert names == {f"{title} ({options})" if options else title for title, options in specs}
    named = re.findall(r"[.] ([A-Z][^.(]+?) (?:shows? |says? |differs most|marks |is unlike )", sentence)
    assert set(" and ".join(named).split(" and ")) <= names | {""}


def test_the_best_measured_of_each_family_come_first_and_the_classics_last_and_numbers_fold_away_for_all_at_once(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    listed = desk.get(f"/api/methods?model={desk.document()['model']}")
    ranks = {spec: spec_ranking["rank"] for spec, spec_ranking in listed["standing"]["ranks"].items()}
    shown = page.locator(".plate:visible")
    expect(shown).to_have_count(4)
    specs = shown.evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
    classic = {pair["spec"] for method in listed["methods"] if method["classic"] for pair in method["pairs"]}
    family = {pair["spec"]: method["family"] for method in listed["methods"] for pair in method["pairs"]}
    usual = {variant["spec"] for variant in listed["variants"] if variant["default"]}
    assert len({family[spec] for spec in specs}) == 4
    assert [ranks[spec] for spec in specs] == sorted(ranks[spec] for spec in specs)
    expect(page.locator(".advice.lead")).to_contain_text("Of each family of methods, the best comes first.")
    for spec in specs:  # of all that were measured, not only of those on the page
        assert ranks[spec] == min(rank for other, rank in ranks.items() if family[other] == family[spec])
    for spec in specs:
        lines = {
            pair["spec"]: pair["line"]
            for method in listed["methods"]
            if method["name"] == spec.partition(":")[0]
            for pair in method["pairs"]
        }
        own = min(lines.values(), key=len)
        plainly = desk.plate(spec).locator(".plainly p")
        expect(plainly).to_contain_text(own)
        # what the rule changes of it is said once, under the plates; on a plate where another one of the page has the same sentence
        told = plainly.all_text_contents() + page.locator(".rules").all_text_contents()
        assert sum(lines[spec].removeprefix(own).strip() in text for text in told) >= 1
        standing = desk.plate(spec).locator(".standing")
        measured = listed["standing"]["measured"]
        ranked = listed["standing"]["ranks"][spec]
        among = f"of {ranked['of']} with {listed['standing']['model']}"
        expect(standing).to_contain_text(f"{among}, tested on {re.split(' of |,', measured)[0]}")
        assert f"Not measured on your input: {standing.locator('b').inner_text()} of" in (standing.get_attribute("title") or "")
        assert measured in (standing.get_attribute("title") or "")
        expect(standing.locator(".hidden")).to_have_text(f". {standing.get_attribute('title')}")
    more = page.get_by_role("button", name="more methods")
    expect(more).to_have_text(f"{len(usual) - 5} more methods + random")
    more.click()
    expect(page.locator(".plate:visible")).to_have_count(len(usual))
    assert desk.query["more"] == ["shown"]
    after = page.locator("#plates .part:has-text('Classic baselines') ~ .plate").evaluate_all(
        "(nodes) => nodes.map((node) => node.dataset.spec)"
    )
    assert set(after) == (usual & classic) - set(specs)
    control = page.locator("#plates .part:has-text('Control')")
    expect(control).to_contain_text("noise, not a method")
    assert after[-1] == "random"
    expect(control.locator("+ .plate")).to_have_attribute("data-spec", "random")
    expect(desk.plate("random").locator(".standing")).to_have_text("the control: noise, to compare with")
    page.get_by_role("button", name="Fewer methods").click()
    expect(page.locator(".plate:visible")).to_have_count(4)
    expect(page.locator(".plate .facts:visible")).to_have_count(0)
    button = page.get_by_role("button", name="Numbers")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".plate .facts:visible")).to_have_count(4)
    assert desk.query["numbers"] == ["shown"]
    button.click()
    expect(page.locator(".plate .facts:visible")).to_have_count(0)


def test_of_one_class_rather_than_another_the_maps_that_show_for_and_against_come_first_and_the_page_says_so(desk: Visit) -> None:
    """A map of strength alone cannot show what speaks for the other class."""
    first, second = (answer["label"] for answer in desk.explained(model="reviews-bert", text="a lovely film")["top"][:2])
    document = desk.explained(model="reviews-bert", text="a lovely film", target=first, against=second)
    signed = {each["method"]: each["signed"] for each in document["maps"]}
    page = desk.open(f"/text?id={document['id']}", folded=True)
    order = page.locator(".plate").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
    leading = [signed[spec] for spec in order[:4]]
    assert leading == sorted(leading, reverse=True)
    assert leading.count(True) == min(4, sum(signed.values()))
    assert False in signed.values()
    expect(page.locator(".advice.lead")).to_contain_text("Maps that show for and against come first.")


@pytest.mark.parametrize("path", ["/image", "/prompt"])
def test_methods_are_counted_alike_wherever_they_are(desk: Visit, path: str) -> None:
    page = desk.open(path, folded=True)
    specs = set(desk.document()["methods"])
    assert "random" in specs
    methods = len(specs) - 1
    expect(page.locator("#status")).to_contain_text(f"{methods} methods + random in ")
    expect(page.locator("#choose-methods")).to_have_text(f"Methods {methods} + random")
    expect(page.locator(".unfold button")).to_have_text(f"{methods - 4} more methods + random")
    page.goto(f"{desk.address}/history")
    expect(page.locator(".record")).to_contain_text(f"{methods} methods + random")


@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_the_view_menu_by_keyboard(desk: Visit, path: str) -> None:
    page = desk.open(f"{path}?methods=fullgrad_plus:libra", folded=True)
    summary = page.locator("#controls .menu:not(.why) summary")
    summary.focus()
    summary.press("Enter")
    expect(page.get_by_role("radio", name="both")).to_be_visible()
    page.get_by_role("radio", name="both").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("radio", name="both")).to_have_count(0)
    expect(summary).to_be_focused()
    with view(page):
        page.get_by_role("radio", name="against").check()
    assert desk.query["evidence"] == ["against"]


def test_which_model_answered_and_why_stands_beside_the_picture(desk: Visit) -> None:
    page = desk.open("/image?methods=rollout", folded=True)
    choice = page.locator("#input-panel").get_by_label("Answered by")
    expect(choice).to_have_value(desk.document()["model"])
    before = desk.id
    other = "photos-vit" if desk.document()["model"] != "photos-vit" else "scenes-vit"
    model = desk.get(f"/api/models/{other}")
    choice.select_option(other)
    desk.next_maps(before)
    purpose = "" if model["photos"] else f" {model['description']}"
    expect(page.locator("#model-why")).to_have_text(f"You chose this model: it knows {len(model['labels']):,} things.{purpose}")


def test_sets_families_and_search_choose_methods(phone: Visit) -> None:
    page = phone.open("/image?model=scenes-vit&methods=random", folded=True)
    listed = phone.get(f"/api/methods?model={phone.document()['model']}")
    page.locator("#choose-methods").click()
    able = [method for method in listed["methods"] if any(pair["reason"] is None for pair in method["pairs"])]
    ranks = {spec: place["rank"] for spec, place in listed["standing"]["ranks"].items()}

    def best(family: str) -> float:
        found = [ranks.get(pair["spec"], float("inf")) for method in able if method["family"] == family for pair in method["pairs"]]
        return min(found, default=float("inf"))

    families = [family for family in listed["families"] if any(method["family"] == family["name"] for method in able)]
    families.sort(key=lambda family: best(family["name"]))
    expect(page.locator(".family legend")).to_have_text([family["title"] for family in families])
    for family in page.locator(".family").all():  # the best measured first
        shown = family.locator("input").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
        placed = [ranks.get(spec, float("inf")) for spec in shown]
        assert placed == sorted(placed)
    behind = page.locator('[data-group="behind"]')  # measured, and never among the best
    expect(behind.locator("summary")).to_contain_text("more method")
    readouts = behind.locator("input").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec.split(':')[0])")
    assert set(readouts) == set(listed["asides"]) & {method["name"] for method in able}
    expect(behind.locator("li").first).to_be_hidden()
    for preset in listed["presets"]:
        button = page.locator(f'[data-preset="{preset["name"]}"]')
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        ticked = page.locator(".family input:checked").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
        assert set(ticked) == set(preset["specs"])
    page.locator('[data-preset="chefer"]').click()
    page.get_by_label("Find a method").fill("rollout")
    expect(page.locator(".family li:visible")).to_have_count(1)
    page.get_by_label("Find a method").fill("no such thing")
    expect(page.locator(".find [role=status]")).to_have_text("No method is called that.")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    before = phone.id
    page.locator(".finish .act").click()
    phone.next_maps(before)
    chefer = next(preset["specs"] for preset in listed["presets"] if preset["name"] == "chefer")
    assert set(phone.document()["methods"]) == set(chefer)
    expect(page.locator("#chooser")).to_be_hidden()
    expect(page.locator("#choose-methods")).to_be_focused()


def test_the_best_three_curves_and_the_random_baseline_are_named(desk: Visit) -> None:
    specs = ["rollout", "fullgrad_plus:libra", "gradcam_plus", "generic_attention", "random"]
    page = desk.open(f"/image?id={explained(desk, 'image', methods=specs)}", folded=True)
    page.locator("#removed").focus()
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)
    panel = page.locator(".panels svg").first
    named = panel.locator(".named").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
    best = page.locator(".ranks tbody tr[data-spec]").evaluate_all("(nodes) => nodes.slice(0, 3).map((node) => node.dataset.spec)")
    assert set(named) == set(best)
    expect(panel.locator(".end:visible")).to_have_count(4)
    expect(panel.locator(".baseline .end")).to_have_text("random baseline")
    heights = sorted(float(y) for y in panel.locator(".end:visible").evaluate_all("(nodes) => nodes.map((node) => node.getAttribute('y'))"))
    assert all(b - a >= 13.9 for a, b in itertools.pairwise(heights))
    last = page.locator(".ranks tbody tr[data-spec]").last
    last.hover()
    expect(panel.locator(f'.line[data-spec="{last.get_attribute("data-spec")}"] .end')).to_be_visible()
    expect(panel.locator(".pointed")).to_have_count(1)


@pytest.mark.trained
def test_ranks_are_those_of_the_model_on_show(desk: Visit) -> None:
    """Also after a sample of another model is chosen, or another model, while the same plates are there."""
    page = desk.open("/image")

    def check(model: str) -> None:
        document = desk.document()
        assert document["model"] == model
        ranks = desk.get(f"/api/methods?model={model}")["standing"]["ranks"]
        ranked = [spec for spec in document["methods"] if spec in ranks]
        assert len(ranked) > 5
        for spec in ranked:
            expect(desk.plate(spec).locator(".standing")).to_contain_text(f"of {ranks[spec]['of']} with {model}, tested on")
            ties = sum(other["tied"] for other in ranks.values())
            is_one_of_many = ranks[spec]["tied"] and ties > 1
            place = f"one of the {ties} best" if is_one_of_many else rf"{ranks[spec]['rank']}(st|nd|rd|th)"
            expect(desk.plate(spec).locator(".standing b")).to_have_text(re.compile(f"^{place}$"))

    before = desk.id
    scene = next(
        sample["id"] for sample in desk.get("/api/samples")["samples"] if sample["model"] == "scenes-vit" and sample["kind"] == "image"
    )
    page.locator(f'#samples [data-id="{scene}"]').click()
    desk.next_maps(before)
    check("scenes-vit")
    before = desk.id
    page.locator("#model-choice").select_option("photos-vit")
    desk.next_maps(before)
    check("photos-vit")


@pytest.mark.trained
def test_the_caption_of_a_row_on_prompt_is_whole_next_to_the_picture_of_which_prompt_wins(desk: Visit) -> None:
    """No name, place or sentence is cut, and the first row of maps still begins above y = 420."""
    page = desk.open("/prompt?sample=photo-cat-coffee-prompts&more=shown", folded=True)
    parts = page.locator(".matrix .row-caption > *, .matrix .row-caption .plainly p, .matrix .standing > :not(.hidden)")
    cut = parts.evaluate_all(
        "(nodes) => nodes.filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth).map((node) => node.textContent)"
    )
    assert cut == []
    expect(page.locator(".matrix .plainly p").first).to_be_visible()
    first = page.locator(".matrix .line:not(.head) .map-canvas").first.bounding_box()
    assert first is not None
    assert first["y"] < 420
    assert first["width"] >= 260


@pytest.mark.parametrize("path", ["/image", "/text"])
def test_of_one_kind_of_input_no_other_is_spoken_of(desk: Visit, path: str) -> None:
    """A page with a picture says nothing of words and atoms, one with a text nothing of patches."""
    page = desk.open(f"{path}?methods=rollout&methods=random", folded=True)
    said = page.locator("main").inner_text()
    others = {"/image": ("words", "atoms"), "/text": ("patch", "atoms")}[path]
    assert [word for word in others if re.search(rf"\b{word}", said)] == []
