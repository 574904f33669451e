"""Any class of a group, such as all dogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explainers.errors import ExplainerError
from explainers.records.targets.names import Classes, find_group
from explainers.records.targets.registry import add_target
from explainers.records.targets.target import ClassSet, NameOf, ReadName


@add_target
@dataclass(frozen=True)
class AnyOf(ClassSet):
    """Any class of a group, such as all dogs: the log-sum-exp of their logits. ``model.groups`` lists the groups.

    Its gradient divides the signal among the classes by the softmax of their logits. Rules that carry relevance start with the same shares,
    which sum to 1. A full account adds up to sum_c w_c logit_c, with w that softmax; the rest of the log-sum-exp is the entropy of w, which
    belongs to no token.
    """

    group: str

    kind = "any"

    def __str__(self) -> str:
        return f"{self.kind}:{self.group}"

    def find(self, classes: Classes) -> Sequence[int]:
        """Return the indices of those ``classes`` that belong to this target's ``group``. ``classes`` are a model's classes, with their
        labels and groups. Raises ExplainerError if they do not exclude each other, or there is no such group.
        """
        if classes.output != "softmax":
            raise ExplainerError("The classes of this model do not exclude each other, so it has no any: of a group: name a class.")
        return find_group(self.group, classes.groups, classes.labels)

    def label(self, name_of: NameOf) -> str:
        """Return the label of this target for people, such as ``any dog``. ``name_of`` is not used."""
        return f"any {self.group.casefold()}"

    def text(self, name_of: NameOf) -> str:
        """Return the name of the group in lower case. ``name_of`` is not used."""
        return self.group.casefold()

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> AnyOf:
        """Return the target of the group that ``text`` names, such as ``dog``, in any case of letters. ``read_name`` is not used."""
        return cls(text.casefold())

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Return the description of this target in JSON: a dict with ``read``, ``of`` (such as ``any:dog``), and the name of the group in
        ``group``. ``name_of`` is not used.
        """
        return {"read": self.explains, "of": self.spelling(name_of), "group": self.text(name_of)}
