"""FullGrad's bias terms stand at the tokens where the biases act, however the rows inside the blocks lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.autograd.attention_trial import trial
from explainers.autograd.recording import Recording
from explainers.autograd.structure import model_structure
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Block,
    Mlp,
    Vit,
    built,
    of_module,
    softmax_of,
)
from tests.explainers.support.wrapped import wrapped

Plain = Callable[[Tensor], Tensor]


def flat(layers: Plain, x: Tensor) -> Tensor:
    return layers(x.reshape(-1, WIDTH)).view_as(x)


def tokens_first(layers: Plain, x: Tensor) -> Tensor:
    return layers(x.transpose(0, 1)).transpose(0, 1)


def flat_tokens_first(layers: Plain, x: Tensor) -> Tensor:
    return flat(layers, x.transpose(0, 1)).transpose(0, 1)


def tokens_first_backwards(layers: Plain, x: Tensor) -> Tensor:
    return tokens_first(layers, x.flip(1)).flip(1)


def backwards(layers: Plain, x: Tensor) -> Tensor:
    return layers(x.flip(1)).flip(1)


def experts(layers: Plain, x: Tensor) -> Tensor:
    rows = x.reshape(-1, WIDTH)
    order = rows[:, 0].argsort()
    given = torch.zeros_like(rows)
    for chosen in order.tensor_split([5]):
        given = given.index_add(0, chosen, layers(rows[chosen]))
    return given.view_as(x)


def windows(layers: Plain, x: Tensor) -> Tensor:
    rows = F.pad(x, (0, 0, 0, 3)).unflatten(1, (4, 5))
    return layers(rows).flatten(1, 2)[:, :TOKENS]


def with_their_mean(layers: Plain, x: Tensor) -> Tensor:
    return layers(torch.cat([x, x.mean(1, keepdim=True)], 1))[:, :-1]


def mean_after_the_patches(layers: Plain, x: Tensor) -> Tensor:
    return torch.cat([layers(x[:, :1]), layers(torch.cat([x[:, 1:], x.mean(1, keepdim=True)], 1))[:, :-1]], 1)


def next_to_neighbours(layers: Plain, x: Tensor) -> Tensor:
    return layers(torch.cat([(x + x.roll(1, 1)) / 2, x], 1))[:, TOKENS:]


def after_neighbours_of_all_samples(layers: Plain, x: Tensor) -> Tensor:
    return layers(torch.cat([(x + x.roll(1, 1)) / 2, x], 0))[len(x) :]


JOINED = (with_their_mean, mean_after_the_patches, next_to_neighbours, after_neighbours_of_all_samples)
FORMS = (flat, tokens_first, flat_tokens_first, tokens_first_backwards, backwards, experts, windows, *JOINED)


class OfForm(nn.Module):
    def __init__(self, form: Callable[[Plain, Tensor], Tensor]) -> None:
        super().__init__()
        self.form, self.layers = form, Mlp()

    def forward(self, x: Tensor) -> Tensor:
        return self.form(self.layers, x)


class AttentionOfRows(Attention):
    """Attention whose linear layers take tokens before samples, as fairseq's do."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 1)
        tokens, samples = y.shape[:2]
        q, k, v = (part.reshape(tokens, samples * HEADS, -1).transpose(0, 1) for part in self.qkv(y).chunk(3, -1))
        return self.proj((softmax_of(q, k) @ v).transpose(0, 1).reshape(y.shape)).transpose(0, 1)


