"""The types that the pages' scripts have of what HTTP takes and gives: from the OpenAPI document to TypeScript declarations.

``python -m tools.script_types`` writes ``build/types/core/schemas.d.ts``, as ``make lint`` does. Scripts import their types from there in
JSDoc, as if the file lay in ``static/core`` (``rootDirs`` of tsconfig.json), and ``tsc`` holds them to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI

FILE = Path(__file__).resolve().parent.parent / "build" / "types" / "core" / "schemas.d.ts"
WIDTH = 120
HEAD = """// What HTTP takes and gives, from the OpenAPI document. No page loads this. `python -m tools.script_types` makes it.
"""
PLAIN_TYPES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

Schema = Mapping[str, Any]


def type_of(schema: Schema) -> str:
    """Return the TypeScript type of the values that a JSON Schema allows, as far as types can say it: lengths and limits are left out."""
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"type": "string", "contentMediaType": _}:
            return "Blob"  # a file
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return _union(json.dumps(value) for value in values)
        case {"anyOf": members} | {"oneOf": members} | {"type": [*_] as members}:
            return _union(type_of(member if isinstance(member, Mapping) else {"type": member}) for member in members)
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(map(type_of, items))}]"
        case {"type": "array"}:
            item = type_of(schema.get("items", {}))
            return f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": "object", "properties": fields}:
            required = schema.get("required", ())
            return f"{{ {'; '.join(_field(name, field, name in required) for name, field in fields.items())} }}"
        case {"type": "object", "additionalProperties": Mapping() as value}:
            return f"{{ [name: string]: {type_of(value)} }}"
        case {"type": "object"}:
            return "{ [name: string]: unknown }"
        case {"type": kind}:
            return PLAIN_TYPES[kind]
    return "unknown"


def app() -> FastAPI:
    """Return the web application of a server with the default settings and without samples."""
    from vitrine_server.app import create_app
    from vitrine_server.settings import load_settings

    with TemporaryDirectory() as home:
        return create_app(load_settings({"home": home}), samples=[])


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of this server."""
    return app().openapi()


def declarations(schemas: Mapping[str, Schema]) -> str:
    """Return a module that declares and exports a type for each of the named schemas."""
    return "\n".join([HEAD, *(_declaration(name, schema) for name, schema in sorted(schemas.items()))])


def _declaration(name: str, schema: Schema) -> str:
    fields = schema.get("properties")
    if fields is None:
        return f"{_comment(schema, '')}export type {name} = {type_of(schema)};\n"
    required = schema.get("required", ())
    lines = [f"{_comment(field, '  ')}  {_field(key, field, key in required)};\n" for key, field in fields.items()]
    return f"{_comment(schema, '')}export interface {name} {{\n{''.join(lines)}}}\n"


def _field(name: str, schema: Schema, required: bool) -> str:
    return f"{name if name.isidentifier() else json.dumps(name)}{'' if required else '?'}: {type_of(schema)}"


def _comment(schema: Schema, indent: str) -> str:
    text = " ".join(schema.get("description", "").split())
    return f"{indent}/** {text} */\n" if text else ""


def _union(members: Iterator[str]) -> str:
    return " | ".join(dict.fromkeys(members))


def write() -> None:
    """Write the declarations of this checkout to ``FILE``, in one step: ``tsc`` may read it at the same time."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=FILE.parent, prefix=".", delete=False) as file:
        file.write(declarations(openapi()["components"]["schemas"]))
    Path(file.name).replace(FILE)


if __name__ == "__main__":
    write()
