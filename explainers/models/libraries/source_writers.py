"""Encoder-decoders of transformers that write a text from a picture (TrOCR) or a sound (Whisper): which argument takes their source."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

#: The name under which pictures, and sounds as pictures, lie among the tensors of a model.
PIXELS = "pixel_values"
_ARGUMENTS = (PIXELS, "input_features")


@dataclass(frozen=True)
class WriterSource:
    """What an encoder-decoder writes from that is no text: the ``argument`` of its forward that takes it."""

    argument: str

    @property
    def is_sound(self) -> bool:
        """Return whether the source is a sound, as a spectrogram."""
        return self.argument != PIXELS

    def taken(self, pixels: Tensor) -> Tensor:
        """Return pictures, ``pixels`` (B, channels, height, width), as the module takes them: a spectrogram (B, bands, frames) has low
        frequencies first, its picture below.
        """
        return pixels[:, 0].flip(1) if self.is_sound else pixels


def writer_source_of(module: nn.Module) -> WriterSource | None:
    """Return what ``module`` writes from, if it is an encoder-decoder of transformers that writes from a picture or a sound, else None."""
    config: Any = getattr(module, "config", None)
    if not type(module).__module__.startswith("transformers.") or not getattr(config, "is_encoder_decoder", False):
        return None
    takes = inspect.signature(module.forward).parameters
    argument = next((name for name in _ARGUMENTS if name in takes), None)
    if argument not in (None, PIXELS) and not (getattr(config, "num_mel_bins", None) and getattr(config, "max_source_positions", None)):
        return None  # whose spectrogram lies in another way than Whisper's
    writes = "decoder_input_ids" in takes and "input_ids" not in takes and getattr(module, "can_generate", bool)()
    return WriterSource(argument) if writes and argument is not None else None


def source_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the source in ``tensors``, those of a model, as ``module``, an encoder-decoder that writes, takes it."""
    source = writer_source_of(module)
    return dict(tensors) if source is None else {source.argument: source.taken(tensors[PIXELS])}
