"""Sounds: reading them, and turning them into the tensor of a model as a picture of one channel, of frequencies over time or of the wave.

A model of sounds is a model of pictures that nobody painted: its tokens are patches of a spectrogram, or stretches of time. So everything
that explains pictures explains sounds, and only how they are read and drawn is here.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.images import PicturePreparation
from explainers.models.inputs.types import Crop, ImageInput, Sound, SoundStretch

#: Columns and rows of pixels of a drawn wave.
_COLUMNS, _ROWS = 1024, 256
#: How many times as wide as high a drawn spectrogram is at most.
_WIDEST = 4
#: The greys of a drawn wave: of its ground and of its line.
_GROUND, _LINE = 250, 60
_SEND = "send the path of a .wav file, or explainers.Sound(samples, rate)"


def is_sound_file(head: bytes) -> bool:
    """Return whether ``head``, the first bytes of a file, begins a .wav file."""
    return head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE"


def read_sound(source: object) -> Sound:
    """Read a sound from ``source``, a path of a .wav file, its bytes or a :class:`Sound`, as one channel, the mean of all, from -1 to 1
    (float32).

    Raises ExplainerError if it is not a readable sound, is empty, or holds numbers that are not finite.
    """
    sound = source if isinstance(source, Sound) else _read_file(source)
    samples = np.asarray(sound.samples)
    if samples.ndim == 2:
        samples = samples.mean(int(samples.shape[0] > samples.shape[1]), dtype=None if samples.dtype.kind == "f" else np.float64)
    if samples.ndim != 1 or not samples.size or samples.dtype.kind != "f":
        raise ExplainerError(f"samples of shape {samples.shape} and type {samples.dtype} are no sound: send floats (samples,) from -1 to 1")
    if not np.isfinite(samples).all():
        raise ExplainerError("the sound holds numbers that are not finite: send samples from -1 to 1")
    if sound.rate <= 0:
        raise ExplainerError(f"rate={sound.rate}: send the number of samples a second, such as 16000")
    return Sound(samples.astype(np.float32), int(sound.rate))


def draw_wave(sound: Sound) -> Image.Image:
    """Draw ``sound``, as :func:`read_sound` returns it, as a strip of its wave over time, RGB."""
    return _wave(torch.from_numpy(sound.samples))


def _read_file(source: object) -> Sound:
    if isinstance(source, bytes):
        return _read_wav(io.BytesIO(source), "the file")
    if not isinstance(source, str | Path):
        raise ExplainerError(f"a model of sounds takes no {type(source).__name__}: {_SEND}")
    path = Path(source).expanduser()
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a path, or with a null character: a text, not a path
        is_file = False
    if not is_file:
        raise ExplainerError(f"there is no file {str(source)[:80]!r}: {_SEND}")
    return _read_wav(path, path.name)


def _read_wav(file: Path | io.BytesIO, name: str) -> Sound:
    from scipy.io import wavfile  # which takes a while to import

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of parts of the file that hold a title or a cover
            rate, samples = wavfile.read(file)
    except Exception as problem:  # the reader has errors of its own for each damage
        raise ExplainerError(f"{name} is no .wav file that can be read ({problem}): {_SEND}") from problem
    if samples.dtype.kind == "u":  # 8 bits, whose silence is 128
        samples = (samples.astype(np.float64) - 128) / 128
    elif samples.dtype.kind == "i":
        samples = samples / -float(np.iinfo(samples.dtype).min)
    return Sound(samples if samples.ndim == 1 else samples.mean(1), rate)


def at_rate(sound: Sound, rate: int) -> NDArray[np.float32]:
    """Return the samples of ``sound``, as :func:`read_sound` returns it, at another ``rate`` (samples a second), by polyphase filtering."""
    if sound.rate == rate:
        return np.asarray(sound.samples, np.float32)
    from scipy.signal import resample_poly  # which takes a while to import

    common = gcd(sound.rate, rate)
    return np.asarray(resample_poly(sound.samples, rate // common, sound.rate // common), np.float32)


@dataclass(frozen=True)
class SoundShape:
    """How a model reads sounds, as a tensor (height, width) without channels.

    form    "patches" or "columns" of a spectrogram: its tokens are patches, or stretches of time with all frequencies. "wave": its tokens
            are stretches of the samples, which are one row
    name    the argument that takes the tensor
    patch   (rows, columns) of what one token is made of
    pitch   (rows, columns) from one token to the next
    """

    form: Literal["patches", "columns", "wave"]
    name: str
    patch: tuple[int, int]
    pitch: tuple[int, int]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of tokens of a tensor of ``height`` by ``width``; zeros if it is too small for one."""
        rows, columns = (max((side - of) // step + 1, 0) for side, of, step in zip((height, width), self.patch, self.pitch, strict=True))
        return rows, columns

    def read(self, height: int, width: int) -> tuple[int, int]:
        """Return how many rows and columns of a tensor of ``height`` by ``width`` the tokens read, from the first on."""
        rows, columns = ((count - 1) * step + of for count, step, of in zip(self.grid(height, width), self.pitch, self.patch, strict=True))
        return rows, columns

    def drawn(self, height: int, width: int) -> tuple[slice, slice]:
        """Return the rows and columns of a tensor of ``height`` by ``width`` over which its tokens lie side by side, each around the middle
        of what it is made of. Where patches overlap, a margin of the tensor is left out.
        """
        margins = [(of - step) // 2 for of, step in zip(self.patch, self.pitch, strict=True)]
        rows, columns = (
            slice(margin, margin + count * step) for margin, count, step in zip(margins, self.grid(height, width), self.pitch, strict=True)
        )
        return rows, columns


@dataclass(frozen=True, eq=False)
class SoundPreparation(PicturePreparation):
    """A preparation of sounds by a feature extractor of transformers, with the interface of those of pictures: a tensor (1, height, width)
    of a spectrogram with low frequencies below, or (1, 1, samples) of a wave.

    extractor  makes the tensor that the model reads from samples at its own rate
    shape      how the model reads it
    second     how many columns of the tensor are a second
    size       (height, width) of the tensor of one second, and of every sound if the extractor pads and cuts
    guess      a clause that says why the extractor is a guess; None if it is not
    """

    extractor: Any
    shape: SoundShape
    second: float
    size: tuple[int, int]
    guess: str | None = None
    channels: Literal[1] = 1
    resize: None = None
    crop: None = None

    @classmethod
    def by(cls, extractor: Any, shape: SoundShape, second: float, guess: str | None = None) -> SoundPreparation:
        """Return the preparation by ``extractor``, whose tensors have ``second`` columns a second, for a model that reads sounds in a
        ``shape``; ``guess`` says why it is a guess.
        """
        silence = _tensor_by(extractor, shape, np.zeros(int(extractor.sampling_rate), np.float32))
        return cls(extractor, shape, second, (silence.shape[-2], silence.shape[-1]), guess)

    @property
    def rate(self) -> int:
        """How many samples a second the model takes."""
        return int(self.extractor.sampling_rate)

    def __call__(self, image: Image.Image) -> tuple[Tensor, ImageInput]:
        """Raise ExplainerError: a picture is no sound."""
        raise ExplainerError(f"this model takes sounds, not pictures: {_SEND}")

    def cut_out(self, crop: Crop) -> tuple[Tensor, ImageInput]:
        """Raise ExplainerError: a part of a picture is no sound."""
        raise ExplainerError("this model takes sounds, of which no crop is made: send the part as a sound of its own")

    def of(self, source: object) -> tuple[Tensor, ImageInput]:
        """Read a sound from ``source`` and return its tensor, and a record with the picture on which its map is drawn: the spectrogram, or
        the wave. Raises ExplainerError if it is no sound, or too short for one token.
        """
        if isinstance(source, Crop):
            return self.cut_out(source)
        if isinstance(source, Image.Image):
            return self(source)
        sound = read_sound(source)
        length = len(sound.samples) / sound.rate
        pixels = _tensor_by(self.extractor, self.shape, at_rate(sound, self.rate))
        height, width = pixels.shape[-2:]
        if 0 in self.shape.grid(height, width):
            raise ExplainerError(f"the sound is {length:.3f} s long, which is too short for one token of this model")
        rows, columns = self.shape.drawn(height, width)
        part = pixels[0, rows, columns]
        picture = _wave(part[0]) if self.shape.form == "wave" else _spectrogram(part)
        start, end = (round(column / self.second, 4) for column in (columns.start, columns.stop))
        stretch = SoundStretch(start, end, length)
        return pixels, ImageInput(*picture.size, (0, 0, *picture.size), picture.size, picture, sound=stretch)


def _tensor_by(extractor: Any, shape: SoundShape, samples: NDArray[np.float32]) -> Tensor:
    """Return what ``extractor`` makes of ``samples`` as a picture (1, height, width), float32: for a model of patches without the pixels
    that no patch reads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of bands without a frequency, which some extractors have by their settings
        made = extractor(samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")[shape.name][0].float()
    if made.dim() != (1 if shape.form == "wave" else 2):
        raise ValueError(f"it makes a tensor {tuple(made.shape)}")
    if shape.form == "wave":
        wave: Tensor = made[None, None]
        return wave
    spectrogram: Tensor = made.mT if shape.form == "patches" else made
    rows, columns = shape.read(spectrogram.shape[0], spectrogram.shape[1])
    return spectrogram[:rows, :columns].flip(0)[None]


def _spectrogram(values: Tensor) -> Image.Image:
    """Draw the ``values`` (rows, columns) of a spectrogram, from the 1st to the 99.5th percentile, in a size that can be looked at."""
    from matplotlib import colormaps

    low, high = np.percentile(values.numpy(), (1, 99.5))
    shares = ((values.numpy() - low) / max(high - low, 1e-9)).clip(0, 1)
    picture = Image.fromarray((colormaps["magma"](shares)[..., :3] * 255).round().astype(np.uint8))
    width = max(picture.width, _COLUMNS)
    return picture.resize((width, max(picture.height, width // _WIDEST)), Image.Resampling.NEAREST)


def _wave(samples: Tensor) -> Image.Image:
    """Draw ``samples`` (samples,) as a strip: in each column a line from the least to the largest of its samples."""
    values = (samples / samples.abs().max().clamp(min=1e-9)).numpy()
    ends = np.linspace(0, len(values), _COLUMNS + 1).round().astype(int)
    starts = np.minimum(ends[:-1], len(values) - 1)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    heights = np.linspace(1, -1, _ROWS)[:, None]
    is_line = (heights >= low - 1 / _ROWS) & (heights <= high + 1 / _ROWS)
    return Image.fromarray(np.where(is_line, _LINE, _GROUND).astype(np.uint8)).convert("RGB")
