"""What timm and transformers say about their own models: kind, image size, preprocessing, tokenizer, heads.

The two libraries declare these things in one way each; nothing here is about one model.
"""

from __future__ import annotations

import inspect
import math
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)
from explainers.errors import ExplainerError
from explainers.models.inputs.clips import ClipShape
from explainers.models.inputs.images import Preprocessing, in_greys, processor_preprocessing, timm_preprocessing
from explainers.models.inputs.types import ModelKind
from explainers.models.libraries import openclip
from explainers.models.libraries.vision_language import picture_token_of

Library = Literal["timm", "transformers", "open_clip", "torch"]
_GUESS = "The model does not say how its images are prepared: the defaults of {} were used. Pass preprocess= to wrap to change them."
#: What training lays around a module, which is then its ``module``.
_AROUND = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel)
#: What a module calls the pixels of clips, where it does not call them as those of pictures.
VIDEO_PIXELS = "pixel_values_videos"


def library_of(module: nn.Module) -> Library:
    """Which library the module's class comes from; "torch" for a user's own."""
    transformers = sys.modules.get("transformers")
    if transformers is not None and isinstance(module, transformers.PreTrainedModel):
        return "transformers"
    if openclip.encodes(module):
        return "open_clip"
    return "timm" if hasattr(module, "pretrained_cfg") or type(module).__module__.startswith("timm.") else "torch"


def kind_of(module: nn.Module, library: Library) -> ModelKind:
    """ "clip" for a model with an image and a text tower, else by what its forward takes. No argument tells a model of molecules."""
    if library == "open_clip" or (hasattr(module, "get_image_features") and hasattr(module, "get_text_features")):
        return "clip"
    if library == "timm":
        return "image"
    if picture_token_of(module, library) is not None:
        return "text"
    takes = inspect.signature(module.forward).parameters
    named: list[tuple[ModelKind, str]] = [("image", "pixel_values"), ("image", VIDEO_PIXELS), ("text", "input_ids")]
    kinds = list({kind for kind, name in named if name in takes})
    if len(kinds) != 1:
        raise ExplainerError(f'{type(module).__name__} takes {", ".join(takes)}: pass kind="image", "text", "clip" or "molecule"')
    return kinds[0]


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside what training lays around one: torch.compile, DataParallel, averaged weights, PEFT's adapters.

    Raises ExplainerError for a scripted or traced module, whose code cannot be followed.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise ExplainerError(
            "a scripted or traced module (torch.jit) hides its code, which no rule can go back through: wrap the Python module that it was "
            "made from"
        )
    inner = getattr(module, "_orig_mod", None)
    if not isinstance(inner, nn.Module) and isinstance(module, _AROUND):
        inner = module.module
    if not isinstance(inner, nn.Module) and callable(getattr(module, "get_base_model", None)):
        inner = module.get_base_model()  # type: ignore[operator]  # its linear layers hold the adapters
    return unwrapped(inner) if isinstance(inner, nn.Module) and inner is not module else module


def clip_shape(module: nn.Module) -> ClipShape | None:
    """What a model of clips takes (VideoMAE, ViViT, V-JEPA 2), by its configuration; None for another one. Raises ExplainerError for one
    whose tokens are of one frame each (TimeSformer): its blocks turn them between time and space.
    """
    config: Any = getattr(module, "config", None)
    tubelet = getattr(config, "tubelet_size", None)
    frames = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", None)
    if tubelet is None and type(module).__name__.endswith("ForVideoClassification"):
        raise ExplainerError(
            f"{type(module).__name__} has no tokens of a few frames each (tubelets), in the order of time: VideoMAE, ViViT and "
            "V-JEPA 2 can be explained"
        )
    if tubelet is None or not isinstance(frames, int):
        return None
    if isinstance(tubelet, int):
        return ClipShape(frames, tubelet, config.patch_size)
    return ClipShape(frames, int(tubelet[0]), int(tubelet[1]))


