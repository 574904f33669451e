"""What nobody would send by mistake: files and texts changed at random, and every field of every call with every odd value. Nothing is
answered 5xx, and whoever asks properly is answered afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import Site, png
from tests.server.support.mutations import pictures, texts
from tests.server.support.tiny_models import tiny_site

MOST = 250  # of pictures, and of texts; tests/system/test_mutations.py sends more
METHODS = ["rollout", "input_x_gradient:libra"]
#: JSON of odd values, as text: some of it Python would not write.
ODD = {
    "half a character": r'"\ud800"',
    "NUL": r'"\u0000"',
    "long": json.dumps("a" * 50_000),
    "deep": "[" * 5000 + "]" * 5000,
    "deep objects": '{"a":' * 5000 + "1" + "}" * 5000,
    "large": "1" + "0" * 400,
    "largest": "1e400",
    "negative": "-1",
    "not a number": "NaN",
    "half": "0.5",
    "nothing": "null",
    "true": "true",
    "empty": '""',
    "list": "[]",
    "many": json.dumps(list(range(5000))),
    "object": "{}",
    "nested": '{"a": [{"b": null}]}',
    "markup": json.dumps("<script>alert(1)</script>"),
    "path": json.dumps("../../etc/passwd"),
    "right to left": json.dumps("\u202e\u2066abc"),
}
IN_ADDRESSES = ("%00", "%ed%a0%80", "a" * 5000, "-1", "1e400", "NaN", "%0d%0aX-Forged:%201", "..%2f..%2fetc%2fpasswd", "<b>", "", "%", "[]")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def test_mutated_pictures_are_taken_or_refused(site: Site) -> None:
    statuses = Counter(site.ask(data, methods=METHODS, wait=True).status_code for data in pictures(MOST))
    assert set(statuses) <= {200, 413, 415, 422}, statuses
    assert min(statuses[200], statuses[422]) > MOST / 20  # they are neither all whole nor all broken
    assert site.ask(png(), methods=METHODS, wait=True).json()["state"] == "done"


def test_mutated_texts_are_taken_or_refused(site: Site) -> None:
    statuses: Counter[int] = Counter()
    for text in texts(MOST):
        body = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\n' + text + b"\r\n"
        for name, value in [("model", "reviews-bert"), ("methods", "rollout")]:
            body += f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        headers = {"content-type": "multipart/form-data; boundary=x"}
        statuses[site.client.post("/api/explanations?wait=1", content=body + b"--x--\r\n", headers=headers).status_code] += 1
    assert set(statuses) <= {200, 400, 422}, statuses
    assert min(statuses[200], statuses[400], statuses[422]) > MOST / 50
    assert site.ask(model="reviews-bert", text="a good film", methods=METHODS, wait=True).json()["state"] == "done"


def fields(description: Any, schema: Any) -> list[str]:
    """The names of the fields of a body."""
    while "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return list(schema.get("properties", ()))


def calls(description: Any) -> Iterator[tuple[str, str, Any]]:
    """Of every call its verb, path and description; a stream is not read, as it ends with what it tells of."""
    for path, verbs in description["paths"].items():
        for verb, call in verbs.items():
            if not path.endswith("/events"):
                yield verb.upper(), path, call


def test_every_field_of_every_body_with_every_odd_value(site: Site) -> None:
    description = site.get("/api/openapi.json")
    explanation_id = site.ask(png(), wait=True).json()["id"]
    tried, failed = 0, []
    for verb, path, call in calls(description):
        schema = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            continue
        address = path.replace("{id}", explanation_id)
        bodies = [f'{{"{name}": {value}}}' for name in fields(description, schema) for value in ODD.values()]
        for body in (*bodies, *ODD.values(), ""):
            answer = site.client.request(verb, address, content=body, headers={"content-type": "application/json"})
            tried += 1
            if answer.status_code >= 500:
                failed.append((verb, path, body[:80], answer.text[:200]))
    assert tried > 500
    assert not failed, failed
    assert site.ask(png(1), wait=True).json()["state"] == "done"


def test_every_parameter_of_every_address_with_odd_values(site: Site) -> None:
    description = site.get("/api/openapi.json")
    explanation_id = site.ask(png(), wait=True).json()["id"]
    tried, failed = 0, []
    for verb, path, call in calls(description):
        parameters = call.get("parameters", ())
        query = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
        within = [parameter["name"] for parameter in parameters if parameter["in"] == "path"]
        for odd in IN_ADDRESSES:
            whole = path.replace("{id}", explanation_id)
            addresses = [f"{whole.replace('{', '').replace('}', '')}?{name}={odd}" for name in query]
            addresses += [path.replace(f"{{{name}}}", odd).replace("{", "").replace("}", "") for name in within]
            for address in addresses:
                answer = site.client.request(verb, address)
                tried += 1
                if answer.status_code >= 500:
                    failed.append((verb, address[:120], answer.text[:200]))
    assert tried > 300
    assert not failed, failed
