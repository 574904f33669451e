"""Attention over two rows of tokens, against the published rules written out with torch's own attention maps and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers.errors import ExplainerError
from explainers.methods.registry import METHODS
from explainers.methods.requirements import missing_requirements, reason_against
from explainers.models.structure.two_rows import DECODER_TOKENS
from tests.support.encoder_decoders import REREADERS, WRITERS, encoder_decoder, tokenizer

TEXT = "a good film, not a bad movie"
Maps = list[list[Tensor]]


def own_maps(module: Any, result: Any, tokens: tuple[int, ...], target: int) -> tuple[Maps, Maps, list[int]]:
    """The maps of encoder, decoder and both, (H, queries, keys) each, their gradients, and the places in the decoder that are read."""
    exact = copy.deepcopy(module).double()
    exact.set_attn_implementation("eager")
    ids = result.tensors["input_ids"]
    if DECODER_TOKENS in result.tensors:
        source = int((result.tensors[DECODER_TOKENS] == 0).sum())
        out = exact(input_ids=ids[:, :source], decoder_input_ids=ids[:, source:], output_attentions=True)
        read = [token - 1 - source for token in tokens]
        number = torch.stack([out.logits[0, place, ids[0, token]] for place, token in zip(read, tokens, strict=True)]).sum()
    else:
        out = exact(input_ids=ids, output_attentions=True)
        number, read = out.logits[0, target], [int((ids[0] == 3).nonzero().max())]
    groups = [list(out.encoder_attentions), list(out.decoder_attentions), list(out.cross_attentions)]
    flat = [each for group in groups for each in group]
    gradients = iter(torch.autograd.grad(number, flat))
    return [[a[0].detach() for a in group] for group in groups], [[next(gradients)[0] for _ in group] for group in groups], read


def normalised(relevance: Tensor) -> Tensor:
    """As handle_residual of the published code, row by row; a row of zeros stays."""
    rows = []
    for i, row in enumerate(relevance):
        own = row.clone()
        own[i] -= 1
        own = own / own.sum() if float(own.sum()) else own
        own[i] += 1
        rows.append(own)
    return torch.stack(rows)


def expected_relevance(maps: Maps, gradients: Maps) -> tuple[Tensor, Tensor]:
    """R_tt without the identity and R_ts, as the paper's equations 5 to 10 have them."""
    joined = [
        [(a * g).clamp(min=0).sum(0) / len(a) for a, g in zip(group, signals, strict=True)]
        for group, signals in zip(maps, gradients, strict=True)
    ]
    encoder, own, cross = joined
    source, written = len(encoder[0]), len(own[0])
    r_ss, r_tt = torch.eye(source).double(), torch.eye(written).double()
    r_ts = torch.zeros(written, source).double()
    for a in encoder:
        r_ss += a @ r_ss
    for a, c in zip(own, cross, strict=True):
        r_ts = r_ts + a @ r_ts
        r_tt = r_tt + a @ r_tt
        r_ts = r_ts + normalised(r_tt).T @ (c @ normalised(r_ss))
    return r_tt - torch.eye(written).double(), r_ts


def in_one_row(of_written: Tensor, across: Tensor, read: list[int], is_twice: bool) -> Tensor:
    """The mean of the rows of what is read; of a text that is read twice, the sum at each token."""
    source, written = across[read].mean(0), of_written[read].mean(0)
    return source + written.roll(-1) if is_twice else torch.cat([source, written])


@pytest.mark.parametrize("name", [*WRITERS, *REREADERS])
def test_relevance_follows_the_published_rules(name: str) -> None:
    module = encoder_decoder(name)
    model = explainers.wrap(module, tokenizer=tokenizer(), device="cpu")
    places = [None] if model.task is None else [None, "words"]
    for at in places:
        result = explainers.explain(model, TEXT, methods=["generic_attention", "raw_attention"], at=at)
        if result.place is None:
            tokens: tuple[int, ...] = ()
        elif at is None:
            tokens = tuple(range(result.place.tokens[0], result.place.tokens[1] + 1))
        else:
            label = result.target.label
            place = next(each for each in result.places if each.at == f"word:{label}")
            tokens = tuple(range(place.tokens[0], place.tokens[1] + 1))
        maps, gradients, read = own_maps(module, result, tokens, int(result.targets[0].index or 0))
        twice = DECODER_TOKENS not in result.tensors
        expected = in_one_row(*expected_relevance(maps, gradients), read, twice)
        found = result["generic_attention"].scores.double()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
        raw = in_one_row(maps[1][-1].mean(0), maps[2][-1].mean(0), read, twice)
        torch.testing.assert_close(result["raw_attention"].scores.double(), raw, rtol=0, atol=1e-5)


def test_a_table_of_cross_attention() -> None:
    module = encoder_decoder("MarianMTModel")
    model = explainers.wrap(module, tokenizer=tokenizer(), device="cpu")
    table = explainers.answer_table(model, TEXT, "raw_attention")
    result = explainers.explain(model, TEXT, methods="random")
    first, last = result.place.tokens
    maps, _, read = own_maps(module, result, tuple(range(first, last + 1)), 0)
    words = [place for place in result.places if place.at.startswith("word:")]
    for row, place in enumerate(words):
        places = [read[token - first] for token in range(place.tokens[0], place.tokens[1] + 1)]
        expected = maps[2][-1].mean(0)[places].mean(0)[1:9]
        torch.testing.assert_close(table.scores[row, :8].double(), expected, rtol=0, atol=1e-5)


def test_options_of_one_row_are_refused() -> None:
    model = explainers.wrap(encoder_decoder("T5ForSequenceClassification"), tokenizer=tokenizer(), device="cpu")
    for spec in ("generic_attention?start_layer=1", "generic_attention?integrated=5", "raw_attention?row=mean"):
        with pytest.raises(ExplainerError, match="leave it out for an encoder-decoder"):
            explainers.explain(model, TEXT, methods=spec)
    lacks = missing_requirements(model)
    run = {name for name, method in METHODS.items() if method.needs & {"attention"} and reason_against(method, lacks) is None}
    assert run == {"generic_attention", "raw_attention"}