def text_length(module: nn.Module) -> int | None:
    """How many tokens every text must have, padding included; None where any number up to a limit will do."""
    return int(module.context_length) if openclip.encodes(module) else None  # type: ignore[arg-type]


def vocabulary_of(module: nn.Module) -> int | None:
    """How many ids of tokens the module can look up: as it says itself, else by its largest table; None without one."""
    own_table, table = getattr(module, "get_input_embeddings", None), None
    with suppress(NotImplementedError):  # transformers' way to say that a model looks up no words (CANINE)
        table = own_table() if callable(own_table) else None
    if isinstance(table, nn.Embedding):
        return table.num_embeddings
    return max((part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)), default=None)


def vision_config(module: nn.Module) -> Any:
    """The configuration of the image tower, or of the model; None without one."""
    config = getattr(module, "config", None)
    return getattr(config, "vision_config", None) or config


def text_config(module: nn.Module) -> Any:
    """The configuration of the text tower, or of the model; None without one."""
    config = getattr(module, "config", None)
    return getattr(config, "text_config", None) or config


def channels_of(module: nn.Module) -> int:
    """How many channels the images of the model have: as it declares, else what its first convolution takes; 3 where nobody says."""
    declared = getattr(vision_config(module), "num_channels", None)
    if isinstance(declared, int):
        return declared
    first = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    return 3 if first is None else first.in_channels


def image_size(module: nn.Module, library: Library) -> tuple[int, int] | None:
    """(height, width) that the model declares."""
    if library == "transformers" and isinstance(inner := getattr(module, "timm_model", None), nn.Module):
        return image_size(inner, "timm")
    if library == "transformers":
        config = vision_config(module)
        declared = getattr(config, "image_size", None)
        if declared is None and getattr(config, "num_patches", None):  # takes any shape of so many patches
            declared = math.isqrt(config.num_patches) * config.patch_size
    else:
        declared = next((size for part in module.modules() if (size := getattr(part, "img_size", None))), None)
        if library == "timm":
            declared = declared or timm_config(module)["input_size"][-2:]
    if isinstance(declared, int):
        return declared, declared
    return (int(declared[0]), int(declared[1])) if declared else None


def timm_config(module: nn.Module) -> dict[str, Any]:
    """timm's data configuration: input_size, mean, std, interpolation, crop_pct, crop_mode."""
    from timm.data.config import resolve_model_data_config

    return dict(resolve_model_data_config(module))


def preprocessing_of(module: nn.Module, library: Library, passed: Any) -> tuple[Preprocessing | None, tuple[str, ...]]:
    """How images are prepared (None: unknown, or the model takes other channels than greys or colours), and a note where that is a guess.
    ``passed``: a Preprocessing, an image processor, None.
    """
    recipe, notes = _preprocessing_of(module, library, passed)
    channels = channels_of(module)
    if recipe is None or channels == recipe.channels:
        return recipe, notes
    if channels == 3:
        raise ExplainerError("preprocess= makes greys, and the model takes 3 channels: pass a Preprocessing with channels=3")
    return (in_greys(recipe), notes) if channels == 1 else (None, ())


def _preprocessing_of(module: nn.Module, library: Library, passed: Any) -> tuple[Preprocessing | None, tuple[str, ...]]:
    if isinstance(passed, Preprocessing):
        return passed, ()
    if passed is not None:
        return processor_preprocessing(passed), ()
    size = image_size(module, library)
    if library == "open_clip":
        recipe, sure = openclip.preprocessing(module)
        return recipe, () if sure else (_GUESS.format("OpenAI's CLIP"),)
    if library == "timm" and size is not None:
        return timm_preprocessing(timm_config(module), size), () if hasattr(module, "pretrained_cfg") else (_GUESS.format("timm"),)
    if library == "transformers":
        if size is not None and isinstance(inner := getattr(module, "timm_model", None), nn.Module):  # TimmWrapper
            return timm_preprocessing(timm_config(inner), size), ()
        saved = saved_with(module, "AutoImageProcessor", backend="pil")
        if saved is not None:
            return processor_preprocessing(saved), ()
        return _default_preprocessing(module, size)
    return None, ()


