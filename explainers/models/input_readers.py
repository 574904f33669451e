"""Readers of pictures, texts and molecules for a module: what its forward takes, and tensors to try it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.chat_prompts import has_chat_template, read_chat
from explainers.models.inputs.molecules import MoleculeReader, reader_named
from explainers.models.inputs.parts import PartName
from explainers.models.inputs.sounds import SoundPreparation
from explainers.models.inputs.texts import TextReader, special_ids, token_limit
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import Input, ModelKind, PicturePromptInput, Prepared
from explainers.models.libraries import recognition as lib
from explainers.models.libraries.calls import names_in_forward
from explainers.models.libraries.sound_models import sound_preparation
from explainers.models.libraries.source_writers import WriterSource, writer_source_of
from explainers.models.libraries.vision_language import picture_token_of, refuse_without_processor
from explainers.models.libraries.words_and_patches import WordsAndPatches
from explainers.models.picture_after_text import PictureAfterTextReader, picture_after_text_reader
from explainers.models.picture_prompts import PicturePromptReader, picture_reader, prepare_picture_prompts
from explainers.models.preparing import prepare_clips, prepare_images, prepare_of_molecules, prepare_texts, sample_molecule
from explainers.models.processor_prompts import (
    ProcessorReader,
    UnusableProcessorError,
    prepare_by_processor,
    processor_of,
    processor_reader,
)
from explainers.models.source_reader import SourceReader, source_reader


@dataclass(frozen=True)
class InputReaders:
    """The readers of a module; each is None if the module takes no input of that kind.

    recipe    how pictures are prepared; ``notes`` say which of it was guessed
    words     reads texts into tokens
    graphs    reads molecules into tensors
    pictures  reads a picture and a prompt into tokens, for a vision-language model; or a picture or a sound that a model writes from
    sample    tensors of two inputs, for trial passes; of one for a picture that a processor prepares with a prompt
    takes_pixels  whether pixels are among the tensors
    """

    module: nn.Module
    recipe: AnyPreprocessing | None
    notes: tuple[str, ...]
    words: TextReader | None
    graphs: MoleculeReader | None
    pictures: PicturePromptReader | PictureAfterTextReader | ProcessorReader | SourceReader | None
    sample: Mapping[str, Tensor]
    takes_pixels: bool

    @property
    def by_processor(self) -> bool:
        """Return whether pictures are prepared by the model's processor, whose tensors have another size for each picture."""
        return isinstance(self.pictures, ProcessorReader)

    def parts(self, kind: ModelKind) -> tuple[PartName, ...]:
        """Return the parts of an input that a model of this ``kind`` reads with these readers, in the order in which they are named."""
        shown: PartName = "sound" if isinstance(self.recipe, SoundPreparation) else "picture"
        if kind == "molecule":
            return ("molecule",)
        if kind == "image" or isinstance(self.pictures, SourceReader):
            return (shown,) if lib.clip_shape(self.module) is None else ("video",)
        if kind == "clip":
            return "picture", "text"
        if self.pictures is None:
            return ("text",)
        return ("picture", "video", "text") if self.reads_videos else ("picture", "text")

    @property
    def reads_videos(self) -> bool:
        """Return whether videos can be sent in the place of pictures with a text."""
        return isinstance(self.pictures, ProcessorReader) and self.pictures.reads_videos

    @property
    def first(self) -> dict[str, Tensor]:
        """The tensors of the first input of the sample."""
        if isinstance(self.pictures, ProcessorReader):
            return dict(self.sample)
        return {name: tensor[:1] for name, tensor in self.sample.items()}

    def preparer(self, kind: ModelKind, prefix: int, takes_positions: bool) -> Callable[[Input], Prepared]:
        """Return the function that turns an input of a model of this ``kind`` into tensors and a record of each sample (:class:`Prepared`).

        For molecules, ``prefix`` is the number of tokens before the atoms. For texts, ``takes_positions`` says whether the positions of the
        tokens are passed to the model.
        """
        if self.graphs is not None:
            return partial(prepare_of_molecules, self.module, self.graphs, prefix)
        if isinstance(self.pictures, ProcessorReader):
            return partial(prepare_by_processor, self.pictures)
        if isinstance(self.pictures, SourceReader):
            return self.pictures.read
        if self.pictures is not None:
            return partial(prepare_picture_prompts, self.module, self.pictures)
        if kind == "text":
            assert self.words is not None
            return partial(prepare_texts, self.module, self.words, takes_positions)
        clip = lib.clip_shape(self.module)
        return partial(prepare_images if clip is None else partial(prepare_clips, clip), self.module, self.recipe, self.notes)

    @property
    def grey_pixels(self) -> Callable[[PicturePromptInput], Tensor] | None:
        """The function from the record of a text with pictures to the pixel values of grey pictures of the same sizes; None if the module
        reads none, or how they are prepared is not known.
        """
        known = isinstance(self.pictures, ProcessorReader) or (self.pictures is not None and self.pictures.recipe is not None)
        known = known and not isinstance(self.recipe, SoundPreparation)
        return self.pictures.grey_pixels if self.pictures is not None and known else None

    @property
    def chat_preparer(self) -> Callable[[Any], Prepared] | None:
        """The function from a prompt to its tensors with the chat template of the tokenizer; None if the tokenizer has no template."""
        words = self.words
        if isinstance(self.pictures, ProcessorReader):
            return partial(prepare_by_processor, self.pictures, chat=True) if has_chat_template(self.pictures.processor) else None
        if words is None or not has_chat_template(words.tokenizer) or isinstance(self.pictures, SourceReader):
            return None
        if self.pictures is not None:
            return partial(prepare_picture_prompts, self.module, self.pictures, chat=True)
        return lambda text: read_chat(words, text, lib.device_of(self.module))


