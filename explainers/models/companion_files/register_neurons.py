"""Register neurons: the neurons that make the outlier tokens of a model, stored as ``register_neurons.json`` with the weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from explainers.errors import ExplainerError
from explainers.json_files import read_json
from explainers.json_records import Record, describe

#: The name of the file next to the weights.
REGISTER_NEURONS_FILE = "register_neurons.json"


@dataclass(frozen=True)
class RegisterNeurons(Record):
    """Neurons of MLPs (block and neuron) whose activations are large at outlier tokens, the digest of the model's weights, and from how
    many pictures and by which norm they were found. :func:`explainers.find_register_neurons` finds them.
    """

    weights_digest: Annotated[str, describe("SHA-256 of the model's weights.")]
    pictures: Annotated[str, describe("The pictures over which they were looked for, in words.")]
    seen: Annotated[int, describe("How many pictures these are.")]
    counted: Annotated[int, describe("How many of these have an outlier token.")]
    block: Annotated[int, describe("Counted from 0: the norms of its outputs tell outlier tokens.")]
    threshold: Annotated[float | None, describe("The norm above which a token is an outlier; null where no norm is far above the others.")]
    neurons: Annotated[
        tuple[tuple[int, int], ...],
        describe("Block and neuron, counted from 0, the strongest first; empty where none is to move."),
    ]

    @property
    def in_words(self) -> str:
        """A sentence on what was found."""
        if self.threshold is None:
            return f"No token's norm stands apart after block {self.block + 1}, over {self.pictures}: there is nothing to move."
        if not self.neurons:
            return f"No token's norm after block {self.block + 1} is above {self.threshold:.3g}, over {self.pictures}: nothing to move."
        blocks = sorted({block + 1 for block, _ in self.neurons})
        return (
            f"{self.counted} of {self.seen} pictures ({self.pictures}) have tokens whose norm after block {self.block + 1} is above "
            f"{self.threshold:.3g}. {len(self.neurons)} register neurons in block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}."
        )

    def __str__(self) -> str:
        return self.in_words

    def save(self, path: Path | str) -> None:
        """Write the register neurons to the file ``path``. Called ``register_neurons.json`` and next to the weights of a model, it is found
        by :func:`explainers.load`.
        """
        Path(path).write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")


def read_register_neurons(path: Path) -> RegisterNeurons:
    """Return the register neurons in the file ``path``, a ``register_neurons.json``. Raises ExplainerError, naming the part, for a file of
    another form.
    """
    try:
        data = read_json(path)
        return RegisterNeurons(
            weights_digest=str(data["weights_digest"]),
            pictures=str(data["pictures"]),
            seen=int(data["seen"]),
            counted=int(data["counted"]),
            block=int(data["block"]),
            threshold=None if data["threshold"] is None else float(data["threshold"]),
            neurons=tuple((int(block), int(neuron)) for block, neuron in data["neurons"]),
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise ExplainerError(f"{path} must hold what explainers.find_register_neurons writes: {problem!r}") from None