class ConvolvedMlp(Mlp):
    """The MLP as convolutions over as many tokens as it has channels."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(F.conv1d(x.mT, self.a.weight[..., None], self.a.bias))
        return F.conv1d(hidden, self.b.weight[..., None], self.b.bias).mT


def terms_of(
    model: nn.Module, layers: Sequence[nn.Module], blocks: Sequence[nn.Module], run: Callable[[], Tensor]
) -> tuple[Tensor, Tensor]:
    """FullGrad and FullGrad+ by torch's own gradient: (B, S) each. ``layers`` have a bias and give (B, S, D) each; the head has none."""
    given: list[tuple[Tensor, Tensor]] = []
    taken: list[Tensor] = []

    def keep_output(module: nn.Module, args: object, output: Tensor) -> None:
        output.retain_grad()
        given.append((output, module.bias))  # type: ignore[arg-type]

    def keep_input(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0] if args[0].requires_grad else args[0].requires_grad_()
        x.retain_grad()
        taken.append(x)
        return (x, *args[1:])

    handles = [layer.register_forward_hook(keep_output) for layer in layers]
    handles += [block.register_forward_pre_hook(keep_input) for block in blocks]
    run().sum().backward()
    for handle in handles:
        handle.remove()
    biases = sum(((output.grad @ bias).detach() for output, bias in given if output.grad is not None), torch.zeros(()))
    products = [(x * x.grad).sum(-1).detach() for x in taken if x.grad is not None]
    return products[0] + biases, torch.stack(products).sum(0) + biases


def vit_of(block: Callable[[], nn.Module]) -> Vit:
    def make() -> Vit:
        vit = Vit(lambda: [block(), block()])
        vit.head = nn.Linear(WIDTH, 5, bias=False)
        return vit

    vit = built(make)
    assert isinstance(vit, Vit)
    return vit


def maps_of(vit: nn.Module, x: Tensor, *specs: str) -> list[Tensor]:
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": x}, 1, list(specs))
    results = result if isinstance(result, list) else [result]
    return [torch.stack([each[spec].scores for each in results]).double() for spec in specs]


