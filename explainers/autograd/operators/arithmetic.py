"""Sums and products, element by element."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from explainers.autograd.nodes import Move, Node, Role
from explainers.autograd.operators.broadcasting import unbroadcast
from explainers.autograd.operators.linear import LinearMap, is_bias, weight_and_bias_of
from explainers.autograd.recorder import Operator, Propagator, Recorder, saved_of
from explainers.autograd.rules.operands import Product, Sum

#: Roles of what attention is made of: constants there (masks, position biases, stabilisers) are no additive terms of the tokens.
OF_ATTENTION = (Role.SCORES, Role.WEIGHTS, Role.UNNORMALISED)
#: Of each role of a factor that a rule may hold constant: the kind of operator whose choice says so.
KIND_HOLDING_ROLE = {Role.GATE: "activation", Role.CURVE: "product", Role.SCALE: "norm", Role.WEIGHTS: "attention"}


def constant_of(node: Node) -> Any:
    """Return the constant operand of ``node``, a recorded sum or product with one path: a tensor, or for a product also a number."""
    if node.operator is Scale:
        return node.settings["c"]
    return node.settings["b" if "b" in node.settings else "a"]


def has_no_bias(node: Node | None) -> bool:
    """Return whether a linear map without a bias gave a tensor, perhaps moved, or a sum of such tensors, as head by head."""
    if node is None or node.operator is LinearMap:
        return node is not None and weight_and_bias_of(node)[1] is None
    adds_row = node.operator is Add and len(node.paths) == 1 and torch.as_tensor(constant_of(node)).dim() > 0
    return node.operator in (Move, Add) and not adds_row and bool(node.paths) and all(map(has_no_bias, node.paths))


class Add(Operator):
    """The sum a + b of two paths, or of a path and a constant, which is a bias.

    ``role`` is the role of the path to which a constant is added, or the one that both paths have. Transposed: the samples of both lie
    along the last of two dimensions. With a role in :data:`OF_ATTENTION` a constant is not counted as a bias term. Shift: the constant is
    part of a normalisation.
    """

    title = "a sum"
    keeps_output = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, role: Role | None, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        rec.keep(ctx, a, b)
        ctx.shapes = a.shape, b.shape
        ctx.role, ctx.rec, ctx.entered, ctx.position = role, rec, rec.entered, rec.position
        return a + b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None, None
        saved = saved_of(ctx)
        linear, both = ctx.rec.rule.choice("linear"), all(ctx.needs_input_grad[:2])
        counts = ctx.entered and ctx.role not in OF_ATTENTION and linear.counts_biases

        def account(signal: Tensor) -> None:
            if counts:
                constant = saved[1 if ctx.needs_input_grad[0] else 0]
                is_in_formula = ctx.role is Role.GATE or ctx.rec.mean_operand(ctx.position) is not None
                if constant.dim() == 0 and is_in_formula and not ctx.rec.rule.choice("activation").holds:
                    return  # a number in the formula of a curve, such as 1 + tanh in GELU: the curve is differentiated as a whole
                constant = constant.masked_fill(constant.isinf(), 0.0).expand_as(signal)  # a mask, where no signal arrives, is no bias
                if ctx.role == Role.TRANSPOSED:
                    signal, constant = signal.mT, constant.mT
                ctx.rec.add_bias(signal, constant, ctx.position)

        constant_shares = not (both or ctx.entered or ctx.role) and not is_bias(saved[1 if ctx.needs_input_grad[0] else 0])
        mean = ctx.rec.mean_operand(ctx.position) if both else None
        norm = ctx.rec.rule.choice("norm")
        if mean is not None and norm.holds_mean:
            if norm.accounts and counts:
                ctx.rec.add_bias(g, saved[mean].expand_as(g), ctx.position)
            kept = unbroadcast(g, ctx.shapes[1 - mean])
            return (kept, None, None, None) if mean else (None, kept, None, None)
        known_later = (lambda: ctx.rec.accumulated_rounding(ctx.position), lambda: ctx.rec.sample_axis(ctx.position, g.shape))
        total = Sum(saved, both, constant_shares, account, *known_later, joins_attention=both and ctx.role in (Role.WEIGHTS, Role.CONTEXT))
        g_a, g_b = linear.sum(total, g)
        return (
            unbroadcast(g_a, ctx.shapes[0]) if ctx.needs_input_grad[0] else None,
            unbroadcast(g_b, ctx.shapes[1]) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, role: Role | None) -> Tensor:
        if a.requires_grad and b.requires_grad:
            return a + b if role in OF_ATTENTION else rec.with_rest(a + b)
        path, constant = (a, b) if a.requires_grad else (b, a)
        if role == Role.TRANSPOSED:
            return rec.on_real(path.mT, (constant.expand_as(path)).mT).mT
        if role in OF_ATTENTION:
            return path + constant  # attention is the real copy's
        return rec.on_real(path, constant) if constant.dim() == 0 or role == Role.GATE else rec.with_constant(path, constant)


class Mul(Operator):
    """The element-wise product a * b of two paths, or of a path and a constant. ``roles`` tells which factor is a gate, a curve, a scale or
    attention weights, which the rule may hold constant. ``is_curve``: the product is an activation written out, x times a gate that is
    made of x; where activations are differentiated it is differentiated as a whole.
    """

    title = "a product of two paths"

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, roles: tuple[Role | None, Role | None], is_curve: bool, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        ctx.roles, ctx.is_curve, ctx.rec = roles, is_curve, rec
        return a * b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None, None, None
        a, b = ctx.saved_tensors
        rule = ctx.rec.rule
        want_a, want_b = ctx.needs_input_grad[:2]
        if want_a and want_b:
            # a gate or a scale that the rule holds constant leaves everything to the other factor
            want_a, want_b = (role not in KIND_HOLDING_ROLE or not rule.choice(KIND_HOLDING_ROLE[role]).holds for role in ctx.roles)
            if not (want_a or want_b):
                want_a = want_b = True
        product = rule.choice("product")
        if want_a and want_b:
            # a product with a scale is part of a normalisation: where the rule differentiates that, both factors count whole
            part = (
                1.0
                if Role.SCALE in ctx.roles or ctx.is_curve
                else rule.choice("attention").part
                if Role.WEIGHTS in ctx.roles
                else product.part
            )
            g_a, g_b = product.both(Product(a, b), g, part)
            return unbroadcast(g_a, a.shape), unbroadcast(g_b, b.shape), None, None, None
        return (
            unbroadcast(product.alone(b, g), a.shape) if want_a else None,
            unbroadcast(product.alone(a, g), b.shape) if want_b else None,
            None,
            None,
            None,
        )

    @staticmethod
    def propagate(rec: Propagator, a: Tensor, b: Tensor, roles: tuple[Role | None, Role | None], is_curve: bool) -> Tensor:
        holds = rec.rule.choice("product").holds
        constant = tuple(role in KIND_HOLDING_ROLE and (role != Role.CURVE or holds) for role in roles)
        if all(constant) and Role.CURVE in roles:
            constant = (False, False)
        if any(constant):
            return (rec.real(a) if constant[0] else a) * (rec.real(b) if constant[1] else b)
        both = rec.rule.choice("product").forward(a, b, rec.real(a), rec.real(b))
        return torch.where(rec.where_real(both), a * b, both)


class Scale(Operator):
    """The product x * c of a path with a constant c. Rules of relevance pass the relevance of the product to x unchanged."""

    title = "a product with a constant"

    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor | float, rec: Recorder) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*([c] if isinstance(c, Tensor) else []))
        ctx.number, ctx.rec, ctx.shape = c, rec, x.shape
        if isinstance(c, Tensor):
            ctx.number = None
        return x * c

    @staticmethod
    def backward(ctx: Any, *signals: Tensor | None) -> Any:
        (g,) = signals
        if g is None:
            return None, None, None
        factor = ctx.saved_tensors[0] if ctx.number is None else ctx.number
        out: Tensor = ctx.rec.rule.choice("linear").scale(factor, g)
        return out.sum_to_size(ctx.shape), None, None

    @staticmethod
    def propagate(rec: Propagator, x: Tensor, c: Tensor | float) -> Tensor:
        return x * c
