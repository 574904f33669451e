"""Detectors of any library, by a function of the user's that finds boxes and scores in what the module gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.libraries.calls import RawForward
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import ACTIVATIONS, Output, final_activation_of
from explainers.models.tasks.detection import Activations, ObjectDetection
from explainers.models.tasks.task import Place, Task, TaskInput

#: A function from what a module gives for one picture to its boxes (N, 4), corners in pixels, and their scores (N, classes).
BoxesFunction = Callable[[Any], tuple[Tensor, Tensor]]
LEAST_OVERLAP = 0.5  # at which detections count as of one object where detectors are evaluated
_WANTED = (
    "return (boxes, scores): boxes a float tensor (N, 4) of the corners x0, y0, x1, y1 in pixels of the picture that the module was given, "
    "scores a float tensor (N, classes)"
)


class OwnBoxes(ObjectDetection):
    """The task of a detector whose boxes ``function`` finds in what the module gives for one picture.

    Scores that a softmax over all classes, or a sigmoid, gave last are explained as the numbers before it; any others as values, as they
    are. The module runs on one picture at a time, and may give any number of boxes, also none.
    """

    reads_pixels = True
    ranks_boxes = True
    least_overlap = LEAST_OVERLAP

    def __init__(self, function: BoxesFunction) -> None:
        super().__init__("regression")
        self.function = function
        self._is_settled = False

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return None: no output shows this task, which ``boxes=`` names."""
        return None

    @property
    def followed(self) -> str:
        """A clause on which box is asked about where parts of the picture are removed."""
        return (
            "the box that overlaps it most is asked about; where none shares half of the area of both, it counts as gone, with the lowest "
            "number that a class has in the whole picture, or 0 where the numbers are no logits"
        )

    @property
    def _has_no_object(self) -> bool:
        return False

    def _lowest(self, logits: Tensor) -> Tensor:
        return logits.min() if self.output != "regression" and logits.numel() else logits.new_zeros(())

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass that returns, for pictures, ``logits`` (B, N + 1, C) and ``pred_boxes`` (B, N + 1, 4), centre and size in
        shares of the picture. N is the most boxes that one of them has; rows without a box are zeros, such as the last of each.
        """

        def run(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            pixels = tensors["pixel_values"]
            result = [self._boxes_and_scores(forward, {**tensors, "pixel_values": pixels[i : i + 1]}) for i in range(len(pixels))]
            rows = 1 + max(len(boxes) for boxes, _ in result)
            padded = [[F.pad(each, (0, 0, 0, rows - len(each))) for each in pair] for pair in result]
            return {"pred_boxes": torch.stack([boxes for boxes, _ in padded]), "logits": torch.stack([scores for _, scores in padded])}

        return run

    def _boxes_and_scores(self, forward: RawForward, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Run the module on one picture; return its boxes (N, 4), centre and size in shares of the picture, and the numbers (N, C) that are
        explained.
        """
        height, width = tensors["pixel_values"].shape[-2:]
        with Activations(ACTIVATIONS) as activations:
            output = forward(tensors)
            try:
                result = self.function(output)
            except Exception as problem:  # whatever the user's code raises
                if isinstance(problem, ExplainerError) or ran_out_of_memory(problem):
                    raise
                raise ExplainerError(f"the function boxes= failed: {type(problem).__name__}: {problem}; {_WANTED}") from problem
            boxes, scores = _checked(result)
        before = activations.input_of(scores)
        kind: Output | None = None if before is None or not len(scores) else final_activation_of(before, scores)
        if not self._is_settled and len(scores):
            self.output, self._is_settled = kind or "regression", True
        if self.output != "regression" and len(scores):
            if kind != self.output or before is None:
                raise ExplainerError(f"the scores that boxes= gives end in a {self.output} for one picture, and not for another")
            scores = before
        corners = boxes / boxes.new_tensor([width, height, width, height])
        low, high = corners.split(2, -1)
        return torch.cat([(low + high) / 2, high - low], -1), scores

    def trial(self, output: Any) -> Tensor:
        """Return the mean over all boxes (B, C) of the explained numbers, from ``output`` of :meth:`raw_forward`."""
        logits: Tensor = output["logits"]
        return logits.mean(1)

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the boxes that the model found in an input as places, the most probable first."""
        return super().places(_without_padding(task_input))

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names, such as "box:3" or "box:3/left". Raises ExplainerError for other texts, and for a picture
        without boxes.
        """
        if len(_without_padding(task_input).output["logits"][0]) == 0:
            raise ExplainerError("boxes= gives no box for this picture, so that there is nothing to ask about.")
        return super().find(at, _without_padding(task_input), places)


def _without_padding(task_input: TaskInput) -> TaskInput:
    """Return one input's record without the last row of its output, which holds no box."""
    return replace(task_input, output={name: tensor[:, :-1] for name, tensor in task_input.output.items()})


def _checked(result: Any) -> tuple[Tensor, Tensor]:
    """Return the boxes and scores in ``result``, the result of the user's function. Raises ExplainerError for other shapes."""
    if not isinstance(result, tuple | list) or len(result) != 2 or not all(isinstance(each, Tensor) for each in result):
        given = ", ".join(type(each).__name__ for each in result) if isinstance(result, tuple | list) else type(result).__name__
        raise ExplainerError(f"the function boxes= gave {given}: {_WANTED}")
    boxes, scores = result
    shapes = f"boxes {tuple(boxes.shape)} and scores {tuple(scores.shape)}"
    if boxes.dim() != 2 or boxes.shape[-1] != 4 or scores.dim() != 2 or len(scores) != len(boxes) or not scores.shape[-1]:
        raise ExplainerError(f"the function boxes= gave {shapes}: {_WANTED}")
    if not (boxes.is_floating_point() and scores.is_floating_point()):
        raise ExplainerError(f"the function boxes= gave numbers of {boxes.dtype} and {scores.dtype}: {_WANTED}")
    if bool((boxes[:, 2:] < boxes[:, :2]).any()):
        raise ExplainerError(
            "the function boxes= gave boxes that end before they begin, as centre and size do: return corners x0, y0, x1, y1 in pixels"
        )
    return boxes, scores
