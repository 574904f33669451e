"""Tiny random models of every family that Vitrine promises to explain, and what ``wrap`` must find in each.

One table for all tests::

    from tests.families import FAMILIES
    family = FAMILIES["deit3"]
    module = family.build(seed=0)           # eval mode, float32, every parameter made non-trivial
    tensors = family.inputs(batch=2, seed=1)  # what Model.forward takes
"""

from tests.families.family import CLASS, PADDING, PATCH, SEPARATOR, SIZE, SQUARE, TEXT_LENGTH, VOCABULARY, Family
from tests.families.stages import STAGES
from tests.families.text import TEXTS
from tests.families.vision import VISION

#: name -> family; ``[pytest.param(f, id=f.name) for f in FAMILIES.values()]`` makes a test of each.
FAMILIES: dict[str, Family] = {family.name: family for family in (*VISION, *STAGES, *TEXTS)}

__all__ = ["CLASS", "FAMILIES", "PADDING", "PATCH", "SEPARATOR", "SIZE", "SQUARE", "TEXT_LENGTH", "VOCABULARY", "Family"]
