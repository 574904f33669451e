"""Fingerprints of the molecules that a model was trained on, and the Tanimoto similarity of another molecule to them.

They are Morgan fingerprints of radius 2 in 1,024 bits, made by RDKit. The file next to the weights is ``fingerprints.safetensors``, with
eight bits in a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from explainers.errors import ExplainerError

#: The name of the file next to the weights.
FINGERPRINTS_FILE = "fingerprints.safetensors"
RADIUS, BITS = 2, 1024


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)


def fingerprints_of(molecules: Sequence[Any]) -> Tensor:
    """Return the fingerprints of ``molecules`` of RDKit, uint8 (N, BITS / 8)."""
    return torch.from_numpy(np.stack([np.packbits(_generator().GetFingerprintAsNumPy(mol)) for mol in molecules]))


def nearest_similarity(fingerprint: Tensor, known: Tensor) -> float:
    """Return the largest Tanimoto similarity of a fingerprint (BITS / 8,) to ``known`` ones (N, BITS / 8): the number of common bits over
    the number of bits in either.
    """
    bits, others = fingerprint.numpy(), known.numpy()
    shared, either = _count(bits & others), _count(bits | others)
    return float((shared / np.maximum(either, 1)).max())


def _count(packed: NDArray[np.uint8]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bitwise_count(packed).sum(-1, dtype=np.int64)
    return counts


def read_fingerprints(path: Path) -> Tensor:
    """Return the molecules' fingerprints in the file ``path``, a ``fingerprints.safetensors``: uint8 (molecules, BITS / 8). Raises
    ExplainerError for another file.
    """
    try:
        tensor = load_file(path)["fingerprints"]
    except (SafetensorError, OSError, KeyError) as problem:
        raise ExplainerError(f"{path} is not a safetensors file with fingerprints: {problem}") from None
    if tensor.dtype != torch.uint8 or tensor.dim() != 2 or tensor.shape[1] != BITS // 8:
        raise ExplainerError(f"{path}: fingerprints must be uint8 (molecules, {BITS // 8}), not {tensor.dtype} {tuple(tensor.shape)}")
    return tensor
