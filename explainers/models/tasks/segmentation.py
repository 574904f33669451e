"""A class for each pixel of a picture: why does the model see a *dog* in this part of it?"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.libraries.recognition import GIVES_MASKS, Library
from explainers.models.tasks.task import Place, Reading, Task, TaskInput, add_task, logits_in, tensor_of, top_class, transformers_class_ends

WHOLE = "whole"
_REGION = re.compile(r"region:([^,]+),([^,]+),([^,]+),([^,]+)")
_CLASS = "class:"
_BACKGROUND = ("background", "other", "unlabeled", "unlabelled", "void", "ignore")  # how data sets call what is nothing


@add_task
class ImageSegmentation(Task):
    """Task of semantic segmentation: logits (B, C, h, w) for each pixel of the model's output, which often has a quarter of the picture's
    size.

    The logits of a region are the mean of those of its pixels. The area of a class is that in the whole picture; it is held constant.
    """

    name = "image-segmentation"
    places_are = (
        "region:x0,y0,x1,y1 (a rectangle in shares of the picture that the model saw, from 0 to 1), whole, or class:LABEL (the area that "
        "the model gives to a class)"
    )
    control = "region"
    own_axes = ("samples", "classes", "rows", "columns")
    first_row = True

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a transformers model (``library``) for semantic segmentation, else None. Raises ExplainerError
        for models whose ``output`` holds masks, each with a class.
        """
        if library == "transformers" and tensor_of(output, "masks_queries_logits") is not None:
            raise ExplainerError(GIVES_MASKS.format(type(module).__name__))
        return cls() if transformers_class_ends(module, library, "ForSemanticSegmentation") else None

    def trial(self, output: Any) -> Tensor:
        """Return the mean logits (B, C) over the picture, from ``output``, the module's."""
        return logits_in(output).flatten(2).mean(-1)

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the places of an input: the classes that the model sees in it, the largest area first, and the whole picture. ``score`` is
        the mean probability in the area.
        """
        logits = logits_in(task_input.output)[0]
        p = logits.double().softmax(0)
        seen = logits.argmax(0)
        areas = torch.bincount(seen.flatten(), minlength=len(logits))
        places = []
        for index in areas.argsort(descending=True, stable=True).tolist():
            if areas[index]:
                label = task_input.labels[index]
                share = float(areas[index]) / seen.numel()
                score = float(p[index][seen == index].mean())
                places.append(Place(f"{_CLASS}{label}", f"{label}, {share:.0%} of the picture", says=label, score=score, area=share))
        return [*places, self._rectangle(WHOLE, "the whole picture", (0.0, 0.0, 1.0, 1.0), task_input)]

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that is explained if none is named: the largest of ``places`` that is no background, or the first if all are
        background.
        """
        areas = [place for place in places if place.area is not None]
        return next((place for place in areas if (place.says or "").casefold() not in _BACKGROUND), areas[0])

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: a rectangle of the picture in ``task_input``, or one of ``places``, such as the area of a
        class by its label. Raises ExplainerError if there is none.
        """
        at = at.strip()
        rectangle = _REGION.fullmatch(at)
        if rectangle is not None:
            x0, y0, x1, y1 = box = _box(at, rectangle.groups())
            shown = f"region:{x0:g},{y0:g},{x1:g},{y1:g}"
            return self._rectangle(shown, f"the part {x0:.0%} to {x1:.0%} across, {y0:.0%} to {y1:.0%} down", box, task_input)
        wanted = at.removeprefix(_CLASS).strip().casefold()
        for place in places:
            if wanted in (place.at.casefold(), (place.says or "").casefold() if place.area is not None else None):
                return place
        if at.startswith(_CLASS) and wanted in [label.casefold() for label in task_input.labels]:
            seen = ", ".join(place.says or "" for place in places if place.area is not None)
            raise ExplainerError(
                f"at={at!r}: the model gives no part of this picture to that class; it sees {seen}. Send region:x0,y0,x1,y1 and the class "
                "as the target to ask about a part of the picture."
            )
        raise self.unknown_place(at, places)

    def _rectangle(self, at: str, label: str, box: tuple[float, float, float, float], task_input: TaskInput) -> Place:
        logits = logits_in(task_input.output)[0]
        says, score = top_class(logits[:, _pixels_of(box, logits.shape[-2:], logits.device)].mean(-1), task_input.labels)
        return Place(at, label, box=box, says=says, score=score)

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place``, a region of the picture in ``task_input``, which says how to read the mean logits of the
        region's pixels from the model's output.
        """
        logits = logits_in(task_input.output)[0]
        if place.area is not None:
            inside = logits.argmax(0) == list(task_input.labels).index(place.says or "")
            note = "The area is where the model sees the class in the whole picture; it stays the same when parts are removed."
        else:
            assert place.box is not None
            inside, note = _pixels_of(place.box, logits.shape[-2:], logits.device), ""
        pixels = inside.flatten().nonzero()[:, 0]

        notes = (note,) if note else ()
        return Reading(place, lambda output: logits_in(output).flatten(2)[:, :, pixels].mean(-1), notes=notes)


def _box(at: str, sides: Sequence[str]) -> tuple[float, float, float, float]:
    """Return the rectangle that ``sides``, four texts, spell, as numbers x0, y0, x1, y1 from 0 to 1. Raises ExplainerError, quoting the
    place ``at``, if they are no rectangle in the picture.
    """
    try:
        x0, y0, x1, y1 = (float(side) for side in sides)
    except ValueError:
        x0 = y0 = x1 = y1 = math.nan
    if not (0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1):
        raise ExplainerError(f"at={at!r} is no part of the picture: send region:x0,y0,x1,y1 with 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1.")
    return x0, y0, x1, y1


def _pixels_of(box: tuple[float, float, float, float], size: Sequence[int], device: torch.device) -> Tensor:
    """Return a mask, bool (h, w), of the pixels of a map of ``size`` (h, w) whose centres lie in the ``box`` (x0, y0, x1, y1 from 0 to 1);
    it has at least the row and the column of the box's own centre.
    """
    inside = []
    for low, high, count in ((box[1], box[3], size[0]), (box[0], box[2], size[1])):
        centres = (torch.arange(count, dtype=torch.float64) + 0.5) / count
        along = (centres >= low) & (centres < high)
        along[min(count - 1, int((low + high) / 2 * count))] = True
        inside.append(along)
    return (inside[0][:, None] & inside[1][None]).to(device)
