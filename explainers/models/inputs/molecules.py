"""Molecules: from SMILES, or a file as chemists draw it, to atoms with their places in the SMILES. RDKit reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError, NotInstalledError
from explainers.installation import not_installed
from explainers.models.inputs.molecule_drawing import draw_molecule
from explainers.models.inputs.molecule_graphs import graphs_of
from explainers.models.inputs.toxicophores import toxicophores_of
from explainers.models.inputs.types import Bond, MoleculeInput, Prepared, Token, Word

#: A function from molecules of RDKit to tensors (B, ...), padded to the largest number of atoms; ``attention_mask`` (B, tokens) where there
#: is padding.
MoleculeReader = Callable[[Sequence[Any]], Mapping[str, Tensor]]
MOST_ATOMS = 128  # hydrogens that no letter of the SMILES stands for are not counted
MOST_HYDROGENS = 4 * MOST_ATOMS  # that are written out
MOST_CHARACTERS = 100_000  # of SMILES, or of a file
#: The number of bonds in RDKit's message on an impossible atom.
_BONDS = re.compile(r"# \d+ \w+, (\d+),")
FILE_ENDINGS = (".mol", ".sdf", ".smi")
_ATOM = r"\[[^\[\]\s]*\]|Cl|Br|[BCNOPSFIbcnops*]"
_HYDROGEN = re.compile(r"\[\d*H[^A-Za-z]*\]")
_PART = re.compile(rf"(?P<atom>{_ATOM})|(?P<ring>%\d\d|\d)|(?P<other>[-=#$:/\\.()~])")
#: The readers by their names.
MOLECULE_READERS: dict[str, MoleculeReader] = {"graph": graphs_of}


def add_molecule_reader(name: str) -> Callable[[MoleculeReader], MoleculeReader]:
    """Declare a function that converts molecules to the tensors of a model; ``explainers.wrap(module, kind="molecule", reader=name)`` uses
    it.

    The decorated function takes molecules of RDKit without explicit hydrogens, and returns a dict of tensors, which are passed to the
    model's forward by name. Raises ExplainerError for a name that is taken.
    """

    def declare(reader: MoleculeReader) -> MoleculeReader:
        if name in MOLECULE_READERS:
            raise ExplainerError(f"There is already a reader of molecules {name}.")
        MOLECULE_READERS[name] = reader
        return reader

    return declare


def reader_named(name: str | MoleculeReader | None) -> MoleculeReader:
    """Return the reader of molecules called ``name``; for None Vitrine's own reader, and a function is returned as it is. Raises
    ExplainerError for an unknown name.
    """
    if callable(name):
        return name
    if (name or "graph") not in MOLECULE_READERS:
        raise ExplainerError(f"reader={name!r}: choose one of {', '.join(MOLECULE_READERS)}, or pass a function.")
    return MOLECULE_READERS[name or "graph"]


def can_read_molecules() -> bool:
    """Return whether RDKit is installed."""
    return find_spec("rdkit") is not None


def check_rdkit() -> None:
    """Raise NotInstalledError, which says what to install, if RDKit is missing."""
    if not can_read_molecules():
        raise NotInstalledError(not_installed("Molecules are read by RDKit", "molecules"))


@dataclass(frozen=True)
class Molecule:
    """A molecule as it was read: its SMILES, RDKit's molecule of it (``mol``), for each atom the start and end of its characters in the
    SMILES (``spans``), and notes for people.
    """

    smiles: str
    mol: Any
    spans: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()


def read_molecule(source: object) -> Molecule:
    """Return the molecule ``source``: its SMILES, the text of a .mol or .sdf file, the path of one, or RDKit's own object.

    Raises ExplainerError, saying what is wrong and where in the SMILES, if it is no molecule or has more than `MOST_ATOMS` atoms.
    """
    check_rdkit()
    if isinstance(source, Path) or (isinstance(source, str) and source.endswith(FILE_ENDINGS)):
        return read_molecule(_text_of(Path(source)))
    if not isinstance(source, str):
        return _from_rdkit(source)
    if len(source) > MOST_CHARACTERS:
        raise ExplainerError(f"this has {len(source):,} characters; send a molecule of at most {MOST_ATOMS} atoms")
    if "\n" in source.strip() and "END" in source:
        return _from_block(source)
    words = source.split()
    if not words:
        raise ExplainerError("there is no molecule; send its SMILES, such as c1ccccc1[N+](=O)[O-]")
    return _from_smiles(words[0])  # after it a line of a .smi file has a name


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ExplainerError(f"{path} cannot be read as a molecule: {problem}; send a .mol or .sdf file, or SMILES") from None


def _from_rdkit(source: object) -> Molecule:
    from rdkit import Chem

    if not isinstance(source, Chem.Mol):
        raise ExplainerError(f"a molecule is SMILES, a .mol or .sdf file or RDKit's own, not a {type(source).__name__}")
    return _from_smiles(Chem.MolToSmiles(Chem.RemoveHs(source)))


def _from_block(text: str) -> Molecule:
    """Read ``text``, the contents of a .mol file or of an .sdf file, and return its molecule, of an .sdf file the first. Raises
    ExplainerError if it cannot be read.
    """
    from rdkit import Chem, rdBase

    blocks = [block for block in text.replace("\r\n", "\n").split("$$$$\n") if block.strip()]
    with rdBase.BlockLogs():
        mol = Chem.MolFromMolBlock(blocks[0], sanitize=False)
    if mol is None or not mol.GetNumAtoms():
        raise ExplainerError("the drawing cannot be read as a .mol or .sdf file (V2000 or V3000): save it again as one, or send SMILES")
    heavy = mol.GetNumHeavyAtoms()
    _check_atoms(heavy, mol.GetNumAtoms() - heavy)
    _sanitise(mol, "the drawing", None)
    molecule = _from_smiles(Chem.MolToSmiles(Chem.RemoveHs(mol)))
    if len(blocks) == 1:
        return molecule
    note = f"The file holds {len(blocks)} molecules; only the first is read."
    return Molecule(molecule.smiles, molecule.mol, molecule.spans, (note,))


def _from_smiles(smiles: str) -> Molecule:
    from rdkit import Chem, rdBase

    spans = _atoms_of(smiles)
    hydrogens = sum(_HYDROGEN.fullmatch(smiles, *span) is not None for span in spans)
    _check_atoms(len(spans) - hydrogens, hydrogens)
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None or mol.GetNumAtoms() != len(spans):
        raise ExplainerError(f"RDKit cannot read {_shown(smiles)} as SMILES: check its brackets, bonds and rings")
    for index, atom in enumerate(mol.GetAtoms()):
        atom.SetIntProp("place", index)
    _sanitise(mol, _shown(smiles), spans)
    with rdBase.BlockLogs():
        mol = Chem.RemoveHs(mol)
    _check_atoms(mol.GetNumAtoms())
    return Molecule(smiles, mol, tuple(spans[atom.GetIntProp("place")] for atom in mol.GetAtoms()))


def _check_atoms(atoms: int, hydrogens: int = 0) -> None:
    """Raise ExplainerError for more than ``MOST_ATOMS`` atoms or ``MOST_HYDROGENS`` hydrogens written out. It is called before RDKit looks
    for rings, as the time for that grows at least with the square of their number.
    """
    if atoms > MOST_ATOMS:
        raise ExplainerError(f"the molecule has {atoms} atoms, hydrogens not counted; send one of at most {MOST_ATOMS}")
    if hydrogens > MOST_HYDROGENS:
        raise ExplainerError(f"the molecule has {hydrogens} hydrogens written out; send it without them")


def _sanitise(mol: Any, what: str, spans: Sequence[tuple[int, int]] | None) -> None:
    """Have RDKit determine valences, rings and aromaticity of the molecule ``mol``, in place. Raises ExplainerError that names the
    impossible atom and its position, from the characters ``spans`` of each atom; ``what`` names the molecule in its message.
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        problems = Chem.DetectChemistryProblems(mol)
        if problems:
            problem = problems[0]
            atoms = problem.GetAtomIndices() if hasattr(problem, "GetAtomIndices") else (problem.GetAtomIdx(),)
            place = "" if spans is None else f", at character {spans[atoms[0]][0] + 1}"
            raise ExplainerError(f"{what} is no possible molecule{place}: {_explain_problem(mol, problem, atoms)}")
        Chem.SanitizeMol(mol)


