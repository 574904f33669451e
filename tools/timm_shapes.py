"""What timm's architectures are told apart by: ``python -m tools.timm_shapes`` writes the table that ``explainers.open`` guesses from."""

from __future__ import annotations

import json
from pathlib import Path

import torch

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm)

# isort: split
import timm

from explainers.models.opening.guesses import TABLE, digest_of_shapes

PLACE = Path(__file__).resolve().parent.parent / "explainers" / "models" / "opening" / TABLE


def fingerprint_of(name: str) -> str:
    """The fingerprint of one architecture, built without numbers."""
    with torch.device("meta"):
        weights = timm.create_model(name).state_dict()
    return digest_of_shapes({key: tuple(tensor.shape) for key, tensor in weights.items()})


def main() -> None:
    """Build every architecture once; those that cannot be built without numbers are left out."""
    rows = {}
    for name in timm.list_models():
        try:
            rows[name] = fingerprint_of(name)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as problem:
            print(f"left out {name}: {str(problem).splitlines()[0][:100]}")
    PLACE.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n", "utf-8")
    print(f"{len(rows)} architectures")


if __name__ == "__main__":
    main()
