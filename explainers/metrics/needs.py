"""The arguments that metrics take besides curves: each is a function of one measured input, with the maps of M methods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.metrics.registry import need

Measured = Any  # an explainers.evaluation.measuring.Measurement, which stands above this room


def _for_each_map(measured: Measured, value: Tensor) -> Tensor:
    """Repeat ``value``, a tensor that belongs to a measured input, along a new first axis, once for each of its M maps."""
    return value.expand(len(measured.maps), *value.shape)


def _classes(measured: Measured, which: str) -> Tensor | None:
    """Return the set of classes called ``which`` of a measured input, repeated for each map: bool (M, C); None if it is empty."""
    indices = measured.classes_of(which)
    if not indices:
        return None
    mask = torch.zeros(measured.explanation.logits.shape[-1], dtype=torch.bool)
    mask[sorted(indices)] = True
    return _for_each_map(measured, mask)


# --- what the model says ----------------------------------------------------------------------------------------------


@need("whole", "(B, C): probabilities of the classes for the whole input")
def whole(measured: Measured) -> Tensor:
    """Return the probabilities of the classes for a whole measured input, repeated for each of its M maps: (M, C)."""
    result: Tensor = measured.probabilities(measured.explanation.logits).expand(len(measured.maps), -1)
    return result


@need("logits", "(B, C): logits of the classes for the whole input")
def logits(measured: Measured) -> Tensor:
    """Return the logits of the classes for a whole measured input, repeated for each of its M maps: (M, C)."""
    result: Tensor = measured.explanation.logits.expand(len(measured.maps), -1)
    return result


@need("target", "bool (B, C): the explained class, or the classes of the explained group")
def target(measured: Measured) -> Tensor | None:
    """Return which classes of a measured input are explained, repeated for each of its M maps: bool (M, C); None if there are none."""
    return _classes(measured, "target")


@need("gold", "bool (B, C): the classes that the data set gives, any of which is right")
def gold(measured: Measured) -> Tensor | None:
    """Return which classes the data set calls right for a measured input, repeated for each of its M maps: bool (M, C); None if none."""
    return _classes(measured, "gold")


@need("answer", "bool (B, C): the classes that keep the answer: the explained ones; where the data set's class is explained, all it gives")
def answer(measured: Measured) -> Tensor | None:
    """Return which classes count as the same answer to a measured input, repeated for each of its M maps: bool (M, C); None if none."""
    return _classes(measured, "answer")


# --- scores -----------------------------------------------------------------------------------------------------------


@need("scores", "(B, N): one score for each patch or word piece, the same tokens in each row")
def scores(measured: Measured) -> Tensor:
    """Return the scores (M, N) of the M maps of a measured input, one for each of its N tokens."""
    result: Tensor = measured.scores
    return result


@need("leave_one_out", "(B, N): how far the explained number falls without each patch or word piece alone")
def leave_one_out(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input without each of its N tokens; return the falls of the explained number (M, N), the same for each
    of the M maps.
    """
    result: Tensor | None = measured.graded_answers.of("leave_one_out")
    return result


@need("random_sets", "bool (B, K, N): random sets of a fifth of the patches or word pieces, the same for each map")
def random_sets(measured: Measured) -> Tensor:
    """Return random sets of a fifth of the N tokens of a measured input, repeated for each of its M maps: bool (M, K, N)."""
    return _for_each_map(measured, measured.token_sets.random_sets)


