"""SPEX and ProxySPEX: the few interactions, of any order, of the parts of one input that its answers with parts left out show.

The answer as a function of which parts are left is taken for sparse in the Fourier domain. SPEX (Kang et al., ICML 2025, arXiv 2502.13870)
asks for coalitions from which an error-correcting code reads the large coefficients; ProxySPEX (Butler et al., arXiv 2505.17495) fits
gradient-boosted trees to coalitions drawn at random and reads theirs. Both are computed by the package ``shapiq``, the extra ``spex``; the
parts, the answers and the check on other coalitions are ours.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.counterfactual import content_indices, parts_of
from explainers.analysis.deletion_test import notes_on, removal_for
from explainers.analysis.interactions.measures import r_squared
from explainers.analysis.target_output import target_output
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.installation import not_installed
from explainers.json_records import HIDDEN, Record, describe
from explainers.models.grids import halve_grid
from explainers.models.removal.token_removal import BeforePass
from explainers.models.removal.ways import How
from explainers.models.tasks.text_places import number_repeats
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.records.result import Explanation
from explainers.records.session import check_seed, checker
from explainers.rendering.plain import align
from explainers.self_check.opening import model_of

PROXYSPEX = Citation(
    authors="Butler et al.",
    year=2025,
    title="ProxySPEX: Inference-Efficient Interpretability via Sparse Feature Interactions in LLMs",
    arxiv="2505.17495",
)
SPEX = Citation(
    authors="Kang et al.", year=2025, title="SPEX: Scaling Feature Interaction Explanations for LLMs", venue="ICML", arxiv="2502.13870"
)
#: "spex" asks for chosen coalitions, "proxyspex" for random ones.
SparseMethod = Literal["proxyspex", "spex"]
#: Whose terms are summed over the subsets of a coalition: faithful Banzhaf, or faithful Shapley interactions.
SparseIndex = Literal["FBII", "FSII"]
BUDGET, PARTS = 1000, 49
MIN_BUDGET, MAX_BUDGET = 100, 100_000
MIN_PARTS = 7  # fewer have too few coalitions for trees to be fitted to
HELD_OUT_COALITIONS = 128
#: Share of the variance of other coalitions that the terms must predict to count as predicting them.
MIN_R_SQUARED = 0.5
SHOWN_TERMS = 15
_CONSTANT = 1e-12  # values that vary by less, relative to their size, do not depend on the parts

Game = Callable[[NDArray[np.bool_]], NDArray[np.float64]]


@dataclass(frozen=True)
class SparseTerm(Record):
    """What some parts add to the explained number together, beyond what fewer of them do: the ``value`` of their interaction."""

    parts: Annotated[tuple[int, ...], describe("The numbers of the parts, counted from 0.")]
    value: float


@dataclass(frozen=True, eq=False)
class SparseInteractions(Record):
    """Interactions of the parts of one input. The number of a coalition is ``constant`` and the terms of all its subsets, as far as the fit
    predicts it (``faithfulness``). ``print`` shows the largest.

    method   "proxyspex" or "spex", by which the terms were found
    index    "FBII" or "FSII": faithful Banzhaf or Shapley interactions
    terms    the largest first
    notes    what a person should know, such as how parts were removed
    tokens   of each part its tokens, as indices of the scores of a map
    answers  number of coalitions that the model was asked about for the fit
    """

    method: SparseMethod
    index: SparseIndex
    target: Annotated[str, describe("The label of what is explained.")]
    how: Annotated[How, describe("In which way parts are taken away.", kind=str)]
    names: Annotated[tuple[str, ...], describe("The parts: words, atoms, or patches by row and column, counted from 1.")]
    tokens: Annotated[tuple[tuple[int, ...], ...], describe("The tokens of each part, as indices of the scores of a map.")]
    constant: Annotated[float, describe("The term of no part.")]
    terms: Annotated[tuple[SparseTerm, ...], describe("The terms of parts and of sets of parts, the largest first.")]
    faithfulness: Annotated[
        float | None, describe("The share of the variance of other coalitions that the terms predict (R²); null where they do not differ.")
    ]
    answers: Annotated[int, describe("How many coalitions the model was asked about for the fit.", key="asked")]
    notes: Annotated[tuple[str, ...], HIDDEN] = ()

    @property
    def totals(self) -> Annotated[Tensor, describe("Of each part its terms, each shared alike by its parts.", kind=list[float])]:
        """The share of each part in all terms, (parts,) in float64: each term divided alike among its parts. They add up to the fit's
        difference between the whole input and nothing.
        """
        shares = torch.zeros(len(self.names), dtype=torch.float64)
        for term in self.terms:
            shares[list(term.parts)] += term.value / len(term.parts)
        return shares

    def predict(self, keep: Tensor) -> Tensor:
        """Return the explained number that the terms predict, (K,) in float64, with the parts that ``keep``, bool (K, parts), keeps."""
        predicted = torch.full((len(keep),), self.constant, dtype=torch.float64)
        for term in self.terms:
            predicted += term.value * keep[:, list(term.parts)].all(1)
        return predicted

    def __str__(self) -> str:
        predicts = "" if self.faithfulness is None else f", and predict others with an R^2 of {self.faithfulness:.2f}"
        head = f"{self.target}: {len(self.terms)} terms of {len(self.names)} parts, from {self.answers} answers ({self.method}){predicts}"
        rows = [["adds", "parts"]]
        rows += [[f"{term.value:+.4g}", " · ".join(self.names[part] for part in term.parts)] for term in self.terms[:SHOWN_TERMS]]
        more = [f"and {len(self.terms) - SHOWN_TERMS} smaller ones"] if len(self.terms) > SHOWN_TERMS else []
        return "\n".join([head, *align(rows, left=(1,)), *more, *(f"note: {note}" for note in self.notes)])

    def save(self, path: Path | str) -> None:
        """Write the numbers to the file ``path``, which ends in ``.json``. Raises ExplainerError for any other ending of the name."""
        path = Path(path)
        if path.suffix != ".json":
            raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json")
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")


@in_memory_steps
def sparse_interactions(
    model: Any,
    result: Explanation,
    target: str | None = None,
    *,
    method: SparseMethod = "proxyspex",
    index: SparseIndex = "FBII",
    max_order: int | None = None,
    budget: int = BUDGET,
    parts: int = PARTS,
    how: How | None = None,
    seed: int = 0,
    progress: BeforePass | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SparseInteractions:
    """Find the few interactions of patches, words or atoms that make the explained answer, by SPEX or ProxySPEX.

    model      the model that was explained
    result     the explanation whose input is asked about, from :func:`explainers.explain`: a picture, a text or a molecule
    target     the label of one of the explained targets; None: the first
    method     "proxyspex": trees are fitted to coalitions drawn at random; "spex": coalitions are chosen so that a code can be read
    index      "FBII" or "FSII": faithful Banzhaf or Shapley interactions, whose terms predict a coalition
    max_order  how many parts a term has, at most; None: as many as there are
    budget     how many coalitions the model is asked about for the fit, at most, from 100 to 100,000
    parts      into how many parts, at most, a picture is divided: neighbouring patches are left out together
    how        see :mod:`explainers.models.removal`; None: parts are removed where the model allows it
    seed       of the coalitions, and of those that the fit is held against
    progress   called before each forward pass with how many answers there are, and how many there will be after it
    cancelled  asked before each forward pass; when true, :class:`explainers.Cancelled` is raised

    Needs the extra ``spex``. Raises ExplainerError without it, for another model than the explained one, for an unknown target, for an
    input of fewer than seven parts, for a model that cannot answer when nothing is left, and for settings out of range.
    """
    if method not in get_args(SparseMethod):
        raise ExplainerError(f"method={method!r}: choose one of {', '.join(get_args(SparseMethod))}.")
    if index not in get_args(SparseIndex):
        raise ExplainerError(f"index={index!r}: choose one of {', '.join(get_args(SparseIndex))}.")
    if not MIN_BUDGET <= budget <= MAX_BUDGET:
        raise ExplainerError(f"budget={budget!r}: send a number of coalitions from {MIN_BUDGET} to {MAX_BUDGET:,}.")
    if parts < MIN_PARTS or (max_order is not None and max_order < 1):
        raise ExplainerError(f"parts={parts!r}, max_order={max_order!r}: send at least {MIN_PARTS} parts, and an order of 1 or more.")
    _require_packages(method)
    model, check, seed = model_of(model), checker(cancelled), check_seed(seed)
    labels = [info.label for info in result.targets]
    label = labels[0] if target is None else target
    if label not in labels:
        raise ExplainerError(f"{label!r} was not explained; explained were {', '.join(labels)}")
    info = result.targets[labels.index(label)]
    model, removal = removal_for(model, result, label, how)
    if removal.least:
        raise ExplainerError(
            f"{model.name} cannot answer when nothing is left, and SPEX asks for that too: choose how='masked' or 'painted'."
        )
    resolved = target_output(model, list(result.labels), info.to_json()).resolved
    shown = result.prompts.get(label, result.input)
    grid = next((attribution.patches for attribution in result.maps if attribution.target == label), None)
    players = _players(removal.tokens, shown, grid, parts)
    if len(players) < MIN_PARTS:
        raise ExplainerError(f"This input has {len(players)} parts, and {MIN_PARTS} are the fewest: kernel_shap asks for all coalitions.")
    done = 0

    def value(keep: Tensor) -> Tensor:
        nonlocal done
        tokens = torch.zeros(len(keep), removal.tokens, dtype=torch.bool)
        for player, places in enumerate(players):
            tokens[:, list(places)] = keep[:, player : player + 1]
        before = done

        def before_pass(answered: int, total: int) -> None:
            check()
            if progress is not None:
                progress(before + answered, before + total)

        logits = removal.logits(tokens, before_pass)
        done += len(keep)
        return resolved.only(0).repeat(len(keep)).value(logits).double()

    def game(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        return value(torch.from_numpy(np.array(coalitions, dtype=bool))).numpy()

    constant, terms = fit_sparse(game, len(players), method, index, max_order, budget, seed)
    answers = done
    indices = content_indices(shown, removal.tokens)
    outcome = SparseInteractions(
        method=method,
        index=index,
        target=label,
        how=removal.how,
        names=_names(players, indices, shown, grid),
        tokens=tuple(tuple(indices[place] for place in player) for player in players),
        constant=constant,
        terms=terms,
        faithfulness=None,
        answers=answers,
        notes=tuple(notes_on(removal, ())),
    )
    others = torch.rand(HELD_OUT_COALITIONS, len(players), generator=torch.Generator().manual_seed(seed + 1)) < 0.5
    truth = value(others)
    if float(truth.std()) <= _CONSTANT * float(truth.abs().max()):
        return outcome
    outcome = replace(outcome, faithfulness=r_squared(truth, outcome.predict(others)))
    assert outcome.faithfulness is not None
    if outcome.faithfulness >= MIN_R_SQUARED:
        return outcome
    note = (
        f"The terms predict only {max(0.0, outcome.faithfulness):.0%} of the variance of coalitions that were not fitted: take them as a "
        "hint. A larger budget or fewer parts may predict more."
    )
    return replace(outcome, notes=(*outcome.notes, note))


def _require_packages(method: SparseMethod) -> None:
    """Raise ExplainerError, with what to install, if a package that ``method`` needs is missing."""
    needed = ("shapiq", "lightgbm") if method == "proxyspex" else ("shapiq", "sparse_transform", "galois")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ExplainerError(not_installed(f"method={method!r} needs the package {' and '.join(missing)}", "spex") + ".")


def fit_sparse(
    game: Game, players: int, method: SparseMethod, index: SparseIndex, max_order: int | None, budget: int, seed: int
) -> tuple[float, tuple[SparseTerm, ...]]:
    """Return the constant and the terms, largest first, that shapiq's SPEX or ProxySPEX finds in a ``game``: a function of coalitions, bool
    (K, players), to their values (K,). It is asked about at most ``budget`` coalitions; equal seeds give equal terms.

    Raises ExplainerError if the budget is too small for this number of players.
    """
    import shapiq

    order = players if max_order is None else min(max_order, players)
    approximator: Any = (shapiq.ProxySPEX if method == "proxyspex" else shapiq.SPEX)(
        n=players, index=index, max_order=order, random_state=seed
    )
    known_values: list[NDArray[np.float64]] = []

    def watched(coalitions: NDArray[np.bool_]) -> NDArray[np.float64]:
        values = game(coalitions)
        known_values.append(values)
        return values

    with (
        _numpy_seeded(seed),
        np.errstate(divide="ignore", invalid="ignore"),
        warnings.catch_warnings(),
    ):  # SPEX divides by coefficients of 0
        warnings.simplefilter("ignore")  # of names of columns that the trees were not fitted with
        try:
            values = approximator.approximate(min(budget, 2**players) if method == "proxyspex" else budget, watched)
        except (ValueError, IndexError):
            known = np.concatenate(known_values) if known_values else np.empty(0)
            if len(known) and np.ptp(known) <= _CONSTANT * np.abs(known).max():
                return float(known[0]), ()
            if method == "spex" and not len(known):
                raise ExplainerError(
                    f"budget={budget}: too few coalitions for SPEX with {players} parts: send more, or choose method='proxyspex'."
                ) from None
            if method == "proxyspex":  # no tree divides the coalitions
                raise ExplainerError(
                    f"budget={budget}: too few coalitions for ProxySPEX to find a term of {players} parts: send more."
                ) from None
            raise
    terms = {tuple(map(int, parts)): float(values.values[place]) for parts, place in values.interaction_lookup.items()}
    constant = terms.pop((), 0.0)
    largest = sorted(
        (SparseTerm(parts, number) for parts, number in terms.items() if number), key=lambda term: (-abs(term.value), term.parts)
    )
    return constant, tuple(largest)


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """Seed numpy's global generator, from which SPEX draws its coalitions, inside of this block; it is as before afterwards."""
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)


