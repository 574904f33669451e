"""Studies: what is asked about a finished explanation, or about words in a sentence, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from explainers.analysis import inspection, rule_mixer
from explainers.analysis.answer_table import AnswerTable as Table
from explainers.analysis.deletion_test import DeletionTest
from explainers.analysis.heads import similarity
from explainers.analysis.interactions import faithful
from explainers.analysis.interactions.faithful import BUDGET, MOST_BUDGET, PARTS
from explainers.analysis.interactions.pairs import Interaction as PairInteraction
from explainers.analysis.patch_similarity import PatchComparison
from explainers.analysis.target_output import FollowedNumber
from explainers.analysis.token_activation import TokenActivationMaps
from explainers.json_records import schema_of
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.removal.ways import HowOfPages
from explainers.records.outliers import OutlierPatches
from explainers.records.result import TargetInfo
from vitrine_server.schemas.base import Grid, Schema, absent

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
    """The answer of a study on a finished explanation."""

    id: str = Field(description="Of the explanation.")
    notes: list[str] = Field(description="What a person should know.")


class DeletionQuestion(Schema):
    """A deletion test: the curves of methods, or one answer if any of ``remove``, ``keep``, ``fraction`` and ``replace`` is sent."""

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
    """The scores of a map to test that is not part of the explanation."""

    scores: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(
        min_length=1, max_length=MOST_TOKENS, description="One number a token, as many as the maps of the explanation have."
    )
    target: str | None = Field(None, max_length=2000, description="The label of one of the explained targets; none: the first.")


DeletionCurves = schema_of(DeletionTest, base=Study)


class EditedAnswer(Study):
    """The model's answer after certain tokens were removed or words replaced."""

    target: str
    read: FollowedNumber
    how: str
    tokens: int
    removed: list[int]
    text: str = absent("Of a text, as it was asked, before tokens were taken away.")
    probability: float = absent()
    logit: float = absent()
    value: float = absent()
    top: list[TargetInfo]


class DeletionScore(Study):
    """The result of the deletion test for one map: how well its scores order the tokens by what the model needs."""

    read: FollowedNumber
    area: float = Field(description="Under the curve while tokens go most important first: the lower, the better.")
    how: str
    tokens: int


class MixRequest(Schema):
    """A method and a rule made of one's own choices, one for each kind of operator."""

    method: str = Field(
        max_length=300,
        description="A method of GET /api/methods that has a rule, with its options but without a rule.",
    )
    rule: dict[str, str | bool] = Field(
        description="Kind of operator -> choice, as GET /api/rules lists them; what is left out is as for the ordinary gradient."
    )
    target: str | None = TARGET


Mix = schema_of(rule_mixer.Mix, base=Study)


class HeadsRequest(Schema):
    """The quantity, blocks, heads and token for which to return maps of attention heads."""

    quantity: str = Field("attention", max_length=100, description="One of GET /api/quantities.")
    token: int | None = Field(None, description="Whose row: a patch in raster order or a word piece; none: what the model's head reads.")
    block: int | Annotated[list[int], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="One block or several, counted from 0; none: all. ``heads`` in the answer says how many heads each has."
    )
    head: int | None = Field(None, description="One head, counted from 0; none: all.")
    target: str | None = TARGET


HeadMaps = schema_of(inspection.HeadMaps, base=Study)


class PatchRequest(Schema):
    """The patch to which all others are compared."""

    patch: int = Field(0, ge=0, description="Its number in raster order.")


PatchSimilarity = schema_of(PatchComparison, base=Study)


class ContributionsRequest(Schema):
    """The method and target whose map to split into the contributions of blocks."""

    method: str = Field(max_length=300, description="A spec whose method is a sum over blocks (``summed`` in GET /api/methods).")
    target: str | None = TARGET


Contributions = schema_of(inspection.Contributions, base=Study)


class InteractionSettings(Schema):
    """The settings by which interactions between pairs of tokens are computed."""

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
    block: Literal["first", "last"] = Field("first", description="The block at which the tokens enter.")
    quadrature: Literal["gauss_legendre", "riemann"] = Field("gauss_legendre", description="How the average over the path is taken.")

    def options(self) -> dict[str, Any]:
        """Return the settings as keyword arguments of the library's function."""
        return self.model_dump(include=set(InteractionSettings.model_fields))


