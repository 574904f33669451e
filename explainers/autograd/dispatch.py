"""Table of the torch functions that become operators while a forward pass is recorded.

``handler_of(func)`` gives a function ``handler(rec, func, *args, **kwargs)``. A handler that finds no tensor on the path from the
input calls ``func`` unchanged. Functions without a handler are called unchanged too; those that are not in
``TRANSPARENT`` have no rule of ours, which the
recording reports if a signal other than the ordinary gradient passes through them.

A node of the recording says what role its tensor has, where it scales or gates others or is part of attention. A role goes on through
reshapes and scalar arithmetic, so that hand-written normalisations (``x * rsqrt(...)``) and gates (``x * sigmoid(1.702 * x)``) get the
rule of their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

from torch import Tensor

from explainers.autograd.nodes import Move, Node, NodeKind, Role, Unruled
from explainers.autograd.recorder import Recorder

Handler = Callable[..., Any]
TorchFunction = Callable[..., Tensor]
H = TypeVar("H", bound=Handler)
_HANDLERS: dict[Callable[..., Any], Handler] = {}

#: Functions that move, select or copy numbers: their ordinary gradient is right under every rule.
TRANSPARENT = frozenset(
    [
        "__get__",
        "__getitem__",
        "reshape",
        "view",
        "view_as",
        "reshape_as",
        "permute",
        "transpose",
        "transpose_",
        "t",
        "swapaxes",
        "swapdims",
        "movedim",
        "flatten",
        "unflatten",
        "expand",
        "expand_as",
        "repeat",
        "repeat_interleave",
        "tile",
        "contiguous",
        "clone",
        "to",
        "float",
        "double",
        "half",
        "bfloat16",
        "type",
        "type_as",
        "hstack",
        "vstack",
        "split",
        "split_with_sizes",
        "tensor_split",
        "chunk",
        "unbind",
        "select",
        "index_select",
        "gather",
        "take_along_dim",
        "squeeze",
        "unsqueeze",
        "narrow",
        "roll",
        "flip",
        "pad",
        "dropout",
        "dropout1d",
        "dropout2d",
        "alpha_dropout",
        "detach",
        "masked_fill",
        "masked_scatter",
        "where",
        "identity",
        "requires_grad_",
        "broadcast_to",
        "diagonal",
        "copy_",
        "unfold",
        "as_strided",
        "max_pool2d",
        "max_pool1d",
        "max",
        "min",
        "masked_select",
        "index_put",
        "scatter",
        "feature_dropout",
        "is_floating_point",
        "size",
        "dim",
        "numel",
        "stride",
        "data_ptr",
        "__len__",
        "__format__",
        "__repr__",
        "__bool__",
        "item",
        "tolist",
        "numpy",
        "cpu",
        "cuda",
        "argmax",
        "argmin",
        "is_complex",
        "is_contiguous",
        "get_device",
        "register_hook",
        "retain_grad",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_empty",
        "new_full",
        "new_tensor",
        "rand_like",
        "randn_like",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "isnan",
        "isinf",
        "isfinite",
        "any",
        "all",
        "allclose",
        "equal",
        "topk",
        "sort",
        "argsort",
        "nonzero",
        "unfold_copy",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "index_copy",
        "index_fill",
        "put",
        "take",
        "diag_embed",
        "diag",
        "diagflat",
        "tril",
        "triu",
        "rot90",
        "fliplr",
        "flipud",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "native_channel_shuffle",
        "moveaxis",
        "ravel",
        "adjoint",
        "positive",
        "narrow_copy",
        "dstack",
        "column_stack",
        "row_stack",
        "block_diag",
        "hsplit",
        "vsplit",
        "dsplit",
        "unsafe_split",
        "unsafe_split_with_sizes",
        "unsafe_chunk",
        "unravel_index",
        "meshgrid",
        "broadcast_tensors",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "cartesian_prod",
        "combinations",
        "as_tensor",
        "asarray",
        "resolve_conj",
        "resolve_neg",
        "squeeze_copy",
        "view_copy",
        "expand_copy",
        "msort",
        "median",
        "nanmedian",
        "mode",
        "kthvalue",
        "cummax",
        "cummin",
        "aminmax",
        "zero",
        "fill",
        "fill_diagonal",
        "swapaxes_copy",
        "result_type",
    ]
)
#: Functions that take their first argument's numbers alone: of the others the shape, the type or the device.
TAKES_SHAPE = frozenset(["to", "type_as", "expand_as", "view_as", "reshape_as", "type"])
#: Those that may copy all numbers of their first argument into memory of their own.
_COPYING = frozenset(["clone", "contiguous", "flatten", "reshape"])
#: Calls that write into their first argument, besides those whose names end in an underscore.
_WRITING = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__iand__", "__ior__", "__ixor__", "__setitem__"}
#: Functions through which a role is kept: moving numbers, and bounding them.
_ROLE_KEEPING = TRANSPARENT | {"clamp", "clamp_min", "clip", "clamp_", "maximum"}


def handler_of(func: Callable[..., Any]) -> Handler | None:
    """Return the handler registered for ``func``, a torch function, or None."""
    return _HANDLERS.get(func)


def active(value: Any) -> bool:
    """Return whether ``value`` is a tensor that depends on the explained input."""
    return isinstance(value, Tensor) and value.requires_grad


def role(rec: Recorder, value: Any) -> Role | None:
    """Return the role of ``value``, a tensor, in the pass that ``rec`` records, such as scores of attention; None if it has none."""
    node = rec.nodes.of(value)
    return None if node is None else node.role


def note(rec: Recorder, out: Tensor, kind: NodeKind, given: Any, role: Role | None = None, name: str = "") -> Tensor:
    """Append a node of a call that has no operator to the list of nodes: of the type ``kind``, for the function ``name`` with the arguments
    ``given`` and the result ``out``, which gets ``role``. Returns ``out``.
    """
    given = given[:1] if name in TAKES_SHAPE else given
    first = [rec.nodes.of(given[0])] if given and isinstance(given[0], Tensor) else [None]
    others = [
        rec.nodes.of(tensor) for tensor in tensors_in(given[1:] if given and isinstance(given[0], Tensor) else given) if rec.active(tensor)
    ]
    rec.nodes.add(Node(kind, (*first, *others), {"function": name}, out.shape, role=role), out)
    return out


def make_scale(rec: Recorder, out: Tensor, name: str, *given: Any) -> Tensor:
    """Give ``out``, the result of the function ``name`` for the arguments ``given``, the role of a scale, and return it. Rules that hold
    scales constant pass no signal to it; if a signal does pass, the recording notes the function as one without a rule.
    """
    if active(out):
        rec.watch(out, name, lambda rule: rule.choice("norm").is_ordinary)
        note(rec, out, Unruled, given, Role.SCALE, name)
    return out


def role_among_constants(rec: Recorder, given: tuple[Any, ...]) -> Role | None:
    """Return the role of what a call puts among constants: of the tensors in ``given``, its arguments, that depend on the input, if all are
    gates, all attention scores or all attention weights; else None.
    """
    roles = {role(rec, tensor) for tensor in tensors_in(given) if active(tensor)}
    return next(iter(roles)) if roles in ({Role.GATE}, {Role.SCORES}, {Role.CURVED}, {Role.WEIGHTS}) else None


def writes_into_first(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether calling ``func`` with ``args`` and ``kwargs`` changes its first argument."""
    name = getattr(func, "__name__", "")
    if name in _WRITING or (name.endswith("_") and not name.endswith("__")):
        return name not in ("requires_grad_", "detach_")
    place = place_of_inplace(func)
    return place is not None and bool(kwargs["inplace"] if "inplace" in kwargs else len(args) > place and args[place])


