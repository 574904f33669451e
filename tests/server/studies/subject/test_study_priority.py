"""The deletion test of a real, tiny model, held between its passes: other questions are answered meanwhile, and its numbers stay."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.server.conftest import Site, png
from tests.server.support.checked_client import CheckedClient
from tests.server.support.turnstile import Gated, Turnstile
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings

METHODS = ["rollout", "fullgrad_plus:libra"]


@dataclass
class Stage:
    site: Site
    turnstile: Turnstile

    def ask(self, seed: int, *further: str) -> Any:
        return self.site.ask(png(seed), wait=True, methods=[*METHODS, *further]).json()

    def remove_tokens(self, name: str, **body: Any) -> Any:
        answer = self.site.client.post(f"/api/explanations/{name}/deletion-test", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    gated = Gated()
    settings = load_settings({"home": tmp_path_factory.mktemp("home"), "device": "cpu"})
    with CheckedClient(create_app(settings, gated.source(), [])) as client:
        site = Site(client)
        site.wait_for_models("scenes-vit")
        yield Stage(site, gated.turnstile)
        gated.turnstile.let(None)


def test_a_new_question_to_the_same_model_is_answered_before_the_test_goes_on(stage: Stage) -> None:
    first = stage.ask(1)
    twin = stage.ask(1, "random")  # the test of an explanation is made once: its numbers come from another explanation of the picture
    expected = stage.remove_tokens(twin["id"], methods=METHODS) | {"id": first["id"]}
    alone = stage.ask(2)
    stage.site.client.delete(f"/api/explanations/{alone['id']}")
    stage.turnstile.let(8)  # it is found out how tokens can be taken away, and a few are
    with ThreadPoolExecutor(1) as pool:
        test = pool.submit(stage.remove_tokens, first["id"])
        stage.turnstile.wait()
        before = stage.turnstile.passes
        question = stage.site.ask(png(2), methods=METHODS).json()["id"]
        stage.turnstile.let(1)  # the pass that is held; no other one
        found = stage.site.finish(question)
        assert found["state"] == "done"
        assert not test.done()
        assert stage.turnstile.passes <= before + 1
        stage.turnstile.let(None)
        answer = test.result()
    assert answer == expected  # what passed it changed nothing in it
    assert [one["scores"] for one in found["maps"]] == [one["scores"] for one in alone["maps"]]


def test_one_answer_passes_the_curves(stage: Stage) -> None:
    first = stage.ask(3)
    with ThreadPoolExecutor(2) as pool:
        stage.turnstile.let(0)
        test = pool.submit(stage.remove_tokens, first["id"])
        stage.turnstile.wait()
        stage.turnstile.let(None)
        single = pool.submit(stage.remove_tokens, first["id"], remove=[1, 2]).result()
        assert single["removed"] == [1, 2]
        assert test.result()["curves"]


def test_progress_counts_the_inputs_that_are_asked_once(stage: Stage) -> None:
    stage.turnstile.let(None)
    document = stage.ask(4)
    url = f"/api/explanations/{document['id']}/deletion-test"
    with stage.site.client.stream("POST", url, json={"fractions": [0, 0.5, 1]}, headers={"Accept": "text/event-stream"}) as answer:
        lines = [line for line in answer.iter_lines() if line]
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert set(names[:-1]) == {"progress"}
    assert names[-1] == "done"
    halves = 2 * len(METHODS) + 5
    # the whole input and the empty one are each asked once for all curves
    assert lines[1] == f'data: {{"asked":0,"total":{halves + 2}}}'
