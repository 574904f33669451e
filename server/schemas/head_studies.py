"""What is asked about the heads of a model of images and prompts, and what is answered: shares of a cosine, words, one head less."""

from __future__ import annotations

from pydantic import Field

from server.schemas.base import Grid, Schema
from server.schemas.studies import TARGET, Study


class SimilarityRequest(Schema):
    """Whose cosine to take apart."""

    target: str | None = TARGET


class WithoutHeadRequest(SimilarityRequest):
    """Which head to take away."""

    block: int = Field(ge=0, description="Counted from 0.")
    head: int = Field(ge=0, description="Counted from 0.")


class HeadText(Schema):
    """A text that says what differs in what a head adds."""

    text: str
    share: float = Field(description="Of the variance of what the head adds over the pictures, what lies along this text.")


class SimilarityHead(Schema):
    """What a head adds."""

    total: float
    scores: list[float] = Field(description="Of the patches in raster order.")
    outside: float = Field(description="Of the tokens that stand for no patch.")
    words: list[HeadText] | None = Field(description="What it looks for; empty where it adds the same to every picture; null: not known.")
    spread: float | None = Field(description="How far what it adds is from its mean over pictures; null: not known.")


class SimilarityBlock(Schema):
    """What a block adds."""

    block: int
    mlp: float = Field(description="What its MLP adds.")
    heads: list[SimilarityHead]


class SimilarityDecomposition(Study):
    """The cosine with a prompt, or the difference of two: the sum of ``start``, and of the MLPs and heads of all blocks, to rounding."""

    target: str
    cosine: float
    grid: Grid
    start: float = Field(description="What the classification token adds as it is before block 1.")
    blocks: list[SimilarityBlock]
    pictures: str | None = Field(description="Over which the words were chosen.")
    texts: int | None = Field(description="From how many they were chosen.")


class PromptWithoutHead(Schema):
    """The cosine with a prompt."""

    prompt: str
    before: float
    without: float


class WithoutHead(Study):
    """The model asked again with one head giving nothing."""

    target: str
    block: int
    head: int
    cosine: float = Field(description="Before.")
    direct: float = Field(description="Before, less what the head adds directly.")
    without: float = Field(description="What the model says without it, later blocks included.")
    prompts: list[PromptWithoutHead]
