"""The places in the picture that tokens come from, found by adding noise to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from explainers.models.outputs import Forward
from explainers.models.structure.blocks import Structure
from explainers.models.structure.footprints import LayerCount
from explainers.models.structure.watching import embed

#: How strong the noise is by which patches are told apart: as weak as rounding lets it be, as layers that are not linear bend it.
_NOISE = 0.002
#: What may lie elsewhere of what a token is made of, for its place to be known exactly: rounding alone, where patches do not overlap.
_ROUNDING = 1e-3
#: Beyond how much of it nothing is known of the place of a token.
_NO_PLACE = 0.5
#: How far apart tokens may seem, relative to where they are drawn, for anything to be known of their places: at least and at most.
_APART = 0.3, 1.25
#: How far tokens may lie from where they are drawn (squared, in deviations of all of them), and how many times better another order is.
_FAR, _BETTER = 0.25, 10
#: Beyond this, tokens lie nearly as far as those of an order by chance do (2), which says enough where most of each is of one place.
_AS_BY_CHANCE, _LOCAL = 1, 0.35
#: How strongly the places that two noises give must correlate, mean of rows and columns, for tokens to be called out of order.
_SEEN_AGAIN = 0.9
#: How much of a token may lie elsewhere, in patches, if it lies near where it is drawn.
_NEAR = 1.5
#: How many patches at least single tokens lie from where they are drawn, to be out of order, and how much of them may lie elsewhere.
_ONE_PATCH, _CLEAR = 0.9, 0.03
#: Up to how many patches from a place a token lies there.
_IN_PLACE = 0.1
#: How much less of each column than of each row must come from elsewhere for the columns to be the patches, and the rows channels.
_OF_ROWS = 0.6
#: In how many steps, down and across, noise grows where the grid of patches is not known.
_SOME_GRID = 16, 16


@dataclass(frozen=True)
class Places:
    """Where in the picture patches come from.

    places      (N, 2), row and column in the grid of patches
    spread      (N, 2), how widely each reads along rows and columns, in shares of the picture: 0 if it comes from one row or column of
                patches alone, infinite if it comes from none
    channels    (D,), the wider of both for each of their channels, of all patches together
    few_layers  whether so few linear layers make the tokens that they cannot have brought the whole picture together bit by bit
    """

    places: Tensor
    spread: Tensor
    channels: Tensor
    few_layers: bool

    @property
    def rest(self) -> Tensor:
        """The share of each patch (N,) that comes from elsewhere: 0 if it comes from one patch of the picture alone."""
        return self.spread.amax(-1)

    def are_shifted(self, grid: tuple[int, int]) -> bool:
        """Return whether most of the patches, of a ``grid``, lie by the same part of a patch beside where they are drawn."""
        beside = self.places - _drawn_at(grid)
        shift = beside.nanmedian(0).values
        is_alike = float((beside - shift).abs().amax(1).nanmedian()) < _IN_PLACE
        return is_alike and 2 * _IN_PLACE < float(shift.abs().amax()) < _ONE_PATCH

    @property
    def are_channels(self) -> bool:
        """Return whether the patches are in truth channels: each is of the whole picture, and what is taken for channels is of places."""
        rows, columns = (each[each.isfinite()] for each in (self.rest, self.channels))
        return bool(len(rows) and len(columns)) and bool(columns.median() < _OF_ROWS * rows.median())


def patch_places(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], place: slice, grid: tuple[int, int], seed: int = 0
) -> Places:
    """Find where in the picture the patches at ``place`` of the embedded tokens x^1 come from, by row and column in the ``grid``.

    ``run`` returns the logits of ``module``, whose blocks are in ``structure``, for ``tensors``, a picture. Noise, drawn by ``seed``, is
    added to the picture: first equally strong everywhere, then stronger towards the bottom, then towards the right. How much a token
    changes shows how strong the noise was where it comes from.
    """
    pixels = tensors["pixel_values"][:1]
    height, width = pixels.shape[-2:]
    generator = torch.Generator().manual_seed(1 + seed)  # 0 drew the sample picture: noise like that may change its contrast alone
    noise = torch.randn(pixels.shape, generator=generator).to(pixels) * _NOISE * (300 if pixels.dtype.itemsize < 4 else 1)
    down, across = (
        1 + (torch.arange(side, device=pixels.device) * count // side).to(pixels) / count
        for side, count in zip((height, width), grid, strict=True)
    )
    images = torch.cat([pixels, pixels + noise, pixels + noise * down[:, None], pixels + noise * across])
    with LayerCount() as count:
        x = embed(module, structure, run, {**tensors, "pixel_values": images})[:, place].double()
    change = x[1:] - x[0]
    strength, spread = _strengths(change)
    places = (strength - 1) * torch.tensor(grid, device=x.device)
    return Places(places.cpu(), spread.cpu(), _strengths(change.mT)[1].amax(-1).cpu(), count.is_few)


def are_channels(module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether the second axis of the embedded tokens x^1, the one of tokens elsewhere, is of channels, and the third of places.
    ``run`` returns the logits of ``module``, whose blocks are in ``structure``, for ``tensors``, a picture.
    """
    return patch_places(module, structure, run, tensors, slice(None), _SOME_GRID).are_channels


