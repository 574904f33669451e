"""What the model answers where a metric asks about the sizes of scores: about a picture times its map, and about an input of whose embedded
tokens elements are left out by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.evaluation.curve_logits import CurveLogits
from explainers.metrics.graded import from_zero_to_one
from explainers.models.model import Model
from explainers.models.passes import answers_of_rows
from explainers.models.removal.patches import first_time
from explainers.models.removal.token_removal import answer, repeat_sample

#: Needs of metrics for which the model is asked again besides curves, without an explanation.
ASKED_AGAIN = frozenset({"leave_one_out", "shown", "soft"})
SOFT_DRAWS = 8  # random draws of the kept elements: the papers' code draws once
_MAX_INPUTS_AT_ONCE = 16  # most inputs in one forward pass


def logits_of_shown(model: Model, tensors: Mapping[str, Tensor], maps: Tensor) -> Tensor:
    """Return the logits (M, C) of ``model`` for a picture in ``tensors``, a batch of one, multiplied by each of its maps (M, rows,
    columns).

    Maps are scaled from 0 to 1 and enlarged bilinearly. The normalised picture is multiplied, in which 0 is the mean colour.
    """
    scaled = from_zero_to_one(maps.flatten(1)).view_as(maps)
    pixels = tensors["pixel_values"]
    large = F.interpolate(scaled[:, None], size=pixels.shape[-2:], mode="bilinear", align_corners=False).to(pixels)

    def ask(part: Tensor) -> Tensor:
        repeated = repeat_sample(model, tensors, len(part))
        return answer(model, {**repeated, "pixel_values": repeated["pixel_values"] * part}).float().cpu()

    return answers_of_rows(large, model.device, _MAX_INPUTS_AT_ONCE, ask)


def logits_of_soft_removal(model: Model, tensors: Mapping[str, Tensor], scores: Tensor, content: Tensor, seed: int) -> Tensor:
    """Return logits (M, 3, draws, C) of ``model`` for an input, a batch of one in ``tensors``, with random elements of its embedded tokens,
    drawn by ``seed``, set to zero.

    For each map of ``scores`` (M, N), scaled from 0 to 1, there are three results: with each element of an embedded token kept with a
    probability equal to the token's score; with 1 minus that probability; and with all elements zero. Special tokens, which are False in
    ``content`` bool (S,), are not changed.
    """
    draw = torch.Generator().manual_seed(seed)
    width = _width(model, tensors)
    chances = from_zero_to_one(scores)
    answers = []
    for chance in chances:
        uniform = torch.rand(SOFT_DRAWS, len(chance), width, generator=draw)
        kept, removed = uniform < chance[:, None], uniform >= chance[:, None]
        answers.append(torch.stack([_with_elements(model, tensors, keep, content) for keep in (kept, removed, torch.zeros_like(kept))]))
    return torch.stack(answers)


def _with_elements(model: Model, tensors: Mapping[str, Tensor], keep: Tensor, content: Tensor) -> Tensor:
    """Return the logits (K, C) of ``model`` for one input, ``tensors``, K times with only the elements ``keep``, bool (K, N, D), of its
    content tokens, all others zero; ``content`` bool (S,) marks these tokens.
    """
    factor = torch.ones(len(keep), len(content), keep.shape[-1])
    factor[:, content.cpu()] = keep.float()
    return (
        answer(model, repeat_sample(model, tensors, len(keep)), [(model.entry, first_time(model, lambda x: x * factor.to(x)))])
        .float()
        .cpu()
    )


def _width(model: Model, tensors: Mapping[str, Tensor]) -> int:
    """Return the width of the embedded tokens that ``model`` makes of the input in ``tensors``."""
    widths: list[int] = []

    def note_width(tokens: Tensor) -> Tensor:
        widths.append(tokens.shape[-1])
        return tokens

    answer(model, tensors, [(model.entry, first_time(model, note_width))])
    return widths[0]


@dataclass(frozen=True)
class GradedAnswers:
    """The model's answers about one input that is removed by degrees, for metrics that judge the sizes of scores and not only their order.

    curve_logits    source of logits, which knows the model and the input
    scores          (M, N): the scores of N tokens by M methods
    indices         the explained classes
    against         the classes whose logits are subtracted; empty if none are
    probabilities   function from logits (..., C) to probabilities
    as_probability  whether maps explain a probability
    seed            seed of the random choice of elements that are set to zero
    """

    curve_logits: CurveLogits
    scores: Tensor
    indices: Sequence[int]
    probabilities: Callable[[Tensor], Tensor]
    as_probability: bool
    seed: int
    against: Sequence[int] = ()

    def of(self, need: str) -> Tensor | None:
        """Compute the value of ``need``, one of :data:`ASKED_AGAIN`: the falls (M, N) of the explained number without each token, the
        probabilities (M, C) for the picture multiplied by each map, or those (M, 3) after soft removal. None if this input has no such
        value.
        """
        source, classes = self.curve_logits, list(self.indices)
        if need == "leave_one_out":
            values = self.explained_number(source.without_each())
            return (values[0] - values[1:]).expand(len(self.scores), -1)
        if need == "shown":
            if source.grid is None:
                return None
            return self.probabilities(logits_of_shown(source.model, source.tensors, self.scores.unflatten(1, source.grid)))
        logits = logits_of_soft_removal(source.model, source.tensors, self.scores, source.content, self.seed)
        return self.probabilities(logits)[..., classes].sum(-1).mean(-1)

    def explained_number(self, logits: Tensor) -> Tensor:
        """Return the explained number (K,) for logits (K, C): the logit of the explained class (of a group their log-sum-exp) minus that of
        the classes that it is compared with, or its probability if maps explain a probability.
        """
        classes = list(self.indices)
        values = self.probabilities(logits)[:, classes].sum(-1) if self.as_probability else logits[:, classes].logsumexp(-1)
        return values - logits[:, list(self.against)].logsumexp(-1) if self.against else values

    def class_probability(self, logits: Tensor) -> Tensor:
        """Return the probability (K,) of the explained class or group for logits (K, C)."""
        return self.probabilities(logits)[:, list(self.indices)].sum(-1)
