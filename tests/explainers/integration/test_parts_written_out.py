"""Blocks whose linear layers, norms or residual sums are written out: their maps are those of the module that each stands for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import explainers

# isort: split
import timm

from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    WIDTH,
    Attention,
    Block,
    Vit,
    built,
    of_module,
    pixels,
    scores,
    softmax_of,
)

Layer = Callable[[nn.Linear, Tensor], Tensor]
Sum = Callable[[nn.Linear, Tensor, Tensor], Tensor]

SPECS = ("grad_eclip", "token_tm", "alti", "globenc", "decompx", "decompx?biases=absdot", "transformer_attribution", "lrp:deep_taylor")
SPECS = (*SPECS, "lrp:lrp", "input_x_gradient:attnlrp", "input_x_gradient:pa-lrp", "fullgrad_plus:libra")


class WrittenOut(Block):
    """A block with a linear layer written as ``layer``, and the residual sum with a layer's output as ``total`` of layer, stream, input."""

    def __init__(self, layer: Layer | None = None, total: Sum | None = None) -> None:
        super().__init__(lambda: Attention(of_module))
        self.layer: Layer = layer or (lambda module, x: module(x))
        self.total: Sum = total or (lambda module, stream, x: stream + self.layer(module, x))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.layer(self.attn.qkv, self.n1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[union-attr,arg-type]
        x = self.total(self.attn.proj, x, (softmax_of(q, k) @ v).transpose(1, 2).flatten(2))  # type: ignore[arg-type]
        return self.total(self.mlp.b, x, F.gelu(self.layer(self.mlp.a, self.n2(x))))  # type: ignore[union-attr,arg-type]


def of_two(make: Callable[[], nn.Module]) -> nn.Module:
    return built(lambda: Vit(lambda: [make(), make()]))


def assert_same_maps(block: Callable[[], nn.Module], specs: tuple[str, ...] = SPECS) -> None:
    """The maps of two samples in a Vit of such blocks are those of plain ones."""
    found, expected = scores(of_two(block), pixels(2), 1, *specs), scores(of_two(WrittenOut), pixels(2), 1, *specs)
    for spec, one, other in zip(specs, found, expected, strict=True):
        error = float((one - other).abs().max() / other.abs().max())
        assert error < 1e-6, (spec, error)


def in_place(module: nn.Linear, x: Tensor) -> Tensor:
    y = x @ module.weight.T
    y += module.bias
    return y


LAYERS: dict[str, Layer] = {
    "matrix product": lambda m, x: x @ m.weight.T + m.bias,
    "bias first": lambda m, x: m.bias + F.linear(x, m.weight),
    "in place": in_place,
    "bias repeated for each token": lambda m, x: x @ m.weight.T + m.bias.repeat(*x.shape[:-1], 1),
    "bias expanded": lambda m, x: torch.add(x @ m.weight.T, m.bias.expand(*x.shape[:-1], -1)),
    "weight for each sample": lambda m, x: torch.bmm(x, m.weight.T.expand(len(x), -1, -1)) + m.bias,
    "einsum": lambda m, x: torch.einsum("bnd,ed->bne", x, m.weight) + m.bias,
    "weight on the left": lambda m, x: (m.weight @ x.mT + m.bias[:, None]).mT,
    "addmm": lambda m, x: torch.addmm(m.bias, x.flatten(0, 1), m.weight.T).unflatten(0, (len(x), -1)),
    "flattened": lambda m, x: (x.flatten(0, 1) @ m.weight.T + m.bias).unflatten(0, (len(x), -1)),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_a_linear_layer_written_out_has_the_maps_of_the_module(layer: Layer) -> None:
    assert_same_maps(lambda: WrittenOut(layer))


@pytest.mark.parametrize("with_bias", [True, False])
def test_a_convolution_of_single_places_has_the_maps_of_a_layer(with_bias: bool) -> None:
    """But where rules treat convolutions in a way of their own."""

    def layer(module: nn.Linear, x: Tensor) -> Tensor:
        y = F.conv1d(x.mT, module.weight[..., None], module.bias if with_bias else None)
        return (y if with_bias else y + module.bias[:, None]).mT

    assert_same_maps(lambda: WrittenOut(layer), tuple(spec for spec in SPECS if spec != "input_x_gradient:pa-lrp"))


def written_into(module: nn.Linear, stream: Tensor, x: Tensor) -> Tensor:
    stream = stream.clone()
    stream += x @ module.weight.T
    stream += module.bias
    return stream


SUMS_WITH_BIAS: dict[str, Sum] = {
    "bias last": lambda m, stream, x: stream + x @ m.weight.T + m.bias,
    "stream second": lambda m, stream, x: F.linear(x, m.weight) + stream + m.bias,
    "bias first": lambda m, stream, x: m.bias + (stream + x @ m.weight.T),
    "in place": written_into,
}


@pytest.mark.parametrize("total", SUMS_WITH_BIAS.values(), ids=SUMS_WITH_BIAS)
def test_a_bias_that_is_added_to_the_stream_is_that_of_the_layer_before(total: Sum) -> None:
    assert_same_maps(lambda: WrittenOut(total=total))


class NormInParts(WrittenOut):
    """A block that adds the bias of its norms apart, and also multiplies by their weight apart if ``weighs``."""

    def __init__(self, weighs: bool) -> None:
        super().__init__()
        self.weighs = weighs

    def forward(self, x: Tensor) -> Tensor:
        for norm in (self.n1, self.n2):
            norm.forward = lambda y, norm=norm: (
                (  # type: ignore[method-assign,misc]
                    F.layer_norm(y, (WIDTH,)) * norm.weight if self.weighs else F.layer_norm(y, (WIDTH,), norm.weight)
                )
                + norm.bias
            )
        return super().forward(x)


@pytest.mark.parametrize("weighs", [True, False])
def test_weight_and_bias_of_a_norm_may_be_applied_apart(weighs: bool) -> None:
    assert_same_maps(lambda: NormInParts(weighs))


@pytest.mark.parametrize("total", SUMS_WITH_BIAS.values(), ids=SUMS_WITH_BIAS)
def test_contributions_of_one_block_are_those_of_the_formula(total: Sum) -> None:
    """ALTI: of the sum of attended values, biases of theirs with them, and the stream, how much nearer each token brings to it in L1."""
    vit = built(lambda: Vit(lambda: [WrittenOut(LAYERS["matrix product"], total)]))
    (found,) = scores(vit, pixels(), 1, "alti")
    block = vit.blocks[0]
    with torch.no_grad():
        x = torch.cat([vit.cls, vit.patch(pixels()).flatten(2).mT], 1) + vit.pos
        q, k, v = (part[0].unflatten(-1, (HEADS, -1)) for part in block.attn.qkv(block.n1(x)).chunk(3, -1))
        weights = (torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5).softmax(-1)
        parts = torch.einsum("hqk,khd,ehd->qke", weights, v, block.attn.proj.weight.unflatten(1, (HEADS, -1)))
        parts[range(17), range(17)] += x[0]
        whole = (parts.sum(1) + block.attn.proj.bias)[:, None]
        near = (whole.abs().sum(-1) - (whole - parts).abs().sum(-1)).clamp(min=0)
    torch.testing.assert_close(found, (near / near.sum(-1, keepdim=True))[0], rtol=1e-5, atol=1e-8)


def in_other_axes(turn: Callable[[Tensor], Tensor], back: Callable[[Tensor, Tensor], Tensor]) -> Sum:
    return lambda m, stream, x: back(turn(stream) + turn(m(x)), stream)


LAYOUTS: dict[str, Sum] = {
    "tokens first": in_other_axes(lambda x: x.transpose(0, 1), lambda y, x: y.transpose(0, 1)),
    "width first": in_other_axes(lambda x: x.permute(2, 1, 0), lambda y, x: y.permute(2, 1, 0)),
    "flattened": in_other_axes(lambda x: x.flatten(0, 1), lambda y, x: y.view_as(x)),
    "tokens first and flattened": in_other_axes(
        lambda x: x.transpose(0, 1).flatten(0, 1), lambda y, x: y.unflatten(0, (-1, len(x))).transpose(0, 1)
    ),
    "an axis in front": in_other_axes(lambda x: x[None], lambda y, x: y[0]),
    "one row": in_other_axes(lambda x: x.flatten(), lambda y, x: y.view_as(x)),
    "sample by sample": lambda m, stream, x: torch.stack([one + other for one, other in zip(stream, m(x), strict=True)]),
}


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("total", LAYOUTS.values(), ids=LAYOUTS)
def test_relevance_of_a_sum_is_shared_within_each_sample_in_any_layout(total: Sum, samples: int) -> None:
    specs = ("transformer_attribution", "lrp:deep_taylor", "lrp:lrp", "transformer_attribution_without_gradient")
    x = pixels(samples)
    found, expected = (explained(of_two(block), x, specs) for block in (lambda: WrittenOut(total=total), WrittenOut))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def explained(vit: nn.Module, x: Tensor, specs: tuple[str, ...]) -> Tensor:
    """The maps of each sample and method."""
    results = explainers.explain(explainers.wrap(vit, kind="image", preprocess=PREPROCESS), {"pixel_values": x}, 1, list(specs))
    several = results if isinstance(results, list) else [results]
    assert len(several) == len(x)
    return torch.stack([result[spec].scores.double() for result in several for spec in specs])


class FromRows(Vit):
    """A Vit that cuts out its patches and embeds them by a linear layer, all rows of all samples at once if ``is_flat``."""

    is_flat = False

    def forward(self, x: Tensor) -> Tensor:
        rows = F.unfold(x, 8, stride=8).mT
        weight, bias = self.patch.weight.flatten(1), self.patch.bias
        tokens = F.linear(rows.flatten(0, 1), weight, bias).unflatten(0, rows.shape[:2]) if self.is_flat else F.linear(rows, weight, bias)
        tokens = torch.cat([self.cls.expand(len(x), -1, -1), tokens], 1) + self.pos
        for block in self.blocks:
            tokens = block(tokens)
        out: Tensor = self.head(self.norm(tokens)[:, 0])
        return out


def test_bounds_of_pixels_are_those_of_the_image_where_patches_are_flattened() -> None:
    vit = built(lambda: FromRows(lambda: [WrittenOut(), WrittenOut()]))
    model, maps = explainers.wrap(vit, kind="image", preprocess=PREPROCESS), list[Tensor]()
    for is_flat in (False, True):
        vit.is_flat = is_flat  # type: ignore[assignment]
        result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["lrp:deep_taylor"])
        assert isinstance(result, explainers.Explanation)
        at_pixels = result["lrp:deep_taylor"].pixels
        assert at_pixels is not None
        maps.append(at_pixels.double())
    torch.testing.assert_close(maps[1], maps[0], rtol=1e-5, atol=1e-8)
    with pytest.raises(ExplainerError, match="Explain one input at a time"):
        explained(vit, pixels(2), ("lrp:deep_taylor",))


SUMS: dict[str, Sum] = {
    "stacked": lambda m, stream, x: torch.stack([stream, m(x)]).sum(0),
    "stacked last": lambda m, stream, x: torch.stack([m(x), stream], -1).sum(-1),
    "stacked, axis kept": lambda m, stream, x: torch.stack((stream, m(x)), 1).sum(dim=1, keepdim=True)[:, 0],
    "concatenated": lambda m, stream, x: torch.cat([stream[:, None], m(x)[:, None]], 1).sum([1]),
    "twice the mean": lambda m, stream, x: 2 * torch.stack([stream, m(x)]).mean(0),
    "einsum": lambda m, stream, x: torch.einsum("kbnd->bnd", torch.stack([stream, m(x)])),
    "lerp": lambda m, stream, x: 2 * torch.lerp(stream, m(x), 0.5),
    "halves": lambda m, stream, x: (0.5 * stream + m(x) / 2) * 2,
}


@pytest.mark.parametrize("total", SUMS.values(), ids=SUMS)
def test_a_residual_sum_in_other_words_is_a_sum(total: Sum) -> None:
    assert_same_maps(lambda: WrittenOut(total=total), tuple(spec for spec in SPECS if "absdot" not in spec))


def by_data(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True).sigmoid()


GATES: dict[str, Callable[[Tensor], Tensor]] = {"number": lambda x: torch.tensor(0.3, dtype=x.dtype), "gate": by_data}


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_the_stream_after_attention_is_the_whole_sum_where_a_difference_is_added(gate: Callable[[Tensor], Tensor]) -> None:
    """x + g (h - x), as in nGPT and gated residuals, has the maps of (1 - g) x + g h."""
    specs = ("token_tm", "globenc", "alti")
    added = scores(of_two(lambda: WrittenOut(total=lambda m, x, y: x + gate(x) * (m(y) - x))), pixels(2), 1, *specs)
    shares = scores(of_two(lambda: WrittenOut(total=lambda m, x, y: (1 - gate(x)) * x + gate(x) * m(y))), pixels(2), 1, *specs)
    for spec, one, other in zip(specs, added, shares, strict=True):
        assert float((one - other).abs().max() / other.abs().max()) < 1e-6, spec


def of_length_one(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


class OnSphere(WrittenOut):
    """A block of nGPT: what each part gives, and the stream after each step, are of length 1. ``total`` takes the stream and a part."""

    def __init__(self, total: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.step = total

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.attn.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[union-attr,operator]
        given = self.attn.proj((softmax_of(q, k) @ v).transpose(1, 2).flatten(2))  # type: ignore[union-attr,operator]
        x = of_length_one(self.step(x, of_length_one(given)))
        return of_length_one(self.step(x, of_length_one(self.mlp(x))))


@pytest.mark.parametrize("spec", ["globenc", "alti"])
@pytest.mark.parametrize("by_difference", [True, False])
def test_a_share_of_the_stream_is_no_weight_of_the_norm_before(by_difference: bool, spec: str) -> None:
    """nGPT's residual as x + a (h - x) and as (1 - a) x + a h: contributions by the formula, token by token, with lengths held constant."""
    a = torch.linspace(0.2, 0.6, WIDTH, dtype=torch.float64)
    module = of_two(lambda: OnSphere((lambda x, h: x + a * (h - x)) if by_difference else (lambda x, h: (1 - a) * x + a * h)))
    x = module.patch(pixels()).flatten(2).mT  # type: ignore[operator]
    x = (torch.cat([module.cls, x], 1) + module.pos).detach()  # type: ignore[list-item,operator]
    matrices = []
    for block in module.blocks:  # type: ignore[union-attr]
        q, k, v = block.attn.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        weights = softmax_of(q, k)[0]
        of_token = v[0] @ block.attn.proj.weight.unflatten(1, (HEADS, -1)).permute(1, 2, 0)  # (H, S, D)
        moved = torch.einsum("hij,hjd->ijd", weights, of_token)
        given = moved.sum(1) + block.attn.proj.bias
        own = torch.diag_embed(x[0].T).permute(1, 2, 0)  # (S, S, D)
        middle = (1 - a) * x[0] + a * of_length_one(given)
        vectors = ((1 - a) * own + a * moved / given.norm(dim=-1)[:, None, None]) / middle.norm(dim=-1)[:, None, None]
        whole = of_length_one(middle)
        if spec == "globenc":
            last = (1 - a) * whole + a * of_length_one(block.mlp(whole))
            sizes = (vectors / last.norm(dim=-1)[:, None, None]).norm(dim=-1)
        else:
            sizes = (whole.abs().sum(-1)[:, None] - (whole[:, None] - vectors).abs().sum(-1)).clamp(min=0)
        matrices.append((sizes / sizes.sum(-1, keepdim=True)).detach())
        x = block(x).detach()
    (found,) = scores(module, pixels(), 1, spec)
    expected = (matrices[1] @ matrices[0])[0, 1:]
    torch.testing.assert_close(found[..., -16:].flatten(), expected, rtol=1e-5, atol=1e-8)


class Parallel(WrittenOut):
    """Attention and MLP of one input: ``how`` says in which order they are added, or that one layer makes both of one row."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.both = how, nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        q, k, v = self.attn.qkv(y).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # type: ignore[union-attr,operator]
        given = (softmax_of(q, k) @ v).transpose(1, 2).flatten(2)
        if self.how == "fused":
            return x + self.both(torch.cat([given, F.gelu(self.mlp.a(y))], -1))  # type: ignore[union-attr,operator]
        if self.how == "MLP before":
            x = x + self.mlp(y)  # type: ignore[operator]
            return x + self.attn.proj(given)  # type: ignore[union-attr,operator]
        a, m = self.attn.proj(given), self.mlp(y)  # type: ignore[union-attr,operator]
        sums = {
            "attention first": lambda: (x + a) + m,
            "together": lambda: x + (a + m),
            "together first": lambda: F.dropout(m, 0.1, False).add_(a) + x,
            "MLP first": lambda: (x + m) + a,
        }
        return sums[self.how]()


def test_the_stream_after_attention_is_known_where_attention_is_added_before_a_parallel_mlp() -> None:
    """TokenTM by its formula, with x + attention as the stream between."""
    module, tokens, maps = of_two(lambda: Parallel("attention first")), list[tuple[Tensor, Tensor, Tensor]](), list[Tensor]()
    x = torch.cat([module.cls, module.patch(pixels()).flatten(2).mT], 1) + module.pos  # type: ignore[list-item,operator]
    x = start = x.detach().requires_grad_()
    for block in module.blocks:  # type: ignore[union-attr]
        q, k, v = block.attn.qkv(block.n1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        maps.append(softmax_of(q, k))
        middle = x + block.attn.proj((maps[-1] @ v).transpose(1, 2).flatten(2))
        given = middle + block.mlp(block.n1(x))
        tokens.append((x[0].detach(), middle[0].detach(), given[0].detach()))
        x = given
    gradients = torch.autograd.grad(module.head(module.norm(x)[:, 0])[0, 1], maps)  # type: ignore[operator]
    matrix = torch.diag(start[0].detach().norm(dim=-1))
    for (first, middle, last), weights, gradient in zip(tokens, maps, gradients, strict=True):
        ratio = lambda u, v: torch.diag(v.norm(dim=-1) / u.norm(dim=-1) * F.cosine_similarity(u, v, dim=-1).softmax(0))  # noqa: E731
        identity = torch.eye(len(first), dtype=first.dtype)
        attended = (weights[0].detach().mean(0) @ ratio(first, middle)) * gradient[0].clamp(min=0).mean(0)
        matrix = (identity + ratio(middle, last)) @ (identity + attended) @ matrix
    (found,) = scores(module, pixels(), 1, "token_tm")
    torch.testing.assert_close(found[..., -16:].flatten(), matrix[0, 1:], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("how", ["together", "together first", "MLP first"])
def test_the_stream_after_attention_is_known_where_a_parallel_mlp_is_added_with_it_in_one_sum(how: str) -> None:
    """As of (x + attention) + MLP, which is the same model."""
    specs = ("token_tm", "globenc", "alti")
    found, expected = (scores(of_two(lambda of=of: Parallel(of)), pixels(2), 1, *specs) for of in (how, "attention first"))  # type: ignore[misc]
    for spec, one, other in zip(specs, found, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-6 * float(other.abs().max()), spec


@pytest.mark.parametrize("how", ["MLP before", "fused"])
def test_no_stream_after_attention_is_read_where_an_mlp_is_added_with_it(how: str) -> None:
    model = explainers.wrap(of_two(lambda: Parallel(how)), kind="image", preprocess=PREPROCESS)
    for spec in ("token_tm", "globenc", "alti"):
        with pytest.raises(ExplainerError, match=r"an MLP to the residual stream in parallel.*such as rollout"):
            explainers.explain(model, {"pixel_values": pixels()}, 1, [spec])
    explainers.explain(model, {"pixel_values": pixels()}, 1, ["rollout", "fullgrad_plus:libra"])


Norm = Callable[[nn.LayerNorm, Tensor], Tensor]


def of_bert(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """As in the first code of BERT."""
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return norm.weight * ((x - mean) / torch.sqrt(variance + norm.eps)) + norm.bias


def in_two_steps(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centre = x - x.mean(dim=-1, keepdim=True)
    out = centre * torch.rsqrt(centre.square().mean(-1, keepdim=True) + norm.eps)
    return out * norm.weight + norm.bias


NORMS: dict[str, Norm] = {
    "BERT's": of_bert,
    "two steps": in_two_steps,
    "variance": lambda n, x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + n.eps) ** 0.5 * n.weight + n.bias,
    "addcmul": lambda n, x: torch.addcmul(n.bias, F.layer_norm(x, (WIDTH,)), n.weight),
}


class WithNorm(WrittenOut):
    """A block with its norms written as ``norm``, before its parts or, with ``is_post_norm``, after their sums."""

    def __init__(self, norm: Norm | None, is_post_norm: bool) -> None:
        super().__init__()
        self.norm: Norm = norm or (lambda module, x: module(x))
        self.is_post_norm = is_post_norm

    def forward(self, x: Tensor) -> Tensor:
        before = (lambda norm, y: y) if self.is_post_norm else self.norm
        after = self.norm if self.is_post_norm else (lambda norm, y: y)
        q, k, v = self.attn.heads(self.attn.qkv(before(self.n1, x)), 3)  # type: ignore[operator]
        x = after(self.n1, x + self.attn.proj((softmax_of(q, k) @ v).transpose(1, 2).flatten(2)))  # type: ignore[operator]
        return after(self.n2, x + self.mlp(before(self.n2, x)))


@pytest.mark.parametrize("is_post_norm", [False, True])
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_a_layer_norm_written_out_has_the_maps_of_the_module(norm: Norm, is_post_norm: bool) -> None:
    specs = (*SPECS, "globenc?published_code=true", "attcat", "gradcam_plus:libra", "input_x_gradient:conservative")
    found, expected = (scores(of_two(lambda n=n: WithNorm(n, is_post_norm)), pixels(2), 1, *specs) for n in (norm, None))  # type: ignore[misc]
    off = {spec: float((one - other).abs().max() / other.abs().max()) for spec, one, other in zip(specs, found, expected, strict=True)}
    assert {spec: error for spec, error in off.items() if error > 1e-6} == {}


class Pooled(nn.Module):
    """A Vit of sixteen tokens, as many as their width, whose head reads their mean, with an axis for the tokens or without."""

    def __init__(self, keeps_axis: bool) -> None:
        super().__init__()
        shape = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 3}
        self.vit = timm.create_model("vit_tiny_patch16_224", class_token=False, global_pool="avg", **shape)
        self.keeps_axis = keeps_axis

    def forward(self, x: Tensor) -> Tensor:
        mean = self.vit.forward_features(x).mean(1, keepdim=self.keeps_axis)
        out: Tensor = self.vit.head(self.vit.fc_norm(mean))
        return out[:, 0] if self.keeps_axis else out


def test_a_head_that_keeps_an_axis_for_its_mean_has_no_bias_of_tokens() -> None:
    x, specs = torch.randn(2, 3, 32, 32, dtype=torch.float64), ["fullgrad", "fullgrad_plus", "fullgrad_plus:libra"]
    maps = []
    for keeps_axis in (True, False):
        model = explainers.wrap(built(lambda: Pooled(keeps_axis)), kind="image", preprocess=PREPROCESS)  # noqa: B023
        results = explainers.explain(model, {"pixel_values": x}, 1, specs)
        maps.append(torch.stack([result[spec].scores for result in results for spec in specs]))
    torch.testing.assert_close(maps[0], maps[1], rtol=1e-6, atol=1e-9)


def with_keys_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2).mT @ v


def turned_before_the_softmax(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (k @ q.mT / q.shape[-1] ** 0.5).mT.softmax(-1) @ v


def turned_twice(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).mT.softmax(-2).mT @ v


def by_logarithms(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scores = k @ q.mT / q.shape[-1] ** 0.5
    return (scores - scores.logsumexp(-2, keepdim=True)).exp().mT @ v


def by_letters(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = torch.einsum("bhkd,bhqd->bhkq", k, q / q.shape[-1] ** 0.5).softmax(2)
    return torch.einsum("bhkq,bhkd->bhqd", weights, v)


KEYS_FIRST = [with_keys_first, turned_before_the_softmax, turned_twice, by_logarithms, by_letters]


@pytest.mark.parametrize("form", KEYS_FIRST, ids=lambda form: form.__name__)
def test_queries_are_told_from_keys_where_scores_have_a_row_for_each_key(form: Callable[..., Tensor]) -> None:
    module, usual = vit_of(form), vit_of(plain_form)
    specs = [spec for spec in SPECS if spec != "decompx?biases=absdot"]  # which takes the logarithms of a softmax for biases
    specs.append("agcam")
    for ours, expected in zip(*(scores(each, pixels(2), 1, *specs) for each in (module, usual)), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def times_identity(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) @ torch.eye(k.shape[-2], dtype=q.dtype)) @ v


def identity_times(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (torch.eye(q.shape[-2], dtype=q.dtype) @ softmax_of(q, k)) @ v


def heads_by_letters(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.einsum("bhij,hg->bgij", softmax_of(q, k), torch.eye(HEADS, dtype=q.dtype)) @ v


def sum_times_identity(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = 0.5 * softmax_of(q, k) + 0.5 * softmax_of(q, k)
    return (weights @ torch.eye(k.shape[-2], dtype=q.dtype)) @ v


@pytest.mark.parametrize("form", [times_identity, identity_times, heads_by_letters, sum_times_identity], ids=lambda form: form.__name__)
def test_attention_weights_that_meet_a_constant_stay_attention_weights(form: Callable[..., Tensor]) -> None:
    """The constant is an identity, so that every number is that of the plain form, and so is every map."""
    rules = ("attnlrp", "cp-lrp", "cp-lrp-gamma", "pa-lrp", "libra")
    specs = ("pa_lrp", "lrp:lrp", *(f"input_x_gradient:{rule}" for rule in rules))
    for ours, expected in zip(*(scores(vit_of(each), pixels(2), 1, *specs) for each in (form, plain_form)), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def vit_of(form: Callable[..., Tensor]) -> nn.Module:
    return built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))


def plain_form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v


def gate_of_scores(module: Attention, x: Tensor) -> Tensor:
    q, k = module.heads(module.more(x), 2)
    return (q @ k.mT / q.shape[-1] ** 0.5).sigmoid()


def gated(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) * gate_of_scores(module, x)) @ v


def gated_from_the_left(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return ((2 * gate_of_scores(module, x)).transpose(1, 2).transpose(1, 2) * (0.5 * softmax_of(q, k))) @ v


def gated_by_constants(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) * gate_of_scores(module, x).detach()) @ v


@pytest.mark.parametrize("form", [gated, gated_from_the_left], ids=lambda form: form.__name__)
def test_a_sigmoid_of_scores_on_attention_weights_is_a_gate(form: Callable[..., Tensor]) -> None:
    """A gate is a constant under AttnLRP, and the weights get the whole signal: docs/rules.md#gates."""
    spec = "input_x_gradient:attnlrp"
    (ours,), (expected,) = (scores(vit_of(each), pixels(2), 1, spec) for each in (form, gated_by_constants))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    model = explainers.wrap(vit_of(form), kind="image", preprocess=PREPROCESS)
    assert not any("sigmoid" in note for note in explainers.explain(model, model.prepare([torch_image()]), 1, spec)[0].maps[0].notes)


def torch_image() -> Image.Image:
    return Image.fromarray((pixels()[0].clamp(0, 1) * 255).byte().permute(1, 2, 0).numpy())


def heads_before_samples(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (each.transpose(0, 1).flatten(0, 1) for each in (q, k, v))
    return torch.bmm((torch.bmm(q, k.mT) / q.shape[-1] ** 0.5).softmax(-1), v).unflatten(0, (HEADS, -1)).transpose(0, 1)


def samples_before_heads(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (each.flatten(0, 1) for each in (q, k, v))
    return torch.bmm((torch.bmm(q, k.mT) / q.shape[-1] ** 0.5).softmax(-1), v).unflatten(0, (-1, HEADS))


@pytest.mark.parametrize("spec", ["decompx", "globenc", "alti"])
@pytest.mark.parametrize("count", [1, 2])
def test_heads_and_samples_in_one_axis_are_propagated_only_with_samples_first(spec: str, count: int) -> None:
    for ours, expected in zip(*(scores(vit_of(each), pixels(count), 1, spec) for each in (samples_before_heads, plain_form)), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ExplainerError, match="does not have its samples first"):
        scores(vit_of(heads_before_samples), pixels(count), 1, spec)
