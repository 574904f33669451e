"""Greys of more than 8 bits (12 and 16 bits, floating point, DICOM) and the window through which they are shown; arrays as pictures.

Their values are kept until a window maps them to 256 greys: the one that the caller or the file names, else from the smallest value to
the largest. They are never divided by the range of their type: a scan of 12 bits in a file of 16 would be black.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.errors import ExplainerError
from explainers.installation import not_installed
from explainers.json_records import Record, describe

#: The keys in a picture's ``info`` for the level and the width that its file names.
FILE_WINDOW = "window"
DICOM_SUFFIXES = (".dcm", ".dicom")
_DICOM_MARK = slice(128, 132)  # of a file's first bytes
_UNCOMPRESSED = {b"1.2.840.10008.1.2", b"1.2.840.10008.1.2.1", b"1.2.840.10008.1.2.2"}  # transfer syntaxes
_LONG_LENGTHS = (b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV")  # of 4 bytes


@dataclass(frozen=True)
class GreyWindow(Record):
    """The range of values that is shown as 256 greys, from black to white: its middle (``level``), its width, and where it comes from."""

    level: Annotated[float, describe("It becomes the middle grey.")]
    width: Annotated[float, describe("What lies half of it below the level is black, half of it above white.")]
    source: Annotated[
        Literal["set", "file", "range"], describe("Who chose it: the caller, the file, or the smallest and the largest value.")
    ] = "set"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.level) and math.isfinite(self.width) and self.width > 0):
            raise ExplainerError(f"a window of level {self.level} and width {self.width} shows nothing; send a width above 0")

    def greys(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Convert ``values`` to greys of 0 to 255; NaN becomes black."""
        share = (np.asarray(values, np.float64) - self.level) / self.width + 0.5
        return np.asarray((255 * np.nan_to_num(share, nan=0.0).clip(0, 1)).round(), np.uint8)


@dataclass(frozen=True)
class WindowedPicture:
    """A grey picture of more than 8 bits (``image``) with the window of values, in the file's units, that the model is shown: ``level`` is
    its middle, ``width`` its extent.
    """

    image: Image.Image | Path | str | NDArray[Any]
    level: float
    width: float

    @property
    def window(self) -> GreyWindow:
        """The window of the picture. Raises ExplainerError for a width that is not above 0."""
        return GreyWindow(float(self.level), float(self.width))


def is_deep(image: Image.Image) -> bool:
    """Return whether ``image`` has grey values of more than 8 bits, which need a window."""
    return image.mode.startswith("I") or image.mode == "F"


