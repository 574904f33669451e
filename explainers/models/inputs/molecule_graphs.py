"""A molecule as tensors: features of its atoms, its bonds, and how far atoms are apart along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

ELEMENTS = ("C", "N", "O", "S", "F", "Cl", "Br", "I", "P", "B", "Si", "Na")
#: The number of values of each feature of an atom; the first value is 0.
ATOM_FEATURES = {
    "element": len(ELEMENTS) + 1,  # 0: another one
    "neighbours": 6,  # 5: more than four
    "charge": 5,  # -2 to 2 and beyond
    "hydrogens": 5,  # 4: more than three
    "aromatic": 2,
    "smallest ring": 6,  # 0: in none, 1 to 4: of three to six atoms, 5: larger
    "hybridisation": 4,  # 0: another one, 1 to 3: sp, sp2, sp3
}
#: 0: none; then single, double, triple, aromatic and another one, each outside a ring and in one
BONDS = 11
FURTHEST = 8  # bonds between two atoms; what is further counts as this far
DISTANCES = FURTHEST + 2  # the last: not joined at all, as the two parts of a salt
_ORDERS = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}


def atom_features(atom: Any) -> list[int]:
    """Return the value of each of `ATOM_FEATURES` of ``atom``, an RDKit atom."""
    symbol = atom.GetSymbol()
    rings = [size for size in (3, 4, 5, 6) if atom.IsInRingSize(size)]
    ring = rings[0] - 2 if rings else 5 if atom.IsInRing() else 0
    hybridisation = {"SP": 1, "SP2": 2, "SP3": 3}.get(str(atom.GetHybridization()), 0)
    return [
        ELEMENTS.index(symbol) + 1 if symbol in ELEMENTS else 0,
        min(atom.GetDegree(), 5),
        max(-2, min(2, atom.GetFormalCharge())) + 2,
        min(atom.GetTotalNumHs(), 4),
        int(atom.GetIsAromatic()),
        ring,
        hybridisation,
    ]


def graph_of(molecule: Any) -> dict[str, Tensor]:
    """Return the tensors of ``molecule``, an RDKit molecule: ``atoms`` (N, features), ``bonds`` and ``distances`` (N, N)."""
    from rdkit import Chem

    atoms = torch.tensor([atom_features(atom) for atom in molecule.GetAtoms()])
    apart = torch.from_numpy(Chem.GetDistanceMatrix(molecule))
    distances = torch.where(apart > molecule.GetNumAtoms(), FURTHEST + 1, apart.clamp(max=FURTHEST)).long()
    bonds = torch.zeros_like(distances)
    for bond in molecule.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        bonds[i, j] = bonds[j, i] = 1 + 2 * _ORDERS.get(bond.GetBondTypeAsDouble(), 4) + bond.IsInRing()
    return {"atoms": atoms, "bonds": bonds, "distances": distances}


def graphs_of(molecules: Sequence[Any]) -> dict[str, Tensor]:
    """Return ``molecules``, of RDKit, as a batch of tensors, as `pad_graphs` lays them out."""
    return pad_graphs([graph_of(molecule) for molecule in molecules])


def pad_graphs(graphs: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack ``graphs``, each the tensors of one molecule by name, to a batch and return its tensors: pad them to N atoms, the largest
    number, and add ``attention_mask`` (B, 1 + N): 1 for the token of the graph, which comes first, and for each atom.
    """
    most = max(len(graph["atoms"]) for graph in graphs)
    batch = {
        name: torch.zeros(len(graphs), *((most, first.shape[1]) if name == "atoms" else (most, most)), dtype=torch.long)
        for name, first in graphs[0].items()
    }
    mask = torch.zeros(len(graphs), 1 + most, dtype=torch.long)
    for row, graph in enumerate(graphs):
        count = len(graph["atoms"])
        mask[row, : 1 + count] = 1
        for name, tensor in graph.items():
            batch[name][row, :count, : tensor.shape[1]] = tensor
    return {**batch, "attention_mask": mask}
