"""SPEX and ProxySPEX on games whose interactions are known, and on a text, a molecule and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import explainers
from explainers.analysis.interactions import sparse
from explainers.analysis.interactions.coalitions import all_coalitions
from explainers.analysis.interactions.sparse import fit_sparse
from explainers.errors import ExplainerError
from vitrine_server.cli import main

PLAYERS = 7
TERMS = {(0,): 2.0, (3,): -1.0, (1, 2): 3.0}  # more, and ProxySPEX drops what is in the last 5 % of their energy
SCENE = Path(explainers.__file__).parent / "embedded" / "samples" / "scenes" / "zebra-elephant.png"


def known(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
    return 0.5 + sum(value * coalitions[:, list(parts)].all(1) for parts, value in TERMS.items())


def banzhaf(part: int) -> float:
    """The mean over all coalitions of the others of what a part adds."""
    without = all_coalitions(PLAYERS).numpy()
    without = without[~without[:, part]]
    added = without.copy()
    added[:, part] = True
    return float((known(added) - known(without)).mean())


@pytest.mark.slow
def test_proxyspex_finds_the_terms_of_a_sparse_game() -> None:
    pytest.importorskip("shapiq", reason="the extra spex is not installed")
    constant, terms = fit_sparse(known, PLAYERS, "proxyspex", "FSII", None, 128, 0)
    assert constant == pytest.approx(0.5, abs=1e-6)
    found = {term.parts: term.value for term in terms if abs(term.value) > 1e-6}
    assert found == {parts: pytest.approx(value, abs=1e-6) for parts, value in TERMS.items()}
    assert [term.parts for term in terms[:3]] == [(1, 2), (0,), (3,)]


@pytest.mark.slow
def test_of_the_first_order_they_are_banzhaf_values() -> None:
    pytest.importorskip("shapiq", reason="the extra spex is not installed")
    state = np.random.get_state()[1].copy()  # type: ignore[union-attr]
    terms = fit_sparse(known, PLAYERS, "proxyspex", "FBII", 1, 128, 0)[1]
    assert (np.random.get_state()[1] == state).all()
    values = {term.parts[0]: term.value for term in terms if abs(term.value) > 1e-6}
    assert values == {part: pytest.approx(banzhaf(part), abs=1e-6) for part in range(4)}


@pytest.mark.slow
@pytest.mark.timeout(900)  # its first call compiles
def test_spex_finds_them_from_coalitions_of_its_own() -> None:
    pytest.importorskip("galois", reason="the extra spex is not installed")
    seen: list[int] = []

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        seen.append(len(coalitions))
        return known(coalitions)

    constant, terms = fit_sparse(game, 8, "spex", "FBII", None, 600, 0)
    assert sum(seen) <= 600
    found = {term.parts: term.value for term in terms if abs(term.value) > 1e-6}
    assert found == {parts: pytest.approx(value, abs=1e-6) for parts, value in TERMS.items()}
    assert constant == pytest.approx(0.5, abs=1e-6)
    with pytest.raises(ExplainerError, match="too few coalitions for SPEX with 8 parts"):
        fit_sparse(game, 8, "spex", "FBII", None, 100, 0)


@pytest.mark.slow
def test_of_a_text_words_are_joined_and_the_command_says_the_same(tmp_path: Path, capsys: Any) -> None:
    """The terms and the totals add up to what they predict, and that is near the model's answers with words left out."""
    pytest.importorskip("shapiq", reason="the extra spex is not installed")
    model, text = explainers.load("reviews-bert"), "It is not good, but fine."
    result = explainers.explain(model, text, methods="random")
    outcome = explainers.sparse_interactions(model, result, budget=200)
    assert outcome.names == ("It", "is", "not", "good", ",", "but", "fine", ".")
    assert outcome.answers == 200
    assert [result.input.tokens[places[0]].text.lower() for places in outcome.tokens][:3] == ["it", "is", "not"]
    ends = torch.tensor([[False] * 8, [True] * 8])
    nothing, everything = outcome.predict(ends).tolist()
    assert nothing == outcome.constant
    assert float(outcome.totals.sum()) == pytest.approx(everything - nothing)
    assert everything == pytest.approx(outcome.constant + sum(term.value for term in outcome.terms))
    assert outcome.faithfulness is not None
    assert outcome.faithfulness > 0.8
    assert everything == pytest.approx(result.target.logit, abs=1)
    assert any({outcome.names[part] for part in term.parts} >= {"not", "good"} for term in outcome.terms)
    assert "R^2" in str(outcome)
    outcome.save(tmp_path / "terms.json")
    capsys.readouterr()
    command = ["sparse-interactions", "--text", text, "--model", "reviews-bert", "--budget", "200", "--json"]
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "terms.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given", "parts"), [("molecules", "c1ccccc1[N+](=O)[O-]", 9), ("scenes-vit", SCENE, 9)])
def test_of_a_molecule_atoms_and_of_a_picture_patches(name: str, given: Any, parts: int) -> None:
    pytest.importorskip("shapiq", reason="the extra spex is not installed")
    if name == "molecules":
        pytest.importorskip("rdkit", reason="the extra molecules is not installed")
    model = explainers.load(name)
    result = explainers.explain(model, given, methods="random")
    outcome = explainers.sparse_interactions(model, result, budget=128, parts=parts)
    assert outcome.faithfulness is not None
    assert outcome.faithfulness > 0
    sizes = sorted(place for part in outcome.tokens for place in part)
    assert sizes == sorted({*sizes})
    if name == "molecules":
        assert outcome.names == ("C", "C#2", "C#3", "C#4", "C#5", "C#6", "N", "O", "O#2")
    else:
        assert len(sizes) == 196
        assert outcome.names[0].startswith("row 1-")


def test_without_the_packages_it_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "find_spec", lambda name: None)
    with pytest.raises(ExplainerError, match=r"needs the package shapiq and lightgbm, which is not installed.*\[spex\]"):
        explainers.sparse_interactions(None, None)  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match="shapiq and sparse_transform and galois"):
        explainers.sparse_interactions(None, None, method="spex")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "match"),
    [({"method": "lime"}, "choose one of"), ({"index": "SV"}, "choose one of"), ({"budget": 10}, "from 100"), ({"parts": 3}, "at least 7")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ExplainerError, match=match):
        explainers.sparse_interactions(None, None, **settings)  # type: ignore[arg-type]


def test_the_prediction_is_the_sum_over_subsets() -> None:
    terms = tuple(sparse.SparseTerm(parts, value) for parts, value in TERMS.items())
    named = {"names": tuple("abcdefg"), "tokens": tuple((place,) for place in range(PLAYERS)), "answers": 0, "faithfulness": None}
    made = sparse.SparseInteractions("spex", "FBII", "x", "removed", constant=0.5, terms=terms, **named)  # type: ignore[arg-type]
    keep = all_coalitions(PLAYERS)
    np.testing.assert_allclose(made.predict(keep).numpy(), known(keep.numpy()))
    assert made.totals.tolist() == [2.0, 1.5, 1.5, -1.0, 0.0, 0.0, 0.0]
