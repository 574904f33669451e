"""What is asked of a model: the form of ``POST /api/explanations``, and the question as it is stored with its answer.

A field is declared here once, with its words and its checks: the form, its description, its errors and what is kept follow from it. Whoever
uses it reads it of the :class:`Question`.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

from fastapi import UploadFile
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import GreyWindow
from explainers.models.inputs.types import Side
from explainers.models.registers.moving import OUTLIER_TOKENS, OutlierTokens
from explainers.pipeline.long_texts import LONG_TEXTS, LongTexts
from explainers.records.session import Precision
from explainers.records.targets.target import ExplainedNumber
from vitrine_server.schemas.base import Box, Schema

# FastAPI takes a tuple for a field that is sent several times, and the name of a type for one value
CropBox = TypeAliasType("CropBox", Box)
GreyLevels = TypeAliasType("GreyLevels", tuple[float, float])  # level, width
READS: tuple[ExplainedNumber, ...] = get_args(ExplainedNumber)


def wrong(slug: str, detail: str, send: str) -> PydanticCustomError:
    """Make the error that a validator of a field raises; the request is then refused with a problem of this ``slug`` and ``detail`` and the
    advice ``send``.
    """
    return PydanticCustomError(slug, "{detail}", {"detail": detail, "send": send})


def _distinct(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))


def _text(text: str) -> str:
    if not text.strip():
        raise wrong("empty-text", "The text is empty.", "Send at least one word.")
    return text


def _crop(sent: Any) -> Any:
    """Parse ``sent``, "x0,y0,x1,y1", to four integers; a blank text to None, the model's own choice. The box is compared with the image
    when that is decoded.
    """
    if not isinstance(sent, str) or not sent.strip():
        return None if isinstance(sent, str) else sent
    parts = [part.strip() for part in sent.split(",")]
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        send = "Send crop=x0,y0,x1,y1: whole pixels of the upright picture, counted from its top left corner."
        raise wrong("wrong-crop", f"{sent[:60]!r} does not name a part of the picture.", send)
    return tuple(map(int, parts))


def _window(sent: Any) -> Any:
    """Parse ``sent``, "level,width", to two numbers; a blank text to None, the values of the file. It is checked that the picture has greys
    when that is decoded.
    """
    if not isinstance(sent, str) or not sent.strip():
        return None if isinstance(sent, str) else sent
    try:
        level, width = map(float, sent.split(","))
        GreyWindow(level, width)
    except (ValueError, ExplainerError):
        send = "Send window=level,width in units of the file's values, such as 40,400, with a width above 0."
        raise wrong("wrong-window", f"{sent[:60]!r} does not name a window.", send) from None
    return level, width


def _one_of(known: tuple[str, ...], slug: str, detail: str, send: str) -> BeforeValidator:
    """Make a validator of a field that accepts only the ``known`` words and None. The request is otherwise refused with a problem of the
    type ``slug``, the message ``detail``, with {what} for the value, and the advice ``send``.
    """

    def check(sent: Any) -> Any:
        word = sent.strip() if isinstance(sent, str) else sent
        if word is not None and word not in known:
            raise wrong(slug, detail.format(what=repr(word)), send)
        return word

    return BeforeValidator(check)


_Word = Annotated[str, AfterValidator(str.strip)]
_Names = Annotated[tuple[str, ...], BeforeValidator(lambda sent: sent or ()), AfterValidator(_distinct)]
_Text = Annotated[str, AfterValidator(_text)]
_AS_TEXT = WithJsonSchema({"type": "string"})


class ExplainOptions(Schema):
    """Options of ``explainers.explain`` under the same names: how long texts are read, the precision, the place of the output, and others.
    The answer, and the lines that reproduce it, list those that differ from the default.
    """

    long_texts: Annotated[
        LongTexts,
        _one_of(LONG_TEXTS, "unknown-way", "long_texts={what} is not a way to read a long text.", f"Send one of {', '.join(LONG_TEXTS)}."),
    ] = Field(
        "windows",
        description="A text longer than the model takes: read in overlapping windows, whose places are in the answer, or cut to what the "
        "model takes.",
    )
    precision: Precision = Field(
        "auto",
        description="double: every map of relevance in float64; auto: those whose estimated rounding error asks for it; tf32: as auto, and "
        "a GPU may round products of float32 to TF32.",
    )

    at: _Word | None = Field(
        None,
        description="Of a model with a task, such as token classification: which place of its output is asked about, a word, tokens:5-7 "
        "or patch:3,4; places of an answer lists them. None: the one that the model is surest of.",
    )

    chat: bool = Field(
        False,
        description="Of a language model that writes: lay its tokenizer's chat template around the prompt (chat_template of a model says "
        "whether there is one). Its tokens have part 4, always stay, and no map lies on them.",
    )

    outlier_tokens: Annotated[
        OutlierTokens,
        _one_of(
            OUTLIER_TOKENS,
            "unknown-way",
            "outlier_tokens={what} is not a way to treat outlier tokens.",
            f"Send one of {', '.join(OUTLIER_TOKENS)}.",
        ),
    ] = Field(
        "keep",
        description="Of images: move explains the model without outlier tokens (test-time registers), move_published as the published code "
        "does it; its register neurons must be known, as POST /api/explanations/{id}/registers finds them.",
    )

    @property
    def unusual(self) -> dict[str, Any]:
        """The options that differ from their default, name -> value."""
        usual = {name: field.default for name, field in ExplainOptions.model_fields.items()}
        return {name: value for name in usual if (value := getattr(self, name)) != usual[name]}


class QuestionFields(ExplainOptions):
    """The fields that a question and its form have in common: the model, the text or the crop of a picture, the targets or prompts, and the
    methods.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    model: _Word = Field(description="A name from /api/models.")
    text: _Text | None = Field(
        None,
        description="A text; or send image, or source. With image, the question to a model that writes about pictures; with source, "
        "another prompt for the same picture.",
    )
    video: bool = Field(
        False,
        description="For a model that writes about pictures: the images, or the frames of an animation, are one video, in the order of "
        "time.",
    )
    text_pair: _Text | None = Field(None, description="A second text that is read with the first: a hypothesis.")
    reference_text: _Text | None = Field(None, description="Features without a head: a text that the text is compared with.")
    crop: Annotated[CropBox | None, BeforeValidator(_crop), _AS_TEXT] = Field(
        None,
        description="x0,y0,x1,y1: show the model this part of the image alone, in whole pixels of the upright original. Empty: what it "
        "takes by itself, also where source was asked with a crop.",
    )
    window: Annotated[GreyLevels | None, BeforeValidator(_window), _AS_TEXT] = Field(
        None,
        description="level,width: of greys of more than 8 bits (16-bit PNG, TIFF, DICOM), the values that are shown as black to white. "
        "Empty or left out: those of the file, else from the smallest to the largest value.",
    )
    side: Annotated[
        Side | None,
        _one_of(("image", "text"), "unknown-side", "There is no side {what}.", "Send image, or text: the words of the prompts."),
    ] = Field(None, description="For CLIP models: score the image (the default) or the words of each prompt.")
    targets: _Names = Field(
        (),
        alias="target",
        description=(
            "Labels, synonyms, indices, or any:<group> for all classes of a group, clrp:<class> or sglrp:<class> for a class rather than "
            "all others, finer:<class> for a class against its nearest kinds, over:0.5 for every label whose probability is at least that; "
            "none: the top class."
        ),
    )
    prompts: _Names = Field((), alias="prompt", description="For CLIP models: what to look for.")
    against: _Word | None = Field(None, description="What target takes, or a prompt: explain how much each target scores above this one.")
    read: Annotated[
        ExplainedNumber,
        _one_of(READS, "unknown-read", "read={what} names no number that can be explained.", f"Send one of {', '.join(READS)}."),
    ] = Field("logit", description="The number of each target that is explained: its logit, or its softmax probability.")
    methods: _Names = Field((), description="Specs: method[:rule][?option=value]; none: the model's default ones.")
    order: _Names = Field(
        (),
        description="Specs whose maps are wanted first, in this order; those that are not made are passed over, and what is not named "
        "follows. The answer is the same whatever the order.",
    )


