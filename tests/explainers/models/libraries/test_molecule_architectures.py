"""A folder of a model of molecules is loaded as it was saved, and refused where its parts do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import explainers
from explainers import ExplainerError
from explainers.embedded.graph_transformer import NAME
from explainers.models.companion_files.fingerprints import FINGERPRINTS_FILE, fingerprints_of
from explainers.models.inputs.molecules import read_molecule
from explainers.models.libraries import molecule_architectures
from explainers.models.libraries.molecule_architectures import MOLECULE_ARCHITECTURES, add_molecule_architecture
from tests.support.molecule_models import ARGS, ETHANOL, LABELS, NITROBENZENE, tiny_model, tiny_module


def saved(folder: Path, **changes: object) -> Path:
    config = {"architecture": NAME, "kind": "molecule", "reader": "graph", "model_args": ARGS, "label_names": LABELS, **changes}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    save_file(tiny_module().state_dict(), folder / "model.safetensors")
    return folder


def test_a_folder_answers_as_the_module_that_was_saved(tmp_path: Path) -> None:
    model = explainers.load(saved(tmp_path))
    assert (model.kind, tuple(model.labels)) == ("molecule", LABELS)
    assert torch.equal(model.forward(model.tensors(NITROBENZENE)), tiny_model().forward(tiny_model().tensors(NITROBENZENE)))


def test_a_model_says_of_a_molecule_unlike_its_training_that_it_does_not_know(tmp_path: Path) -> None:
    save_file({"fingerprints": fingerprints_of([read_molecule(NITROBENZENE).mol])}, saved(tmp_path) / FINGERPRINTS_FILE)
    row = {"score": "fingerprint_similarity", "line": 0.5, "below": True, "measured": "Made up."}
    (tmp_path / "calibration.json").write_text(json.dumps({"temperature": 2.0, "lines": {"unlike_training": row}}), "utf-8")
    known, unknown = explainers.explain(explainers.load(tmp_path), [NITROBENZENE, ETHANOL], methods=["random"])
    assert known.abstention is None
    assert unknown.abstention is not None
    assert unknown.abstention.kind == "unlike_training"
    assert unknown.abstention.detail == (
        f"The model was trained on no molecule like this one (the likeness to the nearest molecule of the training is "
        f"{unknown.abstention.score:.2f}, below the threshold of 0.50)."
    )


def test_what_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExplainerError, match="names the architecture 'other' of molecules; there are vitrine_graph_transformer"):
        explainers.load(saved(tmp_path, architecture="other"))
    with pytest.raises(ExplainerError, match="holds no vitrine_graph_transformer"):
        explainers.load(saved(tmp_path, model_args={**ARGS, "depth": 3}))
    monkeypatch.setattr(molecule_architectures, "MOLECULE_ARCHITECTURES", dict(MOLECULE_ARCHITECTURES))
    with pytest.raises(ExplainerError, match="already an architecture of models of molecules"):
        add_molecule_architecture(NAME)(tiny_module)
