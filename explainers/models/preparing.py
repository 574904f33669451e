"""Conversion of a caller's input (images, paths, texts, tensors, lists of these) to tensors on the model's device, with records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.clips import ClipShape
from explainers.models.inputs.depth import WindowedPicture
from explainers.models.inputs.molecules import MoleculeReader, prepare_molecules, read_molecule, records_of_tensors
from explainers.models.inputs.texts import TextReader
from explainers.models.inputs.transforms import AnyPreprocessing
from explainers.models.inputs.types import Crop, ImageInput, Input, Prepared, Sound, SoundStretch, TextPair, Windows
from explainers.models.inputs.windows import windows_of
from explainers.models.libraries.calls import features_of
from explainers.models.libraries.recognition import channels_of, device_of, dtype_of, library_of, text_length, vocabulary_of
from explainers.models.structure.blocks import first_tensor, trial

#: How many seconds of a sound may lie beyond those that are drawn without a note: the margin of a token.
_UNSEEN = 0.1


def as_list(inputs: Input) -> list[Any]:
    """Return one input or several as a list. Raises ExplainerError for an input of a wrong type."""
    if isinstance(inputs, (Image.Image, Path, str, Crop, WindowedPicture, TextPair, Sound)):
        return [inputs]
    if isinstance(inputs, Tensor | np.ndarray):
        raise ExplainerError(f"{_arrays_of(inputs)} does not say what it holds; {_wanted_of(inputs)}")
    if isinstance(inputs, bytes | bytearray) or not isinstance(inputs, Sequence):
        raise ExplainerError(f"{_a_or_an(inputs)} cannot be explained; {_wanted_of(inputs)}")
    if not inputs:
        raise ExplainerError("the list of inputs is empty; send at least one")
    for item in inputs:
        if isinstance(item, Tensor | np.ndarray | int | float | bytes | bytearray):
            raise ExplainerError(f"the list of inputs holds {_a_or_an(item)}; {_wanted_of(item)}")
    return list(inputs)


def pictures_of(inputs: Input) -> list[Any]:
    """Return one picture or several, the ``inputs``, as a list; an array of numpy, and a tensor of whole numbers, is one picture."""
    several: list[Any] = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    several = [x.cpu().numpy() if isinstance(x, Tensor) and not x.is_floating_point() and x.dim() == 3 else x for x in several]
    if several and all(isinstance(x, np.ndarray) and x.ndim in (2, 3) for x in several):
        return several
    return as_list(several if isinstance(inputs, list | tuple) else inputs)


def _a_or_an(value: object) -> str:
    """Return the type of ``value`` with its article: "an int"."""
    name = "numpy array" if isinstance(value, np.ndarray) else type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _arrays_of(values: Tensor | NDArray[Any]) -> str:
    return f"{_a_or_an(values)} of shape {tuple(values.shape)}"


def _wanted_of(value: object) -> str:
    """Return the text that says what to send in place of ``value``, an input of a wrong type."""
    if isinstance(value, bytes | bytearray):
        return "open the bytes of a file first: PIL.Image.open(io.BytesIO(data)); those of a text are data.decode()"
    if isinstance(value, np.ndarray):
        picture = "a picture (height, width, 3) of 0 to 255 as PIL.Image.fromarray(x.astype('uint8'))"
        return f"send {picture}, preprocessed pixels as {{'pixel_values': torch.from_numpy(x)}}"
    if isinstance(value, Tensor):
        return (
            "send preprocessed pixels (batch, channels, height, width) as {'pixel_values': x}"
            if value.is_floating_point()
            else "send the ids of tokens (batch, tokens) as {'input_ids': x}, preprocessed pixels as {'pixel_values': x.float()}"
        )
    if isinstance(value, int | float):
        return "send images, paths or texts; the ids of tokens as {'input_ids': torch.tensor([ids])}"
    return "send an image, a path, a text, a list or a dict of tensors"


def move_tensors(tensors: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Return ``tensors`` moved to the device of ``module``, and pixel values converted to its floating-point type."""
    wrong = [name for name, tensor in tensors.items() if not isinstance(tensor, Tensor)]
    if wrong:
        raise ExplainerError(f"{', '.join(map(str, wrong))}: send torch tensors, such as torch.as_tensor(x)")
    device, dtype = device_of(module), dtype_of(module)
    return {name: t.to(device, dtype) if t.is_floating_point() else t.to(device) for name, t in tensors.items()}


