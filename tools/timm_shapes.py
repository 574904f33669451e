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
    """Return the fingerprint of the timm architecture ``name``, built without weights."""
    with torch.device("meta"):
        weights = timm.create_model(name).state_dict()
    return digest_of_shapes({key: tuple(tensor.shape) for key, tensor in weights.items()})


def row_of(name: str) -> list[str | int | bool | None]:
    """Return the row of the timm architecture ``name``: its fingerprint, the side of its pictures, whether the hub has weights for it."""
    config = timm.get_pretrained_cfg(name)
    return [fingerprint_of(name), None if config is None else config.input_size[-1], bool(config and config.hf_hub_id)]


def main() -> None:
    """Build every architecture of timm once and write its shapes to the table `PLACE`; architectures that cannot be built without weights
    are left out and printed.
    """
    rows = {}
    for name in timm.list_models():
        try:
            rows[name] = row_of(name)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as problem:
            print(f"left out {name}: {str(problem).splitlines()[0][:100]}")
    PLACE.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items())) + "\n}\n", "utf-8")
    print(f"{len(rows)} architectures")


if __name__ == "__main__":
    main()
