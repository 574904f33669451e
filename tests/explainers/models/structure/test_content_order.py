"""A forward that orders its tokens by what an input shows is tried on each input: no map is drawn at other places than it is of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError, Model, Preprocessing
from explainers.models.removal.patches import patch_removal
from tests.support.vocabularies import wordpiece

WIDTH, PATCH, ROWS, COLUMNS = 16, 4, 3, 4
SIZE = (PATCH * ROWS, PATCH * COLUMNS)


def darker_left(pixels: Tensor) -> Tensor:
    """Whether the left half of each picture is far darker than the right: of no picture of noise alone."""
    half = pixels.shape[-1] // 2
    return pixels[..., :half].mean((1, 2, 3)) - pixels[..., half:].mean((1, 2, 3)) < -0.5


def each(choice: Tensor) -> Tensor:
    return choice[:, None, None, None]


def by_where(pixels: Tensor) -> Tensor:
    return torch.where(each(darker_left(pixels)), pixels.flip(3), pixels)


def by_condition(pixels: Tensor) -> Tensor:
    return torch.stack([picture.flip(2) if darker_left(picture[None])[0] else picture for picture in pixels])


def by_list(pixels: Tensor) -> Tensor:
    return torch.stack([picture.flip(2) if dark else picture for picture, dark in zip(pixels, darker_left(pixels).tolist(), strict=True)])


def by_product(pixels: Tensor) -> Tensor:
    chosen = each(darker_left(pixels).to(pixels))
    return chosen * pixels.flip(3) + (1 - chosen) * pixels


def by_soft_gate(pixels: Tensor) -> Tensor:
    half = pixels.shape[-1] // 2
    gate = each((200 * (pixels[..., half:].mean((1, 2, 3)) - pixels[..., :half].mean((1, 2, 3)) - 0.5)).sigmoid())
    return gate * pixels.flip(3) + (1 - gate) * pixels


def by_index(pixels: Tensor) -> Tensor:
    width = pixels.shape[-1]
    turned = torch.where(darker_left(pixels)[:, None], torch.arange(width - 1, -1, -1), torch.arange(width))
    return pixels.gather(3, turned[:, None, None].expand_as(pixels))


def by_grid(pixels: Tensor) -> Tensor:
    """Mirrors by a transformation of its own making, as spatial transformers do."""
    side = 1 - 2 * darker_left(pixels).to(pixels)
    zero, one = torch.zeros_like(side), torch.ones_like(side)
    theta = torch.stack([torch.stack([side, zero, zero], -1), torch.stack([zero, one, zero], -1)], 1)
    return F.grid_sample(pixels, F.affine_grid(theta, list(pixels.shape), align_corners=False), align_corners=False)


PICTURES = [by_where, by_condition, by_list, by_product, by_soft_gate, by_index, by_grid]


class Patches(nn.Module):
    """A classifier of pictures that sees what ``turn`` makes of them."""

    def __init__(self, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.turn, self.patches = turn, nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.randn(1, ROWS * COLUMNS, WIDTH))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, dropout=0.0, norm_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patches(self.turn(pixels)).flatten(2).mT + self.places
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x.mean(1))
        return logits


def picture(left: int, right: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 100, (*SIZE, 3))
    pixels[:, : SIZE[1] // 2] += left
    pixels[:, SIZE[1] // 2 :] += right
    return Image.fromarray(pixels.astype("uint8"))


def opened(turn: Callable[[Tensor], Tensor]) -> Model:
    recipe = Preprocessing(resize=SIZE, fit="squash", mean=(0.5,) * 3, std=(0.25,) * 3)
    return explainers.open(Patches(turn).eval(), kind=["picture"], preprocess=recipe, labels=["a", "b", "c"], check="none")


@pytest.mark.parametrize("turn", PICTURES, ids=lambda turn: turn.__name__)
def test_a_picture_that_a_forward_mirrors_by_what_it_shows_is_refused(turn: Callable[[Tensor], Tensor]) -> None:
    model, mirrored, plain = opened(turn), picture(0, 150), picture(150, 0)
    for spec in ("saliency", "rollout"):
        with pytest.raises(ExplainerError, match=rf"^{spec} cannot run here\. For this picture .* drawn at wrong places"):
            explainers.explain(model, mirrored, "b", spec)
    with pytest.raises(ExplainerError, match="For picture 2 of 2 "):
        explainers.explain(model, [plain, mirrored], "b", "saliency")
    explainers.explain(model, plain, "b", "saliency")


def test_maps_of_a_mirrored_picture_are_still_drawn_where_they_go_back_to_its_pixels() -> None:
    """The gradient at the pixels is that of torch, summed over each patch where it lies in the picture."""
    model, mirrored = opened(by_where), picture(0, 150)
    scores = explainers.explain(model, mirrored, "b", "saliency?at=pixels").maps[0].scores
    pixels = next(iter(model.tensors(mirrored).values())).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.module(pixels)[0, 1], pixels)
    squares = gradient[0].abs().unflatten(2, (COLUMNS, PATCH)).unflatten(1, (ROWS, PATCH)).sum((0, 2, 4))
    torch.testing.assert_close(scores.view(ROWS, COLUMNS), squares, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(squares, squares.flip(1), rtol=0.1)


def test_default_methods_of_a_mirrored_picture_are_those_that_run_and_say_why() -> None:
    explanation = explainers.explain(opened(by_where), picture(0, 150), "b")
    assert any("drawn at wrong places" in note for note in explanation.notes)


def reversed_text(ids: Tensor) -> Tensor:
    return torch.where(ids[:, 1:2] > ids[:, 2:3], torch.cat([ids[:, :1], ids[:, 1:-1].flip(1), ids[:, -1:]], 1), ids)


def reversed_text_by_condition(ids: Tensor) -> Tensor:
    return torch.stack([torch.cat([text[:1], text[1:-1].flip(0), text[-1:]]) if text[1] > text[2] else text for text in ids])


def sorted_text(ids: Tensor) -> Tensor:
    return torch.where(ids[:, 1:2] > ids[:, 2:3], torch.cat([ids[:, :1], ids[:, 1:-1].sort(1).values, ids[:, -1:]], 1), ids)


class Words(nn.Module):
    """A classifier of texts whose blocks take what ``before`` makes of the embedded words."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(60, WIDTH), nn.Embedding(40, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, dropout=0.0, norm_first=True) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, 3)

    def embed(self, ids: Tensor) -> Tensor:
        embedded: Tensor = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return embedded

    def before(self, x: Tensor) -> Tensor:
        return x

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.before(self.embed(input_ids))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, 0])
        return logits