def _players(tokens: int, shown: Any, grid: tuple[int, int] | None, most: int) -> list[tuple[int, ...]]:
    """Return the parts that are left out as a whole, each with its places among the removable ``tokens`` of the input ``shown``: patches of
    ``grid`` together with neighbours, so that there are at most ``most`` parts; words and atoms as they are.
    """
    if grid is None:
        return parts_of(tokens, shown)
    part_of = halve_grid(grid, most)
    return [tuple((part_of == part).nonzero()[:, 0].tolist()) for part in range(int(part_of.max()) + 1)]


def _names(players: Sequence[tuple[int, ...]], indices: Sequence[int], shown: Any, grid: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the name of each part: its rows and columns of patches, counted from 1, or its word or atom, with #2 for the second that is
    alike. ``indices`` are the tokens of the input ``shown`` that can be removed.
    """
    if grid is not None:
        places = [[divmod(place, grid[1]) for place in player] for player in players]
        return tuple(f"row {_span([row for row, _ in each])}, column {_span([column for _, column in each])}" for each in places)
    words = {token: word.text for word in shown.words for token in word.tokens}
    return tuple(number_repeats(words.get(indices[player[0]], shown.tokens[indices[player[0]]].text) for player in players))


def _span(places: list[int]) -> str:
    return str(1 + min(places)) if min(places) == max(places) else f"{1 + min(places)}-{1 + max(places)}"
