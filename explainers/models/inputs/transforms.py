"""Somebody else's transform of pictures (torchvision's, timm's, a function), and where in the picture lies what it makes of it.

Where a transform crops is found by a trial: it is shown pictures whose greys grow from left to right and from top to bottom, and what it
makes of them tells for each pixel where it comes from. So nothing need be known of how it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.images import PicturePreparation, Preprocessing, read_picture
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.types import Crop, ImageInput

#: Shapes (width, height) with which a transform is tried.
_TRIED = ((320, 240), (240, 320))
_STRAIGHT = 3.0 / 255  # how far from a straight line the places of pixels may lie, of the picture's side: greys are whole numbers
_CONTRAST = 0.5  # of the contrast of black and white, below which a pixel lies in padding, or at its edge
_FILTER = 2.5  # pixels of the output, as far as a filter reaches over the edge of the picture, where it has no neighbours
_AT_EDGE = 0.004  # of the side of the picture, within which a place is taken for its edge
_WANTED = "it is to turn a PIL image into a float tensor (channels, height, width), as torchvision's weights.transforms() does"


@dataclass(frozen=True)
class _Trial:
    """The tensors (C, H, W) that a transform makes of black and of white, and the part of the picture that its output shows.

    The part is (x0, y0, x1, y1) in pixels of a picture of one size; None if the output shows no upright part of it.
    """

    black: Tensor
    white: Tensor
    box: tuple[float, float, float, float] | None


@dataclass(frozen=True, eq=False)
class TransformPreprocessing(PicturePreparation):
    """A preparation of pictures by a transform, with the interface of :class:`explainers.models.inputs.images.Preprocessing`.

    transform  from a PIL image to a float tensor (channels, height, width)
    channels   number of channels of the tensor
    size       (height, width) of every tensor; None if that depends on the picture
    """

    transform: Callable[[Image.Image], Any]
    channels: Literal[1, 3]
    size: tuple[int, int] | None
    resize: None = None
    crop: None = None
    _trials: dict[tuple[int, int], _Trial] = field(default_factory=dict, repr=False)

    @classmethod
    def of_transform(cls, transform: Callable[[Any], Any]) -> TransformPreprocessing:
        """Try a transform on pictures and return it as a preparation. Raises ExplainerError if it does not turn a picture into a tensor, or
        gives another one each time.
        """
        noise = np.random.default_rng(0)
        pictures = [Image.fromarray(noise.integers(0, 256, (height, width, 3), dtype=np.uint8)) for width, height in _TRIED]
        made = [_tensor_of(transform, picture) for picture in pictures]
        if not torch.equal(made[0], _tensor_of(transform, pictures[0])):
            raise ExplainerError(
                "preprocess= makes another tensor of the same picture each time: pass the transform of evaluation, without random steps"
            )
        shapes = {(tensor.shape[-2], tensor.shape[-1]) for tensor in made}
        channels = made[0].shape[0]
        if channels not in (1, 3):
            raise ExplainerError(f"preprocess= makes {channels} channels of a picture, and 1 (greys) or 3 (colours) are known here")
        return cls(transform, 1 if channels == 1 else 3, shapes.pop() if len(shapes) == 1 else None)

    def __call__(self, image: Image.Image) -> tuple[Tensor, ImageInput]:
        """Turn ``image``, upright and RGB, by the transform into a float32 tensor (channels, H, W), and a record of which part of the image
        the model sees.
        """
        pixels = _tensor_of(self.transform, image)
        trial = self._trial(image.size)
        seen = (pixels.shape[-1], pixels.shape[-2])
        shown = _picture_of(pixels, trial)
        if trial.box is None:
            return pixels, ImageInput(*seen, (0, 0, *seen), seen, shown, is_placed=False)
        x0, y0, x1, y1 = (_on_edge(place, side) for place, side in zip(trial.box, image.size * 2, strict=True))
        return pixels, ImageInput(*image.size, (x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)), seen, shown)

    def cut_out(self, crop: Crop) -> tuple[Tensor, ImageInput]:
        """Prepare the part ``crop`` of a picture like a whole picture; return its tensor and record. Raises ExplainerError for a part that
        does not lie in its picture.
        """
        image, window = read_picture(crop.image)
        crop.check(image.size)
        pixels, record = self(image.crop(crop.box))
        if not record.is_placed:
            return pixels, replace(record, window=window)
        left, top = crop.box[:2]
        x0, y0, x1, y1 = record.crop
        placed = (x0 + left, y0 + top, x1 + left, y1 + top)
        return pixels, replace(record, width=image.width, height=image.height, crop=placed, frame=crop.box, window=window)

    def _trial(self, size: tuple[int, int]) -> _Trial:
        if size not in self._trials:
            self._trials[size] = self._tried(size)
        return self._trials[size]

    def _tried(self, size: tuple[int, int]) -> _Trial:
        width, height = size
        across, down = np.linspace(0, 255, width)[None].repeat(height, 0), np.linspace(0, 255, height)[:, None].repeat(width, 1)
        black, white, x, y = (
            _tensor_of(self.transform, _grey(values)) for values in (np.zeros((height, width)), np.full((height, width), 255), across, down)
        )
        box = None
        if black.shape == white.shape == x.shape == y.shape:
            columns = _edges(_greys(x, black, white), -1)
            rows = _edges(_greys(y, black, white), -2)
            if columns is not None and rows is not None:
                # a grey of 0 is the middle of the first pixel, one of 1 that of the last
                x0, x1 = (edge * (width - 1) + 0.5 for edge in columns)
                y0, y1 = (edge * (height - 1) + 0.5 for edge in rows)
                box = (x0, y0, x1, y1)
        return _Trial(black, white, box)


#: A way to prepare pictures, or sounds as pictures.
AnyPreprocessing = Preprocessing | TransformPreprocessing | SoundPreparation


def _tensor_of(transform: Callable[[Any], Any], picture: Image.Image) -> Tensor:
    """Apply ``transform``, which a user passed as ``preprocess=``, to a PIL image and return the tensor, float32 (C, H, W).

    The transform may return a tensor or a NumPy array, a batch or a list of one, or a dict with ``pixel_values`` or ``image``. Raises
    ExplainerError if it fails, and for anything else, such as whole numbers.
    """
    try:
        made = transform(picture)
    except Exception as problem:  # each transform has errors of its own
        raise ExplainerError(f"preprocess= failed on a PIL image ({type(problem).__name__}: {problem}); {_WANTED}") from problem
    if isinstance(made, Mapping):
        made = made.get("pixel_values", made.get("image"))
    if isinstance(made, list | tuple) and len(made) == 1:
        made = made[0]
    if isinstance(made, np.ndarray):
        made = torch.from_numpy(made)
    if isinstance(made, nn.Module) or not isinstance(made, Tensor):
        raise ExplainerError(f"preprocess= makes a {type(made).__name__} of a picture; {_WANTED}")
    made = made.detach().cpu().as_subclass(Tensor)  # torchvision's images are tensors of a class of their own
    if made.dim() == 4 and len(made) == 1:
        made = made[0]
    if made.dim() != 3 or not made.is_floating_point():
        raise ExplainerError(f"preprocess= makes a tensor of shape {tuple(made.shape)} and type {made.dtype} of a picture; {_WANTED}")
    return made.float().contiguous()


def _grey(values: NDArray[Any]) -> Image.Image:
    return Image.fromarray(values.round().astype(np.uint8)).convert("RGB")


def _greys(pixels: Tensor, black: Tensor, white: Tensor) -> Tensor:
    """Return the grey value of each pixel (H, W), 0 black and 1 white, from the tensors of a black and a white picture; NaN in padding."""
    contrast = white - black
    shown = contrast.abs() > _CONTRAST * contrast.abs().max()
    greys = torch.where(shown, (pixels - black) / torch.where(shown, contrast, 1.0), torch.nan)
    return greys[0]


def _edges(greys: Tensor, dim: int) -> tuple[float, float] | None:
    """Return the first and the last value, 0 to 1, of greys (H, W) that grow along ``dim``; None if they do not grow evenly, or grow along
    the other dimension too.
    """
    lines = greys if dim == -1 else greys.mT
    shown = ~lines.isnan()
    if not bool(shown.any()):
        return None
    counts = shown.sum(0)
    means = torch.where(shown, lines, 0.0).sum(0).double() / counts.clamp(min=1)
    off = torch.where(shown, (lines - means.float()).abs(), 0.0)
    inner = (counts > 0) & (means > 0.02) & (means < 0.98)
    rough = _line(means, inner)
    if rough is None or rough[1] <= 0 or float(off.max()) > _STRAIGHT:
        return None
    margin = _FILTER * rough[1]
    start, slope = _line(means, inner & (means > margin) & (means < 1 - margin)) or rough
    places = torch.arange(len(means), dtype=torch.float64)[inner]
    if float((start + slope * places - means[inner]).abs().max()) > _STRAIGHT + margin:
        return None
    return start - slope / 2, start + slope * (len(means) - 0.5)


def _line(values: Tensor, known: Tensor) -> tuple[float, float] | None:
    """Fit a straight line to the ``known`` ones of values (N,) and return its start and slope; None if fewer than two are known."""
    if int(known.sum()) < 2:
        return None
    places, heights = torch.arange(len(values), dtype=torch.float64)[known], values[known]
    centre = places.mean()
    slope = float(((places - centre) * (heights - heights.mean())).sum() / (places - centre).square().sum())
    return float(heights.mean()) - slope * float(centre), slope


def _on_edge(place: float, side: int) -> int:
    """Round ``place``, a position along a picture's side of ``side`` pixels, to whole pixels, or to the edge of the picture if it is close
    to that; return it.
    """
    edge = next((edge for edge in (0, side) if abs(place - edge) < _AT_EDGE * side), None)
    return round(place) if edge is None else edge


def _picture_of(pixels: Tensor, trial: _Trial) -> Image.Image:
    """Return the picture that the model was shown, in RGB, from its tensor ``pixels`` (C, H, W): scaled between the tensors of black and of
    white in ``trial``, or between its own extremes.
    """
    if trial.black.shape == pixels.shape and bool((trial.white != trial.black).any()):
        contrast = trial.white - trial.black
        values = torch.where(contrast == 0, 0.0, (pixels - trial.black) / torch.where(contrast == 0, 1.0, contrast))
    else:
        values = (pixels - pixels.min()) / (pixels.max() - pixels.min()).clamp(min=1e-12)
    rgb = (values.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).expand(-1, -1, 3)
    return Image.fromarray(rgb.contiguous().numpy())
