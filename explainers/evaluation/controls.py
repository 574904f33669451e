"""Controls of a run: maps whose place in the order of the truth is known before any metric is asked.

They are made of what a data set knows of an input, or of the input alone. Methods see a model's trace and nothing else; so these are no
methods, and nobody can choose one to explain an answer.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.datasets import Dataset, Sample
from explainers.errors import ExplainerError
from explainers.metrics import Metric
from explainers.metrics.graded import from_zero_to_one
from explainers.metrics.localisation import covered_patches
from explainers.models.inputs.types import TextInput
from explainers.records.result import Attribution, Numerics

__all__ = ["CONTROLS", "KNOWN_ORDER", "Control", "KnownInput", "control_map", "find_controls", "for_controls", "known_input"]

TIE_BREAK = 1e-4  # largest difference that breaks a tie of equal scores, which go from 0 to 1
#: The annotation that a data set must give for controls, by the kind of its inputs.
TRUTH_GIVEN_BY = {"image": "mask", "text": "rationale"}
#: The needs of a metric that a control can meet: all others ask how a map would be if model, class or input were others, or for a sum.
_NEEDS_OF_CONTROLS = frozenset(
    {"whole", "logits", "target", "gold", "answer", "scores", "leave_one_out", "soft", "shown"}
    | {"random_sets", "falls_of_random_sets", "sized_sets", "falls_of_sized_sets", "groups", "falls_of_groups"}
    | {"falls_one_by_one", "aopc_limits", "claimed_share"}
    | {"maps", "mask", "labelled", "others", "cell", "word_scores", "rationale", "passages"}
)


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownInput:
    """The known facts about one input from which controls are made: one value (N,) for each patch in raster order, or for each word piece.

    truth     bool: whether the answer comes from this token
    salience  how much it stands out without any model: the mean Sobel magnitude of a patch, or the number of letters of a word
    distance  distance from the middle of the picture in patches, or of the text in pieces
    index     index of the input, from which all random draws are seeded
    """

    truth: Tensor
    salience: Tensor
    distance: Tensor
    index: int

    def draw_tokens(self, among: Tensor, count: int, draw: np.random.Generator) -> Tensor:
        """Choose ``count`` random tokens out of those where ``among``, bool (N,), is true, by the random numbers of ``draw``; return them
        as bool (N,).
        """
        chosen = torch.zeros_like(self.truth)
        chosen[torch.from_numpy(draw.permutation(np.flatnonzero(among.numpy()))[:count])] = True
        return chosen


def _draw_half(known: KnownInput, draw: np.random.Generator) -> Tensor | None:
    count = int(known.truth.sum())
    return known.draw_tokens(known.truth, (count + 1) // 2, draw) if count > 1 else None


def _draw_double(known: KnownInput, draw: np.random.Generator) -> Tensor:
    return known.truth | known.draw_tokens(~known.truth, int(known.truth.sum()), draw)


@dataclass(frozen=True, kw_only=True)
class Control:
    """A made-up map that is known to be better or worse than others.

    name    its name on the command line; ``title`` is its name in tables
    line    one sentence on what the map knows
    scores  function from a known input and a random generator to a score or bool for each token (N,); it returns None if the input has no
            such map
    kinds   the kinds of inputs for which the control exists
    """

    name: str
    title: str
    line: str
    scores: Callable[[KnownInput, np.random.Generator], Tensor | None]
    kinds: tuple[str, ...] = ("image", "text")


#: All controls by name.
CONTROLS: dict[str, Control] = {
    control.name: control
    for control in (
        Control(
            name="truth",
            title="The truth",
            line="1 on the tokens that the answer comes from, 0 elsewhere.",
            scores=lambda known, draw: known.truth,
        ),
        Control(
            name="truth_half",
            title="Half of the truth",
            line="1 on half of these tokens, drawn at random; none where there is a single one.",
            scores=_draw_half,
        ),
        Control(
            name="truth_doubled",
            title="The truth and as many others",
            line="1 on these tokens and on as many others, drawn at random.",
            scores=_draw_double,
        ),
        Control(
            name="truth_inverted",
            title="The truth inverted",
            line="0 on the tokens that the answer comes from, 1 elsewhere.",
            scores=lambda known, draw: ~known.truth,
        ),
        Control(
            name="edges",
            title="Edges",
            line="The mean Sobel magnitude of the grey picture on each patch: it knows the picture and not the model.",
            scores=lambda known, draw: known.salience,
            kinds=("image",),
        ),
        Control(
            name="word_length",
            title="Length of words",
            line="The letters of each word: it knows the text and not the model.",
            scores=lambda known, draw: known.salience,
            kinds=("text",),
        ),
        Control(
            name="centre",
            title="Centre",
            line="How near a token is to the middle: it knows neither the input nor the model.",
            scores=lambda known, draw: -known.distance,
        ),
    )
}

#: Pairs of maps whose order is known for every input: the first is better. ``random`` is the method.
KNOWN_ORDER = (
    ("truth", "truth_half"),
    ("truth", "truth_doubled"),
    ("truth_half", "random"),
    ("truth_doubled", "random"),
    ("random", "truth_inverted"),
)


def find_controls(names: Sequence[str], data: Dataset) -> tuple[str, ...]:
    """Return the names of the requested controls, each once; ``all`` stands for those that fit the inputs of the data set.

    Raises ExplainerError for an unknown name, and if the data set does not say which parts of an input its answers come from.
    """
    if not names:
        return ()
    possible = [control.name for control in CONTROLS.values() if data.kind in control.kinds]
    fact = TRUTH_GIVEN_BY.get(data.kind)
    if fact is None or fact not in data.gives:
        raise ExplainerError(f"{data.name} does not mark what its answers come from, which controls are made of: leave out controls.")
    chosen = [each for name in names for each in (possible if name == "all" else [name])]
    for name in chosen:
        if name not in possible:
            near = difflib.get_close_matches(name, possible, n=3) or possible
            raise ExplainerError(f"There is no control {name!r} of {data.kind}s; there are {', '.join(near)}.")
    return tuple(dict.fromkeys(chosen))


def for_controls(metric: Metric) -> bool:
    """Return whether a metric can be measured on a control, a made-up map: it has a direction and no curve over special tokens, and takes
    only the map, the model's answers about parts of this input, and what the data set marks in it; no other class, model or input.
    """
    if metric.direction is None or any(curve.special for curve in metric.curves.values()):
        return False
    return metric.needs <= _NEEDS_OF_CONTROLS


def known_input(sample: Sample, of: Attribution, mask: Tensor | None, index: int) -> KnownInput | None:
    """Collect the facts about the input number ``index`` of a data set, ``sample``, from which controls are made; None if its annotations
    mark no token or every token.

    ``of`` is a map of the input, and ``mask`` bool (1, height, width) outlines the explained object.
    """
    if of.patches is not None:
        known = None if mask is None or of.image is None else _known_picture(of, mask, index)
    else:
        known = None if of.text is None else _known_text(sample, of.text, of.content, index)
    return None if known is None or not known.truth.any() or known.truth.all() else known


def _known_picture(of: Attribution, mask: Tensor, index: int) -> KnownInput | None:
    from scipy.ndimage import sobel

    if of.patches is None or of.image is None or of.image.pixels is None:
        return None
    rows, columns = of.patches
    grey = np.asarray(of.image.pixels.convert("L"), np.float64)
    edges = torch.from_numpy(np.hypot(sobel(grey, 0), sobel(grey, 1)))
    y, x = torch.meshgrid(torch.arange(rows) - (rows - 1) / 2, torch.arange(columns) - (columns - 1) / 2, indexing="ij")
    return KnownInput(
        truth=covered_patches(mask, of.patches)[0].flatten(),
        salience=F.adaptive_avg_pool2d(edges[None], of.patches).flatten(),
        distance=torch.hypot(y, x).flatten(),
        index=index,
    )


def _known_text(sample: Sample, text: TextInput, content: Tensor, index: int) -> KnownInput:
    truth, letters = torch.zeros(len(content), dtype=torch.bool), torch.zeros(len(content))
    spans = {0: sample.rationale, 1: sample.pair_rationale}
    for word in text.words:
        letters[list(word.tokens)] = len(word.text)
        truth[list(word.tokens)] = any(word.start < last and first < word.end for first, last in spans.get(word.part) or ())
    count = int(content.sum())
    return KnownInput(
        truth=truth[content],
        salience=letters[content],
        distance=(torch.arange(count) - (count - 1) / 2).abs(),
        index=index,
    )


def control_map(name: str, known: KnownInput, like: Attribution) -> Attribution | None:
    """Make the map of the control called ``name`` for ``known``, an input with annotations, over the tokens of another map, ``like``, with
    scores from 0 to 1; None if this input has no such map.

    Ties are broken at random, because the order of tokens may carry information: the objects of a data set may lie near the top.
    """
    control = CONTROLS[name]
    draw = np.random.default_rng([known.index, list(CONTROLS).index(name)])
    scores = control.scores(known, draw)
    if scores is None:
        return None
    order = torch.from_numpy(draw.permutation(len(scores)) / len(scores))
    whole = torch.zeros(len(like.content))
    whole[like.content] = (from_zero_to_one(scores.double()) - TIE_BREAK * order).float()
    return replace(
        like,
        method=name,
        method_name=name,
        rule=None,
        title=control.title,
        scores=whole,
        signed=False,
        class_specific=False,
        seconds=0.0,
        adds_up_to=None,
        completeness_error=None,
        notes=(),
        pixels=None,
        precision=None,
        seed_correlation=None,
        numerics=Numerics(),
        options={},
    )
