"""A class alone, or a prompt: its logit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from explainers.records.targets.names import TopClass
from explainers.records.targets.target import NamedLogits, NameOf, ReadName, Target


@dataclass(frozen=True, repr=False)
class OneClass(Target):
    """The logit of a class: by label or index, of a CLIP model by prompt; None is the top class. ``explain`` takes the name alone."""

    name: str | int | None = None

    kind = "class"
    has_prefix = False
    has_probability = True

    def __repr__(self) -> str:
        return repr(self.name)

    def names(self) -> tuple[Any, ...]:
        """The class."""
        return (self.name,)

    def value(self, logits: NamedLogits) -> Tensor:
        """Its logit."""
        return logits.logit(self.name)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """1 at the class."""
        return logits.shares(self.name)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Of the class."""
        return logits.probability(self.name)

    def index(self, logits: NamedLogits) -> Tensor:
        """Of the class."""
        return logits.indices(self.name)[..., 0]

    def with_top_class(self, index: int) -> OneClass:
        """This class where none is named."""
        return OneClass(TopClass(index)) if self.name is None else self

    def spelling(self, name_of: NameOf) -> str:
        """Its label."""
        return name_of(self.name)

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Its label and index say all."""
        return {"read": self.explains}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Target:
        """The class of this index, as two may share a label; else what the label names."""
        name = info["index"] if info.get("index") is not None and "prompt" not in info else read_name(info.get("of", info["label"]))
        return name if isinstance(name, Target) else cls(name)
