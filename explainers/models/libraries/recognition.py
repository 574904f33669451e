"""Facts that timm and transformers declare about their models: kind, image size, preprocessing, tokenizer, heads.

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
from explainers.models.inputs.parts import PARTS, KindArgument, in_words, kind_named, parts_taken
from explainers.models.inputs.slow_tokenizers import with_offsets
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.transforms import AnyPreprocessing, TransformPreprocessing
from explainers.models.inputs.types import ModelKind
from explainers.models.libraries import openclip
from explainers.models.libraries.source_writers import writer_source_of
from explainers.models.libraries.vision_language import picture_token_of
from explainers.models.libraries.words_and_patches import WordsAndPatches, reads_words_and_patches

Library = Literal["timm", "transformers", "open_clip", "torch"]
_GUESS = "the model does not say how to prepare its images, so the defaults of {} were used"
#: Wrappers that training puts around a module, which is then their attribute ``module``.
_AROUND = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel)


def library_of(module: nn.Module) -> Library:
    """Return the library that the class of ``module`` comes from; "torch" for a user's own."""
    if isinstance(module, WordsAndPatches):
        return "transformers"
    transformers = sys.modules.get("transformers.modeling_utils")  # imported by every model of transformers, and slow to import for others
    if transformers is not None and isinstance(module, transformers.PreTrainedModel):
        return "transformers"
    if openclip.encodes(module):
        return "open_clip"
    return "timm" if hasattr(module, "pretrained_cfg") or type(module).__module__.startswith("timm.") else "torch"


def is_asked_with_texts(module: nn.Module) -> bool:
    """Return whether ``module`` is a detector of transformers that takes a picture and texts."""
    if library_of(module) != "transformers" or not type(module).__name__.endswith("ForObjectDetection"):
        return False
    return {"input_ids", "pixel_values"} <= set(inspect.signature(module.forward).parameters)


def compares(module: nn.Module, library: Library) -> bool:
    """Return whether ``module``, a model of ``library``, has an image and a text tower, whose features it compares."""
    return library == "open_clip" or (hasattr(module, "get_image_features") and hasattr(module, "get_text_features"))


def kind_asked(module: nn.Module, kind: KindArgument) -> ModelKind:
    """Return the kind of ``module`` if a caller named it, or the parts that it reads, as ``kind``. Raises ExplainerError for a part that
    its forward does not take, or that is not read here.
    """
    is_dual, takes = compares(module, library_of(module)), inspect.signature(module.forward).parameters
    chosen, taken = kind_named(kind, is_dual), parts_taken(takes)
    named = [] if kind == chosen else [kind] if isinstance(kind, str) else list(kind)
    lacking = [name for name in named if name not in taken and name != "video" and PARTS[name].arguments]
    if taken and lacking:
        raise ExplainerError(
            f"kind={kind!r}: the forward of {type(module).__name__} takes {in_words(taken, takes)}, and no {in_words(lacking)}: leave "
            "kind= out, or name what it takes"
        )
    if named and is_dual and chosen != "clip":
        raise ExplainerError(
            f"kind={kind!r}: {type(module).__name__} compares pictures with texts. Pass kind=['picture', 'text'], or wrap the one of its "
            "towers that you mean"
        )
    return "text" if named and writer_source_of(module) is not None else chosen


def kind_of(module: nn.Module, library: Library) -> ModelKind:
    """Return the kind of ``module``, a model of ``library``: "clip" if it has an image and a text tower, else by the arguments of its
    forward; molecules are not recognised.
    """
    if compares(module, library):
        return "clip"
    if library == "timm" or is_asked_with_texts(module):
        return "image"
    if picture_token_of(module, library) is not None or reads_words_and_patches(module) or writer_source_of(module) is not None:
        return "text"
    if type(module).__name__.endswith(("ForUniversalSegmentation", "ForInstanceSegmentation")):
        raise ExplainerError(GIVES_MASKS.format(type(module).__name__))
    takes = inspect.signature(module.forward).parameters
    taken = parts_taken(takes)
    kinds = list({kind for name in taken if (kind := PARTS[name].kind) is not None})
    if (len(kinds) != 1 or "sound" in taken) and (reason := why_unread(module, library)) is not None:
        raise ExplainerError(f"{type(module).__name__} {reason}")
    if len(kinds) != 1:
        every = ", ".join(repr(name) for name, part in PARTS.items() if part.kind is not None)
        raise ExplainerError(f"{type(module).__name__} takes {', '.join(takes)}: pass kind= as a list of what it reads, of {every}")
    return kinds[0]


