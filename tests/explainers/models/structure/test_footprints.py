"""Patches that are no squares of neighbouring pixels, against the shares of pixels in the weights that make them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from explainers.models.layout import Footprint
from explainers.models.model import Model

SIDE, COUNT, PATCH, WIDTH = 64, 8, 8, 32
PIXELS = 3 * PATCH * PATCH
Cut = Callable[[Tensor], Tensor]


class Vit(nn.Module):
    """``cut`` makes 64 rows of 192 numbers of a picture, which one linear layer embeds."""

    def __init__(self, cut: Cut, stem: nn.Module | None = None) -> None:
        super().__init__()
        self.cut, self.stem = cut, nn.Identity() if stem is None else stem
        self.embed, self.head = nn.Linear(PIXELS, WIDTH), nn.Linear(WIDTH, 5)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 1 + COUNT**2, WIDTH))
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True, norm_first=True) for _ in range(2))

    def forward(self, image: Tensor) -> Tensor:
        x = self.embed(self.cut(self.stem(image)))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])  # type: ignore[no-any-return]


def squares(image: Tensor) -> Tensor:
    return F.unfold(image, PATCH, stride=PATCH).mT


def rows(image: Tensor) -> Tensor:
    """Token i is row i of the pixels."""
    return image.transpose(1, 2).flatten(2)


def wrapped(cut: Cut, stem: Callable[[], nn.Module] = nn.Identity, dtype: torch.dtype = torch.float64) -> Model:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Vit(cut, stem()).to(dtype).eval()
    return explainers.wrap(module, kind="image", preprocess=explainers.Preprocessing((SIDE, SIDE)))


def footprint(model: Model) -> Footprint | None:
    return model.layout_of({"pixel_values": torch.zeros(1, 3, SIDE, SIDE)}).footprint


def share_inside(cut: Cut) -> float:
    """The mean share of the pixels that a token is made of which lie in its square and half a square around it, pixel by pixel."""
    image = torch.arange(SIDE * SIDE).view(1, 1, SIDE, SIDE).expand(1, 3, -1, -1).double()
    shares = []
    for token, row in enumerate(cut(image)[0]):
        down, across = row.long() // SIDE, row.long() % SIDE
        inside = [
            ((each + 0.5) / PATCH - (token // COUNT, token % COUNT)[axis] - 0.5).abs() <= 1 for axis, each in enumerate((down, across))
        ]
        shares.append(float((inside[0] & inside[1]).double().mean()))
    return sum(shares) / len(shares)


def frequencies(image: Tensor) -> Tensor:
    places = torch.arange(SIDE, dtype=image.dtype)
    cosines = torch.cos(math.pi / SIDE * (places + 0.5) * places[:, None])
    return squares(cosines @ image @ cosines.T)


#: Forms that only move pixels.
MOVED: dict[str, Cut] = {
    "rows": rows,
    "columns": lambda image: image.permute(0, 3, 1, 2).flatten(2),
    "picture reshaped": lambda image: image.reshape(len(image), 3, COUNT**2, PATCH**2).transpose(1, 2).flatten(2),
    "channels last reshaped": lambda image: image.permute(0, 2, 3, 1).reshape(len(image), COUNT**2, PIXELS),
    "every eighth pixel": lambda image: image.unflatten(3, (8, 8)).unflatten(2, (8, 8)).permute(0, 3, 5, 1, 2, 4).reshape(-1, 64, PIXELS),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MOVED)
def test_tokens_of_other_pixels_are_drawn_nowhere(name: str, dtype: torch.dtype) -> None:
    model = wrapped(MOVED[name], dtype=dtype)
    found = footprint(model)
    assert found is not None
    assert found.inside == pytest.approx(share_inside(MOVED[name]), abs=0.1)  # of eight of the tokens
    pixels = {"pixel_values": torch.randn(1, 3, SIDE, SIDE, dtype=dtype)}
    for spec in ("rollout", "input_x_gradient:libra", "fullgrad", "attcat"):
        with pytest.raises(ExplainerError, match="not made of the squares of the picture"):
            explainers.explain(model, pixels, 1, [spec])
    explainers.explain(model, pixels, 1, ["occlusion", "input_x_gradient?at=pixels"])


class _Reshaped(nn.Module):
    """A convolution's map that is reshaped to tokens, with channels where places belong."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, PIXELS, PATCH, PATCH)

    def forward(self, image: Tensor) -> Tensor:
        return self.convolution(image).reshape(len(image), COUNT**2, PIXELS)  # type: ignore[no-any-return]


