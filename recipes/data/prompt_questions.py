"""Prompts about COCO's photos with several objects, each with its truth: objects by boxes, scenes by rules, colours by pixels."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from explainers.models.companion_files.prompt_words import TEMPLATE, PromptKind
from recipes.data.pictures import crop_centre
from recipes.data.unseen_photos import COCO, UNCLASSED

PLAIN_BOX_SHARE = 0.05  # least share of the picture that the box of a plainly visible thing covers
PLAIN_COLOUR_SHARE, ABSENT_COLOUR_SHARE = (
    0.25,
    0.02,
)  # share of the pixels from which on a colour counts as there, and below which as absent
#: For each kind of scene the categories of COCO that are seen there and hardly elsewhere.
SCENES = {
    "bathroom": ("toilet",),
    "bedroom": ("bed",),
    "kitchen": ("oven", "refrigerator", "microwave"),
    "living room": ("couch",),
    "railway": ("train",),
    "restaurant": ("pizza", "wine glass", "sandwich"),
    "sea": ("surfboard", "boat"),
    "snow": ("skis", "snowboard"),
    "street": ("traffic light", "stop sign", "parking meter", "fire hydrant", "bus"),
}
#: For each colour its range of hues in degrees, of saturations and of values (0 to 1).
COLOURS = {
    "red": ((345, 375), (0.5, 1), (0.3, 1)),
    "orange": ((18, 42), (0.6, 1), (0.5, 1)),
    "yellow": ((45, 68), (0.5, 1), (0.5, 1)),
    "green": ((75, 160), (0.3, 1), (0.2, 1)),
    "blue": ((195, 255), (0.35, 1), (0.3, 1)),
    "brown": ((12, 40), (0.4, 1), (0.1, 0.5)),
    "white": ((0, 360), (0, 0.12), (0.85, 1)),
    "black": ((0, 360), (0, 1), (0, 0.15)),
}


@dataclass(frozen=True)
class PromptQuestion:
    """A prompt and whether it is true of each photo, bool (photos,) each.

    plain      the photo plainly shows what the prompt names
    absent     the photo does not show it at all
    small      for a prompt for a thing: the photo shows it small
    has_class  whether ImageNet has a class for it
    """

    kind: PromptKind
    prompt: str
    plain: NDArray[np.bool_]
    absent: NDArray[np.bool_]
    small: NDArray[np.bool_] | None = None
    has_class: bool = True

    def of(self, part: slice) -> PromptQuestion:
        """Return the same question restricted to ``part``, a slice of the photos."""
        small = None if self.small is None else self.small[part]
        return replace(self, plain=self.plain[part], absent=self.absent[part], small=small)


def photos_and_questions(data: Path) -> tuple[Tensor, list[PromptQuestion]]:
    """Read COCO's photos in the folder ``data``, uint8 (N, SIDE, SIDE, 3), and return them with the questions that are asked about all of
    them.
    """
    whole = json.loads((data / COCO / "annotations" / "instances_train2017.json").read_text("utf-8"))
    names = {row["id"]: row["name"] for row in whole["categories"]}
    files = [Image.open(data / COCO / "train2017" / row["file_name"]) for row in whole["images"]]
    places = {row["id"]: place for place, row in enumerate(whole["images"])}
    shares = {name: np.zeros(len(files)) for name in names.values()}  # the largest box's share of the picture
    for note in whole["annotations"]:
        place, (*_, width, height) = places[note["image_id"]], note["bbox"]
        share, of = width * height / (files[place].width * files[place].height), shares[names[note["category_id"]]]
        of[place] = max(of[place], share)
    pixels = np.stack([crop_centre(file) for file in files])
    asked = [
        PromptQuestion(
            "thing",
            TEMPLATE.format(name),
            share >= PLAIN_BOX_SHARE,
            share == 0,
            (share > 0) & (share < PLAIN_BOX_SHARE),
            name not in UNCLASSED,
        )
        for name, share in shares.items()
    ]
    annotated = np.any([share > 0 for share in shares.values()], axis=0)
    for scene, things in SCENES.items():
        there = np.any([shares[thing] > 0 for thing in things if thing in shares] or [np.zeros(len(files), bool)], axis=0)
        asked.append(PromptQuestion("scene", TEMPLATE.format(scene), there, annotated & ~there))
    for colour, covered in colour_shares(pixels).items():
        asked.append(
            PromptQuestion("colour", f"a photo of something {colour}", covered >= PLAIN_COLOUR_SHARE, covered < ABSENT_COLOUR_SHARE)
        )
    return torch.from_numpy(pixels), asked


def colour_shares(pixels: NDArray[np.uint8]) -> dict[str, NDArray[np.float64]]:
    """Return for each colour the share (N,) of each picture's pixels that have it; ``pixels`` is (N, H, W, 3)."""
    hsv = np.stack([np.asarray(Image.fromarray(picture).convert("HSV"), float) / 255 for picture in pixels])
    hues, saturations, values = hsv[..., 0] * 360, hsv[..., 1], hsv[..., 2]
    shares = {}
    for colour, ((first, last), saturation, value) in COLOURS.items():
        has = ((hues >= first) & (hues <= last)) | (hues + 360 <= last)
        for channel, (low, high) in ((saturations, saturation), (values, value)):
            has &= (channel >= low) & (channel <= high)
        shares[colour] = has.mean((1, 2))
    return shares
