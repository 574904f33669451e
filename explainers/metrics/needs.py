"""The arguments that metrics take besides curves: each is a function of one measured input, with the maps of M methods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.metrics.registry import need

Measured = Any  # an explainers.evaluation.measuring.Measurement, which stands above this room


def _for_each_map(measured: Measured, value: Tensor) -> Tensor:
    """Repeat a value of the input for each of its maps."""
    return value.expand(len(measured.maps), *value.shape)


def _classes(measured: Measured, which: str) -> Tensor | None:
    """Return a set of classes by its name ``which``, repeated for each map, bool (M, C); None if the set is empty."""
    indices = measured.classes_of(which)
    if not indices:
        return None
    mask = torch.zeros(measured.explanation.logits.shape[-1], dtype=torch.bool)
    mask[sorted(indices)] = True
    return _for_each_map(measured, mask)


# --- what the model says ----------------------------------------------------------------------------------------------


@need("whole", "(B, C): probabilities of the classes for the whole input")
def whole(measured: Measured) -> Tensor | None:
    """Return the probabilities of the classes for the whole input, repeated for each map: (M, C)."""
    result: Tensor = measured.probabilities(measured.explanation.logits).expand(len(measured.maps), -1)
    return result


@need("logits", "(B, C): logits of the classes for the whole input")
def logits(measured: Measured) -> Tensor | None:
    """Return the logits of the classes for the whole input, repeated for each map: (M, C)."""
    result: Tensor = measured.explanation.logits.expand(len(measured.maps), -1)
    return result


@need("target", "bool (B, C): the explained class, or the classes of the explained group")
def target(measured: Measured) -> Tensor | None:
    """Return which classes are explained, bool (M, C); None if there are none."""
    return _classes(measured, "target")


@need("gold", "bool (B, C): the classes that the data set gives, any of which is right")
def gold(measured: Measured) -> Tensor | None:
    """Return which classes the data set calls right, bool (M, C); None if there are none."""
    return _classes(measured, "gold")


@need("answer", "bool (B, C): the classes that keep the answer: the explained ones; where the data set's class is explained, all it gives")
def answer(measured: Measured) -> Tensor | None:
    """Return which classes keep the answer, bool (M, C); None if there are none."""
    return _classes(measured, "answer")


# --- scores -----------------------------------------------------------------------------------------------------------


@need("scores", "(B, N): one score for each patch or word piece, the same tokens in each row")
def scores(measured: Measured) -> Tensor | None:
    """Return the scores of the maps."""
    result: Tensor = measured.scores
    return result


@need("leave_one_out", "(B, N): how far the explained number falls without each patch or word piece alone")
def leave_one_out(measured: Measured) -> Tensor | None:
    """Ask the model without each token, and return the falls of the explained number (M, N)."""
    result: Tensor | None = measured.graded.of("leave_one_out")
    return result


@need(
    "soft", "(B, 3): probability of the explained class with elements of the embedded tokens kept by the map, removed by it, and all zero"
)
def soft(measured: Measured) -> Tensor | None:
    """Ask the model with elements of the embedded tokens left out, and return the probabilities of the explained class (M, 3); None if that
    is not known.
    """
    result: Tensor | None = measured.graded.of("soft")
    return result


@need("shown", "(B, C): probabilities of the classes for the picture times the map, which goes from 0 to 1")
def shown(measured: Measured) -> Tensor | None:
    """Ask the model about the picture times each map, and return the probabilities of the classes (M, C); None for a text."""
    result: Tensor | None = measured.graded.of("shown")
    return result


@need("maps", "(B, rows, columns): one score for each patch")
def maps(measured: Measured) -> Tensor | None:
    """Return the scores laid out as the patches lie, (M, rows, columns); None for a text."""
    grid = measured.maps[0].patches
    result: Tensor | None = None if grid is None else measured.scores.unflatten(1, grid)
    return result


# --- what is marked ---------------------------------------------------------------------------------------------------


@need("mask", "bool (B, height, width): where the explained object is")
def mask(measured: Measured) -> Tensor | None:
    """Return where the explained object is, bool (M, height, width); None if nothing of it is seen."""
    result: Tensor | None = None if measured.masks is None else measured.masks[0].expand(len(measured.maps), -1, -1)
    return result


@need("labelled", "bool (B, height, width): which pixels the data set says anything about")
def labelled(measured: Measured) -> Tensor | None:
    """Return which pixels are labelled, bool (M, height, width); None if nothing of the explained object is seen."""
    result: Tensor | None = None if measured.masks is None else measured.masks[1].expand(len(measured.maps), -1, -1)
    return result


@need("others", "bool (B, K, height, width): where each of the other objects is")
def others(measured: Measured) -> Tensor | None:
    """Return where the objects of other classes are, bool (M, K, height, width); None if none of them is seen."""
    result: Tensor | None = None if measured.other_masks is None else measured.other_masks.expand(len(measured.maps), -1, -1, -1)
    return result


@need("cell", "int (B, 2): row and column of the picture of the explained class in a mosaic of two rows of two")
def cell(measured: Measured) -> Tensor | None:
    """Return row and column of the explained picture in the mosaic, int (M, 2); None for an input that is no mosaic."""
    result: Tensor | None = measured.cell
    return result


@need("word_scores", "(B, W): one score for each word of the text; -inf for one that the model did not read")
def word_scores(measured: Measured) -> Tensor | None:
    """Return the scores of whole words, (M, W); None for a picture."""
    result: Tensor | None = None if measured.words is None else measured.words[0]
    return result


@need("rationale", "bool (B, W): the words that people marked, read or not")
def rationale(measured: Measured) -> Tensor | None:
    """Return which words people marked, all passages together, bool (M, W); None for a picture."""
    return None if measured.words is None else _for_each_map(measured, measured.words[1].any(0))


@need("passages", "bool (B, P, W): the words of each passage that people marked")
def passages(measured: Measured) -> Tensor | None:
    """Return which words each marked passage has, bool (M, P, W); None for a picture."""
    return None if measured.words is None else _for_each_map(measured, measured.words[1])


# --- sums and other maps of the same model ----------------------------------------------------------------------------


@need("error", "(B,): how far the scores miss the explained number; not a number where a method promises no sum")
def error(measured: Measured) -> Tensor | None:
    """Return the completeness errors (M,); NaN for a method that promises no sum."""
    errors = (attribution.completeness_error for attribution in measured.maps)
    return torch.tensor([float("nan") if value is None else value for value in errors])


@need(
    "block_sums",
    "(B, 3, L): at the input of each block the explained number, what the tokens hold of it, and the bias terms behind it; "
    "not a number where a method follows no rule",
)
def block_sums(measured: Measured) -> Tensor | None:
    """Return three sums at each block, (M, 3, L): the explained number, the tokens' sum and the bias terms."""
    result: Tensor = measured.block_sums
    return result


@need("other", "(B, N): the scores when another class is explained")
def other(measured: Measured) -> Tensor | None:
    """Return the scores (M, N) of the maps of the runner-up class."""
    result: Tensor = measured.other_scores
    return result


@need("randomised", "(B, L, N): the scores after the weights of ever more layers were randomised, from the output down")
def randomised(measured: Measured) -> Tensor | None:
    """Return the scores (M, L, N) of the maps after the weights of more and more layers were randomised."""
    result: Tensor = measured.randomised_scores
    return result


@need("all_random", "(B, N): the scores after the weights of all layers were randomised")
def all_random(measured: Measured) -> Tensor | None:
    """Return the scores (M, N) of the maps with random weights in all layers: the last step of ``randomised``, if a metric takes
    these too.
    """
    result: Tensor = measured.randomised_scores[:, -1] if "randomised" in measured.setup.needs else measured.explain_again("all_random")
    return result


@need("disturbed", "(B, K, N): the scores after K small changes of the input")
def disturbed(measured: Measured) -> Tensor | None:
    """Return the scores (M, K, N) of the maps of K slightly changed inputs."""
    result: Tensor = measured.explain_again("disturbed")
    return result
