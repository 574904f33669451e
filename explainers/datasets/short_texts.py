"""Tweets and utterances with a class each, of TweetEval and SILICONE."""

from __future__ import annotations

from pathlib import Path

from explainers.citation import Citation
from explainers.datasets.base import Dataset, Sample
from explainers.datasets.registry import Folder, dataset

TWEETEVAL = Citation(
    authors="Barbieri et al.",
    year=2020,
    title="TweetEval: Unified Benchmark and Comparative Evaluation for Tweet Classification",
    venue="Findings of EMNLP",
    arxiv="2010.12421",
)
SILICONE = Citation(
    authors="Chapuis et al.",
    year=2020,
    title="Hierarchical Pre-training for Sequence Labelling in Spoken Dialog",
    venue="Findings of EMNLP",
    arxiv="2009.11152",
)
_TWEETS = "https://github.com/cardiffnlp/tweeteval"
_UTTERANCES = "https://github.com/eusip/SILICONE-benchmark"


def _tweets(data: Folder, task: str) -> Dataset:
    """Return the test tweets of one ``task`` of TweetEval: a tweet and the number of its class on a line of each of two files."""
    names, labels, texts = (data.need(f"datasets/{task}/{file}") for file in ("mapping.txt", "test_labels.txt", "test_text.txt"))
    numbers, classes = zip(*((*line.split("\t", 1), "")[:2] for line in data.lines(names)), strict=True)
    if list(numbers) != [str(number) for number in range(len(classes))] or not all(classes):
        raise data.error_for(names, "a line must be the number of a class, counted from 0, a tab, and its name")
    given, tweets = data.lines(labels), data.lines(texts)
    if len(given) != len(tweets):
        raise data.error_for(labels, f"it has {len(given)} lines, and there are {len(tweets)} tweets")
    return _classified(data, labels, tweets, [label.strip() for label in given], dict(zip(numbers, map(str.strip, classes), strict=True)))


def _utterances(data: Folder, folder: str) -> Dataset:
    """Return the test utterances of one ``folder`` of SILICONE with their sentiment, in lower case."""
    path = data.need(f"{folder}/test.csv")
    rows = list(data.table(path, ("Utterance", "Sentiment")))
    sentiments = {name: name for name in ("negative", "neutral", "positive")}
    return _classified(data, path, [row["Utterance"] for row in rows], [row["Sentiment"].lower() for row in rows], sentiments)


def _classified(data: Folder, path: Path, texts: list[str], labels: list[str], classes: dict[str, str]) -> Dataset:
    """Return the data set of ``texts`` whose ``labels``, read from ``path``, are keys of ``classes``, the names of the classes."""
    if strange := set(labels) - classes.keys():
        raise data.error_for(path, f"labels must be {', '.join(classes)}, not {', '.join(sorted(strange))}")

    def read(number: int) -> Sample:
        return Sample(name=str(number), text=" ".join(texts[number].split()), labels=(classes[labels[number]],))

    return Dataset(kind="text", length=len(texts), classes=tuple(classes.values()), read=read)


@dataset(
    "tweet-emotion",
    title="TweetEval, emotion",
    kind="text",
    gives=("class",),
    layout="datasets/emotion/mapping.txt, test_labels.txt, test_text.txt",
    source=TWEETEVAL,
    get=_TWEETS,
)
def tweet_emotion(data: Folder) -> Dataset:
    """1,421 tweets of anger, joy, optimism or sadness.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _tweets(data, "emotion")


@dataset(
    "tweet-hate",
    title="TweetEval, hate",
    kind="text",
    gives=("class",),
    layout="datasets/hate/mapping.txt, test_labels.txt, test_text.txt",
    source=TWEETEVAL,
    get=_TWEETS,
)
def tweet_hate(data: Folder) -> Dataset:
    """2,970 tweets, with hate against women or immigrants or without.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _tweets(data, "hate")


@dataset(
    "tweet-sentiment",
    title="TweetEval, sentiment",
    kind="text",
    gives=("class",),
    layout="datasets/sentiment/mapping.txt, test_labels.txt, test_text.txt",
    source=TWEETEVAL,
    get=_TWEETS,
)
def tweet_sentiment(data: Folder) -> Dataset:
    """12,284 tweets, negative, neutral or positive.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _tweets(data, "sentiment")


@dataset(
    "meld-s",
    title="MELD, sentiment (SILICONE)",
    kind="text",
    gives=("class",),
    layout="meld/test.csv, with the columns Utterance and Sentiment",
    source=SILICONE,
    get=_UTTERANCES,
)
def meld_sentiment(data: Folder) -> Dataset:
    """2,610 lines of the series Friends, negative, neutral or positive.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _utterances(data, "meld")


@dataset(
    "semaine",
    title="SEMAINE, sentiment (SILICONE)",
    kind="text",
    gives=("class",),
    layout="sem/test.csv, with the columns Utterance and Sentiment",
    source=SILICONE,
    get=_UTTERANCES,
)
def semaine(data: Folder) -> Dataset:
    """878 utterances of people and of agents who try to raise emotions, negative, neutral or positive.

    ``data`` is the folder that holds the files of the data set. Returns the :class:`Dataset`.
    """
    return _utterances(data, "sem")