@cache
def place_of_inplace(func: Callable[..., Any]) -> int | None:
    """Return the position of the argument ``inplace`` of a function of ``torch.nn.functional``; None if it has none."""
    code = getattr(func, "__code__", None)
    names = () if code is None else code.co_varnames[: code.co_argcount]
    return names.index("inplace") if "inplace" in names else None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in ``value``, the arguments or the result of a call, in order, also from nested lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def call_through(rec: Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``func``, a torch function without a handler, and return its result. The result keeps the role of the first argument if the
    function is known to keep roles. Results that depend on the input through a function without a rule are watched by the recording.
    """
    out = func(*args, **kwargs)
    name = getattr(func, "__name__", str(func))
    if name not in _ROLE_KEEPING and not name.endswith("__"):
        name = name.rstrip("_")  # in place or not
    inherited, moves = role(rec, args[0]) if args and name in _ROLE_KEEPING else None, name in TRANSPARENT
    if moves and args and not active(args[0]):  # put among constants, or chosen by a condition
        inherited = role_among_constants(rec, (*args, *kwargs.values()))
    if inherited == Role.TRANSPOSED or (inherited in (Role.SCORES, Role.CURVED, Role.WEIGHTS, Role.CONTEXT) and not moves):
        inherited = None  # a transpose turns it back; what bounds scores is a rule that is missing
    if name in _COPYING and active(out) and active(args[0]) and _has_as_many_bytes(args[0], out):
        rec.recompute(out, lambda source: source if name == "clone" else func(source, *args[1:], **kwargs), args[0])
    given = (*args, *kwargs.values())
    unruled = not moves and not (inherited and isinstance(out, Tensor)) and any(map(rec.active, tensors_in(given)))
    for tensor in out if isinstance(out, tuple | list) else (out,):
        if active(tensor):
            note(rec, tensor, Move if moves else Unruled, given, inherited, name)
            if unruled and not inherited:
                rec.watch(tensor, name)
    return out


def has_no_rows(rec: Recorder, given: tuple[Any, ...]) -> bool:
    """Return whether all tensors in ``given``, the arguments of a call, that depend on the input of the pass are empty, such as the rows of
    an expert that got no tokens.

    No signal goes back through such a call, so torch's own function is right under every rule.
    """
    is_empty = False
    for tensor in tensors_in(given):
        if rec.active(tensor):
            if tensor.numel():
                return False
            is_empty = True
    return is_empty


def linear_function(rec: Recorder, func: TorchFunction, *args: Any, **kwargs: Any) -> Any:
    """Call ``func``, a torch function that is linear in its arguments, watch its result, and return it. Its ordinary gradient is right
    under every rule whose linear maps follow the ordinary gradient. Under other rules a signal that passes it is reported as one without a
    rule, because they need its weights.
    """
    out = func(*args, **kwargs)
    if any(map(rec.active, tensors_in((*args, *kwargs.values())))):
        for tensor in tensors_in(out):
            if active(tensor):
                note(rec, tensor, Unruled, (*args, *kwargs.values()), name=func.__name__)
                rec.watch(tensor, func.__name__, lambda rule: rule.choice("linear").is_ordinary)
    return out


#: Functions of complex numbers that are linear in one factor, and in all that they take.
_COMPLEX_PRODUCTS = frozenset(
    ["mul", "multiply", "div", "true_divide", "divide", "__truediv__", "matmul", "bmm", "mm", "linear", "einsum", "conv1d", "conv2d"]
)
_COMPLEX_SUMS = frozenset(["add", "sub", "subtract", "rsub", "sum", "mean", "neg", "negative", "conj", "conj_physical", "real", "imag"])
_COMPLEX_SUMS |= {"view_as_real", "view_as_complex", "complex", "cat", "concat", "concatenate", "stack", "cumsum"}


def is_complex(values: Any) -> bool:
    """Return whether ``values``, the arguments of a call, are or contain a complex number or tensor."""
    if isinstance(values, Tensor):
        return values.is_complex()
    return isinstance(values, complex) or (isinstance(values, list | tuple) and any(map(is_complex, values)))


def call_complex(rec: Recorder, func: TorchFunction, *args: Any, **kwargs: Any) -> Any:
    """Call ``func``, a function of complex numbers, and return its result. Rules have no choices for these: linear functions are
    differentiated as by :func:`linear_function`, others by torch.
    """
    paths = sum(rec.active(tensor) for tensor in tensors_in((*args, *kwargs.values())))
    name = func.__name__.rstrip("_") if not func.__name__.endswith("__") else func.__name__
    is_quotient = name in ("div", "true_divide", "divide", "__truediv__") and not rec.active(args[0])
    if name in _COMPLEX_SUMS or name.startswith("fft_") or (name in _COMPLEX_PRODUCTS and paths == 1 and not is_quotient):
        return linear_function(rec, func, *args, **kwargs)
    return call_through(rec, func, args, kwargs)


def handler_for(rec: Recorder, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handler | None:
    """Return the handler of the call ``func(*args, **kwargs)``: the one of its function, or of complex numbers if an argument is complex.
    If all tensors that depend on the input are empty, return a handler that calls torch unchanged. None if there is no handler.
    """
    if has_no_rows(rec, (*args, *kwargs.values())):
        return _call_unchanged
    return call_complex if is_complex((args, tuple(kwargs.values()))) else handler_of(func)


def _call_unchanged(rec: Recorder, func: TorchFunction, *args: Any, **kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _has_as_many_bytes(source: Tensor, copy: Tensor) -> bool:
    """Return whether keeping ``source`` takes as much memory as keeping a copy of its numbers; a view of the same memory is not a copy."""
    memory, others = source.untyped_storage(), copy.untyped_storage()
    return memory._cdata != others._cdata and memory.nbytes() == others.nbytes()


def handles(*functions: Callable[..., Any] | None) -> Callable[[H], H]:
    """Return a decorator that registers its function as the handler of these torch functions; None stands for a function that this version
    of torch lacks.
    """

    def declare(handler: H) -> H:
        _HANDLERS.update({function: handler for function in functions if function is not None})
        return handler

    return declare