class InteractionRequest(InteractionSettings):
    """The prompt whose interactions with the picture are computed, and the settings."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")


class FaithfulInteractionRequest(Schema):
    """The prompt to analyse, and how coalitions of its words and of parts of the picture are drawn and fitted."""

    prompt: str | None = Field(None, min_length=1, max_length=1000, description="Any prompt; none: the first that was explained.")
    variant: Literal["banzhaf", "shapley"] = Field("banzhaf", description="How coalitions weigh in the regression.")
    p: float = Field(0.5, gt=0, lt=1, description="How many of the words and parts are in a coalition, on average.")
    budget: int = Field(BUDGET, ge=16, le=MOST_BUDGET, description="Coalitions that are fitted, at most.")
    parts: int = Field(PARTS, ge=1, le=100_000, description="Parts of the picture that are hidden on their own, at most.")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="Of the draw of coalitions.")


class AlikeRequest(InteractionSettings):
    """The explanation of a second input to which this one is compared, and the settings."""

    other: str = Field(max_length=100, description="The id of a finished explanation of another input by the same model.")


Interaction = schema_of(PairInteraction, base=Study)
FaithfulInteraction = schema_of(faithful.FaithfulInteraction, base=Study)


class OfTwo(Study):
    """The answer of a study on two explanations."""

    other: str = Field(description="The id of the explanation of the other input.")


Alikeness = schema_of(PairInteraction, name="Alikeness", base=OfTwo)


class ProbeGroup(Schema):
    """A named group of words to put into the slot of the template."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    name: str = Field(min_length=1, max_length=60)
    words: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(min_length=1, max_length=MOST_WORDS)


class Probe(Schema):
    """A question to a text model about groups of words in a sentence: ``template`` has one slot, ``target`` is a class,
    ``method`` a spec.
    """

    model: str = Field(min_length=1, max_length=200)
    template: str = Field(max_length=MOST_CHARS)
    groups: list[ProbeGroup] = Field(min_length=1, max_length=MOST_GROUPS)
    target: str = Field(min_length=1, max_length=200)
    method: str = Field(default="input_x_gradient:conservative", max_length=200)

    @property
    def words(self) -> dict[str, list[str]]:
        """The words of each group, by the group's name."""
        return {group.name: group.words for group in self.groups}


class SimilarityRequest(Schema):
    """The target whose cosine with the image to split into the contributions of blocks and heads."""

    target: str | None = TARGET


class WithoutHeadRequest(SimilarityRequest):
    """The attention head to ablate, and the target whose score to compare."""

    block: int = Field(ge=0, description="Counted from 0.")
    head: int = Field(ge=0, description="Counted from 0.")


SimilarityDecomposition = schema_of(similarity.SimilarityDecomposition, base=Study)
WithoutHead = schema_of(similarity.WithoutHead, base=Study)


class RegistersRequest(Schema):
    """Empty: there are no options."""


class Registers(Study):
    """The known outlier tokens of a model, and the register neurons that cause them."""

    known: RegisterNeurons
    says: str = Field(description="What was found, in a sentence.")
    can_move: bool = Field(description="Whether the model can be explained without them: outlier_tokens=move.")
    outliers: OutlierPatches | None = Field(description="The outlier tokens of this picture; null where no norm stands apart.")


class TokenMapsRequest(Schema):
    """Empty: there are no options."""


class MapsOnGrid(Study):
    """Maps of the tokens of an answer on the grid of one picture."""

    grid: Grid
    maps: list[list[float]] = Field(description="Of each token, a number from 0 to 1 for each patch, in raster order.")


TokenMaps = schema_of(TokenActivationMaps, base=MapsOnGrid)


class AnswerTableRequest(Schema):
    """The method by whose maps to make the table of an answer."""

    method: str | None = Field(None, max_length=1000, description="A spec, whose maps are the rows; none: input_x_gradient:attnlrp.")


AnswerTable = schema_of(Table, base=Study, without=("model", "prompt"))
