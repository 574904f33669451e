"""Groups of atoms that are known to make molecules mutagenic: the marked reasons that maps of molecules are held against."""

from __future__ import annotations

from functools import cache
from typing import Any

from explainers.models.inputs.types import Toxicophore

#: The name of each group, and its pattern as SMARTS. J. Kazius, R. McGuire, R. Bursi, "Derivation and Validation of Toxicophores for
#: Mutagenicity Prediction", J. Med. Chem. 48, 2005, table 1, without the exceptions that it lists for some of them.
TOXICOPHORES = {
    "aromatic nitro": "[$(c[N+](=O)[O-]),$(cN(=O)=O)]~N(~O)~O",
    "aromatic amine": "[NX3;H2,H1;!$(NC=O)]c",
    "nitroso": "[N;X2]=O",
    "azo": "[#7;X2]=[#7;X2]",
    "three-membered ring with oxygen or nitrogen": "C1[O,N]C1",
    "polycyclic aromatic": "c12ccccc1ccc1ccccc12",
    "hydrazine": "[NX3][NX3]",
    "alkyl halide": "[CX4][Cl,Br,I]",
}


@cache
def _patterns() -> list[tuple[str, Any]]:
    from rdkit import Chem

    return [(name, Chem.MolFromSmarts(smarts)) for name, smarts in TOXICOPHORES.items()]


def toxicophores_of(mol: Any) -> tuple[Toxicophore, ...]:
    """Return the toxic groups of ``mol``, an RDKit molecule, each with its name and atoms, in the order of `TOXICOPHORES`, each place of a
    group once.
    """
    return tuple(Toxicophore(name, tuple(match)) for name, pattern in _patterns() for match in mol.GetSubstructMatches(pattern))
