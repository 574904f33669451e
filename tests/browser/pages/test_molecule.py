"""The Molecule page against the numbers of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import expect
from rdkit import Chem

from tests.browser.support.figures import take
from tests.browser.support.number_format import colour_ends, percent
from tests.browser.support.visit import FEW, Visit
from tests.browser.support.word_scores import word_scores

ATOMS_ON_SHOW = """
(plate) => [...plate.querySelectorAll(".reading svg [data-w]")].map((atom) => ({
  kind: (atom.getAttribute("class") ?? "").split(" ").find((name) => ["pro", "con", "mag"].includes(name)) ?? "",
  depth: Number(atom.style.getPropertyValue("--a")),
  place: [...atom.querySelectorAll(".ring")].map((ring) => [Number(ring.getAttribute("cx")), Number(ring.getAttribute("cy"))])[0],
  bonds: atom.querySelectorAll("line").length,
}))
"""


def check_atoms(desk: Visit, document: dict[str, Any]) -> None:
    part = document["input"]["molecule"]
    for attribution in document["maps"]:
        shown = desk.plate(attribution["method"]).evaluate(ATOMS_ON_SHOW)
        assert [atom["place"] for atom in shown] == part["drawing"]["places"]
        assert [atom["bonds"] for atom in shown] == [sum(i in bond["atoms"] for bond in part["bonds"]) for i in range(len(shown))]
        scores = word_scores(document, attribution)
        low, high = colour_ends(scores, attribution["signed"])
        signed = attribution["signed"] and low == -high  # else its scores lie on one side, and are drawn as strengths
        start = 0.0 if signed else low
        place = np.clip((scores - start) / (high - start), -1 if signed else 0, 1) if high > low else 0 * scores
        np.testing.assert_allclose([atom["depth"] for atom in shown], np.abs(place), atol=0.002)
        for atom, at in zip(shown, place, strict=True):
            assert atom["kind"] == ("" if at == 0 else "mag" if not signed else "pro" if at > 0 else "con")


def test_a_molecule_is_drawn_coloured_and_judged(desk: Visit) -> None:
    desk.open(f"/molecule?{FEW}")
    document = desk.document()
    assert document["model"] == "molecules"
    assert document["input"]["text"] == "Cc1ccccc1[N+](=O)[O-]"
    for i, answer in enumerate(document["top"]):
        expect(desk.page.locator("#classes li button").nth(i)).to_have_text(f"{answer['label']}{percent(answer['probability'])}")
    check_atoms(desk, document)
    button = desk.page.locator("#groups button")
    expect(button).to_have_text("aromatic nitro · 4 atoms")
    button.hover()
    expect(desk.plate("rollout").locator("[data-cause]")).to_have_count(4)
    scores = word_scores(document, next(one for one in document["maps"] if one["method"] == "rollout"))
    hits = len({6, 7, 8, 9} & set(np.argsort(-scores, kind="stable")[:4].tolist()))
    expect(desk.plate("rollout").locator(".found")).to_contain_text("" if hits == 4 else f"Its top 4 atoms: {hits} in ")
    expect(desk.page.locator("#causes")).to_contain_text("of 2 methods find at least half of these atoms")


def test_an_atom_is_held_in_every_plate_and_removed_by_the_deletion_test(desk: Visit) -> None:
    desk.open(f"/molecule?{FEW}")
    desk.plate("rollout").locator("[data-w='7'] .paint circle").click()
    expect(desk.page.locator(".plate [data-w='7'].locked")).to_have_count(3)
    desk.page.locator("#deletion-bar input[type=range]").fill("50")
    expect(desk.plate("rollout").locator("[data-removed=all]")).to_have_count(5)
    desk.page.locator("#drawer-layers summary").click()
    desk.page.get_by_text("the held atom").click()
    expect(desk.page.locator("#drawer-layers .arcs path")).to_have_count(8)
    expect(desk.page.locator("#drawer-layers .origin")).to_contain_text("Seen from the atom")


def test_a_like_molecule_stands_beside(desk: Visit) -> None:
    desk.open(f"/molecule?{FEW}")
    desk.page.locator("#drawer-pair summary").click()
    expect(desk.page.locator("#pair-smiles")).to_have_value("Cc1ccccc1")
    plates = desk.page.locator(".pair-two .plate")
    expect(plates).to_have_count(2)
    expect(plates.nth(1).locator("[data-w]")).to_have_count(7)
    label = desk.document()["targets"][0]["label"]
    other = desk.explained(model="molecules", text="Cc1ccccc1", target=label, methods=["random"])
    expect(desk.page.locator("#drawer-pair [role=status]").first).to_contain_text(percent(other["targets"][0]["probability"]))


def test_smiles_are_typed_a_drawing_is_chosen_and_what_is_wrong_is_said(desk: Visit, tmp_path: Path) -> None:
    desk.open(f"/molecule?{FEW}")
    before = desk.id
    desk.page.locator("#smiles").fill("CC(C)(C)(C)C")
    desk.page.get_by_role("button", name="Explain this molecule").click()
    expect(desk.page.locator(".problem").first).to_contain_text("no possible molecule, at character 2")
    expect(desk.page.locator(".problem").first).to_contain_text("atom 2 (C) has 5 bonds")
    for gone in ("#overview", "#classes", ".plate", "#drawing svg"):  # of the molecule before
        expect(desk.page.locator(gone).first).to_be_hidden()
    desk.complaints.clear()
    file = tmp_path / "aniline.mol"
    file.write_text(Chem.MolToMolBlock(Chem.MolFromSmiles("Nc1ccccc1")), "utf-8")
    desk.page.locator("#file").set_input_files(file)
    desk.next_maps(before)
    expect(desk.page.locator("#smiles")).to_have_value("Nc1ccccc1")
    expect(desk.page.locator(".plate").first).to_be_visible()
    check_atoms(desk, desk.document())


def test_plates_are_saved_as_a_figure(desk: Visit, tmp_path: Path) -> None:
    desk.open(f"/molecule?{FEW}")
    menu = desk.page.locator("#export details").first
    text = take(desk, menu, "SVG", tmp_path).read_text("utf-8")
    assert text.count('class="bond-0') >= 3
    assert text.count('class="atom"') >= 10
