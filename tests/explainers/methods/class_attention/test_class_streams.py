"""CaiT, XCiT and VOLO: methods that follow the tokens into class attention, against a calculation with torch alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.methods.class_attention import ClassAttentionTrace
from explainers.methods.contributions import after_attention, after_class_attention
from explainers.methods.requirements import variants
from explainers.models.inputs.images import Preprocessing
from explainers.models.model import Model
from explainers.records.session import Session
from tests.explainers.support.class_attention import TARGET, close, explained, patches_of, plain_maps
from tests.explainers.support.class_twins import Given, class_block, inputs_of, patch_block
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES

NAMES = ("cait", "volo", "xcit")
every_name = pytest.mark.parametrize("name", NAMES)


@cache
def twins(name: str) -> tuple[list[Given], list[Given]]:
    """By hand: what tokens give in each block over the patches, and in each of class attention."""
    model, tensors = wrapped(name), inputs(name)
    modules = [*model.blocks, *model.class_blocks]
    seen = inputs_of(modules, lambda: model.forward(tensors))
    grid = model.layout_of(tensors).grid
    assert grid is not None
    blocks = len(model.blocks)
    with torch.no_grad():
        patches = [patch_block(m, given, grid) for m, given in zip(modules[:blocks], seen[:blocks], strict=True)]
        return patches, [class_block(m, given) for m, given in zip(modules[blocks:], seen[blocks:], strict=True)]


def trace_of_class(name: str) -> ClassAttentionTrace:
    session = Session(wrapped(name), inputs(name), TARGET)
    return ClassAttentionTrace(session.trace(session.chosen[0], None), last=False)


@every_name
def test_the_blocks_of_class_attention_are_found(name: str) -> None:
    module = FAMILIES[name].build()
    row = {"cait": "blocks_token_only", "xcit": "cls_attn_blocks", "volo": "post_network"}[name]
    assert list(explainers.wrap(module).class_blocks) == list(module.get_submodule(row))
    given = explainers.wrap(module, blocks={"volo": "network.2"}.get(name, "blocks"))
    assert list(given.class_blocks) == list(module.get_submodule(row))


@pytest.mark.parametrize("name", ["vit", "swin", "siglip", "convnext", "bert", "hf-clip"])
def test_other_models_have_none(name: str) -> None:
    model = wrapped(name)
    assert list(model.class_blocks) == []
    assert Recording(model, inputs(name)).structure.class_attention.blocks == ()


@every_name
def test_contributions_and_constants_are_the_class_tokens_stream(name: str) -> None:
    """In every block, over the patches and of class attention: what each token gives, and that it adds up with the constants."""
    trace, (patches, classes) = trace_of_class(name), twins(name)
    for i, given in enumerate(patches):
        shares = after_attention(trace, i, norms=2)
        close(shares.vectors, given.vectors)
        close(shares.whole, given.stream)
    assert len(classes) == 2
    for i, given in enumerate(classes):
        shares = after_class_attention(trace, i)
        close(shares.vectors, given.vectors)
        close(shares.vectors.sum(2) + given.constants, shares.whole)
        close(shares.whole, given.stream)
        stream = trace.recording.structure.class_attention.blocks[i].mid_residual
        assert stream is not None
        close(stream.detach(), given.stream)


def rolled(matrices: tuple[list[Tensor], list[Tensor]], normalised: bool) -> Tensor:
    """(B, S): the class token's row of the product, block by block from the last."""

    def scaled(matrix: Tensor) -> Tensor:
        return matrix / matrix.sum(-1, keepdim=True) if normalised else matrix

    blocks, classes = matrices
    row = torch.zeros(len(classes[0]), classes[0].shape[-1], dtype=torch.float64)
    row[:, 0] = 1
    for matrix in reversed(classes):
        row = (row[:, None] @ scaled(matrix))[:, 0]
    patches = row[:, 1:]
    for matrix in reversed(blocks):
        patches = (patches[:, None] @ scaled(matrix))[:, 0]
    return patches


