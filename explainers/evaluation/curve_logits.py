"""The answers of a model along every curve that metrics take, for all methods of one input together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from explainers.metrics.registry import RemovalCurve
from explainers.metrics.removal_curves import keep_masks
from explainers.models.model import Model
from explainers.models.passes import Passes
from explainers.models.removal.atoms import atom_removal
from explainers.models.removal.imputation import imputation_noise, impute_pixels
from explainers.models.removal.patches import black_picture, blacken_parts, patch_removal
from explainers.models.removal.token_removal import answer, repeat_sample
from explainers.models.removal.ways import OF_ATOMS, How
from explainers.models.removal.words import usual_way_of_words, word_removal
from explainers.models.superpixels import find_superpixels, sum_over_superpixels
from explainers.records.session import checker

_MAX_PICTURES_AT_ONCE = 16  # most whole pictures in one forward pass
_ROUNDING_TOLERANCE = 1e-9  # tolerance, so that 0.3 * 10 tokens are 3, not 2


def counts_of(curve: RemovalCurve, tokens: int, least: int = 0) -> list[int]:
    """Return, for each step of a curve, the number of tokens that it removes (or keeps, if it keeps the first ones) out of this number of
    ``tokens``; at least ``least`` are kept.
    """
    number = math.floor if curve.rounding == "down" else math.ceil
    sign = 1 if curve.rounding == "down" else -1
    low, high = (least, tokens) if curve.keeps_first else (0, tokens - least)
    return [max(low, min(high, number(fraction * tokens + sign * _ROUNDING_TOLERANCE))) for fraction in curve.fractions]


def keep_of(curve: RemovalCurve, scores: Tensor, least: int = 0) -> Tensor:
    """Return the tokens that are kept at each step of a curve, bool (M, steps, N), from scores (M, N): at least ``least`` tokens.

    Of equal scores the earlier token comes first.
    """
    values = scores.abs() if curve.order == "smallest" else scores
    order = values.argsort(dim=-1, descending=curve.order == "most", stable=True)
    is_after_first = keep_masks(order, counts_of(curve, scores.shape[1], least))  # the tokens that are not among the first
    return ~is_after_first if curve.keeps_first else is_after_first


def usual_removal(model: Model, tensors: Mapping[str, Tensor]) -> How:
    """Return the default way of removing tokens from the input ``tensors``, a batch of one, of ``model``, such as "removed" or
    "painted".
    """
    grid = model.layout_of(tensors).grid
    if grid is not None:
        return patch_removal(model, tensors, grid).how
    if model.kind == "molecule":
        return "removed" if "attention_mask" in tensors else "zeroed"
    return usual_way_of_words(model)


def scores_of_superpixels(maps: Tensor, superpixels: Tensor) -> Tensor:
    """Return the scores (M, K) of K superpixels, int64 (height, width), by ``maps`` (M, rows, columns) of patches: the score of a patch is
    spread evenly over its pixels, and a superpixel has the sum over its own, so that scores still add up to what those of the patches do.
    """
    rows, columns = maps.shape[1:]
    height, width = superpixels.shape
    large = F.interpolate(maps.double()[:, None], size=(height, width), mode="nearest-exact")[:, 0]
    return sum_over_superpixels(large * (rows * columns / (height * width)), superpixels)


class CurveLogits:
    """A source of the logits of one input with parts of it removed.

    tensors     the input as the model was given it, a batch of one
    grid        (rows, columns) of the patches of an image; None for a text
    content     bool (S,): which tokens are patches or word pieces
    how         way of removal for curves that name none; None: the model's default
    at_once     maximum number of tokens in one forward pass; None: as many as the device can hold
    cancelled   called before each forward pass; when true, :class:`explainers.Cancelled` is raised
    """

    def __init__(
        self,
        model: Model,
        tensors: Mapping[str, Tensor],
        grid: tuple[int, int] | None,
        content: Tensor,
        how: How | None,
        cancelled: Callable[[], bool] | None = None,
        at_once: int | None = None,
    ) -> None:
        self.model, self.tensors, self.grid, self.content, self.how = model, tensors, grid, content, how
        self.at_once = at_once
        self._check = checker(cancelled)

    def along(self, curves: Sequence[RemovalCurve], scores: Tensor) -> list[Tensor]:
        """Return the logits (M, steps, C) along each curve, for scores (M, N) of M methods.

        An input that several curves or methods share goes through the model once.
        """
        logits: dict[int, Tensor] = {}
        numbers_by_way: dict[How | None, list[int]] = {}
        for number, curve in enumerate(curves):
            if curve.pixels:
                logits[number] = self._pixel_logits(curve, scores)
            else:
                numbers_by_way.setdefault(curve.how or self.how, []).append(number)
        for how, numbers in numbers_by_way.items():
            least, ask = self._removal(how)
            keeps = [keep_of(curves[number], scores, least) for number in numbers]
            answers = ask(torch.cat([keep.flatten(0, 1) for keep in keeps]))
            for number, keep, part in zip(numbers, keeps, answers.split([keep.shape[0] * keep.shape[1] for keep in keeps]), strict=True):
                logits[number] = part.unflatten(0, keep.shape[:2])
        return [logits[number] for number in range(len(curves))]

    def without_each(self) -> Tensor:
        """Return the logits (N + 1, C) of the whole input, followed by those without each of its patches or word pieces alone."""
        return self.without(torch.eye(int(self.content.sum()), dtype=torch.bool))

    def without(self, removed: Tensor) -> Tensor:
        """Return the logits (K + 1, C) of the whole input, followed by those without each of K sets of its patches or word pieces,
        ``removed`` bool (K, N). A set of all tokens leaves out as many as the model can do without, the last ones staying.
        """
        least, ask = self._removal(self.how)
        kept = ~removed
        if least:
            kept[:, -least:] |= ~kept.any(1, keepdim=True)
        return ask(torch.cat([torch.ones_like(kept[:1]), kept]))

    def _removal(self, how: How | None) -> tuple[int, Callable[[Tensor], Tensor]]:
        """Return how many tokens must stay, and a function from masks of the kept tokens, bool (K, N), to logits (K, C)."""
        if self.grid is not None:
            removal = patch_removal(self.model, self.tensors, self.grid, how, self.at_once)
        elif self.model.kind == "molecule":
            # there are no unknown atoms: what makes a word unknown hides an atom
            removal = atom_removal(self.model, self.tensors, self.content, how if how in OF_ATOMS else None, self.at_once)
        else:
            removal = word_removal(self.model, self.tensors, self.content, how or usual_way_of_words(self.model), self.at_once)
        return removal.least, lambda keep: removal.logits(keep, lambda *_: self._check())

    def _pixel_logits(self, curve: RemovalCurve, scores: Tensor) -> Tensor:
        """Return the logits (M, steps, C) at each step of ``curve``, which turns single pixels black, or imputes them, in the order of the
        maps ``scores`` (M, N) after bilinear enlarging; or turns superpixels black.
        """
        assert self.grid is not None
        height, width = self.tensors["pixel_values"].shape[-2:]
        if curve.superpixels:
            superpixels = find_superpixels(self.tensors["pixel_values"][0], curve.superpixels)
            keeps = keep_of(curve, scores_of_superpixels(scores.unflatten(1, self.grid), superpixels))
            return torch.stack([self._logits_with_black(keep[:, superpixels]) for keep in keeps])
        large = F.interpolate(scores.double().unflatten(1, self.grid)[:, None], size=(height, width), mode="bilinear", align_corners=False)
        ask = self._logits_with_imputed if curve.imputed else self._logits_with_black
        steps = [ask(keep_of(curve, row[None])[0].unflatten(1, (height, width))) for row in large.flatten(1)]
        return torch.stack(steps)

    def _pictures(self) -> int:
        """Return how many whole pictures go through one forward pass."""
        return _MAX_PICTURES_AT_ONCE if self.at_once is None else max(1, min(_MAX_PICTURES_AT_ONCE, self.at_once // len(self.content)))

    def _logits_with_black(self, keep: Tensor) -> Tensor:
        """Return the logits (K, C) of the picture with black where ``keep``, bool (K, rows, columns) of pixels, is False."""
        black = black_picture(self.model, self.tensors)
        return self._logits_with_pixels(keep, lambda pixels, kept: blacken_parts(pixels, kept, black))

    def _logits_with_imputed(self, keep: Tensor) -> Tensor:
        """Return the logits (K, C) of the picture with pixels imputed where ``keep``, bool (K, rows, columns) of pixels, is False."""
        noise = imputation_noise(self.tensors["pixel_values"].shape[-3:])

        def impute(pixels: Tensor, kept: Tensor) -> Tensor:
            return torch.stack([impute_pixels(picture.cpu(), is_kept, noise) for picture, is_kept in zip(pixels, kept, strict=True)]).to(
                pixels
            )

        return self._logits_with_pixels(keep, impute)

    def _logits_with_pixels(self, keep: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return the logits (K, C) of the picture as ``change`` makes it from K copies of its pixels and a part of ``keep``, bool (K, rows,
        columns).
        """

        def ask(first: int, number: int) -> Tensor:
            self._check()
            repeated = repeat_sample(self.model, self.tensors, number)
            pixels = change(repeated["pixel_values"], keep[first : first + number])
            return answer(self.model, {**repeated, "pixel_values": pixels}).float().cpu()

        return torch.cat(list(Passes(self._pictures()).run(len(keep), ask)))
