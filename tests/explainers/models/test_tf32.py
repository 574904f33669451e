"""TF32 is off while a model is asked or explained, unless it is asked for, and the caller's settings come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import explainers
from explainers import ExplainerError
from explainers.models import tf32
from explainers.models.tf32 import asking_for_tf32, is_tf32_asked, products_in_float32
from explainers.pipeline.memory_steps import run_in_steps
from explainers.records.session import Session
from tests.explainers.support.wrapped import inputs, wrapped


def settings() -> list[Any]:
    return [getattr(setting, name) for setting, name in tf32._settings()]


def set_all(values: list[Any]) -> None:
    for (setting, name), value in zip(tf32._settings(), values, strict=True):
        setattr(setting, name, value)


OFF, ON = (["ieee"] * 4, ["tf32"] * 3 + ["ieee"]) if len(settings()) == 4 else ([False] * 2, [True] * 2)


@pytest.fixture(autouse=True)
def before() -> Iterator[list[Any]]:
    """The caller allows TF32 everywhere."""
    own = settings()
    set_all(ON)
    yield ON
    set_all(own)


@pytest.mark.parametrize("precision", ["auto", "double", "tf32"])
def test_every_pass_of_an_explanation_multiplies_as_was_asked(monkeypatch: pytest.MonkeyPatch, precision: Any) -> None:
    model, seen = wrapped("vit", torch.float32), []
    backward = torch.autograd.grad

    def grad(*given: Any, **how: Any) -> Any:
        seen.append(("backward", settings()))
        return backward(*given, **how)

    def forward(*given: Any) -> None:
        seen.append(("forward", settings()))

    monkeypatch.setattr(torch.autograd, "grad", grad)
    handle = model.blocks[0].register_forward_hook(forward)
    try:
        methods = ["lrp", "input_x_gradient", "occlusion?compare=false", "integrated_gradients?steps=2", "decompx"]
        explainers.explain(model, inputs("vit", 1, torch.float32), 1, methods, precision=precision)
    finally:
        handle.remove()
    assert {kind for kind, _ in seen} == {"forward", "backward"}
    assert all(state == (ON if precision == "tf32" else OFF) for _, state in seen)
    assert settings() == ON


class Products(TorchDispatchMode):
    """Notes torch's settings at each product of matrices and each convolution, wherever it is asked for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.states: list[list[Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("mm", "bmm", "addmm", "baddbmm", "convolution"):
            self.states.append(settings())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "method", ["rollout", "transformer_attribution", "integrated_gradients?steps=2", "grad_eclip", "attcat", "decompx", "lrp"]
)
@pytest.mark.parametrize(("precision", "expected"), [("auto", OFF), ("tf32", ON)])
def test_what_a_method_multiplies_outside_of_a_pass_is_rounded_no_more(method: str, precision: Any, expected: list[Any]) -> None:
    with Products() as products:
        explainers.explain(wrapped("vit", torch.float32), inputs("vit", 1, torch.float32), 1, [method], precision=precision)
    assert products.states
    assert all(state == expected for state in products.states)
    assert settings() == ON


def test_what_an_analysis_multiplies_is_not_rounded() -> None:
    a = torch.eye(2)
    with Products() as products:
        assert torch.equal(run_in_steps(lambda: wrapped("vit"), lambda: a @ a), a)
    assert products.states == [OFF]
    assert settings() == ON


def test_settings_come_back_after_an_error() -> None:
    def fail() -> None:
        with products_in_float32():
            states.append(settings())
            raise ExplainerError("a bug")

    states: list[Any] = []
    with pytest.raises(ExplainerError, match="a bug"):
        fail()
    assert [*states, settings()] == [OFF, ON]


class Refusing:
    """A setting of torch that refuses to be changed as long as ``is_refused``."""

    def __init__(self) -> None:
        self.is_refused = True
        self.__dict__["fp32_precision"] = "tf32"

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "fp32_precision" and self.is_refused:
            raise RuntimeError("torch refuses this setting")
        super().__setattr__(name, value)


