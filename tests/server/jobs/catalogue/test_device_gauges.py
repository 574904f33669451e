"""The memory of several devices as gauges: what hosts on one device take is added, and each device has its own series."""

from __future__ import annotations

from vitrine_server.http.metrics import Metrics
from vitrine_server.jobs.catalogue.device_gauges import gauges_by_device
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ResidentModel

RESIDENTS = [
    {"a": ResidentModel("device", "cuda:0", 400), "b": ResidentModel("host", "cuda:0", 70)},
    {"a": ResidentModel("device", "cuda:0", 400)},
    {"a": ResidentModel("device", "cuda:1", 5)},
]
BUDGETS = [
    DeviceBudget("cuda:0", total=9000, others=1000, headroom=200, room=3000, peaks={"a": 160}, cached=20),
    DeviceBudget("cuda:0", total=9000, others=1100, headroom=300, room=2000, peaks={"a": 40, "b": 3}, cached=1),
    DeviceBudget("cuda:1", total=8000, others=0, headroom=50, room=7950),
    DeviceBudget("cuda:2", total=8000, others=8000, headroom=0, room=0),
]


def test_each_device_has_its_own_series_and_hosts_on_it_are_added() -> None:
    shown = Metrics().text(gauges_by_device(RESIDENTS, BUDGETS))
    series = dict(line.rsplit(" ", 1) for line in shown.splitlines() if "{" in line and not line.startswith("#"))
    expected = {
        "model_device_bytes": (800, 5, 0),
        "model_host_bytes": (70, 0, 0),
        "model_room_bytes": (5000, 7950, 0),
        "model_headroom_bytes": (500, 50, 0),
        "device_total_bytes": (9000, 8000, 8000),
        "device_others_bytes": (1100, 0, 8000),
        "device_cached_bytes": (21, 0, 0),
    }
    for name, values in expected.items():
        for number, value in enumerate(values):
            assert float(series.pop(f'vitrine_{name}{{device="cuda:{number}"}}')) == value
    peaks = {name: float(value) for name, value in series.items() if name.startswith("vitrine_model_peak_bytes")}
    assert peaks == {
        'vitrine_model_peak_bytes{device="cuda:0",model="a"}': 160.0,
        'vitrine_model_peak_bytes{device="cuda:0",model="b"}': 3.0,
    }


def test_shortages_are_counted_by_what_became_of_them_and_every_outcome_is_there_from_the_first_on() -> None:
    metrics = Metrics()
    for new in ({"recomputed": 2}, {"failed": 1, "recomputed": 1}, {}):
        metrics.memory_was_short("cuda:0", new)
    metrics.memory_was_short("cpu", {})
    shown = metrics.text([])
    for outcome, count in {"smaller-batch": 0, "recomputed": 3, "made-room": 0, "failed": 1}.items():
        assert f'vitrine_memory_shortages_total{{device="cuda:0",outcome="{outcome}"}} {float(count)}' in shown
        assert f'vitrine_memory_shortages_total{{device="cpu",outcome="{outcome}"}} 0.0' in shown


def test_seconds_are_counted_in_buckets_by_which_a_percentile_is_told() -> None:
    metrics = Metrics()
    for seconds in (0.2, 2.0, 400.0):
        metrics.job("done", seconds)
        metrics.waited(seconds)
        metrics.model_loaded("cuda:0", seconds)
    shown = metrics.text([])
    for name, device, state in (("explanation", "", ',state="done"'), ("queue_wait", "", ""), ("model_load", 'device="cuda:0",', "")):
        for bound, count in (("0.1", 0), ("0.3", 1), ("1.0", 1), ("3.0", 2), ("300.0", 2), ("+Inf", 3)):
            assert f'vitrine_{name}_seconds_bucket{{{device}le="{bound}"{state}}} {float(count)}' in shown


def test_moves_are_counted_for_each_device_and_every_place_is_there_from_the_first_on() -> None:
    metrics = Metrics()
    for place, device in (("device", "cuda:1"), ("host", "cuda:1"), ("device", "cuda:1"), ("disk", "cuda:0")):
        metrics.model_moved(place, device)
    shown = metrics.text([])
    counts = {("device", 1): 2, ("host", 1): 1, ("disk", 1): 0, ("device", 0): 0, ("host", 0): 0, ("disk", 0): 1}
    for (place, number), count in counts.items():
        assert f'vitrine_model_moves_total{{device="cuda:{number}",to="{place}"}} {float(count)}' in shown
