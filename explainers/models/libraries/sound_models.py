"""Models of sounds of transformers as models of pictures with one channel: AST, Whisper's encoder, Wav2Vec2 and its kin."""

from __future__ import annotations

import copy
import math
import warnings
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.parts import PARTS, parts_taken
from explainers.models.inputs.sounds import SoundPreparation, SoundShape
from explainers.models.libraries.calls import argument_names
from explainers.models.libraries.recognition import saved_with

#: The classes that answer once for a sound.
_CLASSIFIERS = ("ForAudioClassification", "ForSequenceClassification")
#: How many frames of its spectrogram one token of Whisper's encoder stands for, and the seconds from one of AST's frames to the next.
_OF_WHISPER, _AST_STEP = 2, 0.01


class SoundPictures(nn.Module):
    """A classifier of sounds that takes its spectrogram, or its wave, as pictures (B, 1, height, width), low frequencies below, and returns
    logits (B, C). It shares its weights with ``inner``, the classifier of transformers, which is not changed.
    """

    def __init__(self, inner: nn.Module, shape: SoundShape, size: tuple[int, int] | None) -> None:
        """Lay the tokens of ``inner``, which reads sounds in a ``shape``, in the order of the picture; ``size`` is the (height, width) of
        the tensor that it takes, None if it takes any.
        """
        super().__init__()
        self.shape, self.whole = shape, size
        self.config = SimpleNamespace(num_channels=1, id2label=getattr(inner.config, "id2label", None))
        self.inner = inner if shape.form != "patches" or size is None else _in_order_of_picture(inner, shape.grid(*size))

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of tokens of a picture of ``height`` by ``width``."""
        return self.shape.grid(height, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return the logits (B, C) of pictures (B, 1, height, width) of sounds."""
        sounds = pixel_values[:, 0].flip(1) if self.shape.form != "wave" else pixel_values[:, 0, 0]
        if self.shape.form == "patches" and self.whole is not None:
            height, width = sounds.shape[-2:]  # what no patch reads was left out
            sounds = nn.functional.pad(sounds, (0, self.whole[1] - width, 0, self.whole[0] - height)).mT
        logits: Tensor = self.inner(**{self.shape.name: sounds}).logits
        return logits


