"""``molecules`` on the fifth of the benchmark that it never saw: is it right, and do its maps name the known causes?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import explainers
from explainers.datasets import Dataset, open_dataset
from explainers.datasets.molecules import MUTAGENICITY
from explainers.errors import ExplainerError
from explainers.models.model import Model
from recipes.calibration import calibration_error, largest_probability
from recipes.evaluation import CONTROL, Figure, Report, Setting, best_method
from recipes.evaluation.loading import load_cached
from recipes.evaluation.maps import map_rows, table_of
from recipes.train_molecules import FOLDS_FILE, figures

TOP, AUC, ECE = "accuracy", "area under the ROC curve", "expected calibration error"
BARS = {TOP: 0.8, AUC: 0.88}
EXPLAINED = 200  # mutagenic molecules with a known cause whose maps are measured
BATCH = 64


def answers(model: Model, texts: Sequence[str]) -> Tensor:
    """Return the logits (N, 2) of ``model`` for molecules, whose SMILES are ``texts``."""
    with torch.no_grad():
        return torch.cat([model.forward(model.tensors(list(texts[i : i + BATCH]))) for i in range(0, len(texts), BATCH)])


def measure(name: str, setting: Setting) -> Report:
    """Measure the model ``name`` of molecules and return a :class:`Report`: its accuracy on the test fifth and on the folds, and how well
    maps find the atoms of toxicophores. ``setting`` names the folders of the model and of the data.

    Raises ExplainerError if the benchmark's file is not named.
    """
    if setting.data is None:
        raise ExplainerError("the benchmark is not part of Vitrine: name ames_hansen.csv or .csv.xz, or its folder, with --data")
    data, model = open_dataset("molecules", setting.data, "test"), load_cached(setting.folder)
    chosen = [data[i] for i in data.choose(setting.limit)]
    logits = answers(model, [str(sample.text) for sample in chosen])
    labels = torch.tensor([MUTAGENICITY.index(str(sample.labels[0])) for sample in chosen])
    found, note = figures(logits, labels), f"{len(labels):,} molecules"
    error = calibration_error(largest_probability(logits, model.calibration), logits.argmax(1) == labels)
    rows = [
        Figure(name, TOP, found["accuracy"], BARS[TOP], note=note),
        Figure(name, AUC, found["auc"], BARS[AUC], "score", note=note),
        Figure(name, ECE, error, note=note),
        *_folds(name, setting.folder),
    ]
    table = _maps(model, data, setting)
    if table:
        first = best_method({method: row["AUPRC"] for method, row in table.items()})
        rows.append(Figure(name, "AUPRC of the best method against toxicophores", table[first]["AUPRC"], form="score", note=first))
        rows.append(Figure(name, f"AUPRC of {CONTROL}", table[CONTROL]["AUPRC"], form="score"))
    return Report(rows, {f"Maps of {name} for “mutagenic” against the atoms of toxicophores": table} if table else {})


def _folds(name: str, folder: Path) -> list[Figure]:
    """Return figures of the models that were trained on folds for the model ``name`` in ``folder``: accuracy and area under the curve on
    held-out molecules, as a mean over the folds, for each kind of fold (random or by scaffold). Empty if there are no folds.
    """
    path = folder / FOLDS_FILE
    kinds = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return [
        Figure(
            name,
            f"{what} by {kind} folds",
            sum(fold[key] for fold in folds) / len(folds),
            form=form,
            note=f"mean of {len(folds)}, as trained",
        )
        for kind, folds in kinds.items()
        if folds
        for key, what, form in (("accuracy", TOP, "share"), ("auc", AUC, "score"))
        if all(fold[key] is not None for fold in folds)
    ]


def _maps(model: Model, data: Dataset, setting: Setting) -> dict[str, dict[str, float]]:
    """Return the AUPRC of each method over the mutagenic molecules of ``data`` with a known cause, explained as mutagenic by ``model``;
    ``setting`` names methods and limits.
    """
    marked = [i for i in range(len(data)) if data[i].rationale]
    part = data.at(marked[: setting.limit_to(EXPLAINED)])
    specs = setting.specs(explainers.default_methods(model))
    return table_of(map_rows(model, part, specs, ["auprc"], target="gold"), specs, {"AUPRC": "auprc"})[0] if len(part) else {}
