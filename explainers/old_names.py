"""Names of an earlier version: classes of other packages that override a method under its old name keep working for one release."""

from __future__ import annotations

from collections.abc import Mapping


def accept_old_names(cls: type, names: Mapping[str, str]) -> None:
    """Give ``cls`` each method that it defines under an old name also under the new one; ``names`` maps old names to new ones."""
    for old, new in names.items():
        if old in vars(cls) and new not in vars(cls):
            setattr(cls, new, vars(cls)[old])
