"""Studies: what is asked about a finished explanation, or about words in a sentence, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field

from explainers.analysis.interactions.faithful import BUDGET, MOST_BUDGET, PARTS
from explainers.analysis.target_output import FollowedNumber
from explainers.models.removal.ways import HowOfPages
from server.schemas.base import Grid, Schema, absent
from server.schemas.explanations import Map, ModelInput, Target

MOST_TOKENS = 100_000
MOST_STEPS = 100
MOST_GROUPS, MOST_WORDS = 4, 30
MOST_CHARS = 1000  # of the template of a probe
#: Shares of the tokens that are gone, where nobody says otherwise: those of the papers, and more at both ends, where curves bend most.
FRACTIONS = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1)

_Share = Annotated[float, Field(ge=0, le=1)]
_Tokens = Annotated[list[int], Field(max_length=MOST_TOKENS)]
TARGET: Any = Field(None, max_length=2000, description="The label of a target of the explanation; none: the first.")


class Study(Schema):
    """An answer about an explanation."""

    id: str = Field(description="Of the explanation.")
    notes: list[str] = Field(description="What a person should know.")


class DeletionQuestion(Schema):
    """With none of ``remove``, ``keep``, ``fraction`` and ``replace``: the curves of the methods. With one of them: one answer."""

    target: str | None = Field(None, max_length=1000, description="The label of one of the explained targets; none: the first.")
    methods: list[str] | None = Field(None, min_length=1, max_length=64, description="Curves: specs of maps of the explanation; none: all.")
    order: Literal["most", "least"] | None = Field(
        None, description="Which tokens go first: the most or the least relevant. Curves: none gives both; one answer: none is most."
    )
    fractions: list[_Share] | None = Field(
        None, min_length=2, max_length=101, description=f"Curves: shares of tokens that are gone; none: {', '.join(map(str, FRACTIONS))}."
    )
    remove: _Tokens | None = Field(None, description="One answer: the indices of the tokens to take away, as in the scores of a map.")
    keep: _Tokens | None = Field(None, description="One answer: the indices of the tokens to keep; all others are taken away.")
    method: str | None = Field(None, max_length=1000, description="One answer: the spec of the map by whose order `fraction` takes away.")
    fraction: _Share | None = Field(None, description="One answer: the share of tokens to take away, first of the order of `method`.")
    replace: dict[int, Annotated[str, Field(max_length=200)]] | None = Field(
        None, min_length=1, max_length=1000, description="One answer, texts: words in place of others, by their index in input.words."
    )
    how: HowOfPages | None = Field(
        None,
        description="One answer, images: patches are taken out (removed) or painted in the mean colour (painted); none: taken out where "
        "the model allows it.",
    )


class ScoresToTest(Schema):
    """A map that is not stored."""

    scores: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(
        min_length=1, max_length=MOST_TOKENS, description="One number a token, as many as the maps of the explanation have."
    )
    target: str | None = Field(None, max_length=2000, description="The label of one of the explained targets; none: the first.")


class Curve(Schema):
    """What the model says while tokens are taken away: ``area`` is that under the number that ``read`` names."""

    area: float
    probability: list[float] = absent()
    logit: list[float] = absent()
    value: list[float] = absent()


class DeletionCurve(Curve):
    """The curve of one map and order."""

    method: str
    order: Literal["most", "least"]


class RandomCurve(Curve):
    """The mean curve of random orders."""

    seeds: int = Field(description="How many orders.")


class DeletionRank(Schema):
    """How a method did; random orders stand among the methods, with rank 0."""

    method: str
    rank: int
    most: float = absent("The area of the most relevant first.")
    least: float = absent("The area of the least relevant first.")
    gap: float = absent("The second less the first.")
    control: bool = absent("Whether it is random orders.")


class DeletionCurves(Study):
    """The deletion test of the maps of a target."""

    target: str
    read: FollowedNumber = Field(description="What areas and ranks are made of.")
    how: str
    tokens: int
    fractions: list[float]
    counts: list[int] = Field(description="How many tokens are gone at each of the fractions.")
    curves: list[DeletionCurve]
    random: RandomCurve
    ranking: list[DeletionRank]


class EditedAnswer(Study):
    """What the model says with exactly these tokens gone."""

    target: str
    read: FollowedNumber
    how: str
    tokens: int
    removed: list[int]
    text: str = absent("Of a text, as it was asked, before tokens were taken away.")
    probability: float = absent()
    logit: float = absent()
    value: float = absent()
    top: list[Target]


class DeletionScore(Study):
    """How well scores name what the model needs."""

    read: FollowedNumber
    area: float = Field(description="Under the curve while tokens go most important first: the lower, the better.")
    how: str
    tokens: int


class MixRequest(Schema):
    """A method and a rule."""

    method: str = Field(
        max_length=300,
        validation_alias=AliasChoices("method", "readout"),  # its name in 0.1
        description="A method of GET /api/methods that has a rule, with its options but without a rule. ``readout`` is read too.",
    )
    rule: dict[str, str | bool] = Field(
        description="Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient."
    )
    target: str | None = TARGET


class MixedRule(Schema):
    """The rule that was put together."""

    name: str
    title: str
    choices: dict[str, str | bool]


class Mix(Study):
    """The map of a method under a rule that was put together."""

    rule: MixedRule
    map: Map
    completeness_error: float | None = Field(description="How far FullGrad's terms are, under that rule, from adding up to the score.")
    value: float | None = Field(description="The score.")


class HeadsRequest(Schema):
    """What to look at in the heads, and which of them."""

    quantity: str = Field("attention", max_length=100, description="One of GET /api/quantities.")
    token: int | None = Field(None, description="Whose row: a patch in raster order or a word piece; none: what the model's head reads.")
    block: int | Annotated[list[int], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has."
    )
    head: int | None = Field(None, description="One head, counted from 0; none: all.")
    target: str | None = TARGET


class HeadRow(Schema):
    """A row of the map of a head."""

    scores: list[float]
    outside: float = Field(description="The sum over the tokens that stand for no patch or word.")


class HeadsOfBlock(Schema):
    """The heads of one block; null where it has no maps."""

    block: int
    heads: list[HeadRow] | None
    mean: HeadRow | None


class HeadMaps(Study):
    """Small maps of heads."""

    quantity: str
    signed: bool
    target: str
    origin: Literal["class_token", "read_token", "mean", "token"] = Field(description="Whose row it is.")
    token: int | None
    heads: list[int | None] = Field(description="How many heads each block has.")
    grid: Grid = absent()
    blocks: list[HeadsOfBlock]


class PatchRequest(Schema):
    """Which patch the others are compared with."""

    patch: int = Field(0, ge=0, description="Its number in raster order.")


class PatchSimilarity(Study):
    """How alike the patches of a picture are to the model."""

    grid: Grid
    source: str = Field(description="Which features are compared.")
    colours: list[tuple[float, float, float]] = Field(
        description="For each patch the first three principal components as red, green and blue, each from its smallest to its largest."
    )
    variance: list[float] = Field(description="The share of the variance that each component has.")
    patch: tuple[int, int] = Field(description="The row and column of the one patch.")
    cosines: list[float] = Field(description="Of each patch's features with those of the one.")


class ContributionsRequest(Schema):
    """Whose blocks to take apart."""

    method: str = Field(max_length=300, description="A spec whose method is a sum over blocks (``summed`` in GET /api/methods).")
    target: str | None = TARGET


class Term(Schema):
    """A part of a map."""

    total: float = Field(description="The sum over patches or words.")
    scores: list[float]


class BlockTerm(Term):
    """What a block adds to a map."""

    block: int


class Contributions(Study):
    """What each block adds to a map that is a sum over blocks."""

    method: str
    title: str
    target: str
    signed: bool
    grid: Grid = absent()
    blocks: list[BlockTerm]
    rest: Term | None = Field(description="What belongs to no block.")


class InteractionSettings(Schema):
    """How interactions are made."""

    rule: str = Field("libra", max_length=100, description="A rule of GET /api/rules that carries gradients.")
    steps: int = Field(
        0,
        ge=0,
        le=MOST_STEPS,
        description="Steps of the path from the baseline over which Jacobians are averaged; 0: at the input itself.",
    )
    baseline: Literal["zero", "empty"] = Field(
        "zero", description="Where the path begins: at zeros, or at the tokens of a picture of zeros and of a text of one padding token."
    )
    block: Literal["first", "last"] = Field("first", description="Of which block the tokens enter.")
    quadrature: Literal["gauss_legendre", "riemann"] = Field("gauss_legendre", description="How the average over the path is taken.")

    def options(self) -> dict[str, Any]:
        """What the engine is asked with."""
        return self.model_dump(include=set(InteractionSettings.model_fields))


class InteractionRequest(InteractionSettings):
    """A prompt."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")


