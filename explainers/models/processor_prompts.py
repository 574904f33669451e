"""Reader of pictures with a prompt by the model's own processor: tiles, small copies and packed patches, wherever they lie in the text."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.chat_prompts import has_chat_template
from explainers.models.inputs.clips import pictures_of
from explainers.models.inputs.depth import GreyWindow
from explainers.models.inputs.images import read_picture
from explainers.models.inputs.picture_tiles import WHOLE, PictureTile, finest_grid
from explainers.models.inputs.texts import TextReader, check_text, check_words
from explainers.models.inputs.types import (
    PICTURE,
    TEMPLATE,
    Clip,
    Crop,
    PicturePart,
    PicturePrompt,
    PicturePromptInput,
    Prepared,
    TextInput,
    Token,
)
from explainers.models.inputs.words import words_of
from explainers.models.libraries.recognition import vision_config
from explainers.models.libraries.vision_language import later_entries_of, pixels_name, video_tokens_of
from explainers.models.picture_layout import frame_layouts, picture_features, pixel_places, possible_layouts, why_unverified
from explainers.models.picture_prompts import check_places, grey_picture, one_picture_prompt
from explainers.models.preparing import move_tensors

#: Width and height of the pictures with which a model is tried, and the prompt.
TRIAL_SIZES, _TRIAL_TEXT = ((320, 240), (224, 336)), "a good film"
_LONGEST_SIDE = 1024  # of the copy of a picture on which its map is drawn, in pixels


_ENTERS_LATER = (
    "The model adds the picture once more behind each of its first {} blocks (deepstack). Scores are of the tokens before the first block: "
    "what the picture adds later is on no map."
)


_WITHOUT_TEMPLATE = (
    "The prompt was read without the model's chat template, and models that chat answer worse without it. Put it around the prompt with "
    "chat=True."
)
_TOGETHER = (
    "{} reads these pictures together in another way than each alone, and than two copies of each, so that which part of which one a token "
    "shows is not known: send one picture"
)
#: How far, in shares of the largest number, the tokens of pictures may be from those of each alone: kernels add in another order.
_SAME_TOKENS = 1e-2


class UnusableProcessorError(ExplainerError):
    """The error of a processor that cannot prepare a picture and a prompt."""


def processor_of(module: nn.Module, passed: Any) -> tuple[Any, str]:
    """Return the processor of pictures and texts of ``module``: ``passed`` if it is one, else the one saved with the weights; None if there
    is none, or if ``passed`` is something else. Also return why one that was saved could not be loaded; empty if none was.
    """
    if passed is not None:
        return (passed if _is_processor(passed) else None), ""
    place, problems = getattr(getattr(module, "config", None), "_name_or_path", ""), []
    for how in ({"backend": "pil"}, {}) if place else ():  # some have parts that need torchvision
        from transformers import AutoProcessor

        try:
            processor = AutoProcessor.from_pretrained(place, local_files_only=True, trust_remote_code=False, **how)
        except OSError:
            return None, ""
        except (ValueError, KeyError, ImportError, AttributeError, TypeError) as problem:
            problems.append(str(problem))
        else:
            return (processor if _is_processor(processor) else None), ""
    return None, problems[-1] if problems else ""


def _is_processor(value: Any) -> bool:
    """Return whether ``value`` is a processor of pictures and texts."""
    return hasattr(value, "image_processor") and hasattr(value, "tokenizer") and callable(value)


def _noise_picture(size: tuple[int, int]) -> Image.Image:
    """Return a picture of this ``size`` (width, height) of random colours, the same at every call."""
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


class _Listener:
    """A tokenizer that keeps the last text that it was given, ``text``, and what it made of it, ``encoding``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self.text, self.encoding = tokenizer, "", None

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> Any:
        self.encoding = self._tokenizer(text, *args, **kwargs)
        self.text = text if isinstance(text, str) else text[0]
        return self.encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


