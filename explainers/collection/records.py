"""The columns of a collection: one record for each input, and the Arrow schema that its Parquet files have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from explainers.json_records import Record, describe

#: Numbers that are stored in fewer bytes than Python's: the annotation names the type of Arrow.
Int8 = Annotated[int, "int8"]
Int32 = Annotated[int, "int32"]
Float32 = Annotated[float, "float32"]
LARGEST_INT8 = 127


@dataclass(frozen=True)
class CollectedWord(Record):
    """A part of a text that has a score: a word, or an atom of a molecule, with its characters."""

    text: str
    start: Annotated[Int32, describe("The first of its characters in the text.")]
    end: Annotated[Int32, describe("The character after its last one.")]
    part: Annotated[Int8, describe("0; of a pair of texts, 1 in the second.")]


@dataclass(frozen=True, kw_only=True)
class CollectedMap(Record):
    """The map of one method for the answer to one input, and what it says. Its parts are patches in raster order, or the row's words."""

    method: Annotated[str, describe("The spec of the method.")]
    scores: Annotated[list[Int8], describe("The score of each part in steps of `step`, -127 to 127.")]
    step: Annotated[float, describe("The size of a step: the largest magnitude of a score over 127.")]
    top: Annotated[list[Int32], describe("The tenth of the parts with the largest scores (at least one), the largest first.")]
    share_on_object: Annotated[float | None, describe("The share of the positive scores that lies on the object; null without one.")]
    share_on_border: Annotated[
        float | None, describe("The share of the positive scores that lies on the outermost patches of the picture; null for a text.")
    ]
    agreement: Annotated[float | None, describe("The mean rank correlation with the maps of the other methods; null if there is no other.")]
    answer_without: Annotated[str | None, describe("What the model answers without the `top` parts; null if it was not asked.")]
    probability_without: Annotated[float | None, describe("The probability that is left to the answer then.")]
    logit_without: Annotated[float | None, describe("The logit that is left to the answer then.")]
    falls: Annotated[bool | None, describe("Whether the model then gives another answer; null for a regression.")]
    embedding: Annotated[
        list[Float32],
        describe(
            "Where it looks, to compare maps by: the map over the sum of its magnitudes, of a picture averaged over 8 by 8 fields, of a "
            "text multiplied with the tokens' embeddings and summed."
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class CollectedRow(Record):
    """One input of a collection: the answer of the model, and the maps of it."""

    index: Annotated[int, describe("The place of the input in the data, from 0.")]
    input: Annotated[str, describe("Its name: the path of a picture below the folder, the number of the row of a table.")]
    text: Annotated[str | None, describe("The text, or the SMILES of a molecule.")]
    text_pair: Annotated[str | None, describe("The second text of a pair.")]
    labels: Annotated[list[str], describe("Its labels; any of them is right.")]
    own_columns: Annotated[dict[str, str], describe("The further columns of its row in a table of one's own.")]
    answer: Annotated[str, describe("What the model answers: the label of the likeliest class, or the prompt.")]
    answer_index: Annotated[Int32, describe("The index of the answer among the classes or prompts.")]
    probability: Annotated[float | None, describe("The probability of the answer; null for a regression.")]
    logit: Annotated[float, describe("The logit of the answer; of a regression its value.")]
    runner_up: Annotated[str | None, describe("The second likeliest answer.")]
    runner_up_probability: Annotated[float | None, describe("Its probability.")]
    right: Annotated[bool | None, describe("Whether the answer is among the labels; null without a label that the model knows.")]
    label_probability: Annotated[float | None, describe("The largest probability among the classes of the labels.")]
    doubt: Annotated[str | None, describe("Why the model cannot know the answer, as a name; null where it can.")]
    doubt_detail: Annotated[str | None, describe("The same in a sentence.")]
    size: Annotated[list[Int32], describe("Width and height of the upright picture, in pixels; empty for a text.")]
    crop: Annotated[list[Int32], describe("x0, y0, x1, y1: the part of it that the model saw and the thumbnail shows.")]
    grid: Annotated[list[Int32], describe("Rows and columns of patches; empty for a text.")]
    words: Annotated[list[CollectedWord], describe("The words of a text, or the atoms of a molecule; empty for a picture.")]
    object_area: Annotated[float | None, describe("The share of the parts that the object covers: what a map by chance has on it.")]
    agreement: Annotated[float | None, describe("The mean rank correlation of every two maps; null where there is one map.")]
    maps: Annotated[list[CollectedMap], describe("One for each method.")]
    embedding: Annotated[
        list[Float32],
        describe("The vector that the model compares or classifies the input by; empty where it has no such vector."),
    ]
    notes: Annotated[list[str], describe("What a person should know of this input, such as that a text was cut.")]

    def map(self, method: str) -> CollectedMap:
        """Return the map of ``method``, a spec. Raises KeyError for another method than those of the collection."""
        for each in self.maps:
            if each.method == method:
                return each
        raise KeyError(f"no map of {method!r}; methods: {', '.join(each.method for each in self.maps)}")

    def to_row(self) -> dict[str, Any]:
        """Return the record as a row of Arrow: plain values by column."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CollectedRow:
        """Build the record from a row of Arrow, whose ``own_columns`` may be pairs."""
        nested: dict[str, Any] = {
            "own_columns": dict(row["own_columns"]),
            "words": [CollectedWord(**word) for word in row["words"]],
            "maps": [CollectedMap(**each) for each in row["maps"]],
        }
        return cls(**{field.name: row[field.name] for field in fields(cls)} | nested)


@cache
def row_schema() -> Any:
    """Return the Arrow schema of the rows of every collection, made of the types of :class:`CollectedRow`."""
    import pyarrow as pa

    return pa.schema(_columns(CollectedRow))


@cache
def thumbnail_schema() -> Any:
    """Return the Arrow schema of the thumbnails: the index of the input, and a JPEG file of the part that the model saw."""
    import pyarrow as pa

    return pa.schema([("index", pa.int64()), ("thumbnail", pa.binary())])


def _columns(record: type[Any]) -> list[tuple[str, Any]]:
    hints = get_type_hints(record, include_extras=True)
    return [(field.name, _arrow_type(hints[field.name])) for field in fields(record)]


def _arrow_type(hint: Any) -> Any:
    """Return the Arrow type of a Python type; a ``str`` in its annotation is the name of the Arrow type."""
    import pyarrow as pa

    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        name = next((note for note in notes if isinstance(note, str)), None)
        return _arrow_type(inner) if name is None else pa.type_for_alias(name)
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return _arrow_type(inner)
    if get_origin(hint) is list:
        return pa.list_(_arrow_type(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return pa.map_(*map(_arrow_type, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, Record):
        return pa.struct(_columns(hint))
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[hint]