class _TokensInOrder(nn.Module):
    """An embedding whose tokens are given in another ``order``."""

    def __init__(self, embedding: nn.Module, order: Tensor) -> None:
        super().__init__()
        self.embedding = embedding
        self.register_buffer("order", order, persistent=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the tokens (B, S, width) of the embedding in the order."""
        tokens: Tensor = self.embedding(*inputs)[:, self.order]
        return tokens


def _in_order_of_picture(module: nn.Module, grid: tuple[int, int]) -> nn.Module:
    """Return a copy of ``module``, a classifier of spectrograms whose first tokens stand for the whole and whose patches lie in a ``grid``
    with low frequencies first, that shares its weights and lays the patches with low frequencies last. Its blocks do not know the order of
    tokens, as positions are added before them.
    """
    name = next(name for name, part in module.named_modules() if name.endswith("embeddings") and hasattr(part, "patch_embeddings"))
    embedding: Any = module.get_submodule(name)
    prefix = embedding.position_embeddings.shape[1] - math.prod(grid)
    patches = torch.arange(math.prod(grid)).unflatten(0, grid).flip(0).flatten() + prefix
    order = torch.cat([torch.arange(prefix), patches]).to(next(embedding.parameters()).device)
    return _with_part(module, name.split("."), _TokensInOrder(embedding, order))


def _with_part(module: nn.Module, path: list[str], part: nn.Module) -> nn.Module:
    """Return a copy of ``module`` that shares all of its parameters, with ``part`` at the ``path`` of names."""
    twin = copy.copy(module)
    child = part if len(path) == 1 else _with_part(module.get_submodule(path[0]), path[1:], part)
    twin._modules = {**module._modules, path[0]: child}
    return twin


def reads_sounds(module: nn.Module) -> bool:
    """Return whether ``module`` is a classifier of sounds of transformers that :func:`as_model_of_pictures` takes."""
    return _shape_of(module) is not None


def as_model_of_pictures(module: nn.Module, extractor: Any) -> tuple[SoundPictures, SoundPreparation]:
    """Return a classifier of sounds of transformers, one of :func:`reads_sounds`, as a model of pictures, with the preparation of its
    sounds by ``extractor``, a feature extractor of transformers; None: the one that was saved with it. If there is none either, its
    settings are a guess, as the preparation says.

    Raises ExplainerError for an ``extractor`` that makes other tensors than the model takes.
    """
    preparation, config = sound_preparation(module, extractor), cast("Any", module.config)
    shape = preparation.shape
    whole = (config.num_mel_bins, config.max_length) if shape.form == "patches" else None
    if whole is not None and shape.grid(*whole) != shape.grid(*preparation.size):
        raise ExplainerError(
            f"preprocess= is a {type(preparation.extractor).__name__} of {' x '.join(map(str, preparation.size))} bands and frames, and "
            f"the model takes {' x '.join(map(str, whole))}: pass the feature extractor of this model"
        )
    return SoundPictures(module, shape, whole), preparation


def sound_preparation(module: nn.Module, extractor: Any) -> SoundPreparation:
    """Return the preparation of the sounds that ``module`` reads by ``extractor``, as :func:`as_model_of_pictures` does; for a model that
    writes from them too.
    """
    config, guess = cast("Any", module.config), None
    shape = _sound_shape(module)
    assert shape is not None
    extractor = saved_with(module, "AutoFeatureExtractor") if extractor is None else getattr(extractor, "feature_extractor", extractor)
    if extractor is None:
        extractor = _default_extractor(config, shape)
        guess = f"the model does not say how to prepare its sounds, so the defaults of {type(extractor).__name__} were used"
    if not hasattr(extractor, "sampling_rate"):
        raise ExplainerError(f"preprocess= takes no {type(extractor).__name__} for a model of sounds: pass its feature extractor")
    try:
        return SoundPreparation.by(extractor, shape, _columns_in_second(extractor, shape), guess)
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        raise ExplainerError(
            f"preprocess= is a {type(extractor).__name__} that makes no {shape.name} ({problem}): pass the feature extractor of this model"
        ) from problem


def _shape_of(module: nn.Module) -> SoundShape | None:
    """Return how ``module``, a classifier of sounds of transformers, reads them; None for any other module."""
    return _sound_shape(module) if type(module).__name__.endswith(_CLASSIFIERS) else None


def _sound_shape(module: nn.Module) -> SoundShape | None:
    """Return how ``module``, of transformers, reads sounds alone; None if it does not, or in another way than those that are known."""
    config: Any = getattr(module, "config", None)
    takes = argument_names(module)
    name = next((name for name in PARTS["sound"].arguments if name in takes), None)
    if config is None or name is None or parts_taken(takes) != ("sound",):
        return None
    patch, bins = getattr(config, "patch_size", None), getattr(config, "num_mel_bins", None)
    if patch and bins and getattr(config, "frequency_stride", None):
        return SoundShape("patches", name, (patch, patch), (config.frequency_stride, config.time_stride))
    if bins and getattr(config, "max_source_positions", None):
        return SoundShape("columns", name, (bins, _OF_WHISPER), (bins, _OF_WHISPER))
    kernels, strides = (getattr(config, name, None) for name in ("conv_kernel", "conv_stride"))
    if bins or not kernels or not strides or getattr(config, "squeeze_factor", 1) != 1:
        return None
    field, step = 1, 1
    for kernel, stride in zip(kernels, strides, strict=True):
        field, step = field + (kernel - 1) * step, step * stride
    return SoundShape("wave", name, (1, field), (1, step))


def _columns_in_second(extractor: Any, shape: SoundShape) -> float:
    rate = extractor.sampling_rate
    return float(rate if shape.form == "wave" else rate / getattr(extractor, "hop_length", rate * _AST_STEP))


def _default_extractor(config: Any, shape: SoundShape) -> Any:
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of bands without a frequency
        if shape.form == "patches":
            return transformers.ASTFeatureExtractor(num_mel_bins=config.num_mel_bins, max_length=config.max_length)
        if shape.form == "columns":
            seconds = config.max_source_positions * _OF_WHISPER // 100
            return transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=seconds)
    return transformers.Wav2Vec2FeatureExtractor()
