"""What a replica tells Ray's metrics: the values of now, and 0 for what has left."""

from __future__ import annotations

from typing import Any

from vitrine_server.cluster.ray_gauges import RayGauges
from vitrine_server.http.metrics import GaugeValues


class Told:
    """Ray's gauge as far as it is used: the value of each set of tags."""

    made: dict[str, Told]

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert name not in self.made
        assert description
        self.tag_keys, self.values = tag_keys, dict[tuple[str, ...], float]()
        self.made[name] = self

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert tuple(tags) == self.tag_keys
        self.values[tuple(tags.values())] = value


def peaks(**values: float) -> list[GaugeValues]:
    return [GaugeValues("model_peak_bytes", "Peaks.", ("device", "model"), {("cuda:0", name): value for name, value in values.items()})]


def test_values_follow_and_what_has_left_is_nought() -> None:
    Told.made = {}
    make: Any = Told
    gauges = RayGauges(make)
    gauges.set(peaks(a=5.0, b=7.0))
    gauges.set([*peaks(b=8.0), GaugeValues("model_room_bytes", "Room.", ("device",), {("cuda:0",): 3.0})])
    assert {name: gauge.values for name, gauge in Told.made.items()} == {
        "vitrine_model_peak_bytes": {("cuda:0", "a"): 0.0, ("cuda:0", "b"): 8.0},
        "vitrine_model_room_bytes": {("cuda:0",): 3.0},
    }
