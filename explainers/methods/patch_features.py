"""Features of single patches, to compare with a prompt: tokens after changed attention, projected by the head of the model.

The head of such a model reads its classification token, norms and projects it, and compares it with each prompt. Here it is handed other
tokens in that place, one after the other, by hooks: no library's names are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.recording import Recording
from explainers.autograd.signals import AttentionParts
from explainers.errors import ExplainerError
from explainers.models.structure.hooks import Hook, in_this_thread, remove_hooks_after
from explainers.records.trace import Trace

#: Maximum difference between a module's output and the attention computed from its parts, relative to the largest number.
CLOSE = 1e-3
#: For each sample of a recording, by block: the module that computes its attention, and its input. One pass serves all methods.
_MODULES: WeakKeyDictionary[Recording, dict[int, list[tuple[nn.Module, Tensor]]]] = WeakKeyDictionary()


class PatchFeatures:
    """One sample of a recorded pass of a model of images and prompts, for which the model can compute new logits from other tokens.

    parts  per block, queries, keys, values and weights of its attention, (1, H, S, d) and (1, H, S, S)
    """

    def __init__(self, trace: Trace, sample: int, prompts: Mapping[str, Tensor] | None = None) -> None:
        """Take one sample of ``trace``; ``prompts`` are input tensors of prompts to use in place of those of the pass."""
        recording = trace.recording
        self.model, self._trace, self._sample, self._prompts = recording.model, trace, sample, prompts or {}
        row = slice(sample, sample + 1)
        self.inputs = [x[row].detach() for x in recording.block_inputs]
        self._parts, self._projections = recording.parts, recording.structure.output_projections

    def part(self, block: int) -> AttentionParts:
        """Return queries, keys, values, weights and outputs of the attention of block ``block``, for this sample."""
        parts = self._parts[block]
        if parts is None or self._projections[block] is None:
            raise ExplainerError(f"The queries, keys, values and output projection of block {block + 1} of this model cannot be read.")
        row = slice(self._sample, self._sample + 1)
        return AttentionParts(*(getattr(parts, name)[row].detach() for name in ("query", "key", "value", "weights", "output")))

    def attention_output(self, block: int, weights: Tensor) -> Tensor:
        """Return the output (1, S, D) of the attention of block ``block``, after its projection, with other ``weights`` (1, H, S, S)."""
        return self.project(block, weights @ self.part(block).value)

    def project(self, block: int, context: Tensor) -> Tensor:
        """Apply the output projection of the attention of block ``block`` to ``context``, the output of its heads (1, H, S, d), and return
        (1, S, D).
        """
        projection = self._projections[block]
        assert projection is not None
        weight, bias = (None if tensor is None else tensor.detach() for tensor in projection)
        assert weight is not None
        return F.linear(context.transpose(1, 2).flatten(2), weight, bias)

    def attention_input(self, block: int) -> Tensor:
        """Return the tokens that the attention of a block takes, z = LN(x): (1, S, D)."""
        return self._attention(block)[1]

    def after_block(self, attention_output: Tensor) -> Tensor:
        """Return the output tokens (1, S, D) of the last block if the output of its attention is ``attention_output``; its residual and MLP
        are applied as usual.
        """
        module, _ = self._attention(len(self.inputs) - 1)
        outputs: list[Tensor] = []

        def replace_output(child: nn.Module, args: Any, output: Any) -> Any:
            return (
                attention_output.reshape(output.shape)
                if isinstance(output, Tensor)
                else (attention_output.reshape(output[0].shape), *output[1:])
            )

        def keep_output(child: nn.Module, args: Any, output: Any) -> None:
            outputs.append(self.model.block_kind.output_tokens(output).detach())

        with after([(module, replace_output), (self.model.blocks[-1], keep_output)]):
            self._pass()
        return outputs[-1]

    def logits(self, tokens: Tensor) -> Tensor:
        """Return the logits (N, prompts) that the model computes from each of the ``tokens`` (N, D), taken as the only output token of the
        last block.
        """

        def replace_output(child: nn.Module, args: Any, output: Any) -> Any:
            first = output if isinstance(output, Tensor) else output[0]
            single_tokens = tokens[:, None].to(first)
            return single_tokens if isinstance(output, Tensor) else (single_tokens, *output[1:])

        with after([(self.model.blocks[-1], replace_output)]):
            return self._pass()

    def logits_without_head(self, block: int, head: int) -> Tensor:
        """Return the logits (1, prompts) of the model if the output of attention head ``head`` of block ``block`` is set to zero at every
        token.
        """
        module, _ = self._attention(block)
        context = torch.zeros_like(self.part(block).output)
        context[:, head] = self.part(block).output[:, head]
        of_head = self.project(block, context) - self.project(block, torch.zeros_like(context))

        def take_away(child: nn.Module, args: Any, output: Any) -> Any:
            first = output if isinstance(output, Tensor) else output[0]
            changed = first - of_head.reshape(first.shape).to(first)
            return changed if isinstance(output, Tensor) else (changed, *output[1:])

        with after([(module, take_away)]):
            return self._pass()

    def _pass(self) -> Tensor:
        with torch.no_grad():
            return self._trace.answer(self._sample, 1, self._prompts.get)

    def _attention(self, block: int) -> tuple[nn.Module, Tensor]:
        """Return a pair for ``block``: the module that computes its attention, and the tensor of tokens (1, S, D) that this module got in
        the pass over the sample.
        """
        modules_of_samples = _MODULES.setdefault(self._trace.recording, {})
        if self._sample not in modules_of_samples:
            modules_of_samples[self._sample] = self._find_modules()
        return modules_of_samples[self._sample][block]

    def _find_modules(self) -> list[tuple[nn.Module, Tensor]]:
        """Return a pair for each block: the outermost module that computes its attention with the output projection, and the tensor of
        tokens (1, S, D) that this module got in the pass over the sample.

        Raises ExplainerError for a block without such a module.
        """
        expected_outputs = [self.project(block, self.part(block).output) for block in range(len(self.inputs))]
        modules: dict[int, tuple[int, nn.Module, Tensor]] = {}  # with the place in the order in which modules begin
        start_order: dict[nn.Module, int] = {}
        hooks: list[tuple[nn.Module, Hook]] = []
        for number, block in enumerate(self.model.blocks):

            def look(child: nn.Module, args: Any, kwargs: Any, output: Any, number: int = number) -> None:
                first = output if isinstance(output, Tensor) else output[0] if isinstance(output, Sequence) and output else None
                x = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
                expected_output = expected_outputs[number]
                if (
                    x is None
                    or not isinstance(first, Tensor)
                    or first.numel() != expected_output.numel()
                    or x.numel() != expected_output.numel()
                ):
                    return
                distance = float((first.detach().reshape(expected_output.shape) - expected_output).abs().max())
                is_first = (
                    number not in modules or start_order[child] < modules[number][0]
                )  # what follows attention may give it on as it is
                if is_first and distance <= CLOSE * float(expected_output.abs().max()):
                    modules[number] = start_order[child], child, x.detach().reshape(expected_output.shape)

            hooks += [(child, look) for child in block.modules() if child is not block]

        def begin(child: nn.Module, args: Any) -> None:
            start_order.setdefault(child, len(start_order))

        parts = [child for block in self.model.blocks for child in block.modules()]
        with remove_hooks_after(child.register_forward_pre_hook(in_this_thread(begin)) for child in parts), after(hooks, with_kwargs=True):
            self._pass()
        for number in range(len(self.inputs)):
            if number not in modules:
                raise ExplainerError(
                    f"No module of block {number + 1} of {self.model.name} gives what its attention gives, so that attention cannot be "
                    "changed there; send a model whose blocks call a module of attention, or ask rise or tis, which read no features."
                )
        return [modules[number][1:] for number in range(len(self.inputs))]


def after(hooks: Iterable[tuple[nn.Module, Hook]], with_kwargs: bool = False) -> AbstractContextManager[None]:
    """Return a context in which forward hooks run after these modules, in this thread alone; ``with_kwargs`` passes them keyword arguments
    too.
    """
    return remove_hooks_after(module.register_forward_hook(in_this_thread(hook), with_kwargs=with_kwargs) for module, hook in hooks)