def input_readers(
    module: nn.Module, library: lib.Library, kind: ModelKind, preprocess: Any, tokenizer: Any, reader: str | MoleculeReader | None
) -> InputReaders:
    """Return the readers for the inputs of a module of this kind (image, text, clip or molecule), which comes from ``library``;
    ``preprocess``, ``tokenizer`` and ``reader`` are the arguments of :func:`explainers.wrap`.

    Raises ExplainerError if the size of its images is not known, or the tokens of a picture in a text fill no square.
    """
    if kind == "text" and (source := writer_source_of(module)) is not None:
        return _source_readers(module, library, source, preprocess, tokenizer)
    picture_token = picture_token_of(module, library) if kind == "text" else None
    reason = ""
    if picture_token is not None and not isinstance(module, WordsAndPatches):
        processor, reason = processor_of(module, preprocess)
        if processor is not None:
            own_words = _text_reader(module, processor.tokenizer if tokenizer is None else tokenizer, picture_token)
            try:
                by_processor, tensors = processor_reader(module, own_words, processor, picture_token)
                return InputReaders(module, None, (), own_words, None, by_processor, tensors, True)
            except UnusableProcessorError as problem:
                if preprocess is not None:
                    raise
                reason = str(problem)
        refuse_without_processor(module, reason)
    takes_pixels, takes_words = kind in ("image", "clip") or picture_token is not None, kind in ("text", "clip")
    recipe, guess = lib.preprocessing_of(module, library, preprocess) if takes_pixels else (None, None)
    notes = () if guess is None else (f"{guess[0].upper()}{guess[1:]}. Pass preprocess= to wrap to change them.",)
    if picture_token is not None and reason:
        notes = (*notes, f"The processor that was saved with the model could not be used, so a picture is read as a square: {reason}.")
    words = _text_reader(module, tokenizer, picture_token) if takes_words else None
    graphs = reader_named(reader) if kind == "molecule" else None
    sample = sample_molecule(module, graphs) if graphs is not None else _sample(module, takes_pixels, _size(module, library, recipe), words)
    if isinstance(module, WordsAndPatches):
        assert words is not None
        after_text, sample = picture_after_text_reader(module, words, recipe, notes, sample)
        return InputReaders(module, recipe, notes, words, graphs, after_text, sample, takes_pixels)
    pictures, sample = picture_reader(module, words, recipe, notes, picture_token, sample)
    return InputReaders(module, recipe, notes, words, graphs, pictures, sample, takes_pixels)


def _source_readers(module: nn.Module, library: lib.Library, source: WriterSource, preprocess: Any, tokenizer: Any) -> InputReaders:
    """Return the readers of ``module`` of ``library``, an encoder-decoder that writes from its ``source``; see :func:`input_readers`."""
    recipe: AnyPreprocessing | None
    if source.is_sound:
        recipe = sound_preparation(module, preprocess)
        guess = recipe.guess
    else:
        recipe, guess = lib.preprocessing_of(module, library, preprocess)
    notes = () if guess is None else (f"{guess[0].upper()}{guess[1:]}. Pass preprocess= to wrap to change them.",)
    words = _text_reader(module, tokenizer, None)
    size = recipe.size if isinstance(recipe, SoundPreparation) else _size(module, library, recipe)
    pixels = _sample_pixels(module, size, 1 if source.is_sound else lib.channels_of(module))
    reader, sample = source_reader(module, source, recipe, notes, pixels)
    return InputReaders(module, recipe, notes, words, None, reader, sample, True)


