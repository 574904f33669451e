"""Deletion tests on a stored input: curves along the order of each map, or one answer with tokens removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from explainers.analysis.deletion_test import ORDERS, DeletionTest, notes_on, run_deletion
from explainers.analysis.target_output import FollowedNumber, TargetOutput, target_output
from explainers.errors import ExplainerError
from explainers.json_records import schema_of
from explainers.metrics.removal_curves import Order, area, curves, removal_counts, removal_order
from explainers.models.inputs.types import TextPair, Windows
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.token_removal import TokenRemoval
from explainers.models.removal.ways import How, HowOfPages
from explainers.records.result import TargetInfo
from vitrine_server.http.bodies import TokensRoute
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import MANY_PASSES, SHORT
from vitrine_server.schemas.base import Schema, absent
from vitrine_server.schemas.studies import Study
from vitrine_server.settings import Settings
from vitrine_server.studies.registry import study
from vitrine_server.studies.rewriting import find_again, rewrite
from vitrine_server.studies.subject import Subject

_TOP_CLASSES = 5
MOST_TOKENS = 100_000
#: Shares of the tokens that are gone, where nobody says otherwise: those of the papers, and more at both ends, where curves bend most.
FRACTIONS = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1)
_Share = Annotated[float, Field(ge=0, le=1)]
_Tokens = Annotated[list[int], Field(max_length=MOST_TOKENS)]


def output_of(subject: Subject, label: str | None) -> TargetOutput:
    """Return which number of the model's output belongs to the target of ``subject`` called ``label``, by default the first. Raises Problem
    422 if it was not explained.
    """
    targets = subject.document["targets"]
    target = next((info for info in targets if label is None or info["label"] == label), None)
    if target is None:
        known = ", ".join(info["label"] for info in targets)
        raise Problem(422, "no-such-target", f"{label!r} was not explained.", send=f"Explained: {known}.")
    return target_output(subject.model, subject.labels, target)


def removal_of(subject: Subject, label: str, how: How | None = None) -> TokenRemoval:
    """Return the input of the explanation ``subject`` in the form in which tokens can be removed from it: patches of an image, pieces of a
    text, or of the prompt ``label``.

    ``how`` is the way in which patches are removed; None: as the model allows. Raises Problem 422 for a way that does not suit this input
    or model.

    Preparing it takes several forward passes, so it is cached for the latest explanations.
    """
    removal: TokenRemoval = subject.model.cached((subject.document["id"], label, how), lambda: _removal(subject, label, how))
    return removal


def _removal(subject: Subject, label: str, how: How | None) -> TokenRemoval:
    document = subject.document
    tokens = read_for(document, label).get("tokens")
    if tokens is None:
        rows, columns = next(iter(document["maps"]))["grid"]
        try:
            return input_removal(subject.model, subject.tensors, grid=(rows, columns), how=how)
        except ExplainerError as error:
            if how is None:
                raise
            raise Problem(422, "wrong-way", str(error), send="Send how: painted, or leave it out.") from None
    if how is not None:
        raise Problem(422, "wrong-way", "Patches are painted or taken out; this is a text.", send="Leave how out.")
    if "windows" in document:
        return input_removal(subject.model, subject.tensors, windows=_windows(subject, document["input"]["text"]))
    prompt = subject.labels.index(label) if "prompts" in document else None
    return input_removal(subject.model, subject.tensors, special=[token["special"] for token in tokens], prompt=prompt)


def _windows(subject: Subject, text: str) -> Windows:
    """Return the windows in which the model of ``subject`` reads ``text``, a long one."""
    windows: Windows | None = subject.model.windows(text)
    assert windows is not None
    return windows


def read_for(document: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """Return the input, as JSON, whose tokens were scored in the explanation ``document`` for the target with this ``label``: the prompt,
    if the words of prompts were explained, else the input.
    """
    prompts: Sequence[Mapping[str, Any]] = document.get("prompts", ())
    return next((prompt for prompt in prompts if prompt["prompt"] == label), document["input"])


def _removable(document: Mapping[str, Any], label: str) -> list[int]:
    """Return the indices, among the scores of a map for ``label`` in ``document`` (JSON of an explanation), of the tokens that can be
    removed: all patches, or all but special tokens.
    """
    tokens = read_for(document, label).get("tokens")
    if tokens is None:
        return list(range(len(document["maps"][0]["scores"])))
    return [i for i, token in enumerate(tokens) if not token["special"]]


def maps_of(document: Mapping[str, Any], target: str, specs: Iterable[str] | None) -> dict[str, Tensor]:
    """Return spec -> scores (N,) of the removable tokens, from the maps of ``target`` in the JSON ``document`` of an explanation. ``specs``
    names the methods with their settings; None takes all. Raises Problem 422 for a method without a map.
    """
    indices = _removable(document, target)
    maps = {entry["method"]: torch.tensor(entry["scores"])[indices] for entry in document["maps"] if entry["target"] == target}
    if specs is None:
        return maps
    for spec in specs:
        if spec not in maps:
            raise Problem(422, "no-such-map", f"The explanation has no map {spec!r} for {target!r}.", send=f"It has: {', '.join(maps)}.")
    return {spec: maps[spec] for spec in specs}


class DeletionQuestion(Schema):
    """A deletion test: the curves of methods, or one answer if any of ``remove``, ``keep``, ``fraction`` and ``replace`` is sent."""

    target: str | None = Field(None, max_length=1000, description="The label of one of the explained targets; none: the first.")
    methods: list[str] | None = Field(None, min_length=1, max_length=64, description="Curves: specs of maps of the explanation; none: all.")
    order: Literal["most", "least"] | None = Field(
        None, description="Which tokens go first: the most or the least relevant. Curves: none gives both; one answer: none is most."
    )
    fractions: list[_Share] | None = Field(
        None, min_length=2, max_length=101, description=f"Curves: shares of tokens that are gone; none: {', '.join(map(str, FRACTIONS))}."
    )
    remove: _Tokens | None = Field(None, description="One answer: the indices of the tokens to take away, as in the scores of a map.")
    keep: _Tokens | None = Field(None, description="One answer: the indices of the tokens to keep; all others are taken away.")
    method: str | None = Field(None, max_length=1000, description="One answer: the spec of the map by whose order `fraction` takes away.")
    fraction: _Share | None = Field(None, description="One answer: the share of tokens to take away, first of the order of `method`.")
    replace: dict[int, Annotated[str, Field(max_length=200)]] | None = Field(
        None, min_length=1, max_length=1000, description="One answer, texts: words in place of others, by their index in input.words."
    )
    how: HowOfPages | None = Field(
        None,
        description="One answer, images: patches are taken out (removed) or painted in the mean colour (painted); none: taken out where "
        "the model allows it.",
    )


@dataclass(frozen=True)
class Edit:
    """A change of the input: tokens to remove, which are named in one of three ways, and words to replace. None: not used.

    remove            indices of the tokens to remove
    keep              indices of the tokens to keep; all others are removed
    method, fraction  spec of a map, and the share of tokens to remove in its order: the most or the least relevant first (``order``)
    replace           index of a word -> the text in its place
    how               the way in which patches are removed; None: the model's default
    """

    remove: Sequence[int] | None = None
    keep: Sequence[int] | None = None
    method: str | None = None
    order: Order = "most"
    fraction: float | None = None
    replace: Mapping[int, str] | None = None
    how: How | None = None


@dataclass(frozen=True)
class Removal:
    """A request for a deletion test, ``wanted``: for the answer after one ``edit``, or for curves if that is None."""

    wanted: DeletionQuestion
    edit: Edit | None = None


async def read(body: DeletionQuestion, settings: Settings) -> Removal:
    """Return the deletion test that the request ``body`` describes: curves, or one edit of the input. Raises Problem 422 for fields that
    exclude each other.
    """
    which = [name for name in ("remove", "keep", "fraction") if getattr(body, name) is not None]
    if body.how is not None and (not which or body.replace is not None):
        raise Problem(422, "unclear", "how is for one answer about an image.", send="Send how together with remove, keep or fraction.")
    if not which and body.replace is None:
        if body.method is not None:
            raise Problem(422, "no-fraction", "method was sent without fraction.", send="Send fraction too, or methods for curves.")
        return Removal(body)
    wrong = [name for name in ("methods", "fractions") if getattr(body, name) is not None]
    if len(which) > 1 or wrong:
        names = " and ".join([*which, *(["replace"] if body.replace else []), *wrong][:2] if wrong else which[:2])
        send = "Send one of remove, keep and fraction (with method), with replace if you like; or methods and fractions for curves."
        raise Problem(422, "unclear", f"{names} do not go together.", send=send)
    if (body.fraction is None) != (body.method is None):
        raise Problem(422, "unclear", "method and fraction belong together.", send="Send both, or send remove or keep instead.")
    return Removal(body, Edit(body.remove, body.keep, body.method, body.order or "most", body.fraction, body.replace, body.how))


DeletionCurves = schema_of(DeletionTest, base=Study)


class EditedAnswer(Study):
    """The model's answer after certain tokens were removed or words replaced: the target's numbers and the top classes, which tokens were
    removed and how, and the text as it was then asked.
    """

    target: str
    read: FollowedNumber
    how: str
    tokens: int
    removed: list[int]
    text: str = absent("Of a text, as it was asked, before tokens were taken away.")
    probability: float = absent()
    logit: float = absent()
    value: float = absent()
    top: list[TargetInfo]


@study(
    "/api/explanations/{id}/deletion-test",
    form=DeletionQuestion,
    answer=DeletionCurves | EditedAnswer,
    read=read,
    weight=lambda question: MANY_PASSES if question.edit is None else SHORT,
    route=TokensRoute,
)
def remove_tokens(subject: Subject, question: Removal) -> dict[str, Any]:
    """Remove tokens from the input of an explanation and ask its model again.

    Patches are dropped after the patch embedding if the model allows it (``how``: removed), else painted in the mean colour (painted); word
    pieces are left out of the text, or of the prompt if the words of prompts were explained; special tokens always stay.

    **Curves**: for each map and order the ``probability`` and the ``logit`` of the target after ``counts`` of the ``tokens`` were removed,
    and the ``area`` under the one named by ``read``, over the share of removed tokens; ``random`` is the mean over several random orders
    (``seeds``); ``ranking`` sorts the methods by the gap between the areas of least and of most relevant first.

    The curves need hundreds of answers of the model: every other question goes first, also between two of its passes. With the header
    ``Accept: text/event-stream`` the answer is sent as events: ``progress`` (``asked`` of ``total``), then ``done`` with the answer, or
    ``failed`` with the problem.

    **One answer**: the target's numbers and the ``top`` classes after exactly the tokens ``removed`` were removed; for an image in the way
    ``how``.
    """
    wanted, edit = question.wanted, question.edit
    return _deletion_curves(subject, wanted) if edit is None else _edited_answer(subject, wanted.target, edit)


def _deletion_curves(subject: Subject, wanted: DeletionQuestion) -> dict[str, Any]:
    """Run the deletion test on the maps of ``subject`` for the target, methods, order and fractions in ``wanted`` and return it as JSON; it
    is cached for the latest explanations.
    """
    output = output_of(subject, wanted.target)
    maps = maps_of(subject.document, output.label, wanted.methods)
    removal, orders = removal_of(subject, output.label), ORDERS if wanted.order is None else (wanted.order,)
    shares = sorted(set(wanted.fractions or FRACTIONS))
    if len(set(removal_counts(shares, removal.tokens, removal.least))) < 2:
        detail = f"The fractions {', '.join(f'{share:g}' for share in shares)} all remove the same number of the {removal.tokens} tokens."
        raise Problem(422, "no-curve", detail, send="Send at least two fractions that lie further apart, such as [0, 0.5, 1].")

    def test() -> DeletionTest:
        return run_deletion(removal, output, maps, fractions=shares, orders=orders, before_pass=subject.before_pass)

    # hundreds of answers of the model, and the same for the same question: a reloaded page asks it too
    key = ("deletion test", subject.document["id"], output.label, tuple(maps), tuple(orders), tuple(shares))
    outcome: DeletionTest = subject.model.cached(key, test)
    subject.notes.extend(outcome.notes)
    return outcome.to_json()


class ScoresToTest(Schema):
    """The scores of a map to test that is not part of the explanation."""

    scores: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(
        min_length=1, max_length=MOST_TOKENS, description="One number a token, as many as the maps of the explanation have."
    )
    target: str | None = Field(None, max_length=2000, description="The label of one of the explained targets; none: the first.")


class DeletionScore(Study):
    """The result of the deletion test for one map: how well its scores order the tokens by what the model needs."""

    read: FollowedNumber
    area: float = Field(description="Under the curve while tokens go most important first: the lower, the better.")
    how: str
    tokens: int


@study("/api/explanations/{id}/deletion-test/score", form=ScoresToTest, answer=DeletionScore, cost="deletion score", route=TokensRoute)
def score_map(subject: Subject, wanted: ScoresToTest) -> dict[str, Any]:
    """Test how well the scores in ``wanted``, of any map, such as one made by ``mix``, find what the model needs for the input of an
    explanation.

    ``area`` is the area under the target's probability (or what ``read`` names) while tokens are removed most important first: the lower,
    the better. ``deletion-test`` gives the same number for a stored map with the same scores.
    """
    output = output_of(subject, wanted.target)
    length = next(len(map_["scores"]) for map_ in subject.document["maps"] if map_["target"] == output.label)
    if len(wanted.scores) != length:
        detail = f"There are {len(wanted.scores)} scores, and a map of this explanation has {length}."
        raise Problem(422, "other-length", detail, send="Send one for every token, as in the maps.")
    removal = removal_of(subject, output.label)
    counts = removal_counts(FRACTIONS, removal.tokens, removal.least)
    order = removal_order(torch.tensor(wanted.scores)[_removable(subject.document, output.label)], "most")
    values = output.values(curves(removal, order[None], counts, subject.before_pass)[0])
    return {
        "read": output.explains,
        "area": area([count / removal.tokens for count in counts], values[output.explains]),
        **_removal_info(subject, removal),
    }


def _removal_info(subject: Subject, removal: TokenRemoval) -> dict[str, Any]:
    subject.notes.extend(notes_on(removal, ()))
    return {"how": removal.how, "tokens": removal.tokens}


def _edited_answer(subject: Subject, target: str | None, edit: Edit) -> dict[str, Any]:
    """Return the model's answer to the input of ``subject`` after ``edit``, for the target called ``target``: the target's probability and
    logit, and the top classes.
    """
    output = output_of(subject, target)
    source = read_for(subject.document, output.label)
    removed = _removed_indices(subject, output, edit)
    text: str | None = source.get("text")
    if edit.replace:
        removal, keep, text = _rewrite(subject, edit.replace, removed)
    else:
        removal, keep = removal_of(subject, output.label, edit.how), _mask_without(removed, _removable(subject.document, output.label))
    logits = removal.logits(keep[None], subject.before_pass)[0]
    return {
        "target": output.label,
        "read": output.explains,
        **_removal_info(subject, removal),
        "removed": removed,
        **({} if text is None else {"text": text}),
        **{name: float(value) for name, value in output.values(logits).items()},
        "top": top_classes(output, logits, subject.labels),
    }


def top_classes(output: TargetOutput, logits: Tensor, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the ``labels`` with the largest ``logits`` (C,), those of ``output``, in the form of ``top`` of an explanation: label, index,
    logit and probability; a regression has no probabilities.
    """
    shares = None if output.kind == "regression" else output.probabilities(logits).tolist()
    best = logits.argsort(descending=True)[:_TOP_CLASSES].tolist()
    named = [{"label": labels[i], "index": i, "logit": float(logits[i])} for i in best]
    return named if shares is None else [{**entry, "probability": shares[entry["index"]]} for entry in named]


