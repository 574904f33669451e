"""Encoder-decoders as one row of tokens: their own logits and gradients, a full account over both rows, each score at its token."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers.models.structure.two_rows import DECODER_TOKENS, two_rows_of
from tests.support.encoder_decoders import REREADERS, WRITERS, encoder_decoder, first_inputs, tokenizer

TEXT = "a good film, not a bad movie"
#: Methods that read no attention map, and methods that multiply or read them.
RUN = ["input_x_gradient", "fullgrad:libra", "saliency", "hirescam", "occlusion"]
REFUSED = ["rollout", "attcat", "transformer_attribution", "globenc"]


def taken(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the module itself takes, cut by hand."""
    if DECODER_TOKENS not in tensors:
        return dict(tensors)
    source = int((tensors[DECODER_TOKENS] == 0).sum())
    ids, mask = tensors["input_ids"], tensors["attention_mask"]
    return {"input_ids": ids[:, :source], "attention_mask": mask[:, :source], "decoder_input_ids": ids[:, source:]}


def explained(module: Any, tensors: Mapping[str, Tensor], place: Any, target: int) -> Tensor:
    """The explained number, read from the module's own output."""
    logits = module(**taken(tensors)).logits[0]
    if place is None:
        return logits[target]  # type: ignore[no-any-return]
    source, ids = int((tensors[DECODER_TOKENS] == 0).sum()), tensors["input_ids"][0]
    return torch.stack([logits[i - 1 - source, ids[i]] for i in range(place.tokens[0], place.tokens[1] + 1)]).sum()


def products_in_float64(module: Any, tensors: Mapping[str, Tensor], place: Any, target: int) -> tuple[Tensor, Tensor]:
    """Embedding times its gradient, (S,) of the encoder and (T,) of the decoder, by torch alone."""
    exact, leaves = copy.deepcopy(module).double(), []

    def start(layer: Any, args: Any, kwargs: Any) -> Any:
        leaves.append(args[0].detach().clone().requires_grad_())
        return (leaves[-1], *args[1:]), kwargs

    handles = [layer.register_forward_pre_hook(start, with_kwargs=True) for layer in first_inputs(exact)]
    number = explained(exact, tensors, place, target)
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(number, leaves)
    first, second = ((leaf * gradient).sum(-1)[0].detach() for leaf, gradient in zip(leaves, gradients, strict=True))
    return first, second


@pytest.mark.parametrize("name", [*WRITERS, *REREADERS])
def test_numbers_are_those_of_the_plain_module(name: str) -> None:
    module = encoder_decoder(name)
    model = explainers.wrap(module, tokenizer=tokenizer(), device="cpu")
    assert len(model.blocks) == 5
    result = explainers.explain(model, TEXT, methods=RUN)
    target = 0 if result.place is not None else int(result.targets[0].index or 0)
    with torch.no_grad():
        expected = explained(module, result.tensors, result.place, target)
    assert result.target.logit == pytest.approx(float(expected), rel=1e-5)
    source, written = products_in_float64(module, result.tensors, result.place, target)
    twice = result.place is None  # each token, and the decoder's start at the last
    expected_scores = source + written.roll(-1) if twice else torch.cat([source, written])
    scores = result["input_x_gradient"].scores.double()
    torch.testing.assert_close(scores, expected_scores, rtol=0, atol=1e-5 * float(expected_scores.abs().max()))
    account = result["fullgrad:libra"].scores.double().sum()
    assert float(account) == pytest.approx(float(expected), rel=1e-4, abs=1e-5)
    assert result.completeness("libra") < 1e-4


@pytest.mark.parametrize("name", [*WRITERS, *REREADERS])
def test_what_reads_one_map_over_all_tokens_says_why_not(name: str) -> None:
    model = explainers.wrap(encoder_decoder(name), tokenizer=tokenizer(), device="cpu")
    for method in REFUSED:
        with pytest.raises(explainers.ExplainerError, match="cannot run here"):
            explainers.explain(model, TEXT, methods=method)
    with pytest.raises(explainers.ExplainerError, match="in maps of three shapes"):
        explainers.explain(model, TEXT, methods="rollout")


@pytest.mark.parametrize("name", [*WRITERS, *REREADERS])
def test_the_token_that_changes_is_the_token_that_is_drawn(name: str) -> None:
    model = explainers.wrap(encoder_decoder(name), tokenizer=tokenizer(), device="cpu")
    words = ("good", "bad") if model.task is None else ("good", "film")
    prepared = [model.tensors(f"a {word} movie, not the end") for word in words]
    seen = []

    def keep(block: Any, args: Any) -> None:
        seen.append(args[0])

    handle = model.entry.register_forward_pre_hook(keep)
    with torch.no_grad():
        for tensors in prepared:
            model.forward(tensors)
    handle.remove()
    changed = (seen[0] != seen[1]).any(-1)[0].nonzero().flatten().tolist()
    (place,) = (prepared[0]["input_ids"] != prepared[1]["input_ids"])[0].nonzero().flatten().tolist()
    assert changed == [place]


@pytest.mark.parametrize("name", REREADERS)
def test_a_batch_has_the_maps_of_its_texts(name: str) -> None:
    model = explainers.wrap(encoder_decoder(name), tokenizer=tokenizer(), device="cpu")
    texts = [TEXT, "a bad film"]
    together = explainers.explain(model, texts, 1, "input_x_gradient")
    for text, result in zip(texts, together, strict=True):
        alone = explainers.explain(model, text, 1, "input_x_gradient")
        scale = float(alone.maps[0].scores.abs().max())
        torch.testing.assert_close(result.maps[0].scores, alone.maps[0].scores, rtol=0, atol=1e-4 * scale)
        assert any("reads the text twice" in note for note in result.notes)


def test_the_module_stays_as_it_was() -> None:
    module = encoder_decoder("BartForConditionalGeneration")
    names = [name for name, _ in module.named_modules()]
    made = two_rows_of(module)
    assert made is not None
    assert [name for name, _ in module.named_modules()] == names
    assert {id(p) for p in made.parameters()} == {id(p) for p in module.parameters()}
    module.train()
    assert not made.inner.training
    assert two_rows_of(encoder_decoder("T5EncoderModel")) is None
