"""The correlation of two seeds of a method that draws at random, estimated from one map and noted on it.

Two seeds give two maps, each of which is what they have in common plus noise of its own. How much the two would correlate is estimated from
one of them, without asking the model again: its samples are parted into groups, the map is made again without each group in turn, and the
variance of these maps says how large the noise is (the delete-a-group jackknife, Kott 2001, after Tukey 1958). Of the variance V of the map
over its patches or words, that of the noise N is no seed's but this one's, so that two seeds correlate by 1 - N / V.

Halves of the samples with Spearman and Brown's correction would be honest for means alone: a fit to half of the samples can be far worse
than half as good, where there are not many more samples than tokens. Nine tenths of them are nearly all. The estimate rests on ten groups,
so it has an error itself, of about a tenth where it is near a half, and it errs on the low side where the samples hardly determine a fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from explainers.methods.specs import Option
from explainers.records.notes import Note
from explainers.records.trace import MethodOutput, Trace

SAMPLE_GROUPS = 10
NOISE = 0.5  # below this correlation of two seeds, more of the map's variance is noise than is not
WANTED = 0.8  # the correlation that a note says how to reach
_LEAST = 0.02  # what is taken for a correlation that cannot be told from none, where samples are counted


def group_of(samples: int, together: int = 1) -> Tensor:
    """Return the number, 0 to 9, of the group of each sample, (samples,), of ``samples`` in all. ``together`` consecutive samples share a
    group.
    """
    return torch.arange(samples) // together % SAMPLE_GROUPS


def seed_correlation(scores: Tensor, without: Tensor) -> float | None:
    """Estimate how a map, ``scores`` (N,), correlates with that of another seed, from ``without`` (groups, N): the maps made without each
    group of samples.

    The result is between 0 and 1; None if the map has no variance, or if there are fewer than two groups.
    """
    groups = len(without)
    scores, without = scores.double(), without.double()
    variance = float(scores.var(correction=0)) if len(scores) > 1 else 0.0
    if groups < 2 or not variance > 0:
        return None
    deviations = without - without.mean(1, keepdim=True)  # correlation does not see what is added to all scores
    noise = float((groups - 1) / groups * (deviations - deviations.mean(0)).square().sum(0).mean())
    return min(1.0, max(0.0, 1 - noise / variance))


def samples_for(correlation: float, samples: int) -> int:
    """Estimate how many samples two seeds need for their maps to correlate by ``WANTED``, if they correlate by ``correlation`` with
    ``samples`` now; rounded up to two digits.

    The noise has a variance that falls with the number of samples.
    """
    share = max(correlation, _LEAST)
    count = samples * (1 - share) / share * WANTED / (1 - WANTED)
    digits = int(10 ** max(0, math.floor(math.log10(count)) - 1))
    return math.ceil(round(count / digits, 6)) * digits


def add_seed_correlations(
    output: MethodOutput, trace: Trace, without: Sequence[Tensor], name: str, option: Option, samples: int
) -> MethodOutput:
    """Return ``output``, the maps of ``trace``, with the estimated correlation of two seeds for each sample, and with a note if it is low.

    ``without`` holds, for each sample, the scores (groups, N) of its content made without each group of draws. ``name`` and ``option`` are
    the name and the declaration of the option that sets the number of ``samples``.
    """
    correlations = [
        seed_correlation(scores[content], scores_without)
        for scores, content, scores_without in zip(output.scores, trace.content, without, strict=True)
    ]
    return _with_correlations(output, correlations, name, option, samples)


def add_measured_correlations(output: MethodOutput, trace: Trace, second: Tensor, name: str, option: Option, samples: int) -> MethodOutput:
    """Return ``output``, the maps of ``trace``, with the correlation of each with the map of another seed, ``second`` (B, S), as
    :func:`add_seed_correlations` does with an estimate. It is for maps that are no mean over their draws, such as results of a search.
    """
    correlations: list[float | None] = []
    for scores, other, content in zip(output.scores, second, trace.content, strict=True):
        pair = torch.stack([scores[content], other[content]]).double()
        is_varied = pair.shape[1] > 1 and bool((pair.var(1, correction=0) > 0).all())
        correlations.append(max(0.0, float(torch.corrcoef(pair)[0, 1])) if is_varied else None)
    return _with_correlations(output, correlations, name, option, samples)


def _with_correlations(output: MethodOutput, correlations: Sequence[float | None], name: str, option: Option, samples: int) -> MethodOutput:
    notes = [() if correlation is None else _notes_on_noise(correlation, name, option, samples) for correlation in correlations]
    earlier_notes = output.notes or ((),) * len(notes)
    return replace(output, seed_correlations=tuple(correlations), notes=tuple((*a, *b) for a, b in zip(earlier_notes, notes, strict=True)))


def _notes_on_noise(correlation: float, name: str, option: Option, samples: int) -> tuple[Note, ...]:
    """Return a note in a tuple if more than half of a map is noise, judged by its ``correlation`` with another seed, with advice on the
    option ``name``, the number of ``samples``; else an empty tuple.
    """
    if correlation >= NOISE:
        return ()
    count, most = samples_for(correlation, samples), option.maximum
    at_least = "at least " if correlation < _LEAST else ""
    remedy = f"ask for {at_least}{name}={count}" if most is None or count <= most else f"even {name}={most} are too few"
    text = f"This map is mostly noise: with another seed it would correlate with this one by about {correlation:.2f}; {remedy}."
    return (Note(text, "noise"),)