def _explain_problem(mol: Any, problem: Any, atoms: Sequence[int]) -> str:
    """Return a sentence on ``problem``, what RDKit finds impossible in the molecule ``mol``, and on what to change. ``atoms`` are the
    indices of the atoms concerned.
    """
    from rdkit import Chem

    atom = mol.GetAtomWithIdx(atoms[0])
    named = f"atom {atoms[0] + 1} ({atom.GetSymbol()})"
    kind = problem.GetType()
    if kind == "AtomValenceException" and (bonds := _BONDS.search(problem.Message())):
        table = Chem.GetPeriodicTable()
        most = max(table.GetValenceList(atom.GetAtomicNum()))
        charged = atom.GetFormalCharge() != 0 or most < 0
        limit = "too many for its charge" if charged else f"{table.GetElementName(atom.GetAtomicNum()).lower()} can have {most}"
        return f"{named} has {bonds[1]} bonds, a double one counted twice; {limit}; take a bond away"
    if kind == "AtomKekulizeException":
        return f"{named} is written small, as part of an aromatic ring, but lies in none; write it large"
    if kind == "KekulizeException":
        return f"the aromatic ring at {named} leaves no place for its double bonds; add a missing H, as in c1cc[nH]c1, or write = bonds"
    says = problem.Message().split("\n")[0].rstrip(".")
    return f"{says[0].lower()}{says[1:]}; change that atom or its bonds"