def check_bias_terms(vit: Vit, plain: Vit, x: Tensor) -> None:
    """The bias terms of ``vit`` lie where torch puts those of ``plain``, which computes the same in the usual form."""
    torch.testing.assert_close(vit(x), plain(x))
    layers = [*(m for b in plain.blocks for m in b.modules() if isinstance(m, nn.LayerNorm)), plain.norm]
    layers += [m for b in plain.blocks for m in (b.attn.qkv, b.attn.proj, b.mlp.a, b.mlp.b)]  # type: ignore[union-attr,operator]
    expected = terms_of(plain, layers, list(plain.blocks), lambda: plain(x)[:, 1])
    for found, terms in zip(maps_of(vit, x, "fullgrad", "fullgrad_plus"), expected, strict=True):
        torch.testing.assert_close(found, terms, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize(
    "block",
    [
        *(lambda form=form: Block(lambda: Attention(of_module), lambda: OfForm(form)) for form in FORMS),
        lambda: Block(lambda: AttentionOfRows(of_module)),
        lambda: Block(lambda: Attention(of_module), ConvolvedMlp),
    ],
    ids=[*(form.__name__ for form in FORMS), "attention", "convolutions"],
)
def test_bias_terms_are_of_the_tokens_where_biases_act(block: Callable[[], nn.Module], samples: int) -> None:
    x = torch.randn(samples, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    vit, plain = vit_of(block), vit_of(lambda: Block(lambda: Attention(of_module)))
    check_bias_terms(vit, plain, x)


def test_as_many_channels_as_tokens_are_not_taken_for_tokens() -> None:
    class Wide(ConvolvedMlp):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, TOKENS), nn.Linear(TOKENS, WIDTH)

    class WidePlain(Wide):
        forward = Mlp.forward

    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    one, other = (vit_of(lambda mlp=mlp: Block(lambda: Attention(of_module), mlp)) for mlp in (Wide, WidePlain))
    for found, expected in zip(maps_of(one, x, "fullgrad", "fullgrad:libra"), maps_of(other, x, "fullgrad", "fullgrad:libra"), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_layers_of_gpt2_that_flatten_tokens() -> None:
    model = wrapped("gpt2")
    module = model.module.double()
    ids = torch.tensor([[3, 5, 7, 4, 9, 6]])
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    blocks = list(module.transformer.h)
    layers = [m for b in blocks for m in b.modules() if isinstance(getattr(m, "bias", None), nn.Parameter)]
    expected = terms_of(module, [*layers, module.transformer.ln_f], blocks, lambda: module(**tensors).logits[:, 1])
    result = explainers.explain(model, tensors, 1, ["fullgrad", "fullgrad_plus"])
    first = result[0] if isinstance(result, list) else result
    for spec, terms in zip(("fullgrad", "fullgrad_plus"), expected, strict=True):
        torch.testing.assert_close(first[spec].scores.double(), terms[0], rtol=1e-4, atol=1e-6)


class FlatAttention(Attention):
    """Attention whose linear layers take flattened rows, in the order of the tokens or backwards."""

    backwards = False

    def forward(self, x: Tensor) -> Tensor:
        rows = (x.flip(1) if self.backwards else x).reshape(-1, WIDTH)
        qkv = self.qkv(rows).view(*x.shape[:2], -1)
        q, k, v = self.heads(qkv.flip(1) if self.backwards else qkv, 3)
        given = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.proj(given.reshape(-1, WIDTH)).view_as(x)


class FlatAttentionBackwards(FlatAttention):
    backwards = True


@pytest.mark.parametrize("attention", [FlatAttention, FlatAttentionBackwards])
def test_tokens_are_propagated_alone_through_flattened_rows(attention: type[Attention]) -> None:
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    specs = ("globenc", "alti", "decompx", "fullgrad_plus:libra")
    vit, plain = (vit_of(lambda made=made: Block(lambda: made(of_module))) for made in (attention, Attention))
    for found, expected in zip(maps_of(vit, x, *specs), maps_of(plain, x, *specs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", [tokens_first, flat_tokens_first])
def test_tokens_are_not_propagated_alone_where_samples_are_not_first(form: Callable[[Plain, Tensor], Tensor]) -> None:
    vit = vit_of(lambda: Block(lambda: Attention(of_module), lambda: OfForm(form)))
    for spec in ("globenc", "decompx"):
        with pytest.raises(explainers.ExplainerError, match="does not have its samples first"):
            maps_of(vit, torch.randn(1, 3, 32, 32, dtype=torch.float64), spec)


class WithSink(Attention):
    """Attention with a learned score of no token next to the others, whose weight is dropped (as GPT-OSS has it)."""

    is_written_out = False

    def __init__(self, form: object) -> None:
        super().__init__(form)
        self.sink = nn.Parameter(torch.ones(HEADS))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(self.qkv(x), 3)
        scores, sink = q @ k.mT / q.shape[-1] ** 0.5, self.sink.view(1, HEADS, 1, 1)
        if self.is_written_out:
            weights = scores.exp() / (scores.exp().sum(-1, keepdim=True) + sink.exp())
        else:
            weights = torch.cat([scores, sink.expand(len(x), -1, TOKENS, -1)], -1).softmax(-1)[..., :-1]
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class WithSinkWrittenOut(WithSink):
    is_written_out = True


def test_a_score_of_no_token_is_no_bias() -> None:
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    vit, plain = (vit_of(lambda made=made: Block(lambda: made(of_module))) for made in (WithSink, WithSinkWrittenOut))
    check_bias_terms(vit, plain, x)


@pytest.mark.parametrize(("form", "is_flat"), [(flat, True), (backwards, False), (experts, False), (flat_tokens_first, True)])
def test_rows_that_are_the_tokens_one_after_the_other_are_not_looked_for_in_each_pass_of_one_sample(
    form: Callable[[Plain, Tensor], Tensor], is_flat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    vit = vit_of(lambda: Block(lambda: Attention(of_module), lambda: OfForm(form)))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    kept_trial = trial(model, Recording)
    assert kept_trial.structure.plan is not None
    assert kept_trial.structure.plan.has_flat_rows == is_flat
    searches: list[int] = []
    search = model_structure.find_bias_rows
    monkeypatch.setattr(model_structure, "find_bias_rows", lambda nodes, pull: searches.append(1) or search(nodes, pull))
    for samples in (1, 2):
        x = torch.randn(samples, 3, 32, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        explainers.explain(model, {"pixel_values": x}, 1, ["fullgrad"])
    assert len(searches) == (1 if is_flat else 2)
