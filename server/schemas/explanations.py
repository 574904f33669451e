"""An explanation: as it is stored and sent, its parts, and the events that tell how it is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Json

from explainers.models.outputs import Output
from explainers.records.targets.target import ExplainedNumber
from server.schemas.base import Box, CitationFields, Grid, Message, OptionValue, ProblemDocument, Schema, absent
from server.schemas.question import ExplainOptions

State = Literal["queued", "running", "done", "failed", "cancelled"]


class Abstention(Schema):
    """What the model can't know, in place of an answer or beside it."""

    kind: str
    says: str = Field(description="In few words.")
    detail: str = Field(description="In a sentence.")
    score: float = Field(description="The number that crossed the line.")
    line: float


class Target(Schema):
    """An explained class or prompt, or one that the model thinks of."""

    label: str
    index: int = absent("Of the class; a group and a difference have none.")
    prompt: str = absent("Of a CLIP model.")
    logit: float
    probability: float = absent("A regression and a difference have none.")
    read: ExplainedNumber = absent("Which number of it is explained.")
    of: str = absent("The class or prompt itself, where the label says more.")
    against: str = absent("The class or prompt that it is set against.")
    group: str = absent("The group that it is.")
    kind: str = absent("Of a target that a package adds; what to send for it is then in of.")
    abstention: Abstention = absent("Of a prompt that the model cannot read or that is not in the picture.")


class Token(Schema):
    """A piece of a text as the model reads it."""

    text: str
    start: int = Field(description="The first of its characters.")
    end: int = Field(description="Behind the last of its characters.")
    special: bool = Field(description="Whether it stands for no word.")
    part: int = absent("Of a pair of texts, 1 in the second.")


class Word(Schema):
    """A word of a text."""

    text: str
    start: int
    end: int
    tokens: list[int] = Field(description="The indices of its pieces.")
    part: int = absent("Of a pair of texts, 1 in the second.")


class GreyWindow(Schema):
    """Of greys of more than 8 bits, the values that are shown as black to white."""

    level: float
    width: float
    source: Literal["set", "file", "range"]


class ImageInput(Schema):
    """A picture as the model was shown it."""

    kind: Literal["image"]
    width: int = Field(description="Of the upright original, in pixels.")
    height: int
    crop: Box = Field(description="What was seen of the upright original.")
    seen: tuple[int, int] = Field(description="Columns and rows of pixels that the model saw.")
    frame: Box = absent("The part that was asked for.")
    frames: int = absent("Of a clip, how many frames lie below each other; the grid of a map has the rows of each in turn.")
    window: GreyWindow = absent()
    sha256: str = absent("Of the upload.")


class Bond(Schema):
    """A bond of a molecule."""

    atoms: tuple[int, int] = Field(description="The places of its atoms among the words.")
    order: float = Field(description="1.5 for an aromatic one.")


class Toxicophore(Schema):
    """A group of atoms that is known to make molecules mutagenic."""

    name: str
    atoms: list[int]


class Drawing(Schema):
    """A molecule drawn: a plain SVG of outlines."""

    svg: str
    size: tuple[int, int] = Field(description="Width and height.")
    places: list[tuple[float, float]] = Field(description="Where each atom lies in it.")


class MoleculePart(Schema):
    """What there is to a molecule besides the text of its SMILES, whose words are its atoms."""

    bonds: list[Bond]
    toxicophores: list[Toxicophore]
    drawing: Drawing | None


class PicturePart(ImageInput):
    """A picture that stands among the tokens of a text."""

    grid: Grid = Field(description="Rows and columns of its patches, each a token.")
    first: int = Field(description="The first of these tokens; they follow each other in raster order, and have part 3.")


class TextInput(Schema):
    """A text as the model read it."""

    kind: Literal["text"]
    text: str | None = Field(description="null where only its tokens are known.")
    tokens: list[Token]
    words: list[Word]
    text_pair: str = absent("The second text of a pair.")
    molecule: MoleculePart = absent("Of a molecule, whose SMILES the text is.")
    picture: PicturePart = absent("The picture that a vision-language model read with the text.")
    answer: str = absent("What a language model wrote behind the text; its tokens have part 2.")


class PromptInput(TextInput):
    """A prompt as the model read it, where its words are explained."""

    prompt: str


ModelInput = Annotated[ImageInput | TextInput, Field(discriminator="kind")]


