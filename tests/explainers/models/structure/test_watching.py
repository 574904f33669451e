"""The classification token, where it lies after the patches: its row is read, and the patches are drawn where they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import explainers
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from explainers.models.registers.mlps import check_registers
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Mlp, Vit, built, of_module, pixels, plain_blocks, scores

PATCHES = 16


class ReadsBehind(Vit):
    """``count`` tokens after the patches, of which ``read`` makes one that the head takes."""

    def __init__(self, read: Callable[[Tensor], Tensor], count: int = 1) -> None:
        super().__init__(plain_blocks)
        self.read, self.tokens = read, torch.nn.Parameter(torch.randn(1, count, self.cls.shape[-1]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x)) + self.pos[:, :PATCHES]
        x = torch.cat([x, self.tokens.expand(len(x), -1, -1)], 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.read(self.norm(x)))  # type: ignore[no-any-return]


def kept_maps(vit: Vit, x: Tensor) -> list[Tensor]:
    """The maps (B, H, S, S) that the twin of the attention keeps."""
    kept: list[Tensor] = []
    modules = [module for module in vit.modules() if isinstance(module, Attention)]
    for module in modules:
        module.kept = kept
    with torch.no_grad():
        vit(x)
    for module in modules:
        module.kept = None
    return kept


@pytest.mark.parametrize(("count", "place"), [(1, 0), (3, 0), (3, 1), (3, 2)])
def test_the_row_of_a_token_behind_the_patches_is_read(count: int, place: int) -> None:
    vit, x = built(lambda: ReadsBehind(lambda x: x[:, PATCHES + place], count)), pixels()
    assert isinstance(vit, Vit)
    maps = [each.mean(1)[0] for each in kept_maps(vit, x)]
    identity = torch.eye(PATCHES + count, dtype=torch.float64)
    rollout = (identity + maps[1]) / 2 @ ((identity + maps[0]) / 2)
    raw, rolled = scores(vit, x, 1, "raw_attention", "rollout")
    torch.testing.assert_close(raw.flatten()[:PATCHES], maps[1][PATCHES + place, :PATCHES], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(rolled.flatten()[:PATCHES], rollout[PATCHES + place, :PATCHES], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("read", [lambda x: x.mean(1), lambda x: x[:, :PATCHES].mean(1), lambda x: x[:, PATCHES:].mean(1)])
def test_a_head_that_pools_has_none(read: Callable[[Tensor], Tensor]) -> None:
    vit = built(lambda: ReadsBehind(read, 2))
    with pytest.raises(ExplainerError, match="no classification token"):
        scores(vit, pixels(), 1, "raw_attention")


def test_a_class_token_that_changes_its_place_between_blocks_is_refused_for_that() -> None:
    class MovesToTheEnd(Vit):
        def forward(self, x: Tensor) -> Tensor:
            x = self.embed(self.patch(x))
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
            x = self.blocks[1](self.blocks[0](x).roll(-1, 1))
            return self.head(self.norm(x)[:, -1])  # type: ignore[no-any-return]

    with pytest.raises(ExplainerError, match="change places"):
        scores(built(lambda: MovesToTheEnd(plain_blocks)), pixels(), 1, "raw_attention")


def test_registers_before_the_patches_need_the_class_token_there() -> None:
    behind = explainers.wrap(built(lambda: ReadsBehind(lambda x: x[:, -1])), kind="image", preprocess=PREPROCESS)
    with pytest.raises(ExplainerError, match="lies after its patches"):
        check_registers(behind)
    check_registers(explainers.wrap(built(lambda: Vit(plain_blocks)), kind="image", preprocess=PREPROCESS))


class _Picking(Vit):
    """Its head reads the token with the largest sum."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        self.read = x.sum(-1).argmax(-1)
        return self.head(self.norm(x)[torch.arange(len(x)), self.read])


def test_a_token_that_the_head_picks_in_each_picture_is_followed() -> None:
    vit = built(lambda: _Picking(plain_blocks))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    recording = Recording(model, {"pixel_values": x})
    read = vit.read
    assert isinstance(read, Tensor)
    assert len(set(read.tolist())) > 1
    assert recording.class_tokens is not None
    assert torch.equal(recording.class_tokens, read)


class _Cutting(Vit):
    """Its forward cuts the picture."""

    def __init__(self, rows: slice, columns: slice) -> None:
        super().__init__(plain_blocks)
        self.rows, self.columns = rows, columns

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :, self.rows, self.columns])


@pytest.mark.parametrize("cut", [slice(8, 24), slice(4, 28), slice(0, 24), slice(8, 32)])
def test_models_that_cut_the_picture_are_refused(cut: slice) -> None:
    with pytest.raises(ExplainerError, match="does not see the edge of the picture"):
        explainers.wrap(built(lambda: _Cutting(cut, cut)), kind="image", preprocess=PREPROCESS)


