"""Sentences on what the maps of one target have in common, made from their rank correlations: whether the maps agree, which of them
differ, where the evidence lies and which words it lies on. A sentence says only what the numbers support.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from explainers.analysis.agreement import explained_label
from explainers.methods.registry import is_control
from explainers.methods.specs import Spec
from explainers.metrics.rank_correlation import rank_correlations
from explainers.models.inputs.types import MoleculeInput
from explainers.records.result import Explanation

#: Rank correlation from which two maps count as ordering the tokens alike. Maps of two *different* pictures, by two methods, reach less in
#: 95 % of the cases: under 0.58 with photos-vit (60 photos, 11 methods), 0.62 with clip (10) and 0.42 with scenes-vit (8). The limit
#: leaves room for models whose maps are more alike.
MIN_ALIKE_CORRELATION = 0.8
#: Up to here two maps have no more in common than those of two different pictures typically have: medians 0.17, 0.24 and 0.07 of the same.
MAX_UNRELATED_CORRELATION = 0.25
#: Half of the evidence in no more than this share of the picture is a place to name. In 79 pictures half of it lay in 3 to 32 %; with the
#: patches shuffled never in less than 24 %.
MAX_NAMED_AREA_SHARE = 0.2
#: A ninth of the picture that holds a smaller share of a map's evidence is no place to name: a ninth of it lies in each by chance.
MIN_NAMED_NINTH_SHARE = 0.2
_ALSO_MARKED = 0.25  # of the outlined patches a map marks, if it marks the part at all
_MIN_SHARE_OF_PLACE = 0.75  # of the outlined patches lie in a place that is named
_MIN_TIMES_CHANCE = 20  # patches that most maps mark are outlined if they are at least that many times those that chance would give
#: The share of the words that count as the strongest of a map, and their minimum number; but never more than a third of a text.
_TOP_WORDS_SHARE, _MIN_TOP_WORDS = 0.1, 3
_MAX_TOP_WORDS = 20  # of more words, to be among them says nothing
#: A word is named that at least this share of the methods have among their strongest, and that chance names in one text of twenty.
_MIN_SHARE_OF_METHODS = 2 / 3  # of the methods, at least, that have to name the words
_MAX_WORDS_BY_CHANCE = 0.05  # at most, that as many would name them at random
_MAX_NAMED_WORDS = 3  # words
_PLACES_PER_SIDE = 3  # of the height and of the width of a picture: nine places have a name
_PLACE_NAMES = (
    ("in the upper left", "at the top", "in the upper right"),
    ("at the left", "in the centre", "at the right"),
    ("in the lower left", "at the bottom", "in the lower right"),
)
_MINUS = "\N{MINUS SIGN}"
_MIN_TOKENS = 10  # ranks of fewer say little: chance alone gives a correlation of 0.8 once in 200
_FISHER_Z_SPREAD = 1.03  # of Fisher's z of a rank correlation, times the root of N - 3 (Fieller, Hartley & Pearson 1957, Biometrika 44)


@dataclass(frozen=True, eq=False)
class TitledMap:
    """A map as the agreement sentence needs it: its name for people, its scores (N,), one for each patch or word piece, and whether they
    have a sign.
    """

    title: str
    scores: NDArray[np.float64]
    signed: bool


def title_map(title: str, spec: str, scores: Tensor, signed: bool) -> TitledMap:
    """Make a :class:`TitledMap` from a method's title, its ``spec`` and its scores (N,); ``signed`` says whether the scores have a sign.
    The map's name is the title, followed by the options in ``spec``, if any.
    """
    return TitledMap(Spec.parse(spec).title(title), scores.double().numpy(), signed)


def agreement_sentence(result: Explanation, target: str | None = None) -> str:
    """Return a sentence on what the maps of ``result`` for ``target`` have in common, or "" if they have nothing in common.

    ``target`` is a label; the first one by default.

    Raises ExplainerError for a target that was not explained.
    """
    label = explained_label(result, target)
    attributions = [attribution for attribution in result.maps if attribution.target == label and not is_control(attribution.method_name)]
    maps = [
        title_map(attribution.title, attribution.method, attribution.scores[attribution.content], attribution.signed)
        for attribution in attributions
    ]
    if not attributions:
        return ""
    first = attributions[0]
    if first.text is None:
        return sentence_of(maps, grid=first.patches)
    if isinstance(first.text, MoleculeInput):
        return sentence_of(maps, atoms=[word.text for word in first.words()])
    place = {int(token): i for i, token in enumerate(first.content.nonzero().flatten())}
    return sentence_of(maps, words=[(word.text, [place[token] for token in word.tokens]) for word in first.words()])


def sentence_of(
    maps: Sequence[TitledMap],
    *,
    grid: tuple[int, int] | None = None,
    words: Sequence[tuple[str, Sequence[int]]] = (),
    atoms: Sequence[str] = (),
) -> str:
    """Return a sentence on what maps of the same tokens have in common, or "" if they have nothing in common.

    The tokens are the patches of a ``grid`` (rows, columns), ``words``, each with the indices of its pieces, or ``atoms``, each as its
    SMILES has it. Maps that give every token the same score are left out.
    """
    varied_maps = _varied(maps)
    if len(varied_maps) < 2:
        return ""
    if atoms:
        return _atoms_sentence(varied_maps, lambda peak: f"atom {peak + 1}, {element_of(atoms[peak])}")[0]
    if grid is not None:
        peak, sharing = _shared_peak(varied_maps)
        order_sentence, agreeing = _compare(varied_maps, sharing, "patches")
        place = f"row {peak // grid[1] + 1}, column {peak % grid[1] + 1}"
        shared = "" if sharing <= set(agreeing) else _peak_sentence(len(varied_maps), len(sharing), place)
    else:
        shared, sharing = _words(varied_maps, words)
        order_sentence, agreeing = _compare(varied_maps, sharing)
    parts = [shared, order_sentence, "" if grid is None else _place([varied_maps[i] for i in agreeing], grid)]
    return " ".join(part for part in parts if part)


def outlined_sentence(maps: Sequence[TitledMap], grid: tuple[int, int]) -> tuple[str, list[int]]:
    """Return at most two sentences on what ``maps`` of a picture mark, and the indices of the patches of a ``grid`` (rows, columns) to
    outline next to them: the part that most maps mark, and none if there is no such part.

    The sentences say how many maps mark that part and where it lies, and which map marks it least and what it marks in its place. If there
    is no such part, the patch that is the strongest of most maps is outlined, unless these agree on all else as well. If there is none
    either, the sentences say how alike the maps are and, where no majority agrees, what two of them mark.
    """
    varied_maps = _varied(maps)
    if len(varied_maps) < 2:
        return "", []
    patches = _agreed(varied_maps, grid)
    if patches:
        return _marked_part(varied_maps, patches, grid), patches
    peak, sharing = _shared_peak(varied_maps)
    order_sentence, agreeing = _compare(varied_maps, sharing, "patches")
    if not sharing <= set(agreeing):
        place = f"the outlined patch, {_place_of_patches([peak], grid)}"
        return f"{_peak_sentence(len(varied_maps), len(sharing), place)} {order_sentence}".strip(), [peak]
    return (order_sentence if agreeing else " ".join((order_sentence, _two_places(varied_maps, grid))).strip()), []


def outlined_atom_sentence(maps: Sequence[TitledMap], atoms: Sequence[str]) -> tuple[str, list[int]]:
    """Return what :func:`sentence_of` says of ``maps`` of a molecule, and the index of the atom to outline next to it: the one at which
    most maps are strongest, none if there is no such atom. ``atoms`` are the characters of each in the SMILES.
    """
    varied_maps = _varied(maps)
    if len(varied_maps) < 2:
        return "", []
    return _atoms_sentence(varied_maps, lambda peak: f"the outlined atom, {element_of(atoms[peak])}")


def _atoms_sentence(maps: Sequence[TitledMap], place_of: Callable[[int], str]) -> tuple[str, list[int]]:
    """Return sentences on what two or more ``maps`` of a molecule have in common, and the atom that they name by ``place_of``, if any."""
    peak, sharing = _shared_peak(maps)
    order_sentence, agreeing = _compare(maps, sharing, "atoms")
    if sharing <= set(agreeing):
        return order_sentence, []
    return f"{_peak_sentence(len(maps), len(sharing), place_of(peak))} {order_sentence}".strip(), [peak]


def element_of(atom: str) -> str:
    """Return the symbol of the element of an ``atom`` as SMILES writes it: "N" of "[N+]" and of "n", "Cl" of "[35Cl-]"."""
    symbol = re.search(r"(se|as|te|si)(?![a-z])|[A-Z][a-z]?|[a-z]|\*", atom)
    return symbol[0].capitalize() if symbol else atom


def _marked_part(maps: Sequence[TitledMap], patches: Sequence[int], grid: tuple[int, int]) -> str:
    """Return sentences on the ``patches`` of a ``grid`` that most ``maps`` mark, and on the map that marks least of them."""
    inside = [len(set(patches) & set(_marked(titled_map).tolist())) / len(patches) for titled_map in maps]
    count = sum(share >= 0.5 for share in inside)
    subject = ("Both" if len(maps) == 2 else f"All {len(maps)}") if count == len(maps) else f"{count} of {len(maps)}"
    where = _place_of_patches(patches, grid)
    sentence = f"{subject} maps agree on the outlined part{where and f', {where}'}; that is no proof."
    if count == len(maps):
        return sentence
    odd = maps[int(np.argmin(inside))]
    evidence = _evidence(odd)
    share = round(100 * float(evidence[list(patches)].sum()))
    evidence[list(patches)] = 0
    other = _place_of_evidence(evidence, grid)
    says = f"only {share}\N{NO-BREAK SPACE}% of its evidence is there"
    if other and other not in where:
        says = f"it {'also ' if min(inside) >= _ALSO_MARKED else ''}marks {_noun(other)}"
    return f"{sentence} {odd.title} differs most: {says}."


def _two_places(maps: Sequence[TitledMap], grid: tuple[int, int]) -> str:
    """Return a sentence on what the first of ``maps`` and the one that is least like it mark, on a ``grid`` of (rows, columns); "" if both
    mark the same place or one marks none.
    """
    rho = rank_correlations(np.stack([titled_map.scores for titled_map in maps]))
    other = maps[int(np.argmin(rho[0]))]
    places = [_place_of_evidence(_evidence(titled_map), grid) for titled_map in (maps[0], other)]
    if not all(places) or places[0] == places[1]:
        return ""
    return f"{maps[0].title} marks {_noun(places[0])}, {other.title} {_noun(places[1])}."


def _noun(place: str) -> str:
    """Return the name of a place without its preposition: "the centre" for "in the centre"."""
    return place.partition(" ")[2]


def _ninths(weights: NDArray[np.float64], grid: tuple[int, int]) -> NDArray[np.float64]:
    """Return the sum (3, 3) of ``weights``, one for each patch of a ``grid`` (rows, columns), in each ninth of the picture."""
    sums = np.zeros((_PLACES_PER_SIDE, _PLACES_PER_SIDE))
    vertical, horizontal = (_PLACES_PER_SIDE * (2 * np.arange(count) + 1) // (2 * count) for count in grid)
    np.add.at(sums, (vertical[:, None], horizontal[None, :]), weights.reshape(grid))
    return sums


def _place_of_evidence(evidence: NDArray[np.float64], grid: tuple[int, int]) -> str:
    """Return the name of the ninth of the picture that holds most of a map's ``evidence``, the share of each patch of a ``grid`` (rows,
    columns); "" if it holds less than :data:`MIN_NAMED_NINTH_SHARE`.
    """
    shares = _ninths(evidence, grid)
    height, width = np.unravel_index(int(shares.argmax()), shares.shape)
    return _PLACE_NAMES[height][width] if shares[height, width] >= MIN_NAMED_NINTH_SHARE else ""


def _place_of_patches(patches: Sequence[int], grid: tuple[int, int]) -> str:
    """Return the name of the ninth of the picture, else of the two ninths, else of the half in which most of ``patches`` lie on a ``grid``
    of (rows, columns), after "mostly" if some lie outside it; "" if none of these holds at least :data:`_MIN_SHARE_OF_PLACE` of them.
    """
    votes = np.zeros(grid[0] * grid[1])
    votes[list(patches)] = 1
    ninths = _ninths(votes, grid)
    ranked = [(int(ninths[height, width]), _PLACE_NAMES[height][width]) for height, width in np.ndindex(ninths.shape)]
    (most, first), (next_most, second) = sorted(ranked, key=lambda place: -place[0])[:2]
    rows, columns = np.divmod(np.array(patches), grid[1])
    halves = {
        "in the upper half": rows < grid[0] // 2,
        "in the lower half": rows >= (grid[0] + 1) // 2,
        "in the left half": columns < grid[1] // 2,
        "in the right half": columns >= (grid[1] + 1) // 2,
    }
    half = max(halves, key=lambda name: int(halves[name].sum()))
    pair = f"{first} and {_noun(second) if second.split()[0] == first.split()[0] else second}"
    for inside, name in ((most, first), (most + next_most, pair), (int(halves[half].sum()), half)):
        if inside >= _MIN_SHARE_OF_PLACE * len(patches):
            return name if inside == len(patches) else f"mostly {name}"
    return ""


def _varied(maps: Sequence[TitledMap]) -> list[TitledMap]:
    """Return those of ``maps`` whose scores differ."""
    return [titled_map for titled_map in maps if np.ptp(titled_map.scores) > 0]


def _shared_peak(maps: Sequence[TitledMap]) -> tuple[int, set[int]]:
    """Return the token with the largest score in most ``maps``, and the indices of these maps; none of them if they are fewer than two
    thirds, or if chance alone would give a token to as many in one of twenty inputs.
    """
    peaks = [int(titled_map.scores.argmax()) if titled_map.scores.max() > 0 else -1 for titled_map in maps]
    peak = max(peaks, key=peaks.count)
    sharing = {i for i, other in enumerate(peaks) if other == peak}
    count = len(maps[0].scores)
    is_shared = (
        peak >= 0
        and len(sharing) >= _MIN_SHARE_OF_METHODS * len(maps)
        and _words_by_chance(count, 1, 1, len(maps), len(sharing)) <= _MAX_WORDS_BY_CHANCE
    )
    return peak, sharing if is_shared else set()


def _peak_sentence(maps: int, sharing: int, place: str) -> str:
    """Return the sentence that ``sharing`` of ``maps`` maps are strongest at ``place``."""
    subject = f"{sharing} of {maps}" if sharing < maps else "Both" if maps == 2 else f"All {maps}"
    return f"{subject} maps are strongest at {place}."


def _compare(maps: Sequence[TitledMap], sharing: Set[int] = frozenset(), tokens: str = "words") -> tuple[str, list[int]]:
    """Return a sentence on how alike two or more ``maps`` are, and the indices of the maps that agree (empty unless more than half do).

    ``sharing`` are the indices of the maps that have their strongest ``tokens`` (words, patches or atoms) in common, as was just said: of
    these a sentence says that it is the order of the other tokens in which they differ.
    """
    rho = rank_correlations(np.stack([titled_map.scores for titled_map in maps]))
    return _agreement([titled_map.title for titled_map in maps], rho, len(maps[0].scores), sharing, tokens)


def _marked(titled_map: TitledMap) -> NDArray[np.int64]:
    """Return the indices of the fewest tokens that hold half of the evidence in ``titled_map``, strongest first."""
    evidence = _evidence(titled_map)
    order = np.argsort(-evidence, kind="stable")
    return order[: int(np.searchsorted(evidence[order].cumsum(), 0.5)) + 1]


def _agreed(maps: Sequence[TitledMap], grid: tuple[int, int]) -> list[int]:
    """Return the indices of the patches that at least two thirds of ``maps`` mark, on a ``grid`` of (rows, columns); none if they are more
    than :data:`MAX_NAMED_AREA_SHARE` of the grid, or not many more than if each map marked as many patches at random.
    """
    votes, marked = np.zeros(grid[0] * grid[1]), [_marked(titled_map) for titled_map in maps]
    for tokens in marked:
        votes[tokens] += 1
    share = sum(map(len, marked)) / len(maps) / len(votes)
    for fewest in range(math.ceil(_MIN_SHARE_OF_METHODS * len(maps)), len(maps) + 1):
        patches: list[int] = np.flatnonzero(votes >= fewest).tolist()
        if len(patches) <= MAX_NAMED_AREA_SHARE * len(votes) and len(patches) >= _MIN_TIMES_CHANCE * _patches_by_chance(
            len(votes), share, len(maps), fewest
        ):
            return patches
    return []


def _patches_by_chance(patches: int, share: float, maps: int, fewest: int) -> float:
    """Return how many of the ``patches`` at least ``fewest`` of the ``maps`` would mark if each marked this ``share`` at random."""
    from scipy.stats import binom

    return float(patches * binom.sf(fewest - 1, maps, min(1.0, share)))


def _agreement(
    titles: Sequence[str], rho: NDArray[np.float64], count: int, sharing: Set[int] = frozenset(), tokens: str = "words"
) -> tuple[str, list[int]]:
    """Return a sentence on how alike maps are, and the indices of the maps that agree, if more than half do. ``titles`` are the names of
    the M maps, ``rho`` (M, M) their rank correlations, ``count`` is their number of tokens, ``sharing`` and ``tokens`` are as in
    :func:`_compare`. Maps of very few tokens give ("", []).
    """
    if count < _MIN_TOKENS:
        return "", []
    threshold = max(
        MIN_ALIKE_CORRELATION, math.tanh(2.58 * _FISHER_Z_SPREAD / math.sqrt(count - 3))
    )  # of few tokens chance orders some alike: once in 200
    if len(titles) == 2:
        value = float(rho[0, 1])
        if value >= threshold:
            return f"Both maps say nearly the same, which is no proof (rank correlation {_format_correlation(value)}).", [0, 1]
        if sharing:
            subject = f"Otherwise the two maps order the {tokens} {'in reverse' if value <= -threshold else 'differently'}"
        else:
            subject = f"The two maps {'say the opposite of each other' if value <= -threshold else 'differ'}"
        return f"{subject} (rank correlation {_format_correlation(value)}).", []
    group = _largest_group(rho, threshold)
    if 2 * len(group) > len(titles):
        return _majority(titles, rho, group, sharing, tokens), group
    return _disagreement(titles, rho, threshold, bool(sharing), tokens), []


def _largest_group(rho: NDArray[np.float64], threshold: float) -> list[int]:
    """Return the row indices of the largest group of maps in which any two correlate by ``threshold`` or more, by complete linkage. ``rho``
    (maps, maps) holds the correlation of each two.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distances = np.clip(1 - rho, 0, 2)
    np.fill_diagonal(distances, 0)
    clusters = fcluster(linkage(squareform(distances, checks=False), "complete"), 1 - threshold, "distance")
    groups = [np.flatnonzero(clusters == number).tolist() for number in np.unique(clusters)]
    largest: list[int] = max(groups, key=len)
    return largest


