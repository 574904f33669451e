"""Deletion tests on a stored input: curves along the order of each map, or one answer with tokens removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.analysis.deletion_test import DeletionTest, notes_on, run_deletion
from explainers.analysis.target_output import TargetOutput, target_output
from explainers.errors import ExplainerError
from explainers.metrics.removal_curves import Order, area, curves, removal_counts, removal_order
from explainers.models.inputs.types import TextPair, Windows
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.token_removal import TokenRemoval
from explainers.models.removal.ways import How
from vitrine_server.http.problems import Problem
from vitrine_server.schemas.studies import FRACTIONS
from vitrine_server.studies.rewriting import find_again, rewrite
from vitrine_server.studies.study import Subject

_TOP_CLASSES = 5


def output_of(subject: Subject, label: str | None) -> TargetOutput:
    """Return the output for the explained target called ``label``, by default the first. Raises Problem 422 if it was not explained."""
    targets = subject.document["targets"]
    target = next((info for info in targets if label is None or info["label"] == label), None)
    if target is None:
        known = ", ".join(info["label"] for info in targets)
        raise Problem(422, "no-such-target", f"{label!r} was not explained.", send=f"Explained: {known}.")
    return target_output(subject.model, subject.labels, target)


def removal_of(subject: Subject, label: str, how: How | None = None) -> TokenRemoval:
    """Return the input whose tokens can be removed: the patches of an image, the pieces of a text, or those of the prompt ``label``.

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
    """Return the windows in which the model reads a long text."""
    windows: Windows | None = subject.model.windows(text)
    assert windows is not None
    return windows


def read_for(document: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """Return the input, as JSON, whose tokens were scored for a target: the prompt, if the words of prompts were explained,
    else the input.
    """
    prompts: Sequence[Mapping[str, Any]] = document.get("prompts", ())
    return next((prompt for prompt in prompts if prompt["prompt"] == label), document["input"])


def _removable(document: Mapping[str, Any], label: str) -> list[int]:
    """Return the indices, among the scores of a map for ``label``, of the tokens that can be removed: all patches, or all but special
    tokens.
    """
    tokens = read_for(document, label).get("tokens")
    if tokens is None:
        return list(range(len(document["maps"][0]["scores"])))
    return [i for i, token in enumerate(tokens) if not token["special"]]


def maps_of(document: Mapping[str, Any], target: str, specs: Iterable[str] | None) -> dict[str, Tensor]:
    """Return spec -> scores (N,) of the map for ``target``, of all methods or of ``specs``. Raises Problem 422 for a method
    without a map.
    """
    indices = _removable(document, target)
    maps = {entry["method"]: torch.tensor(entry["scores"])[indices] for entry in document["maps"] if entry["target"] == target}
    if specs is None:
        return maps
    for spec in specs:
        if spec not in maps:
            raise Problem(422, "no-such-map", f"The explanation has no map {spec!r} for {target!r}.", send=f"It has: {', '.join(maps)}.")
    return {spec: maps[spec] for spec in specs}


def deletion_curves(
    subject: Subject, target: str | None, methods: Sequence[str] | None, orders: Sequence[Order], fractions: Sequence[float] | None
) -> dict[str, Any]:
    """Run the deletion test on the maps of a target and return it as JSON; it is cached for the latest explanations."""
    output = output_of(subject, target)
    maps = maps_of(subject.document, output.label, methods)
    removal = removal_of(subject, output.label)
    shares = sorted(set(fractions or FRACTIONS))
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


def deletion_score(subject: Subject, target: str | None, scores: Sequence[float]) -> dict[str, Any]:
    """Return the area under the curve of a target while tokens are removed most important first by ``scores``, one for each token of a map.

    Raises Problem 422 if the number of scores is wrong.
    """
    output = output_of(subject, target)
    wanted = next(len(map_["scores"]) for map_ in subject.document["maps"] if map_["target"] == output.label)
    if len(scores) != wanted:
        detail = f"There are {len(scores)} scores, and a map of this explanation has {wanted}."
        raise Problem(422, "other-length", detail, send="Send one for every token, as in the maps.")
    removal = removal_of(subject, output.label)
    counts = removal_counts(FRACTIONS, removal.tokens, removal.least)
    order = removal_order(torch.tensor(scores)[_removable(subject.document, output.label)], "most")
    values = output.values(curves(removal, order[None], counts, subject.before_pass)[0])
    return {
        "read": output.explains,
        "area": area([count / removal.tokens for count in counts], values[output.explains]),
        **_removal_info(subject, removal),
    }


def _removal_info(subject: Subject, removal: TokenRemoval) -> dict[str, Any]:
    subject.notes.extend(notes_on(removal, ()))
    return {"how": removal.how, "tokens": removal.tokens}


@dataclass(frozen=True)
class Edit:
    """A change of the input: the tokens to remove (these, all but these, or the first of a map's order), and words to replace.

    ``how`` is the way in which patches are removed; None: the model's default.
    """

    remove: Sequence[int] | None = None
    keep: Sequence[int] | None = None
    method: str | None = None
    order: Order = "most"
    fraction: float | None = None
    replace: Mapping[int, str] | None = None
    how: How | None = None


def edited_answer(subject: Subject, target: str | None, edit: Edit) -> dict[str, Any]:
    """Return the model's answer after an edit: the target's probability and logit, and the top classes."""
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
        "top": _top(output, logits, subject.labels),
    }


def _top(output: TargetOutput, logits: Tensor, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the labels with the largest logits, in the form of ``top`` of an explanation; a regression has no probabilities."""
    shares = None if output.kind == "regression" else output.probabilities(logits).tolist()
    best = logits.argsort(descending=True)[:_TOP_CLASSES].tolist()
    named = [{"label": labels[i], "index": i, "logit": float(logits[i])} for i in best]
    return named if shares is None else [{**entry, "probability": shares[entry["index"]]} for entry in named]


def _removed_indices(subject: Subject, output: TargetOutput, edit: Edit) -> list[int]:
    """Return the indices, among the scores of a map, of the tokens that an edit removes."""
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
    """Replace words of the text and prepare it again; return its token removal, the mask of tokens to keep, and the new text."""
    source = subject.document["input"]
    if source["kind"] != "text":
        what = "a prompt: ask for another one" if "prompts" in subject.document else "an image"
        raise Problem(422, "not-a-text", f"Words are replaced in a text, and this is {what}.", send="Leave replace out.")
    if "picture" in source:
        raise Problem(422, "not-a-text", "Words are replaced in a text, and a picture stands in this one.", send="Leave replace out.")
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
