"""Facts about a wrapped model, as plain data: pages, reports, costs and methods read them from ``Model.details``."""

from __future__ import annotations

from typing import Any

from torch import nn

from explainers.models.input_readers import InputReaders
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.types import ModelKind
from explainers.models.libraries import recognition as lib
from explainers.models.model import Model
from explainers.models.structure.two_rows import SourceAndWritten
from explainers.models.structure.word_places import WORD_TABLES, tables_of_words

#: The name of the fact how many blocks of the list run before the explained ones and how many after them; absent if none do.
BLOCKS_LEFT_OUT = "blocks_left_out"


def details_of(model: Model, readers: InputReaders, library: lib.Library, width: int) -> dict[str, Any]:
    """Return facts about ``model`` for JSON, by name. ``readers`` prepare its inputs, ``library`` is the library of its module, and
    ``width`` is the width of its tokens.

    Always there are ``reads``, the parts of an input that it reads, and, None where they do not apply, sizes (``blocks``, ``heads``,
    ``width``, ``classes``, ``parameters``), the input (``grid``: rows and columns of patches, ``input``: height and width in pixels,
    ``channels``, ``frames``, ``max_tokens``), ids of special tokens, ``class_token``, ``library`` and ``source``, the model's name. Only
    models that have them get the facts of a task, the names of word tables, the two constants of a similarity, and ``sound_rate``, how
    many samples a second a model of sounds takes.
    """
    module, words, task = model.module, readers.words, model.task
    layout = model.layout_of(readers.first)
    clip = lib.clip_shape(module)
    return {
        "blocks": len(model.blocks),
        "heads": lib.heads_of(model.blocks[0], (lib.text_config if model.reads_text else lib.vision_config)(module), width),
        "width": width,
        "channels": _channels(readers) if readers.takes_pixels else None,
        "grid": layout.grid,
        "picture_grid": None if readers.pictures is None else readers.pictures.grid,
        "reads": readers.parts(model.kind),
        "reads_videos": readers.reads_videos,
        "frames": None if clip is None else clip.frames,
        "input": tuple(readers.first["pixel_values"].shape[-2:]) if readers.takes_pixels and not readers.by_processor else None,
        "max_tokens": words.max_tokens if words else None,
        "classes": len(model.labels) if model.labels and model.output != "regression" else None,
        "mask_token_id": getattr(words.tokenizer, "mask_token_id", None) if words else None,
        "padding_token_id": getattr(words.tokenizer, "pad_token_id", None) if words else None,
        "unknown_token_id": getattr(words.tokenizer, "unk_token_id", None) if words else None,
        "parameters": sum(p.numel() for p in module.parameters()),
        "final_activation": model.head_activation.kind,
        "class_token": lib.has_class_token(module) or (model.reads_text and layout.prefix > 0),
        "library": library,
        **({} if task is None else {"task": task.name, "place_control": task.control, "places_are": task.places_are}),
        **({} if task is None or task.texts is None else {"texts": task.texts}),
        "chat_template": model.chat_input is not None,
        **({"sound_rate": readers.recipe.rate} if isinstance(readers.recipe, SoundPreparation) else {}),
        "source": model.name,
        **_similarity(module, model.kind),
        **_word_tables(model, readers),
    }


def _channels(readers: InputReaders) -> int:
    return readers.recipe.channels if isinstance(readers.recipe, SoundPreparation) else lib.channels_of(readers.module)


def _word_tables(model: Model, readers: InputReaders) -> dict[str, tuple[str, ...]]:
    """Return the names of the tables in which ``model`` looks each token of a text up, under the key ``WORD_TABLES``; an empty dict if it
    has only one, or reads no text. ``readers`` hold a sample text.
    """
    if model.kind != "text" or readers.pictures is not None or "input_ids" not in readers.first:
        return {}
    if isinstance(model.block_kind, SourceAndWritten) and not model.block_kind.by_width:
        return {}  # source and answer may have a table each
    tables = tables_of_words(model.module, model, model.forward, readers.first)
    return {WORD_TABLES: tables} if len(tables) > 1 else {}


def _similarity(module: nn.Module, kind: ModelKind) -> dict[str, float]:
    """Return the constants with which ``module`` converts cosines to logits, none if its ``kind`` is not "clip": logit = logit_scale *
    cosine + logit_bias (SigLIP has a bias).
    """
    scale, bias = getattr(module, "logit_scale", None), getattr(module, "logit_bias", None)
    if kind != "clip" or scale is None:
        return {}
    return {"logit_scale": float(scale.detach().exp()), **({} if bias is None else {"logit_bias": float(bias.detach())})}