def _majority(titles: Sequence[str], rho: NDArray[np.float64], group: Sequence[int], sharing: Set[int], tokens: str) -> str:
    least = min(float(rho[a, b]) for a, b in itertools.combinations(group, 2))
    subject = f"All {len(titles)} maps" if len(group) == len(titles) else f"{len(group)} of {len(titles)} maps"
    sentence = f"{subject} say nearly the same, which is no proof (rank correlation of any two {_format_least(least)})."
    outsiders = [i for i in range(len(titles)) if i not in group]
    if not outsiders or len(outsiders) > 2:
        return sentence
    most = max(float(rho[other, member]) for other in outsiders for member in group)
    names = " and ".join(titles[other] for other in outsiders)
    is_single = len(outsiders) == 1
    orders = f"{'orders' if is_single else 'order'} the other {tokens}" if set(outsiders) <= sharing else ""
    if most <= -MIN_ALIKE_CORRELATION:
        says = f"{orders} in reverse" if orders else f"{'says' if is_single else 'say'} the opposite"
        return f"{sentence} {names} {says} ({_format_correlation(most, math.ceil)} or less with each)."
    if most <= MAX_UNRELATED_CORRELATION:
        says = f"{orders} differently" if orders else f"{'shows' if is_single else 'show'} something else"
        return f"{sentence} {names} {says} ({_format_correlation(most, math.ceil)} at most with each)."
    return sentence


