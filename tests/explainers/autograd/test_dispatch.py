"""A recorded pass has torch's values, however a function is told to give them: in place, into another tensor, in another type."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.dispatch import _HANDLERS, handler_of, place_of_inplace
from explainers.autograd.rules import RULES
from tests.explainers.support.operator_cases.case import B, C, D, S, W, X, assert_close, normal, seed_for
from tests.explainers.support.toys import Function, autograd, record, signal

#: What is given after the first argument, which is of X's shape, by the function's name without the underscores of writing.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide"), (C,)),
    **dict.fromkeys(("__iadd__", "__isub__", "__imul__", "__itruediv__"), (C,)),
    **dict.fromkeys(("pow", "__ipow__"), (3,)),
    **dict.fromkeys(("clamp", "clip", "hardtanh"), (0.2, 0.9)),
    **dict.fromkeys(("clamp_min", "clamp_max"), (0.5,)),
    **dict.fromkeys(("bmm", "matmul"), (W.expand(B, D, D),)),
    **dict.fromkeys(("mean", "sum", "amax", "amin", "max", "min", "softmax", "norm", "var", "std"), (1,)),
    "addcmul": (C, C),
    "baddbmm": (X, W.expand(B, D, D)),
    "lerp": (C.expand(B, S, D), 0.3),
    "addcdiv": (C, C + 9),
    "ldexp": (torch.tensor(2),),
    "cumsum": (1,),
    **dict.fromkeys(("index_add", "index_copy"), (1, torch.tensor([2, 0]), 2 * X[:, :2])),
    "index_reduce": (1, torch.tensor([2, 0]), X[:, :2], "mean"),
    **dict.fromkeys(("scatter", "scatter_add"), (1, torch.tensor([2, 0])[None, :, None].expand(B, 2, D), 2 * X[:, :2])),
    "scatter_reduce": (1, torch.tensor([2, 0])[None, :, None].expand(B, 2, D), X[:, :2], "sum"),
    "index_put": ((torch.tensor([0]),), C),
    "masked_scatter": (C > 0, X),
    "put": (torch.tensor([0, 7]), C[0, :2]),
}
#: They take what has other dimensions than X: rows of their own in the table of operators.
OTHER_SHAPES = {"addmm", "addmv", "addr", "addbmm"}
#: Torch has no gradient of them to compare with: handlers/test_written_sigmoid.py.
WITHOUT_DERIVATIVE = {"heaviside"}
#: Functions with a handler that take ``out``.
WITH_OUT = (
    *(
        "add",
        "sub",
        "subtract",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "neg",
        "negative",
        "addcmul",
        "bmm",
        "matmul",
        "baddbmm",
    ),
    *("tanh", "erf", "sigmoid", "clamp", "clip", "clamp_min", "clamp_max", "pow", "square", "sqrt", "rsqrt", "reciprocal"),
    *("softmax", "mean", "sum", "amax", "amin", "var", "std", "max", "min"),
)


def name_of(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__name__", "")
    return name if name.startswith("__") else name.rstrip("_")


def start(spelling: str, x: Tensor) -> Tensor:
    """What is written into: of one sign where roots are taken."""
    return x.abs() + 0.1 if "sqrt" in spelling else x * 1.0


def functions() -> dict[str, Callable[..., Any]]:
    """Torch's functions that have a handler, or that have one under the name without an underscore, by how they are written."""
    handled = {name_of(function) for function in _HANDLERS}
    found: dict[int, tuple[str, Callable[..., Any]]] = {}
    for owner in (torch, Tensor, F):
        for name in dir(owner):
            function = getattr(owner, name)
            if callable(function) and name_of(function) in handled - WITHOUT_DERIVATIVE:
                found.setdefault(id(function), (f"{owner.__name__}.{name}", function))
    return dict(found.values())