def test_what_is_left_over_of_a_patch_may_be_cut_off() -> None:
    vit = built(lambda: Vit(plain_blocks))
    model = explainers.wrap(vit, kind="image", preprocess=explainers.Preprocessing((38, 36)))
    assert model.details["grid"] == (4, 4)


class _Moving(Vit):
    """Its forward moves the picture."""

    def __init__(self, move: Callable[[Tensor], Tensor]) -> None:
        super().__init__(plain_blocks)
        self.move = move

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.move(x))


def _resized(x: Tensor, side: int = 32) -> Tensor:
    return F.interpolate(x, size=(side, side), mode="bilinear")


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "rolled by half a patch": lambda x: x.roll(4, -1),
    "rolled back": lambda x: x.roll(-4, -1),
    "rolled down": lambda x: x.roll(4, -2),
    "rolled by three pixels both ways": lambda x: x.roll((3, -3), (-1, -2)),
    "padded in front and cut": lambda x: F.pad(x, (4, 0, 4, 0))[:, :, :32, :32],
    "cut to the lower right": lambda x: _resized(x[:, :, 6:, 6:]),
    "cut to the middle": lambda x: _resized(x[:, :, 3:29, 3:29]),
}
LEFT: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "enlarged and pooled": lambda x: F.avg_pool2d(_resized(x, 64), 2),
    "blurred": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "with two pixels less": lambda x: _resized(x[:, :, :30, :30]),
}


@pytest.mark.parametrize("name", MOVED)
def test_models_whose_patches_lie_beside_their_places_are_refused(name: str) -> None:
    with pytest.raises(ExplainerError, match=r"where they are drawn|edge of the picture"):
        explainers.wrap(built(lambda: _Moving(MOVED[name])), kind="image", preprocess=PREPROCESS)


@pytest.mark.parametrize("name", LEFT)
def test_models_whose_patches_lie_in_their_places_are_taken(name: str) -> None:
    model = explainers.wrap(built(lambda: _Moving(LEFT[name])), kind="image", preprocess=PREPROCESS)
    assert model.layout_of({"pixel_values": pixels()}).covered is None


def test_overlapping_patches_of_a_convolutional_stem_are_taken() -> None:
    class Stem(Vit):
        def __init__(self) -> None:
            super().__init__(plain_blocks)
            widths = (3, 8, 8, self.cls.shape[-1])
            layers = [torch.nn.Conv2d(a, b, 3, 2, 1) for a, b in itertools.pairwise(widths)]
            self.patch = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])  # type: ignore[assignment]

    model = explainers.wrap(built(Stem), kind="image", preprocess=PREPROCESS)
    assert model.layout_of({"pixel_values": pixels()}).covered is None


def test_a_map_says_which_part_of_the_picture_patches_cover_that_leave_out_its_end() -> None:
    specs = ["rollout", "input_x_gradient", "input_x_gradient?at=pixels", "occlusion"]

    def notes(module: torch.nn.Module) -> list[str]:
        model = explainers.wrap(module, kind="image", preprocess=PREPROCESS)
        result = explainers.explain(model, {"pixel_values": pixels()}, 1, specs)
        first = result[0] if isinstance(result, list) else result
        return [" ".join(first[spec].notes) for spec in specs]

    cut = "cover the upper 26 rows and the left 26 columns"
    assert [cut in note for note in notes(built(lambda: _Moving(lambda x: _resized(x[:, :, :26, :26]))))] == [True, True, False, False]
    assert not any("columns of pixels" in note for note in notes(built(lambda: Vit(plain_blocks))))


class _Mirrored(Vit):
    """Its answer is a mean over the picture and its mirror."""

    def forward(self, x: Tensor) -> Tensor:
        return (super().forward(x) + super().forward(x.flip(-1))) / 2


class _Halves(Vit):
    """A reversible network: two streams, each in an argument of its own."""

    def __init__(self) -> None:
        super().__init__(lambda: [_Half(), _Half()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(self.patch(x))
        a = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        b = self.norm(a)
        for block in self.blocks:
            a, b = block(a, b)
        return self.head(self.norm(a + b)[:, 0])  # type: ignore[no-any-return]


class _Half(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(of_module), Mlp()

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        a = a + self.attn(b)
        return a, b + self.mlp(a)


@pytest.mark.parametrize(
    ("make", "said"),
    [(lambda: _Mirrored(plain_blocks), "runs its blocks, 'blocks.0' and those after it, more than once"), (_Halves, "several tensors of")],
)
def test_models_whose_blocks_run_twice_or_take_two_streams_are_refused_for_that(make: Callable[[], Vit], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explainers.wrap(built(make), kind="image", preprocess=PREPROCESS)