class Turned(Words):
    """Reads texts as ``turn`` orders them."""

    def __init__(self, turn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.turn = turn

    def embed(self, ids: Tensor) -> Tensor:
        return super().embed(self.turn(ids))


class Mixed(Turned):
    """Neighbouring words come together a little before the blocks."""

    def before(self, x: Tensor) -> Tensor:
        return x + 0.3 * x.roll(1, 1)


def texts() -> tuple[str, str]:
    """Two texts of the same words: one whose first word has the larger number, and one whose first word has the smaller."""
    first, second, *rest = sorted({"good", "film", "not", "bad", "is"}, key=lambda word: -wordpiece().convert_tokens_to_ids(word))
    return " ".join([first, second, *rest]), " ".join([second, first, *rest])


@pytest.mark.parametrize("kind", [Turned, Mixed])
@pytest.mark.parametrize("turn", [reversed_text, reversed_text_by_condition, sorted_text], ids=lambda turn: turn.__name__)
def test_a_text_that_a_forward_turns_round_by_its_words_is_refused(kind: type[Turned], turn: Callable[[Tensor], Tensor]) -> None:
    model = explainers.open(kind(turn).eval(), kind=["text"], tokenizer=wordpiece(), labels=["a", "b", "c"], check="none")
    turned, plain = texts()
    with pytest.raises(ExplainerError, match=r"^saliency cannot run here\. For this text .* drawn at wrong places"):
        explainers.explain(model, turned, "b", "saliency")
    explainers.explain(model, plain, "b", "saliency")
    explainers.explain(model, "film film film", "b", "saliency")


def rolled_back(pixels: Tensor) -> Tensor:
    """Moves the picture by a fixed amount and back, as Swin does its windows."""
    return pixels.roll(3, 2).roll(-3, 2) + 0 * pixels.flip(2)


def test_a_model_whose_order_is_fixed_is_not_tried_again() -> None:
    assert opened(rolled_back).first_misplaced is None
    assert opened(by_where).first_misplaced is not None
    texts_model = explainers.open(Words().eval(), kind=["text"], tokenizer=wordpiece(), labels=["a", "b", "c"], check="none")
    assert texts_model.first_misplaced is None


def test_no_token_of_a_mirrored_picture_is_taken_out_for_a_patch() -> None:
    """Which token is which patch is not known there: patches are painted, and single tokens are refused."""
    model, mirrored, plain = opened(by_where), model_tensors(picture(0, 150)), model_tensors(picture(150, 0))
    assert patch_removal(model, mirrored, (ROWS, COLUMNS)).how == "painted"
    with pytest.raises(ExplainerError, match=r"another order than it mostly does.* choose how=painted"):
        patch_removal(model, mirrored, (ROWS, COLUMNS), "zeroed")
    assert patch_removal(model, plain, (ROWS, COLUMNS), "zeroed").how == "zeroed"


def model_tensors(image: Image.Image) -> dict[str, Tensor]:
    return dict(opened(by_where).tensors(image))