#: Models for segmentation whose pictures are computed by later code.
GIVES_MASKS = (
    "{} gives masks, each with a class of its own, of which a picture is made after the model: no number of one class for a part of the "
    "picture is among what it gives. SegFormer, BEiT, DPT and UperNet for semantic segmentation can be explained"
)


def why_unread(module: nn.Module, library: Library) -> str | None:
    """Return which part of what ``module``, a transformers model (by ``library``), reads is not read here, why, and what can be opened
    instead; None if all of it is read, or is not known.
    """
    if library != "transformers":
        return None
    takes = inspect.signature(module.forward).parameters
    taken = parts_taken(takes)
    if taken == ("sound",):
        return f"reads {in_words(taken, takes)}, {_about_sounds(module)}"
    if "sound" in taken:
        return (
            f"reads {in_words(taken, takes)} together: its sounds are not read here, as no row of tokens of both is known."
            f"{_alone(module)} {_SOUNDS_READ}"
        )
    if "series" in taken:
        return f"reads {in_words(taken, takes)}, which are not read here: pictures, videos, sounds, texts, molecules and pairs of them are"
    if not {"text", "picture"} <= set(taken) or is_asked_with_texts(module):
        return None
    if hasattr(module, "embedding_proj_layer"):
        return (
            "gives a vector for each token, of a query or of a document (ColPali's kind), and the score is a sum over both: "
            "explainers.late_interaction(model, query, picture) says which patch each token of the query matched"
        )
    dual = [
        f"model.{name}"
        for name, part in module.named_children()
        if hasattr(part, "get_image_features") and hasattr(part, "get_text_features")
    ]
    alone = f" What compares pictures with texts in it can be opened: {dual[0]}." if dual else _alone(module)
    answer = "gives a mask of what the text names" if type(module).__name__.endswith("ImageSegmentation") else "answers once"
    crosses = any(name.endswith("crossattention") for name, _ in module.named_modules())
    missing = ", as its words read the patches by cross-attention and no row of tokens holds both" if crosses else ""
    on_page = f"{PARTS['page'].words} are not read here, and which part of the answer came from these is not known"
    unread = on_page if "page" in taken else f"what the pictures gave and what the texts gave is not told apart here{missing}"
    return (
        f"reads {in_words(taken, takes)} together and {answer}: "
        f"{unread}.{alone} "
        "Models that compare a picture with texts (CLIP, SigLIP), language models that look at pictures (LLaVA's kind), "
        "and ViLT for questions and for retrieval can be"
    )


def _alone(module: nn.Module) -> str:
    """Return a sentence, after a space, on the tower of ``module`` that can be opened alone, as it reads one part; empty if it has none."""
    for name, part in module.named_modules():
        if name and name.count(".") < 2 and library_of(part) == "transformers":
            taken = parts_taken(inspect.signature(part.forward).parameters)
            if taken in (("picture",), ("text",)):
                return f" Its tower of {PARTS[taken[0]].words} alone can be opened: model.{name}."
    return ""


_SOUNDS_READ = (
    "Classifiers of sounds can be explained whose tokens are patches of a spectrogram (AST), stretches of one (Whisper's encoder), or "
    "stretches of the wave after convolutions (Wav2Vec2, HuBERT, WavLM)"
)


def _about_sounds(module: nn.Module) -> str:
    """Return why ``module``, a model of sounds, is refused, and what can be opened instead."""
    if type(module).__name__.endswith(("ForAudioClassification", "ForSequenceClassification")):
        return f"by another way than those that are known. {_SOUNDS_READ}"
    return f"and is no classifier that answers once. {_SOUNDS_READ}"


def unwrap(module: nn.Module) -> nn.Module:
    """Return the model inside the wrappers of training: torch.compile, DataParallel, averaged weights, PEFT's adapters.

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
    return unwrap(inner) if isinstance(inner, nn.Module) and inner is not module else module


def clip_shape(module: nn.Module) -> ClipShape | None:
    """Return the input shape of ``module``, a model of clips (VideoMAE, ViViT, V-JEPA 2), from its configuration; None for another model.

    Raises ExplainerError for a model whose tokens each belong to one frame (TimeSformer), as its blocks rearrange them between time and
    space.
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
    """Return the number of tokens that every text must have for a module, padding included; None if any number up to a limit will do."""
    return int(module.context_length) if openclip.encodes(module) else None  # type: ignore[arg-type]


