"""The description of the calls has a schema for every answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

REFERENCE = "#/components/schemas/"


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return create_app(load_settings({"home": tmp_path_factory.mktemp("home")}), samples=[]).openapi()


def answers(description: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Of every call and status that is a success: the name of the call, and its answer as it is described."""
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            for status, answer in call["responses"].items():
                if status.startswith("2"):
                    yield f"{method} {path}", status, answer


def nodes(schema: Any) -> Iterator[Any]:
    """A schema and the schemas of its parts."""
    yield schema
    parts = [*schema.get("properties", {}).values(), *schema.get("prefixItems", ())]
    parts += [part for name in ("anyOf", "oneOf", "allOf") for part in schema.get(name, ())]
    parts += [schema[name] for name in ("items", "additionalProperties", "contentSchema") if isinstance(schema.get(name), dict)]
    for part in parts:
        yield from nodes(part)


def is_typed(schema: Any) -> bool:
    """Whether every part of a schema says what it is."""
    says = {"$ref", "type", "const", "enum", "anyOf", "oneOf"}
    return all(
        says & set(node) and not (node.get("type") == "object" and node.get("additionalProperties") is True) for node in nodes(schema)
    )


def test_every_answer_has_a_schema(description: Any) -> None:
    untyped = []
    for call, status, answer in answers(description):
        content = answer.get("content", {})
        if status == "204":
            assert not content
            continue
        schemas = [part.get("schema") or part.get("itemSchema") for part in content.values()]
        if not schemas or not all(schema and is_typed(schema) for schema in schemas):
            untyped.append(f"{call} {status}")
    assert not untyped


def test_every_part_of_a_schema_says_what_it_is(description: Any) -> None:
    assert not [name for name, schema in description["components"]["schemas"].items() if not is_typed(schema)]


def test_json_objects_have_these_fields_and_no_others(description: Any) -> None:
    schemas = description["components"]["schemas"]
    assert not [name for name, schema in schemas.items() if "properties" in schema and schema.get("additionalProperties") is not False]


def test_every_reference_leads_somewhere(description: Any) -> None:
    text = json.dumps(description)
    named = {part.partition('"')[0] for part in text.split(f'"{REFERENCE}')[1:]}
    assert named <= set(description["components"]["schemas"])
    assert "$defs" not in text


def test_every_call_describes_its_refusals(description: Any) -> None:
    for calls in description["paths"].values():
        for call in calls.values():
            assert call["responses"]["default"]["content"]["application/problem+json"]["schema"]["$ref"] == f"{REFERENCE}ProblemDocument"
            assert "422" not in call["responses"]


def test_a_call_without_a_schema_is_found(tmp_path: Path) -> None:
    app = create_app(load_settings({"home": tmp_path}), samples=[])
    app.add_api_route("/api/forgotten", lambda: {"an": "answer"})
    (answer,) = (answer for call, _, answer in answers(app.openapi()) if call == "get /api/forgotten")
    assert not is_typed(answer["content"]["application/json"]["schema"])
