"""Clips: pictures in the order of time, read from a folder, an animation, a list or an array, and laid below each other as one strip.

A model of clips has a token for each patch of each few frames (a tubelet). In the strip of what it is given, the rows of patches of the
frames of a tubelet follow each other, so that a cell of the grid (times * rows, columns) is what one token was made of, and every method
that paints, hides or counts patches of a picture does the same to a clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageSequence
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.images import is_picture_name, read_image
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import Clip, ImageInput

_WANTED = (
    "send explainers.Clip(pictures), the path of a folder of frames or of an animated GIF or WebP, or an array (frames, height, width, 3) "
    "or (frames, 3, height, width) of 0 to 255"
)


@dataclass(frozen=True)
class ClipShape:
    """The input shape of a model of clips.

    frames   number of frames in a clip
    tubelet  number of consecutive frames that one token covers
    patch    side of a patch, in pixels
    """

    frames: int
    tubelet: int
    patch: int

    @property
    def times(self) -> int:
        """The number of tokens that a patch has over the clip."""
        return self.frames // self.tubelet

    def strip_of(self, clips: Tensor) -> Tensor:
        """Rearrange ``clips`` (B, T, C, H, W) of T frames to strips (B, C, T * H, W), with the frames one below the other."""
        height = clips.shape[3]
        cells: Tensor = clips.unflatten(3, (height // self.patch, self.patch)).unflatten(1, (self.times, self.tubelet))
        return cells.permute(0, 3, 1, 4, 2, 5, 6).flatten(2, 5)  # (B, C, times, rows, tubelet, patch, W)

    def clips_of(self, strips: Tensor) -> Tensor:
        """Rearrange ``strips`` (B, C, T * H, W) back to clips (B, T, C, H, W); the inverse of :meth:`strip_of`."""
        rows = strips.shape[2] // (self.frames * self.patch)
        cells: Tensor = strips.unflatten(2, (self.times, rows, self.tubelet, self.patch))
        return cells.permute(0, 2, 4, 1, 3, 5, 6).flatten(4, 5).flatten(1, 2)

    def prepare(self, clip: Any, recipe: AnyPreprocessing) -> tuple[Tensor, ImageInput, tuple[str, ...]]:
        """Return ``clip``, a sequence of pictures, as a strip (C, T * H, W), a record of how it was shown, and a note if frames were left
        out or repeated. ``recipe`` prepares each frame.

        Frames are taken at even distances, including the first and the last. The record shows the first frame of each tubelet, one below
        the other.
        """
        pictures = pictures_of(clip.frames if isinstance(clip, Clip) else clip)
        taken = np.linspace(0, len(pictures) - 1, self.frames).round().astype(int).tolist()
        tensors, records = zip(*(recipe(pictures[index]) for index in taken), strict=True)
        first = records[:: self.tubelet]
        width, height = first[0].seen
        strip = Image.new("RGB", (width, height * len(first)))
        for place, record in enumerate(first):
            strip.paste(record.pixels, (0, place * height))  # which a recipe always keeps
        shown = ImageInput(*strip.size, (0, 0, *strip.size), strip.size, strip, frames=self.times)
        count = len(pictures)
        notes = () if count == self.frames else (f"The model takes {self.frames} frames, chosen evenly among the {count} of the clip.",)
        return self.strip_of(torch.stack(tensors)[None])[0], shown, notes


def pictures_of(frames: Any) -> list[Image.Image]:
    """Return the frames of a clip in RGB. Raises ExplainerError if it is no clip, and for frames of different sizes."""
    pictures = [read_image(frame) for frame in _frames_of(frames)]
    sizes = {picture.size for picture in pictures}
    if len(sizes) > 1:
        raise ExplainerError(f"the frames of a clip have one size, and these have {sorted(sizes)}")
    return pictures


def _frames_of(source: Any) -> list[Any]:
    """Return each frame of a clip as a picture. ``source`` is an array or a tensor of frames, a folder of pictures, a file, or a list of
    pictures.
    """
    if isinstance(source, Tensor):
        source = source.cpu().numpy()
    if isinstance(source, np.ndarray):
        return _of_array(source)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if path.is_dir():
            frames = sorted(file for file in path.iterdir() if is_picture_name(file))
            if len(frames) < 2:
                raise ExplainerError(f"the folder {path} holds {len(frames)} pictures, and a clip has two or more")
            return frames
        read_image(path)  # says what is wrong with it
        with Image.open(path) as image:
            return _frames_of(image)
    if isinstance(source, Image.Image):
        if getattr(source, "n_frames", 1) < 2:
            raise ExplainerError(f"this model takes clips, and one picture was sent: {_WANTED}")
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(source)]
    if isinstance(source, Sequence) and len(source) > 1:
        return list(source)
    raise ExplainerError(f"a {type(source).__name__} is no clip: {_WANTED}")


def _of_array(values: NDArray[Any]) -> list[Image.Image]:
    if values.ndim != 4 or 3 not in (values.shape[1], values.shape[3]) or len(values) < 2:
        raise ExplainerError(f"an array of shape {values.shape} is no clip: {_WANTED}")
    if values.min() < 0 or values.max() > 255:
        raise ExplainerError(f"the array holds values from {values.min():g} to {values.max():g}: {_WANTED}")
    last = values if values.shape[3] == 3 else values.transpose(0, 2, 3, 1)
    return [Image.fromarray(frame) for frame in last.astype(np.uint8)]
