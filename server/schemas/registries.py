"""The registries: models, methods, rules, quantities, samples; what one request may hold; and how the server is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Json

from server.schemas.base import CitationFields, Grid, Message, OptionValue, ProblemDocument, Schema, absent

Kind = Literal["image", "clip", "text"]
ModelState = Literal["available", "loading", "loaded", "failed"]


class AbstentionLine(Schema):
    """Where a model says that it does not know: beyond a line that was measured."""

    kind: str
    says: str = Field(description="In few words.")
    score: str = Field(description="What is held against the line.")
    line: float
    below: bool = Field(description="Whether the model abstains below the line; else above.")
    measured: str = Field(description="On what, in a sentence.")
    prompts: str = absent("The kind of prompts that it is about; else all.")


class Calibration(Schema):
    """What makes probabilities of logits, and where the model abstains."""

    temperature: float
    lapse: float
    lines: list[AbstentionLine]


class ModelDetails(Schema):
    """What is known of a model once it is loaded."""

    blocks: int = absent()
    heads: int | None = absent("null where the model does not say.")
    width: int | None = absent("Of the residual stream.")
    channels: int | None = absent("Of a picture.")
    grid: Grid | None = absent("Rows and columns of patches; a text has none.")
    input: tuple[int, int] | None = absent("Height and width in pixels; a text has none.")
    max_tokens: int | None = absent("Of a text.")
    classes: int | None = absent("A CLIP model and a regression have none.")
    mask_token_id: int | None = absent()
    padding_token_id: int | None = absent()
    unknown_token_id: int | None = absent()
    parameters: int = absent()
    final_activation: str | None = absent("The softmax or sigmoid that the head ends in.")
    squashing: str | None = absent("What ``final_activation`` was called in 0.1.")
    class_token: bool = absent()
    library: str | None = absent()
    source: str = absent()
    logit_scale: float = absent("Of a CLIP model: logit = logit_scale * cosine + logit_bias.")
    logit_bias: float = absent()


class Model(Schema):
    """A model of the list."""

    name: str
    kind: Kind | None = Field(description="null where it is not known yet.")
    title: str
    description: str
    embedded: bool
    state: ModelState
    default: bool
    photos: bool = Field(description="Whether it is made for photos that people bring.")
    recommended: bool
    megabytes: int | None = Field(description="Of its download.")
    good_for: str
    details: ModelDetails
    problem: ProblemDocument = absent("Why it could not be loaded.")
    device: str = absent()
    weights_digest: str = absent()
    calibration: Calibration = absent("Once it is loaded, if it has lines.")


class Models(Schema):
    """Every model."""

    models: list[Model]


class ClassEntry(Schema):
    """A class: its label, its groups, and other words for it."""

    label: str
    group: str = absent("The everyday one.")
    groups: list[str] = absent("All of them: each may be asked for as any:<group>.")
    synonyms: list[str] = absent()
    wnid: str = absent("Of WordNet.")


class ModelRequest(Schema):
    """A model to load."""

    name: str = Field(min_length=1, max_length=200)


class PendingModel(Schema):
    """How to follow the loading of a model."""

    name: str
    state: ModelState
    events: str


class LoadProgress(Schema):
    """How far the loading is."""

    text: str
    fraction: float = absent("Where it is known.")


class LoadFailure(Schema):
    """Why it could not be loaded."""

    problem: ProblemDocument


class ProgressEvent(Message):
    """The loading goes on."""

    event: Literal["progress"]
    data: Json[LoadProgress]


class LoadedEvent(Message):
    """The model is there."""

    event: Literal["loaded"]
    data: Json[Model]


class LoadFailedEvent(Message):
    """The model could not be loaded."""

    event: Literal["failed"]
    data: Json[LoadFailure]


LoadingEvent = Annotated[ProgressEvent | LoadedEvent | LoadFailedEvent, Field(discriminator="event")]


class Variant(CitationFields):
    """A method with one of its own rules."""

    spec: str
    readout: str
    rule: str | None
    title: str
    names_rule: bool = Field(description="Whether the title says the rule.")
    signed: bool
    class_specific: bool
    slow: bool
    default: bool
    description: str
    passes: str
    adds_up_to: str | None
    reason: str | None = Field(description="Why it cannot run; null where it can.")
    remedies: list[str] = Field(description="Options with one of which it can all the same.")


class ModelDetail(Model):
    """A model with its card, its classes and what explains it."""

    labels: list[str]
    card: str | None = Field(description="Markdown.")
    variants: list[Variant] = absent("Once it is loaded.")
    classes: list[ClassEntry] = absent("Where they are known.")


class MethodOption(Schema):
    """An option of a method."""

    name: str
    kind: Literal["int", "float", "bool", "str"]
    default: OptionValue | None
    help: str
    minimum: float | None
    maximum: float | None
    choices: list[str]
    allowed: str = Field(description="In words.")


class MethodPair(CitationFields):
    """A method with one rule."""

    spec: str
    rule: str | None
    title: str
    names_rule: bool = Field(description="Whether the title says the rule.")
    adds_up_to: str | None
    reason: str | None
    remedies: list[str]
    line: str = Field(description="What it shows, in plain words.")


class Promise(Schema):
    """What scores add up to, and under which rules."""

    rules: list[str]
    total: str


class Method(CitationFields):
    """A method with every rule that it goes with."""

    name: str
    title: str
    family: str
    classic: bool
    rule: str | None = Field(description="The usual one.")
    also: list[str]
    rules: list[str] = Field(description="Those that it is listed with.")
    signed: bool
    class_specific: bool
    description: str
    needs: dict[str, str] = Field(description="What the model must have, in words.")
    passes: str
    slow: bool
    default: bool
    promise: Promise | None
    summed: bool
    class_attention: str | None
    options: list[MethodOption]
    pairs: list[MethodPair]


class Rule(CitationFields):
    """A backward rule: a choice for each kind of operator."""

    name: str
    title: str
    label: str
    short: str
    group: str
    attention: str
    norm: str
    activation: str
    product: str
    linear: str
    bias: bool
    strength: dict[str, float]


class RuleChoice(Schema):
    """What a rule may do with operators of a kind."""

    value: str | bool
    title: str
    says: str
    carries: str | None = Field(description="What a rule with it must carry; null where both will do.")


class OperatorKind(Schema):
    """A kind of operators, and the choices that a rule has for them."""

    name: str
    title: str
    covers: str
    choices: list[RuleChoice]


class Rules(Schema):
    """The backward rules."""

    rules: list[Rule]
    kinds: list[OperatorKind]


class MethodFamily(Schema):
    """Methods that work alike."""

    name: str
    title: str
    line: str


class Preset(Schema):
    """A set of methods to begin with."""

    name: str
    title: str
    says: str
    specs: list[str]


class RankingMetric(Schema):
    """A metric that methods are ranked by."""

    name: str
    title: str
    unit: str
    direction: str


class FirstMetric(RankingMetric):
    """The metric that methods are ranked by before all, and what it asks of one."""

    asks: str


class Place(Schema):
    """The place of a method in a run."""

    rank: int
    of: int
    value: float
    low: float | None
    high: float | None
    tied: bool = Field(description="Whether it cannot be told from the best.")
    second_value: float | None


class Standing(Schema):
    """How far methods can be trusted: their places in a run that ships."""

    run: str
    model: str
    measured: str = Field(description="On what, in words.")
    inputs: str = Field(description="On how many inputs, in words: the beginning of ``measured``.")
    metric: FirstMetric
    second: RankingMetric | None = Field(description="What decides among those that are tied with the best.")
    random: float | None = Field(description="What random scores have.")
    random_second: float | None
    ranks: dict[str, Place]
    here: bool = Field(description="Whether it was measured on this very model.")


class MethodCounts(Schema):
    """How many methods there are."""

    readouts: int
    methods: int
    listed: int
    parts: int


class SpecParts(Schema):
    """A spec that was asked about, in its parts."""

    spec: str
    pair: str = Field(description="The spec of the method with its rule alone, as ``pairs`` and ``variants`` list it.")
    readout: str
    rule: str | None
    options: dict[str, OptionValue]


class Methods(Schema):
    """The methods, and what helps to choose among them."""

    methods: list[Method]
    variants: list[Variant]
    rules: list[Rule]
    counts: MethodCounts = absent("Where no model is named.")
    families: list[MethodFamily]
    presets: list[Preset]
    standing: Standing | None
    specs: list[SpecParts] = absent("The parts of the specs that were asked about.")


class Quantity(Schema):
    """Something that every head has for each pair of tokens."""

    name: str
    title: str
    says: str
    signed: bool


class Quantities(Schema):
    """What can be looked at in the heads of a model."""

    quantities: list[Quantity]


class PromptSet(Schema):
    """Prompts to ask together."""

    name: str
    prompts: list[str]


class Sample(Schema):
    """An input to try."""

    id: str
    kind: Kind
    model: str
    title: str
    note: str = absent()
    image: str = absent("The address of a picture.")
    thumbnail: str = absent("The picture, small, as a data URI.")
    text: str = absent()
    text_pair: str = absent()
    prompts: list[str] = absent()
    sets: list[PromptSet] = absent()
    target: str = absent()
    objects: list[str] = absent("What the picture shows.")
    trap: bool = absent("Whether the model is easily misled by it.")
    expected: str = absent("The class that people give it.")
    model_says: str = absent("The class that the model gives it, where that was noted.")


class Samples(Schema):
    """Inputs to try."""

    samples: list[Sample]


class Limit(Schema):
    """At most ``most``; the rest is the refusal of more."""

    most: int
    type: str
    title: str
    detail: str = Field(description="With {count} and {what} for how many of what there were.")
    send: str


class Limits(Schema):
    """What one request may hold."""

    limits: dict[str, Limit]


class Health(Schema):
    """Requests are answered, and work moves."""

    status: Literal["ok"]


class Readiness(Schema):
    """The embedded models are loaded, work moves, and what is made can be stored."""

    status: Literal["ready"]
    models: dict[str, ModelState]
