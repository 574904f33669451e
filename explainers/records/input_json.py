"""Read from JSON how an input was shown to the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explainers.models.inputs.picture_tiles import PictureTile
from explainers.models.inputs.types import (
    Bond,
    Drawing,
    ImageInput,
    MoleculeInput,
    PicturePart,
    PicturePromptInput,
    SoundStretch,
    TextInput,
    Token,
    Toxicophore,
    Word,
)


def input_from_json(document: Mapping[str, Any]) -> ImageInput | TextInput:
    """Return the input that a ``document`` of JSON describes, without its picture."""
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
        others = []
        for further in document.get("further_pictures", ()):
            other = input_from_json(further)
            assert isinstance(other, ImageInput)
            others.append(PicturePart(**vars(other), **_place_of_picture(further)))
        return PicturePromptInput(*text, picture=picture, **_place_of_picture(shown), others=tuple(others))
    frame = document.get("frame")
    size = document["width"], document["height"]
    shown = tuple(document["crop"]), tuple(document["seen"])
    sound = None if (stretch := document.get("sound")) is None else SoundStretch(**stretch)
    numbers = document.get("frame_numbers")
    return ImageInput(
        *size,
        *shown,
        frame=None if frame is None else tuple(frame),
        frames=document.get("frames"),
        frame_numbers=None if numbers is None else tuple(numbers),
        sound=sound,
    )


def _place_of_picture(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return grid, first token and tiles of a picture among the tokens of a text from its JSON (``shown``)."""
    tiles = tuple(PictureTile(**{**tile, "box": tuple(tile["box"])}) for tile in shown.get("tiles", ()))
    return {"grid": tuple(shown["grid"]), "first": shown["first"], "tiles": tiles}


def _molecule_parts(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a :class:`MoleculeInput` from ``part``, the JSON of its :class:`MoleculePart`."""
    drawing = part["drawing"]
    return {
        "bonds": tuple(Bond(tuple(bond["atoms"]), bond["order"]) for bond in part["bonds"]),
        "toxicophores": tuple(Toxicophore(group["name"], tuple(group["atoms"])) for group in part["toxicophores"]),
        "drawing": None
        if drawing is None
        else Drawing(drawing["svg"], tuple(drawing["size"]), tuple(tuple(place) for place in drawing["places"])),
    }
