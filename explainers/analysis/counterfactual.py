"""Counterfactuals: the fewest parts of an input found whose removal makes another class the model's answer.

Parts are patches, words or atoms. The search is greedy, as SEDC-T of Vermeire et al. (Pattern Analysis and Applications, 2022), after
Martens and Provost (MIS Quarterly, 2014). It differs in that it hides many parts at once where one alone changes little, and brings back
those that turned out to be needless. Every step is an answer of the model to the input without these parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from explainers.analysis.deletion_test import notes_on, removal_for
from explainers.analysis.target_output import TargetOutput, target_output
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe
from explainers.models.inputs.types import ImageInput, TextInput
from explainers.models.removal.token_removal import BeforePass, TokenRemoval
from explainers.models.removal.ways import How
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.result import Explanation
from explainers.records.session import checker
from explainers.self_check.opening import model_of

#: No round begins after so many answers of the model; the first always does.
MAX_ANSWERS = 2000
_PREFIX_GROWTH = 1.35  # of the numbers of parts that a round hides at once
#: Returns by how much the wanted class leads (above 0) or trails when parts are hidden: bool (K, N) -> (K,).
Lead = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Counterfactual(Record):
    """The fewest parts found whose removal makes another class the model's answer, and the probabilities before and after.

    hidden   the parts that are removed, each with its tokens as indices of the scores of a map
    before   the probabilities of ``answer`` and ``wanted``
    after    those of ``answer``, ``wanted`` and ``leader`` without these parts
    notes    what a person should know about how parts were removed
    """

    answer: Annotated[str, describe("The class with the largest logit of the whole input.")]
    wanted: Annotated[str, describe("The class that the answer was to become.", key="to")]
    is_reached: Annotated[
        bool,
        describe(
            "Whether it did: then no hidden part can be brought back. Else nothing that was tried does it, and `hidden` came nearest.",
            key="reached",
        ),
    ]
    leader: Annotated[str, describe("The class with the largest logit without the hidden parts.")]
    how: Annotated[How, describe("In which way parts are taken away.", kind=str)]
    parts: Annotated[int, describe("How many patches, words or atoms there are.")]
    hidden: Annotated[
        tuple[tuple[int, ...], ...], describe("The parts that are taken away, each with its tokens as indices of the scores of a map.")
    ]
    before: Annotated[
        Mapping[str, float], describe("The probabilities by the whole input: of `answer` and `to`, and where `top` is, of its classes.")
    ]
    after: Annotated[Mapping[str, float], describe("The probabilities of `answer`, `to` and `leader` without the hidden parts.")]
    answers: Annotated[int, describe("How many answers of the model the search took.", key="asked")]
    notes: Annotated[tuple[str, ...], HIDDEN] = ()

    def __str__(self) -> str:
        count = f"{len(self.hidden)} of {self.parts} parts ({self.how})"
        lines = [f"{name}: {self.before.get(name, math.nan):.4f} -> {value:.4f}" for name, value in self.after.items()]
        verdict = (
            f"Without {count} {self.wanted} comes first, in place of {self.answer}."
            if self.is_reached
            else f"Nothing that was tried makes {self.wanted} come first; nearest, without {count}, {self.leader} does."
        )
        return "\n".join([verdict, *lines, *(f"note: {note}" for note in self.notes)])


@in_memory_steps
def counterfactual(
    model: Any,
    result: Explanation,
    wanted: str,
    *,
    how: How | None = None,
    progress: BeforePass | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Counterfactual:
    """Find few parts of the explained input (patches, words or atoms) without which ``model`` answers ``wanted``.

    model      the model that was explained
    result     the explanation whose input is asked about, from :func:`explainers.explain`
    wanted     the label of a class that is not the model's answer already; of a CLIP model one of the prompts
    how        see :mod:`explainers.models.removal`; None: parts are removed where the model allows it
    progress   called before each forward pass with how many answers there are, and how many it takes at least: each step adds to these
    cancelled  asked before each forward pass; when true, :class:`Cancelled` is raised

    Fewer parts may do it in a combination that was not tried. Raises ExplainerError for another model than the explained one, for an
    unknown class or the answer itself, for a model that predicts a number, and for explanations of the words of prompts.
    """
    if result.prompts:
        raise ExplainerError("The words of prompts were explained, and no class: explain the picture.")
    model = model_of(model)
    info = result.targets[0]
    model, removal = removal_for(model, result, info.label, how)
    output = target_output(model, list(result.labels), info.to_json())
    check = checker(cancelled)

    def before_pass(done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)
        check()

    return find_counterfactual(removal, output, list(result.labels), result.input, wanted, before_pass)


def find_counterfactual(
    removal: TokenRemoval,
    output: TargetOutput,
    labels: Sequence[str],
    shown: ImageInput | TextInput,
    wanted: str,
    before_pass: BeforePass,
) -> Counterfactual:
    """Search the counterfactual for the class ``wanted``, one of ``labels``: parts of the input ``shown`` are taken away by ``removal``;
    ``output`` makes probabilities of logits. See :func:`counterfactual`.
    """
    if output.kind == "regression":
        raise ExplainerError("This model predicts a number, so it has no answer that could become another class.")
    if wanted not in labels:
        raise ExplainerError(f"{wanted!r} is no class of this model.")
    index, parts, answers = list(labels).index(wanted), parts_of(removal.tokens, shown), 0

    def probabilities(hidden: Tensor) -> Tensor:
        nonlocal answers
        keep = torch.ones(len(hidden), removal.tokens, dtype=torch.bool)
        for i, part in enumerate(parts):
            keep[:, list(part)] = ~hidden[:, i : i + 1]
        already = answers
        answers += len(hidden)
        return output.probabilities(removal.logits(keep, lambda done, total: before_pass(already + done, already + total)))

    def lead(hidden: Tensor) -> Tensor:
        return lead_of(probabilities(hidden), index, output.kind == "sigmoid")

    nothing = torch.zeros(1, len(parts), dtype=torch.bool)
    whole = probabilities(nothing)
    if float(lead_of(whole, index, output.kind == "sigmoid")[0]) > 0:
        raise ExplainerError(f"The model answers {wanted!r} already: ask for another class.")
    hidden, is_reached = fewest_hidden(lead, len(parts), lambda: answers < MAX_ANSWERS)
    last = probabilities(hidden[None])
    answer, leader = int(whole[0].argmax()), int(last[0].argmax())
    indices = content_indices(shown, removal.tokens)
    return Counterfactual(
        answer=labels[answer],
        wanted=wanted,
        is_reached=is_reached,
        leader=labels[leader],
        how=removal.how,
        parts=len(parts),
        hidden=tuple(tuple(indices[token] for token in parts[i]) for i in torch.nonzero(hidden).flatten().tolist()),
        before={labels[i]: float(whole[0, i]) for i in (answer, index)},
        after={labels[i]: float(last[0, i]) for i in (answer, index, leader)},
        answers=answers,
        notes=tuple(notes_on(removal, ())),
    )


def content_indices(shown: ImageInput | TextInput, tokens: int) -> list[int]:
    """Return the index, among the scores of a map, of each of the removable ``tokens`` of an input: all patches, or all but special
    tokens.
    """
    return list(range(tokens)) if isinstance(shown, ImageInput) else [i for i, token in enumerate(shown.tokens) if not token.special]


def parts_of(tokens: int, shown: ImageInput | TextInput) -> list[tuple[int, ...]]:
    """Return the parts that are hidden as a whole, each with its places among the removable ``tokens``: patches one by one, the pieces of
    a word or of an atom together. A token that belongs to no word is a part of its own.
    """
    if isinstance(shown, ImageInput):
        return [(token,) for token in range(tokens)]
    place = {token: i for i, token in enumerate(content_indices(shown, tokens))}
    words = [tuple(place[token] for token in word.tokens if token in place) for word in shown.words]
    alone = set(place.values()) - {token for word in words for token in word}
    return sorted([*(word for word in words if word), *((token,) for token in alone)])


def lead_of(probabilities: Tensor, index: int, is_sigmoid: bool) -> Tensor:
    """Return by how much a class leads: (K,) from ``probabilities`` (K, C), the logarithm of its own over the largest of the others; where
    classes do not exclude each other, its log-odds. Above 0 it is an answer of the model.
    """
    wanted_probability = probabilities[:, index]
    if is_sigmoid:
        return torch.logit(wanted_probability, eps=torch.finfo(wanted_probability.dtype).tiny)
    others = probabilities.clone()
    others[:, index] = 0
    smallest = torch.finfo(wanted_probability.dtype).tiny
    return wanted_probability.clamp(min=smallest).log() - others.max(1).values.clamp(min=smallest).log()


def fewest_hidden(lead: Lead, parts: int, may_go_on: Callable[[], bool] = lambda: True) -> tuple[Tensor, bool]:
    """Return which of the ``parts`` to hide, bool (parts,), so that ``lead`` is above 0, and whether that was reached; else what came
    nearest. At least one part stays.

    Each round hides every part that is left alone, orders them by the lead that this gives, and hides as many, the best first, as give the
    largest lead; it ends once the lead is above 0 (of these the fewest, by bisection), or no number of them raises it, or ``may_go_on()``
    is false. Then parts are brought back, the least needed first, until none can be.
    """
    hidden = torch.zeros(parts, dtype=torch.bool)
    best = float(lead(hidden[None])[0])
    while parts - int(hidden.sum()) > 1:
        left = torch.nonzero(~hidden).flatten()
        order = left[_without_each(lead, hidden, left, True).argsort(descending=True, stable=True)]
        counts = _prefixes(len(order) - 1)
        leads = lead(torch.stack([_changed(hidden, order[:count], True) for count in counts]))
        if bool((leads > 0).any()):
            first = int((leads > 0).nonzero()[0])
            low, high = counts[first - 1] if first else 0, counts[first]
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _leads(lead, _changed(hidden, order[:middle], True)) else (middle, high)
            return _bring_back(lead, _changed(hidden, order[:high], True)), True
        if float(leads.max()) <= best:
            break
        best = float(leads.max())
        hidden = _changed(hidden, order[: counts[int(leads.argmax())]], True)
        if not may_go_on():
            break
    return hidden, False


def _bring_back(lead: Lead, hidden: Tensor) -> Tensor:
    """Bring back as many of the ``hidden`` parts, bool (parts,), as can be while ``lead`` stays above 0, and return which stay hidden."""
    while int(hidden.sum()) > 1:
        there = torch.nonzero(hidden).flatten()
        leads = _without_each(lead, hidden, there, False)
        order = there[leads.argsort(descending=True, stable=True)][: int((leads > 0).sum())]
        if not len(order):
            break
        low, high = 1, min(len(order), len(there) - 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if _leads(lead, _changed(hidden, order[:middle], False)) else (low, middle - 1)
        hidden = _changed(hidden, order[:low], False)
    return hidden


def _prefixes(most: int) -> list[int]:
    """Return the numbers of parts that a round hides at once, from 1 to ``most``, further and further apart."""
    counts = [1]
    while counts[-1] < most:
        counts.append(min(most, max(counts[-1] + 1, round(counts[-1] * _PREFIX_GROWTH))))
    return counts


def _changed(hidden: Tensor, parts: Tensor, value: bool) -> Tensor:
    """Return a copy of ``hidden`` with ``value`` at the ``parts`` (indices)."""
    changed = hidden.clone()
    changed[parts] = value
    return changed


def _without_each(lead: Lead, hidden: Tensor, parts: Tensor, value: bool) -> Tensor:
    """Return the lead (K,) with each of the K ``parts`` alone set to ``value`` in ``hidden``."""
    rows = hidden.repeat(len(parts), 1)
    rows[torch.arange(len(parts)), parts] = value
    return lead(rows)


def _leads(lead: Lead, hidden: Tensor) -> bool:
    return float(lead(hidden[None])[0]) > 0
