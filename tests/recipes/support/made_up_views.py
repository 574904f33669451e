"""Views of pictures that nobody saw: random numbers of the shapes that teachers give."""

from __future__ import annotations

import torch

from recipes.data.pictures import SIDE, SMALL_SIDE
from recipes.data.teacher_views import CHANNELS, CLASSES, LOCAL_DIRECTIONS, Views

PLACES = {SIDE: 196, SMALL_SIDE: 64}


def made_up_views(number: int, side: int, seed: int = 0) -> Views:
    """Return random views of ``number`` pictures ``side`` pixels wide."""
    torch.manual_seed(seed)
    shapes = (PLACES[side], CHANNELS), (PLACES[side], LOCAL_DIRECTIONS), (CLASSES,)
    return Views(*(torch.randn(number, *shape).half() for shape in shapes))
