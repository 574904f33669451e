"""Replace parts of one input by something else, in several ways: what a claim about these parts must hold under.

A model may answer to what stands in the place of a part, not to its absence; each filling errs in its own way. Some are fixed, others are
drawn at random, and a draw is known by its number: the same number gives the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ImageInput, TextInput
from explainers.models.model import Model
from explainers.models.passes import Passes
from explainers.models.removal.atoms import atom_removal
from explainers.models.removal.patches import black_picture, first_time
from explainers.models.removal.token_removal import TOKENS, answer, repeat_sample
from explainers.models.removal.words import usual_way_of_words, word_removal

_ROWS = 64  # inputs in one pass, at most
#: The part of a picture's shorter side that is the standard deviation of the Gaussian by which it is blurred.
BLUR_SHARE = 1 / 8
#: Returns the logits (K, C) of K copies of the input: in each its own tokens are replaced, bool (K, N), by its own draw, ints (K,).
_Ask = Callable[[Tensor, Sequence[int]], Tensor]


@dataclass(frozen=True)
class Filling:
    """One way to replace parts of an input.

    name      as results say it
    words     what then stands in their place
    is_drawn  whether it depends on random numbers; another is the same in every draw
    """

    name: str
    words: str
    is_drawn: bool
    _ask: _Ask

    def logits(self, replaced: Tensor, draws: Sequence[int]) -> Tensor:
        """Return the logits (K, C), float32 on the CPU, of K copies of the input, in each of which the tokens of a row of ``replaced`` bool
        (K, N) are replaced; ``draws`` (K,) numbers the random numbers of each.
        """
        return self._ask(replaced, draws)


@dataclass(frozen=True)
class InputFillings:
    """The fillings that a model and one input allow, and the number N of tokens that can be replaced."""

    tokens: int
    fillings: tuple[Filling, ...]


def generator_of(draw: int) -> torch.Generator:
    """Return a generator of the random numbers of one draw."""
    return torch.Generator().manual_seed(draw)


def input_fillings(
    model: Model, tensors: Mapping[str, Tensor], shown: ImageInput | TextInput, grid: tuple[int, int] | None
) -> InputFillings:
    """Return the fillings for one input, a batch of one in ``tensors``: a picture (``shown``) with its ``grid`` of (rows, columns) of
    patches, a text, or a molecule.

    Raises ExplainerError for an input of another kind.
    """
    if model.reads_pictures or model.side == "text":
        raise ExplainerError(
            "Parts can be replaced in a picture, a text or a molecule, not in a prompt and not in a picture or sound about which a text is "
            "written: choose a classifier, or a model that continues a text."
        )
    if isinstance(shown, ImageInput):
        if grid is None or tensors["pixel_values"].dim() != 4:
            raise ExplainerError("Parts can be replaced in a picture that lies on a grid of patches, and not in a clip: send one picture.")
        return picture_fillings(model, tensors, grid)
    content = ~torch.tensor([token.special for token in shown.tokens])
    if model.kind == "molecule":
        return atom_fillings(model, tensors, content)
    read = tensors["attention_mask"][0].bool().cpu() if "attention_mask" in tensors else torch.ones(len(content), dtype=torch.bool)
    placed = torch.zeros_like(read)
    placed[read] = content
    return word_fillings(model, tensors, placed)


def picture_fillings(model: Model, tensors: Mapping[str, Tensor], grid: tuple[int, int]) -> InputFillings:
    """Return the fillings of the patches of a picture: the mean colour (0 after normalisation), black, the picture blurred by a Gaussian of
    ``BLUR_SHARE`` of its shorter side, noise of the mean and spread of each of its channels, and other patches of it, drawn at random.

    A picture that was drawn of a sound cannot be black.
    """
    pixels = tensors["pixel_values"]
    rows, columns = grid
    count = rows * columns
    height, width = pixels.shape[-2:]
    mean, spread = (f(pixels, dim=(2, 3), keepdim=True) for f in (torch.mean, torch.std))

    def noise(draws: Sequence[int]) -> Tensor:
        drawn = torch.cat([torch.randn(pixels.shape, generator=generator_of(draw)) for draw in draws])
        return mean + spread * drawn.to(pixels)

    def others(draws: Sequence[int]) -> Tensor:
        size = (height // rows, width // columns)
        cells = F.unfold(pixels.float(), size, stride=size)[0].T  # (patches, numbers)
        chosen = torch.stack([torch.randint(count, (count,), generator=generator_of(draw)) for draw in draws])
        return F.fold(cells[chosen.to(cells.device)].transpose(1, 2), (height, width), size, stride=size).to(pixels)

    def ask(filler: Callable[[Sequence[int]], Tensor]) -> _Ask:
        def logits(replaced: Tensor, draws: Sequence[int]) -> Tensor:
            hidden = F.interpolate(replaced.to(pixels).unflatten(1, grid)[:, None], size=(height, width), mode="nearest") > 0.5
            filled = torch.where(hidden, filler(draws), pixels)
            return answer(model, {**repeat_sample(model, tensors, len(replaced)), "pixel_values": filled})

        return _in_batches(logits, count)

    fixed = {
        "mean colour": ("the mean colour", torch.zeros_like(pixels)),
        **({} if "sound_rate" in model.details else {"black": ("black", black_picture(model, tensors))}),
        "blur": ("the picture blurred", _blurred(pixels)),
    }
    fillings = [Filling(name, words, False, ask(_constant(still))) for name, (words, still) in fixed.items()]
    fillings.append(Filling("noise", "noise of the picture's colours", True, ask(noise)))
    if height % rows == 0 and width % columns == 0:
        fillings.append(Filling("other patches", "other patches of the picture", True, ask(others)))
    return InputFillings(count, tuple(fillings))


def _constant(filler: Tensor) -> Callable[[Sequence[int]], Tensor]:
    """Return a function that gives this ``filler``, a batch of one, for any draws."""
    return lambda draws: filler


def _blurred(pixels: Tensor) -> Tensor:
    """Return ``pixels`` (1, C, height, width) blurred by a Gaussian, the picture continued by its border."""
    spread = BLUR_SHARE * min(pixels.shape[-2:])
    reach = max(1, round(2 * spread))
    weights = torch.exp(-(torch.arange(-reach, reach + 1, dtype=torch.float32) ** 2) / (2 * spread**2))
    kernel = (weights / weights.sum()).to(pixels.device)
    padded = F.pad(pixels.float(), (reach, reach, reach, reach), mode="replicate")
    each = padded.transpose(0, 1)  # channels are blurred one by one
    return F.conv2d(F.conv2d(each, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1)).transpose(0, 1).to(pixels)


def word_fillings(model: Model, tensors: Mapping[str, Tensor], content: Tensor) -> InputFillings:
    """Return the fillings of the word pieces of a text, marked in ``content`` bool (S,): nothing (the text closes up), the mask token, the
    token of unknown words, other pieces of the text, and pieces of the model's vocabulary, drawn at random.

    Nothing is no filling where the model is asked about a place that would move, nor is a token that the tokenizer does not have.
    """
    ids, count = tensors["input_ids"], int(content.sum())
    pieces = ids[0].cpu()[content]

    def removed(replaced: Tensor, draws: Sequence[int]) -> Tensor:
        return removal.logits(~replaced)

    def put(drawn: Callable[[Sequence[int]], Tensor]) -> _Ask:
        def logits(replaced: Tensor, draws: Sequence[int]) -> Tensor:
            filled = ids.repeat(len(replaced), 1)
            filled[:, content.to(ids.device)] = torch.where(replaced, drawn(draws), pieces).to(ids)
            return answer(model, {**repeat_sample(model, tensors, len(replaced)), "input_ids": filled})

        return _in_batches(logits, len(content))

    def others(draws: Sequence[int]) -> Tensor:
        return torch.stack([pieces[torch.randint(count, (count,), generator=generator_of(draw))] for draw in draws])

    fillings = []
    if usual_way_of_words(model) == "removed":
        removal = word_removal(model, tensors, content)
        fillings.append(Filling("nothing", "nothing", False, removed))
    for name, words, key in (("mask", "the mask token", "mask_token_id"), ("unknown", "the unknown token", "unknown_token_id")):
        if (token := model.details.get(key)) is not None:
            fillings.append(Filling(name, words, False, put(_constant(torch.full((1, count), token)))))
    fillings.append(Filling("other words", "other words of the text", True, put(others)))
    vocabulary = _ordinary_ids(model, ids[0].cpu()[~content])
    if len(vocabulary):

        def any_words(draws: Sequence[int]) -> Tensor:
            chosen = [torch.randint(len(vocabulary), (count,), generator=generator_of(draw)) for draw in draws]
            return vocabulary[torch.stack(chosen)]

        fillings.append(Filling("any words", "words drawn from the vocabulary", True, put(any_words)))
    return InputFillings(count, tuple(fillings))


def _ordinary_ids(model: Model, special: Tensor) -> Tensor:
    """Return the ids of the vocabulary of ``model`` (V,) without the special tokens of its tokenizer and of the text, ``special``; none if
    its module does not say which table it looks words up in.
    """
    find = getattr(model.module, "get_input_embeddings", None)
    weight = getattr(find() if callable(find) else None, "weight", None)
    if not isinstance(weight, Tensor):
        return torch.empty(0, dtype=torch.long)
    ordinary = torch.ones(len(weight), dtype=torch.bool)
    ordinary[special] = False
    known = [model.details.get(name) for name in ("mask_token_id", "padding_token_id", "unknown_token_id")]
    ordinary[[token for token in known if token is not None]] = False
    return torch.nonzero(ordinary).flatten()


def atom_fillings(model: Model, tensors: Mapping[str, Tensor], content: Tensor) -> InputFillings:
    """Return the fillings of the atoms of a molecule, marked in ``content`` bool (S,) among its tokens: nothing (no attention is paid to
    them), zeros, the mean of its atoms, other atoms of it, and noise of the mean and spread of its atoms.

    All but the first replace embedded tokens; bonds and distances stay. Nothing is no filling for a model that takes no mask.
    """
    count = int(content.sum())

    def removed(replaced: Tensor, draws: Sequence[int]) -> Tensor:
        return removal.logits(~replaced)

    def put(filler: Callable[[Tensor, Sequence[int]], Tensor]) -> _Ask:
        """``filler`` makes of the embedded atoms (N, D) those that stand in their place, (K, N, D)."""

        def logits(replaced: Tensor, draws: Sequence[int]) -> Tensor:
            def change(tokens: Tensor) -> Tensor:
                atoms = tokens[:, content.to(tokens.device)]
                filled = tokens.clone()
                hidden = replaced.to(tokens.device)[..., None]
                filled[:, content.to(tokens.device)] = torch.where(hidden, filler(atoms[0], draws), atoms)
                return filled

            return answer(model, repeat_sample(model, tensors, len(replaced)), [(model.entry, first_time(model, change))])

        return _in_batches(logits, len(content))

    def others(atoms: Tensor, draws: Sequence[int]) -> Tensor:
        chosen = torch.stack([torch.randint(count, (count,), generator=generator_of(draw)) for draw in draws])
        return atoms[chosen.to(atoms.device)]

    def noise(atoms: Tensor, draws: Sequence[int]) -> Tensor:
        drawn = torch.stack([torch.randn(atoms.shape, generator=generator_of(draw)) for draw in draws])
        return atoms.mean(0) + atoms.std(0, correction=0) * drawn.to(atoms)

    fillings = []
    if "attention_mask" in tensors:
        removal = atom_removal(model, tensors, content, "removed")
        fillings.append(Filling("nothing", "nothing", False, removed))
    fillings += [
        Filling("zeros", "zeros", False, put(lambda atoms, draws: torch.zeros_like(atoms)[None])),
        Filling("mean atom", "the mean of the atoms", False, put(lambda atoms, draws: atoms.mean(0).expand(1, *atoms.shape))),
        Filling("other atoms", "other atoms of the molecule", True, put(others)),
        Filling("noise", "noise of the mean and spread of the atoms", True, put(noise)),
    ]
    return InputFillings(count, tuple(fillings))


def _in_batches(ask: _Ask, length: int) -> _Ask:
    """Return a function that asks ``ask`` for few rows at once, inputs of ``length`` tokens, and returns float32 on the CPU."""
    at_once = max(1, min(_ROWS, TOKENS // max(1, length)))

    def logits(replaced: Tensor, draws: Sequence[int]) -> Tensor:
        def part(first: int, number: int) -> Tensor:
            return ask(replaced[first : first + number], draws[first : first + number]).float().cpu()

        return torch.cat(list(Passes(at_once).run(len(replaced), part)))

    return logits
