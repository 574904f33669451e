"""Data sets of the ERASER benchmark: texts with the passages that people marked as the reasons for a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.errors import ExplainerError
from explainers.papers import ERASER

Spans = tuple[tuple[int, int], ...]

_GET = "https://www.eraserbenchmark.com"
_SPLITS = ("test", "val", "train")
_LAYOUT = """
{name}/test.jsonl (with --split val or train: {name}/val.jsonl, {name}/train.jsonl)
{name}/{documents}
"""
_SENTIMENT = {"NEG": "negative", "POS": "positive"}
_ENTAILMENT = ("entailment", "neutral", "contradiction")
_ANSWERS = ("False", "True")


class Annotations:
    """One split of the data set ``name`` in the folder ``data``, in the format of the benchmark ERASER: its rows, counted from 0, and the
    documents that they are about, a file each or the lines of ``docs.jsonl``.

    Every method raises ExplainerError, with the file and the line, for what is missing or wrong.
    """

    def __init__(self, data: Folder, name: str) -> None:
        self._data = data
        self._listing = data.need(*(f"{name}/{split}.jsonl" for split in data.splits))
        self._documents = data.need(f"{name}/docs.jsonl", f"{name}/docs")
        self.split = self._listing.stem
        self._rows = data.json_lines(self._listing)
        self._texts = self._read_texts() if self._documents.is_file() else None

    def __len__(self) -> int:
        return len(self._rows)

    def name(self, number: int) -> str:
        """Return the id that the benchmark gives to row ``number``."""
        return str(self._field(number, "annotation_id"))

    def label(self, number: int, names: Mapping[str, str]) -> str:
        """Return the class of row ``number``; ``names`` maps the words in the file to names of classes."""
        written = str(self._field(number, "classification"))
        if written not in names:
            raise self._error(number, f"the classification {written!r} is none of {', '.join(names)}")
        return names[written]

    def question(self, number: int) -> str:
        """Return the question that row ``number`` asks about its document."""
        return str(self._field(number, "query"))

    def document_of(self, number: int) -> str:
        """Return the name of the one document that row ``number`` is about."""
        named = self._rows[number].get("docids") or dict.fromkeys(document for document, *_ in self._evidence(number))
        if len(named) != 1:
            raise self._error(number, f"it must be about one document, and names {', '.join(named) or 'none'}")
        return str(next(iter(named)))

    def texts(self, number: int, documents: Sequence[str]) -> list[tuple[str, Spans]]:
        """Return each of the ``documents`` of row ``number`` as text with single spaces between its tokens, and the spans of characters
        that any group of evidence marks in it.
        """
        evidence = self._evidence(number)
        if strange := {document for document, *_ in evidence} - set(documents):
            raise self._error(number, f"the evidence names {', '.join(sorted(strange))}, not {' or '.join(documents)}")
        texts = []
        for document in documents:
            tokens = self._tokens(document)
            spans = [(start, end) for named, start, end in evidence if named == document]
            if any(not 0 <= start < end <= len(tokens) for start, end in spans):
                raise self._error(number, f"the evidence lies outside of {document}, which has {len(tokens)} tokens")
            starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))
            texts.append((" ".join(tokens), tuple((starts[start], starts[end] - 1) for start, end in spans)))
        return texts

    def _evidence(self, number: int) -> list[tuple[str, int, int]]:
        """Return every marked passage of row ``number`` as (name of the document, index of its first token, index after its last token)."""
        try:
            return [
                (str(span["docid"]), int(span["start_token"]), int(span["end_token"]))
                for group in self._field(number, "evidences")
                for span in group
            ]
        except (KeyError, TypeError, ValueError) as problem:
            raise self._error(number, f"{problem} is missing or wrong in the evidence") from None

    def _field(self, number: int, key: str) -> Any:
        if key not in self._rows[number]:
            raise self._error(number, f"'{key}' is missing")
        return self._rows[number][key]

    def _tokens(self, document: str) -> list[str]:
        if self._texts is None:
            path = self._data.need((self._documents / document).relative_to(self._data.path).as_posix())
            return " ".join(self._data.lines(path)).split()
        if not (tokens := self._texts.get(document, "").split()):
            raise self._data.error_for(self._documents, f"it has no document {document}, or an empty one")
        return tokens

    def _read_texts(self) -> dict[str, str]:
        try:
            return {str(row["docid"]): str(row["document"]) for row in self._data.json_lines(self._documents)}
        except KeyError as problem:
            raise self._data.error_for(self._documents, f"a line lacks {problem}") from None

    def _error(self, number: int, why: str) -> ExplainerError:
        return self._data.error_for(self._listing, f"line {number + 1}: {why}")


@dataset(
    "eraser-movies",
    title="ERASER movie reviews",
    kind="text",
    gives=("class", "rationale"),
    layout=_LAYOUT.format(name="movies", documents="docs/negR_900.txt ..."),
    source=ERASER,
    get=_GET,
    splits=_SPLITS,
)
def eraser_movies(data: Folder) -> Dataset:
    """The 199 reviews of the test split with the passages that people marked as the reasons for their sentiment; the passages of all groups
    of evidence together are the rationale.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    rows = Annotations(data, "movies")

    def read(number: int) -> Sample:
        name, label = rows.name(number), rows.label(number, _SENTIMENT)
        ((text, spans),) = rows.texts(number, [name])
        return Sample(name=name, text=text, labels=(label,), rationale=spans)

    classes = tuple(_SENTIMENT.values())
    return Dataset(kind="text", length=len(rows), classes=classes, split=rows.split, read=read)