def test_a_setting_that_torch_refuses_is_an_error_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each later pass would take the refused one for one under way, and the caller's settings would never come back."""
    own, refusing = tf32._settings(), Refusing()
    monkeypatch.setattr(tf32, "_settings", lambda: [*own, (refusing, "fp32_precision")])
    with pytest.raises(RuntimeError, match="torch refuses"), products_in_float32():
        pytest.fail("it began")
    assert settings() == [*ON, "tf32"]
    refusing.is_refused = False
    with products_in_float32():
        assert settings() == [*OFF, "ieee"]
    assert settings() == [*ON, "tf32"]


def test_a_refused_setting_does_not_end_the_passes_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    own, refusing = tf32._settings(), Refusing()
    refusing.is_refused = False
    monkeypatch.setattr(tf32, "_settings", lambda: [*own, (refusing, "fp32_precision")])
    with asking_for_tf32(True), products_in_float32():
        refusing.is_refused = True
        with asking_for_tf32(False), pytest.raises(RuntimeError, match="torch refuses"), products_in_float32():
            pytest.fail("it began")
        assert settings() == [*ON, "tf32"]
    assert settings() == [*ON, "tf32"]


def test_where_threads_differ_nothing_is_rounded() -> None:
    began, end = threading.Event(), threading.Event()
    states: list[Any] = []

    def exact() -> None:
        with products_in_float32():
            began.set()
            end.wait(30)

    with asking_for_tf32(True), products_in_float32():
        states.append(settings())
        thread = threading.Thread(target=exact)
        thread.start()
        began.wait(30)
        states.append(settings())
        end.set()
        thread.join(30)
        states.append(settings())
    assert states == [ON, OFF, ON]
    assert settings() == ON


@pytest.mark.skipif(len(OFF) == 2, reason="a setting since torch 2.9")
@pytest.mark.parametrize("is_asked", [False, True])
def test_a_cpu_never_rounds_to_bfloat16(is_asked: bool) -> None:
    """As "medium" has it do where the processor multiplies bfloat16 faster; TF32 is of GPUs alone."""
    set_all([*ON[:3], "bf16"])
    with asking_for_tf32(is_asked), products_in_float32():
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"


def test_only_a_gpu_rounds() -> None:
    with asking_for_tf32(True):
        assert is_tf32_asked(torch.device("cuda"))
        assert not is_tf32_asked(torch.device("cpu"))
    assert not is_tf32_asked(torch.device("cuda"))


def test_a_session_alone_refuses_what_it_would_not_do() -> None:
    model, given = wrapped("vit", torch.float32), inputs("vit", 1, torch.float32)
    with pytest.raises(ExplainerError, match="asking_for_tf32"):
        Session(model, given, 1, precision="tf32")
    with asking_for_tf32(True):
        assert Session(model, given, 1, precision="tf32").precision == "tf32"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_every_map_says_its_precision(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    found = explainers.explain(wrapped("vit", dtype), inputs("vit", 1, dtype), 1, ["rollout", "input_x_gradient", "lrp"])
    dtypes = [each.precision.dtype for each in found.maps if each.precision is not None]
    assert dtypes[:2] == [name] * 2
    assert dtypes[2] in (name, "float64")
    assert found.maps[0].precision is not None
    assert ("TF32 was off" in found.maps[0].precision.why) == (dtype == torch.float32)


def test_a_map_says_that_it_was_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explainers.pipeline.precision.is_tf32_asked", lambda device: True)
    found = explainers.explain(wrapped("vit", torch.float32), inputs("vit", 1, torch.float32), 1, ["rollout", "input_x_gradient"])
    assert [each.precision for each in found.maps] == [explainers.MapPrecision("float32 with TF32", "TF32 was asked for.")] * 2
