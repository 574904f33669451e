"""What a model says when tokens are taken away from a stored input: curves along the order of each map, or one answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.keeping import Keeping, keeping_patches, keeping_prompt, keeping_words
from explainers.metrics.faithfulness import Order, area, curves, random_orders, removal_counts, removal_order
from explainers.models.base import TextPair
from server.problems import Problem
from server.rewriting import find_again, rewrite
from server.studies import Subject

FRACTIONS = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1)
SEEDS = range(5)  # orders drawn at random that every method is held against
ORDERS: tuple[Order, ...] = ("most", "least")
_TOP = 5


@dataclass(frozen=True)
class Watched:
    """The target that is watched: its place among the logits, and that of what it is set against."""

    label: str
    of: int
    against: int | None
    read: str  # logit or probability: what areas and ranks are made of

    def values(self, logits: Tensor) -> dict[str, Tensor]:
        """``probability`` (of the class or prompt itself) and ``logit`` (of a contrast the difference), from logits (..., C)."""
        logit = logits[..., self.of] if self.against is None else logits[..., self.of] - logits[..., self.against]
        return {"probability": logits.double().softmax(-1)[..., self.of], "logit": logit}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"target": self.label, "read": self.read}


def watched(subject: Subject, label: str | None) -> Watched:
    """The explained target called ``label``, the first one by default; raises Problem 422."""
    targets = subject.document["targets"]
    found = next((one for one in targets if label is None or one["label"] == label), None)
    if found is None:
        known = ", ".join(one["label"] for one in targets)
        raise Problem(422, "no-such-target", f"{label!r} was not explained.", send=f"Explained: {known}.")
    name, against = found.get("of", found["label"]), found.get("against")
    of = found["index"] if "index" in found else subject.labels.index(name)
    # a lone prompt has a probability of 1 whatever is shown, and the words of a prompt make its own similarity, not that of the others
    by_logit = against is not None or len(subject.labels) == 1 or "prompts" in subject.document
    read = "logit" if by_logit else "probability"
    return Watched(found["label"], of, None if against is None else subject.labels.index(against), read)


def keeping_of(subject: Subject, label: str) -> Keeping:
    """The input whose tokens can be taken away: the patches of an image, the pieces of a text, or those of the prompt ``label``."""
    document = subject.document
    tokens = _read(document, label).get("tokens")
    if tokens is None:
        rows, columns = next(iter(document["maps"]))["grid"]
        return keeping_patches(subject.model, subject.tensors, (rows, columns))
    if "prompts" not in document:
        return keeping_words(subject.model, subject.tensors, _content(tokens, subject.tensors))
    place = subject.labels.index(label)
    return keeping_prompt(subject.model, subject.tensors, _content(tokens, subject.tensors, place), place)


def _read(document: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """What the explained tower read for a target: the prompt, where the words of prompts are explained, else the input."""
    prompts: Sequence[Mapping[str, Any]] = document.get("prompts", ())
    return next((one for one in prompts if one["prompt"] == label), document["input"])


def _content(tokens: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], row: int = 0) -> Tensor:
    """Which tokens of a row of ids are word pieces, (S,); padding is none."""
    ids = tensors["input_ids"]
    mask = tensors["attention_mask"][row].bool().cpu() if "attention_mask" in tensors else torch.ones(ids.shape[1], dtype=torch.bool)
    content = torch.zeros_like(mask)
    content[mask] = torch.tensor([not token["special"] for token in tokens])
    return content


def _places(document: Mapping[str, Any], label: str) -> list[int]:
    """The index of each token that can be taken away among the scores of a map for ``label``: of patches all, of texts those that are not
    special.
    """
    tokens = _read(document, label).get("tokens")
    if tokens is None:
        return list(range(len(document["maps"][0]["scores"])))
    return [i for i, token in enumerate(tokens) if not token["special"]]


def _maps(document: Mapping[str, Any], target: str, specs: Iterable[str] | None) -> dict[str, Tensor]:
    """The scores (N,) of each method's map for ``target``; raises Problem 422 for a method that has none."""
    places = _places(document, target)
    maps = {one["method"]: torch.tensor(one["scores"])[places] for one in document["maps"] if one["target"] == target}
    if specs is None:
        return maps
    for spec in specs:
        if spec not in maps:
            raise Problem(422, "no-such-map", f"The explanation has no map {spec!r} for {target!r}.", send=f"It has: {', '.join(maps)}.")
    return {spec: maps[spec] for spec in specs}


