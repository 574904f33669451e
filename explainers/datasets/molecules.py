"""Molecules with the results of a test: whether they make bacteria mutate (Ames), or inhibit an enzyme (BACE)."""

from __future__ import annotations

import zlib
from pathlib import Path

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.errors import ExplainerError
from explainers.models.inputs.molecules import Molecule, check_rdkit, read_molecule
from explainers.models.inputs.toxicophores import toxicophores_of

MUTAGENICITY = ("not mutagenic", "mutagenic")
BACE_CLASSES = ("no inhibitor", "inhibitor")
FOLDS = 5  # fifths in which the molecules are parted by their CAS numbers
_COLUMNS = ("cas", "smiles", "mutagenic")


def fold_of(cas: str) -> int:
    """Return the fifth, 0 to 4, that a molecule belongs to, by its CAS number: the same on every machine, and with every version of
    RDKit.
    """
    return zlib.crc32(cas.encode()) % FOLDS


def marked_spans(molecule: Molecule) -> tuple[tuple[int, int], ...]:
    """Return the characters of the atoms of a molecule's toxicophores: one span (start, end) for each atom, in their order."""
    atoms = {atom for group in toxicophores_of(molecule.mol) for atom in group.atoms}
    return tuple(molecule.spans[atom] for atom in sorted(atoms))


@dataset(
    "molecules",
    title="Ames mutagenicity",
    kind="molecule",
    gives=("class", "rationale"),
    layout="""
ames_hansen.csv or ames_hansen.csv.xz, with the columns cas, smiles and mutagenic (0 or 1)
""",
    source=Citation(
        authors="Hansen et al.",
        year=2009,
        title="Benchmark Data Set for in Silico Prediction of Ames Mutagenicity",
        venue="J. Chem. Inf. Model. 49",
    ),
    splits=("test", "train"),
)
def molecules(data: Folder) -> Dataset:
    """Molecules, mutagenic or not by the Ames test. In a mutagenic one the atoms of the toxicophores of Kazius et al. (2005) are marked as
    reasons. The test split is a fifth, drawn by CAS numbers; what RDKit cannot read, and what has more than 128 atoms, is left out. Needs
    the extra molecules.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    check_rdkit()
    path = data.path if data.path.is_file() else data.need("ames_hansen.csv", "ames_hansen.csv.xz")
    split = data.splits[0]
    rows = [row for row in _rows(data, path) if (fold_of(row[0]) == 0) == (split == "test")]

    def read(number: int) -> Sample:
        cas, smiles, mutagenic = rows[number]
        spans = marked_spans(read_molecule(smiles)) if mutagenic else ()
        return Sample(name=cas, text=smiles, labels=(MUTAGENICITY[mutagenic],), rationale=spans or None)

    return Dataset(kind="molecule", length=len(rows), classes=MUTAGENICITY, read=read, split=split)


def _rows(data: Folder, path: Path) -> list[tuple[str, str, int]]:
    """Return the CAS number, the SMILES and the result of the Ames test (1: mutagenic) of each molecule in the table at ``path``, a file of
    ``data``, that RDKit can read. Raises ExplainerError for another result than 0 or 1.
    """
    rows = []
    for row in data.table(path, _COLUMNS):
        if row["mutagenic"] not in ("0", "1"):
            raise data.error_for(path, f"mutagenic of {row['cas']} is {row['mutagenic']!r}, and must be 0 or 1")
        if _is_readable(row["smiles"]):
            rows.append((row["cas"], row["smiles"], int(row["mutagenic"])))
    return rows


def _is_readable(smiles: str) -> bool:
    try:
        read_molecule(smiles)
    except ExplainerError:
        return False
    return True


@dataset(
    "bace",
    title="BACE (MoleculeNet)",
    kind="molecule",
    gives=("class",),
    layout="""
bace.csv or bace.csv.xz, with the columns mol (SMILES) and Class (0 or 1)
""",
    source=Citation(
        authors="Wu et al.",
        year=2018,
        title="MoleculeNet: A Benchmark for Molecular Machine Learning",
        venue="Chemical Science 9",
        arxiv="1703.00564",
    ),
    get="https://moleculenet.org/datasets-1",
)
def bace(data: Folder) -> Dataset:
    """1,513 molecules that inhibit the enzyme BACE-1 or do not. What RDKit cannot read, and what has more than 128 atoms, is left out.
    Needs the extra molecules. A model must name these two classes, or have two without names.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    check_rdkit()
    path = data.path if data.path.is_file() else data.need("bace.csv", "bace.csv.xz")
    rows = []
    for number, row in enumerate(data.table(path, ("mol", "Class")), 1):
        if row["Class"] not in ("0", "1"):
            raise data.error_for(path, f"Class of row {number} is {row['Class']!r}, and must be 0 or 1")
        if _is_readable(row["mol"]):
            rows.append((str(number), row["mol"], BACE_CLASSES[int(row["Class"])]))

    def read(number: int) -> Sample:
        name, smiles, label = rows[number]
        return Sample(name=name, text=smiles, labels=(label,))

    # a model that names two other classes, such as mutagenic or not, is not one of these
    return Dataset(kind="molecule", length=len(rows), classes=BACE_CLASSES, read=read, is_ordered=False)