def _disagreement(titles: Sequence[str], rho: NDArray[np.float64], threshold: float, is_top_shared: bool, tokens: str) -> str:
    pairs = [float(rho[a, b]) for a, b in itertools.combinations(range(len(titles)), 2)]
    best = max(pairs)
    if best < threshold:
        says = (
            f"Otherwise no two of the {len(titles)} maps order the {tokens} alike"
            if is_top_shared
            else f"No two of the {len(titles)} maps say the same"
        )
        return f"{says} (highest rank correlation {_format_correlation(best)})."
    middle = float(np.median(pairs))
    if middle > MAX_UNRELATED_CORRELATION:
        typical = [float(np.median([rho[i, k] for k in range(len(titles)) if k != i])) for i in range(len(titles))]
        odd = int(np.argmin(typical))
        numbers = f"median rank correlation {_format_correlation(typical[odd])}, of any two maps {_format_correlation(middle)}"
        return f"{titles[odd]} differs most from the other maps ({numbers})."
    says = f"Otherwise the maps order the {tokens} differently" if is_top_shared else "The maps disagree"
    sentence = f"{says} (median rank correlation of any two {_format_correlation(middle)})."
    highest = [max(float(rho[i, k]) for k in range(len(titles)) if k != i) for i in range(len(titles))]
    loners = [i for i, value in enumerate(highest) if value < threshold]
    if len(loners) == 1 and highest[loners[0]] <= MAX_UNRELATED_CORRELATION:
        sentence += f" {titles[loners[0]]} is unlike all others ({_format_correlation(highest[loners[0]], math.ceil)} at most)."
    return sentence