def vocabulary_of(module: nn.Module) -> int | None:
    """Return the number of token ids that the module can look up: as declared, else the size of its largest table; None if it has none."""
    own_table, table = getattr(module, "get_input_embeddings", None), None
    with suppress(NotImplementedError):  # transformers' way to say that a model looks up no words (CANINE)
        table = own_table() if callable(own_table) else None
    if isinstance(table, nn.Embedding):
        return table.num_embeddings
    return max((part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)), default=None)


def vision_config(module: nn.Module) -> Any:
    """Return the configuration of a module's image tower or encoder, or of the module itself; None if neither has one."""
    config = getattr(module, "config", None)
    return getattr(config, "vision_config", None) or _part_of_writer(module, "encoder") or config


def text_config(module: nn.Module) -> Any:
    """Return the configuration of a module's text tower or decoder, or of the module itself; None if neither has one."""
    config = getattr(module, "config", None)
    return getattr(config, "text_config", None) or _part_of_writer(module, "decoder") or config


def _part_of_writer(module: nn.Module, name: str) -> Any:
    """Return the configuration called ``name`` in that of a module that writes from a picture; None for other modules."""
    return getattr(module.config, name, None) if writer_source_of(module) is not None else None


def channels_of(module: nn.Module) -> int:
    """Return the number of channels of a module's images: as declared, else that of its first convolution; 3 if neither is known."""
    declared = getattr(vision_config(module), "num_channels", None)
    if isinstance(declared, int):
        return declared
    first = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    return 3 if first is None else first.in_channels


def image_size(module: nn.Module, library: Library) -> tuple[int, int] | None:
    """Return the size (height, width) of images that ``module`` declares; None if it declares none. ``library`` is the library from which
    the module comes.
    """
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
    """Return the data configuration of ``module``, a timm model: input_size, mean, std, interpolation, crop_pct, crop_mode."""
    from timm.data.config import resolve_model_data_config

    return dict(resolve_model_data_config(module))


def preprocessing_of(module: nn.Module, library: Library, passed: Any) -> tuple[AnyPreprocessing | None, str | None]:
    """Return the preparation of images for ``module``, which comes from ``library``, and if it is a guess the reason for it, a clause; else
    None. The preparation is None if unknown, or if the channels are neither greys nor colours.

    ``passed``: a Preprocessing, an image processor, a transform of torchvision or timm, a function from a PIL image to a tensor, None.
    """
    recipe, guess = _preprocessing_of(module, library, passed)
    channels = channels_of(module)
    if recipe is None or channels == recipe.channels:
        return recipe, guess
    if channels == 3:
        raise ExplainerError("preprocess= makes greys, and the model takes 3 channels: pass a Preprocessing with channels=3")
    if not isinstance(recipe, Preprocessing):
        raise ExplainerError(
            f"preprocess= makes {recipe.channels} channels, and the model takes {channels}: pass one that makes {channels}"
        )
    return (in_greys(recipe), guess) if channels == 1 else (None, None)


def _preprocessing_of(module: nn.Module, library: Library, passed: Any) -> tuple[AnyPreprocessing | None, str | None]:
    if isinstance(passed, SoundPreparation):
        return passed, passed.guess
    if isinstance(passed, Preprocessing | TransformPreprocessing):
        return passed, None
    if passed is not None:
        return _preprocessing_passed(passed), None
    size = image_size(module, library)
    if library == "open_clip":
        recipe, sure = openclip.preprocessing(module)
        return recipe, None if sure else _GUESS.format("OpenAI's CLIP")
    if library == "timm" and size is not None:
        return timm_preprocessing(timm_config(module), size), None if hasattr(module, "pretrained_cfg") else _GUESS.format("timm")
    if library == "transformers":
        if size is not None and isinstance(inner := getattr(module, "timm_model", None), nn.Module):  # TimmWrapper
            return timm_preprocessing(timm_config(inner), size), None
        saved = saved_with(module, "AutoImageProcessor", backend="pil")
        if saved is not None:
            return processor_preprocessing(saved), None
        return _default_preprocessing(module, size)
    return None, None


