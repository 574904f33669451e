"""Images: reading them upright in RGB, and turning them into the tensor that a model was trained on, knowing which part it saw.

The arithmetic is that of ``timm.data.create_transform`` (evaluation) and of transformers' image processors with their PIL backend,
so the tensors are equal; ours also says which rectangle of the original went in, and needs no torchvision.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import (
    DICOM_SUFFIXES,
    GreyWindow,
    WindowedPicture,
    is_deep,
    is_dicom,
    picture_of_array,
    read_array,
    read_dicom,
    window_of,
)
from explainers.models.inputs.heif import BRANDS_BYTES, can_read_heif, heif_not_installed, needs_heif, register_heif
from explainers.models.inputs.types import Crop, ImageInput

#: The formats that people are asked for, as Pillow names them; HEIF, what phones save as .heic, where its extra is installed.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", *(("HEIF",) if register_heif() else ()))
#: Formats that Pillow recognises by the first bytes but does not read, at least not alone: for EPS it starts Ghostscript.
NOT_READ = {"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"}

#: The types that are read as pictures.
PictureSource = Image.Image | Path | str | WindowedPicture | NDArray[Any]
#: A resized picture larger than this is never made whole: only the part that is kept is (a photo one pixel wide and 20000 tall).
WHOLE_RESIZE_LIMIT = 40_000_000  # pixels


def read_image(source: PictureSource) -> Image.Image:
    """Read a picture from ``source``, turned upright by its EXIF orientation, in RGB.

    Transparent parts become white. Greys of more than 8 bits are shown through a window (`explainers.models.inputs.depth`). The first frame
    of an animation is taken. Raises ExplainerError if it is not a readable image.
    """
    return read_picture(source)[0]


def read_picture(source: PictureSource) -> tuple[Image.Image, GreyWindow | None]:
    """Read the picture ``source`` as :func:`read_image` does. Return it with the window through which greys of more than 8 bits are shown;
    None for other pictures.
    """
    if isinstance(source, WindowedPicture):
        return _show(source.image, source.window)
    return _show(source, None)


def _show(source: object, window: GreyWindow | None) -> tuple[Image.Image, GreyWindow | None]:
    if isinstance(source, np.ndarray):
        source = picture_of_array(source)
    if isinstance(source, Image.Image):
        return _upright_rgb(source, "the image", window)
    if not isinstance(source, (str, Path)):
        raise ExplainerError(f"an image model takes a PIL image or the path of an image file, not a {type(source).__name__}")
    path = Path(source).expanduser()
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character: a text, not a path
        is_folder = is_file = False
    if is_folder:
        raise ExplainerError(f"{path} is a folder; send an image file, for example {path / 'photo.jpg'}")
    if not is_file:
        shown = str(source) if len(str(source)) <= 80 else f"{str(source)[:80]}..."
        raise ExplainerError(f"there is no file {shown!r}; an image model takes a PIL image or the path of an image file")
    if path.suffix.lower() == ".npy":
        return _upright_rgb(picture_of_array(read_array(path)), str(path), window)
    try:
        head = _head(path)
        if path.suffix.lower() in DICOM_SUFFIXES or is_dicom(head):
            return _upright_rgb(read_dicom(path, str(path)), str(path), window)
        if needs_heif(head) and not can_read_heif():
            raise ExplainerError(heif_not_installed(str(path)))
        with _open_image(path) as image:
            return _upright_rgb(image, str(path), window)
    except UnidentifiedImageError:
        raise ExplainerError(f"{path} is not an image that can be read; send a {join_with_or(FORMATS)} file") from None
    except (OSError, SyntaxError, EOFError) as problem:  # cut off within its header
        raise ExplainerError(f"{path} is damaged or cut short ({problem}); send the whole file") from problem


def _head(path: Path) -> bytes:
    """Return the first bytes of the file ``path``, enough to tell its format; empty if it cannot be read, which is reported when it is
    opened.
    """
    try:
        with path.open("rb") as file:
            return file.read(BRANDS_BYTES)
    except PermissionError:
        return b""


@cache
def readable_suffixes() -> frozenset[str]:
    """Return the suffixes of files that :func:`read_image` reads, in lower case, from Pillow's list: .jpg, .jpeg, .tif, .heic, .ppm, ..."""
    of_formats = Image.registered_extensions()  # imports all of Pillow's formats, which takes a while
    readable = Image.OPEN.keys() - NOT_READ | {"MPO"}  # that is read as the JPEG that it begins with
    return frozenset(suffix for suffix, name in of_formats.items() if name in readable)


