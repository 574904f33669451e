"""First names, and of which gender people bear them: how names are told in texts without capitals.

``first_names.csv`` has the 1,055 names that at least 0.02 % of the women or of the men of the United States bore in the census of 1990
(U.S. Census Bureau, in the public domain), in per cent, and says which of them are English words or places too.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Literal

__all__ = ["Gender", "gender_of", "is_first_name"]

Gender = Literal["female", "male"]
_FILE = Path(__file__).with_name("first_names.csv")
_TIMES_AS_OFTEN = 4  # a name belongs to a gender if that gender bears it at least this many times as often as the other


@cache
def _rows() -> dict[str, dict[str, str]]:
    """Return the table of first names: from each name in lower case to its row in the file."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def is_first_name(word: str) -> bool:
    """Return whether a word, in any case, with or without 's, is a first name and nothing else: not ``will``, ``hope`` or ``georgia``."""
    row = _rows().get(_bare(word))
    return row is not None and not row["also"]


def gender_of(word: str) -> Gender | None:
    """Return the gender that a first name is given to, in any case of letters; None for a name of both genders and for an unknown word."""
    row = _rows().get(_bare(word))
    if row is None:
        return None
    female, male = float(row["female"]), float(row["male"])
    if max(female, male) < _TIMES_AS_OFTEN * min(female, male):
        return None
    return "female" if female > male else "male"


def _bare(word: str) -> str:
    return word.casefold().replace("’", "'").removesuffix("'s")