def in_place_forms() -> dict[str, Function]:
    """Every way in which these write into their first argument: each a function of that argument."""
    forms: dict[str, Function] = {}
    for spelling, function in functions().items():
        name, place = name_of(function), place_of_inplace(function)
        given, writes = ARGUMENTS.get(name, ()), function.__name__.endswith("_") and not function.__name__.endswith("__")
        if name not in OTHER_SHAPES and (writes or name in ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__")):
            forms[spelling] = lambda y, f=function, given=given: f(y, *given)
        elif place is not None:
            usual = [each.default for each in inspect.signature(function).parameters.values()][1:place]
            all_given = (*given, *usual[len(given) :], True)
            forms[f"{spelling}(inplace=True)"] = lambda y, f=function, given=given: f(y, *given, inplace=True)
            forms[f"{spelling}(True)"] = lambda y, f=function, given=all_given: f(y, *given)
    return forms


IN_PLACE = in_place_forms()


def test_the_in_place_forms_of_what_has_a_handler_have_one() -> None:
    assert len(IN_PLACE) > 60
    silent = [spelling for spelling, function in functions().items() if function.__name__.endswith("_") and handler_of(function) is None]
    assert not silent


@pytest.mark.parametrize("form", IN_PLACE)
def test_what_is_written_in_place_is_written_for_everyone_who_holds_it(form: str) -> None:
    """The values and the ordinary gradient of both what the call gives and the tensor that it writes."""

    def function(x: Tensor) -> Tensor:
        y = start(form, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # index_reduce_ is in beta
            return torch.stack([IN_PLACE[form](y), y])

    recording = record(function, X)
    with torch.no_grad():
        expected = function(X).flatten(1)
    assert_close(recording.logits, expected)
    assert float((expected[1] - start(form, X).flatten()).abs().max()) > 0.01  # it was written into
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(function, X, seed))


@pytest.mark.parametrize("name", WITH_OUT)
def test_what_is_written_into_another_tensor_is_on_the_path(name: str) -> None:
    function, given = getattr(torch, name), ARGUMENTS.get(name, ())

    def written(x: Tensor) -> Tensor:
        y = start(name, x)
        into = torch.zeros(0, dtype=x.dtype)
        if name in ("max", "min"):
            function(y, *given, out=(into, torch.zeros(0, dtype=torch.long)))
        else:
            function(y, *given, out=into)
        return into.reshape(len(x), -1)

    def given_back(x: Tensor) -> Tensor:
        out = function(start(name, x), *given)
        return (out[0] if name in ("max", "min") else out).reshape(len(x), -1)

    recording = record(written, X)
    with torch.no_grad():
        assert_close(recording.logits, written(X))
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(given_back, X, seed))


def test_an_operand_can_be_written_over() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2.0
        torch.mul(y, y @ W, out=y)
        return y

    recording = record(function, X)
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(lambda x: (x * 2.0) * (x * 2.0 @ W), X, seed))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x, -1, torch.float32),
        lambda x: x.softmax(-1, torch.float32),
        lambda x: F.softmax(x, -1, 3, torch.float32),
        lambda x: F.softmax(x, dtype=torch.float32),  # without a dimension: the first of three
        lambda x: F.softmax(x[:, 0]),  # the second of two
        lambda x: x.sum(1, dtype=torch.float32),
        lambda x: torch.mean(x, (1, 2), True, dtype=torch.float32),
        lambda x: F.normalize(x, 2.0, -1, 1e-12, torch.empty_like(x)),
    ],
)
@pytest.mark.filterwarnings("ignore:Implicit dimension choice for softmax")
def test_types_and_dimensions_are_those_that_were_asked_for(function: Function) -> None:
    with torch.no_grad():
        expected = function(X).flatten(1) if function(X).shape[0] == B else function(X)
    given = record(function, X).logits
    assert given.dtype == expected.dtype
    assert_close(given, expected, 1e-12 if expected.dtype == torch.float64 else 1e-6)


@pytest.mark.parametrize(("bounds", "is_activation"), [((0.5, 2.0), False), ((-1.0, 2.0), True)])
@pytest.mark.parametrize("function", [F.hardtanh, torch.clamp])
def test_bounds_without_zero_between_them_make_no_activation(function: Any, bounds: tuple[float, float], is_activation: bool) -> None:
    """A constant that a gate would take for what it passes on: the signals say that the rule has nothing for it."""
    recording = record(lambda x: function(x, *bounds), X)
    signals = recording.cached_backward(RULES["libra"], normal(*recording.logits.shape, seed=3))
    assert (not signals.unruled) == is_activation
