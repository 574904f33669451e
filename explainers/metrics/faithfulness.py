"""Faithfulness read from curves: the model's answers while tokens are removed in the order of a map.

Every function takes B maps at once. The answers of a curve are (B, steps, C); how tokens are removed is decided by the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from explainers.metrics.registry import RemovalCurve, metric
from explainers.papers import ALI, ATTCAT, CHEFER, ERASER, LIBRAGRAD, SRG

Takes = Mapping[str, str | RemovalCurve]
TENTHS = tuple(n / 10 for n in range(1, 10))
WITH_NONE = (0.0, *TENTHS)
ALL_TENTHS = (*WITH_NONE, 1.0)
FEW_TOKENS_REMOVED = (0.01, 0.05, 0.1, 0.2, 0.5)

MOST = RemovalCurve(fractions=TENTHS)
LEFT = RemovalCurve(fractions=TENTHS, keeps_first=True)
FILLED = RemovalCurve(fractions=ALL_TENTHS, keeps_first=True, rounding="up", how="unknown")
SUPERPIXELS = 75  # of a picture, as many as each has in the set of MNIST's superpixels of Monti et al., CVPR 2017
PUT_IN = RemovalCurve(fractions=ALL_TENTHS, keeps_first=True, rounding="up", pixels=True, superpixels=SUPERPIXELS)
PRUNED = RemovalCurve(fractions=ALL_TENTHS, order="smallest", rounding="up", how="unknown", of="logits")
SMALLEST = 1e-12  # probability whose logarithm is taken in place of that of zero


def class_answers(answers: Tensor, classes: Tensor) -> Tensor:
    """Sum the answers (B, ..., C), which are probabilities, over the classes of each map, bool (B, C); return (B, ...)."""
    spread = classes.view(len(classes), *[1] * (answers.dim() - 2), classes.shape[-1])
    return torch.where(spread, answers.double(), 0.0).sum(-1)


def _is_top(answers: Tensor, classes: Tensor) -> Tensor:
    """Return (B, steps): 1 if the top class of the answers (B, steps, C) is one of the map's classes, bool (B, C), else 0."""
    return classes.gather(1, answers.argmax(-1)).double()


def share_on_top(answers: Tensor, classes: Tensor) -> Tensor:
    """Return (B,): the share of the answers (B, steps, C) whose top class is one of the map's classes, bool (B, C)."""
    return _is_top(answers, classes).mean(1)


