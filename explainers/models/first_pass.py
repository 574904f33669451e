"""The first pass over a module that is opened: it shows what the module gives, and by that the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, is_memory_shortage
from explainers.models.eval_mode import evaluating
from explainers.models.libraries import calls
from explainers.models.libraries.recognition import Library
from explainers.models.outputs import Forward
from explainers.models.structure.pixel_patches import PixelPatches
from explainers.models.structure.two_rows import TwoRows
from explainers.models.tasks import Task, task_of
from explainers.models.tasks.features import without_reference

T = TypeVar("T")


class OneSampleNeededError(ExplainerError):
    """The error of a first pass with several samples that does not show the task of a module."""


class FirstPass:
    """The forward pass of ``module`` whose task (``name``, None: any) is unknown until its first call, which is made with one sample.

    ``two_rows`` runs a module of two rows of tokens, as one; None for others. ``given`` is the task if it is known; None: the output
    tells it.

    task  task that interprets the module's output; None if the output is one row of logits for each sample
    raw   function from tensors to the output from which places are read; None if there is no task
    patches  the block of patches of pixels in front of the module, if the task explains these; else None
    """

    def __init__(
        self,
        module: nn.Module,
        library: Library,
        own_forward: Forward,
        name: str | None,
        tokenizer: Any,
        two_rows: TwoRows | None,
        given: Task | None = None,
    ) -> None:
        self._module, self._library, self._name, self._tokenizer = module, library, name, tokenizer
        self._forward, self._is_settled, self._two_rows = two_rows or calls.raw_forward_of(module, library), False, two_rows
        self.run: Forward = own_forward
        self.task: Task | None = None
        self.raw: calls.RawForward | None = None
        self.patches: PixelPatches | None = None
        if given is not None:
            self.settle(given)

    @property
    def first_row(self) -> bool:
        """Return whether the task asks for the first of several rows of blocks to be explained, because it reads the output of what follows
        them.
        """
        return self.task is not None and self.task.first_row

    def blocks_and_entry(self, blocks: Any, entry: Any) -> tuple[Any, Any]:
        """Return the blocks to explain and the module that takes the embedded tokens: those of a module of two rows, the patches of pixels
        in front of the module, or else what the caller named as ``blocks`` and ``entry``. Raises ExplainerError if patches of pixels are
        explained and the caller named any.
        """
        if self.patches is None:
            return (blocks if self._two_rows is None else self._two_rows.blocks), entry
        if blocks is not None or entry is not None:
            raise ExplainerError(
                f"the tokens of {type(self._module).__name__} are patches of pixels in front of all its layers, so that there are no "
                "blocks to choose: leave blocks= and entry= out"
            )
        return [self.patches], self.patches

    def __call__(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Run the module on ``tensors`` and return logits (B, C) for a trial. Raises OneSampleNeededError for several samples of pictures
        if the task is unknown and what the module gives is not one row of logits for each.
        """
        if self._is_settled:
            return self.run(tensors)
        if self._two_rows is None:
            _refuse_two_rows(self._module)
        samples = len(tensors["pixel_values"]) if "pixel_values" in tensors and "input_ids" not in tensors else 1
        output = self._forward(tensors) if samples == 1 else self._plain_rows(tensors, samples)
        self.settle(task_of(self._module, self._library, output, self._name) if samples == 1 else None)
        if self.task is None:
            return calls.logits_given(output, tensors, self._library)
        return self.task.trial(self.task.raw_forward(lambda given: output)(tensors))

    def _plain_rows(self, tensors: Mapping[str, Tensor], samples: int) -> Tensor:
        """Run the module on ``tensors`` of several ``samples`` and return its output if that is one row of logits for each."""
        try:
            output = self._forward(tensors)
        except Exception as error:
            if is_memory_shortage(error):
                raise
            raise OneSampleNeededError("the module does not run on several samples") from error
        is_row = isinstance(output, Tensor) and output.is_floating_point() and output.dim() == 2 and len(output) == samples
        # the first row is what the module gives for one sample, by which tasks are told
        if not is_row or task_of(self._module, self._library, output[:1], self._name) is not None:
            raise OneSampleNeededError("several samples do not show the task of the module")
        assert isinstance(output, Tensor)
        return output

    def told_by(self, explore: Callable[[], T], sample: Mapping[str, Tensor]) -> T:
        """Return the result of ``explore()``, which calls this first pass with several samples; if these do not show the task,
        :meth:`try_one` finds it with one ``sample``, and ``explore`` is called again.
        """
        try:
            return explore()
        except OneSampleNeededError:
            self.try_one(sample)
        return explore()

    def try_one(self, sample: Mapping[str, Tensor]) -> None:
        """Run the module on one sample and find its task, unless it is known; if the pass fails, no task is set, and the search for blocks
        reports it. Raises the error where the task is named, and where memory ran out.
        """
        if self._is_settled:
            return
        _refuse_two_rows(self._module)
        try:
            with torch.no_grad(), evaluating(self._module):
                output = self._forward(sample)
        except Exception as error:
            if self._name is not None or is_memory_shortage(error):
                raise
            self.settle(None)
        else:
            self.settle(task_of(self._module, self._library, output, self._name))

    def settle(self, task: Task | None) -> None:
        """Set the task; later calls use its forward pass, or the module's own if the task is None."""
        self.task, self._is_settled = task, True
        if task is not None:
            task.tokenizer = self._tokenizer
            forward = task.raw_forward(self._forward)
            if task.reads_pixels:
                self.patches = PixelPatches()
                forward = self.patches.in_front_of(forward)
            self.raw = _without_reference(forward)
            self.run = _of_trial(task, self.raw)


def _refuse_two_rows(module: nn.Module) -> None:
    """Raise ExplainerError if ``module`` is an encoder-decoder that generates text."""
    config = getattr(module, "config", None)
    if type(module).__name__.endswith(("ForConditionalGeneration", "MTModel")) and getattr(config, "is_encoder_decoder", False):
        raise ExplainerError(
            f"{type(module).__name__} is an encoder-decoder whose layers were not found as those of one encoder and one decoder of texts: "
            "T5, BART, Marian and models of their kind are read. Wrap its encoder for features, or a decoder alone (...ForCausalLM)."
        )


def _without_reference(forward: calls.RawForward) -> calls.RawForward:
    """Return a forward pass that drops the reference input, with which features are compared, before calling ``forward``."""
    return lambda tensors: forward(without_reference(tensors))


def _of_trial(task: Task, forward: calls.RawForward) -> Forward:
    return lambda tensors: task.trial(forward(tensors))