class TextWindow(Schema):
    """A part of a text that is longer than the model takes, and what the model says of this part alone."""

    start: int
    end: int
    tokens: tuple[int, int] = Field(description="The first and the last of its pieces.")
    label: str = Field(description="The top class.")
    probability: float | None
    logits: list[float] = Field(description="Of each explained target.")


class MapPrecision(Schema):
    """In which precision a map of relevance was computed, and why."""

    dtype: str
    why: str
    rounding: float | None = Field(description="By how much of the largest score rounding may change the map in the model's own precision.")


class MapFacts(CitationFields):
    """What is said of a map beside its scores. ``method`` is the spec; ``readout``, ``rule`` and ``options`` are its parts."""

    method: str = Field(description="The spec: what was asked for.")
    readout: str = Field(description="The part of the spec that names the method.")
    rule: str | None = Field(description="The backward rule; null for a method that reads no signal.")
    options: dict[str, OptionValue] = absent("The options that the spec names; left out where it names none.")
    title: str
    names_rule: bool = absent("Whether the title says the rule; left out where an earlier version made the map.")
    target: str = Field(description="The label of what is explained.")
    pixels: Grid = absent("Rows and columns of its map of the pixels, where there is one: /maps/{method}.npy?at=pixels has it.")
    range: tuple[float, float] = Field(description="The smallest and the largest score.")
    signed: bool = Field(description="Whether scores tell for from against, or only strength.")
    class_specific: bool = Field(description="Whether another target may have another map.")
    adds_up_to: str | None = absent("What the scores promise to add up to; null: nothing.")
    completeness_error: float = absent("By how much they miss it.")
    seed_correlation: float = absent("Of a map drawn at random, its correlation with that of another seed, estimated.")
    precision: MapPrecision = absent("Of a map of relevance.")
    seconds: float
    notes: list[str] = Field(description="What a person should know.")


class Map(MapFacts):
    """What one method says about one target."""

    scores: list[float] = Field(description="Of an image those of the patches in raster order, of a text one for each token.")
    grid: Grid = absent("Rows and columns of the patches; a text has none.")


class PixelMap(MapFacts):
    """A map of the pixels that the model saw."""

    scores: list[list[float]] = Field(description="Rows of pixels.")


class OutputPlace(Schema):
    """A part of a model's output that can be asked about, and what the model says there."""

    at: str = Field(description="What to send as at.")
    label: str
    tokens: tuple[int, int] = absent("The first and the last of the text's pieces, or of the model's tokens, that it is about.")
    patch: tuple[int, int] = absent("The row and the column of the patch that it is about.")
    box: tuple[float, float, float, float] = absent("x0, y0, x1, y1 as shares of the picture that the model saw.")
    area: float = absent("Which share of that picture it is, where it is no rectangle.")
    says: str = absent("The label of the top class there.")
    score: float = absent("Its probability.")


class OutlierPatches(Schema):
    """Patches whose norm stands apart from the others'."""

    block: int = Field(description="Counted from 0: the norms of what it gives.")
    threshold: float
    patches: list[int] = Field(description="In raster order, those whose norm is above it.")


class Answer(Schema):
    """What the model says of an input; there from the moment that it has answered."""

    title: str = absent("The person's name for it.")
    output: Output = absent("What the logits mean.")
    input: ModelInput = absent()
    prompts: list[PromptInput] = absent("Where the words of prompts are explained.")
    windows: list[TextWindow] = absent("Of a text that is longer than the model takes.")
    task: str = absent("Of a model that gives more than one answer to an input: its task, such as token-classification.")
    place: OutputPlace = absent("Of such a model, the place of its output that is explained.")
    places: list[OutputPlace] = absent("Of such a model, which places there are.")
    outliers: OutlierPatches = absent("Of a model whose outlier tokens are known: which patches are such.")
    targets: list[Target] = absent("What is explained.")
    top: list[Target] = absent("What the model finds likeliest, best first.")
    abstention: Abstention = absent()
    notes: list[str] = absent("What a person should know.")


class Explanation(Answer, ExplainOptions):
    """An explanation, as it is stored and sent; while it is made, with the maps that are there. Options that are as usual are left out."""

    id: str
    state: State
    created: str = absent("ISO 8601, UTC; with the model left out where what was stored is damaged.")
    model: str = absent()
    weights_digest: str = absent("SHA-256 of the model's weights.")
    versions: dict[str, str] = absent("Of the libraries.")
    methods: list[str] = absent("Specs.")
    maps: list[Map]
    made: list[int] = absent("The place of each map in the order in which they were made, where that is another.")
    seconds: float = absent("That the model worked.")
    problem: ProblemDocument = absent("Why it failed.")
    shared: bool = absent("That it is somebody else's: its link shares it to be read.")