def window_of(image: Image.Image) -> GreyWindow:
    """Return the default window of grey values for ``image``, which has more than 8 bits: the window that its file names, else the range of
    its values, or 0 to 1 for floats in that range.
    """
    if (named := image.info.get(FILE_WINDOW)) is not None:
        return GreyWindow(named[0], named[1], "file")
    values = np.asarray(image, np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if image.mode == "F" and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return GreyWindow((low + high) / 2, (high - low) or 1.0, "range")


def picture_of_array(array: NDArray[Any]) -> Image.Image:
    """Convert ``array`` to a picture and return it. It holds greys (height, width) of any number type, or colours (height, width, 3) of 8
    bits or of 0 to 1, also with the channels first. Raises ExplainerError for any other array.
    """
    wanted = "send greys (height, width), or colours (height, width, 3) as uint8 or as floats of 0 to 1"
    shape = tuple(array.shape)
    if array.dtype.kind not in "uifb" or not array.size:
        raise ExplainerError(f"an array of {array.dtype} and shape {shape} is no picture; {wanted}")
    values = channels_last(array, (1, 3)) if array.ndim == 3 else array
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.ndim == 2:
        if values.dtype == np.bool_:
            return Image.fromarray(values.astype(np.uint8) * 255)
        return Image.fromarray(values) if values.dtype == np.uint8 else Image.fromarray(values.astype(np.float32))
    if values.ndim != 3:
        raise ExplainerError(f"an array of shape {shape} is no picture; {wanted}")
    if values.dtype == np.uint8:
        return Image.fromarray(np.ascontiguousarray(values))
    if values.dtype.kind == "f" and values.min() >= 0 and values.max() <= 1:
        return Image.fromarray((255 * values).round().astype(np.uint8))
    raise ExplainerError(
        f"colours of {values.dtype} from {values.min():g} to {values.max():g} do not say how bright they are; {wanted}, and preprocessed "
        "pixels (batch, channels, height, width) as {'pixel_values': torch.from_numpy(x)}"
    )


def channels_last(array: NDArray[Any], counts: tuple[int, ...]) -> NDArray[Any]:
    """Return ``array``, a stack of bands, with its axes in the order (height, width, bands). One of its first and last axes must have a
    length in ``counts``; raises ExplainerError if both or none have.
    """
    first, last = array.shape[0] in counts, array.shape[-1] in counts
    if array.ndim != 3 or first == last:
        wanted = " or ".join(map(str, counts))
        raise ExplainerError(
            f"an array of shape {tuple(array.shape)} does not say which axis holds the channels; send (height, width, {wanted})"
        )
    return np.moveaxis(array, 0, -1) if first else array


def read_array(path: Path) -> NDArray[Any]:
    """Return the array in the ``.npy`` file ``path``, without executing anything in it. Raises ExplainerError if it
    holds none, or several.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as problem:
        raise ExplainerError(f"{path} holds no array of numbers ({problem}); write it with numpy.save") from problem
    if not isinstance(array, np.ndarray):
        raise ExplainerError(f"{path} holds several arrays; write the one of the picture with numpy.save")
    return array


def is_dicom(head: bytes) -> bool:
    """Return whether a file that begins with the bytes ``head`` is a DICOM file."""
    return head[_DICOM_MARK] == b"DICM"


def _transfer_syntaxes(data: bytes) -> set[bytes]:
    """Return the UIDs in the meta information of a DICOM file, the bytes ``data``, that say how the rest of it is stored; the rest is not
    unpacked. That information is a list of elements of group 2 in Explicit VR Little Endian (DICOM PS3.10, section 7.1).
    """
    syntaxes, place = set[bytes](), 132
    while data[place : place + 2] == b"\2\0":
        is_long = data[place + 4 : place + 6] in _LONG_LENGTHS
        start = place + (12 if is_long else 8)
        length = int.from_bytes(data[place + 8 : start] if is_long else data[place + 6 : start], "little")
        if data[place + 2 : place + 4] == b"\x10\0":
            syntaxes.add(data[start : start + length].rstrip(b"\0 "))
        place = start + length
    return syntaxes


def read_dicom(file: Any, name: str, most_pixels: float = math.inf) -> Image.Image:
    """Return one grey slice of a DICOM file in the units of its modality (Hounsfield for CT), its window in ``info``; inverted greys
    upright.

    ``file`` is a path or an open file, ``name`` its name in error messages. Needs pydicom, the extra ``medical``. Raises ExplainerError for
    several frames, and for colours, and for more than ``most_pixels``, before they are decoded. With ``most_pixels``, ``file`` must be
    open, and a compressed slice is refused too, as its unpacked size is known only afterwards.
    """
    try:
        import pydicom
        from pydicom.pixels.processing import apply_modality_lut
    except ImportError:
        raise ExplainerError(not_installed(f"{name} is a DICOM file and needs the package pydicom", "medical")) from None
    try:
        if most_pixels != math.inf:
            syntaxes = _transfer_syntaxes(file.read())
            file.seek(0)
            if not syntaxes or not syntaxes <= _UNCOMPRESSED:
                raise ValueError("it is compressed, or does not say how it is stored")
        data = pydicom.dcmread(file)
        if (pixels := int(data.Rows) * int(data.Columns) * int(getattr(data, "NumberOfFrames", None) or 1)) > most_pixels:
            raise ValueError(f"{pixels} pixels are too many")
        values = np.asarray(apply_modality_lut(data.pixel_array, data), np.float32)
    except Exception as problem:  # pydicom's decoders raise whatever they like on broken data
        raise ExplainerError(f"{name} cannot be read as DICOM ({problem}); send one uncompressed slice") from problem
    if values.ndim != 2:
        raise ExplainerError(f"{name} holds an array of shape {values.shape}; send one grey slice")
    level, width = (_first(getattr(data, key, None)) for key in ("WindowCenter", "WindowWidth"))
    if inverted := getattr(data, "PhotometricInterpretation", "") == "MONOCHROME1":
        values = -values
    image = Image.fromarray(values)
    if level is not None and width:
        image.info[FILE_WINDOW] = (-level if inverted else level, width)
    return image


def _first(value: Any) -> float | None:
    """Return ``value`` as a float, or its first number if it is a sequence, because some files name several windows; None if it is
    empty.
    """
    if value is None or value == "":
        return None
    return float(value if isinstance(value, int | float | str) else value[0])
