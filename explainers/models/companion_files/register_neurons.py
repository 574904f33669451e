"""Register neurons: the neurons that make the outlier tokens of a model; the file beside the weights is ``register_neurons.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError

#: The name of the file beside the weights.
REGISTER_NEURONS_FILE = "register_neurons.json"


@dataclass(frozen=True)
class RegisterNeurons:
    """Neurons of MLPs whose activations are large at outlier tokens. :func:`explainers.find_register_neurons` finds them.

    weights_digest  of the model
    pictures        over which they were looked for, and ``seen``, how many; ``counted``, how many of them had an outlier token
    block           counted from 0: the norms of what it gives tell outlier tokens
    threshold       the norm above which a token is one; None where no norm stands apart
    neurons         (block, neuron), counted from 0, the strongest first; none where there is nothing to move
    """

    weights_digest: str
    pictures: str
    seen: int
    counted: int
    block: int
    threshold: float | None
    neurons: tuple[tuple[int, int], ...]

    @property
    def in_words(self) -> str:
        """What was found, in a sentence."""
        if self.threshold is None:
            return f"No token's norm stands apart after block {self.block + 1}, over {self.pictures}: there is nothing to move."
        if not self.neurons:
            return f"No token's norm after block {self.block + 1} is above {self.threshold:.3g}, over {self.pictures}: nothing to move."
        blocks = sorted({block + 1 for block, _ in self.neurons})
        return (
            f"{self.counted} of {self.seen} pictures ({self.pictures}) have tokens whose norm after block {self.block + 1} is above "
            f"{self.threshold:.3g}. {len(self.neurons)} register neurons in block{'s' * (len(blocks) > 1)} {', '.join(map(str, blocks))}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, as it lies beside the weights."""
        return {**asdict(self), "neurons": [list(place) for place in self.neurons]}

    def __str__(self) -> str:
        return self.in_words

    def save(self, path: Path | str) -> None:
        """Write ``register_neurons.json``: beside the weights of a model, :func:`explainers.load` finds it."""
        Path(path).write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")


def read_register_neurons(path: Path) -> RegisterNeurons:
    """What a ``register_neurons.json`` holds. Raises ExplainerError, naming the part, for a file of another form."""
    try:
        data = json.loads(path.read_text("utf-8"))
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