class _OverAll(nn.Module):
    """One layer makes all tokens of the whole picture, of each a few numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * SIDE**2, COUNT**2 * 4)

    def forward(self, image: Tensor) -> Tensor:
        return self.layer(image.flatten(1)).view(-1, COUNT**2, 4).repeat(1, 1, PIXELS // 4)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("cut", "stem"),
    [
        (frequencies, nn.Identity),
        (lambda image: squares(torch.fft.fft2(image).real), nn.Identity),
        (lambda image: squares(torch.fft.fft2(image).abs().log1p()), nn.Identity),
        (lambda tokens: tokens, _Reshaped),
        (lambda tokens: tokens, _OverAll),
    ],
    ids=["cosines", "real part", "magnitude", "map reshaped", "one layer over all"],
)
def test_tokens_of_the_whole_picture_are_drawn_nowhere(cut: Cut, stem: Callable[[], nn.Module]) -> None:
    found = footprint(wrapped(cut, stem))
    assert found is not None
    assert found.is_of_other_pixels
    by_chance = ((6 * 2 + 2 * 1.5) / COUNT / COUNT) ** 2  # a window of 2 squares, of 1.5 at an edge
    assert found.inside == pytest.approx(by_chance, abs=0.02)


def test_some_tokens_of_other_pixels_are_enough() -> None:
    """Half of them, or those of the last row, of which each also reads its square."""
    half = wrapped(lambda image: torch.cat([squares(image)[:, :32], rows(image)[:, 32:]], 1))
    last = wrapped(lambda image: squares(image) + F.pad(rows(image)[:, 56:], (0, 0, 56, 0)).roll(3, 1))
    for found in (footprint(half), footprint(last)):
        assert found is not None
        assert found.is_of_other_pixels


def test_a_note_says_how_little_of_what_tokens_read_lies_where_they_are_drawn() -> None:
    """Each is of a quarter of the picture: of 4 x 4 squares, of which its window has 1.5 x 1.5 to 2 x 2."""
    model = wrapped(lambda image: squares(F.interpolate(F.avg_pool2d(image, 32), size=SIDE)))
    found = footprint(model)
    assert found is not None
    assert found.inside == pytest.approx(((1.5 + 2 + 2 + 1.5) / 4 / 4) ** 2, abs=0.02)
    specs = ["rollout", "input_x_gradient", "occlusion", "input_x_gradient?at=pixels"]
    result = explainers.explain(model, {"pixel_values": torch.randn(1, 3, SIDE, SIDE).double()}, 1, specs)
    first = result[0] if isinstance(result, list) else result
    assert [f"{100 * found.inside:.0f} % lies in the square" in " ".join(first[spec].notes) for spec in specs] == [True, True, False, False]


def test_a_mean_of_the_picture_in_every_token_is_said_to_be_there() -> None:
    """Of its own square a token has 1 + 1 / 8 of each number, of any other 1 / 8; their squares are what it reads."""
    found = footprint(wrapped(lambda image: squares(image) + 8 * squares(image).mean(1, keepdim=True)))
    assert found is not None
    assert not found.is_of_other_pixels
    window = ((6 * 2 + 2 * 1.5) / COUNT) ** 2  # in squares
    assert found.inside == pytest.approx((9**2 + window - 1) / (9**2 + COUNT**2 - 1), abs=0.02)


class _Gate(nn.Module):
    """Each channel is multiplied by a curve of its mean over the picture."""

    def forward(self, image: Tensor) -> Tensor:
        return image * image.mean((2, 3), keepdim=True).sigmoid()


class _Standardised(nn.Module):
    def forward(self, image: Tensor) -> Tensor:
        return (image - image.mean((1, 2, 3), keepdim=True)) / image.std((1, 2, 3), keepdim=True)


def _stem() -> nn.Module:
    layers = [nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 16), (16, 32), (32, PIXELS))]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("cut", "stem"),
    [
        (squares, nn.Identity),
        (squares, _Gate),
        (squares, _Standardised),
        (squares, partial(nn.AvgPool2d, 9, 1, 4)),
        (lambda image: squares(F.interpolate(F.avg_pool2d(image, 4), size=SIDE)), nn.Identity),
        (lambda maps: maps.flatten(2).mT, _stem),
        (lambda maps: maps.flatten(2).mT, partial(nn.Conv2d, 3, PIXELS, 16, 8, 4)),
    ],
    ids=["squares", "gated", "standardised", "blurred", "coarse", "three convolutions", "overlapping"],
)
def test_squares_and_stems_that_overlap_are_drawn_as_ever(cut: Cut, stem: Callable[[], nn.Module], dtype: torch.dtype) -> None:
    assert footprint(wrapped(cut, stem, dtype)) is None