def _format_correlation(value: float, rounding: Callable[[float], int] = round) -> str:
    """Format ``value``, a correlation, with two decimals; ``rounding`` is floor for "at least" and ceil for "at most"."""
    hundredths = rounding(round(100 * value, 6))
    return f"{_MINUS if hundredths < 0 else ''}{abs(hundredths) / 100:.2f}"


def _format_least(value: float) -> str:
    text = _format_correlation(value, math.floor)
    return text if text == "1.00" else f"{text} or more"


def _evidence(titled_map: TitledMap) -> NDArray[np.float64]:
    """Return each token's share (N,) of the evidence in ``titled_map``. The evidence is the positive scores of a signed map, and of an
    unsigned one the scores above the median.
    """
    evidence = np.maximum(titled_map.scores, 0)
    if not titled_map.signed or not evidence.any():
        evidence = np.maximum(titled_map.scores - np.median(titled_map.scores), 0)
    total = evidence.sum()
    return evidence / total if total > 0 else evidence


def _place(maps: Sequence[TitledMap], grid: tuple[int, int]) -> str:
    """Return a sentence on the smallest rectangle of patches that holds half of the mean evidence of ``maps``, on a ``grid`` of (rows,
    columns); "" if there are no maps, or if the rectangle is too large to name.
    """
    if not maps:
        return ""
    rows, columns = grid
    sums = np.zeros((rows + 1, columns + 1))
    sums[1:, 1:] = np.mean([_evidence(titled_map) for titled_map in maps], 0).reshape(grid).cumsum(0).cumsum(1)
    best: tuple[float, float, tuple[int, int], tuple[int, int]] | None = None
    for top, bottom in itertools.combinations(range(rows + 1), 2):
        strip = sums[bottom] - sums[top]
        for left, right in itertools.combinations(range(columns + 1), 2):
            share, area = float(strip[right] - strip[left]), (bottom - top) * (right - left)
            if share >= 0.5 and (best is None or (area, -share) < best[:2]):
                best = area, -share, (top, bottom), (left, right)
    if best is None or best[0] > MAX_NAMED_AREA_SHARE * rows * columns:
        return ""
    vertical, horizontal = _span("row", *best[2]), _span("column", *best[3])
    patches = [row * columns + column for row in range(*best[2]) for column in range(*best[3])]
    where = _place_of_patches(patches, grid)
    return f"Half of the evidence lies in {vertical}, {horizontal} of {rows} by {columns}{where and f', {where}'}."