def _change(answers: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Return the fall of the probability of the classes ``target`` from the answer to the whole input, ``whole`` (B, C), to each of
    ``answers`` (B, steps, C): (B, steps).
    """
    return class_answers(whole, target)[:, None] - class_answers(answers, target)


def mean_height(curves: Tensor) -> Tensor:
    """Return the area (B,) under curves (B, steps) over even steps from 0 to 1, by the trapezoid rule."""
    return torch.trapezoid(curves, dx=1 / (curves.shape[1] - 1), dim=1)


def _log_odds(answers: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Return, for each of B inputs, the mean over the steps of log(p / p0): p is the probability of the class ``target`` in ``answers`` (B,
    steps, C), p0 its probability in ``whole`` (B, C), the answer to the whole input. Returns (B,).
    """
    before, after = class_answers(whole, target).clamp(min=SMALLEST), class_answers(answers, target).clamp(min=SMALLEST)
    return (after.log() - before.log()[:, None]).mean(1)


_MIF: Takes = {"most": MOST, "target": "target"}
_LIF: Takes = {"left": LEFT, "target": "target"}


@metric(
    "mif",
    title="MIF accuracy",
    family="faithfulness",
    takes={"most": MOST, "answer": "answer"},
    direction="higher",
    source=LIBRAGRAD,
)
def mif(most: Tensor, answer: Tensor) -> Tensor:
    """Most important first: how often the class is no longer on top when the 10 to 90 % of the tokens with the largest scores are removed.
    Where the data set's class is explained and it gives several, any of them keeps the answer. LibraGrad's code gives the accuracy that is
    left, which is 1 minus this; its tables, where higher is better, print this.

    ``most`` (B, steps, C): answers with the largest scores removed; ``answer`` bool (B, C): the classes that keep the answer. Returns (B,).
    """
    return 1 - share_on_top(most, answer)


@metric(
    "mif_aopc",
    title="MIF AOPC",
    family="faithfulness",
    takes={**_MIF, "whole": "whole"},
    direction="higher",
    source=LIBRAGRAD,
    lowest=-1.0,
    compares_models=False,
)
def mif_aopc(most: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Most important first: how much the probability of the class falls, on average over the steps.

    ``most`` (B, steps, C): answers with the largest scores removed; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C).
    Returns (B,).
    """
    return _change(most, whole, target).mean(1)


@metric(
    "mif_log_odds",
    title="MIF log-odds",
    family="faithfulness",
    takes={**_MIF, "whole": "whole"},
    direction="lower",
    source=LIBRAGRAD,
    lowest=None,
    highest=None,
    unit="number",
)
def mif_log_odds(most: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Most important first: the mean logarithm of the class's probability over that in the whole input. LibraGrad's code gives it with
    the other sign.

    ``most`` (B, steps, C): answers with the largest scores removed; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C).
    Returns (B,).
    """
    return _log_odds(most, whole, target)


@metric(
    "lif",
    title="LIF accuracy",
    family="faithfulness",
    takes={"left": LEFT, "answer": "answer"},
    direction="higher",
    source=LIBRAGRAD,
)
def lif(left: Tensor, answer: Tensor) -> Tensor:
    """Least important first: how often the class stays on top when only the 10 to 90 % of the tokens with the largest scores are left.
    Where the data set's class is explained and it gives several, any of them keeps the answer.

    ``left`` (B, steps, C): answers with only the largest scores left; ``answer`` bool (B, C): the classes that keep the answer. Returns
    (B,).
    """
    return share_on_top(left, answer)


@metric(
    "lif_aopc",
    title="LIF AOPC",
    family="faithfulness",
    takes={**_LIF, "whole": "whole"},
    direction="lower",
    source=LIBRAGRAD,
    lowest=-1.0,
    compares_models=False,
)
def lif_aopc(left: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Least important first: how much the probability of the class falls, on average over the steps.

    ``left`` (B, steps, C): answers with only the largest scores left; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C).
    Returns (B,).
    """
    return _change(left, whole, target).mean(1)


@metric(
    "lif_log_odds",
    title="LIF log-odds",
    family="faithfulness",
    takes={**_LIF, "whole": "whole"},
    direction="higher",
    source=LIBRAGRAD,
    lowest=None,
    highest=None,
    unit="number",
)
def lif_log_odds(left: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Least important first: the mean logarithm of the class's probability over that in the whole input. LibraGrad's code gives it with
    the other sign.

    ``left`` (B, steps, C): answers with only the largest scores left; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C).
    Returns (B,).
    """
    return _log_odds(left, whole, target)


def _area_between(upper: Tensor, lower: Tensor) -> Tensor:
    """Return the area (B,) between two curves, ``upper`` and ``lower`` (B, steps), that meet at both ends; the ends themselves are not
    among the steps.
    """
    return (upper - lower).sum(1) / (upper.shape[1] + 1)


_BOTH: Takes = {"most": MOST, "left": LEFT, "target": "target"}


@metric(
    "srg", title="Symmetric relevance gain", family="faithfulness", takes=_BOTH, direction="higher", source=SRG, lowest=-0.9, highest=0.9
)
def srg(most: Tensor, left: Tensor, target: Tensor) -> Tensor:
    """The area under the class's probability while the least important tokens are removed first, minus that while the most important are
    removed first. A random order has 0.

    ``most`` and ``left`` (B, steps, C): answers with the largest scores removed, and with only these left; ``target`` bool (B, C). Returns
    (B,).

    Both curves begin with the whole input and end with nothing, so they differ in between alone: the trapezoids come to a tenth of the
    sum of the nine differences.
    """
    return _area_between(class_answers(left, target), class_answers(most, target))


@metric(
    "srg_accuracy",
    title="SRG of accuracy",
    family="faithfulness",
    takes={"most": MOST, "left": LEFT, "answer": "answer"},
    direction="higher",
    source=SRG,
    lowest=-0.9,
    highest=0.9,
)
def srg_accuracy(most: Tensor, left: Tensor, answer: Tensor) -> Tensor:
    """The symmetric relevance gain of accuracy: how often the class is on top takes the place of its probability. Where the data set's
    class is explained and it gives several, any of them keeps the answer.

    ``most`` and ``left`` (B, steps, C): answers with the largest scores removed, and with only these left; ``answer`` bool (B, C). Returns
    (B,).
    """
    return _area_between(_is_top(left, answer), _is_top(most, answer))


def _perturbation(answers: Tensor, gold: Tensor) -> Tensor:
    """Return the area (B,) under accuracy over the removed share, from 0 to 0.9 and not divided by it, as Chefer et al. count it.
    ``answers`` are the model's answers at each share, ``gold`` the right classes.
    """
    return torch.trapezoid(_is_top(answers, gold), dx=1 / answers.shape[1], dim=1)


@metric(
    "positive_auc",
    title="Positive perturbation AUC",
    family="faithfulness",
    takes={"black": RemovalCurve(fractions=WITH_NONE, pixels=True), "gold": "gold"},
    direction="lower",
    source=CHEFER,
    highest=0.9,
    kinds=("image",),
)
def positive_auc(black: Tensor, gold: Tensor) -> Tensor:
    """The area under the accuracy against the data set while pixels turn black, the most relevant first, 0 to 90 %. Any of the classes that
    it gives an input is right, also where another one is explained.

    ``black`` (B, steps, C): the answers; ``gold`` bool (B, C): the right classes. Returns (B,).
    """
    return _perturbation(black, gold)


@metric(
    "negative_auc",
    title="Negative perturbation AUC",
    family="faithfulness",
    takes={"black": RemovalCurve(fractions=WITH_NONE, order="least", pixels=True), "gold": "gold"},
    direction="higher",
    source=CHEFER,
    highest=0.9,
    kinds=("image",),
)
def negative_auc(black: Tensor, gold: Tensor) -> Tensor:
    """The area under the accuracy against the data set while pixels turn black, the least relevant first, 0 to 90 %. Any of the classes
    that it gives an input is right, also where another one is explained.

    ``black`` (B, steps, C): the answers; ``gold`` bool (B, C): the right classes. Returns (B,).
    """
    return _perturbation(black, gold)


@metric(
    "auac",
    title="AUAC",
    family="faithfulness",
    takes={"inserted": FILLED, "gold": "gold"},
    direction="higher",
    source=ALI,
    kinds=("text", "molecule"),
)
def auac(inserted: Tensor, gold: Tensor) -> Tensor:
    """The area under the probability of the data set's class (of several, all together) while a text of unknown words is filled in, the
    most relevant words first; of a molecule, while atoms come back to which no attention was paid.

    ``inserted`` (B, steps, C): the answers; ``gold`` bool (B, C): the right classes. Returns (B,).

    The published code also replaces special tokens; here they stay: ``auac_special`` is as that code has it.
    """
    return mean_height(class_answers(inserted, gold))


@metric(
    "auac_special",
    title="AUAC, special tokens too",
    family="faithfulness",
    takes={"inserted": replace(FILLED, special=True), "gold": "gold"},
    direction="higher",
    source=ALI.with_note("special tokens are replaced as in its code"),
    kinds=("text",),
)
def auac_special(inserted: Tensor, gold: Tensor) -> Tensor:
    """AUAC as the published code has it: special tokens are unknown at first as well, and come in by their scores like words.

    ``inserted`` (B, steps, C): the answers; ``gold`` bool (B, C): the right classes. Returns (B,).
    """
    return auac(inserted, gold)


@metric(
    "auac_superpixels",
    title="AUAC of superpixels",
    family="faithfulness",
    takes={"inserted": PUT_IN, "gold": "gold"},
    direction="higher",
    source=ALI.with_note("superpixels by SLIC in place of the authors' graphs of them"),
    kinds=("image",),
)
def auac_superpixels(inserted: Tensor, gold: Tensor) -> Tensor:
    """The area under the probability of the data set's class (of several, all together) while superpixels of the picture come back on
    black, the most relevant first. A superpixel has the sum of the map over its pixels. Needs the extra segments.

    ``inserted`` (B, steps, C): the answers; ``gold`` bool (B, C): the right classes. Returns (B,).
    """
    return auac(inserted, gold)


@metric(
    "au_mse",
    title="AU-MSE",
    family="faithfulness",
    takes={"pruned": PRUNED, "logits": "logits"},
    direction="lower",
    source=ALI,
    highest=None,
    unit="number",
    kinds=("text", "molecule"),
)
def au_mse(pruned: Tensor, logits: Tensor) -> Tensor:
    """The area under the squared change of all logits while words become unknown, those of the smallest relevance first, whatever its
    sign; of a molecule, while no attention is paid to more and more atoms.

    ``pruned`` (B, steps, C): logits along the curve; ``logits`` (B, C): those of the whole input. Returns (B,).

    The published code also replaces special tokens; here they stay: ``au_mse_special`` is as that code has it.
    """
    squares = (pruned.double() - logits.double()[:, None]).square().sum(-1)
    return mean_height(squares)


@metric(
    "au_mse_special",
    title="AU-MSE, special tokens too",
    family="faithfulness",
    takes={"pruned": replace(PRUNED, special=True), "logits": "logits"},
    direction="lower",
    source=ALI.with_note("special tokens are replaced as in its code"),
    highest=None,
    unit="number",
    kinds=("text",),
)
def au_mse_special(pruned: Tensor, logits: Tensor) -> Tensor:
    """AU-MSE as the published code has it: special tokens have scores like words, and become unknown too. Most of the change comes from
    them, so it says less of the words.

    ``pruned`` (B, steps, C): logits along the curve; ``logits`` (B, C): those of the whole input. Returns (B,).
    """
    return au_mse(pruned, logits)


_FEW: Takes = {"target": "target", "whole": "whole"}


@metric(
    "comprehensiveness",
    title="Comprehensiveness",
    family="faithfulness",
    takes={"removed": RemovalCurve(fractions=FEW_TOKENS_REMOVED, rounding="up"), **_FEW},
    direction="higher",
    source=ERASER,
    lowest=-1.0,
    compares_models=False,
)
def comprehensiveness(removed: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Fall of the class's probability without the 1, 5, 10, 20 and 50 % of the tokens with the largest scores, on average.

    ``removed`` (B, steps, C): answers without these tokens; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C). Returns
    (B,).
    """
    return _change(removed, whole, target).mean(1)


@metric(
    "sufficiency",
    title="Sufficiency",
    family="faithfulness",
    takes={"alone": RemovalCurve(fractions=FEW_TOKENS_REMOVED, keeps_first=True, rounding="up"), **_FEW},
    direction="lower",
    source=ERASER,
    lowest=-1.0,
    compares_models=False,
)
def sufficiency(alone: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Fall of the class's probability with only the 1, 5, 10, 20 and 50 % of the tokens with the largest scores, on average.

    ``alone`` (B, steps, C): answers with these tokens alone; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C). Returns
    (B,).
    """
    return _change(alone, whole, target).mean(1)


@metric(
    "attcat_aopc",
    title="AttCAT's AOPC",
    family="faithfulness",
    takes={**_MIF, "whole": "whole"},
    direction="higher",
    source=ATTCAT,
    kinds=("text",),
    compares_models=False,
)
def attcat_aopc(most: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Most important first: how much the probability of the class changes, up or down, on average over the steps.

    ``most`` (B, steps, C): answers with the largest scores removed; ``whole`` (B, C): those for the whole input; ``target`` bool (B, C).
    Returns (B,).
    """
    return _change(most, whole, target).abs().mean(1)


@metric(
    "attcat_log_odds",
    title="AttCAT's log-odds",
    family="faithfulness",
    takes={"masked": RemovalCurve(fractions=TENTHS, how="masked"), **_FEW},
    direction="lower",
    source=ATTCAT,
    lowest=None,
    highest=None,
    unit="number",
    kinds=("text",),
)
def attcat_log_odds(masked: Tensor, whole: Tensor, target: Tensor) -> Tensor:
    """Most important first, with the mask token in place of words: the mean logarithm of the class's probability over that in the whole
    text.

    ``masked`` (B, steps, C): answers with the largest scores masked; ``whole`` (B, C): those for the whole text; ``target`` bool (B, C).
    Returns (B,).
    """
    return _log_odds(masked, whole, target)