class FaithfulInteractionRequest(Schema):
    """A prompt, and which coalitions of its words and of parts of the picture are asked."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")
    variant: Literal["banzhaf", "shapley"] = Field("banzhaf", description="How coalitions weigh in the regression.")
    p: float = Field(0.5, gt=0, lt=1, description="How many of the words and parts are in a coalition, on average.")
    budget: int = Field(BUDGET, ge=16, le=MOST_BUDGET, description="Coalitions that are fitted, at most.")
    parts: int = Field(PARTS, ge=1, le=100_000, description="Parts of the picture that are hidden on their own, at most.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="Of the draw of coalitions.")


class AlikeRequest(InteractionSettings):
    """Another input."""

    other: str = Field(max_length=100, description="The id of a finished explanation of another input by the same model.")


class InteractionSide(Schema):
    """One of two inputs, and what each of its words or patches adds to the cosine with the whole of the other."""

    input: ModelInput
    grid: Grid = absent()
    scores: list[float]


class InteractionPair(Schema):
    """A unit of the first input and one of the second."""

    first: int
    second: int
    score: float


class PairedInputs(Study):
    """What two inputs have to do with each other in the space of an encoder, part by part."""

    cosine: float
    total: float = Field(description="The sum of the pairs.")
    first: InteractionSide
    second: InteractionSide
    pairs: list[list[float]] = Field(description="A row for each unit of the first, a column for each of the second.")
    strongest: list[InteractionPair]
    seconds: float


class Interaction(PairedInputs):
    """The same by the Jacobians of both encoders."""

    rule: str
    steps: int
    baseline: Literal["zero", "empty"]
    block: Literal["first", "last"]
    quadrature: Literal["gauss_legendre", "riemann"]
    other_tokens: float = Field(description="What pairs of special tokens add.")
    baseline_terms: float = Field(description="The rest of the cosine.")


class FaithfulInteraction(PairedInputs):
    """The same by a regression over coalitions of words and patches (FIxLIP)."""

    variant: Literal["banzhaf", "shapley"]
    p: float
    budget: int
    parts: int
    empty: float = Field(description="The cosine when nothing is shown.")
    constant: float = Field(description="What is added to the terms of every coalition.")
    first_order: list[list[float]] = Field(description="What each word, and each patch, adds on its own.")
    coalitions: list[int] = Field(description="How many prompts and how many pictures with parts left out were asked.")
    faithfulness: float = Field(description="The share of the variance of other coalitions that the terms foretell (R²).")


class Alikeness(Interaction):
    """Why the model finds two inputs alike."""

    other: str = Field(description="The id of the explanation of the other input.")


class ProbeGroup(Schema):
    """Words that stand for one group."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    name: str = Field(min_length=1, max_length=60)
    words: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(min_length=1, max_length=MOST_WORDS)