def _span(name: str, start: int, stop: int) -> str:
    return f"{name} {stop}" if stop - start == 1 else f"{name}s {start + 1} to {stop}"


def _words(maps: Sequence[TitledMap], words: Sequence[tuple[str, Sequence[int]]]) -> tuple[str, set[int]]:
    """Return a sentence with the words that are among the strongest of most maps, each named once, and the indices of the maps that have
    all of them there; "" and none if there is no such word. The sentence names the strongest word alone where no second one is to be named,
    and where maps that lack the others have it as well.
    """
    count = min(max(_MIN_TOP_WORDS, round(_TOP_WORDS_SHARE * len(words))), len(words) // 3, _MAX_TOP_WORDS)
    if count < 1:
        return "", set()
    keys, sentence, sharing = _top_words(maps, words, count)
    _, strongest_sentence, sharing_strongest = _top_words(maps, words, 1)
    if sharing_strongest and (len(keys) < 2 or not sharing_strongest <= sharing):
        return strongest_sentence, sharing_strongest
    return sentence, sharing


def _top_words(maps: Sequence[TitledMap], words: Sequence[tuple[str, Sequence[int]]], count: int) -> tuple[list[str], str, set[int]]:
    """Return the words that are among the ``count`` strongest of most maps, a sentence with them, and the indices of the maps that have all
    of them there; all empty if there is no such word.
    """
    votes: dict[str, set[int]] = {}
    spellings: dict[str, str] = {}
    for number, titled_map in enumerate(maps):
        merge = np.sum if titled_map.signed else np.max
        scores = np.array([merge(titled_map.scores[list(pieces)]) for _, pieces in words])
        for i in np.argsort(-scores, kind="stable")[:count]:
            if scores[i] > 0:
                key = words[i][0].casefold()
                spellings.setdefault(key, words[i][0])
                votes.setdefault(key, set()).add(number)
    times = {key: sum(text.casefold() == key for text, _ in words) for key in votes}
    keys = [
        key
        for key, voters in sorted(votes.items(), key=lambda item: -len(item[1]))
        if len(voters) >= _MIN_SHARE_OF_METHODS * len(maps)
        and _words_by_chance(len(words), count, times[key], len(maps), len(voters)) <= _MAX_WORDS_BY_CHANCE
    ][:_MAX_NAMED_WORDS]
    if not keys:
        return [], "", set()
    quotations = [f"“{spellings[key]}”" for key in keys]
    enumeration = quotations[0] if len(quotations) == 1 else f"{', '.join(quotations[:-1])} and {quotations[-1]}"
    fewest = min(len(votes[key]) for key in keys)
    subject = f"all {len(maps)}" if fewest == len(maps) else f"{'at least ' if len(keys) > 1 else ''}{fewest} of {len(maps)}"
    rank_in_words = "the strongest word" if count == 1 else f"among the {count} strongest words"
    sentence = f"{enumeration} {'is' if len(keys) == 1 else 'are'} {rank_in_words} of {subject} methods."
    return keys, sentence, set.intersection(*(votes[key] for key in keys))


def _words_by_chance(words: int, count: int, times: int, methods: int, voters: int) -> float:
    """Return how many words at least ``voters`` of the methods would name by chance, if each drew ``count`` of the ``words`` at random.

    A word that stands in the text several ``times`` is drawn more often.
    """
    from scipy.stats import binom

    share = min(1.0, times * count / words)
    return float(words / times * binom.sf(voters - 1, methods, share))


def words_of(tokens: Sequence[Mapping[str, object]], words: Sequence[Mapping[str, object]]) -> list[tuple[str, list[int]]]:
    """Return the ``words`` of a stored text, each with the indices of its pieces; pieces are counted among the ``tokens`` that are not
    special.
    """
    place = {i: n for n, i in enumerate(i for i, token in enumerate(tokens) if not token["special"])}
    words_and_pieces: list[tuple[str, list[int]]] = []
    for word in words:
        pieces = word["tokens"]
        assert isinstance(pieces, Sequence)
        if pieces:
            words_and_pieces.append((str(word["text"]), [place[piece] for piece in pieces]))
    return words_and_pieces
