"""Records: dataclasses that say of each field what it is in JSON. The document of an answer and its schema are made of the same line.

A dataclass that derives from :class:`Record` has its fields in JSON, under their names::

    @dataclass(frozen=True)
    class OutlierPatches(Record):
        block: Annotated[int, describe("Counted from 0.")]

:func:`describe` describes a field and :func:`optional` one that is left out where it is empty; :data:`HIDDEN` keeps a field out, and
:data:`INLINE` puts the fields of a record among those of the record that holds it, :func:`inline` some of them. A property whose type is
annotated so is a field too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonField:
    """The form of a record's field in JSON.

    text         its description in the schema
    key          its name; empty: as in Python
    kind         its type, where another than in Python
    write        makes plain data of the value; None: as :func:`plain` does
    tag          for a field that may hold one of several kinds of records: the key whose value names the kind
    is_required  False if documents of earlier versions lack the field
    is_optional  True if the field is left out, and not null, where it is None or an empty collection
    keeps_empty  for such a field: True if an empty collection is written nevertheless
    is_hidden    True if the field is never written
    is_inline    True if the field holds a record whose keys are put among those of the outer one
    without      keys of a record inside that are left out
    """

    text: str = ""
    key: str = ""
    kind: Any = None
    write: Callable[[Any], Any] | None = None
    tag: str = ""
    is_required: bool = True
    is_optional: bool = False
    keeps_empty: bool = False
    is_hidden: bool = False
    is_inline: bool = False
    without: tuple[str, ...] = ()


HIDDEN = JsonField(is_hidden=True)
INLINE = JsonField(is_inline=True)
_AS_IT_IS = JsonField()
_SCALARS = frozenset((str, int, float, bool, NoneType))
_COLLECTIONS = (tuple, list, dict)


def describe(
    text: str = "",
    *,
    key: str = "",
    kind: Any = None,
    write: Callable[[Any], Any] | None = None,
    tag: str = "",
    is_required: bool = True,
) -> JsonField:
    """Return the :class:`JsonField` of a field that is always in the JSON; the arguments (``text``, its description, ``key``, its name in
    the JSON, and others) are fields of that class.
    """
    return JsonField(text=text, key=key, kind=kind, write=write, tag=tag, is_required=is_required)


def optional(
    text: str = "", *, key: str = "", kind: Any = None, write: Callable[[Any], Any] | None = None, keep_empty: bool = False
) -> JsonField:
    """Return the :class:`JsonField` of a field that is left out of the JSON, and not null, if it is None or an empty collection; with
    ``keep_empty`` an empty collection is written. The other arguments are fields of that class.
    """
    return JsonField(text=text, key=key, kind=kind, write=write, is_optional=True, keeps_empty=keep_empty)


def inline(*, without: tuple[str, ...]) -> JsonField:
    """Return the mark of a field whose record is not nested in the JSON: its keys, except the keys ``without``, are put among the keys of
    the record that holds the field.
    """
    return JsonField(is_inline=True, without=without)


class Record:
    """Base of dataclasses that are written as JSON; pydantic takes their types for those of JSON objects with these fields and no others.

    ``class TargetInfo(Record, name="Target")`` names the schema, else it is called as the class. Its description is the first sentence of
    the docstring.
    """

    schema_name: str = ""

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.schema_name = name or cls.__name__

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        document: dict[str, Any] = {}
        kind: Any = type(self)
        for attribute, key, mark in written_fields(kind):
            value = getattr(self, attribute)
            if mark.is_optional and (value is None or (not mark.keeps_empty and isinstance(value, _COLLECTIONS) and not value)):
                continue
            if mark.write is not None:
                document[key] = mark.write(value)
            elif mark.is_inline:
                document |= {name: part for name, part in value.to_json().items() if name not in mark.without}
            else:
                document[key] = value if type(value) in _SCALARS else plain(value)
        return document

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        record: Any = cls
        return handler(schema_of(record))


def finite_or_none(value: float | None) -> float | None:
    """Return None for infinities and NaN, which JSON does not have, any other value as it is."""
    return value if value is not None and math.isfinite(value) else None


def as_it_is(value: Any) -> Any:
    """Return the plain data ``value`` unchanged, without conversion of its parts."""
    return value


def plain(value: Any) -> Any:
    """Return ``value`` with records, tensors, arrays and collections in it converted to plain data for JSON; anything else is returned as
    it is.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (tuple, list)):
        return [part if type(part) in _SCALARS else plain(part) for part in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return {name: plain(part) for name, part in value.items()} if isinstance(value, Mapping) else value


@cache
def written_fields(record: Any) -> tuple[tuple[str, str, JsonField], ...]:
    """Return attribute, key and :class:`JsonField` of each field of a record that is in JSON: first fields in the order of declaration,
    then properties.
    """
    hints = _hints(record)
    marks = {name: _mark(hint) for name, hint in hints.items()}
    return tuple((name, mark.key or name, mark) for name, mark in marks.items() if not mark.is_hidden)


def _hints(record: Any) -> dict[str, Any]:
    """Return the annotated types by name: of the fields of ``record``, and of its properties that are written to JSON."""
    declared = get_type_hints(record, include_extras=True)
    hints = {field.name: declared[field.name] for field in fields(record)}
    for base in reversed(record.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, property) and "Annotated" in str(member.fget.__annotations__.get("return", "")):
                hints[name] = get_type_hints(member.fget, include_extras=True)["return"]
    return hints


def _mark(hint: Any) -> JsonField:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, JsonField)), _AS_IT_IS)


def _json_type(hint: Any, mark: JsonField) -> Any:
    """Return the type that a field of a record has in JSON, from its annotated type ``hint`` and ``mark``, its :class:`JsonField`."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    kind = kind if mark.kind is None else mark.kind
    if mark.is_optional and get_origin(kind) in (Union, UnionType):  # where it is None it is not there
        return Union[tuple(part for part in get_args(kind) if part is not NoneType)]  # noqa: UP007  (of parts that are not known before)
    return kind


@cache
def schema_of(record: Any, name: str = "", base: Any = None, without: tuple[str, ...] = (), partial: bool = False) -> Any:
    """Return the pydantic model of the JSON that a record is written as.

    name     of the model; empty: that of the record
    base     a model whose fields come first, and stay as they are where the record has them too
    without  keys that are left out
    partial  whether a document may lack any of the record's own fields, such as one that is not finished
    """
    from pydantic import ConfigDict, Field, create_model  # the command line and the library write JSON without it

    members: dict[str, Any] = {}
    hints = _hints(record)
    for attribute, key, mark in written_fields(record):
        hint = hints[attribute]
        if mark.is_inline:
            inside = schema_of(_json_type(hint, mark)).model_fields
            members |= {part: (info.annotation, info) for part, info in inside.items() if part not in mark.without}
            continue
        default: dict[str, Any] = {"default_factory": lambda: None} if partial or mark.is_optional or not mark.is_required else {}
        members[key] = (_json_type(hint, mark), Field(description=mark.text or None, discriminator=mark.tag or None, **default))
    there = () if base is None else base.model_fields
    kept = {key: member for key, member in members.items() if key not in without and key not in there}
    described = " ".join((record.__doc__ or "").split("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."
    made_of: Any = {"__config__": ConfigDict(extra="forbid")} if base is None else {"__base__": base}
    return create_model(name or record.schema_name, __doc__=described, __module__=record.__module__, **made_of, **kept)
