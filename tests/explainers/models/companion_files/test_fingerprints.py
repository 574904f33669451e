"""How near a molecule is to others: against RDKit's own Tanimoto similarity."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from safetensors.torch import save_file

from explainers import ExplainerError
from explainers.models.companion_files.fingerprints import BITS, RADIUS, fingerprints_of, nearest_similarity, read_fingerprints

MOLECULES = [Chem.MolFromSmiles(smiles) for smiles in ("c1ccccc1[N+](=O)[O-]", "Nc1ccccc1", "CCO")]


def test_the_nearest_is_as_near_as_rdkit_says() -> None:
    nitrotoluene = Chem.MolFromSmiles("Cc1ccccc1[N+](=O)[O-]")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    one = generator.GetFingerprint(nitrotoluene)
    expected = max(DataStructs.TanimotoSimilarity(one, generator.GetFingerprint(mol)) for mol in MOLECULES)
    known = fingerprints_of(MOLECULES)
    assert nearest_similarity(fingerprints_of([nitrotoluene])[0], known) == pytest.approx(expected)
    assert nearest_similarity(known[2], known) == 1


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fingerprints.safetensors"
    save_file({"fingerprints": fingerprints_of(MOLECULES)}, path)
    assert read_fingerprints(path).shape == (3, BITS // 8)
    save_file({"fingerprints": torch.zeros(3, 5)}, path)
    with pytest.raises(ExplainerError, match=rf"must be uint8 \(molecules, {BITS // 8}\)"):
        read_fingerprints(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ExplainerError, match="is not a safetensors file with fingerprints"):
        read_fingerprints(path)