def prepare_images(module: nn.Module, recipe: AnyPreprocessing | None, notes: tuple[str, ...], inputs: Input) -> Prepared:
    """Prepare the images ``inputs`` as a batch for ``module``; every record has the rectangle of its image that the model sees. ``recipe``
    is the model's preparation (None if unknown), ``notes`` are notes on it. Raises ExplainerError for images that the model cannot take.
    """
    if isinstance(inputs, Mapping):
        return _image_tensors(module, inputs)
    if recipe is None and (channels := channels_of(module)) not in (1, 3):
        raise ExplainerError(
            f"the model takes {channels} channels, and a picture has 3: send "
            f"{{'pixel_values': float tensor (batch, {channels}, height, width)}}"
        )
    if recipe is None:
        raise ExplainerError("how this model's images are prepared is not known; pass preprocess= to wrap, or send pixel_values")
    cut = [recipe.of(source) for source in pictures_of(inputs)]
    sizes = {tuple(pixels.shape) for pixels, _ in cut}
    if len(sizes) > 1:
        raise ExplainerError(f"the model takes images as they are, and these have sizes {sorted(sizes)}; send them one at a time")
    tensors = move_tensors({"pixel_values": torch.stack([pixels for pixels, _ in cut])}, module)
    return Prepared(tensors, tuple(record for _, record in cut), tuple((*notes, *_place_note(record)) for _, record in cut))


def _place_note(record: ImageInput) -> tuple[str, ...]:
    if record.sound is not None:
        return _sound_note(record.sound)
    if record.is_placed:
        return ()
    return ("The part of the picture that preprocess= keeps could not be found. Maps are drawn on what the model saw, not on the picture.",)


def _sound_note(sound: SoundStretch) -> tuple[str, ...]:
    """Return a note if the sound is longer or shorter than the model takes."""
    if sound.whole > sound.end + _UNSEEN:
        return (f"The sound is {sound.whole:.1f} s long, and the model takes its first {sound.end:.1f} s: the rest is not explained.",)
    if sound.whole < sound.end - _UNSEEN:
        return (f"The sound is {sound.whole:.1f} s long, and the model takes {sound.end:.1f} s: what follows the sound is padding.",)
    return ()


def prepare_clips(clip: ClipShape, module: nn.Module, recipe: AnyPreprocessing | None, notes: tuple[str, ...], inputs: Any) -> Prepared:
    """Return the clips ``inputs`` as a batch for ``module``, each as a strip of frames that ``recipe`` prepared, with ``notes`` on each; a
    list is several clips. ``clip`` is the shape that the model takes. Raises ExplainerError for another number of frames.
    """
    if isinstance(inputs, Mapping):
        pixels = inputs.get("pixel_values")
        if isinstance(pixels, Tensor) and pixels.dim() == 5:
            if pixels.shape[1] != clip.frames:
                raise ExplainerError(f"the model takes {clip.frames} frames, and these clips have {pixels.shape[1]}")
            inputs = {**inputs, "pixel_values": clip.strip_of(pixels)}
        return _image_tensors(module, inputs)
    if recipe is None or recipe.size is None:
        raise ExplainerError("how the frames of this model are prepared is not known; pass preprocess= to wrap, or send pixel_values")
    pixels, records, said = zip(
        *(clip.prepare(source, recipe) for source in (inputs if isinstance(inputs, list | tuple) else [inputs])), strict=True
    )
    return Prepared(move_tensors({"pixel_values": torch.stack(pixels)}, module), records, tuple((*notes, *more) for more in said))


def _image_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> Prepared:
    pixels = tensors.get("pixel_values")
    if not isinstance(pixels, Tensor) or pixels.dim() != 4 or not pixels.is_floating_point():
        raise ExplainerError("image tensors are {'pixel_values': float tensor (batch, channels, height, width)}")
    height, width = pixels.shape[-2:]
    record = ImageInput(width, height, (0, 0, width, height), (width, height))
    return Prepared(move_tensors(tensors, module), (record,) * len(pixels), ((),) * len(pixels))


def prepare_texts(module: nn.Module, reader: TextReader, takes_positions: bool, inputs: Input) -> Prepared:
    """Return the texts ``inputs``, tokenized by ``reader``, as a batch for ``module``, padded to one length.

    With ``takes_positions`` the positions of words are sent, counted from the first word. Models that read the last word need them, as a
    tokenizer may put padding first and the model would count from there.
    """
    if not isinstance(inputs, Mapping):
        texts = as_list(inputs)
        pairs = [text for text in texts if isinstance(text, TextPair)]
        if pairs and len(pairs) < len(texts):
            raise ExplainerError("some of these are pairs of texts and some are not; send them apart")
        prepared = reader.read_pairs(pairs, device_of(module)) if pairs else reader.read(texts, device_of(module))
        return _with_positions(prepared) if takes_positions else prepared
    ids = inputs.get("input_ids")
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
        raise ExplainerError("text tensors are {'input_ids': integer tensor (batch, tokens), 'attention_mask': the same shape}")
    if reader.max_tokens and ids.shape[1] > reader.max_tokens:
        raise ExplainerError(f"input_ids hold {ids.shape[1]} tokens; the model takes {reader.max_tokens}")
    if (words := vocabulary_of(module)) is not None and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < words:
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise ExplainerError(f"input_ids hold {wrong}, and the model knows the ids 0 to {words - 1}; send those of its own tokenizer")
    mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape != ids.shape:
        raise ExplainerError(f"attention_mask has the shape {tuple(mask.shape)}, input_ids {tuple(ids.shape)}; send one 0 or 1 for each id")
    return Prepared(move_tensors(inputs, module), reader.read_tensors(inputs), ((),) * len(ids))