def perturbation_curves(
    subject: Subject, target: str | None, methods: Sequence[str] | None, orders: Sequence[Order], fractions: Sequence[float] | None
) -> dict[str, Any]:
    """The probability and the logit of a target while the tokens go in the order of each map, and in random orders."""
    one = watched(subject, target)
    maps = _maps(subject.document, one.label, methods)
    keeping = keeping_of(subject, one.label)
    shares = sorted(set(fractions or FRACTIONS))
    counts = removal_counts(shares, keeping.tokens, keeping.least)
    if len(set(counts)) < 2:
        detail = f"At the fractions {', '.join(f'{share:g}' for share in shares)} always as many of the {keeping.tokens} tokens are gone."
        raise Problem(422, "no-curve", detail, send="Send at least two fractions that lie further apart, such as [0, 0.5, 1].")
    own = [removal_order(scores, order) for order in orders for scores in maps.values()]
    drawn = random_orders(keeping.tokens, SEEDS)
    found = one.values(curves(keeping, torch.stack([*own, *drawn]), counts, subject.check))
    gone = [count / keeping.tokens for count in counts]

    def told(values: dict[str, Tensor]) -> dict[str, Any]:
        return {"area": area(gone, values[one.read]), **{name: value.tolist() for name, value in values.items()}}

    rows = [{name: value[i] for name, value in found.items()} for i in range(len(own))]
    labels = [(spec, order) for order in orders for spec in maps]
    answer = [{"method": spec, "order": order, **told(values)} for (spec, order), values in zip(labels, rows, strict=True)]
    by_chance = told({name: value[len(own) :].mean(0) for name, value in found.items()})
    if keeping.least:
        subject.notes.append("This model cannot answer when nothing is left of its input, so the last step keeps one token.")
    return {
        **one.to_json(),
        **_how(subject, keeping),
        "fractions": shares,
        "counts": counts,
        "curves": answer,
        "random": {**by_chance, "seeds": len(SEEDS)},
        "ranking": _ranking(answer, by_chance["area"]),
    }


def deletion(subject: Subject, target: str | None, scores: Sequence[float]) -> dict[str, Any]:
    """The area under the curve of a target while the tokens go most important first by ``scores``, which are as those of a map.

    Raises Problem 422 where there are more or fewer of them.
    """
    one = watched(subject, target)
    wanted = next(len(map_["scores"]) for map_ in subject.document["maps"] if map_["target"] == one.label)
    if len(scores) != wanted:
        detail = f"There are {len(scores)} scores, and a map of this explanation has {wanted}."
        raise Problem(422, "other-length", detail, send="Send one for every token, as the maps have them.")
    keeping = keeping_of(subject, one.label)
    counts = removal_counts(FRACTIONS, keeping.tokens, keeping.least)
    order = removal_order(torch.tensor(scores)[_places(subject.document, one.label)], "most")
    values = one.values(curves(keeping, order[None], counts, subject.check)[0])
    return {"read": one.read, "area": area([count / keeping.tokens for count in counts], values[one.read]), **_how(subject, keeping)}


def _ranking(found: Sequence[Mapping[str, Any]], by_chance: float) -> list[dict[str, Any]]:
    """Methods from best to worst, with the areas of both orders: where both are there by the gap between them, else by the area alone.

    ``random`` stands among them with the rank 0, at the place that chance earns.
    """
    areas: dict[str, dict[str, Any]] = {}
    for one in found:
        areas.setdefault(one["method"], {})[one["order"]] = one["area"]
    orders = {one["order"] for one in found}

    def merit(own: Mapping[str, float]) -> float:
        return own.get("least", 0.0) - own.get("most", 0.0)

    rows: list[dict[str, Any]] = [{"method": spec, **own, "gap": merit(own)} for spec, own in areas.items()]
    control = dict.fromkeys(orders, by_chance)
    rows.append({"method": "random", **control, "gap": merit(control), "control": True})
    rows.sort(key=lambda row: (-row["gap"], "control" in row))
    rank = 0
    for row in rows:
        rank += "control" not in row
        row["rank"] = 0 if "control" in row else rank
        if len(orders) == 1:
            del row["gap"]
    return rows


