"""``slices``: what many wrong or doubtful rows of a collection have in common, found, put in a sentence and tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explainers.collection.collect import make_setup
from explainers.collection.records import CollectedMap, CollectedRow
from explainers.collection.result import Collection, open_collection
from explainers.collection.slices.clusters import place_in_words
from explainers.collection.slices.kept_tests import KeptTests
from explainers.collection.slices.records import Slice, SliceExample, SliceKind, Slices
from explainers.collection.slices.search import FoundSlice, SearchedRows, corrected_again, find
from explainers.collection.sources import sources_of
from explainers.errors import ExplainerError
from explainers.evaluation.statistics import ALPHA
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from explainers.collection.rows import CollectionSetup
    from explainers.datasets import Dataset

MOST_ASKED = 100  # rows of a slice in the test
EXAMPLES = 10
OFF_OBJECT_BELOW = 0.5  # share of the evidence that is on the object
#: What is said of the rows of each kind after what they are answered.
_MORE_IN_WORDS: dict[SliceKind, str] = {
    "wrong": "",
    "right_off_object": ", with most of their evidence off the object,",
    "right_at_border": ", with more of their evidence at the border than chance,",
    "right": "",
}
#: A callback that gets how many rows were asked again, and of how many.
SlicesProgress = Callable[[int, int], None]


def slices(
    collection: Collection | Path | str,
    model: Any = None,
    data: str | Path | Dataset | None = None,
    *,
    method: str | None = None,
    seed: int = 0,
    kept: Path | None = None,
    progress: SlicesProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Slices:
    """Find what many rows of a collection have in common that are wrong, or right with most of the evidence off the object: a place in the
    picture or a word. Returns the :class:`Slices`.

    collection  a finished collection with labels, of pictures or texts, or its folder
    model       the model that it was made of, in any form that :func:`explain` takes, which is asked again: about rows of each slice
                without what the slice names, and about others with it. A place or word that does not carry the answer over is left out.
                None: slices are found but not tested
    data        the inputs, as for :func:`collect`; None: where the collection says that they lie
    method      the spec of the maps; None: the first method of the collection
    seed        of the halves, clusters and random choices
    kept        a file in which the tests are kept as they are done: a stopped search goes on from there. None: they are not
    progress    called with the number of rows that were asked again, each of them by two tests, and that of all
    cancelled   asked between passes; when true, :class:`explainers.Cancelled` is raised

    docs/collection.md says how slices are found and tested. Raises ExplainerError for a collection without labels or of molecules, and for
    another model or other data than those of the collection.
    """
    finished = collection if isinstance(collection, Collection) else open_collection(Path(collection))
    spec = check_searchable(finished, method)
    setup = None if model is None else open_setup(finished, model, data, seed, cancelled)
    rows = searched_rows(finished, spec)
    candidates, tried = find(rows, seed)
    examples = _read(finished, {int(i) for each in candidates for i in _first(each, rows, EXAMPLES)})
    described = [_described(each, rows, examples) for each in candidates]
    if setup is not None:
        settings = [str(finished.about["weights_digest"]), spec, str(seed), str(len(rows.index))]
        tests = KeptTests(kept, [*settings, *(each.sentence for each in described)])
        described = _tested(setup, finished, candidates, described, rows, tests, progress)
        larger = [
            each.p if tested.copy_test is None else max(each.p, tested.copy_test.p)
            for each, tested in zip(candidates, described, strict=True)
        ]
        described = [replace(each, p=p) for each, p in zip(described, corrected_again(larger, tried), strict=True)]
    sure = [each for each in described if each.p < ALPHA]
    return Slices(
        model=str(finished.about["model"]),
        data=str(finished.about["data"]),
        method=spec,
        inputs=len(rows.index),
        left_out=len(finished) - len(rows.index),
        wrong=int((~rows.right).sum()),
        doubtful=int((rows.doubtful if rows.grid is None else rows.right).sum()),  # in pictures all are, for shared places
        tried=tried,
        without_effect=len(described) - len(sure),
        slices=sorted(sure, key=lambda each: -len(each.rows)),
    )


def check_searchable(collection: Collection, method: str | None = None) -> str:
    """Return the spec of the maps that are searched: ``method``, or the first of the collection. Raises ExplainerError for maps that it
    does not have, and for molecules.
    """
    methods = collection.about["methods"]
    if method is not None and method not in methods:
        raise ExplainerError(f"{collection.folder} has no maps of {method}; it has {', '.join(methods)}.")
    if collection.about["input_kind"] == "molecule":
        raise ExplainerError("Slices are found in collections of pictures and of texts, not of molecules.")
    return str(method or methods[0])


@dataclass
class _Columns:
    """The columns of the rows that are searched, as they are read."""

    index: list[int] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)
    on_object: list[float] = field(default_factory=list)  # NaN without one
    on_border: list[float] = field(default_factory=list)  # less the share of the patches that are on it
    grids: list[tuple[int, ...]] = field(default_factory=list)
    shares: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = field(default_factory=list)
    maps: list[list[float]] = field(default_factory=list)
    words: list[frozenset[str]] = field(default_factory=list)


def searched_rows(collection: Collection, method: str) -> SearchedRows:
    """Read the rows that can be searched into memory: those with a label whose map by ``method`` has a positive score; of pictures those
    with the grid of patches that most have. Raises ExplainerError if there is none.
    """
    columns = _Columns()
    for row in collection:
        if row.right is not None:
            _add(columns, row, row.map(method))
    if not columns.index:
        raise ExplainerError(f"No row of {collection.folder} is right or wrong: slices need the labels of the inputs.")
    grid = Counter(columns.grids).most_common(1)[0][0]
    kept = [i for i, each in enumerate(columns.grids) if each == grid]
    right = np.array(columns.right)[kept]
    on_object, on_border = np.array(columns.on_object)[kept], np.array(columns.on_border)[kept]
    has_objects = bool(np.isfinite(on_object).any())
    kind: SliceKind = "right_off_object" if has_objects else "right_at_border" if grid else "right"
    suspect = on_object < OFF_OBJECT_BELOW if has_objects else on_border > 0 if grid else np.ones(len(kept), bool)
    return SearchedRows(
        index=np.array(columns.index)[kept],
        answer=np.array(columns.answer)[kept],
        right=right,
        suspect=suspect,
        kind=kind,
        grid=(grid[0], grid[1]) if grid else None,
        shares=np.stack([columns.shares[i] for i in kept]) if grid else np.zeros((len(kept), 0)),
        maps=np.array([columns.maps[i] for i in kept], np.float64) if grid else np.zeros((len(kept), 0)),
        words=[] if grid else [columns.words[i] for i in kept],
    )


def _add(columns: _Columns, row: CollectedRow, each: CollectedMap) -> None:
    """Add a row to the columns, unless its map has no positive score."""
    positive = np.maximum(np.array(each.scores, np.float64), 0)
    if not positive.any():
        return
    columns.index.append(row.index)
    columns.answer.append(row.answer)
    columns.right.append(bool(row.right))
    columns.on_object.append(np.nan if each.share_on_object is None else each.share_on_object)
    columns.grids.append(tuple(row.grid))
    if row.grid:
        height, width = row.grid
        area = 1 - max(0, height - 2) * max(0, width - 2) / (height * width)
        columns.on_border.append((each.share_on_border or 0.0) - area)
        columns.shares.append(positive / positive.sum())
        columns.maps.append(each.embedding)
    else:
        columns.on_border.append(np.nan)
        columns.words.append(frozenset(row.words[i].text.casefold() for i in each.top))


def _first(candidate: FoundSlice, rows: SearchedRows, count: int) -> list[int]:
    """Return the indices of the first ``count`` rows of a slice: in pictures those with the largest share at its place."""
    places = np.flatnonzero(candidate.rows)
    if len(candidate.patches):
        places = places[np.argsort(-rows.shares[places][:, candidate.patches].sum(1), kind="stable")]
    return [int(index) for index in rows.index[places[:count]]]


def _described(candidate: FoundSlice, rows: SearchedRows, read: dict[int, CollectedRow]) -> Slice:
    """Return the record of a slice, without a test."""
    place = None if rows.grid is None else place_in_words(candidate.patches, rows.grid)
    indices = [int(index) for index in rows.index[candidate.rows]]
    of = int(candidate.group.sum())
    how = "wrong" if candidate.kind == "wrong" else "right"
    whose = f"{how} rows" if candidate.answer is None else f"rows {how}ly answered “{candidate.answer}”"
    whose += _MORE_IN_WORDS[candidate.kind]
    if candidate.word is not None:
        what = f"stand on the word “{candidate.word}”"
    else:
        where = f"in patches that lie {place}" if (place or "").startswith("mostly") else place
        what = f"have at least {candidate.threshold:.0%} of their evidence {where}".replace("%", " %")
    examples = [read[index] for index in _first(candidate, rows, EXAMPLES)]
    return Slice(
        sentence=f"{len(indices)} of {of} {whose} {what}.",
        kind=candidate.kind,
        answer=candidate.answer,
        word=candidate.word,
        place=place,
        patches=[int(patch) for patch in candidate.patches],
        threshold=candidate.threshold,
        rows=indices,
        of=of,
        share=candidate.share,
        others=candidate.others,
        p=candidate.corrected,
        examples=[SliceExample(row.index, row.input, row.answer) for row in examples],
        test=None,
        copy_test=None,
    )


def open_setup(
    collection: Collection,
    model: Any,
    data: str | Path | Dataset | None = None,
    seed: int = 0,
    cancelled: Callable[[], bool] | None = None,
) -> CollectionSetup:
    """Open the model and the data of a collection, to ask again about its rows; arguments as for :func:`slices`. Raises ExplainerError if
    they are others.
    """
    from explainers.collection.running import data_digest, usual_batch

    about, sources = collection.about, sources_of(collection.about)
    opened = model_of(model)
    if opened.weights_digest != about.get("weights_digest"):
        raise ExplainerError(
            f"{collection.folder} was made of other weights than those of {opened.name}: name the model that it was made of."
        )
    if data is None and sources is None:
        raise ExplainerError(f"{collection.folder} does not say where its inputs lie: name the data.")
    setup = make_setup(
        opened,
        sources.open() if data is None and sources is not None else data or "",
        about["methods"],
        prompts=about["prompts"],
        labels=False,
        seed=seed,
        cancelled=cancelled,
    )
    if not collection.broken and data_digest(setup) != about["data_digest"]:
        raise ExplainerError(f"{setup.data.name} holds other inputs than {collection.folder} was made of: name its data.")
    return replace(setup, how=about["how"], batch=usual_batch(setup))


def _tested(
    setup: CollectionSetup,
    collection: Collection,
    candidates: Sequence[FoundSlice],
    described: Sequence[Slice],
    rows: SearchedRows,
    kept: KeptTests,
    progress: SlicesProgress | None,
) -> list[Slice]:
    """Return the slices with their tests, each on up to a hundred of its rows in the half that the search did not see.

    Those in ``kept`` are not done again. ``progress`` counts each row twice: with what the slice names in others, and without it.
    """
    from explainers.collection.slices.copying import copy_place, copy_word
    from explainers.collection.slices.hiding import hide_place, hide_word

    rng = np.random.default_rng(setup.seed)
    chosen = [np.sort(rng.permutation(rows.index[each.rows & each.unseen])[:MOST_ASKED]).tolist() for each in candidates]
    read = _read(collection, {index for each in chosen for index in each})
    written = {} if rows.grid else {row.index: {word.text.casefold() for word in row.words} for row in collection}
    total, before = 2 * sum(map(len, chosen)), 0
    tested: list[Slice] = []
    for number, (each, record, indices) in enumerate(zip(candidates, described, chosen, strict=True)):

        def copied(count: int, before: int = before) -> None:
            if progress is not None:
                progress(before + count, total)

        def hidden(count: int, before: int = before + len(indices)) -> None:
            if progress is not None:
                progress(before + count, total)

        copied(0)
        if (tests := kept.find(number)) is None:
            hidden_rows = [read[index] for index in indices]
            takers = [(int(rows.index[i]), str(rows.answer[i])) for i in np.flatnonzero(each.unseen)]
            if each.word is not None:
                takers = [taker for taker in takers if each.word not in written[taker[0]]]
                copy_test = copy_word(setup, hidden_rows, each.word, takers, copied)
                tests = hide_word(setup, hidden_rows, each.word, hidden), copy_test
            else:
                copy_test = copy_place(setup, hidden_rows, each.patches, takers, copied)
                tests = hide_place(setup, hidden_rows, each.patches, hidden), copy_test
            kept.add(number, tests)
        tested.append(replace(record, test=tests[0], copy_test=tests[1]))
        before += 2 * len(indices)
    return tested


def _read(collection: Collection, indices: set[int]) -> dict[int, CollectedRow]:
    """Return the rows of a collection with these indices."""
    return {row.index: row for row in collection if row.index in indices} if indices else {}
