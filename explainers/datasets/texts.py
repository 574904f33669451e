"""Film reviews with their sentiment, and your own texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.parquet import Table
from explainers.datasets.registry import Folder, dataset

_SENTIMENT = ("negative", "positive")
_WORDS = {"neg": "negative", "pos": "positive"}


def _parquet_texts(data: Folder, files: list[Path], column: str) -> Dataset:
    """Return the data set of the texts in Parquet files of Hugging Face's datasets: ``column`` is the name of the column of texts; the
    column ``label`` holds 0 (negative) or 1.
    """
    table = Table(data, files, (column, "label"))

    def read(number: int) -> Sample:
        row = table.row(number)
        if not isinstance(row[column], str) or row["label"] not in range(len(_SENTIMENT)):
            raise data.error_for(files[0].parent, f"row {number + 1} must have a text, and a label that is 0 or 1, not {row['label']}")
        return Sample(name=str(number), text=_on_one_line(row[column]), labels=(_SENTIMENT[row["label"]],))

    return Dataset(kind="text", length=len(table), classes=_SENTIMENT, read=read)


def _on_one_line(text: str) -> str:
    """Return the text of a review with the line breaks of web pages replaced by spaces."""
    return " ".join(text.replace("<br />", " ").split())


@dataset(
    "imdb",
    title="IMDB reviews, test",
    kind="text",
    gives=("class",),
    layout="""
aclImdb/test/neg/0_2.txt ...
aclImdb/test/pos/0_10.txt ...
or, as Hugging Face has it:
plain_text/test-00000-of-00001.parquet
""",
    source=Citation(authors="Maas et al.", year=2011, title="Learning Word Vectors for Sentiment Analysis", venue="ACL"),
    get="https://ai.stanford.edu/~amaas/data/sentiment/",
)
def imdb(data: Folder) -> Dataset:
    """25,000 film reviews, negative or positive. Line breaks, which the files write as in a web page, become spaces.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    sources = data.find("aclImdb/test", "plain_text/test-*.parquet")
    if sources and sources[0].suffix == ".parquet":
        return _parquet_texts(data, sources, "text")
    folders = [data.need(f"aclImdb/test/{kind}") for kind in ("neg", "pos")]
    inside = [path for folder in folders for path in sorted(folder.iterdir())]
    files = [path for path in inside if path.suffix.lower() == ".txt"]
    if not files:
        data.need("aclImdb/test/neg/0_2.txt")
    unread = data.relative_names(path for path in inside if path not in set(files))

    def read(number: int) -> Sample:
        file = files[number]
        text = _on_one_line(" ".join(data.lines(file)))
        return Sample(name=f"{file.parent.name}/{file.stem}", text=text, labels=(_WORDS[file.parent.name],))

    return Dataset(kind="text", length=len(files), classes=_SENTIMENT, unread=unread, read=read)


@dataset(
    "sst-2",
    title="SST-2 validation (GLUE)",
    kind="text",
    gives=("class",),
    layout="""
SST-2/dev.tsv
or, as Hugging Face has it:
sst2/validation-00000-of-00001.parquet (of glue), or the same in data/ (of sst2)
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
    """872 sentences from film reviews, negative or positive.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    sources = data.find("SST-2/dev.tsv", "sst2/validation-*.parquet", "data/validation-*.parquet")
    if sources and sources[0].suffix == ".parquet":
        return _parquet_texts(data, sources, "sentence")
    path = data.need("SST-2/dev.tsv")
    rows = list(data.table(path, ("sentence", "label"), "\t"))
    if strange := {row["label"] for row in rows} - {"0", "1"}:
        raise data.error_for(path, f"labels must be 0 or 1, not {', '.join(sorted(map(str, strange)))}")
    return Dataset(
        kind="text",
        length=len(rows),
        classes=_SENTIMENT,
        read=lambda i: Sample(name=str(i), text=rows[i]["sentence"].strip(), labels=(_SENTIMENT[int(rows[i]["label"])],)),
    )


@dataset(
    "texts",
    title="A file of texts",
    kind="text",
    gives=("class", "rationale"),
    layout="""
a file .csv with the columns text and, if known, label
or .jsonl with objects of text and, if known, label and rationale: [[first character, character after the last], ...]
and in either text_pair, if a second text is read with each, in .jsonl with pair_rationale
""",
)
def texts(data: Folder) -> Dataset:
    """Texts of one's own, one for each row, or pairs of texts that are read together. The class, and the passages that people marked, are
    used where the file has them.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    path = data.path
    if path.suffix not in (".csv", ".jsonl"):
        raise data.error_for(path, "it must be a .csv or a .jsonl file")
    rows: list[dict[str, Any]] = list(data.table(path, ("text",))) if path.suffix == ".csv" else data.json_lines(path)

    def marks(number: int, key: str, text: str | None) -> tuple[tuple[int, int], ...] | None:
        marked = rows[number].get(key)
        if marked is None:
            return None
        try:
            spans = tuple((int(start), int(end)) for start, end in marked)
        except (TypeError, ValueError):
            raise data.error_for(path, f"row {number + 1}: {key} must be pairs of characters") from None
        if any(not 0 <= start < end <= len(text or "") for start, end in spans):
            raise data.error_for(path, f"row {number + 1}: a marked passage lies outside of the text")
        return spans

    def read(number: int) -> Sample:
        text, pair, label = (rows[number].get(key) for key in ("text", "text_pair", "label"))
        if not isinstance(text, str) or not text.strip():
            raise data.error_for(path, f"row {number + 1} has no text")
        if pair is not None and (not isinstance(pair, str) or not pair.strip()):
            raise data.error_for(path, f"row {number + 1} has an empty text_pair")
        if not isinstance(label, str | None):
            raise data.error_for(path, f"row {number + 1}: label must be the name of a class, in quotes, not {label}")
        return Sample(
            name=str(number),
            text=text,
            text_pair=pair,
            labels=(label,) if label else (),
            rationale=marks(number, "rationale", text),
            pair_rationale=marks(number, "pair_rationale", pair),
        )

    columns = {"class": ("label",), "rationale": ("rationale", "pair_rationale")}
    lacks = tuple(fact for fact, keys in columns.items() if not any(row.get(key) for row in rows for key in keys))
    return Dataset(kind="text", length=len(rows), lacks=lacks, read=read)
