"""What is asked about the inside of models of images, and what is answered: a cosine by head, one head less, outlier tokens."""

from __future__ import annotations

from pydantic import Field

from server.schemas.base import Grid, Schema
from server.schemas.explanations import OutlierPatches
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


class RegisterNeurons(Schema):
    """The neurons of MLPs whose activations are large at outlier tokens."""

    weights_digest: str
    pictures: str = Field(description="Over which they were looked for.")
    seen: int = Field(description="How many pictures.")
    counted: int = Field(description="How many of them have an outlier token.")
    block: int = Field(description="Counted from 0: the norms of what it gives tell outlier tokens.")
    threshold: float | None = Field(description="The norm above which a token is one; null where none stands apart.")
    neurons: list[tuple[int, int]] = Field(description="Block and neuron, the strongest first.")


class RegistersRequest(Schema):
    """Nothing but the explanation."""


class Registers(Study):
    """What is known of a model's outlier tokens, and of the neurons that make them."""

    known: RegisterNeurons
    says: str = Field(description="What was found, in a sentence.")
    can_move: bool = Field(description="Whether the model can be explained without them: outlier_tokens=move.")
    outliers: OutlierPatches | None = Field(description="Those of this picture; null where no norm stands apart.")
