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
    """The logit of a class, named by label or index, for a CLIP model by prompt; None is the top class. A plain name passed to ``explain``
    means this target.
    """

    name: str | int | None = None

    kind = "class"
    has_prefix = False
    has_probability = True

    def __repr__(self) -> str:
        return repr(self.name)

    def names(self) -> tuple[Any, ...]:
        """Return the name of the class that the target is about, in a tuple."""
        return (self.name,)

    def value(self, logits: NamedLogits) -> Tensor:
        """Return the logit (B,) of the named class, from the logits of a batch."""
        return logits.logit(self.name)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C) of the logit with respect to ``logits``: 1 at the class, 0 elsewhere."""
        return logits.shares(self.name)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Return the probability (B,) of the named class, from the logits of a batch."""
        return logits.probability(self.name)

    def index(self, logits: NamedLogits) -> Tensor:
        """Return the index (B,) of the named class, for each sample of ``logits``."""
        return logits.indices(self.name)[..., 0]

    def with_top_class(self, index: int) -> OneClass:
        """Return the target of the class ``index`` if no class is named, else the same target."""
        return OneClass(TopClass(index)) if self.name is None else self

    def spelling(self, name_of: NameOf) -> str:
        """Return the label of the class, as ``name_of`` returns it from the name: a class alone is written without a kind and a colon."""
        return name_of(self.name)

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Return the description in JSON, a dict with ``read`` alone: the label and index that stand with it already say which class it is.
        ``name_of`` is not called.
        """
        return {"read": self.explains}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Target:
        """Return the target for the class that ``info``, the dict of a target in JSON, describes: by its index, since two classes may share
        a label; a prompt, or a class without an index, by its text, which ``read_name`` turns into a name or a target.
        """
        name = info["index"] if info.get("index") is not None and "prompt" not in info else read_name(info.get("of", info["label"]))
        return name if isinstance(name, Target) else cls(name)
