"""Replace parts of one input by something else, in several ways: what a claim about these parts must hold under.

A model may answer to what stands in the place of a part, not to its absence; each filling errs in its own way. Some are fixed, others are
drawn at random, and a draw is known by its number: the same number gives the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.inputs.types import ImageInput, TextInput
from explainers.models.model import Model
from explainers.models.passes import Passes, rows_per_pass
from explainers.models.removal.atoms import atom_removal
from explainers.models.removal.patches import black_picture, first_time
from explainers.models.removal.token_removal import TOKENS, answer, repeat_sample
from explainers.models.removal.words import usual_way_of_words, word_removal

_ROWS = 64  # inputs in one pass, at most
#: The part of a picture's shorter side that is the standard deviation of the Gaussian by which it is blurred.
BLUR_SHARE = 1 / 8
#: Returns the logits (K, C) of K copies of the input: in each its own tokens are replaced, bool (K, N), by its own draw, ints (K,).
_Ask = Callable[[Tensor, Sequence[int]], Tensor]
#: Returns K copies of the input itself, filled in the same way: pixels (K, 3, height, width) or ids (K, S).
_Fill = Callable[[Tensor, Sequence[int]], Tensor]


def _nothing(rows: int) -> None:
    """Do nothing: the default callback before a pass."""


@dataclass(frozen=True)
class FillingRequest:
    """A question to a model: the answers to K copies of the input whose tokens, bool (K, N), are replaced by the filling of this index,
    with the random numbers of ``draws`` (K,).
    """

    filling: int
    replaced: Tensor
    draws: Sequence[int]


@dataclass(frozen=True)
class Filling:
    """One way to replace parts of an input.

    name      as results say it
    words     what then stands in their place
    is_drawn  whether it depends on random numbers; another is the same in every draw
    fill      function that makes filled inputs, which may share a pass with those of other fillings; None: the filling asks by itself
    """

    name: str
    words: str
    is_drawn: bool
    _ask: _Ask
    fill: _Fill | None = None

    def logits(self, replaced: Tensor, draws: Sequence[int]) -> Tensor:
        """Return the logits (K, C), float32 on the CPU, of K copies of the input, in each of which the tokens of a row of ``replaced`` bool
        (K, N) are replaced; ``draws`` (K,) numbers the random numbers of each.
        """
        return self._ask(replaced, draws)


@dataclass(frozen=True)
class InputFillings:
    """The fillings that a model and one input allow, and the number N of tokens that can be replaced.

    rows  the most inputs in one pass of :meth:`logits`
    """

    tokens: int
    fillings: tuple[Filling, ...]
    _answer: Callable[[Tensor], Tensor] | None = None  # from filled inputs (K, ...) to logits (K, C)
    rows: int = _ROWS

    def logits(self, requests: Sequence[FillingRequest], before_pass: Callable[[int], None] = _nothing) -> list[Tensor]:
        """Return the logits (K, C) of each of ``requests``, float32 on the CPU. What several of them fill goes through the model together,
        in passes that are as full as may be. ``before_pass`` is called with the number of inputs that come next.
        """
        answers: list[Tensor | None] = [None] * len(requests)
        joined: list[int] = []
        for i, request in enumerate(requests):
            filling = self.fillings[request.filling]
            if self._answer is None or filling.fill is None:
                before_pass(len(request.draws))
                answers[i] = filling.logits(request.replaced, request.draws)
            else:
                joined.append(i)
        if joined:
            places = [(i, row) for i in joined for row in range(len(requests[i].draws))]
            parts = self._joined(requests, places, before_pass).split([len(requests[i].draws) for i in joined])
            for i, part in zip(joined, parts, strict=True):
                answers[i] = part
        return [each for each in answers if each is not None]

    def _joined(self, requests: Sequence[FillingRequest], places: Sequence[tuple[int, int]], before_pass: Callable[[int], None]) -> Tensor:
        """Return the logits of rows of ``requests``, ``places`` as (request, row), whose fillings all make filled inputs."""
        assert self._answer is not None
        answer_filled = self._answer

        def ask(first: int, number: int) -> Tensor:
            before_pass(number)
            filled = []
            for i, group in groupby(places[first : first + number], key=lambda place: place[0]):
                rows = [row for _, row in group]
                fill = self.fillings[requests[i].filling].fill
                assert fill is not None
                filled.append(fill(requests[i].replaced[rows], [requests[i].draws[row] for row in rows]))
            return answer_filled(torch.cat(filled)).float().cpu()

        return torch.cat(list(Passes(self.rows).run(len(places), ask)))


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

    at_once = _rows_at_once(model, count)

    def answer_filled(filled: Tensor) -> Tensor:
        return answer(model, {**repeat_sample(model, tensors, len(filled)), "pixel_values": filled})

    def put(name: str, words: str, is_drawn: bool, filler: Callable[[Sequence[int]], Tensor]) -> Filling:
        def fill(replaced: Tensor, draws: Sequence[int]) -> Tensor:
            hidden = F.interpolate(replaced.to(pixels).unflatten(1, grid)[:, None], size=(height, width), mode="nearest") > 0.5
            return torch.where(hidden, filler(draws), pixels)

        return _filling(name, words, is_drawn, fill, answer_filled, at_once)

    fixed = {
        "mean colour": ("the mean colour", torch.zeros_like(pixels)),
        **({} if "sound_rate" in model.details else {"black": ("black", black_picture(model, tensors))}),
        "blur": ("the picture blurred", _blurred(pixels)),
    }
    fillings = [put(name, words, False, _constant(still)) for name, (words, still) in fixed.items()]
    fillings.append(put("noise", "noise of the picture's colours", True, noise))
    if height % rows == 0 and width % columns == 0:
        fillings.append(put("other patches", "other patches of the picture", True, others))
    return InputFillings(count, tuple(fillings), answer_filled, at_once)


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

    at_once = _rows_at_once(model, len(content))

    def answer_filled(filled: Tensor) -> Tensor:
        return answer(model, {**repeat_sample(model, tensors, len(filled)), "input_ids": filled})

    def put(name: str, words: str, is_drawn: bool, filler: Callable[[Sequence[int]], Tensor]) -> Filling:
        def fill(replaced: Tensor, draws: Sequence[int]) -> Tensor:
            filled = ids.repeat(len(replaced), 1)
            filled[:, content.to(ids.device)] = torch.where(replaced, filler(draws), pieces).to(ids)
            return filled

        return _filling(name, words, is_drawn, fill, answer_filled, at_once)

    def others(draws: Sequence[int]) -> Tensor:
        return torch.stack([pieces[torch.randint(count, (count,), generator=generator_of(draw))] for draw in draws])

    fillings = []
    if usual_way_of_words(model) == "removed":
        removal = word_removal(model, tensors, content)
        fillings.append(Filling("nothing", "nothing", False, removed))
    for name, words, key in (("mask", "the mask token", "mask_token_id"), ("unknown", "the unknown token", "unknown_token_id")):
        if (token := model.details.get(key)) is not None:
            fillings.append(put(name, words, False, _constant(torch.full((1, count), token))))
    fillings.append(put("other words", "other words of the text", True, others))
    vocabulary = _ordinary_ids(model, ids[0].cpu()[~content])
    if len(vocabulary):

        def any_words(draws: Sequence[int]) -> Tensor:
            chosen = [torch.randint(len(vocabulary), (count,), generator=generator_of(draw)) for draw in draws]
            return vocabulary[torch.stack(chosen)]

        fillings.append(put("any words", "words drawn from the vocabulary", True, any_words))
    return InputFillings(count, tuple(fillings), answer_filled, at_once)


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

        return _in_batches(logits, _rows_at_once(model, len(content)))

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


def _filling(name: str, words: str, is_drawn: bool, fill: _Fill, answer_filled: Callable[[Tensor], Tensor], at_once: int) -> Filling:
    """Return the filling that makes filled inputs by ``fill``, and asks ``answer_filled`` for the logits of ``at_once`` in a pass."""
    return Filling(name, words, is_drawn, _in_batches(lambda replaced, draws: answer_filled(fill(replaced, draws)), at_once), fill)


def _rows_at_once(model: Model, length: int) -> int:
    """Return how many inputs of ``length`` tokens go through ``model`` in one pass: a CPU is full with few tokens, a GPU with many rows."""
    return rows_per_pass(model.device, max(1, min(_ROWS, TOKENS // max(1, length))))


def _in_batches(ask: _Ask, at_once: int) -> _Ask:
    """Return a function that asks ``ask`` for ``at_once`` rows at most, and returns float32 on the CPU."""

    def logits(replaced: Tensor, draws: Sequence[int]) -> Tensor:
        def part(first: int, number: int) -> Tensor:
            return ask(replaced[first : first + number], draws[first : first + number]).float().cpu()

        return torch.cat(list(Passes(at_once).run(len(replaced), part)))

    return logits
