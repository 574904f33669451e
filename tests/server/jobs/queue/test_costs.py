"""How long one waits, from what things have taken and from what methods say of their passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import Site, png
from tests.server.support.gated_models import STEPS
from vitrine_server import registries
from vitrine_server.jobs.queue.costs import ANSWER, COSTS_FILE, Costs

METHODS = registries.methods(None)
BLOCKS, PATCHES = 12, 196


def of(costs: Costs, *specs: str, tokens: int = PATCHES, targets: int = 1) -> dict[str, float]:
    return costs.of_methods("model", specs, METHODS, tokens, BLOCKS, targets)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert of(Costs(), "occlusion", "rollout") == {}


def test_a_method_that_was_never_made_is_judged_by_its_passes() -> None:
    costs = Costs()
    costs.note("model", ANSWER, 0.1, PATCHES)
    seconds = of(costs, "occlusion", "kernel_shap?samples=1000", "integrated_gradients?steps=10", "globenc", "random")
    # a token painted, and taken out; a map is read off; a backward pass is as dear as two forward ones
    assert seconds["occlusion"] == pytest.approx(0.1 * (2 * 196 + 2 + 0.2))
    assert seconds["kernel_shap?samples=1000"] == pytest.approx(0.1 * (1002 + 0.2))
    assert seconds["integrated_gradients?steps=10"] == pytest.approx(0.1 * (12 + 2 * 10 + 0.2))
    assert seconds["globenc"] == pytest.approx(0.1 * (BLOCKS * PATCHES + 0.2))
    assert seconds["random"] == pytest.approx(0.1 * 0.2)


def test_the_first_of_a_rule_pays_for_its_pass() -> None:
    costs = Costs()
    costs.note("model", ANSWER, 1.0, PATCHES)
    seconds = of(costs, "input_x_gradient:libra", "fullgrad_plus:libra", "fullgrad_plus:gradient", targets=2)
    assert seconds["input_x_gradient:libra"] == seconds["fullgrad_plus:gradient"] == pytest.approx(2 * 3.2)
    assert seconds["fullgrad_plus:libra"] == pytest.approx(2 * 0.2)
    costs.note("model", "fullgrad_plus:libra", 5.0, PATCHES)
    costs.note("model", "fullgrad_plus:libra", 0.5, PATCHES, after_its_rule=True)
    assert of(costs, "fullgrad_plus:libra")["fullgrad_plus:libra"] == 5.0
    assert of(costs, "input_x_gradient:libra", "fullgrad_plus:libra")["fullgrad_plus:libra"] == 0.5


def test_a_measurement_counts_for_more_than_what_is_declared_and_the_newest_most() -> None:
    costs = Costs()
    costs.note("model", ANSWER, 0.1, PATCHES)
    costs.note("model", "occlusion", 10.0, PATCHES)
    assert of(costs, "occlusion") == {"occlusion": 10.0}
    costs.note("model", "occlusion", 20.0, PATCHES)
    assert of(costs, "occlusion") == {"occlusion": pytest.approx(14.0)}
    assert costs.of_methods("another", ["occlusion"], METHODS, PATCHES, BLOCKS) == {}


def test_the_first_answer_of_a_process_is_no_measure() -> None:
    costs = Costs()
    costs.note("model", ANSWER, 3.0, PATCHES)
    costs.note("model", ANSWER, 0.1, PATCHES)
    assert costs.seconds("model", ANSWER, PATCHES) == pytest.approx(0.1)
    costs.note("model", ANSWER, 0.2, PATCHES)
    assert costs.seconds("model", ANSWER, PATCHES) == pytest.approx(0.14)


def test_a_longer_text_takes_longer() -> None:
    costs = Costs()
    costs.note("model", "rollout", 1.0, 100)
    costs.note("model", "occlusion", 1.0, 100)  # a pass for each token, and each pass is longer
    assert of(costs, "rollout", "occlusion", tokens=300) == {"rollout": pytest.approx(3.0), "occlusion": pytest.approx(9.0)}


def test_a_text_read_in_windows_takes_as_many_times_what_one_takes() -> None:
    """A pass for each token goes over its window alone."""
    costs = Costs()
    costs.note("model", "occlusion", 1.0, 100)
    costs.note("model", ANSWER, 1.0, 100)
    in_windows = {"tokens": 1000, "most_tokens": 200}
    seconds = costs.of_methods("model", ["occlusion", "globenc"], METHODS, blocks=BLOCKS, **in_windows)
    assert seconds["occlusion"] == pytest.approx(10 * 2)  # ten times the text, and each window twice as long
    assert seconds["globenc"] == pytest.approx(10 * (BLOCKS * 200 + 0.2))  # ten times the answer, a pass for each token of a window


def test_every_method_says_its_passes_so_that_they_can_be_counted() -> None:
    costs = Costs()
    costs.note("model", ANSWER, 1.0, PATCHES)
    assert set(of(costs, *(method["name"] for method in METHODS))) == {method["name"] for method in METHODS}


def test_the_table_outlives_the_process(tmp_path: Path) -> None:
    costs = Costs(tmp_path / COSTS_FILE)
    costs.note("model", "mix", 3.0, 0)
    costs.save()
    assert Costs(tmp_path / COSTS_FILE).seconds("model", "mix", 0) == 3.0
    (tmp_path / COSTS_FILE).write_text("[1, 2")
    assert Costs(tmp_path / COSTS_FILE).seconds("model", "mix", 0) is None  # it is measured anew


def test_an_explanation_says_what_its_maps_take(site: Site) -> None:
    site.client.app.state.services.worker.costs.note("scenes-vit", "rollout", 2.5, 0)  # type: ignore[attr-defined]
    gate = site.models.gate(STEPS[0])
    one = site.ask(png(), methods=[STEPS[0], "rollout"], order=["rollout"]).json()["id"]
    gate.wait()
    job = site.client.app.state.services.worker.find(one)  # type: ignore[attr-defined]
    (started,) = (event.data for event in job.feed._events if event.name == "started")
    assert '"rollout":2.5' in started
    gate.open()
    assert site.finish(one)["state"] == "done"