@dataset(
    "eraser-esnli",
    title="ERASER e-SNLI",
    kind="text",
    gives=("class", "rationale"),
    layout=_LAYOUT.format(name="esnli", documents="docs.jsonl"),
    source=Citation(
        authors="Camburu et al.",
        year=2018,
        title="e-SNLI: Natural Language Inference with Natural Language Explanations",
        venue="NeurIPS",
        arxiv="1812.01193",
    ),
    get=_GET,
    splits=_SPLITS,
)
def eraser_esnli(data: Folder) -> Dataset:
    """Pairs of sentences, read together: does the first entail the second, contradict it, or neither? The words that people marked may be
    in either. Models number the three classes differently, so the model must name them.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    rows = Annotations(data, "esnli")

    def read(number: int) -> Sample:
        name, label = rows.name(number), rows.label(number, dict(zip(_ENTAILMENT, _ENTAILMENT, strict=True)))
        (premise, marked), (hypothesis, marked_too) = rows.texts(number, [f"{name}_premise", f"{name}_hypothesis"])
        return Sample(name=name, text=premise, rationale=marked, text_pair=hypothesis, pair_rationale=marked_too, labels=(label,))

    return Dataset(kind="text", length=len(rows), split=rows.split, read=read)


@dataset(
    "eraser-boolq",
    title="ERASER BoolQ",
    kind="text",
    gives=("class", "rationale"),
    layout=_LAYOUT.format(name="boolq", documents="docs/AA_wiki_00_0 ..."),
    source=Citation(
        authors="Clark et al.",
        year=2019,
        title="BoolQ: Exploring the Surprising Difficulty of Natural Yes/No Questions",
        venue="NAACL",
        arxiv="1905.10044",
    ),
    get=_GET,
    splits=_SPLITS,
)
def eraser_boolq(data: Folder) -> Dataset:
    """Questions, each read together with an article of Wikipedia that answers it with yes (``True``) or no (``False``). The words of the
    article are marked; nobody was asked about those of the question, so metrics of marked words leave these out.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    rows = Annotations(data, "boolq")

    def read(number: int) -> Sample:
        label = rows.label(number, dict(zip(_ANSWERS, _ANSWERS, strict=True)))
        ((article, marked),) = rows.texts(number, [rows.document_of(number)])
        return Sample(name=rows.name(number), text=rows.question(number), text_pair=article, pair_rationale=marked, labels=(label,))

    return Dataset(kind="text", length=len(rows), classes=_ANSWERS, split=rows.split, read=read)
