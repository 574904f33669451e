"""Texts with their class, some with the words that people marked as reasons."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.registry import Folder, dataset
from explainers.papers import ERASER

_SENTIMENT = ("negative", "positive")
_WORDS = {"NEG": "negative", "POS": "positive", "neg": "negative", "pos": "positive", "0": "negative", "1": "positive"}


@dataset(
    "eraser-movies",
    title="ERASER movie reviews",
    kind="text",
    gives=("class", "rationale"),
    layout="""
movies/test.jsonl
movies/docs/negR_900.txt ...
""",
    source=ERASER,
    get="https://www.eraserbenchmark.com",
)
def eraser_movies(data: Folder) -> Dataset:
    """The 199 reviews of the test split with the passages that people marked as the reasons for their sentiment; the passages of all
    groups of evidence together are the rationale.
    """
    listing = data.need("movies/test.jsonl")
    documents = data.need("movies/docs")
    rows = data.json_lines(listing)

    def read(number: int) -> Sample:
        row = rows[number]
        try:
            name, label = str(row["annotation_id"]), _WORDS[row["classification"]]
            evidence = [(int(span["start_token"]), int(span["end_token"])) for group in row["evidences"] for span in group]
        except (KeyError, TypeError, ValueError) as problem:
            raise data.error_for(listing, f"line {number + 1}: {problem} is missing or wrong") from None
        path = data.need(f"movies/docs/{name}")
        tokens = " ".join(data.lines(path)).split()
        starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))
        if any(not 0 <= start < end <= len(tokens) for start, end in evidence):
            raise data.error_for(listing, f"the evidence for {name} lies outside of {documents / name}, which has {len(tokens)} tokens")
        spans = tuple((starts[start], starts[end] - 1) for start, end in evidence)
        return Sample(name=name, text=" ".join(tokens), labels=(label,), rationale=spans)

    return Dataset(name="eraser-movies", kind="text", length=len(rows), classes=_SENTIMENT, read=read)


@dataset(
    "imdb",
    title="IMDB reviews, test",
    kind="text",
    gives=("class",),
    layout="""
aclImdb/test/neg/0_2.txt ...
aclImdb/test/pos/0_10.txt ...
""",
    source=Citation(authors="Maas et al.", year=2011, title="Learning Word Vectors for Sentiment Analysis", venue="ACL"),
    get="https://ai.stanford.edu/~amaas/data/sentiment/",
)
def imdb(data: Folder) -> Dataset:
    """25,000 film reviews, negative or positive. Line breaks, which the files write as in a web page, become spaces."""
    folders = [data.need(f"aclImdb/test/{kind}") for kind in ("neg", "pos")]
    inside = [path for folder in folders for path in sorted(folder.iterdir())]
    files = [path for path in inside if path.suffix.lower() == ".txt"]
    if not files:
        data.need("aclImdb/test/neg/0_2.txt")
    unread = data.relative_names(path for path in inside if path not in set(files))

    def read(number: int) -> Sample:
        file = files[number]
        text = " ".join(" ".join(data.lines(file)).replace("<br />", " ").split())
        return Sample(name=f"{file.parent.name}/{file.stem}", text=text, labels=(_WORDS[file.parent.name],))

    return Dataset(name="imdb", kind="text", length=len(files), classes=_SENTIMENT, unread=unread, read=read)


@dataset(
    "sst-2",
    title="SST-2 validation (GLUE)",
    kind="text",
    gives=("class",),
    layout="""
SST-2/dev.tsv
""",
    source=Citation(
        authors="Socher et al.",
        year=2013,
        title="Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank",
        venue="EMNLP",
    ),
    get="https://gluebenchmark.com/tasks",
)
def sst2(data: Folder) -> Dataset:
    """872 sentences from film reviews, negative or positive."""
    path = data.need("SST-2/dev.tsv")
    rows = list(data.table(path, ("sentence", "label"), "\t"))
    if strange := {row["label"] for row in rows} - {"0", "1"}:
        raise data.error_for(path, f"labels must be 0 or 1, not {', '.join(sorted(map(str, strange)))}")
    return Dataset(
        name="sst-2",
        kind="text",
        length=len(rows),
        classes=_SENTIMENT,
        read=lambda i: Sample(name=str(i), text=rows[i]["sentence"].strip(), labels=(_WORDS[rows[i]["label"]],)),
    )


@dataset(
    "texts",
    title="A file of texts",
    kind="text",
    gives=("class", "rationale"),
    layout="""
a file .csv with the columns text and, if known, label
or .jsonl with objects of text and, if known, label and rationale: [[first character, character after the last], ...]
""",
)
def texts(data: Folder) -> Dataset:
    """Texts of one's own, one a row, with their class and the passages that people marked where these are known."""
    path = data.path
    if path.suffix not in (".csv", ".jsonl"):
        raise data.error_for(path, "it must be a .csv or a .jsonl file")
    rows: list[dict[str, Any]] = list(data.table(path, ("text",))) if path.suffix == ".csv" else data.json_lines(path)

    def read(number: int) -> Sample:
        row = rows[number]
        text, label, marked = row.get("text"), row.get("label"), row.get("rationale")
        if not isinstance(text, str) or not text.strip():
            raise data.error_for(path, f"row {number + 1} has no text")
        spans = None
        if marked is not None:
            try:
                spans = tuple((int(start), int(end)) for start, end in marked)
            except (TypeError, ValueError):
                raise data.error_for(path, f"row {number + 1}: rationale must be pairs of characters") from None
            if any(not 0 <= start < end <= len(text) for start, end in spans):
                raise data.error_for(path, f"row {number + 1}: a marked passage lies outside of the text")
        if not isinstance(label, str | None):
            raise data.error_for(path, f"row {number + 1}: label must be the name of a class, in quotes, not {label}")
        return Sample(name=str(number), text=text, labels=(label,) if label else (), rationale=spans)

    return Dataset(name="texts", kind="text", length=len(rows), read=read)
