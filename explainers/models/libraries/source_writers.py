"""Encoder-decoders of transformers that write a text from a picture (TrOCR) or a sound (Whisper): which argument takes their source."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
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


def start_of_sound(module: Any, tensors: Mapping[str, Tensor]) -> list[int]:
    """Return the ids with which the decoder of ``module``, a Whisper, begins for the sound in ``tensors``: its start, the language (that of
    its settings, else the one that it hears, if it knows several), the task, and that no times are written. As transformers does it.

    Raises ExplainerError if its settings name a language or a task that it does not know.
    """
    config, first = module.generation_config, module.generation_config.decoder_start_token_id
    languages, tasks = (getattr(config, name, None) or {} for name in ("lang_to_id", "task_to_id"))
    language, task = getattr(config, "language", None), getattr(config, "task", None)
    forced = [] if language or task else getattr(config, "forced_decoder_ids", None) or []
    given = [first, *(token for _, token in sorted(forced))]
    if language is not None:
        given[1:2] = [_id_of_language(language, languages)]
    elif languages and given[1:2] in ([], [None]):
        with torch.no_grad(), evaluating(module):
            given[1:2] = module.detect_language(**source_tensors(module, tensors)).tolist()
    if tasks and not set(given) & set(tasks.values()) and (task is not None or language is not None):
        if (chosen := task or "transcribe") not in tasks:
            raise ExplainerError(f"This model knows no task {chosen!r}: set generation_config.task of its module to {_one_of(tasks)}.")
        given.append(tasks[chosen])
    silent = getattr(config, "no_timestamps_token_id", None)
    if silent is not None and given[-1] != silent:
        given.append(silent)
    return [token for token in given if token is not None]


def _id_of_language(language: str, ids: Mapping[str, int]) -> int:
    """Return the id of the token of a ``language``, named "de", "German" or as its token "<|de|>", from the ``ids`` of such tokens."""
    from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

    named = language.lower()
    token = next((token for token in (named, f"<|{TO_LANGUAGE_CODE.get(named, named)}|>") if token in ids), None)
    if token is None:
        raise ExplainerError(f"This model knows no language {language!r}: set generation_config.language of its module to {_one_of(ids)}.")
    return ids[token]


def _one_of(names: Collection[str]) -> str:
    """Return what to choose from, ``names`` or None, in words."""
    return f"one of {', '.join(names)}, or to None" if names else "None"