@dataclass(frozen=True)
class ProcessorReader:
    """A reader that converts pictures with prompts to tensors by the model's processor, for one model.

    words      reader of texts with the processor's tokenizer
    processor  a processor of transformers, with ``image_processor`` and ``tokenizer``
    token      the id that stands for each token of a picture
    layouts    the tiles of pictures, from the picture's first token on, by their size (width, height), the number of their tokens and that
               of the copies that were read together
    is_video   whether pictures are read as the frames of a video; ``token`` then stands for its tokens
    """

    module: nn.Module
    words: TextReader
    processor: Any
    token: int
    layouts: dict[tuple[int, int, int, int], tuple[PictureTile, ...]] = field(default_factory=dict)
    is_video: bool = False

    @property
    def placeholder(self) -> str:
        """The text that stands for a picture, or for a video, in a prompt."""
        token = getattr(self.processor, "video_token" if self.is_video else "image_token", None)
        token = getattr(token, "content", token)
        return token if isinstance(token, str) else str(self.processor.tokenizer.convert_ids_to_tokens(self.token))

    @property
    def reads_videos(self) -> bool:
        """Whether the processor takes videos."""
        return all(getattr(self.processor, name, None) is not None for name in ("video_token", "video_processor"))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the map of a trial picture."""
        return finest_grid(next(tiles for (*size, _, _), tiles in self.layouts.items() if tuple(size) == TRIAL_SIZES[0]))

    def try_out(self) -> dict[str, Tensor]:
        """Read two trial pictures, a wide and a tall one, and return the tensors of the first. Raises ExplainerError if the processor or
        the model cannot, or where their tokens come from in the picture is not found.
        """
        wide, _ = (self.read(PicturePrompt(_noise_picture(size), _TRIAL_TEXT)) for size in TRIAL_SIZES)
        return wide.tensors

    def read(self, prompt: PicturePrompt, chat: bool = False) -> Prepared:
        """Return the tensors and the record of ``prompt``, pictures and their text, on the device of the model, with the processor's chat
        template around them if ``chat`` is true. Raises ExplainerError if the text has places for another number of pictures.
        """
        check_text(prompt.text)
        if isinstance(prompt.picture, Clip):
            return replace(self, is_video=True)._read_video(prompt.text, pictures_of(prompt.picture.frames), chat)
        seen = [_see(picture) for picture in prompt.pictures]
        pictures = [each.picture for each in seen]
        check_places(prompt.text.count(self.placeholder), len(seen))
        tensors, heard = self._process(self._text(prompt.text, chat, len(seen)), pictures)
        layouts = self._layouts(tensors, pictures)
        ids = tensors["input_ids"][0].tolist()
        tokens, words = self._tokens(prompt.text, ids, heard, tuple(tile for tiles in layouts for tile in tiles), chat)
        shown = [each.record(tiles) for each, tiles in zip(seen, layouts, strict=True)]
        return Prepared(tensors, (_record(TextInput(prompt.text, tokens, words), shown),), (self._notes(prompt.text, chat, len(seen)),))

    def _notes(self, text: str, chat: bool, pictures: int) -> tuple[str, ...]:
        """Return notes on how so many ``pictures``, or a video, and ``text`` are read."""
        notes: tuple[str, ...] = ()
        if self.placeholder not in text and not chat and _replaces_placeholders(self.processor):
            what = "video" if self.is_video else "picture"
            stand = f"the {what} stands: it is" if pictures == 1 or self.is_video else "the pictures stand: they are"
            where = "it shall be" if pictures == 1 or self.is_video else "each shall be"
            notes = (f"The prompt does not say where {stand} read before it. Write {self.placeholder} where {where}.",)
        if not chat and has_chat_template(self.processor):
            notes = (_WITHOUT_TEMPLATE, *notes)
        if entries := later_entries_of(self.module):
            notes = (*notes, _ENTERS_LATER.format(entries))
        return notes

    def _read_video(self, text: str, frames: Sequence[Image.Image], chat: bool) -> Prepared:
        """Return what :meth:`read` returns, of a video with these ``frames``: a picture in the record for each time that the model tells
        apart. Raises ExplainerError if the processor or the model reads no video, or where its tokens come from is not found.
        """
        if not self.reads_videos:
            raise ExplainerError(f"{type(self.module).__name__} reads no video: send its frames as a list of pictures")
        if text.count(self.placeholder) > 1:
            raise ExplainerError(f"the prompt has {text.count(self.placeholder)} places for a video, and one was sent: write one, or none")
        tensors, heard = self._process(self._text(text, chat), frames)
        ids = tensors["input_ids"][0].tolist()
        reader = replace(self, token=next((token for token in video_tokens_of(self.module) if token in ids), self.token))
        tiles = reader._find_times(tensors, frames)
        tokens, words = reader._tokens(text, ids, heard, tiles, chat)
        together = -(-len(frames) // len(tiles))
        shown = []
        for time, tile in enumerate(tiles):
            numbers = time * together + 1, min((time + 1) * together, len(frames))
            part = _SeenPicture(frames[numbers[0] - 1], frames[0].size).record((tile,))
            shown.append(replace(part, frame_numbers=numbers))
        notes = self._notes(text, chat, 1)
        if together > 1:
            notes = (*notes, f"The model reads {together} frames as one: a map is of {together} frames, and drawn on the first of them.")
        return Prepared(tensors, (_record(TextInput(text, tokens, words), shown),), (notes,))

    def _find_times(self, tensors: Mapping[str, Tensor], frames: Sequence[Image.Image]) -> tuple[PictureTile, ...]:
        """Return the tile of each time of a video in ``tensors`` under which tokens change with their own part of the ``frames`` of that
        time alone. Raises ExplainerError with the reason if there are none.
        """
        text, size = self._text(_TRIAL_TEXT, chat=False), frames[0].size

        def prepare(picture: Image.Image) -> Tensor:
            made = self._process(text, [picture] * len(frames))[0]
            return made[pixels_name(made)].cpu()

        reason = "they fill no grid of a frame"
        for places, tiles in frame_layouts(tensors, self.token, pixel_places(prepare, size), len(frames)):
            if (wrong := why_unverified(self.module, tensors, self.token, places, tiles, in_time=True)) is None:
                return tiles
            reason = wrong
        raise ExplainerError(
            f"{type(self.module).__name__} makes {len(self._places(tensors))} tokens of a video of {len(frames)} frames, and "
            f"which part of it each shows is not known: {reason}. Send its frames as a list of pictures"
        )

    def read_tensors(self, tensors: Mapping[str, Tensor]) -> Prepared:
        """Return ``tensors`` of one picture and one prompt, as the processor gives them, with a record of them. Raises ExplainerError if
        they do not say which size the picture had, by which its tiles are found.
        """
        ids, pixels = tensors.get("input_ids"), tensors.get("pixel_values")
        if ids is None or ids.dim() != 2 or len(ids) != 1 or ids.is_floating_point() or pixels is None:
            raise ExplainerError(
                "send what the model's processor gives for one picture and one prompt: input_ids (1, tokens), pixel_values"
            )
        size = self._size_of(tensors)  # refuses those of several pictures
        moved = move_tensors(tensors, self.module)
        tiles = self._tiles(moved, size)
        outside = ids[0].cpu() != self.token
        of_text = {name: tensor[:, outside.to(tensor.device)] for name, tensor in tensors.items() if tensor.shape == ids.shape}
        (record,) = self.words.read_tensors(of_text)
        place = outside.nonzero().flatten().tolist()
        laid = _picture_tokens(len(outside), tiles)
        for index, token in zip(place, record.tokens, strict=True):
            laid[index] = token
        words = tuple(replace(word, tokens=tuple(place[i] for i in word.tokens)) for word in record.words)
        shown = replace(_SeenPicture(Image.new("RGB", size), size).record(tiles), pixels=None)
        return Prepared(moved, (_record(replace(record, tokens=tuple(laid), words=words), [shown]),), ((),))

    def grey_pixels(self, record: PicturePromptInput) -> Tensor:
        """Return the pixel values of grey pictures of the sizes of those in ``record``, or of its grey video. Raises ExplainerError if the
        processor refuses them.
        """
        last = record.pictures[-1]
        if last.frame_numbers is not None:
            reader = replace(self, is_video=True)
            made, _ = reader._process(reader._text(_TRIAL_TEXT, chat=False), [grey_picture(last)] * last.frame_numbers[1])
        else:
            pictures = [grey_picture(picture) for picture in record.pictures]
            made, _ = self._process(self._text(_TRIAL_TEXT, chat=False, pictures=len(pictures)), pictures)
        return made[pixels_name(made)]

    def _size_of(self, tensors: Mapping[str, Tensor]) -> tuple[int, int]:
        """Return a size (width, height) of a picture of which the processor makes pixel values of the shape of those in ``tensors``."""
        pixels = tensors["pixel_values"]
        if any(len(tensors[name]) > 1 for name in ("image_sizes", "image_grid_thw") if name in tensors):
            raise ExplainerError("these tensors hold several pictures: send explainers.PicturePrompt([picture, ...], 'Which is larger?')")
        if (sizes := tensors.get("image_sizes")) is not None:
            return int(sizes[0, 1]), int(sizes[0, 0])
        if (packed := tensors.get("image_grid_thw")) is not None:
            return int(packed[0, 2]) * (side := _patch_size(self.module) or 1), int(packed[0, 1]) * side
        if pixels.dim() == 4 and len(pixels) == 1:
            return int(pixels.shape[-1]), int(pixels.shape[-2])
        raise ExplainerError(
            "these tensors do not say how the tiles of the picture lie, which depends on its size: send explainers.PicturePrompt(picture, "
            "'What is this?')"
        )

    def _text(self, text: str, chat: bool, pictures: int = 1) -> str:
        """Return the text with a place for each of so many ``pictures``, one a line before it if it names none, in the chat template if
        ``chat`` is true.
        """
        has_places = self.placeholder in text or not _replaces_placeholders(self.processor)
        if not chat:
            return text if has_places else "\n".join([self.placeholder] * pictures) + text
        content = [*([] if has_places else [{"type": "video" if self.is_video else "image"}] * pictures), {"type": "text", "text": text}]
        try:
            whole = str(
                self.processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True)
            )
        except Exception as problem:  # a template raises errors of its own
            raise ExplainerError(f"the chat template refuses this prompt: {problem}") from problem
        if self.is_video and self.placeholder not in whole:
            raise ExplainerError("the model's chat template has no place for a video: leave chat= out, or send the frames as pictures")
        return whole

    def _process(self, text: str, pictures: Sequence[Image.Image]) -> tuple[dict[str, Tensor], _Listener]:
        """Return what the processor makes of ``text`` and ``pictures``, on the device of the model, and the tokenizer with what it
        heard.
        """
        processor, listener = copy.copy(self.processor), _Listener(self.processor.tokenizer)
        processor.tokenizer = listener
        if self.is_video:  # frames are chosen by whoever sends them
            media: dict[str, Any] = {"videos": [list(pictures)], "do_sample_frames": False}
        else:
            media = {"images": list(pictures) if len(pictures) == 1 else [list(pictures)]}  # of one text
        try:
            with warnings.catch_warnings():  # of NumPy, about the processor's own code
                warnings.simplefilter("ignore")
                made = processor(text=[text], return_tensors="pt", **media)
        except Exception as problem:
            why = f"the model's processor ({type(self.processor).__name__}) refuses this input: {problem}"
            raise UnusableProcessorError(why) from problem
        takes = inspect.signature(self.module.forward).parameters
        tensors = {name: value for name, value in made.items() if isinstance(value, Tensor) and name in takes and name != "labels"}
        if missing := {"input_ids", pixels_name(tensors)} - tensors.keys():
            raise ExplainerError(f"the model's processor ({type(self.processor).__name__}) gives no {', '.join(sorted(missing))}")
        return move_tensors(tensors, self.module), listener

    def _layouts(self, tensors: Mapping[str, Tensor], pictures: Sequence[Image.Image]) -> list[tuple[PictureTile, ...]]:
        """Return the tiles of each of ``pictures`` in ``tensors``, the input of one prompt with all of them.

        Each is also read alone, where its tiles are found; or as two copies of itself, where a processor cuts a picture into tiles only if
        it is the only one (LLaVA-OneVision). Raises ExplainerError unless the tokens that the vision tower makes of all pictures are those
        that it makes of each so, one after the other.
        """
        if len(pictures) == 1:
            return [self._tiles(tensors, pictures[0].size)]
        for copies in (1, 2):
            if (layouts := self._layouts_as_of_each(tensors, pictures, copies)) is not None:
                return layouts
        raise ExplainerError(_TOGETHER.format(type(self.module).__name__))

    def _layouts_as_of_each(
        self, tensors: Mapping[str, Tensor], pictures: Sequence[Image.Image], copies: int
    ) -> list[tuple[PictureTile, ...]] | None:
        """Return the tiles of each of ``pictures`` in ``tensors`` as :meth:`_layouts` does, if their tokens are those of so many ``copies``
        of each, else None.
        """
        text, places = self._text(_TRIAL_TEXT, chat=False, pictures=copies), self._places(tensors)
        alone = [self._process(text, [picture] * copies)[0] for picture in pictures]
        tokens = [picture_features(self.module, each).chunk(copies) for each in alone]
        are_equal = all(_are_alike(copy, first) for first, *others in tokens for copy in others)
        if not are_equal or not _are_alike(picture_features(self.module, tensors), torch.cat([first for first, *_ in tokens])):
            return None
        layouts: list[tuple[PictureTile, ...]] = []
        end = -1
        for picture, each in zip(pictures, alone, strict=True):
            expected = self._places(each, copies)
            its_places, places = places[: len(expected)], places[len(expected) :]
            shift = its_places[0] - expected[0] if its_places else 0
            if its_places != [place + shift for place in expected]:
                return None
            if "mm_token_type_ids" in tensors and its_places[0] == end + 1:
                raise ExplainerError("this model takes pictures that touch in a prompt for one: put a word or a space between them")
            end = its_places[-1]
            layouts.append(tuple(tile.moved(shift) for tile in self._tiles(each, picture.size, copies)))
        return layouts

    def _places(self, tensors: Mapping[str, Tensor], copies: int = 1) -> list[int]:
        """Return the indices of the tokens of pictures in ``tensors``, of so many ``copies`` those of the first. Raises ExplainerError if
        there are none.
        """
        places: list[int] = (tensors["input_ids"][0] == self.token).nonzero().flatten().tolist()
        if not places:
            raise ExplainerError(f"input_ids hold no token of a picture, the id {self.token}: send what the model's processor gives")
        return places[: len(places) // copies]

    def _tiles(self, tensors: Mapping[str, Tensor], size: tuple[int, int], copies: int = 1) -> tuple[PictureTile, ...]:
        """Return the tiles of a picture of this ``size`` (width, height) in ``tensors``, the input of one prompt with so many ``copies`` of
        it alone; those of the first. They are found once for each size, number of tokens and of copies.
        """
        seen = self._places(tensors, copies)
        key = (size[0], size[1], len(seen), copies)
        if key not in self.layouts:
            self.layouts[key] = tuple(tile.moved(-seen[0]) for tile in self._find_tiles(tensors, size, copies))
        return tuple(tile.moved(seen[0]) for tile in self.layouts[key])

    def _find_tiles(self, tensors: Mapping[str, Tensor], size: tuple[int, int], copies: int) -> tuple[PictureTile, ...]:
        """Return the one layout of tiles under which tokens change with their own part of the picture alone, for ``tensors`` of so many
        ``copies`` of a picture of this ``size``. Raises ExplainerError with the reason if there is none.
        """
        text = self._text(_TRIAL_TEXT, chat=False, pictures=copies)
        places = pixel_places(lambda picture: self._process(text, [picture] * copies)[0]["pixel_values"].cpu(), size)
        reasons, starts = [], self._places(tensors)[:: len(self._places(tensors, copies))]
        first = {**tensors, "input_ids": tensors["input_ids"][:, : self._places(tensors, copies)[-1] + 1]}
        boxes = places.boxes[: len(places.boxes) // copies]
        for tiles in possible_layouts(first, self.token, boxes, size, _patch_size(self.module)):
            of_all = [tile.moved(start - starts[0]) for start in starts for tile in tiles]
            if (reason := why_unverified(self.module, tensors, self.token, places, of_all)) is None:
                return tiles
            reasons.append(reason)
        count = len(self._places(tensors, copies))
        why = f"under the likeliest layout {reasons[0]}" if reasons else "they fill no grid of a tile"
        raise ExplainerError(
            f"{type(self.module).__name__} makes {count} tokens of a picture of {size[0]} x {size[1]} pixels, and which part of it each "
            f"shows is not known: {why}. Where every token looks at the whole picture (a Q-Former, a resampler), none has a place in it"
        )

    def _tokens(
        self, text: str, ids: list[int], heard: _Listener, tiles: tuple[PictureTile, ...], chat: bool
    ) -> tuple[tuple[Token, ...], tuple[Any, ...]]:
        """Return the tokens with the ``ids`` that the tokenizer made of what it ``heard``, of which ``text`` is the person's part, and the
        words of that.
        """
        encoding: Any = heard.encoding
        if encoding is None or not encoding.encodings or list(encoding.encodings[0].ids) != ids:
            raise ExplainerError("the processor's tokenizer does not say which characters its tokens stand for: use a fast one")
        offsets, spans = encoding.encodings[0].offsets, _spans_of(text, self.placeholder, heard.text)
        placed: list[tuple[int, int]] = []
        for start, stop in offsets:
            span = next(((first, last, at) for first, last, at in spans if start < last and stop > first), None)
            placed.append((0, 0) if span is None else (max(start, span[0]) - span[0] + span[2], min(stop, span[1]) - span[0] + span[2]))
        special = [stop <= start or index == self.token for (start, stop), index in zip(placed, ids, strict=True)]
        read = self.words.tokens(text, ids, placed, special)
        tokens = [replace(token, part=TEMPLATE) if chat and token.special else token for token in read]
        laid = _picture_tokens(len(ids), tiles)
        tokens = [laid[i] if index == self.token else tokens[i] for i, index in enumerate(ids)]
        numbers = encoding.word_ids(0)
        check_words(text, read)
        of_text = [token if token.part != PICTURE else replace(token, special=True) for token in tokens]
        return tuple(tokens), words_of(text, of_text, numbers)


def _are_alike(tokens: Tensor, expected: Tensor) -> bool:
    """Return whether the embedded ``tokens`` (N, D) are the ``expected`` ones but for the order in which kernels add."""
    return tokens.shape == expected.shape and bool((tokens - expected).abs().max() <= _SAME_TOKENS * expected.abs().max())


def _replaces_placeholders(processor: Any) -> bool:
    """Return whether ``processor`` puts the tokens of a picture where a prompt has a placeholder; some put them before every prompt."""
    from transformers import ProcessorMixin

    replaces = getattr(type(processor), "replace_image_token", None)
    return replaces is None or replaces is not getattr(ProcessorMixin, "replace_image_token", None)


def _spans_of(text: str, placeholder: str, whole: str) -> list[tuple[int, int, int]]:
    """Return where the parts of ``text`` before and after its ``placeholder`` stand in ``whole``, the last one first: their first and last
    character there, and their first in ``text``. Raises ExplainerError if they were changed.
    """
    spans, end, stop = [], len(whole), len(text)
    for part in reversed(text.split(placeholder)):
        first, said = stop - len(part), part.strip()
        stop = first - len(placeholder)
        if not said:
            continue
        start = whole.rfind(said, 0, end)
        if start < 0:
            raise ExplainerError("the processor changes the text, so which of its tokens are the person's is not known")
        spans.append((start, start + len(said), first + part.index(said)))
        end = start
    return spans


def _picture_tokens(count: int, tiles: tuple[PictureTile, ...]) -> list[Token]:
    """Return ``count`` tokens of a picture; those of no part of it, by its ``tiles``, are special."""
    tokens = [Token("", 0, 0, True, PICTURE)] * count
    for tile in tiles:
        for index in tile.tokens.flatten().tolist():
            tokens[index] = Token("", 0, 0, False, PICTURE)
    return tokens


@dataclass(frozen=True)
class _SeenPicture:
    """The ``picture`` that is given to a processor: all of one of the size ``whole``, or a part of it (``frame``).

    window  the window of greys by which it was read, None for one of 8 bits
    """

    picture: Image.Image
    whole: tuple[int, int]
    frame: tuple[int, int, int, int] | None = None
    window: GreyWindow | None = None

    def record(self, tiles: tuple[PictureTile, ...]) -> PicturePart:
        """Return the record of the picture as it is drawn: the part of it that ``tiles`` cover, and a copy of that part of at most 1024
        pixels a side. The tiles are in shares of the whole ``picture``.
        """
        width, height = self.picture.size
        x0, y0 = (max(0.0, min(tile.box[axis] for tile in tiles)) for axis in (0, 1))
        x1, y1 = (min(1.0, max(tile.box[axis] for tile in tiles)) for axis in (2, 3))
        crop = round(x0 * width), round(y0 * height), round(x1 * width), round(y1 * height)
        pixels = self.picture.crop(crop)
        pixels.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
        x0, y0, x1, y1 = crop[0] / width, crop[1] / height, crop[2] / width, crop[3] / height
        tiles = tuple(
            replace(
                tile,
                box=(
                    (tile.box[0] - x0) / (x1 - x0),
                    (tile.box[1] - y0) / (y1 - y0),
                    (tile.box[2] - x0) / (x1 - x0),
                    (tile.box[3] - y0) / (y1 - y0),
                ),
            )
            for tile in tiles
        )
        left, top = (self.frame or (0, 0))[:2]
        first, plain = tiles[0], len(tiles) == 1 and tiles[0].box == WHOLE and tiles[0].step == tiles[0].columns
        return PicturePart(
            *self.whole,
            (crop[0] + left, crop[1] + top, crop[2] + left, crop[3] + top),
            pixels.size,
            pixels,
            frame=self.frame,
            window=self.window,
            grid=(first.rows, first.columns) if plain else finest_grid(tiles),
            first=first.first,
            tiles=() if plain else tiles,
        )


def _see(picture: Any) -> _SeenPicture:
    """Read one picture of a prompt. Raises ExplainerError if it cannot be read, or a crop does not lie in it."""
    whole, window = read_picture(picture.image if isinstance(picture, Crop) else picture)
    if not isinstance(picture, Crop):
        return _SeenPicture(whole, whole.size, None, window)
    picture.check(whole.size)
    return _SeenPicture(whole.crop(picture.box), whole.size, picture.box, window)


def _record(text: TextInput, pictures: Sequence[PicturePart]) -> PicturePromptInput:
    """Return the record of ``pictures`` among the tokens of ``text``."""
    first, *others = pictures
    return PicturePromptInput(
        text.text,
        text.tokens,
        text.words,
        picture=first.image,
        grid=first.grid,
        first=first.first,
        tiles=first.tiles,
        others=tuple(others),
    )


def _patch_size(module: nn.Module) -> int | None:
    """Return the side in pixels of the patches of the vision tower of ``module``; None if it is not declared."""
    declared = getattr(vision_config(module), "patch_size", None)
    side = declared[0] if isinstance(declared, list | tuple) else declared
    return side if isinstance(side, int) else None


def processor_reader(module: nn.Module, words: TextReader, processor: Any, token: int) -> tuple[ProcessorReader, dict[str, Tensor]]:
    """Return the reader of pictures with prompts by ``processor``, and the tensors of a trial picture. Raises ExplainerError as
    :meth:`ProcessorReader.try_out` does.
    """
    reader = ProcessorReader(module, words, processor, token)
    return reader, reader.try_out()


def prepare_by_processor(reader: ProcessorReader, inputs: Any, chat: bool = False) -> Prepared:
    """Return one picture with its prompt (with ``chat`` put into the chat template), or their tensors (``inputs``), prepared by ``reader``.
    Raises ExplainerError for several inputs or another kind.
    """
    given = isinstance(inputs, Mapping)
    prepared = reader.read_tensors(inputs) if given else reader.read(one_picture_prompt(reader.module, inputs), chat)
    prepared.tensors.setdefault("attention_mask", torch.ones_like(prepared.tensors["input_ids"]))  # with which tokens are removed
    return prepared