def measured(name: str, measure: Callable[[Given], Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Of each block a square matrix; where class attention gives the class token alone, the patches give themselves as they are."""
    patches, classes = twins(name)
    model, tensors = wrapped(name), inputs(name)
    squares = []
    for given, seen in zip(classes, inputs_of(list(model.class_blocks), lambda: model.forward(tensors)), strict=True):
        matrix = measure(given)
        if matrix.shape[1] == 1:
            others = seen[0] if len(seen) == 2 else seen[0][:, 1:]
            alone = measure(Given(others[:, :, None], torch.zeros(()), others))[..., 0]
            matrix = torch.cat([matrix, F.pad(torch.diag_embed(alone), (1, 0))], 1)
        squares.append(matrix)
    return [measure(given) for given in patches], squares


@pytest.mark.slow
@every_name
def test_globenc_and_alti_end_in_class_attention(name: str) -> None:
    def length(given: Given) -> Tensor:
        return given.vectors.norm(dim=-1)

    def nearness(given: Given) -> Tensor:
        whole = given.stream[:, :, None]
        return (whole.abs().sum(-1) - (whole - given.vectors).abs().sum(-1)).clamp(min=0)

    model, tensors = wrapped(name), inputs(name)
    close(explained(model, tensors, "globenc"), rolled(measured(name, length), normalised=True))
    close(explained(model, tensors, "globenc?published_code=true"), rolled(measured(name, length), normalised=False))
    close(explained(model, tensors, "alti"), rolled(measured(name, nearness), normalised=True))


def transformation(before: Tensor, after: Tensor) -> Tensor:
    return after.norm(dim=-1) / (before.norm(dim=-1) + 1e-8) * F.cosine_similarity(before, after, dim=-1).softmax(-1)


@pytest.mark.parametrize("name", ["cait", "volo"])
def test_token_tm_follows_the_class_token(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The class token's row from the end: in class attention among 1 + S tokens, of which it alone changes; before it the patches."""
    model, tensors = explainers.wrap(FAMILIES[name].build().double()), inputs(name)
    found = explained(model, tensors, "token_tm")
    patches, classes = twins(name)
    modules = [*model.blocks, *model.class_blocks]
    seen = inputs_of(modules, lambda: model.forward(tensors))
    outputs: dict[int, Tensor] = {}
    for i, module in enumerate(modules):
        module.register_forward_hook(lambda module, args, output, i=i: outputs.update({i: output.detach()}))
    squares, rows = plain_maps(model, tensors, monkeypatch)

    def row_of(given: tuple[Tensor, ...]) -> Tensor:
        x = torch.cat([given[1], given[0]], 1) if len(given) == 2 else given[0]
        return x.flatten(1, 2) if x.dim() == 4 else x

    xs, ys = [row_of(given) for given in seen], [row_of((outputs[i],)) for i in range(len(modules))]
    count = len(model.blocks)
    row = torch.zeros(2, 1 + patches_of(model, tensors), dtype=torch.float64)
    row[:, 0] = 1
    for x, y, given, a in reversed(list(zip(xs[count:], ys[count:], classes, rows, strict=True))):
        middle = torch.cat([given.stream, x[:, 1:]], 1)
        after = y if y.shape == x.shape else torch.cat([y, x[:, 1:]], 1)
        row = row * (1 + transformation(middle, after))
        attended = (a.detach().mean(1) * transformation(x, middle)[:, None]) * a.grad.clamp(min=0).mean(1)
        row = row + row[:, :1] * attended[:, 0]
    joint = row[:, 1:]
    for x, y, given, a in reversed(list(zip(xs[:count], ys[:count], patches, squares, strict=True))):
        joint = joint * (1 + transformation(given.stream, y))
        attended = (a.detach().mean(1) * transformation(x, given.stream)[:, None]) * a.grad.clamp(min=0).mean(1)
        joint = joint + (joint[:, None] @ attended)[:, 0]
    close(found, joint * xs[0].norm(dim=-1))


@every_name
def test_grad_eclip_reads_the_last_class_attention(name: str) -> None:
    model, tensors = wrapped(name), inputs(name)
    attn: Any = model.class_blocks[-1].attn
    kept: dict[str, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        kept["normed"] = args[0].detach()

    def begin(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        kept["context"] = args[0].detach().requires_grad_()
        return (kept["context"],)

    handles = [attn.register_forward_pre_hook(keep), attn.proj.register_forward_pre_hook(begin)]
    with torch.enable_grad():
        logits = model.forward(tensors)
    for handle in handles:
        handle.remove()
    some = False
    for target in range(logits.shape[1]):
        (gradient,) = torch.autograd.grad(logits[:, target].sum(), kept["context"], retain_graph=True)
        with torch.no_grad():
            u = kept["normed"]
            key, value = attn.kv(u).chunk(2, -1) if hasattr(attn, "kv") else (attn.k(u), attn.v(u))
            weighted = (gradient.view(2, 1, -1) * value).sum(-1)[:, 1:]
            likeness = F.cosine_similarity(attn.proj(attn.q(u[:, :1])), attn.proj(key), dim=-1)[:, 1:]
            low, high = likeness.amin(1, keepdim=True), likeness.amax(1, keepdim=True)
            want = ((likeness - low) / (high - low) * weighted).clamp(min=0)
        found = explainers.explain(model, tensors, target=target, methods=["grad_eclip"])
        close(torch.stack([each["grad_eclip"].scores for each in found]).double(), want)
        some = some or bool((want > 0).any(1).all())
    assert some


def test_one_head_over_the_whole_width_needs_attention_in_one_call() -> None:
    """CaiT's last class attention then attends with one head; VOLO writes it out step by step."""
    one = explained(wrapped("cait"), inputs("cait"), "grad_eclip?single_head=true")
    assert float((one - explained(wrapped("cait"), inputs("cait"), "grad_eclip")).abs().max()) > 1e-4 * float(one.abs().max())
    with pytest.raises(ExplainerError, match="step by step"):
        explained(wrapped("volo"), inputs("volo"), "grad_eclip?single_head=true")


def test_what_is_left_says_why() -> None:
    """Attention of XCiT's blocks is over channels; in the second block the class token is not yet."""

    def reasons(name: str) -> dict[str, str | None]:
        return {v.spec: v.reason for v in variants(explainers.wrap(FAMILIES[name].build()))}

    for name in NAMES:
        found = reasons(name)
        assert "joins after its blocks" in (found["transformer_attribution_second_block"] or "")
        assert all(found[spec] is None for spec in ("globenc", "alti", "grad_eclip")), name
        assert (found["token_tm"] is None) == (name != "xcit")
    assert "over channels" in (reasons("xcit")["token_tm"] or "")
    assert "over channels" in (reasons("xcit")["rollout"] or "")


class LooseHead(nn.Module):
    """One class attention in no row of blocks, behind two ordinary ones."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.attn = nn.MultiheadAttention(24, 2, batch_first=True)
        self.token = nn.Parameter(torch.randn(1, 1, 24))
        self.head = nn.Linear(24, 5)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.trunk.blocks(self.trunk.patch_embed(pixel_values))
        u = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        logits: Tensor = self.head((u[:, :1] + self.attn(u[:, :1], u, u)[0])[:, 0])
        return logits


def test_class_attention_in_no_block_is_read_but_its_stream_is_not() -> None:
    torch.manual_seed(0)
    model: Model = explainers.wrap(
        LooseHead(FAMILIES["cait"].build()).eval(), kind="image", preprocess=Preprocessing(resize=(32, 24), fit="squash")
    )
    found = {v.spec: v.reason for v in variants(model)}
    assert found["raw_attention"] is found["grad_eclip"] is None
    assert all("not in blocks that take the class token" in (found[spec] or "") for spec in ("globenc", "alti", "token_tm"))


def class_token_projected_apart(module: Any, x: Tensor) -> Tensor:
    """CaiT's class attention with its class token and the patches projected in two calls."""

    def heads(layer: nn.Module) -> Tensor:
        return torch.cat([layer(x[:, :1]), layer(x[:, 1:])], 1).unflatten(2, (module.num_heads, -1)).transpose(1, 2)

    weights = (heads(module.q)[:, :, :1] * module.scale @ heads(module.k).mT).softmax(-1)
    out: Tensor = module.proj((weights @ heads(module.v)).transpose(1, 2).flatten(2))
    return out


def test_class_attention_whose_biases_meet_some_tokens_alone_is_refused() -> None:
    module = FAMILIES["cait"].build().double()
    tensors, plain = inputs("cait"), module(inputs("cait")["pixel_values"])
    for block in module.blocks_token_only:
        block.attn.forward = class_token_projected_apart.__get__(block.attn)
    torch.testing.assert_close(module(tensors["pixel_values"]), plain)
    model = explainers.wrap(module)
    for spec in ("globenc", "alti"):
        with pytest.raises(ExplainerError, match="rows that are not all its tokens in their order"):
            explained(model, tensors, spec)
    assert explained(model, tensors, "rollout").shape == explained(wrapped("cait"), tensors, "rollout").shape
