"""FIxLIP: interactions of words and patches that are fitted to what the model answers for coalitions of them.

Baniecki et al., NeurIPS 2025, arXiv 2508.05430; the regression is in :mod:`explainers.analysis.interactions.coalitions`. A patch that is
out has pixels of 0 in the normalised picture; a word that is out is masked, and its place stays. The number is the cosine less that of
nothing shown. Patches are hidden together in a grid that is halved, and pairs are those of a word and such a part: pairs inside of either
side are left out of the regression, as the paper allows, unless ``pairs="all"``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.analysis.interactions.coalitions import (
    Fit,
    Variant,
    draw_coalitions,
    fit_interactions,
    products,
    split_budget,
)
from explainers.analysis.interactions.inputs import Encoded, encode
from explainers.analysis.interactions.measures import insertion_and_deletion, r_squared, rank_agreement
from explainers.analysis.interactions.paired_inputs import PairedInputs
from explainers.analysis.interactions.pairs import Interaction
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, describe
from explainers.models.encoders import encoder
from explainers.models.eval_mode import answering
from explainers.models.grids import halve_grid
from explainers.models.model import Model
from explainers.models.passes import answers_of_rows
from explainers.models.removal.patches import paint_patches
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.session import Check, check_seed, checker
from explainers.self_check.opening import model_of

FIXLIP = Citation(
    authors="Baniecki et al.",
    year=2025,
    title="Explaining Similarity in Vision-Language Encoders with Weighted Banzhaf Interactions",
    venue="NeurIPS",
    arxiv="2508.05430",
)
BUDGET, PARTS = 4096, 49
MOST_BUDGET = 32_768  # coalitions: the design of the regression is held whole
HELD_OUT_COALITIONS = 128  # coalitions that a fit is held against
AT_ONCE = 32  # inputs in one forward pass
#: Share of the variance of other coalitions that a fit must explain to count as predicting them.
MIN_R_SQUARED = 0.5


Progress = Callable[[int, int], None]
#: Which pairs of players have a term.
PairsOf = Literal["across", "all"]


@dataclass(frozen=True, eq=False, kw_only=True)
class FaithfulInteraction(PairedInputs):
    """The interaction of words and patches, fitted to answers for coalitions of them.

    variant       "banzhaf" or "shapley": how coalitions are drawn and weighted
    p             share of the units that a coalition keeps, on average
    budget        maximum number of coalitions that the fit uses
    parts         number of parts into which the picture is divided, which are hidden as one
    empty         the cosine when nothing is shown; ``constant`` is the fit's term for it, which may differ
    coalitions    numbers of prompts and of pictures with parts left out that were encoded
    faithfulness  R² of the fit on coalitions that it was not fitted to
    maps          e_i + p sum_j e_ij
    order         1: words and parts alone, whose pairs are 0; 2: with pairs
    within        float32 (words, words) and (parts, parts), symmetric: pairs inside of either side; None if they were not fitted
    first_order   float32 (units,) of each side: e_i. Patches that are hidden together share their term in equal parts
    """

    variant: Variant
    p: float
    budget: int
    parts: int
    empty: Annotated[float, describe("The cosine when nothing is shown.")]
    constant: Annotated[float, describe("It is added to the terms of every coalition; the fit need not meet ``empty``.")]
    first_order: Annotated[tuple[Tensor, Tensor], describe("What each word, and each patch, adds on its own.", kind=list[list[float]])]
    coalitions: Annotated[
        tuple[int, int], describe("How many prompts and how many pictures with parts left out were asked.", kind=list[int])
    ]
    faithfulness: Annotated[float, describe("The share of the variance of coalitions outside of the fit that the terms predict (R²).")]
    order: Annotated[int, HIDDEN] = 2
    within: Annotated[tuple[Tensor, Tensor] | None, HIDDEN] = None

    def _head(self) -> str:
        return (
            f"cosine {self.cosine:+.4f}, {self.empty:+.4f} with nothing shown; {self.coalitions[0]} prompts and {self.coalitions[1]} "
            f"pictures with parts left out, of which the terms predict {self.faithfulness:.0%} (R^2); the strongest pairs:"
        )


@dataclass(frozen=True)
class InteractionMeasures:
    """Measures of how faithful the interactions of one prompt and one picture are.

    insertion_deletion  the mean over the steps of (least important gone - most important gone) / (all - nothing): larger is better, 0 for
                        an order that says nothing; see :func:`explainers.analysis.interactions.measures.insertion_and_deletion`
    r2, spearman        between the values of newly drawn coalitions and those that the terms predict for them
    """

    insertion_deletion: float
    r2: float
    spearman: float


class Game:
    """A game whose players are the words of one prompt, then the parts of one picture. Its value for a coalition is the model's cosine of
    the prompt and the picture without the other words and parts.
    """

    def __init__(self, model: Model, image: Any, prompt: str, parts: int, check: Check, progress: Progress | None = None) -> None:
        """Set up the game of a ``prompt`` and an ``image``, which is divided into at most this number of ``parts``. ``check`` is called
        before each pass; ``progress`` is called with the numbers of encoded and of all prompts and pictures. Raises ExplainerError for a
        model without a text tower that takes an attention mask, or without a grid of patches.
        """
        if model.kind != "clip" or model.prompt_inputs is None:
            raise ExplainerError(f"{model.name} compares no image with words: choose a CLIP model.")
        self.words = encode(encoder(model, "text"), model.prompt_inputs([prompt]))
        self.picture = encode(encoder(model, "image"), model.seen_from("image").prepare(image))
        if "attention_mask" not in self.words.tensors:
            raise ExplainerError(f"The text tower of {model.name} takes no attention mask, so no word can be left out of a prompt.")
        if self.picture.grid is None:
            raise ExplainerError(f"{model.name} has no grid of patches, of which some could be left out.")
        self._grid, self._check, self._progress = self.picture.grid, check, progress
        self.encoded = self.to_encode = 0
        self.part_of = halve_grid(self._grid, parts)
        self.sizes = self.part_of.bincount()
        self.players = (len(self.words.units), len(self.sizes))

    def texts(self, keep: Tensor) -> Tensor:
        """Return the embeddings (K, D), of length 1, of the prompt with only the words that each row of ``keep``, bool (K, words),
        keeps.
        """

        def tensors(part: Tensor) -> dict[str, Tensor]:
            repeated = _repeat(self.words, len(part))
            mask = repeated["attention_mask"]
            out = (~part).float() @ self.words.units > 0
            return {**repeated, "attention_mask": mask.masked_fill(out.to(mask.device), 0)}

        return self._embed(self.words.model, keep, tensors)

    def images(self, keep: Tensor) -> Tensor:
        """Return the embeddings (K, D), of length 1, of the picture with only the parts that each row of ``keep``, bool (K, parts),
        keeps.
        """

        def tensors(part: Tensor) -> dict[str, Tensor]:
            repeated = _repeat(self.picture, len(part))
            return {**repeated, "pixel_values": paint_patches(repeated["pixel_values"], part[:, self.part_of], self._grid)}

        return self._embed(self.picture.model, keep, tensors)

    def cosines(self, keep: Tensor) -> Tensor:
        """Return the cosine (K,) of prompt and picture for each coalition in ``keep``, bool (K, words + parts). A prompt or picture that
        several share is encoded once.
        """
        words, of_words = keep[:, : self.players[0]].unique(dim=0, return_inverse=True)
        parts, of_parts = keep[:, self.players[0] :].unique(dim=0, return_inverse=True)
        return (self.texts(words)[of_words] * self.images(parts)[of_parts]).sum(1)

    def _embed(self, model: Model, keep: Tensor, tensors: Callable[[Tensor], dict[str, Tensor]]) -> Tensor:
        def ask(part: Tensor) -> Tensor:
            self._check()
            if self._progress is not None:
                self._progress(self.encoded, max(self.encoded + len(part), self.to_encode))
            with answering(model.module):
                embeddings = F.normalize(model.forward(tensors(part)).double().cpu(), dim=-1)
            self.encoded += len(part)
            return embeddings

        return answers_of_rows(keep, model.device, AT_ONCE, ask)


def _repeat(side: Encoded, times: int) -> dict[str, Tensor]:
    return {name: tensor.expand(times, *tensor.shape[1:]) for name, tensor in side.tensors.items()}


@in_memory_steps
def faithful_interaction(
    model: Any,
    image: Any,
    prompt: str,
    *,
    variant: Variant = "banzhaf",
    p: float = 0.5,
    budget: int = BUDGET,
    parts: int = PARTS,
    order: int = 2,
    pairs: PairsOf = "across",
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> FaithfulInteraction:
    """Find which patches of an image go with which words of a prompt, by a fit to the model's answers with parts left out (FIxLIP).

    In the result ``first`` is the prompt, ``second`` the image.

    model    one that compares images with prompts (CLIP), whose text tower takes an attention mask
    variant  "banzhaf": coalitions weigh p^|S| (1 - p)^(n - |S|); "shapley": the weights of Shapley interactions, by which the fit nearly
             meets the values of all players and of none
    p        how many of the players are in, on average
    budget   coalitions that are fitted, at most. With "banzhaf" some prompts are joined with some pictures, each encoded once: with 4096
             of them 4 to 64 prompts and some hundred to a thousand pictures. With "shapley" each coalition is drawn whole
    parts    into how many parts, at most, the picture is divided; the patches of a part share its term in equal parts
    order    1: a term for each word and each part; 2: also for pairs of them
    pairs    "across": a word with a part; "all": also two words, and two parts, as in the paper's runs
    seed      of the coalitions that are drawn
    progress  called between passes with the numbers of encoded and of all prompts and pictures
    cancelled  asked between passes; when true, :class:`Cancelled` is raised

    Raises ExplainerError for a model, a picture, a prompt or a setting that the fit cannot use.
    """
    if variant not in get_args(Variant):
        raise ExplainerError(f"variant={variant!r}: choose one of {', '.join(get_args(Variant))}.")
    if not 0 < p < 1:
        raise ExplainerError(f"p={p!r}: send a number between 0 and 1, such as 0.5.")
    if not 16 <= budget <= MOST_BUDGET:
        raise ExplainerError(f"budget={budget!r}: send a number of coalitions from 16 to {MOST_BUDGET}.")
    if parts < 1:
        raise ExplainerError(f"parts={parts!r}: send a number of parts of at least 1.")
    if order not in (1, 2):
        raise ExplainerError(f"order={order!r}: send 1 or 2.")
    if pairs not in get_args(PairsOf):
        raise ExplainerError(f"pairs={pairs!r}: choose one of {', '.join(get_args(PairsOf))}.")
    start = time.perf_counter()
    game = Game(model_of(model), image, prompt, parts, checker(cancelled), progress)
    generator = torch.Generator().manual_seed(check_seed(seed))
    words, pieces = game.players
    if variant == "banzhaf":
        shares = split_budget(words, pieces, budget)
        (texts, text_weights), (images, image_weights) = (
            draw_coalitions(players, count, variant, p, generator) for players, count in zip(game.players, shares, strict=True)
        )
        game.to_encode = len(texts) + len(images) + 2 * HELD_OUT_COALITIONS
        coalitions, weights = products(texts, images), (text_weights[:, None] * image_weights).flatten()
        cosines = (game.texts(texts) @ game.images(images).T).flatten()
        counts = (len(texts), len(images))
    else:
        coalitions, weights = draw_coalitions(words + pieces, budget, variant, p, generator)
        game.to_encode = len(coalitions) + 2 * HELD_OUT_COALITIONS
        cosines = game.cosines(coalitions)
        counts = (len(coalitions[:, :words].unique(dim=0)), len(coalitions[:, words:].unique(dim=0)))
    everything = torch.ones(1, words + pieces, dtype=torch.bool)
    empty = float(game.cosines(~everything))
    fitted = (
        list(combinations(range(words + pieces), 2)) if pairs == "all" else [(i, words + j) for i in range(words) for j in range(pieces)]
    )
    fit = fit_interactions(coalitions, weights, cosines - empty, fitted if order == 2 else [])
    truth, predicted = _other_coalitions(game, fit, p, generator, empty)
    totals = fit.totals(p)
    sizes, part_of = game.sizes, game.part_of
    outcome = FaithfulInteraction(
        first=game.words.record,
        second=game.picture.record,
        grids=(None, game.picture.grid),
        cosine=float(game.cosines(everything)),
        pairs=(fit.second[:words, words:] / sizes)[:, part_of].float(),
        maps=(totals[:words].float(), (totals[words:] / sizes)[part_of].float()),
        variant=variant,
        p=p,
        budget=budget,
        parts=pieces,
        empty=empty,
        constant=fit.constant,
        first_order=(fit.first[:words].float(), (fit.first[words:] / sizes)[part_of].float()),
        coalitions=counts,
        faithfulness=r_squared(truth, predicted),
        order=order,
        within=(fit.second[:words, :words].float(), fit.second[words:, words:].float()) if order == 2 and pairs == "all" else None,
        seconds=time.perf_counter() - start,
        notes=tuple(dict.fromkeys([*game.words.notes, *game.picture.notes])),
    )
    return replace(outcome, notes=(*outcome.notes, *_notes_on_fit(outcome)))


def _other_coalitions(game: Game, fit: Fit, p: float, generator: torch.Generator, empty: float) -> tuple[Tensor, Tensor]:
    """Draw new random coalitions of the players of ``game``, each player in with probability ``p``. Return the model's value for each (K,),
    minus the value ``empty`` of no player, and the value that ``fit`` predicts (K,).
    """
    keep = torch.rand(HELD_OUT_COALITIONS, sum(game.players), generator=generator) < p
    return game.cosines(keep) - empty, fit.values(keep)


def _notes_on_fit(outcome: FaithfulInteraction) -> tuple[str, ...]:
    if outcome.faithfulness >= MIN_R_SQUARED:
        return ()
    return (
        f"The terms predict only {outcome.faithfulness:.0%} of the variance of prompts and pictures that were not fitted: take them "
        "as a hint. More coalitions, fewer parts, or a p nearer to 1 may predict more.",
    )


def measure_interactions(
    model: Any,
    image: Any,
    prompt: str,
    outcomes: Sequence[PairedInputs],
    *,
    p: float = 0.5,
    parts: int = PARTS,
    count: int = HELD_OUT_COALITIONS,
    seed: int = 1,
    cancelled: Callable[[], bool] | None = None,
) -> list[InteractionMeasures]:
    """Measure how faithful several interactions (``outcomes``, results of :func:`interaction` or :func:`faithful_interaction`) of the same
    ``prompt`` and ``image`` are; return the measures of each, in their order. The ``model`` is asked about ``count`` random coalitions,
    drawn with ``seed``: words of the prompt and ``parts`` of the picture, each of which is shown with probability ``p``. ``cancelled`` is
    asked between passes; when true, :class:`explainers.Cancelled` is raised.
    """
    game = Game(model_of(model), image, prompt, parts, checker(cancelled))
    words, pieces = game.players
    generator = torch.Generator().manual_seed(check_seed(seed))
    keep = torch.rand(count, words + pieces, generator=generator) < p
    truth = game.cosines(keep)
    measures = []
    for outcome in outcomes:
        fit = _terms(outcome, game)
        predicted = fit.values(keep)
        score, _, _ = insertion_and_deletion(fit, game.cosines)
        measures.append(
            InteractionMeasures(score, r_squared(truth, predicted - predicted.mean() + truth.mean()), rank_agreement(truth, predicted))
        )
    return measures


def _terms(outcome: PairedInputs, game: Game) -> Fit:
    """Return the terms of an interaction (``outcome``) as a fit over the players of ``game``, words and parts of the picture; the terms of
    patches are summed over each part. Raises ExplainerError if it is of other inputs.
    """
    words, pieces = game.players
    if outcome.pairs.shape != (words, len(game.part_of)):
        raise ExplainerError("These interactions are of another prompt or another picture: measure those of the same two inputs.")
    join = F.one_hot(game.part_of, pieces).double()
    second = torch.zeros(words + pieces, words + pieces, dtype=torch.float64)
    second[:words, words:] = outcome.pairs.double() @ join
    first = torch.zeros(words + pieces, dtype=torch.float64)
    if isinstance(outcome, FaithfulInteraction):
        if outcome.within is not None and outcome.within[1].shape == (pieces, pieces):
            second[:words, :words], second[words:, words:] = (terms.double().triu() for terms in outcome.within)
        first = torch.cat([outcome.first_order[0].double(), outcome.first_order[1].double() @ join])
    elif not isinstance(outcome, Interaction):
        raise ExplainerError("Send what interaction() or faithful_interaction() found.")
    return Fit(0.0, first, second + second.T)
