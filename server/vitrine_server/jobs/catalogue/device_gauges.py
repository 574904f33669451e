"""The memory of devices as gauges of Prometheus: what weights take, what they may take, and what is held by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from vitrine_server.http.metrics import GaugeValues
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ResidentModel


def gauges_by_device(residents: Iterable[Mapping[str, ResidentModel]], budgets: Iterable[DeviceBudget]) -> list[GaugeValues]:
    """Return the gauges of the models that each host holds (``residents``), and of how each shares out the memory of its device.

    Several hosts may be on one device: their weights, rooms and headrooms are added. They see the same device, and may see at different
    moments what others hold of it: the largest counts.
    """
    weights: dict[str, Counter[tuple[str, ...]]] = {"device": Counter(), "host": Counter()}
    for models in residents:
        for model in models.values():
            weights[model.place][model.device,] += model.bytes
    room, headroom = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    total, others, peaks, cached = (dict[tuple[str, ...], float]() for _ in range(4))
    for budget in budgets:
        key = (budget.device,)
        room[key] += budget.room
        headroom[key] += budget.headroom
        total[key], others[key] = max(total.get(key, 0), budget.total), max(others.get(key, 0), budget.others)
        cached[key] = cached.get(key, 0) + budget.cached
        weights["device"][key] += 0  # a device without models has none, and not no number
        weights["host"][key] += 0
        for name, peak in budget.peaks.items():
            peaks[budget.device, name] = max(peaks.get((budget.device, name), 0), peak)
    described: list[tuple[str, str, Mapping[tuple[str, ...], float]]] = [
        ("model_device_bytes", "Weights on a device that computes.", weights["device"]),
        ("model_host_bytes", "Weights of models of a device that were moved to the machine's memory to make room.", weights["host"]),
        ("model_room_bytes", "Bytes that weights may take on a device.", room),
        ("model_headroom_bytes", "Bytes of a device that are kept free for what models compute.", headroom),
        ("device_total_bytes", "Memory of a device.", total),
        ("device_others_bytes", "Memory of a device that other processes or the driver held, when it was last used.", others),
        ("device_cached_bytes", "Memory of a device that torch's allocator held and no tensor used, when it was last used.", cached),
    ]
    gauges = [GaugeValues(name, text, ("device",), values) for name, text, values in described]
    text = "The most that a recent use of a model took beyond weights, where the device counts it."
    return [*gauges, GaugeValues("model_peak_bytes", text, ("device", "model"), peaks)]
