"""Class against class: the matrix, the differences and the correlations against the numbers of the API."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import expect

from tests.browser.support.number_format import shown, shown_range, shown_score
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit, set_beside

MINUS = "\u2212"
# a few that differ in what they promise: one map for all classes, a signed one, an unsigned one
FEW = "methods=raw_attention&methods=fullgrad_plus:libra&methods=transformer_attribution"
DEPTHS = "(node) => [...node.querySelectorAll('[data-w]')].map((word) => Number(word.style.getPropertyValue('--a')))"


def content(document: dict[str, Any], attribution: dict[str, Any]) -> NDArray[np.bool_]:
    """Which scores stand for patches or words."""
    tokens = document["input"].get("tokens")
    return np.ones(len(attribution["scores"]), bool) if tokens is None else np.array([not token["special"] for token in tokens])


def on_one_unit(document: dict[str, Any], attribution: dict[str, Any]) -> NDArray[np.float64]:
    scores = np.array(attribution["scores"])
    size = np.abs(scores[content(document, attribution)]).sum()
    return scores if attribution["signed"] or size == 0 else scores / size


def pairs(document: dict[str, Any], a: str, b: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """For each method its maps for the classes ``a`` and ``b``."""
    maps = {(attribution["method"], attribution["target"]): attribution for attribution in document["maps"]}
    return [(maps[spec, a], maps[spec, b]) for spec in document["methods"]]


def check_badges(desk: Visit, document: dict[str, Any], a: str, b: str) -> dict[str, float]:
    """Every row prints the correlation of its two maps, and says so where they are the same."""
    correlations = {}
    for of_a, of_b in pairs(document, a, b):
        keep = content(document, of_a)
        left, right = np.array(of_a["scores"])[keep], np.array(of_b["scores"])[keep]
        badge = desk.page.locator(f'.line[data-row="{of_a["method"]}"] .badge')
        if np.ptp(left) == 0 or np.ptp(right) == 0:
            expect(badge).to_have_text("no correlation: one map is the same everywhere")
            continue
        r = float(np.corrcoef(left, right)[0, 1])
        number = f"r\u00a0=\u00a0{MINUS if r < 0 else ''}{abs(r):.2f}"
        which = "the two maps of the difference" if len(document["targets"]) > 2 else "its two maps"
        expect(badge).to_have_text(f"{which} {'are nearly the same' if r > 0.99 else 'correlate'}: {number}")
        correlations[of_a["method"]] = r
    return correlations


def differences(desk: Visit) -> dict[str, Any]:
    """The plates of the difference, by method."""
    plates = desk.page.locator(".plate.difference")
    specs = plates.evaluate_all("(plates) => plates.map((plate) => plate.dataset.spec)")
    return {spec: plates.nth(i) for i, spec in enumerate(specs)}


@pytest.mark.trained
def test_two_classes_of_an_image(desk: Visit) -> None:
    desk.open(f"/image?sample=zebra-elephant&grid=patches&{FEW}")
    first = desk.document()
    a, b = first["targets"][0]["label"], "elephant"
    set_beside(desk, b)
    document = desk.document()
    assert [target["label"] for target in document["targets"]] == [a, b]
    expect(desk.page.locator(".matrix .head .name")).to_have_text([a, b, f"{a} rather than {b}"])
    methods = len({attribution["method"] for attribution in document["maps"]})
    expect(desk.page.locator("#status")).to_have_text(f"{methods} methods in {shown(document['seconds'], 2)} s")
    for attribution in document["maps"]:
        plate = desk.plate(attribution["method"]).nth([a, b].index(attribution["target"]))
        assert shown_range(attribution) in plate.locator(".facts:not(.after)").inner_text()
    r = check_badges(desk, document, a, b)
    agnostic = {attribution["method"] for attribution in document["maps"] if not attribution["class_specific"]}
    assert agnostic
    assert all(r[spec] > 0.9999 for spec in agnostic)  # what was declared is what is measured
    assert min(r.values()) < 0.9

    desk.page.reload()
    desk.maps()
    assert desk.id == document["id"]
    moved, what = desk.shift()
    assert moved < 0.01, what

    desk.page.locator(".plate.difference .map-canvas").first.focus()
    desk.page.keyboard.press("ArrowDown")
    desk.page.keyboard.press("ArrowRight")
    patch = int(desk.query["focus"][0])
    for of_a, of_b in pairs(document, a, b):
        scores = on_one_unit(document, of_a) - on_one_unit(document, of_b)
        plate = differences(desk)[of_a["method"]]
        expect(plate.locator(".value")).to_have_text(shown_score(scores[patch], True))
        assert shown_range({"range": [scores.min(), scores.max()]}) in plate.locator(".facts:not(.after)").inner_text()


@pytest.mark.trained
def test_a_difference_of_linear_maps_is_the_map_of_the_contrast(desk: Visit) -> None:
    """FullGrad under Libra is linear in the signal at the logits, so subtracting two maps must give the server's map of a rather than b."""
    spec = "fullgrad_plus:libra"
    picture = HTTP.get(f"{desk.address}/api/samples/dog-cat/image").content

    def explained(**fields: str | list[str]) -> Any:
        return desk.explained(picture, model="scenes-vit", methods=spec, **fields)

    both, contrast = explained(target=["dog", "cat"]), explained(target="dog", against="cat")
    desk.open(f"/image?id={both['id']}")
    scores = np.array(contrast["maps"][0]["scores"])
    plate = differences(desk)[spec]
    desk.page.locator(".plate.difference .map-canvas").focus()
    desk.page.keyboard.press("Home")
    assert int(desk.query["focus"][0]) == int(np.argmax(np.abs(scores)))
    said = float(plate.locator(".value").inner_text().replace(MINUS, "-"))
    assert said == pytest.approx(scores[int(desk.query["focus"][0])], rel=2e-2)


