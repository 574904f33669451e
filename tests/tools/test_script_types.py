"""The declarations of what HTTP takes and gives say what the schemas of the OpenAPI document say."""

from __future__ import annotations

from typing import Any

import pytest

from tools.script_types import declarations, type_of


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        ({"type": "integer", "minimum": 0}, "number"),
        ({"$ref": "#/components/schemas/Target"}, "Target"),
        ({"const": "image", "type": "string"}, '"image"'),
        ({"enum": ["most", "least"], "type": "string"}, '"most" | "least"'),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}, "(number | null)[]"),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, "[number, string]"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "{ [name: string]: string }"),
        ({"type": "object"}, "{ [name: string]: unknown }"),
        ({"type": "string", "contentMediaType": "application/octet-stream"}, "Blob"),
        ({}, "unknown"),
    ],
)
def test_a_schema_as_a_type(schema: dict[str, Any], declared: str) -> None:
    assert type_of(schema) == declared


def test_a_declaration_says_what_is_there_always_and_what_may_be_left_out() -> None:
    fields = {"score": {"type": "number"}, "line-of": {"description": "Where it is  known.", "type": "string"}}
    written = declarations({"Doubt": {"description": "A doubt.", "properties": fields, "required": ["score"], "type": "object"}})
    assert written.endswith(
        '/** A doubt. */\nexport interface Doubt {\n  score: number;\n  /** Where it is known. */\n  "line-of"?: string;\n}\n'
    )