def _atoms_of(smiles: str) -> list[tuple[int, int]]:
    """Return the characters of each atom in the SMILES. Raises ExplainerError for a character that SMILES does not have, an open bracket,
    and a ring that is not closed.
    """
    spans, open_rings, open_branches, at = list[tuple[int, int]](), dict[str, int](), list[int](), 0
    while at < len(smiles):
        part = _PART.match(smiles, at)
        if part is None:
            wrong = "the bracket is not closed" if smiles[at] == "[" else f"{smiles[at]!r} is no part of SMILES"
            raise ExplainerError(f"{_shown(smiles)}: {wrong}, at character {at + 1}; send SMILES, such as c1ccccc1[N+](=O)[O-]")
        if part["atom"]:
            spans.append(part.span())
        elif part["ring"]:
            ring = part["ring"].lstrip("%").lstrip("0")
            if open_rings.pop(ring, None) is None:
                open_rings[ring] = at
        elif part[0] == "(":
            open_branches.append(at)
        elif part[0] == ")":
            if not open_branches:
                raise ExplainerError(f"{_shown(smiles)}: this ) closes no (, at character {at + 1}; leave it out")
            open_branches.pop()
        at = part.end()
    for name, places in (("ring", list(open_rings.values())), ("parenthesis", open_branches)):
        if places:
            raise ExplainerError(f"{_shown(smiles)}: the {name} that begins at character {places[0] + 1} is not closed")
    return spans


def _shown(smiles: str) -> str:
    return repr(smiles if len(smiles) <= 60 else f"{smiles[:57]}...")


def record_of(molecule: Molecule, before: int, after: int) -> MoleculeInput:
    """Return the record of a molecule for a model that puts ``before`` special tokens before its atoms, and ``after`` padding ones after
    them.
    """
    atoms = tuple(
        Token(atom.GetSymbol(), start, end, False) for atom, (start, end) in zip(molecule.mol.GetAtoms(), molecule.spans, strict=True)
    )
    special = Token("", 0, 0, True)
    words = tuple(Word(atom.text, atom.start, atom.end, (before + i,)) for i, atom in enumerate(atoms))
    bonds = tuple(Bond((b.GetBeginAtomIdx(), b.GetEndAtomIdx()), b.GetBondTypeAsDouble()) for b in molecule.mol.GetBonds())
    tokens = (*(special,) * before, *atoms, *(special,) * after)
    return MoleculeInput(
        molecule.smiles, tokens, words, bonds=bonds, toxicophores=toxicophores_of(molecule.mol), drawing=draw_molecule(molecule.mol)
    )


def prepare_molecules(reader: MoleculeReader, special: int, sources: Sequence[Any]) -> Prepared:
    """Read ``sources`` (SMILES, files or RDKit molecules) and return them as a batch of tensors made by ``reader``, with a record of each;
    ``special`` tokens stand before the atoms.

    Raises ExplainerError for an input that is no molecule, and if molecules of different sizes come without an ``attention_mask``.
    """
    molecules = [read_molecule(source) for source in sources]
    tensors = dict(reader([molecule.mol for molecule in molecules]))
    sizes = [molecule.mol.GetNumAtoms() for molecule in molecules]
    if "attention_mask" not in tensors and len(set(sizes)) > 1:
        raise ExplainerError(
            "the model takes no attention_mask, so it would read padding: explain molecules of different sizes one at a time"
        )
    records = tuple(record_of(molecule, special, max(sizes) - size) for molecule, size in zip(molecules, sizes, strict=True))
    return Prepared(tensors, records, tuple(molecule.notes for molecule in molecules))


def records_of_tensors(tensors: Mapping[str, Tensor], special: int) -> tuple[MoleculeInput, ...]:
    """Return records of molecules that were passed as ``tensors``, with numbers as the names of atoms; ``special`` tokens stand before the
    atoms. Without a mask the first tensor must have a row for each atom.
    """
    first = next(iter(tensors.values()))
    mask = tensors.get("attention_mask", torch.ones(len(first), special + first.shape[1]))
    return tuple(_numbered_record(row.bool().tolist(), special) for row in mask.cpu())


def _numbered_record(mask: Sequence[bool], special: int) -> MoleculeInput:
    tokens = [Token("" if i < special or not read else str(i - special + 1), 0, 0, i < special or not read) for i, read in enumerate(mask)]
    return MoleculeInput(None, tuple(tokens), ())
