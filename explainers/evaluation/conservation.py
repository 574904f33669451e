"""Conservation: at the input of each block, what a rule's signal and the bias terms after it add up to, next to the explained number.

A rule that hands the explained number out in shares loses none of it on the way, so that the sums of all blocks are that number (Ali et al.
2022, who look at the first of them alone). Where they part, the blocks between lose something or make it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from explainers.autograd.rules import Rule
from explainers.autograd.signals import fields_of
from explainers.methods import parse
from explainers.models.eval_mode import with_gradients
from explainers.models.model import Model
from explainers.models.structure.hooks import remove_hooks_after
from explainers.pipeline.precision import has_double
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget, TargetLike

#: The columns of a row that hold the results of :func:`sums_at_blocks`, a number for each block.
BLOCK_COLUMNS = ("blocks.explained", "blocks.tokens", "blocks.biases")


def sums_at_blocks(session: Session, target: ResolvedTarget, rule: Rule) -> Tensor:
    """Return three sums for each sample of ``session`` and block, (B, 3, L), in float64, that show whether ``rule`` conserves the number
    that ``target`` stands for.

    The three are the number that the backward pass starts with, the part of it in the tokens at the block's input, and the sum of the bias
    terms from that block on.

    The part of a token is its product with the signal. Under a rule of relevance, which starts with 1 at the class and not with its logit,
    it is the relevance itself, computed in float64 if the device supports it. Bias terms are zero under a rule that leaves them out.
    """
    is_relevance = rule.is_relevance
    recording = session.double if is_relevance and has_double(session.recording.logits.device) else session.recording
    output_gradient = target.output_gradient(recording.logits, rule)
    begun = output_gradient if is_relevance else output_gradient * recording.logits.detach()
    inputs = recording.block_inputs
    biases = [torch.zeros(len(x), dtype=torch.float64, device=x.device) for x in inputs]

    def note_biases(block: int) -> Callable[[Tensor], None]:
        def note(_: Tensor) -> None:
            so_far = recording.backward_pass.biases
            if so_far is not None and rule.bias:
                biases[block] = so_far.by_token.double().sum(1) + so_far.unplaced.double()

        return note

    with remove_hooks_after([x.register_hook(note_biases(block)) for block, x in enumerate(inputs) if x.requires_grad]):
        signals = recording.backward(rule, output_gradient, fields_of(["block_inputs", "bias"])).block_inputs
    pairs = zip(inputs, signals, strict=True)
    tokens = [(signal if is_relevance else signal * x.detach()).double().flatten(1).sum(1) for x, signal in pairs]
    explained = begun.double().sum(1)[:, None].expand(-1, len(inputs))
    return torch.stack([explained, torch.stack(tokens, 1), torch.stack(biases, 1)], 1)


def block_sums(model: Model, tensors: Mapping[str, Tensor], target: TargetLike, specs: Sequence[str], seed: int) -> Tensor:
    """Return :func:`sums_at_blocks` of ``model`` for one input, ``tensors``, and one ``target``, under the rule of each of M methods
    (``specs``): (M, 3, L). A rule that several methods share is computed once; a method without a rule gets NaN.
    """
    with with_gradients():
        session = Session(model, without_prompts(tensors), target, seed=seed)
        chosen = session.targets_and_rows()[0][0]
        rules = [parse(spec).rule for spec in specs]
        sums = {rule: sums_at_blocks(session, chosen, rule)[0].cpu() for rule in dict.fromkeys(rules) if rule is not None}
    nothing = torch.full((3, len(session.recording.block_inputs)), torch.nan, dtype=torch.float64)
    return torch.stack([nothing if rule is None else sums[rule] for rule in rules])


def without_prompts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the input tensors of a model without the tensors of the prompts with which a CLIP model compares the input."""
    return {"pixel_values": tensors["pixel_values"]} if "pixel_values" in tensors else dict(tensors)
