"""Inputs with some parts replaced, against inputs that are made by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.models.removal.atoms import atom_removal
from explainers.models.removal.fillings import BLUR_SHARE, Filling, FillingRequest, InputFillings, input_fillings, word_fillings
from explainers.models.removal.words import word_removal
from tests.explainers.support.explained import image_model, picture, text_model
from tests.support.molecule_models import LABELS, NITROBENZENE, tiny_model, tiny_module

DRAWS = (5, 6)


def of_picture() -> tuple[dict[str, Tensor], InputFillings, tuple[int, int]]:
    model = image_model()
    prepared = model.prepare(picture())
    grid = model.layout_of(prepared.tensors).grid
    assert grid is not None
    return prepared.tensors, input_fillings(model, prepared.tensors, prepared.inputs[0], grid), grid


def named(inputs: InputFillings, name: str) -> Filling:
    return next(filling for filling in inputs.fillings if filling.name == name)


def two_sets(tokens: int) -> Tensor:
    """The first two tokens, and every other one."""
    replaced = torch.zeros(2, tokens, dtype=torch.bool)
    replaced[0, :2] = True
    replaced[1, ::2] = True
    return replaced


def pasted(pixels: Tensor, replaced: Tensor, grid: tuple[int, int], fillers: list[Any]) -> Tensor:
    """The pixels of each row with the patches that are replaced taken from its filler (C, height, width), patch by patch."""
    rows, columns = grid
    height, width = pixels.shape[-2] // rows, pixels.shape[-1] // columns
    made = pixels.repeat(len(replaced), 1, 1, 1)
    for k, row in enumerate(replaced):
        for patch in torch.nonzero(row).flatten().tolist():
            y, x = patch // columns * height, patch % columns * width
            made[k, :, y : y + height, x : x + width] = torch.as_tensor(fillers[k])[:, y : y + height, x : x + width]
    return made


def black_pixels(shape: tuple[int, int]) -> Tensor:
    from PIL import Image

    return image_model().prepare(Image.new("RGB", shape[::-1])).tensors["pixel_values"][0]


def test_a_picture_has_five_fillings_and_what_is_not_replaced_stays() -> None:
    tensors, inputs, grid = of_picture()
    assert [filling.name for filling in inputs.fillings] == ["mean colour", "black", "blur", "noise", "other patches"]
    assert [filling.is_drawn for filling in inputs.fillings] == [False, False, False, True, True]
    pixels, model = tensors["pixel_values"], image_model()
    replaced = two_sets(inputs.tokens)
    height, width = pixels.shape[-2:]
    spread = BLUR_SHARE * min(height, width)
    blurred = np.stack(
        [gaussian_filter(channel, spread, mode="nearest", radius=max(1, round(2 * spread))) for channel in pixels[0].numpy()]
    )
    noise = []
    for draw in DRAWS:
        drawn = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(draw))[0].numpy()
        values = pixels[0].numpy()
        noise.append(values.mean((1, 2), keepdims=True) + values.std((1, 2), ddof=1, keepdims=True) * drawn)
    others = []
    rows, columns = grid
    side = (height // rows, width // columns)
    for draw in DRAWS:
        chosen = torch.randint(rows * columns, (rows * columns,), generator=torch.Generator().manual_seed(draw)).tolist()
        other = torch.empty_like(pixels[0])
        for patch, donor in enumerate(chosen):
            (y, x), (v, u) = ((i // columns * side[0], i % columns * side[1]) for i in (patch, donor))
            other[:, y : y + side[0], x : x + side[1]] = pixels[0][:, v : v + side[0], u : u + side[1]]
        others.append(other)
    fillers: dict[str, list[Any]] = {
        "mean colour": [torch.zeros_like(pixels[0])] * 2,
        "black": [black_pixels((height, width))] * 2,
        "blur": [blurred] * 2,
        "noise": noise,
        "other patches": others,
    }
    for name, filler in fillers.items():
        with torch.no_grad():
            expected = model.forward({"pixel_values": pasted(pixels, replaced, grid, filler)})
        torch.testing.assert_close(named(inputs, name).logits(replaced, DRAWS), expected, atol=1e-5, rtol=1e-5)


def test_the_number_of_a_draw_decides_its_random_numbers() -> None:
    _, inputs, _ = of_picture()
    replaced = two_sets(inputs.tokens)[1:].repeat(3, 1)
    first, again, other = named(inputs, "noise").logits(replaced, [7, 7, 8])
    torch.testing.assert_close(first, again)
    assert not torch.allclose(first, other)


def test_words_are_left_out_masked_or_become_other_words() -> None:
    model = text_model()
    prepared = model.prepare("not a good movie .")
    shown: Any = prepared.inputs[0]
    inputs = input_fillings(model, prepared.tensors, shown, None)
    assert [filling.name for filling in inputs.fillings] == ["nothing", "mask", "unknown", "other words", "any words"]
    content = ~torch.tensor([token.special for token in shown.tokens])
    replaced = two_sets(inputs.tokens)
    ways: dict[str, Any] = {"nothing": "removed", "mask": "masked", "unknown": "unknown"}
    for name, how in ways.items():
        expected = word_removal(model, prepared.tensors, content, how).logits(~replaced)
        torch.testing.assert_close(named(inputs, name).logits(replaced, DRAWS), expected, atol=1e-5, rtol=1e-5)
    ids = prepared.tensors["input_ids"]
    places = torch.nonzero(content).flatten().tolist()
    filled = ids.repeat(2, 1)
    for k, draw in enumerate(DRAWS):
        chosen = torch.randint(len(places), (len(places),), generator=torch.Generator().manual_seed(draw)).tolist()
        for i, place in enumerate(places):
            if replaced[k, i]:
                filled[k, place] = ids[0, places[chosen[i]]]
    mask = {name: tensor.repeat(2, 1) for name, tensor in prepared.tensors.items()}
    with torch.no_grad():
        expected = model.forward({**mask, "input_ids": filled})
    torch.testing.assert_close(named(inputs, "other words").logits(replaced, DRAWS), expected, atol=1e-5, rtol=1e-5)


def test_words_of_the_vocabulary_are_never_special_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    model = text_model()
    prepared = model.prepare("not a good movie .")
    shown: Any = prepared.inputs[0]
    content = ~torch.tensor([token.special for token in shown.tokens])
    seen: list[Tensor] = []

    def answer(model: Any, tensors: dict[str, Tensor], hooks: Any = ()) -> Tensor:
        seen.append(tensors["input_ids"])
        return torch.zeros(len(tensors["input_ids"]), 3)

    monkeypatch.setattr("explainers.models.removal.fillings.answer", answer)
    inputs = word_fillings(model, prepared.tensors, content)
    everything = torch.ones(200, inputs.tokens, dtype=torch.bool)
    named(inputs, "any words").logits(everything, range(200))
    drawn = torch.cat(seen)[:, content]
    special = {model.details[name] for name in ("mask_token_id", "padding_token_id", "unknown_token_id")}
    special |= set(prepared.tensors["input_ids"][0, ~content].tolist())
    table: Any = model.module
    rows = table.get_input_embeddings().weight.shape[0]
    assert set(drawn.unique().tolist()) == set(range(rows)) - special  # 1,000 draws and more of a small vocabulary miss none


def test_atoms_are_left_out_or_become_others() -> None:
    model = tiny_model()
    prepared = model.prepare(NITROBENZENE)
    shown: Any = prepared.inputs[0]
    inputs = input_fillings(model, prepared.tensors, shown, None)
    assert [filling.name for filling in inputs.fillings] == ["nothing", "zeros", "mean atom", "other atoms", "noise"]
    content = ~torch.tensor([token.special for token in shown.tokens])
    replaced = two_sets(inputs.tokens)
    ways: dict[str, Any] = {"nothing": "removed", "zeros": "zeroed"}
    for name, how in ways.items():
        expected = atom_removal(model, prepared.tensors, content, how).logits(~replaced)
        torch.testing.assert_close(named(inputs, name).logits(replaced, DRAWS), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["mean atom", "other atoms", "noise"])
def test_embedded_atoms_are_replaced_as_by_hand(name: str) -> None:
    model = explainers.wrap(tiny_module(), kind="molecule", labels=LABELS)
    prepared = model.prepare(NITROBENZENE)
    shown: Any = prepared.inputs[0]
    inputs = input_fillings(model, prepared.tensors, shown, None)
    places = [i for i, token in enumerate(shown.tokens) if not token.special]
    replaced = two_sets(inputs.tokens)
    kind = model.block_kind
    for k, draw in enumerate(DRAWS):
        generator = torch.Generator().manual_seed(draw)

        def change(module: Any, args: Any, kwargs: Any, k: int = k, generator: torch.Generator = generator) -> Any:
            tokens = kind.input_tokens(args, kwargs)
            atoms, filled = tokens[0, places].numpy(), tokens.clone()
            if name == "other atoms":
                filler = atoms[torch.randint(len(places), (len(places),), generator=generator).numpy()]
            else:
                filler = np.tile(atoms.mean(0), (len(places), 1))
            if name == "noise":
                filler = filler + atoms.std(0) * torch.randn(atoms.shape, generator=generator).numpy()
            for i, place in enumerate(places):
                if replaced[k, i]:
                    filled[0, place] = torch.from_numpy(filler[i])
            return kind.with_input_tokens(args, kwargs, filled)

        handle = model.entry.register_forward_pre_hook(change, with_kwargs=True)
        with torch.no_grad():
            expected = model.forward(prepared.tensors)[0]
        handle.remove()
        torch.testing.assert_close(named(inputs, name).logits(replaced, DRAWS)[k], expected, atol=1e-5, rtol=1e-5)


def test_a_clip_and_a_picture_without_a_grid_have_no_fillings() -> None:
    tensors, _, grid = of_picture()
    shown: Any = image_model().prepare(picture()).inputs[0]
    with pytest.raises(ExplainerError, match="on a grid of patches"):
        input_fillings(image_model(), tensors, shown, None)
    with pytest.raises(ExplainerError, match="not in a clip"):
        input_fillings(image_model(), {"pixel_values": tensors["pixel_values"][:, None]}, shown, grid)


@pytest.mark.parametrize("made", ["picture", "text", "molecule"])
def test_several_fillings_asked_together_answer_as_each_alone(made: str) -> None:
    if made == "picture":
        inputs = of_picture()[1]
    else:
        model, sent = (text_model(), "not a good movie .") if made == "text" else (tiny_model(), NITROBENZENE)
        prepared: Any = model.prepare(sent)
        inputs = input_fillings(model, prepared.tensors, prepared.inputs[0], None)
    replaced = two_sets(inputs.tokens)
    requests = [FillingRequest(i, replaced[: 1 + i % 2], DRAWS[: 1 + i % 2]) for i in range(len(inputs.fillings))]
    passes: list[int] = []
    together = inputs.logits(requests, passes.append)
    for request, found in zip(requests, together, strict=True):
        alone = inputs.fillings[request.filling].logits(request.replaced, request.draws)
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-5)
    assert sum(passes) == sum(len(request.draws) for request in requests)
    if made == "picture":
        assert len(passes) == 1  # all fill one pass
        few = dataclasses.replace(inputs, rows=3)
        passes.clear()
        torch.testing.assert_close(torch.cat(few.logits(requests, passes.append)), torch.cat(together), atol=1e-5, rtol=1e-5)
        assert passes == [3, 3, 1]