def prepare_windows(module: nn.Module, reader: TextReader, takes_positions: bool, text: str) -> Windows | None:
    """Return ``text`` in overlapping windows that ``reader`` tokenizes for ``module``, with the positions of words if ``takes_positions``;
    None if the text fits into the model.
    """
    windows = windows_of(reader, text, device_of(module))
    return windows if windows is None or not takes_positions else replace(windows, prepared=_with_positions(windows.prepared))


def _with_positions(prepared: Prepared) -> Prepared:
    """Return the batch of texts ``prepared`` with ``position_ids`` that count from the first word, if some rows begin with padding; else
    the batch unchanged.
    """
    mask = prepared.tensors.get("attention_mask")
    if mask is None or bool(mask[:, 0].all()):
        return prepared
    return replace(prepared, tensors={**prepared.tensors, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)})


#: Two molecules of one size, whose atoms and bonds are alike in few places: what a model of molecules is tried with.
_SAMPLE_MOLECULES = ("CC(=O)Nc1ccccc1", "O=[N+]([O-])c1ccc(N)cc1")


def sample_molecule(module: nn.Module, reader: MoleculeReader) -> dict[str, Tensor]:
    """Return the tensors that ``reader`` makes of two sample molecules with the same number of atoms, on the device of ``module``."""
    return move_tensors(reader([read_molecule(smiles).mol for smiles in _SAMPLE_MOLECULES]), module)


def prepare_of_molecules(module: nn.Module, reader: MoleculeReader, special: int, inputs: Any) -> Prepared:
    """Return the molecules ``inputs`` (SMILES, files, RDKit's own, or tensors) as a batch for ``module``, read by ``reader``; ``special``
    tokens of the model stand before their atoms.
    """
    if isinstance(inputs, Mapping):
        tensors = move_tensors(inputs, module)
        if not tensors or len({len(tensor) for tensor in tensors.values()}) > 1:
            raise ExplainerError("tensors of molecules are those of the reader, each with one row for each molecule; send all of them")
        records = records_of_tensors(tensors, special)
        return Prepared(tensors, records, ((),) * len(records))
    several = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if not several:
        raise ExplainerError("the list of inputs is empty; send at least one")
    prepared = prepare_molecules(reader, special, several)
    return replace(prepared, tensors=move_tensors(prepared.tensors, module))


class Prompts:
    """A reader that converts prompts of a dual encoder, ``module``, to tensors by ``reader``, padded as the text tower needs it.

    A text tower that reads the last position (SigLIP) was trained on texts padded to the full length: its features change when padding is
    added. A tower with a mask, or one that reads the end-of-text token (CLIP), gets no more padding than the batch needs.
    """

    def __init__(self, module: nn.Module, reader: TextReader) -> None:
        self.module, self.reader = module, reader
        self._padding: bool | str | None = None

    def __call__(self, prompts: Sequence[str]) -> Prepared:
        """Return the tensors of texts: ``input_ids``, ``attention_mask``, ... (prompts, tokens) on the module's device. Raises
        ExplainerError for an empty text.
        """
        if isinstance(prompts, str):
            prompts = [prompts]
        if not prompts or any(not isinstance(p, str) or not p.strip() for p in prompts):
            raise ExplainerError("send at least one prompt, and no empty one, for example 'a photo of a zebra'")
        if self.reader.tokenizer is None:
            raise ExplainerError("this model has no tokenizer; pass tokenizer= to wrap, or send input_ids with the pixel_values")
        if self._padding is None:
            self._padding = self._needed_padding(prompts[0])
        return self._read(prompts, self._padding)

    def _read(self, prompts: Sequence[str], padding: bool | str) -> Prepared:
        return self.reader.read(prompts, device_of(self.module), padding)

    def _needed_padding(self, prompt: str) -> bool | str:
        if self.reader.max_tokens is None:
            return True
        if text_length(self.module) is not None:
            return "max_length"
        features = features_of(self.module, library_of(self.module), "text")
        with trial(self.module):
            short, full = (first_tensor(_pooled_features(features(self._read([prompt], p).tensors))) for p in (False, "max_length"))
        assert short is not None
        assert full is not None
        same = (short - full).abs().max() <= 1e-3 * full.abs().max()
        return True if bool(same) else "max_length"


def _pooled_features(features: object) -> object:
    """Return the tensor of text features; since version 5 transformers returns an object with ``pooler_output`` instead of the tensor."""
    return getattr(features, "pooler_output", features)
