"""Each pattern finds its group in a molecule that is known for it, and none in one that is not."""

from __future__ import annotations

import pytest
from rdkit import Chem

from explainers.models.inputs.toxicophores import TOXICOPHORES, toxicophores_of

EXAMPLES = {
    "aromatic nitro": "c1ccccc1[N+](=O)[O-]",
    "aromatic amine": "Nc1ccc(cc1)-c1ccccc1",
    "nitroso": "CN(C)N=O",
    "azo": "c1ccccc1N=Nc1ccccc1",
    "three-membered ring with oxygen or nitrogen": "CC1CO1",
    "polycyclic aromatic": "c1ccc2c(c1)ccc1ccccc12",
    "hydrazine": "CNN",
    "alkyl halide": "CCBr",
}


@pytest.mark.parametrize("name", TOXICOPHORES)
def test_a_group_is_found(name: str) -> None:
    assert name in {group.name for group in toxicophores_of(Chem.MolFromSmiles(EXAMPLES[name]))}


@pytest.mark.parametrize("smiles", ["CCO", "CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccccc1C(=O)O", "Clc1ccccc1", "C[N+](=O)[O-]"])
def test_what_has_none_has_none(smiles: str) -> None:
    assert toxicophores_of(Chem.MolFromSmiles(smiles)) == ()
