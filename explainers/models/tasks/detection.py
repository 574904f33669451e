"""The class and the sides of a box that a detector draws: why is there a *dog* here, and why does it end there?"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from explainers.errors import ExplainerError
from explainers.models.boxes import corners_of, overlaps
from explainers.models.libraries.calls import RawForward
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import MOVING, Output, probabilities
from explainers.models.tasks.task import Place, Reading, Task, TaskInput, add_task, logits_in, tensor_of, transformers_class_ends

NO_OBJECT = "no object"
#: Under this name the numbers (B, Q, 4) that the sigmoid makes boxes of stand in the output.
BEFORE = "boxes_before_sigmoid"
#: Sides of a box (cx, cy, width, height): the number of its centre, that of its size, and the share of the size that is added.
SIDES: dict[str, tuple[int, int, float]] = {"left": (0, 2, -0.5), "top": (1, 3, -0.5), "right": (0, 2, 0.5), "bottom": (1, 3, 0.5)}
_TANGENT = (
    "A side of a box comes from sigmoids. Each is replaced here by its tangent, under every rule; the tangent's value at zero belongs to "
    "no token."
)
#: What stands in the names of classes of attention that samples points of maps of several sizes.
DEFORMABLE = "DeformableAttention"
#: What is asked where parts of the picture are gone, by whether boxes are numbered by rank.
_FOLLOWED = {
    False: "the same box is asked about",
    True: "the box that overlaps it most is asked about, as this model numbers its boxes by rank",
}
_OWN_NUMBER = 1e-9
SIGMOIDS = (torch.sigmoid, Tensor.sigmoid, F.sigmoid)
_JOINING = (torch.stack, torch.cat, torch.concat)
MOST_BOXES = 30  # that are listed: a page draws them; others are asked about by their numbers
_BOX = re.compile(r"box:(\d+)(?:/(\w+))?")


@add_task
class ObjectDetection(Task):
    """Task of object detection, whose logits mean ``output``: Q queries, each with logits (B, Q, C) and a box (B, Q, 4), given as centre
    and size in shares of the picture.

    If a query may hold no object (softmax: DETR, YOLOS), the logits have one class more than the model has labels; if each label is yes or
    no (sigmoid: Conditional and Deformable DETR), they have the same number. The side of a box is a value.
    """

    name = "object-detection"
    places_are = "box:3 (its class) or a side of it: box:3/left, box:3/top, box:3/right, box:3/bottom"
    control = "boxes"
    first_row = True
    #: Whether the number of a box is its rank in the picture, so that it changes where the picture does.
    ranks_boxes: bool = False
    #: The overlap below which a box counts as gone; 0: it never does.
    least_overlap: float = 0.0

    def __init__(self, output: Output) -> None:
        self.output = output

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a transformers object detector (by ``library`` and ``output``), else None."""
        logits = tensor_of(output, "logits")
        if not transformers_class_ends(module, library, "ForObjectDetection") or logits is None or tensor_of(output, "pred_boxes") is None:
            return None
        config: Any = module.config
        task = cls("softmax" if logits.shape[-1] == config.num_labels + 1 else "sigmoid")
        task.reads_pixels = any(DEFORMABLE in type(part).__name__ for part in module.modules())
        task.ranks_boxes = task.reads_pixels and bool(getattr(config, "two_stage", True))
        return task

    @staticmethod
    def _boxes(output: Any) -> Tensor:
        boxes = tensor_of(output, "pred_boxes")
        assert boxes is not None
        return boxes

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass that returns the model's output, with the boxes also as they were before the sigmoid, if one made them."""

        def run(tensors: Mapping[str, Tensor]) -> Any:
            with Activations(SIGMOIDS) as sigmoids:
                output = forward(tensors)
            before = sigmoids.input_of(self._boxes(output))
            return {**output} if before is None else {**output, BEFORE: before}

        return run

    def trial(self, output: Any) -> Tensor:
        """Return the mean logits (B, C) over all boxes of ``output``, the module's."""
        return logits_in(output).mean(1)

    def class_count(self, logits: Tensor) -> int:
        """Return the number of the model's labels, "no object" left out, from logits (B, C)."""
        return logits.shape[-1] - self._has_no_object

    @property
    def _has_no_object(self) -> bool:
        """True if the last class of a box is "no object"."""
        return self.output == "softmax"

    def _labels(self, task_input: TaskInput) -> list[str]:
        return [*task_input.labels, NO_OBJECT] if self._has_no_object else list(task_input.labels)

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the boxes that the model found in an input as places, the most probable object first. ``says`` and ``score`` of a place
        are the most probable class other than "no object", and its probability.
        """
        logits, labels = logits_in(task_input.output)[0], self._labels(task_input)
        corners = corners_of(self._boxes(task_input.output)[0]).clamp(0, 1).tolist()
        places = []
        for index, row in enumerate(logits):
            says, score = self._top(row, labels)
            places.append(Place(f"box:{index}", f"box {index}, {says}", box=tuple(corners[index]), says=says, score=score))
        return sorted(places, key=lambda place: -(place.score or 0.0))[:MOST_BOXES]

    def _top(self, row: Tensor, labels: Sequence[str]) -> tuple[str, float]:
        """Return the likeliest class of a box other than "no object", and its probability, from ``row``, its logits (C,), and the
        ``labels`` of the classes.
        """
        p = self._probabilities(row.detach().double())
        index = int(p[: len(labels) - (labels[-1] == NO_OBJECT)].argmax())
        return labels[index], float(p[index])

    def _probabilities(self, logits: Tensor) -> Tensor:
        """Return the probabilities (..., C) of all classes of boxes from their ``logits``; numbers that are values are taken for these."""
        return logits if self.output == "regression" else probabilities(logits, self.output)

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: a box of the output in ``task_input`` by its number ("box:3"), or a side of it
        ("box:3/left"). Raises ExplainerError for other texts.
        """
        named = _BOX.fullmatch(at.strip())
        boxes = self._boxes(task_input.output)[0]
        if named is None or (named[2] or "left") not in SIDES:
            raise self.unknown_place(at, places)
        index = int(named[1])
        if index >= len(boxes):
            raise ExplainerError(f"at={at!r}: the model gives the boxes box:0 to box:{len(boxes) - 1}.")
        x0, y0, x1, y1 = corners_of(boxes)[index].clamp(0, 1).tolist()
        says, score = self._top(logits_in(task_input.output)[0, index], self._labels(task_input))
        if named[2] is not None:
            return Place(f"box:{index}/{named[2]}", f"{named[2]} side of box {index}, {says}", box=(x0, y0, x1, y1))
        return Place(f"box:{index}", f"box {index}, {says}", box=(x0, y0, x1, y1), says=says, score=score)

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place``, a box of the input ``task_input`` or one side of a box: how to read the logits of the
        box, or the position of its side as a share of the picture's width or height, from the model's output.
        """
        named = _BOX.fullmatch(place.at)
        assert named is not None
        index, side = int(named[1]), named[2]
        layout, boxes, logits = task_input.layout, self._boxes(task_input.output), logits_in(task_input.output)
        follow = partial(self._rows_of, index, corners_of(boxes)[0, index])
        corners, classes, _ = self._found(task_input.output)
        likeness = partial(self._likeness, corners[0, index], classes[0, index])
        note = f"This is box number {index} of the model. When parts of the picture are removed, {self.followed}."
        token = layout.patches.stop + index if layout.after == boxes.shape[1] else None  # each has one of its own
        if side is None:
            labels, lowest = self._labels(task_input), self._lowest(logits).expand(logits.shape[-1]).detach()
            return Reading(
                place,
                lambda output: follow(output)(logits_in(output), lowest),
                labels,
                self.output,
                token,
                (note,),
                likeness=likeness,
            )
        centre, size, share = SIDES[side]
        weights = torch.zeros(4).index_fill(0, torch.tensor([centre]), 1.0).index_fill(0, torch.tensor([size]), share)
        labels = [f"{side} side, as a share of the {'width' if centre == 0 else 'height'}"]
        whole = boxes[0, index].detach()

        def read(output: Any) -> Tensor:
            """Return one side of a box (B, 1), from the module's output, as a linear function of the sigmoid's input: the input times the
            slope, plus a constant; where no sigmoid made the boxes, as they are.
            """
            pick = follow(output)
            box = pick(self._boxes(output), whole)
            if BEFORE not in output:
                return (box * weights.to(box)).sum(-1, keepdim=True)
            before = pick(output[BEFORE], whole)
            # the tangent at this very place: nothing of the gradient is lost by holding it, so no recording need follow it
            with torch.no_grad(), torch._C.DisableTorchFunction():
                slopes = box * (1 - box) * weights.to(box)
                rest = (box * weights.to(box) - slopes * before).sum(-1, keepdim=True)
            return (slopes * before).sum(-1, keepdim=True) + rest

        notes = (note, _TANGENT) if BEFORE in task_input.output else (note,)
        return Reading(place, read, labels, "regression", token, notes, likeness=likeness)

    @property
    def followed(self) -> str:
        """A clause on which box is asked about where parts of the picture are removed."""
        return _FOLLOWED[self.ranks_boxes]

    def _lowest(self, logits: Tensor) -> Tensor:
        """Return the number that stands for the class of a box that is gone, from the ``logits`` of the whole picture."""
        return logits.min()

    def _found(self, output: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the corners (B, Q, 4) of all boxes in ``output``, the probabilities (B, Q, C) of their classes without "no object", and
        the probability that each holds an object (B, Q): 1 where the model does not say that apart.
        """
        p = self._probabilities(logits_in(output).double())
        if self._has_no_object:
            return corners_of(self._boxes(output)), p[..., :-1], 1 - p[..., -1]
        return corners_of(self._boxes(output)), p, torch.ones_like(p[..., 0])

    def _likeness(self, box: Tensor, classes: Tensor, output: Any) -> Tensor:
        """Return for each sample of ``output`` the likeness (B,) of the box that is most like the one of corners ``box`` (4,) and
        probabilities ``classes`` (C,): overlap times cosine of the probabilities times the probability of an object (Petsiuk et al. 2021).
        """
        boxes, p, is_object = self._found(output)
        return (overlaps(boxes, box) * F.cosine_similarity(p, classes, dim=-1) * is_object).amax(1)

    def _rows_of(self, index: int, box: Tensor, output: Any) -> Callable[[Tensor, Tensor], Tensor]:
        """Return a function that picks, from numbers of all boxes (B, Q, ...), those (B, ...) of the box ``index``, whose corners in the
        whole picture are ``box`` (4,); if boxes are numbered by rank, those of the box in ``output`` that overlaps it most. Its second
        argument is what to give where a box is gone, for detectors that may give fewer.
        """
        if not self.ranks_boxes:
            return lambda numbers, missing: numbers[:, index]
        with torch.no_grad(), torch._C.DisableTorchFunction():
            shares = overlaps(corners_of(self._boxes(output)), box)
            if index < shares.shape[1]:
                shares[:, index] += _OWN_NUMBER  # of boxes that lie on each other
            share, places = shares.max(1)
            is_gone = share < self.least_overlap

        def pick(numbers: Tensor, missing: Tensor) -> Tensor:
            picked = numbers[torch.arange(len(places), device=places.device), places]
            return torch.where(is_gone[:, None], missing.to(picked), picked) if bool(is_gone.any()) else picked

        return pick


class Activations(TorchFunctionMode):
    """A function mode that keeps the inputs and outputs of some functions, also where these are joined and picked from afterwards."""

    def __init__(self, functions: Collection[Any]) -> None:
        super().__init__()
        self._functions = functions
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in self._functions:
            self._pairs.append((out, args[0] if args else kwargs["input"]))
        elif func in _JOINING and args:
            before = [self.input_of(each) for each in args[0]]
            if before and all(each is not None for each in before):
                self._pairs.append((out, func(before, *args[1:], **kwargs)))
        elif getattr(func, "__name__", "") in MOVING and args and (given := self.input_of(args[0])) is not None:
            self._pairs.append((out, func(given, *args[1:], **kwargs)))
        return out

    def input_of(self, out: Any) -> Tensor | None:
        """Return the input of the function whose output, perhaps moved since, is ``out``; None if it is the output of none."""
        return next((before for given, before in self._pairs if given is out), None)
