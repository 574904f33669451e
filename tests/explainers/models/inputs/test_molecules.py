"""Molecules from SMILES, drawings and RDKit: atoms, their places in the SMILES, and what is wrong with what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rdkit import Chem
from torch import Tensor

from explainers import ExplainerError
from explainers.errors import NotInstalledError
from explainers.models.inputs import molecules
from explainers.models.inputs.molecules import MOLECULE_READERS, add_molecule_reader, read_molecule, reader_named, record_of

NITROBENZENE = "c1ccccc1[N+](=O)[O-]"


@pytest.mark.parametrize(
    ("smiles", "atoms"),
    [
        (NITROBENZENE, ["c", "c", "c", "c", "c", "c", "[N+]", "O", "[O-]"]),
        ("[Na+].ClC(Br)%12CC%12", ["[Na+]", "Cl", "C", "Br", "C", "C"]),
        ("[H]OC([2H])", ["O", "C", "[2H]"]),  # a hydrogen that is only written out is none of the atoms
        ("N[C@@H](C)/C=C/O a name", ["N", "[C@@H]", "C", "C", "C", "O"]),
    ],
)
def test_every_atom_knows_its_characters(smiles: str, atoms: list[str]) -> None:
    molecule = read_molecule(smiles)
    assert [molecule.smiles[start:end] for start, end in molecule.spans] == atoms
    letters = [atom.strip("[]+-").lstrip("2@").upper() for atom in atoms]
    assert [atom.GetSymbol().upper()[0] for atom in molecule.mol.GetAtoms()] == [letter[0] for letter in letters]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "there is no molecule"),
        ("CCX", "'X' is no part of SMILES, at character 3"),
        ("C[N+", "the bracket is not closed, at character 2"),
        ("C1CC", "the ring that begins at character 2 is not closed"),
        ("CC(O", "the parenthesis that begins at character 3 is not closed"),
        ("CC)O", r"this \) closes no \(, at character 3"),
        ("[Xx]C", "RDKit cannot read '\\[Xx\\]C'"),
        ("OC(C)(C)(C)C", "no possible molecule, at character 2: atom 2 .C. has 5 bonds, .*; carbon can have 4; take"),
        ("N(C)(C)(C)C", "at character 1: atom 1 .N. has 4 bonds, .*; nitrogen can have 3"),
        ("CS(C)(C)(C)(C)(C)C", "atom 2 .S. has 7 bonds, .*; sulfur can have 6"),
        ("c1ccccc1[N+](=O)(O)O", "at character 9: atom 7 .N. has 5 bonds, .*; too many for its charge"),
        ("c1cccc1", "the aromatic ring at atom 1 .C. leaves no place for its double bonds; add a missing H, as in c1cc.nH.c1"),
        ("cC", "atom 1 .C. is written small, as part of an aromatic ring, but lies in none; write it large"),
        ("C" * 129, "129 atoms, hydrogens not counted; send one of at most 128"),
        ("C" * 100_001, "100,001 characters"),
        ("nothing\nof a file\nEND", "cannot be read as a .mol or .sdf file"),
        (3.5, "not a float"),
    ],
)
def test_what_is_no_molecule_is_told_where(source: object, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        read_molecule(source)


def test_files_and_molecules_of_rdkit_are_read(tmp_path: Path) -> None:
    aniline = Chem.MolFromSmiles("Nc1ccccc1")
    block = Chem.MolToMolBlock(aniline)
    file = tmp_path / "two.sdf"
    file.write_text(f"{block}$$$$\n{block}$$$$\n", "utf-8")
    from_file = read_molecule(file)
    assert from_file.notes == ("The file holds 2 molecules; only the first is read.",)
    assert {from_file.smiles, read_molecule(block).smiles, read_molecule(aniline).smiles, read_molecule(str(file)).smiles} == {"Nc1ccccc1"}
    with pytest.raises(ExplainerError, match=r"none\.mol cannot be read as a molecule"):
        read_molecule(tmp_path / "none.mol")


def test_a_record_has_atoms_bonds_toxicophores_and_a_drawing() -> None:
    record = record_of(read_molecule(NITROBENZENE), 1, 2)
    assert [token.special for token in record.tokens] == [True, *[False] * 9, True, True]
    assert [word.tokens for word in record.words] == [(i,) for i in range(1, 10)]
    assert len(record.bonds) == 9
    assert {bond.order for bond in record.bonds} == {1.0, 1.5, 2.0}
    assert [(group.name, group.atoms) for group in record.toxicophores] == [("aromatic nitro", (5, 6, 7, 8))]
    assert record.drawing is not None
    assert len(record.drawing.places) == 9
    assert record.without_padding([True] * 10 + [False] * 2).tokens == record.tokens[:10]


def test_a_reader_is_declared_once_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecules, "MOLECULE_READERS", dict(MOLECULE_READERS))

    @add_molecule_reader("charges")
    def charges(mols: list[Chem.Mol]) -> dict[str, Tensor]:
        return {"charges": torch.tensor([[atom.GetFormalCharge() for atom in mol.GetAtoms()] for mol in mols])}

    assert reader_named("charges") is charges
    assert reader_named(charges) is charges
    with pytest.raises(ExplainerError, match="already a reader of molecules charges"):
        add_molecule_reader("charges")(charges)
    with pytest.raises(ExplainerError, match="reader='masses': choose one of graph, charges"):
        reader_named("masses")


def test_without_rdkit_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecules, "find_spec", lambda name: None)
    with pytest.raises(NotInstalledError, match=r"pip install -e '\.\[molecules\]'"):
        read_molecule("CCO")
