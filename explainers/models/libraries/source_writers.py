"""Encoder-decoders of transformers that write a text from a picture (TrOCR) or a sound (Whisper): which argument takes their source."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.eval_mode import evaluating

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

    def from_pixels(self, pixels: Tensor) -> Tensor:
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
    return dict(tensors) if source is None else {source.argument: source.from_pixels(tensors[PIXELS])}


class _BegunError(Exception):
    """Ends ``generate`` before its first token, with the ``ids`` with which it began."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__()
        self.ids = ids


def start_of_sound(module: Any, tensors: Mapping[str, Tensor]) -> list[int]:
    """Return the ids with which the decoder of ``module``, a Whisper, begins for the sound in ``tensors``: its start, the language (that of
    its settings, else the one that it hears, if it knows several), the task, and that no times are written.

    ``generate`` of transformers begins to write; the ids are those that it hands to the first call of a logits processor, which ends it.
    Raises ExplainerError if the settings of the module name a language or a task that it does not know.
    """
    from transformers import LogitsProcessorList

    config = module.generation_config
    for named, known in (("language", "lang_to_id"), ("task", "task_to_id")):
        if getattr(config, named, None) is not None and not getattr(config, known, None):
            raise ExplainerError(f"generation_config.{named} is set, and this model knows none: set it to None.")

    def end(ids: Tensor, scores: Tensor) -> Tensor:
        raise _BegunError(ids[0].tolist())

    source = source_tensors(module, tensors)
    try:
        with torch.no_grad(), evaluating(module):
            module.generate(**source, logits_processor=LogitsProcessorList([end]), num_beams=1, do_sample=False, return_timestamps=False)
    except _BegunError as begun:
        return begun.ids
    except ValueError as error:
        raise ExplainerError(
            f"{type(module).__name__} begins no answer ({error}): set generation_config.language and generation_config.task of its module "
            "to what it knows, or to None."
        ) from error
    raise ExplainerError(f"{type(module).__name__} writes without a logits processor, so that it is not known with which ids it begins.")