def _removed_indices(subject: Subject, output: TargetOutput, edit: Edit) -> list[int]:
    """Return the indices, among the scores of a map of ``subject`` for the target ``output``, of the tokens that ``edit`` removes."""
    indices = _removable(subject.document, output.label)
    if edit.fraction is not None:
        assert edit.method is not None
        (scores,) = maps_of(subject.document, output.label, [edit.method]).values()
        (count,) = removal_counts([edit.fraction], len(indices), removal_of(subject, output.label).least)
        return sorted(indices[i] for i in removal_order(scores, edit.order)[:count].tolist())
    named = set(edit.keep if edit.keep is not None else edit.remove or ())
    strange = sorted(named - set(indices))
    if strange:
        send = f"Send indices of the scores of a map, from {indices[0]} to {indices[-1]}; special tokens always stay."
        raise Problem(422, "no-such-token", f"Token {strange[0]} cannot be removed.", send=send)
    return [i for i in indices if (i in named) == (edit.keep is None)]


def _mask_without(removed: Sequence[int], indices: Sequence[int]) -> Tensor:
    """Return a mask of the tokens to keep, bool (N,), over the tokens at ``indices``: False for those in ``removed``."""
    absent = set(removed)
    return torch.tensor([index not in absent for index in indices])


def _rewrite(subject: Subject, replace: Mapping[int, str], removed: Sequence[int]) -> tuple[TokenRemoval, Tensor, str]:
    """Replace words of the explained text of ``subject`` (``replace``: index -> new word) and prepare it again. Return the new text's token
    removal, the mask of its tokens to keep, without those ``removed`` from the old text, and the new text. Raises Problem 422 for an input
    that is no text.
    """
    source = subject.document["input"]
    if source["kind"] != "text":
        what = "a prompt: ask for another one" if "prompts" in subject.document else "an image"
        raise Problem(422, "not-a-text", f"Words are replaced in a text, and this is {what}.", send="Leave replace out.")
    if "picture" in source:
        raise Problem(
            422,
            "not-a-text",
            "This input holds a picture, and words can only be replaced in an input of text alone.",
            send="Leave replace out.",
        )
    written = rewrite(source, replace)
    windows = subject.model.windows(written.text) if written.text_pair is None and "long_texts" not in subject.document else None
    if windows is not None:
        removal = input_removal(subject.model, {}, windows=windows)
        indices = [i for i, token in enumerate(windows.whole.tokens) if not token.special]
        return removal, _mask_without(find_again(removed, written, windows.whole.tokens), indices), written.text
    prepared = subject.model.prepare(written.text if written.text_pair is None else TextPair(written.text, written.text_pair))
    (record,), (notes,) = prepared.inputs, prepared.notes
    subject.notes.extend(notes)
    tokens = [{"special": token.special} for token in record.tokens]
    indices = [i for i, token in enumerate(tokens) if not token["special"]]
    removal = input_removal(subject.model, prepared.tensors, special=[token["special"] for token in tokens])
    return removal, _mask_without(find_again(removed, written, record.tokens), indices), written.text