_LEAST_WORDS = 8  # smaller tables hold the types of tokens


def _text_reader(module: nn.Module, passed: Any, picture_token: int | None) -> TextReader:
    tokenizer = lib.tokenizer_of(module, passed)
    config = lib.text_config(module)
    kinds = getattr(config, "type_vocab_size", None) or 0
    special = special_ids(config) if picture_token is None else special_ids(config) | {picture_token}
    types = kinds > 1 and "token_type_ids" in names_in_forward(module)
    return TextReader(tokenizer, token_limit(tokenizer, config, module), special, types)


def _size(module: nn.Module, library: lib.Library, recipe: AnyPreprocessing | None) -> tuple[int, int] | None:
    """Return (height, width) of the images with which trial passes of ``module`` are made, from its preparation ``recipe`` and from what it
    declares; None if unknown. If the model takes any proportions it is a square; for a model of clips it is the size of the strip of
    frames.
    """
    declared = lib.image_size(module, library)
    size = declared if recipe is None else recipe.size or declared or recipe.resize
    clip = lib.clip_shape(module)
    return size if clip is None or size is None else (clip.frames * size[0], size[1])


def _words_of_own(module: nn.Module, tokenizer: Any) -> int:
    """Return a number of token ids that a module accepts although it does not declare its vocabulary: the tokenizer's number, but no more
    than the module's largest embedding table has rows; without a tokenizer, the rows of the smallest table that is large enough for words.
    """
    tables = sorted(m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding))
    if tokenizer is not None:
        return min([len(tokenizer), *tables[-1:]])
    return next((rows for rows in tables if rows >= _LEAST_WORDS), tables[-1] if tables else 2)


def _end_of_texts(tokenizer: Any) -> int | None:
    """Return the id of the special token that ``tokenizer`` puts at the end of a text; None if it puts none, or there is no tokenizer."""
    if tokenizer is None:
        return None
    ids = tokenizer("a")["input_ids"]
    return int(ids[-1]) if ids and ids[-1] in special_ids(tokenizer) else None


def _sample_pixels(module: nn.Module, size: tuple[int, int] | None, channels: int) -> Tensor:
    """Return two random images (2, channels, height, width) of ``size`` for trial passes of ``module``. Raises ExplainerError if the size
    is unknown.
    """
    if size is None:
        raise ExplainerError("the size of the images that the model takes is not known; pass preprocess=explainers.Preprocessing(...)")
    pixels = torch.randn(2, channels, *size, generator=torch.Generator().manual_seed(0))
    return pixels.to(lib.device_of(module), lib.dtype_of(module))


def _sample(module: nn.Module, reads_images: bool, size: tuple[int, int] | None, reader: TextReader | None) -> dict[str, Tensor]:
    """Return the tensors with which trial passes of ``module`` are made: two random images of ``size`` (height, width), or two short texts
    of ordinary tokens that ``reader`` makes, or both. Raises ExplainerError if the size is needed and unknown.
    """
    tensors: dict[str, Tensor] = {}
    if reads_images:
        tensors["pixel_values"] = _sample_pixels(module, size, lib.channels_of(module))
    if reader is not None:
        words = getattr(lib.text_config(module), "vocab_size", None)
        special = reader.special if words or reader.tokenizer is None else reader.special | special_ids(reader.tokenizer)
        words = words or _words_of_own(module, reader.tokenizer)
        ordinary = [i for i in range(min(words, 1000)) if i not in special][-6:]
        # which some heads look for
        end = _end_of_texts(reader.tokenizer) if lib.text_config(module) is None else getattr(lib.text_config(module), "eos_token_id", None)
        last = [end] if isinstance(end, int) and 0 <= end < words else []
        ids = torch.tensor([ordinary + last, ordinary[::-1] + last], device=lib.device_of(module))
        length = lib.text_length(module)
        tensors["input_ids"] = ids = ids if length is None else ids.repeat(1, length)[:, :length]
        if "attention_mask" in names_in_forward(module):
            tensors["attention_mask"] = torch.ones_like(ids)
    return tensors