class StartedData(Answer):
    """The model has answered, and these maps will follow."""

    expected: list[str] = Field(description="Specs.")
    costs: dict[str, float] = absent("While they are made: about how many seconds each takes.")


class QueuedData(Schema):
    """How many explanations are before it."""

    position: int


class DoneData(Schema):
    """How long the model worked."""

    seconds: float | None


class Failure(Schema):
    """Why it failed."""

    problem: ProblemDocument


class CancelledData(Schema):
    """Nothing further is said."""


class QueuedEvent(Message):
    """It waits."""

    event: Literal["queued"]
    data: Json[QueuedData]


class StartedEvent(Message):
    """The model has answered."""

    event: Literal["started"]
    data: Json[StartedData]


class MethodEvent(Message):
    """A map is there."""

    event: Literal["method"]
    data: Json[Map]


class DoneEvent(Message):
    """All maps are there."""

    event: Literal["done"]
    data: Json[DoneData]


class FailedEvent(Message):
    """It failed."""

    event: Literal["failed"]
    data: Json[Failure]


class CancelledEvent(Message):
    """It was cancelled."""

    event: Literal["cancelled"]
    data: Json[CancelledData]


ExplanationEvent = Annotated[
    QueuedEvent | StartedEvent | MethodEvent | DoneEvent | FailedEvent | CancelledEvent, Field(discriminator="event")
]


class PendingExplanation(Schema):
    """Where an explanation that is being made will be."""

    id: str
    url: str
    events: str
    stored: bool = Field(False, description="Whether it is finished, as it was made before: all that belongs to it is there.")


class TitleRequest(Schema):
    """A name of one's own."""

    title: str | None = Field(description="The title; null or blank takes it away.")


class ExplanationTitle(Schema):
    """The name that an explanation has now."""

    id: str
    title: str | None


class MethodOrder(Schema):
    """What is wanted first."""

    methods: list[str] = Field(description="Specs, what is wanted first in front; those that are done or not made are passed over.")


class ScoredWord(Schema):
    """A word and its score over the largest magnitude of all."""

    text: str
    score: float


class ExplanationSummary(Schema):
    """What a list of explanations shows of one."""

    id: str
    state: State
    title: str = absent()
    created: str = absent()
    model: str = absent()
    targets: list[Target] = absent()
    abstention: Abstention = absent()
    problem: ProblemDocument = absent()
    seconds: float = absent()
    page: Literal["/image", "/prompt", "/text", "/molecule"] = Field(description="Where it can be looked at.")
    maps: int
    methods: int
    controls: int = Field(description="The random maps beside the methods.")
    specs: list[str]
    excerpt: str = absent("Of a text.")
    about: str = absent("The same for all explanations of one picture or text.")
    words: list[ScoredWord] = absent("The first ones of a text.")
    thumbnail: str = absent("The address of the picture, small.")
    map: str = absent("The address of the picture of one map.")


class ReproducingLines(Schema):
    """The lines that make an explanation again."""

    python: str
    curl: str


class Agreement(Schema):
    """How alike the maps of an explanation order the patches or words."""

    id: str
    target: str
    measure: Literal["spearman"]
    methods: list[str] = Field(description="In an order that puts like beside like.")
    correlations: list[list[float | None]] = Field(description="Rows and columns in that order; null where a map has one score throughout.")
    tokens: int
    sentence: str = Field(description='What they have in common, in words; "" where there is nothing to say.')


class Region(Schema):
    """Patches that touch and are won by the same label."""

    box: Box | None = Field(description="In pixels of the upright original; null where they lie in padding.")
    patches: int
    peak: float


class WonPatches(Schema):
    """The patches that one label wins, or none."""

    index: int = Field(description="Its value in regions.png.")
    patches: int
    share: float


class LabelRegions(WonPatches):
    """The regions of a label."""

    label: str
    colour: tuple[int, int, int]
    regions: list[Region]


class Regions(Schema):
    """Which label wins which patch."""

    id: str
    method: str
    threshold: float
    grid: Grid
    crop: Box = Field(description="What the mask covers.")
    labels: list[LabelRegions]
    none: WonPatches
