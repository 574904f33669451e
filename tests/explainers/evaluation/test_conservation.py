"""Sums at the blocks against those of twins, whose biases are tensors of their own; and rules that lose nothing on the way."""

from __future__ import annotations

import pytest
import torch

from explainers.autograd.rules import RULES
from explainers.evaluation.conservation import block_sums, sums_at_blocks
from explainers.metrics import METRICS
from explainers.records.session import Session
from tests.explainers.support.pair import CLOSE, TARGET, Pair
from tests.explainers.support.wrapped import inputs, read, wrapped

#: Of the twins, how many biases a block has.
BIASES = {"vit": 6, "bert": 8}


@pytest.mark.parametrize("name", list(BIASES))
@pytest.mark.parametrize("rule", ["gradient", "libra", "conservative", "libra-bias"])
def test_sums_of_tokens_and_of_the_biases_behind_each_block(name: str, rule: str) -> None:
    pair = Pair(name)
    session = Session(pair.model, pair.tensors, TARGET)
    found = sums_at_blocks(session, session.chosen[0], RULES[rule])
    twin = pair.under(rule)
    grads = twin.gradients([bias for bias, _ in twin.biases], TARGET)
    terms = [(bias * grad).detach().flatten(1).sum(1) for (bias, _), grad in zip(twin.biases, grads, strict=True)]
    signals = twin.gradients(twin.inputs, TARGET)
    for block, (x, signal) in enumerate(zip(twin.inputs, signals, strict=True)):
        behind = sum(terms[block * BIASES[name] :], torch.zeros(2)) if RULES[rule].bias else torch.zeros(2)
        sums = torch.stack([twin.logits[:, TARGET], (x * signal).flatten(1).sum(1), behind], 1)
        torch.testing.assert_close(found[:, :, block], sums.detach().double(), **CLOSE)


def test_what_is_conserved() -> None:
    """Libra loses nothing, the ordinary gradient much; deep Taylor hands out 1, of which its LRP baseline makes a thousand."""
    methods = ["input_x_gradient:libra", "fullgrad:libra", "input_x_gradient", "rollout", "transformer_attribution", "lrp"]
    sums = block_sums(wrapped("vit"), inputs("vit", 1), TARGET, methods, 0)
    assert sums.shape == (6, 3, len(wrapped("vit").blocks))
    assert sums[0].equal(sums[1])
    assert sums[3].isnan().all()  # it follows no rule
    missed, explained = METRICS["conservation"](block_sums=sums).T.tolist()
    assert missed[0] == pytest.approx(0, abs=1e-9 * explained[0])
    assert missed[2] > 0.01 * explained[2]
    assert (missed[4], explained[4]) == (pytest.approx(0, abs=1e-6), 1)
    lrp = read(Pair("vit").recording, "lrp", "lrp", TARGET)
    assert float(sums[5, 1, 0]) == pytest.approx(float(lrp[0].sum()), rel=1e-6)
    assert missed[5] > 500


@pytest.mark.parametrize("name", ["tnt", "crossvit", "cait", "hf-swin", "modernbert"])
def test_libra_conserves_where_blocks_hand_on_more_than_a_row_of_tokens(name: str) -> None:
    (sums,) = block_sums(wrapped(name), inputs(name, 1), TARGET, ["input_x_gradient:libra"], 0)
    torch.testing.assert_close(sums[1] + sums[2], sums[0], rtol=1e-8, atol=0)


def test_the_metric_is_a_share_of_what_is_explained() -> None:
    sums = torch.tensor([[[2.0, 2], [1, 2], [0.5, 1]], [[-4, -4], [-4, -2], [0, 0]]])
    parts = METRICS["conservation"](block_sums=sums)
    assert parts.tolist() == [[0.75, 2], [1, 4]]
    combine = METRICS["conservation"].combine
    assert combine is not None
    assert combine(parts.sum(0).numpy()) == pytest.approx(1.75 / 6)
