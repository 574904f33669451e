"""CaiT, XCiT and VOLO: the classification token joins after the blocks, and its row is read in class attention.

The twin has no matrices of S + 1 tokens: it follows the classification token's row back, block by block, over attention maps that torch
alone differentiates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import networkx
import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.methods.class_attention import NOTE
from explainers.methods.requirements import variants
from explainers.models.model import Model
from explainers.records.trace import Trace
from tests.explainers.support.class_attention import TARGET, close, explained, plain_maps
from tests.explainers.support.wrapped import all_signals, inputs, trace_of, wrapped
from tests.families import FAMILIES

LAST = ("raw_attention", "gradcam_attention", "transformer_attribution_last_block", "partial_lrp")
ALL = ("attention_flow", "rollout", "generic_attention", "transformer_attribution", "transformer_attribution_without_gradient")
CLOSE = {"rtol": 1e-6, "atol": 1e-9}


def followed_back(squares: list[Tensor], rows: list[Tensor], stays: Callable[[Tensor], Tensor]) -> Tensor:
    """(B, S): the classification token's row, block by block from the last. ``stays`` of a sum of what a token keeps and what it takes."""
    itself, patches = torch.ones(len(rows[0]), 1, dtype=rows[0].dtype), torch.zeros_like(rows[0][:, 1:])
    for row in reversed(rows):
        patches = patches + stays(itself * row[:, 1:])
        itself = stays(itself + itself * row[:, :1])
    for square in reversed(squares):
        patches = stays(patches + (patches[:, None] @ square)[:, 0])
    return patches


def flows(squares: list[Tensor], rows: list[Tensor]) -> Tensor:
    """(B, S): maximum flow from the classification token to each patch; through class attention it passes the token alone."""
    found = []
    for sample in range(len(rows[0])):
        graph = networkx.DiGraph()
        depth, patches = len(squares) + len(rows), rows[0].shape[1] - 1
        for level, square in enumerate(squares):
            for i, j in itertools.product(range(patches), repeat=2):
                graph.add_edge((level + 1, i), (level, j), capacity=round(1e6 * float(square[sample, i, j] + (i == j)) / 2))
        for level, row in enumerate(rows, len(squares)):
            graph.add_edge((level + 1, "class"), (level, "class"), capacity=round(1e6 * float(row[sample, 0] + 1) / 2))
            for j in range(patches):
                graph.add_edge((level + 1, "class"), (level, j), capacity=round(1e6 * float(row[sample, 1 + j]) / 2))
                graph.add_edge((level + 1, j), (level, j), capacity=1_000_000)
        for level in range(len(squares)):
            graph.add_edge((level + 1, "class"), (level, "class"), capacity=1_000_000)
        ends = ["class", *range(patches)]
        found.append([networkx.maximum_flow_value(graph, (depth, "class"), (0, end)) for end in ends])
    total = torch.tensor(found, dtype=torch.float64)
    return (total / total.sum(1, keepdim=True))[:, 1:]


def halved(total: Tensor) -> Tensor:
    return total / 2


def whole(total: Tensor) -> Tensor:
    return total


@pytest.mark.parametrize("name", ["cait", "xcit", "volo"])
def test_the_class_row_is_that_of_class_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tensors = explainers.wrap(FAMILIES[name].build().double()), inputs(name)
    products = [] if name == "xcit" else ["rollout", "generic_attention", "attention_flow"]
    found = explainers.explain(model, tensors, target=TARGET, methods=["raw_attention", "gradcam_attention", *products])
    squares, rows = plain_maps(model, tensors, monkeypatch)
    assert len(rows) == 2
    assert len(squares) == len(model.blocks)  # of XCiT over channels, as many as there are tokens
    last, grad = rows[-1].detach()[:, :, 0], rows[-1].grad[:, :, 0]
    weighed = (grad[..., 1:].mean(-1, keepdim=True) * last[..., 1:]).mean(1).clamp(min=0)
    want = {"raw_attention": last[..., 1:].mean(1), "gradcam_attention": weighed}
    if products:
        means = [[a.detach().mean(1) for a in squares], [a.detach()[:, :, 0].mean(1) for a in rows]]
        want["rollout"] = followed_back(*means, halved)
        want["attention_flow"] = flows(*means)
        positive = [[(a * a.grad).detach().clamp(min=0).mean(1) for a in maps] for maps in (squares, rows)]
        want["generic_attention"] = followed_back(positive[0], [r[:, 0] for r in positive[1]], whole)
    for i, explanation in enumerate(found):
        for spec, scores in want.items():
            torch.testing.assert_close(explanation[spec].scores.double(), scores[i].double(), rtol=1e-5, atol=1e-8)
            assert NOTE in explanation[spec].notes