def saved_with(module: nn.Module, auto_class: str, **arguments: Any) -> Any:
    """What lies beside the weights in the folder or the local cache that a transformers model was loaded from; None if it is not there."""
    import transformers

    place = getattr(getattr(module, "config", None), "_name_or_path", "")
    if not place:
        return None
    try:
        return getattr(transformers, auto_class).from_pretrained(place, local_files_only=True, trust_remote_code=False, **arguments)
    except (OSError, ValueError, KeyError, ImportError):
        return None


def _default_preprocessing(module: nn.Module, size: tuple[int, int] | None) -> tuple[Preprocessing | None, tuple[str, ...]]:
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING

    known: Any = IMAGE_PROCESSOR_MAPPING  # for each class of configuration, the processor of each backend
    try:
        backends = known[type(getattr(module, "config", None))]
    except KeyError:
        return None, ()
    processor_class = backends.get("pil") or next(iter(backends.values()))
    recipe = processor_preprocessing(processor_class())
    if size is not None:
        recipe = _resized(recipe, size)
    return recipe, (_GUESS.format(processor_class.__name__),)


def _resized(recipe: Preprocessing, size: tuple[int, int]) -> Preprocessing:
    """``recipe`` for tensors of another size, with the same margin around the crop."""
    if recipe.resize is None or recipe.crop is None:
        return replace(recipe, resize=size, fit="squash", crop=None)
    resize = (round(recipe.resize[0] * size[0] / recipe.crop[0]), round(recipe.resize[1] * size[1] / recipe.crop[1]))
    return replace(recipe, resize=resize, crop=size)


def tokenizer_of(module: nn.Module, passed: Any) -> Any:
    """``passed``, or the tokenizer that was saved with a transformers model; None if there is none."""
    if openclip.encodes(module):
        passed = openclip.tokenizer(module, passed)
    tokenizer = passed if passed is not None else saved_with(module, "AutoTokenizer")
    if tokenizer is not None and not getattr(tokenizer, "is_fast", False):
        if passed is None:
            return None
        raise ExplainerError("the tokenizer does not know character offsets; pass tokenizer= a fast one (AutoTokenizer gives it)")
    return tokenizer


def heads_of(block: nn.Module, config: Any, width: int) -> int | None:
    """Attention heads of a block; None where there is no attention, or it does not say.

    Where a block has attention over tokens of several widths, it is that over tokens of this ``width``.
    """
    names = ("num_heads", "num_attention_heads", "n_heads")
    parts = [part for part in block.modules() if any(isinstance(getattr(part, name, None), int) for name in names)]
    parts.sort(key=lambda part: not any(p.dim() == 2 and p.shape[1] == width for p in part.parameters()))
    for part in parts:
        return next(int(getattr(part, name)) for name in names if isinstance(getattr(part, name, None), int))
    return next((int(getattr(config, name)) for name in names if isinstance(getattr(config, name, None), int)), None)


def title_of(module: nn.Module, library: Library) -> str:
    """A name for a model that was given none."""
    if library == "timm":
        config = getattr(module, "pretrained_cfg", None) or {}
        architecture, tag = config.get("architecture"), config.get("tag")
        if architecture:
            return f"{architecture}.{tag}" if tag else str(architecture)
    return getattr(getattr(module, "config", None), "_name_or_path", "") or type(module).__name__


def has_class_token(module: nn.Module) -> bool:
    """Whether the model learns a token that it lays before the patches, whatever its head reads."""
    names = ("cls_token", "class_token", "class_embedding")
    return any(name.rpartition(".")[2] in names for name, _ in module.named_parameters())


def dtype_of(module: nn.Module) -> torch.dtype:
    """The floating-point type of the weights."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def device_of(module: nn.Module) -> torch.device:
    """Where the weights are."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))
