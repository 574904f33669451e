"""One of several outputs of a model by its name: a species and an age, a class and a confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models import labels as naming
from explainers.models.libraries.calls import RawForward, heads_in
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import Output, before_final_activations, final_activation_of
from explainers.models.tasks.task import Place, Reading, Task, TaskInput, add_task, top_class

#: In the output: what the model gives by the name of each head, and what that was before a final softmax or sigmoid.
GIVEN, BEFORE = "given", "before"


@add_task
class SeveralHeads(Task):
    """Task of a model with several outputs (B, C) in a tuple or a dict, each named by its index or key; an output (B,) is one number.

    A head of one number is a value, unless it ends in a sigmoid. Methods that read the attention of one token read the token from which all
    heads are computed: :attr:`explainers.models.layout.Layout.class_token`.

    labels  name of a head -> names of its classes, for some heads; set by ``wrap``
    """

    name = "several-heads"
    places_are = "the name of an output of the model, or its number in a tuple"
    general = True
    labels: Mapping[str, Sequence[str]]

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.labels = tuple(names), {}
        self._widths: dict[str, int] = {}

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``output``, what ``module`` returned for one sample, holds several rows of logits, each under a name or an
        index, and no field ``logits``; else None.
        """
        has_logits = any(isinstance(getattr(output, name, None), Tensor) for name in ("logits", "logits_per_image"))
        if has_logits or isinstance(output, Tensor) or (library == "transformers" and isinstance(output, tuple)):
            return None
        names = [name for name, logits in heads_in(output).items() if len(logits) == 1]  # of a trial with one sample
        return cls(names) if len(names) > 1 else None

    def name_classes(self, labels: Mapping[str, Sequence[str]] | Sequence[str] | None) -> None:
        """Set the names of classes for each head, from ``labels``: lists by the head's name; None changes nothing. Raises ExplainerError
        for an unknown head, and for names that belong to no head.
        """
        if labels is None:
            return
        if not isinstance(labels, Mapping):
            raise ExplainerError(
                f"the model gives several outputs ({', '.join(self.names)}): pass labels= as a dict of lists by their names, or head= too"
            )
        unknown = [str(name) for name in labels if str(name) not in self.names]
        if unknown:
            raise ExplainerError(f"labels= names the outputs {', '.join(unknown)}; the model gives {', '.join(self.names)}")
        self.labels = {str(name): naming.distinct([str(label) for label in given]) for name, given in labels.items()}

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass that returns each head by its name, after and before its final activation."""
        run = before_final_activations(forward, lambda output: {name: heads_in(output)[name] for name in self.names})
        return lambda tensors: dict(zip((GIVEN, BEFORE), run(tensors), strict=True))

    def trial(self, output: Any) -> Tensor:
        """Return the logits of all heads in ``output``, the module's, concatenated."""
        self._widths = {name: output[GIVEN][name].shape[-1] for name in self.names}
        return torch.cat([output[GIVEN][name] for name in self.names], -1)

    @property
    def outputs(self) -> str:
        """A phrase for the output in the model's report: the heads by name, with their numbers of classes."""
        heads = [f"{name} ({n} number{'' if n == 1 else 's'})" for name, n in self._widths.items()]
        return f"{len(self.names)} heads: {', '.join(heads or self.names)}"

    def class_count(self, logits: Tensor) -> int:
        """Return 0: each head has its own class names."""
        return 0

    def _head(self, name: str, output: Any) -> tuple[str, Output, list[str]]:
        """Return for the head ``name``, from the module's output: under which key its logits are (before or after a final activation), what
        they mean, and the names of its classes.
        """
        given, before = output[GIVEN][name], output[BEFORE][name]
        activation = None if before is given else final_activation_of(before, given)
        classes = given.shape[-1]
        meaning: Output = activation or ("regression" if classes == 1 else "softmax")
        labels = list(self.labels.get(name, [name] if classes == 1 else naming.config_labels(None, classes)))
        if len(labels) != classes:
            raise ExplainerError(f"labels= holds {len(labels)} names for the output {name}, which has {classes} classes")
        return (GIVEN if activation is None else BEFORE), meaning, labels

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the heads of the model as places, in the order in which it returns them in ``task_input``, each with its top class and
        probability.
        """
        places = []
        for name in self.names:
            key, meaning, labels = self._head(name, task_input.output)
            says, score = (None, None) if meaning == "regression" else top_class(task_input.output[key][name][0], labels, meaning)
            places.append(Place(name, f"output {name}", says=says, score=score))
        return places

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the first of ``places``, which is explained if none is named."""
        return places[0]

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return how to read ``place``, one of the model's outputs: the function from an output of the model to that head's logits, their
        labels and what they mean, with a note on the other outputs.
        """
        key, meaning, labels = self._head(place.at, task_input.output)
        others = ", ".join(name for name in self.names if name != place.at)
        note = f"The model has several outputs. This is {place.at}; the others are {others}."
        return Reading(place, lambda output: output[key][place.at], labels, meaning, task_input.layout.class_token, (note,))