#: Fields that say nothing where they are blank.
_BLANK_IS_NOTHING = ("against", "read", *ExplainOptions.model_fields)


class QuestionForm(QuestionFields):
    """The form of ``POST /api/explanations``: an image, a text, an image with a text, or the source of an earlier explanation."""

    images: tuple[UploadFile, ...] = Field(
        (),
        alias="image",
        description="An image file; of a clip an animated GIF, WebP or PNG, or this field once for each frame. Or send text, or source; "
        "for a model that writes about pictures a text and an image, or this field once for each of several images.",
    )
    source: _Word | None = Field(None, description="The id of an explanation: explain the same input, bit for bit, not sent again.")
    reference: UploadFile | None = Field(
        None,
        description="Features without a head: an image file that the image is compared with. Left out with source: the one sent there.",
    )

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, sent: Any) -> Any:
        if "model" not in sent:
            raise wrong("no-model", "The field model is missing.", "Send the name of a model; GET /api/models lists them.")
        return {name: value for name, value in sent.items() if not (name in _BLANK_IS_NOTHING and not str(value).strip())}


class Question(QuestionFields):
    """A validated question: ``image`` (the bytes of a file, or of several packed as one) or ``text``, or both, with the options.

    reference  the bytes of the picture to which the image is compared
    note       a remark on detail that was lost, if the input is that of an earlier explanation
    """

    model_config = ConfigDict(frozen=True)

    image: bytes | None = Field(None, exclude=True)
    reference: bytes | None = Field(None, exclude=True)
    note: str | None = None

    def to_json(self) -> str:
        """Return all fields except the images as JSON text."""
        return self.model_dump_json()


def question_of(text: str, image: bytes | None, reference: bytes | None = None) -> Question:
    """Return the :class:`Question` in the JSON ``text`` that ``to_json`` wrote, with the bytes of its ``image`` and of the ``reference``
    picture added.
    """
    question = Question.model_validate_json(text)
    return question.model_copy(update={"image": image, "reference": reference})