def test_a_link_opens_the_matrix_and_the_pair_again(desk: Visit) -> None:
    desk.open(f"/image?model=scenes-vit&{FEW}")
    labels = [answer["label"] for answer in desk.document()["top"][:3]]
    set_beside(desk, labels[1])
    set_beside(desk, labels[2])
    document = desk.document()
    assert [target["label"] for target in document["targets"]] == labels
    desk.page.get_by_label("Difference: this one").select_option(label=labels[2])
    desk.page.get_by_label("rather than this one").select_option(label=labels[0])
    assert desk.query["pair"] == ["2-0"]
    check_badges(desk, document, labels[2], labels[0])
    desk.page.reload()
    desk.maps()
    assert desk.id == document["id"]
    expect(desk.page.locator(".matrix .head .name")).to_have_text([*labels, f"{labels[2]} rather than {labels[0]}"])
    check_badges(desk, document, labels[2], labels[0])
    # one class alone is on the plain set of plates again
    desk.page.locator("#classes li button", has_text=labels[1]).click()
    desk.next_maps(document["id"])
    expect(desk.page.locator(".matrix")).to_have_count(0)
    assert [target["label"] for target in desk.document()["targets"]] == [labels[1]]


def test_both_sides_of_a_review(desk: Visit) -> None:
    desk.open(f"/text?{FEW}&methods=random")
    a = desk.document()["targets"][0]["label"]
    b = "negative" if a == "positive" else "positive"
    set_beside(desk, b)
    document = desk.document()
    r = check_badges(desk, document, a, b)
    words = document["input"]["words"]
    for of_a, of_b in pairs(document, a, b):
        merge = np.sum if of_a["signed"] else np.max
        left, right = on_one_unit(document, of_a), on_one_unit(document, of_b)
        scores = np.array([merge(left[word["tokens"]]) - merge(right[word["tokens"]]) for word in words])
        plate = differences(desk)[of_a["method"]]
        assert plate.locator(".reading").evaluate("(node) => node.textContent") == document["input"]["text"]
        if r.get(of_a["method"], 0) > 0.9999:
            continue  # all differences are zero, or rounding
        high = float(np.quantile(np.abs(scores), 0.99))
        assert plate.locator(".ends").inner_text().split()[-1] == shown(high, 2)
        depth = plate.evaluate(DEPTHS)
        np.testing.assert_allclose(depth, np.clip(np.abs(scores) / high, 0, 1), atol=0.002)


def test_the_probability_is_explained_in_place_of_the_logit(desk: Visit) -> None:
    desk.open(f"/image?model=scenes-vit&{FEW}")
    before = desk.id
    desk.page.get_by_label("What is explained").select_option("probability")
    expect(desk.page.locator("#results-problem [role=alert]")).to_contain_text(
        "transformer_attribution"
    )  # one-hot: it knows no probability
    expect(desk.page.get_by_label("What is explained")).to_have_value("logit")  # nothing changed
    assert desk.id == before
    desk.refused(422)

    desk.open("/image?model=scenes-vit&methods=fullgrad_plus:libra&methods=fullgrad_plus:gradient")
    before = desk.id
    label = desk.document()["targets"][0]["label"]
    desk.page.get_by_label("What is explained").select_option("probability")
    desk.next_maps(before)
    document = desk.document()
    assert [(target["of"], target["read"]) for target in document["targets"]] == [(label, "probability")]
    expect(desk.page.locator("#answer")).to_have_text(label)
    expect(desk.page.locator("#notes li")).to_have_text(document["notes"])
    expect(desk.page.get_by_label("What is explained")).to_have_value("probability")
    set_beside(desk, document["top"][1]["label"])
    assert [target["read"] for target in desk.document()["targets"]] == ["probability"] * 2
    before = desk.id
    desk.page.get_by_label("What is explained").select_option("logit")
    desk.next_maps(before)
    assert {target.get("read", "logit") for target in desk.document()["targets"]} == {"logit"}

    before = desk.id
    desk.page.get_by_label("What is explained").select_option("clrp")  # each class rather than all others
    desk.next_maps(before)
    targets = desk.document()["targets"]
    assert [target["kind"] for target in targets] == ["clrp"] * 2
    assert {target["of"] for target in targets} == {f"clrp:{answer['label']}" for answer in document["top"][:2]}
    expect(desk.page.locator("#classes .classes button[aria-pressed=true]")).to_have_count(2)
    expect(desk.page.get_by_label("What is explained")).to_have_value("clrp")
    before = desk.id
    desk.page.get_by_label("What is explained").select_option("logit")
    desk.next_maps(before)
    assert not any("kind" in target for target in desk.document()["targets"])


def test_a_phone(phone: Visit) -> None:
    phone.open(f"/image?model=scenes-vit&{FEW}")
    set_beside(phone, phone.document()["top"][1]["label"])
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