@need("falls_of_random_sets", "(B, K): how far the explained number falls without each of the random sets")
def falls_of_random_sets(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input without each of K random sets of its tokens; return the falls of the explained number (M, K),
    the same for each of the M maps; None for an input of a single token.
    """
    result: Tensor | None = measured.token_sets.of("falls_of_random_sets")
    return result


@need("sized_sets", "bool (B, K, N): random sets of one patch or word piece to 80 % of all, the same for each map")
def sized_sets(measured: Measured) -> Tensor:
    """Return random sets of several sizes of the N tokens of a measured input, repeated for each of its M maps: bool (M, K, N)."""
    return _for_each_map(measured, measured.token_sets.sized_sets)


@need("falls_of_sized_sets", "(B, K): how far the explained number falls without each of the sets of several sizes")
def falls_of_sized_sets(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input without each of K random sets of several sizes; return the falls of the explained number (M, K),
    the same for each of the M maps; None for an input of a single token.
    """
    result: Tensor | None = measured.token_sets.of("falls_of_sized_sets")
    return result


@need("claimed_share", "(B,): the share of the input's parts in the smallest set found that earns a claim; 0 where the map earns none")
def claimed_share(measured: Measured) -> Tensor:
    """Search the claims of the M maps of a measured input; return the share of its parts in the set of each claim (M,), 0 without one."""
    result: Tensor = measured.claimed_shares
    return result


@need("groups", "bool (B, G, N): the patches or word pieces of each of ten groups, cut from the order of the map, the largest first")
def groups(measured: Measured) -> Tensor:
    """Return the N tokens of a measured input in groups by falling score, for each of its M maps: bool (M, G, N)."""
    result: Tensor = measured.token_sets.groups
    return result


@need("falls_of_groups", "(B, G): how far the class's probability falls without each group alone")
def falls_of_groups(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input without each of the G groups of each of its M maps; return the falls of the explained class's
    probability (M, G); None for an input of a single token.
    """
    result: Tensor | None = measured.token_sets.of("falls_of_groups")
    return result


@need("falls_one_by_one", "(B, N): how far the class's probability falls without the 1 to N most important word pieces")
def falls_one_by_one(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input without the first 1 to N tokens of each of its M maps; return the falls of the explained class's
    probability (M, N); None for an input of a single token.
    """
    result: Tensor | None = measured.token_sets.of("falls_one_by_one")
    return result


@need("aopc_limits", "(B, 2): the smallest and the largest mean fall of the class's probability that any order of the word pieces reaches")
def aopc_limits(measured: Measured) -> Tensor | None:
    """Search for the orders of the tokens of a measured input by which the explained class's probability falls least and most; return the
    two mean falls, repeated for each of the M maps, (M, 2); None for an input of a single token or of more than 64.
    """
    result: Tensor | None = measured.token_sets.of("aopc_limits")
    return result


@need(
    "soft", "(B, 3): probability of the explained class with elements of the embedded tokens kept by the map, removed by it, and all zero"
)
def soft(measured: Measured) -> Tensor | None:
    """Ask the model about a measured input with elements of its embedded tokens set to 0; return the class's probabilities (M, 3); None if
    that is not known.
    """
    result: Tensor | None = measured.graded_answers.of("soft")
    return result


@need("shown", "(B, C): probabilities of the classes for the picture times the map, which goes from 0 to 1")
def shown(measured: Measured) -> Tensor | None:
    """Ask the model about a measured picture times each of its M maps; return the probabilities (M, C) of classes; None for a text."""
    result: Tensor | None = measured.graded_answers.of("shown")
    return result


@need("maps", "(B, rows, columns): one score for each patch")
def maps(measured: Measured) -> Tensor | None:
    """Return the scores of the M maps of a measured picture on its grid of patches, (M, rows, columns); None for a text."""
    grid = measured.maps[0].patches
    result: Tensor | None = None if grid is None else measured.scores.unflatten(1, grid)
    return result


# --- what is marked ---------------------------------------------------------------------------------------------------


@need("mask", "bool (B, height, width): where the explained object is")
def mask(measured: Measured) -> Tensor | None:
    """Return the pixels of the explained object in a measured picture, bool (M, height, width); None if it is not visible."""
    result: Tensor | None = None if measured.masks is None else measured.masks[0].expand(len(measured.maps), -1, -1)
    return result


@need("labelled", "bool (B, height, width): which pixels the data set says anything about")
def labelled(measured: Measured) -> Tensor | None:
    """Return which pixels of a measured picture are labelled, bool (M, height, width); None if the explained object is not visible."""
    result: Tensor | None = None if measured.masks is None else measured.masks[1].expand(len(measured.maps), -1, -1)
    return result


@need("others", "bool (B, K, height, width): where each of the other objects is")
def others(measured: Measured) -> Tensor | None:
    """Return the pixels of K objects of other classes in a measured picture, bool (M, K, height, width); None if none is visible."""
    result: Tensor | None = None if measured.other_masks is None else measured.other_masks.expand(len(measured.maps), -1, -1, -1)
    return result


@need("cell", "int (B, 2): row and column of the picture of the explained class in a mosaic of two rows of two")
def cell(measured: Measured) -> Tensor | None:
    """Return row and column of the explained picture in a measured mosaic, int (M, 2); None for any other input."""
    result: Tensor | None = measured.cell
    return result


@need("word_scores", "(B, W): one score for each word of the text; -inf for one that the model did not read")
def word_scores(measured: Measured) -> Tensor | None:
    """Return the scores (M, W) of the whole words of a measured text by M maps; None for a picture."""
    result: Tensor | None = None if measured.words is None else measured.words[0]
    return result


@need("rationale", "bool (B, W): the words that people marked, read or not")
def rationale(measured: Measured) -> Tensor | None:
    """Return which words of a measured text people marked, in any passage: bool (M, W); None for a picture."""
    return None if measured.words is None else _for_each_map(measured, measured.words[1].any(0))


@need("passages", "bool (B, P, W): the words of each passage that people marked")
def passages(measured: Measured) -> Tensor | None:
    """Return which words of a measured text are in each of P marked passages: bool (M, P, W); None for a picture."""
    return None if measured.words is None else _for_each_map(measured, measured.words[1])


# --- sums and other maps of the same model ----------------------------------------------------------------------------


@need("error", "(B,): how far the scores miss the explained number; not a number where a method promises no sum")
def error(measured: Measured) -> Tensor:
    """Return the completeness errors (M,) of the M maps of a measured input; NaN for a method that promises no sum."""
    errors = (attribution.completeness_error for attribution in measured.maps)
    return torch.tensor([float("nan") if value is None else value for value in errors])


@need(
    "block_sums",
    "(B, 3, L): at the input of each block the explained number, what the tokens hold of it, and the bias terms after it; "
    "not a number where a method follows no rule",
)
def block_sums(measured: Measured) -> Tensor:
    """Return three sums at each of L blocks, for M maps of a measured input: the explained number, the tokens' sum, the bias terms, (M, 3,
    L).
    """
    result: Tensor = measured.block_sums
    return result


@need("other", "(B, N): the scores when another class is explained")
def other(measured: Measured) -> Tensor:
    """Return the scores (M, N) of a measured input's maps for the runner-up class instead of the explained one."""
    result: Tensor = measured.other_scores
    return result


@need("randomised", "(B, L, N): the scores after the weights of ever more layers were randomised, from the output down")
def randomised(measured: Measured) -> Tensor:
    """Return the scores (M, L, N) of a measured input's maps after the weights of 1 to L layers were randomised."""
    result: Tensor = measured.randomised_scores
    return result


@need("all_random", "(B, N): the scores after the weights of all layers were randomised")
def all_random(measured: Measured) -> Tensor:
    """Return the scores (M, N) of a measured input's maps with random weights in all layers: the last step of ``randomised``, if a metric
    takes these too.
    """
    result: Tensor = measured.randomised_scores[:, -1] if "randomised" in measured.setup.needs else measured.explain_again("all_random")
    return result


@need("disturbed", "(B, K, N): the scores after K small changes of the input")
def disturbed(measured: Measured) -> Tensor:
    """Return the scores (M, K, N) of the maps of K slightly changed copies of a measured input."""
    result: Tensor = measured.explain_again("disturbed")
    return result