def _preprocessing_passed(passed: Any) -> AnyPreprocessing:
    """Return the preparation that the caller passed: settings of transformers, also inside a processor of pictures and texts, or a
    transform.
    """
    passed = getattr(passed, "image_processor", passed)
    if any(hasattr(passed, name) for name in ("do_resize", "do_normalize", "do_rescale")):
        return processor_preprocessing(passed)
    if not callable(passed):
        raise ExplainerError(
            f"preprocess= takes no {type(passed).__name__}: pass explainers.Preprocessing(...), an image processor of transformers, a "
            "transform such as torchvision's weights.transforms() or timm's, or a function from a PIL image to a tensor"
        )
    return TransformPreprocessing.of_transform(passed)


def saved_with(module: nn.Module, auto_class: str, **arguments: Any) -> Any:
    """Load the tokenizer or processor (``auto_class``) that was saved with the weights of a transformers model, ``module``, and return it,
    from its folder or the local cache; None if there is none. ``arguments`` are passed to ``from_pretrained``.
    """
    import transformers

    place = getattr(getattr(module, "config", None), "_name_or_path", "")
    if not place:
        return None
    try:
        return getattr(transformers, auto_class).from_pretrained(place, local_files_only=True, trust_remote_code=False, **arguments)
    except (OSError, ValueError, KeyError, ImportError):
        return None


def _default_preprocessing(module: nn.Module, size: tuple[int, int] | None) -> tuple[Preprocessing | None, str | None]:
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING

    known: Any = IMAGE_PROCESSOR_MAPPING  # for each class of configuration, the processor of each backend
    try:
        backends = known[type(getattr(module, "config", None))]
    except KeyError:
        return None, None
    processor_class = backends.get("pil") or next(iter(backends.values()))
    recipe = processor_preprocessing(processor_class())
    if size is not None:
        recipe = _resize(recipe, size)
    return recipe, _GUESS.format(processor_class.__name__)


def _resize(recipe: Preprocessing, size: tuple[int, int]) -> Preprocessing:
    """Return ``recipe`` for tensors of another ``size`` (height, width), with the same margin around the crop."""
    if recipe.resize is None or recipe.crop is None:
        return replace(recipe, resize=size, fit="squash", crop=None)
    resize = (round(recipe.resize[0] * size[0] / recipe.crop[0]), round(recipe.resize[1] * size[1] / recipe.crop[1]))
    return replace(recipe, resize=resize, crop=size)


def tokenizer_of(module: nn.Module, passed: Any) -> Any:
    """Return the tokenizer of a text model ``module``, with character offsets: ``passed`` if it is not None, else the one that was saved
    with its weights; None if there is none.
    """
    if openclip.encodes(module):
        passed = openclip.tokenizer(module, passed)
    return with_offsets(passed if passed is not None else saved_with(module, "AutoTokenizer"))


def heads_of(block: nn.Module, config: Any, width: int) -> int | None:
    """Return the number of attention heads of a block, as it or the ``config`` of its model declares; None if neither does.

    If a block has attention over tokens of several widths, the attention over tokens of this ``width`` is meant.
    """
    names = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "num_head", "nheads", "heads")
    parts = [part for part in block.modules() if any(isinstance(getattr(part, name, None), int) for name in names)]
    parts.sort(key=lambda part: not any(p.dim() == 2 and p.shape[1] == width for p in part.parameters()))
    for part in parts:
        return next(int(getattr(part, name)) for name in names if isinstance(getattr(part, name, None), int))
    return next((int(getattr(config, name)) for name in names if isinstance(getattr(config, name, None), int)), None)


def title_of(module: nn.Module, library: Library) -> str:
    """Return a default name for ``module``, which comes from ``library``, from its class and configuration.

    The tag of pretrained weights in timm's modules is left out, as their weights may be others.
    """
    if library == "timm" and (architecture := (getattr(module, "pretrained_cfg", None) or {}).get("architecture")):
        return str(architecture)
    return getattr(getattr(module, "config", None), "_name_or_path", "") or type(module).__name__


def has_class_token(module: nn.Module) -> bool:
    """Return whether the model ``module`` has a learned class token before the patches, even if its head does not read it."""
    names = ("cls_token", "class_token", "class_embedding")
    return any(name.rpartition(".")[2] in names for name, _ in module.named_parameters())


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the floating-point type of the weights of ``module``."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def device_of(module: nn.Module) -> torch.device:
    """Return the device of the weights of ``module``."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))