class Probe(Schema):
    """What is asked: ``template`` has one slot, ``target`` is a class of the model, ``method`` a spec."""

    model: str = Field(min_length=1, max_length=200)
    template: str = Field(max_length=MOST_CHARS)
    groups: list[ProbeGroup] = Field(min_length=1, max_length=MOST_GROUPS)
    target: str = Field(min_length=1, max_length=200)
    method: str = Field(default="input_x_gradient:conservative", max_length=200)

    @property
    def words(self) -> dict[str, list[str]]:
        """Name of a group -> its words."""
        return {group.name: group.words for group in self.groups}


class ProbeMethod(Schema):
    """By which method words have their relevance."""

    spec: str
    title: str
    signed: bool
    class_specific: bool


class ProbeRow(Schema):
    """The template with one word in its slot, and what the model made of it."""

    group: str
    word: str
    text: str
    probability: float = absent("A regression has none.")
    logit: float
    relevance: float = Field(description="Of the word.")
    pieces: list[str] = Field(description="The tokens that the word was read as.")
    unknown: bool = Field(description="Whether one of them is the token for unknown words.")


class ProbeMeans(Schema):
    """Means over the words of a group."""

    name: str
    words: int = Field(description="How many.")
    probability: float = absent()
    logit: float
    relevance: float


class ProbeDifference(Schema):
    """The means of the first group less those of the second."""

    between: tuple[str, str]
    probability: float = absent()
    logit: float
    relevance: float


class WordProbe(Schema):
    """What one word of a sentence does."""

    model: str
    target: str
    template: str
    method: ProbeMethod
    rows: list[ProbeRow]
    groups: list[ProbeMeans]
    difference: ProbeDifference | None = Field(description="null for one group alone.")
    notes: list[str]
