"""How an input was shown to the model, as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explainers.models.inputs.types import Bond, Drawing, ImageInput, MoleculeInput, PicturePromptInput, TextInput, Token, Toxicophore, Word


def input_json(record: ImageInput | TextInput) -> dict[str, Any]:
    """How the input was shown to the model, as plain data; of a pair of texts, and of one with an answer of the model's own, ``part``
    says to which of them a token or word belongs.
    A molecule is the text of its SMILES, with its bonds and its drawing under ``molecule``. Where a picture stands among the tokens, it is
    under ``picture``, with the ``grid`` of its patches and the ``first`` of their tokens.

    Of an image ``crop`` is what was seen of the upright original, ``frame`` the part that was asked for, where one was, and ``window`` the
    values that were shown as black to white, where it has more than 8 bits; of a clip ``frames`` is how many lie below each other.
    """
    if isinstance(record, ImageInput):
        frame: dict[str, Any] = {} if record.frame is None else {"frame": list(record.frame)}
        if record.window is not None:
            frame["window"] = {"level": record.window.level, "width": record.window.width, "source": record.window.source}
        if record.frames is not None:
            frame["frames"] = record.frames
        size = {"width": record.width, "height": record.height}
        return {"kind": "image", **size, "crop": list(record.crop), "seen": list(record.seen), **frame}
    document: dict[str, Any] = {
        "kind": "text",
        "text": record.text,
        "tokens": [{"text": t.text, "start": t.start, "end": t.end, "special": t.special} for t in record.tokens],
        "words": [{"text": w.text, "start": w.start, "end": w.end, "tokens": list(w.tokens)} for w in record.words],
    }
    if isinstance(record, MoleculeInput):
        return {**document, "molecule": _molecule_json(record)}
    if isinstance(record, PicturePromptInput) and record.picture is not None:
        document["picture"] = {**input_json(record.picture), "grid": list(record.grid), "first": record.first}
    elif record.pair is None and record.answer is None:
        return document
    parts = {"tokens": [t.part for t in record.tokens], "words": [w.part for w in record.words]}
    for name, values in parts.items():
        document[name] = [{**word, "part": part} for word, part in zip(document[name], values, strict=True)]
    beside = {"text_pair": record.pair, "answer": record.answer}
    return {**document, **{name: text for name, text in beside.items() if text is not None}}


def input_from_json(document: Mapping[str, Any]) -> ImageInput | TextInput:
    """What :func:`input_json` wrote, without the picture."""
    if document["kind"] == "text":
        tokens = tuple(Token(**token) for token in document["tokens"])
        words = tuple(Word(**{**word, "tokens": tuple(word["tokens"])}) for word in document["words"])
        if "molecule" in document:
            return MoleculeInput(document["text"], tokens, words, **_molecule_parts(document["molecule"]))
        text = document["text"], tokens, words, document.get("text_pair"), document.get("answer")
        if (shown := document.get("picture")) is None:
            return TextInput(*text)
        picture = input_from_json(shown)
        assert isinstance(picture, ImageInput)
        return PicturePromptInput(*text, picture=picture, grid=tuple(shown["grid"]), first=shown["first"])
    frame = document.get("frame")
    size = document["width"], document["height"]
    shown = tuple(document["crop"]), tuple(document["seen"])
    return ImageInput(*size, *shown, frame=None if frame is None else tuple(frame), frames=document.get("frames"))


def _molecule_json(record: MoleculeInput) -> dict[str, Any]:
    """Bonds, toxicophores and drawing: atoms by their places among the words of the SMILES."""
    drawing = record.drawing
    return {
        "bonds": [{"atoms": list(bond.atoms), "order": bond.order} for bond in record.bonds],
        "toxicophores": [{"name": group.name, "atoms": list(group.atoms)} for group in record.toxicophores],
        "drawing": None
        if drawing is None
        else {"svg": drawing.svg, "size": list(drawing.size), "places": [list(place) for place in drawing.places]},
    }


def _molecule_parts(part: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`_molecule_json` wrote, as the parts of a record."""
    drawing = part["drawing"]
    return {
        "bonds": tuple(Bond(tuple(bond["atoms"]), bond["order"]) for bond in part["bonds"]),
        "toxicophores": tuple(Toxicophore(group["name"], tuple(group["atoms"])) for group in part["toxicophores"]),
        "drawing": None
        if drawing is None
        else Drawing(drawing["svg"], tuple(drawing["size"]), tuple(tuple(place) for place in drawing["places"])),
    }
