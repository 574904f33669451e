"""The recipe of the model of molecules, on a dozen molecules and for two epochs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.datasets.molecules import FOLDS, fold_of
from recipes import train_molecules
from recipes.train_molecules import FOLDS_FILE, fold_file

SMILES = ("Cc1ccccc1[N+](=O)[O-]", "CCO", "Nc1ccccc1", "CC(=O)O", "C1OC1C", "CCCC")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Six molecules in each fifth."""
    numbers: dict[int, list[str]] = {fold: [] for fold in range(FOLDS)}
    for number in range(1000):
        cas = f"{number}-00-0"
        if len(numbers[fold_of(cas)]) < len(SMILES):
            numbers[fold_of(cas)].append(cas)
    rows = [f"{cas},{smiles},{i % 2}" for group in numbers.values() for i, (cas, smiles) in enumerate(zip(group, SMILES, strict=True))]
    file = tmp_path / "ames_hansen.csv"
    file.write_text("\n".join(["cas,smiles,mutagenic", *rows]), "utf-8")
    return file


def arguments(data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_molecules.add_arguments(parser)
    return parser.parse_args(["--data", str(data), "--out", str(out), "--epochs", "2", *more])


def test_a_folder_is_written_that_loads_and_answers_as_its_first_fold(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    train_molecules.train(arguments(data, out, "--folds", "2", "--scaffolds", "1"))
    model = explainers.load(out)
    assert tuple(model.labels) == ("not mutagenic", "mutagenic")
    assert model.fingerprints is not None
    assert len(model.fingerprints) == (FOLDS - 1) * len(SMILES)
    assert [line.kind for line in model.calibration.thresholds] == ["unlike_training"]
    table = json.loads((out / FOLDS_FILE).read_text("utf-8"))
    assert {kind: len(rows) for kind, rows in table.items()} == {"random": 2, "scaffold": 1}
    assert all(row["molecules"] == len(SMILES) for row in table["random"])
    first = train_molecules.load_file(fold_file(out, "random", 0))
    answers = torch.cat([model.forward(model.tensors(smiles)) for smiles in SMILES])
    assert torch.allclose(answers, first["logits"], atol=0.02)  # weights are kept in half precision


def test_a_fold_that_is_there_is_not_trained_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = arguments(data, tmp_path / "out", "--resume")
    examples = train_molecules.read_examples(data)
    before = train_molecules.run_fold(examples, "random", 1, args)
    monkeypatch.setattr(train_molecules, "train_model", lambda *_, **__: pytest.fail("it was trained again"))
    again = train_molecules.run_fold(examples, "random", 1, args)
    assert torch.equal(before["logits"], again["logits"])
    batches = train_molecules.batches(examples, 0, 0)
    firsts = [next(batches) for _ in range(3)]
    assert torch.equal(next(train_molecules.batches(examples, 0, 2))[1], firsts[2][1])  # a training that goes on sees what it would have


def test_one_fold_leaves_nothing_to_calibrate_on(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="--folds must be 2 to 5"):
        train_molecules.train(arguments(data, tmp_path / "out", "--folds", "1"))
