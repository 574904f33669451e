"""Analyses whose memory runs out: fewer rows at a time, then activations computed again, then words; the next one works."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.analysis.heads.words import head_words
from explainers.analysis.metric_driven import metric_driven_map
from explainers.errors import MemoryShortageError
from explainers.evaluation.graded_answers import logits_of_shown
from explainers.models.model import Model
from explainers.models.passes import rows_at_most
from explainers.pipeline.memory_steps import run_in_steps
from tests.server.support.gated_models import clip_model, image_model

pytestmark = pytest.mark.slow
PROMPT = "a zebra"


def pictures(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(3)
    return [Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)) for _ in range(count)]


def deletion(model: Model) -> Any:
    result = explainers.explain(model, pictures(1)[0], 0, ["input_x_gradient"])
    return explainers.deletion_test(model, result, draws=2)


def shown(model: Model) -> Any:
    maps = torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(0))
    return run_in_steps(lambda: model, lambda: logits_of_shown(model, model.tensors(pictures(1)), maps))


def contributions(model: Model) -> Any:
    """As a study of the server asks for it: the session is made inside."""
    return run_in_steps(lambda: model, lambda: explainers.contributions(explainers.Session(model, pictures(1)[0], 0), "fullgrad_plus"))


ANALYSES: dict[str, tuple[Callable[[], Model], Callable[[Model], Any]]] = {
    "deletion test": (image_model, deletion),
    "depth": (image_model, lambda model: explainers.depth(model, pictures(9))),
    "metric-driven map": (image_model, lambda model: metric_driven_map(model, pictures(1)[0], 0, candidates=3)),
    "patch similarity": (image_model, lambda model: explainers.patch_similarity(model, pictures(1)[0]).features),
    "graded answers": (image_model, shown),
    "contributions": (image_model, contributions),
    "interaction": (clip_model, lambda model: explainers.interaction(model, pictures(1)[0], PROMPT, steps=1)),
    "faithful interaction": (clip_model, lambda model: explainers.faithful_interaction(model, pictures(1)[0], PROMPT, budget=16, parts=4)),
    "words of heads": (clip_model, lambda model: head_words(replace(model), pictures(10), [PROMPT, "a big dog", "a film"], rank=1)),
}


def numbers(found: Any) -> list[float]:
    """All numbers of a result but for times."""
    found = found.to_json() if hasattr(found, "to_json") else found
    if isinstance(found, torch.Tensor):
        return [float(value) for value in found.flatten()]
    if isinstance(found, dict):
        return [number for name, value in found.items() if name != "seconds" for number in numbers(value)]
    if isinstance(found, list | tuple):
        return [number for value in found for number in numbers(value)]
    return [float(found)] if isinstance(found, int | float) else []


class Device:
    """Counts the passes of a model, and is full for those of which ``is_full`` says so."""

    def __init__(self, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes, self.is_full, self._model = 0, lambda number, rows: False, model
        backward = torch.autograd.grad

        def grad(*given: Any, **how: Any) -> Any:
            self.count(0)
            return backward(*given, **how)

        monkeypatch.setattr(torch.autograd, "grad", grad)

    def __enter__(self) -> Device:
        sides = [self._model, self._model.seen_from("text")] if self._model.kind == "clip" else [self._model]
        rows = lambda args, kwargs: next(each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)).shape[0]  # noqa: E731
        hook = lambda _, args, kwargs: self.count(rows(args, kwargs))  # noqa: E731
        self._handles = [block.register_forward_pre_hook(hook, with_kwargs=True) for block in (side.blocks[0] for side in sides)]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def count(self, rows: int) -> None:
        self.passes += 1
        if self.is_full(self.passes, rows):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.fixture(params=ANALYSES)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Device, Callable[[], Any], list[float]]]:
    make, ask = ANALYSES[request.param]
    model = make()
    ask(model)  # what is found out once for the model
    with Device(model, monkeypatch) as device:
        whole = numbers(ask(model))
        yield request.param, device, lambda: ask(model), whole


def test_an_error_at_any_one_pass_changes_no_number(case: tuple[str, Device, Callable[[], Any], list[float]]) -> None:
    _, device, ask, whole = case
    device.passes = 0
    ask()
    total = device.passes
    for number in sorted({1, 2, total, *np.linspace(1, total, 4).astype(int).tolist()} & set(range(1, total + 1))):
        device.passes, device.is_full = 0, lambda passes, rows, number=number: passes == number
        assert numbers(ask()) == pytest.approx(whole, rel=1e-3, abs=1e-4)
        assert device.passes > total
    assert rows_at_most(7) == 7


def test_an_analysis_of_which_one_row_fits_is_made_row_by_row(case: tuple[str, Device, Callable[[], Any], list[float]]) -> None:
    _, device, ask, whole = case
    device.is_full = lambda passes, rows: rows > 1
    assert numbers(ask()) == pytest.approx(whole, rel=1e-3, abs=1e-4)


def test_where_nothing_fits_words_say_so_and_the_next_one_works(case: tuple[str, Device, Callable[[], Any], list[float]]) -> None:
    name, device, ask, whole = case
    device.is_full = lambda passes, rows: True
    if name == "words of heads":  # its batches alone are made smaller
        with pytest.raises(torch.OutOfMemoryError):
            ask()
    else:
        with pytest.raises(MemoryShortageError, match=r"Memory ran out for .*GB.*(are free|choose|Choose)"):
            ask()
    device.is_full = lambda passes, rows: False
    assert numbers(ask()) == pytest.approx(whole, rel=1e-3, abs=1e-4)
    assert all(map(math.isfinite, whole))