def is_picture_name(path: Path | str) -> bool:
    """Return whether the file name ``path`` has the suffix of a readable picture (:func:`readable_suffixes`); nothing is opened."""
    return Path(path).suffix.lower() in readable_suffixes()


def join_with_or(names: Sequence[str]) -> str:
    """Join ``names`` as in a sentence: A, B or C."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _open_image(path: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise ExplainerError(f"{path} has too many pixels; send one of at most {Image.MAX_IMAGE_PIXELS} pixels") from None
    except PermissionError:
        raise ExplainerError(f"{path} may not be read; change its permissions or send another file") from None
    if image.format in NOT_READ:
        image.close()
        raise UnidentifiedImageError
    return image


def _upright_rgb(image: Image.Image, name: str, window: GreyWindow | None) -> tuple[Image.Image, GreyWindow | None]:
    if 0 in image.size:
        raise ExplainerError(f"{name} has no pixels: its size is {image.width} x {image.height}")
    try:
        image.load()
        upright = ImageOps.exif_transpose(image)
    except (OSError, SyntaxError, ValueError, EOFError) as problem:  # what Pillow's decoders raise for damaged files
        raise ExplainerError(f"{name} is damaged or cut short ({problem}); send the whole file") from problem
    if window is not None and not is_deep(upright) and upright.mode != "L":
        raise ExplainerError(f"{name} has colours, and a window is for greys: leave it out")
    if window is None and is_deep(upright):
        window = window_of(upright)
    return to_rgb(upright, window), window


def to_rgb(image: Image.Image, window: GreyWindow | None = None) -> Image.Image:
    """Convert an image to mode RGB: transparency becomes white; greys of more than 8 bits are scaled by ``window``, or by the picture's own
    window.
    """
    if window is not None or is_deep(image):
        return Image.fromarray((window or window_of(image)).greys(np.asarray(image))).convert("RGB")
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        front = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", front.size, (255, 255, 255, 255)), front).convert("RGB")
    return image.convert("RGB")


class PicturePreparation(ABC):
    """Base of the ways to turn pictures into tensors, each a function from an image to a tensor and a record of what the model sees of
    it.
    """

    @abstractmethod
    def __call__(self, image: Image.Image) -> tuple[Tensor, ImageInput]:
        """Turn ``image``, upright and RGB, into a float32 tensor (channels, H, W), and a record of which part of the image the model
        sees.
        """

    @abstractmethod
    def cut_out(self, crop: Crop) -> tuple[Tensor, ImageInput]:
        """Turn the part ``crop`` of a picture into a float32 tensor (channels, H, W), and a record of how it is shown. Raises
        ExplainerError for a part that does not lie in its picture.
        """

    def of(self, source: PictureSource | Crop) -> tuple[Tensor, ImageInput]:
        """Read a picture, or a :class:`Crop` of one, from ``source``, and return its tensor and record. Raises ExplainerError if it is not
        a picture.
        """
        if isinstance(source, Crop):
            return self.cut_out(source)
        image, window = read_picture(source)
        pixels, record = self(image)
        return pixels, replace(record, window=window)


@dataclass(frozen=True)
class Preprocessing(PicturePreparation):
    """The steps that turn an upright RGB image into a tensor: resize, cut or pad around the centre, scale, normalise.

    resize     (height, width), or None to leave the size alone
    fit        "squash": to ``resize`` exactly. "cover": keep the proportions, the shorter side fills ``resize``. "contain": keep the
               proportions, the longer side fits ``resize``.
    crop       (height, width) kept around the centre, padded with ``fill`` where the picture is smaller; None keeps everything
    resample   the filter that resizes
    mean, std  by channel: values from 0 to 1 become (value - mean) / std
    channels   1 for greys, 3 for colours
    patches    (side of a patch in pixels, maximum number of patches), or None. Keep the proportions and use as many whole patches as
               allowed, without ``resize`` or crop
    longest    maximum length of the longer side, when "cover" fills ``resize`` with the shorter one, as in transformers' detectors
    multiple   number of pixels of which both sides become whole multiples, by cutting after resizing
    round      how half a pixel of margin, and with ``longest`` a side, is rounded: "nearest" (torchvision, timm) or "down" (transformers)
    """

    resize: tuple[int, int] | None
    fit: Literal["squash", "cover", "contain"] = "cover"
    crop: tuple[int, int] | None = None
    resample: Image.Resampling = Image.Resampling.BICUBIC
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    scale: float = 1 / 255
    fill: tuple[int, int, int] = (0, 0, 0)
    round: Literal["nearest", "down"] = "nearest"
    patches: tuple[int, int] | None = None
    channels: Literal[1, 3] = 3
    longest: int | None = None
    multiple: int = 1

    @property
    def size(self) -> tuple[int, int] | None:
        """The size (height, width) of every resulting tensor; None if it depends on the image."""
        return self.crop or (self.resize if self.fit == "squash" else None)

    def __call__(self, image: Image.Image) -> tuple[Tensor, ImageInput]:
        """Turn ``image``, upright and RGB, into a normalised float32 tensor (channels, H, W), and a record of which part of the image the
        model sees.
        """
        resized_width, resized_height = self._size_after_resizing(image.width, image.height)
        height, width = self.crop or (resized_height, resized_width)
        left = self._margin(resized_width, width)
        top = self._margin(resized_height, height)
        picture = self._cut(image, (resized_width, resized_height), (left, top, left + width, top + height))
        x0, x1 = _span(left, width, image.width / resized_width)
        y0, y1 = _span(top, height, image.height / resized_height)
        # copied because the picture's buffer is read-only
        shown = picture.convert("L").convert("RGB") if self.channels == 1 else picture
        pixels = torch.from_numpy(np.array(shown, dtype=np.float32)).permute(2, 0, 1)[: self.channels] * self.scale
        mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (self.mean, self.std))
        record = ImageInput(image.width, image.height, (x0, y0, x1, y1), (width, height), shown)
        return ((pixels - mean) / std).contiguous(), record

    def cut_out(self, crop: Crop) -> tuple[Tensor, ImageInput]:
        """Turn the part ``crop`` of an image into a tensor and a record. It is resized to the model's input without cutting off a margin.

        If its proportions differ from the model's input, it is cut, padded or squashed like a whole image. Raises ExplainerError for a part
        that does not lie in its image.
        """
        image, window = read_picture(crop.image)
        crop.check(image.size)
        fitting = self if self.crop is None or self.resize is None else replace(self, resize=self.crop)
        pixels, record = fitting(image.crop(crop.box))
        left, top = crop.box[:2]
        x0, y0, x1, y1 = record.crop
        placed = (x0 + left, y0 + top, x1 + left, y1 + top)
        return pixels, replace(record, width=image.width, height=image.height, crop=placed, frame=crop.box, window=window)

    def _size_after_resizing(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height that a picture of ``width`` by ``height`` pixels has after resizing."""
        if self.patches is not None:
            return _whole_patches(width, height, *self.patches)
        if self.longest is not None and self.resize is not None:
            across, down = _fit_within(width, height, self.resize[0], self.longest, self.round == "nearest")
            return max(across - across % self.multiple, self.multiple), max(down - down % self.multiple, self.multiple)
        if self.resize is None:
            return width, height
        to_height, to_width = self.resize
        if self.fit == "squash":
            return to_width, to_height
        if self.fit == "cover" and to_height == to_width:  # torchvision's Resize(int) cuts the longer side down to whole pixels
            short, long = sorted((width, height))
            other = int(to_height * long / short)
            return (to_width, other) if width <= height else (other, to_height)
        ratios = (height / to_height, width / to_width)
        ratio = max(ratios) if self.fit == "contain" else min(ratios)  # timm's ResizeKeepRatio
        return max(1, round(width / ratio)), max(1, round(height / ratio))

    def _margin(self, size: int, kept: int) -> int:
        """Return the offset at which the part of ``kept`` pixels of a resized side of ``size`` pixels begins, negative where padding is
        needed.
        """
        if self.round == "down":
            return (size - kept) // 2
        return -((kept - size) // 2) if kept > size else round((size - kept) / 2)

    def _cut(self, image: Image.Image, size: tuple[int, int], box: tuple[int, int, int, int]) -> Image.Image:
        width, height = size
        left, top, right, bottom = box
        if width * height > WHOLE_RESIZE_LIMIT and left >= 0 and top >= 0:
            across, down = image.width / width, image.height / height
            part = (left * across, top * down, right * across, bottom * down)
            return image.resize((right - left, bottom - top), self.resample, box=part)  # rounds a few pixels differently
        resized = image if image.size == size else image.resize(size, self.resample)
        if left >= 0 and top >= 0:
            return resized.crop(box)
        canvas = Image.new("RGB", (right - left, bottom - top), self.fill)
        canvas.paste(resized, (-left, -top))
        return canvas


def _fit_within(width: int, height: int, shortest: int, longest: int, nearest: bool) -> tuple[int, int]:
    """Return (width, height) with the same proportions and the shorter side ``shortest`` pixels long, or shorter if the longer side would
    exceed ``longest``; rounded to whole pixels as in transformers: to the ``nearest`` as for ViLT, else as for detectors.
    """
    low, high = sorted((width, height))
    exact: float = shortest
    if nearest:
        scale = shortest / low
        scale *= min(1.0, longest / (scale * high))
        return int(scale * width + 0.5), int(scale * height + 0.5)
    if high / low * shortest > longest:
        exact, shortest = longest * low / high, round(longest * low / high)
    other = high if low == shortest else int(exact * high / low)
    return (shortest, other) if width < height else (other, shortest)


def _whole_patches(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    """Return the largest (width, height) of about the same proportions that consists of at most ``most`` whole patches of ``side`` pixels,
    as in transformers.
    """

    def scaled(scale: float) -> tuple[int, int]:
        across, down = (max(side, math.ceil(length * scale / side) * side) for length in (width, height))
        return across, down

    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        middle = (low + high) / 2
        across, down = scaled(middle)
        low, high = (middle, high) if across * down <= most * side**2 else (low, middle)
    return scaled(low)


def _span(start: int, length: int, ratio: float) -> tuple[int, int]:
    """Return the pixels of the original, from the first to before the last, that belong to ``length`` resized pixels from ``start``; at
    least one pixel. ``ratio`` is the original's length over the resized one.

    The span reaches beyond the original (negative, or more than its size) if the model saw padding.
    """
    begin, end = start * ratio, (start + length) * ratio
    if round(end) > round(begin):
        return round(begin), round(end)
    middle = math.floor((begin + end) / 2)
    return middle, middle + 1


_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
    "lanczos": Image.Resampling.LANCZOS,
}


def timm_preprocessing(config: Mapping[str, Any], size: tuple[int, int]) -> Preprocessing:
    """Return the preprocessing of ``timm.data.create_transform`` in evaluation, for pictures of ``size`` (height, width); ``config`` is the
    result of ``timm.data.resolve_model_data_config``. Raises ExplainerError for channels or an interpolation that are not known here.
    """
    mean, std = tuple(config["mean"]), tuple(config["std"])
    if config["interpolation"] not in _RESAMPLING or len(mean) not in (1, 3):
        raise ExplainerError(
            f"the model declares {len(mean)} channels and the interpolation {config['interpolation']!r}; "
            "pass preprocess=explainers.Preprocessing(...)"
        )
    mode = config.get("crop_mode") or "center"
    return Preprocessing(
        resize=(math.floor(size[0] / config["crop_pct"]), math.floor(size[1] / config["crop_pct"])),
        fit={"squash": "squash", "border": "contain"}.get(mode, "cover"),  # type: ignore[arg-type]
        crop=size,
        resample=_RESAMPLING[config["interpolation"]],
        mean=mean,
        std=std,
        fill=tuple(round(255 * m) for m in (mean * 3)[:3]) if mode == "border" else (0, 0, 0),
    )


def in_greys(recipe: Preprocessing) -> Preprocessing:
    """Return a copy of ``recipe`` for pictures with one channel of greys. If it has three means and deviations, each triple becomes its
    average.
    """
    mean, std = (values if len(values) == 1 else (sum(values) / len(values),) for values in (recipe.mean, recipe.std))
    return replace(recipe, channels=1, mean=mean, std=std)


_VILT_PROPORTIONS = 1333 / 800  # of the longer side to the shorter, at most, in ViLT's processor
# Steps of some image processors that ours does not have; none of them belongs to a plain classifier.
_UNSUPPORTED = ("do_pad", "do_flip_channel_order", "do_thumbnail", "do_align_long_axis", "do_crop_margin")


def processor_preprocessing(processor: Any) -> Preprocessing:
    """Return the preprocessing of ``processor``, an image processor of transformers, from the settings it carries."""
    kind = type(processor).__name__
    detects = hasattr(processor, "post_process_object_detection")  # such a one pads pictures to the largest of a batch
    divisor = getattr(processor, "size_divisor", None) if kind.startswith("Vilt") else None  # such a one pads likewise
    pads = detects or divisor is not None
    strange = [name for name in _UNSUPPORTED if getattr(processor, name, None) and not (name == "do_pad" and pads)]
    if strange:
        raise ExplainerError(
            f"{kind} asks for {', '.join(strange)}, which is not known here; pass preprocess=explainers.Preprocessing(...)"
        )
    resize: tuple[int, int] | None = None
    fit: Literal["squash", "cover"] = "squash"
    longest, multiple = None, 1
    most = getattr(processor, "max_num_patches", None)
    if getattr(processor, "do_resize", False) and not most:
        size = _sides(processor.size)
        if size.keys() == {"shortest_edge"} and divisor is not None:
            resize, fit, multiple = (size["shortest_edge"],) * 2, "cover", int(divisor)
            longest = int(_VILT_PROPORTIONS * size["shortest_edge"])
        elif size.keys() == {"shortest_edge"}:
            resize, fit = (size["shortest_edge"],) * 2, "cover"
        elif size.keys() == {"shortest_edge", "longest_edge"} and detects:
            resize, fit, longest = (size["shortest_edge"],) * 2, "cover", size["longest_edge"]
            multiple = 16 if kind.startswith("Yolos") else 1  # which its settings do not say
        elif size.keys() == {"height", "width"}:
            resize = (size["height"], size["width"])
        else:
            raise ExplainerError(f"{kind} resizes to {size}, which is not known here; pass preprocess=explainers.Preprocessing(...)")
    crop = _sides(processor.crop_size) if getattr(processor, "do_center_crop", False) else None
    share = getattr(processor, "crop_pct", None)
    if share and resize is not None:  # from 384 pixels on, such a processor squashes; below, it keeps this share of the centre
        side = resize[0]
        fit, crop = ("cover", {"height": side, "width": side}) if side < 384 else ("squash", None)
        resize = (int(side / share),) * 2 if side < 384 else resize
    normalise = bool(getattr(processor, "do_normalize", False))
    resample = getattr(processor, "resample", None)
    return Preprocessing(
        resize=resize,
        fit=fit,
        crop=(crop["height"], crop["width"]) if crop else None,
        resample=Image.Resampling.BILINEAR if resample is None else Image.Resampling(int(resample)),
        mean=tuple(processor.image_mean) if normalise else (0.0, 0.0, 0.0),
        std=tuple(processor.image_std) if normalise else (1.0, 1.0, 1.0),
        scale=float(processor.rescale_factor) if getattr(processor, "do_rescale", False) else 1.0,
        round="down" if divisor is None else "nearest",
        patches=(int(processor.patch_size), int(most)) if most else None,
        longest=longest,
        multiple=multiple,
    )


def _sides(size: Any) -> dict[str, int]:
    """Return a size setting as the sides that are set; a bare number is a square."""
    if isinstance(size, int):
        return {"height": size, "width": size}
    names = ("height", "width", "shortest_edge", "longest_edge", "max_height", "max_width")
    values = {name: size[name] if isinstance(size, dict) and name in size else getattr(size, name, None) for name in names}
    return {name: int(value) for name, value in values.items() if value}
