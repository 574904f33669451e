"""Parts replaced by their mean output: the loss by hand, idle parts, and parts that only seem idle."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.analysis.depth.asker import Asker, loss_of, own_answers, prepare_batches
from explainers.analysis.depth.block_calls import Part, find_parts
from explainers.analysis.depth.estimate import Estimate
from explainers.analysis.depth.findings import PartLosses, measure_parts
from explainers.analysis.depth.replacement import MeanOutputs
from tests.explainers.analysis.depth.conftest import TEXTS, MakeVit
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece


def asked_of(model: explainers.Model, items: list[Any]) -> tuple[Asker, list[torch.Tensor], MeanOutputs]:
    asked = Asker(prepare_batches(model, items, None, lambda: None))
    first = asked.batches[0]
    means = MeanOutputs(asked, find_parts(model, {name: tensor[:1] for name, tensor in first.tensors.items()}))
    logits = means.collect()
    for batch, of_batch in zip(asked.batches, logits, strict=True):
        object.__setattr__(batch, "right", own_answers(of_batch, model.output))
    return asked, logits, means


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("vit", "am am"),
        ("deit-distilled", "am am"),
        ("hf-beit", "am am"),
        ("siglip", "am am"),
        ("swin", "am am"),
        ("hf-swin", "am am"),
        ("bert", "am am"),
        ("albert", "am am"),
        ("gpt2", "am am"),
        ("mixer", "mm mm"),
        ("resnet", "o o"),
    ],
)
def test_the_parts_of_every_architecture_are_found(name: str, kinds: str) -> None:
    model = wrapped(name, torch.float32)
    parts = find_parts(model, inputs(name, 1, torch.float32))
    found = [[part.kind[0] for part in parts if part.block == block] for block in range(len(model.blocks))]
    assert " ".join("".join(of_block) for of_block in found) == kinds


def test_several_streams_are_refused() -> None:
    with pytest.raises(explainers.ExplainerError, match="cannot be found"):
        find_parts(wrapped("crossvit", torch.float32), inputs("crossvit", 1, torch.float32))


def test_the_loss_without_an_mlp_by_hand(vit: explainers.Model, pictures: list[Image.Image]) -> None:
    asked, logits, means = asked_of(vit, pictures)
    module: Any = vit.module
    pixels = torch.cat([batch.tensors["pixel_values"] for batch in asked.batches])
    with torch.no_grad():
        block = module.blocks[0]
        tokens = module.norm_pre(module._pos_embed(module.patch_embed(pixels)))
        tokens = tokens + block.attn(block.norm1(tokens))
        changed = tokens + block.mlp(block.norm2(tokens)).mean(0)
        for later in module.blocks[1:]:
            changed = later(changed)
        probabilities = module.forward_head(module.norm(changed)).softmax(1)
        top = module(pixels).argmax(1)
    part = next(part for part in means.parts if part.name == "block 1 MLP")
    wanted = -probabilities.gather(1, top[:, None])[:, 0].log()
    assert means.losses([part]) == pytest.approx(wanted.numpy(), rel=1e-4)
    assert asked.losses_of(logits) == pytest.approx(-torch.cat(logits).softmax(1).amax(1).log().numpy(), rel=1e-4)


def test_the_mean_over_texts_is_by_kind_of_token() -> None:
    """By hand: the class token, the separator and the words each get a mean of their own over texts of several lengths."""
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["for", "against", "unsure"])
    asked, _, means = asked_of(model, TEXTS)
    module: Any = model.module
    dense = module.bert.encoder.layer[1].output.dense
    seen: list[torch.Tensor] = []
    handle = dense.register_forward_hook(lambda child, args, output: seen.append(output))
    with torch.no_grad():
        for batch in asked.batches:
            module(**batch.tensors)
        handle.remove()
        rows = [row for output in seen for row in output]
        first, last = (torch.stack([row[place] for row in rows]).mean(0) for place in (0, -1))
        words = torch.cat([row[1:-1] for row in rows]).mean(0)

        def replace(child: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
            return torch.stack([first, *[words] * (output.shape[1] - 2), last]).expand_as(output)

        handle = dense.register_forward_hook(replace)
        wanted = [loss_of(module(**b.tensors).logits.double(), b.right, model.output) for b in asked.batches if b.right is not None]
        handle.remove()
    part = next(part for part in means.parts if part.name == "block 2 MLP")
    assert len({tuple(batch.tensors["input_ids"].shape) for batch in asked.batches}) > 2
    assert means.losses([part]) == pytest.approx(torch.cat(wanted).numpy(), rel=1e-4)


def test_labels_that_are_each_yes_or_no() -> None:
    logits = torch.tensor([[2.0, -1.0], [-3.0, -2.0]])
    assert own_answers(logits, "sigmoid").tolist() == [1, -2]
    wanted = [-math.log(1 / (1 + math.exp(-2)))] * 2  # p of yes at 2, and of no at -2
    assert loss_of(logits, torch.tensor([1, -2]), "sigmoid").tolist() == pytest.approx(wanted)


def test_parts_multiplied_by_zero_are_idle_and_others_are_not(make_vit: MakeVit, pictures: list[Image.Image]) -> None:
    module: Any = make_vit()
    for layer in (module.blocks[1].mlp.fc2, module.blocks[2].attn.proj):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    found = explainers.depth(explainers.wrap(module, name="vit"), pictures)
    verdicts = {part.name: part.verdict for part in found.parts.parts}
    assert {name for name, verdict in verdicts.items() if verdict == "idle"} == {"block 2 MLP", "block 3 attention"}
    assert "2 of 6 parts are idle: the MLP of block 2, the attention of block 3." in found.parts.says


class _MadeUp:
    """Losses of 40 inputs as a function of which parts are gone."""

    def __init__(self, rise: Any) -> None:
        self.rise, self.asked = rise, list[frozenset[Part]]()
        self.noise = np.random.default_rng(0).normal(0, 1, 40)

    def losses(self, parts: Collection[Part]) -> np.ndarray[Any, np.dtype[np.float64]]:
        self.asked.append(frozenset(parts))
        gone = Counter(part.name.removeprefix("block ") for part in parts)
        return 1 + 0.1 * self.noise + self.rise(gone) * (1 + 0.2 * self.noise)


def verdicts_of(rise: Any) -> tuple[dict[str, str], str]:
    parts = [Part(block, kind, number, 1) for block in range(4) for number, kind in enumerate(("attention", "mlp"))]  # type: ignore[arg-type]
    made_up: Any = _MadeUp(rise)
    losses = PartLosses(made_up, made_up.losses(()))
    finding = measure_parts(losses, parts, 40)
    return {part.name.removeprefix("block "): part.verdict for part in finding.parts}, finding.says


def test_parts_that_stand_in_for_each_other_are_not_called_idle() -> None:
    """As in a large model: no part alone changes anything, several together do."""
    verdicts, says = verdicts_of(lambda gone: max(0, len(gone) - 1) * 0.5)
    assert set(verdicts.values()) == {"undecided"}
    assert says.startswith("No single part decides")
    assert "idle: the" not in says
    assert "are too few to tell" in says
    assert "these may matter" in says


def test_a_part_that_a_neighbour_stands_in_for_is_not_called_idle() -> None:
    verdicts, _ = verdicts_of(lambda gone: len(gone) - (gone["3 attention"] and not gone["2 attention"]))
    assert verdicts["3 attention"] == "undecided"
    verdicts, _ = verdicts_of(lambda gone: len(gone) - gone["3 attention"])
    assert verdicts["3 attention"] == "idle"


def test_no_part_is_idle_where_all_together_change_nothing() -> None:
    verdicts, says = verdicts_of(lambda gone: 0)
    assert set(verdicts.values()) == {"undecided"}
    assert says.startswith("The answers hardly depend on the blocks")


def test_a_part_that_is_better_gone() -> None:
    verdicts, _ = verdicts_of(lambda gone: len(gone) - 2 * gone["1 MLP"])
    assert verdicts["1 MLP"] == "better_without"


def test_intervals() -> None:
    found = Estimate.of([1.0, 2.0, 3.0, float("nan")])
    assert (found.value, found.count) == (2.0, 3)
    assert found.high - found.value == pytest.approx(4.302653 / 3**0.5, rel=1e-5)  # Student's t of two degrees of freedom
    assert np.isnan(Estimate.of([1.0]).low)
    share = Estimate.of_share(10, 10)
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.low == pytest.approx(0.7225, abs=1e-4)  # Wilson (1927)