@pytest.mark.parametrize("name", ["cait", "volo"])
def test_relevance_is_read_in_class_attention(name: str) -> None:
    """The relevance is the recording's, whose rules have twins of their own; the methods of it are written out here."""
    model, tensors = wrapped(name), inputs(name)
    found = {spec: explained(model, tensors, spec) for spec in ("transformer_attribution", "partial_lrp", ALL[-1], LAST[2])}
    trace, plain = traces(model, tensors)
    rows = [r[:, :, 0] for r in trace.signals.class_attentions]
    squares = [r for r in trace.signals.attentions if r is not None]
    gradients = plain.signals
    m_rows = [(g[:, :, 0] * r).clamp(min=0).mean(1) for g, r in zip(gradients.class_attentions, rows, strict=True)]
    m_squares = [(g * r).clamp(min=0).mean(1) for g, r in zip(gradients.attentions, squares, strict=True)]
    close(found["transformer_attribution"], followed_back(m_squares, m_rows, whole))
    close(found["transformer_attribution_last_block"], m_rows[-1][:, 1:])
    values = [a.detach() for a in trace.recording.attentions], [a.detach()[:, :, 0] for a in trace.recording.class_attentions]
    without = [[(a * r).clamp(min=0).mean(1) for a, r in zip(v, s, strict=True)] for v, s in zip(values, (squares, rows), strict=True)]
    close(found["transformer_attribution_without_gradient"], followed_back(*without, whole))
    lrp = trace_of(trace.recording, "lrp", TARGET).signals.class_attentions[-1][:, :, 0]
    close(found["partial_lrp"], lrp.clamp(min=0).mean(1)[:, 1:])


def traces(model: Model, tensors: dict[str, Tensor]) -> tuple[Trace, Trace]:
    """One recording under deep Taylor and under the ordinary gradient."""
    recording = Recording(model, tensors)
    return trace_of(recording, "deep_taylor", TARGET), trace_of(recording, "gradient", TARGET)


def test_only_models_with_class_attention_have_its_signals() -> None:
    trace, _ = traces(wrapped("cait"), inputs("cait"))
    assert [tuple(r.shape[1:]) for r in trace.signals.class_attentions] == [(2, 1, 13), (2, 1, 13)]
    assert all(bool(signal.isfinite().all()) for signal in all_signals(trace.signals))
    vit, _ = traces(wrapped("vit"), inputs("vit"))
    assert vit.signals.class_attentions == ()


@pytest.mark.parametrize(("name", "able"), [("cait", (*ALL, *LAST)), ("volo", (*ALL, *LAST)), ("xcit", LAST), ("siglip", ())])
def test_what_reads_the_class_row_runs_and_the_rest_says_why_not(name: str, able: tuple[str, ...]) -> None:
    model = explainers.wrap(FAMILIES[name].build())
    reasons = {v.spec: v.reason for v in variants(model)}
    for spec in (*ALL, *LAST):
        assert (reasons[spec] is None) == (spec in able), spec
    for spec in ("token_tm", "globenc", "transformer_attribution_second_block")[0 if name == "siglip" else 2 :]:
        assert reasons[spec], spec
        with pytest.raises(ExplainerError, match=f"{spec} cannot run here"):
            explainers.explain(model, inputs(name, dtype=torch.float32), target=TARGET, methods=[spec])