def _how(subject: Subject, keeping: Keeping) -> dict[str, Any]:
    if keeping.how == "painted":
        subject.notes.append("This model needs all of its patches: those taken away are painted in the mean colour.")
    return {"how": keeping.how, "tokens": keeping.tokens}


@dataclass(frozen=True)
class Edit:
    """Which tokens to take away: these, all but these, or the first of a map's order; and words to write in another way."""

    remove: Sequence[int] | None = None
    keep: Sequence[int] | None = None
    method: str | None = None
    order: Order = "most"
    fraction: float | None = None
    replace: Mapping[int, str] | None = None


def edited_answer(subject: Subject, target: str | None, edit: Edit) -> dict[str, Any]:
    """What the model says with exactly these tokens gone: the target's probability and logit, and the top classes."""
    one = watched(subject, target)
    told = _read(subject.document, one.label)
    gone = _gone(subject, one, edit)
    text: str | None = told.get("text")
    if edit.replace:
        keeping, keep, text = _rewritten(subject, edit.replace, gone)
    else:
        keeping, keep = keeping_of(subject, one.label), _without(gone, _places(subject.document, one.label))
    logits = keeping.logits(keep[None], subject.check)[0]
    probabilities, best = logits.double().softmax(-1), logits.argsort(descending=True)[:_TOP].tolist()
    return {
        **one.to_json(),
        **_how(subject, keeping),
        "removed": gone,
        **({} if text is None else {"text": text}),
        **{name: float(value) for name, value in one.values(logits).items()},
        "top": [{"label": subject.labels[i], "index": i, "logit": float(logits[i]), "probability": float(probabilities[i])} for i in best],
    }


def _gone(subject: Subject, one: Watched, edit: Edit) -> list[int]:
    """The indices, among the scores of a map, of the tokens that are taken away."""
    places = _places(subject.document, one.label)
    if edit.fraction is not None:
        assert edit.method is not None
        (scores,) = _maps(subject.document, one.label, [edit.method]).values()
        (count,) = removal_counts([edit.fraction], len(places), keeping_of(subject, one.label).least)
        return sorted(places[i] for i in removal_order(scores, edit.order)[:count].tolist())
    named = set(edit.keep if edit.keep is not None else edit.remove or ())
    strange = sorted(named - set(places))
    if strange:
        send = f"Send indices of the scores of a map, from {places[0]} to {places[-1]}; special tokens always stay."
        raise Problem(422, "no-such-token", f"Token {strange[0]} cannot be taken away.", send=send)
    return [i for i in places if (i in named) == (edit.keep is None)]


def _without(gone: Sequence[int], places: Sequence[int]) -> Tensor:
    """What is kept, bool (N,), of the tokens at ``places``."""
    absent = set(gone)
    return torch.tensor([place not in absent for place in places])


def _rewritten(subject: Subject, replace: Mapping[int, str], gone: Sequence[int]) -> tuple[Keeping, Tensor, str]:
    """The text with words replaced, read anew, and without the tokens that are gone."""
    told = subject.document["input"]
    if told["kind"] != "text":
        what = "a prompt: ask for another one" if "prompts" in subject.document else "an image"
        raise Problem(422, "not-a-text", f"Words are replaced in a text, and this is {what}.", send="Leave replace out.")
    written = rewrite(told, replace)
    prepared = subject.model.prepare(written.text if written.text_pair is None else TextPair(written.text, written.text_pair))
    (record,), (notes,) = prepared.inputs, prepared.notes
    subject.notes.extend(notes)
    tokens = [{"special": token.special} for token in record.tokens]
    places = [i for i, token in enumerate(tokens) if not token["special"]]
    keeping = keeping_words(subject.model, prepared.tensors, _content(tokens, prepared.tensors))
    return keeping, _without(find_again(gone, written, record.tokens), places), written.text
