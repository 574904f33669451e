"""Labels of a collection that its model does not know: by them no answer is right or wrong, and that is said once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

LABELS_NAMED = 3  # in the sentence, the most frequent ones


def has_unknown_label(about: Mapping[str, Any], labels: list[str], right: bool | None, probability: float | None) -> bool:
    """Return whether the model knows none of a row's ``labels``: it has some, and its answer is neither right nor wrong, though the
    collection, ``about`` being its run.json, judges answers by labels and the model answers with classes.
    """
    return bool(labels) and right is None and probability is not None and about.get("labels") is not False


def unknown_labels_in_words(unknown: Counter[str], rows: int) -> str | None:
    """Return a sentence on the labels that the model does not know, with the most frequent ones; None if it knows all.

    unknown  how many rows have each of them
    rows     the number of all rows
    """
    count = unknown.total()
    if not count:
        return None
    named = ", ".join(f"“{label}” ({times})" for label, times in unknown.most_common(LABELS_NAMED))
    more = ", ..." if len(unknown) > LABELS_NAMED else ""
    verb = "has" if count == 1 else "have"
    return f"{count} of {rows} rows {verb} a label that this model does not know, and {verb} no verdict: {named}{more}."