def _strengths(change: Tensor) -> tuple[Tensor, Tensor]:
    """Return how strong the noise was where each of N rows comes from, for each kind of noise, (N, kinds); and the share of each row that
    no one strength explains, in the same shape. ``change`` (1 + kinds, N, D) has the change of each row by noise that is equally strong
    everywhere, then by each kind.
    """
    plain, *coded = change
    tiny = torch.finfo(torch.float64).tiny
    size = plain.square().sum(-1).clamp_min(tiny)
    strength = torch.stack([(plain * each).sum(-1) / size for each in coded], -1)
    rest = torch.stack([(each - strength[:, i : i + 1] * plain).square().sum(-1) for i, each in enumerate(coded)], -1)
    return strength, (rest / size[:, None]).sqrt().where(plain.square().sum(-1, keepdim=True) > 0, torch.inf)


def _drawn_at(grid: tuple[int, int]) -> Tensor:
    """Return the row and column at which each patch of a ``grid`` is drawn: (N, 2)."""
    rows, columns = grid
    return torch.stack([torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)], -1).double()


def are_in_order(places: Tensor, rest: Tensor, grid: tuple[int, int]) -> bool:
    """Return whether patches of a ``grid`` lie row by row in the order of the picture, from their ``places`` (N, 2) and the ``rest`` (N,)
    that :func:`patch_places` returns.

    If layers before the embedded tokens mix patches, the places are only approximate: then tokens are out of order if another order fits
    far better, for all tokens or for those that it moves. If the places say next to nothing, as after many layers with random weights, True
    is returned.
    """
    expected = _drawn_at(grid)
    if not bool(torch.isfinite(places).all()) or len(places) != len(expected) or len(expected) < 2:
        return True
    known = rest < _NO_PLACE  # a class token among them has no place, nor has a patch that the model does not read
    if bool(known.double().mean() < 0.5):
        return True
    if bool((rest[known] < _ROUNDING).all()):
        return bool(((places - expected)[known].abs() < 0.5).all())
    axes = [axis for axis, count in enumerate(grid) if count > 1]
    places, expected, rest = places[known], expected[known], rest[known]
    apart = places[:, axes].std(0) / expected[:, axes].std(0)
    if bool(((apart < _APART[0]) | (apart > _APART[1])).any()):
        return True
    from scipy.optimize import linear_sum_assignment  # slow to import

    seen, drawn = ((each[:, axes] - each[:, axes].mean(0)) / each[:, axes].std(0) for each in (places, expected))
    distances = torch.cdist(seen, drawn).square()
    order = torch.from_numpy(linear_sum_assignment(distances.numpy())[1])
    to_own_place, to_another = distances.diagonal(), distances.gather(1, order[:, None])[:, 0]
    moved = order != torch.arange(len(order))
    is_better = bool(to_another.mean() * _BETTER < to_own_place.mean()) or bool((rest < _CLEAR).all())
    if bool(to_own_place.mean() > _FAR) and (is_better or bool(to_own_place.mean() > _AS_BY_CHANCE and rest.median() < _LOCAL)):
        return False
    moved &= rest < _CLEAR
    is_far = ((places - expected)[:, axes].abs().amax(1) > _ONE_PATCH) & moved
    return not (bool(is_far.any()) and bool(to_another[moved].mean() * _BETTER < to_own_place[moved].mean()))


#: Whether patches lie row by row in the order of the picture: exactly where they are drawn, near it, or so that more is not known. What is
#: taken for patches may be channels.
Order = Literal["channels", "out of order", "in place", "near", "in order"]


def order_of(
    module: nn.Module, structure: Structure, run: Forward, tensors: Mapping[str, Tensor], place: slice, grid: tuple[int, int]
) -> tuple[Order, Places]:
    """Find whether the patches at ``place`` of the embedded tokens x^1 lie row by row over the ``grid`` of the picture in ``tensors``, for
    ``module`` with the blocks in ``structure``, whose logits ``run`` returns; see :func:`are_in_order`. Those that are made of little else
    than one or two patches of the picture are near their places. Also return what was seen of these.

    If they seem to be out of order, the places are measured again with other noise: they are out of order only if both measurements agree,
    which they do not after many layers of random weights.
    """

    def look(seed: int) -> Places:
        return patch_places(module, structure, run, tensors, place, grid, seed)

    first = look(0)
    if first.are_channels:
        return "channels", first
    nearly: Order = "near" if bool(first.rest.median() * max(grid) < _NEAR) else "in order"
    if are_in_order(first.places, first.rest, grid):
        known = first.rest < _NO_PLACE
        is_exact = bool(known.any()) and bool((first.rest[known] < _ROUNDING).all())
        return ("in place" if is_exact else nearly), first
    second = look(1)
    known = (first.rest < _NO_PLACE) & (second.rest < _NO_PLACE)
    axes = [axis for axis, count in enumerate(grid) if count > 1]
    seen_again = torch.stack([torch.corrcoef(torch.stack([first.places[known, axis], second.places[known, axis]]))[0, 1] for axis in axes])
    is_out = bool(seen_again.mean() >= _SEEN_AGAIN) and not are_in_order(second.places, second.rest, grid)
    return ("out of order" if is_out else nearly), first
