"""Images become the very tensors that timm and transformers make, and the crop says what part of the original they show."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split
import transformers
from timm.data import create_transform

from explainers.errors import ExplainerError
from explainers.models.inputs.images import Preprocessing, processor_preprocessing, read_image, timm_preprocessing
from explainers.models.inputs.types import Crop
from explainers.models.wrapping import wrap
from tests.families import FAMILIES

#: (width, height): portrait, landscape, square, tiny, one pixel wide, one pixel, exactly the model's
SIZES = [(37, 91), (301, 200), (64, 64), (5, 7), (1, 50), (90, 1), (1, 1), (24, 32)]


def picture(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 65536, (height, width), dtype=np.uint16))
    if mode == "F":
        return Image.fromarray(rng.random((height, width), dtype=np.float32))
    if mode == "P":
        return picture(width, height).quantize(17)
    channels = len(Image.new(mode, (1, 1)).getbands())
    values = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
    return Image.fromarray(values[..., 0] if channels == 1 else values, mode=None if mode in ("RGB", "RGBA", "L", "LA") else mode)


TIMM = {
    "centre": ({"crop_pct": 0.875, "crop_mode": "center", "interpolation": "bicubic"}, (32, 32)),
    "bilinear": ({"crop_pct": 0.9, "crop_mode": None, "interpolation": "bilinear"}, (33, 33)),
    "whole": ({"crop_pct": 1.0, "crop_mode": "center", "interpolation": "bicubic"}, (32, 32)),
    "not square": ({"crop_pct": 0.9, "crop_mode": "center", "interpolation": "bicubic"}, (32, 24)),
    "squash": ({"crop_pct": 0.9, "crop_mode": "squash", "interpolation": "bicubic"}, (32, 32)),
    "border": ({"crop_pct": 0.9, "crop_mode": "border", "interpolation": "lanczos"}, (32, 32)),
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", TIMM)
def test_equals_timms_transform(name: str, size: tuple[int, int]) -> None:
    if name == "border" and size == (90, 1):
        pytest.skip("timm fails: it would make the picture 0 pixels tall")
    settings_, shape = TIMM[name]
    config = {**settings_, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    image = picture(*size)
    ours, record = timm_preprocessing(config, shape)(image)
    theirs = create_transform(input_size=(3, *shape), is_training=False, **config)(image)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert record.seen == (shape[1], shape[0])
    assert (record.width, record.height) == size


PROCESSORS = {
    "CLIP": {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}},
    "ViT": {"size": {"height": 32, "width": 24}},
    "Siglip": {"size": {"height": 32, "width": 32}},
    "DeiT": {"size": {"height": 40, "width": 40}, "crop_size": {"height": 32, "width": 32}},
    "Bit": {"size": {"shortest_edge": 37}, "crop_size": {"height": 31, "width": 32}},
    "ConvNext": {"size": {"shortest_edge": 28}, "crop_pct": 0.875},
}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", PROCESSORS)
def test_equals_transformers_processors(name: str, size: tuple[int, int]) -> None:
    """To the last bit what the Pillow backend gives; the torchvision backend rounds single pixels differently."""
    image = picture(*size)
    exact = getattr(transformers, f"{name}ImageProcessorPil")(**PROCESSORS[name])
    ours, _ = processor_preprocessing(exact)(image)
    theirs = exact(image, return_tensors="pt", input_data_format="channels_last" if 1 in size or 3 in size else None)["pixel_values"][0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [(37, 91), (301, 200), (64, 64), (90, 40), (40, 60)], ids=str)
@pytest.mark.parametrize("name", ["Detr", "Yolos"])
def test_equals_the_processors_of_detectors(name: str, size: tuple[int, int]) -> None:
    image = picture(*size)
    exact = getattr(transformers, f"{name}ImageProcessorPil")(size={"shortest_edge": 40, "longest_edge": 70})
    ours, _ = processor_preprocessing(exact)(image)
    torch.testing.assert_close(ours, exact(image, return_tensors="pt")["pixel_values"][0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PROCESSORS)
def test_is_near_transformers_torchvision_processors(name: str) -> None:
    image = picture(101, 67)
    fast = getattr(transformers, f"{name}ImageProcessor")(**PROCESSORS[name])
    ours, _ = processor_preprocessing(fast)(image)
    theirs = fast(image, return_tensors="pt")["pixel_values"][0]
    levels = (ours - theirs).abs() * torch.tensor(fast.image_std).reshape(3, 1, 1) * 255
    assert levels.max() <= 3
    assert levels.mean() < 0.5


@pytest.mark.parametrize("family", [f for f in FAMILIES.values() if f.library == "timm" and "mixer" not in f.name], ids=lambda f: f.name)
def test_wrap_prepares_images_as_timm_would(family) -> None:  # type: ignore[no-untyped-def]
    from timm.data import resolve_model_data_config

    module = family.build()
    model = wrap(module)
    image = picture(57, 43)
    config = resolve_model_data_config(module) | {"input_size": (3, *family.size)}
    theirs = create_transform(**config, is_training=False)(image)
    prepared = model.prepare(image)
    torch.testing.assert_close(prepared.tensors["pixel_values"][0], theirs, rtol=0, atol=1e-6)
    assert prepared.notes == ((),)
    with torch.no_grad():
        assert model.forward(prepared.tensors).shape == (1, 5)


@pytest.mark.parametrize("size", [*SIZES, (300, 40)], ids=str)
def test_whole_patches_of_about_the_same_proportions(size: tuple[int, int]) -> None:
    """SigLIP 2's processor cuts the image into patches itself; ours gives the image that it cuts."""
    image = picture(*size)
    exact = transformers.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=20)
    layout = "channels_last" if 1 in size or 3 in size else None
    theirs = exact(image, return_tensors="pt", input_data_format=layout)
    ours, _ = processor_preprocessing(exact)(image)
    rows, columns = theirs["spatial_shapes"][0].tolist()
    assert ours.shape == (3, rows * 8, columns * 8)
    patches = torch.nn.functional.unfold(ours[None], 8, stride=8)[0].T.unflatten(-1, (3, 64)).transpose(-1, -2).flatten(-2)
    torch.testing.assert_close(patches, theirs["pixel_values"][0][: rows * columns], rtol=0, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(2, 250),
    height=st.integers(2, 250),
    fit=st.sampled_from(["cover", "squash", "contain"]),
    resize=st.tuples(st.integers(20, 60), st.integers(20, 60)),
    crop=st.tuples(st.integers(8, 40), st.integers(8, 40)),
)
def test_crop_is_the_rectangle_that_the_tensor_shows(
    width: int, height: int, fit: str, resize: tuple[int, int], crop: tuple[int, int]
) -> None:
    """Red counts columns and green counts rows of the original, so the tensor says where it was cut."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    image = Image.fromarray(np.stack([x, y, np.full_like(x, 255)], -1).astype(np.uint8))
    recipe = Preprocessing(resize, fit, crop, Image.Resampling.BILINEAR)  # type: ignore[arg-type]
    pixels, record = recipe(image)
    inside = pixels[2] > 0.999  # blue is 255 where there is picture, 0 where there is padding
    rows, columns = inside.any(1).nonzero().flatten(), inside.any(0).nonzero().flatten()
    for axis, line, length, (begin, end) in (
        (0, columns, width, (record.crop[0], record.crop[2])),
        (1, rows, height, (record.crop[1], record.crop[3])),
    ):
        counted = (pixels[axis][rows[len(rows) // 2]] if axis == 0 else pixels[axis][:, columns[len(columns) // 2]]) * 255
        step = (end - begin) / len(counted)
        for place in (line[len(line) // 4], line[len(line) // 2], line[3 * len(line) // 4]):
            expected = begin + (int(place) + 0.5) * step - 0.5
            assert abs(float(counted[place]) - min(max(expected, 0), length - 1)) <= max(1.6, step)


def test_extreme_proportions_are_cut_before_they_fill_the_memory() -> None:
    image = picture(1, 4000)
    pixels, record = Preprocessing(resize=(256, 256), crop=(224, 224))(image)  # whole, this would be 262 million pixels
    middle = picture(1, 4000).crop((0, 1990, 1, 2010))
    whole, _ = Preprocessing(resize=(256, 256), crop=(224, 224))(middle)
    assert record.crop == (0, 2000, 1, 2001)
    assert (pixels - whole).abs().max() <= 1.01 / 255


MODES = {"RGBA", "LA", "L", "1", "P", "CMYK", "YCbCr", "HSV", "LAB", "I;16", "F"}


@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_mode_becomes_rgb(mode: str) -> None:
    image = picture(9, 7, mode) if mode != "1" else picture(9, 7, "L").convert("1")
    rgb = read_image(image)
    assert rgb.mode == "RGB"
    assert rgb.size == (9, 7)
    assert len(np.unique(np.asarray(rgb))) > 1


def test_transparency_is_laid_on_white() -> None:
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (255, 0, 0, 128))
    assert read_image(image).getpixel((0, 0)) == (255, 255, 255)
    assert read_image(image).getpixel((1, 0)) == (255, 127, 127)
    palette = Image.new("P", (1, 1), 0)
    palette.info["transparency"] = 0
    assert read_image(palette).getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("as_file", [True, False])
def test_wide_greys_keep_their_shades(tmp_path: Path, as_file: bool) -> None:
    """65535 is white and half of it is grey; Pillow's own conversion makes everything above 255 white."""
    image = Image.fromarray(np.array([[0, 32768, 65535]], dtype=np.uint16))
    if as_file:
        image.save(tmp_path / "grey.png")
        rgb = read_image(tmp_path / "grey.png")
    else:
        rgb = read_image(image.convert("I"))
    assert [rgb.getpixel((x, 0)) for x in range(3)] == [(0, 0, 0), (128, 128, 128), (255, 255, 255)]
    floats = read_image(Image.fromarray(np.array([[0.0, 0.5, 1.0, np.nan]], dtype=np.float32)))
    assert [floats.getpixel((x, 0))[0] for x in range(4)] == [0, 128, 255, 0]  # type: ignore[index]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    image = picture(6, 4)
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "turned.png", exif=exif)
    upright = read_image(tmp_path / "turned.png")
    assert upright.size == ((4, 6) if orientation >= 5 else (6, 4))
    assert upright.tobytes() == ImageOps.exif_transpose(Image.open(tmp_path / "turned.png")).tobytes()
    model = wrap(FAMILIES["vit"].build())
    record = model.prepare(tmp_path / "turned.png").inputs[0]
    assert (record.width, record.height) == upright.size  # type: ignore[union-attr]
    assert record.pixels.size == record.seen == (24, 32)  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [(50, 60), (7, 90), (24, 32), (300, 200)])
@pytest.mark.parametrize("fit", ["squash", "cover", "contain"])
def test_the_pixels_are_those_of_the_tensor(size: tuple[int, int], fit: Literal["squash", "cover", "contain"]) -> None:
    """What the record shows is the tensor with its normalisation undone, padding included."""
    mean, std = (0.48, 0.45, 0.4), (0.22, 0.23, 0.25)
    recipe = Preprocessing(resize=(32, 24), fit=fit, crop=(32, 24), mean=mean, std=std, fill=(9, 8, 7))
    tensor, record = recipe(picture(*size))
    assert record.pixels is not None
    assert record.pixels.size == record.seen == (24, 32)
    undone = (tensor.permute(1, 2, 0) * torch.tensor(std) + torch.tensor(mean)) * 255
    np.testing.assert_array_equal(np.asarray(record.pixels), undone.round().numpy())


def test_inputs_of_every_kind_give_the_same_tensor(tmp_path: Path) -> None:
    model = wrap(FAMILIES["vit"].build())
    image = picture(50, 60)
    path = tmp_path / "image.png"
    image.save(path)
    one = model.tensors(image)["pixel_values"]
    for source in (path, str(path), [image], [path]):
        torch.testing.assert_close(model.tensors(source)["pixel_values"], one, rtol=0, atol=0)
    both = model.prepare([image, str(path)])
    assert both.tensors["pixel_values"].shape == (2, 3, 32, 24)
    assert len(both) == 2
    again = model.prepare({"pixel_values": one})
    assert torch.equal(again.tensors["pixel_values"], one)
    assert again.inputs[0].crop == (0, 0, 24, 32)  # type: ignore[union-attr]
    assert again.inputs[0].pixels is None  # type: ignore[union-attr]


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    model = wrap(FAMILIES["vit"].build())
    buffer = io.BytesIO()
    picture(64, 64).save(buffer, "PNG")
    (tmp_path / "short.png").write_bytes(buffer.getvalue()[:4000])
    (tmp_path / "text.png").write_text("not an image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    for source, message in (
        (tmp_path / "none.png", "there is no file"),
        (tmp_path, "is a folder"),
        (tmp_path / "short.png", "damaged or cut short"),
        (tmp_path / "text.png", "not an image that can be read"),
        (tmp_path / "empty.jpg", "not an image that can be read"),
        ("A film that I did not like at all. " * 20, "there is no file"),
        ("a\0b", "there is no file"),
        ([], "empty"),
        ([3], "holds an int"),
        (None, "NoneType cannot be explained"),
        (torch.zeros(1, 3, 32, 24), r"a Tensor of shape \(1, 3, 32, 24\) does not say what it holds"),
        ({"pixel_values": torch.zeros(3, 32, 24)}, "batch, channels, height, width"),
        ({"image": torch.zeros(1, 3, 32, 24)}, "pixel_values"),
        ({"pixel_values": torch.zeros(1, 3, 32, 24), "mask": None}, "mask: send torch tensors"),
        (Image.new("RGB", (0, 5)), "has no pixels"),
    ):
        with pytest.raises(ExplainerError, match=message):
            model.prepare(source)  # type: ignore[arg-type]


def test_no_other_program_is_started_for_a_picture(tmp_path: Path) -> None:
    """Pillow starts Ghostscript for what begins as EPS, whatever its name says."""
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n%%EOF\n")
    with pytest.raises(ExplainerError, match="not an image that can be read"):
        read_image(tmp_path / "a.png")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    picture(40, 40).save(tmp_path / "big.png")
    with pytest.raises(ExplainerError, match="too many pixels; send one of at most 1000"):
        read_image(tmp_path / "big.png")


def test_a_processor_with_unknown_steps_is_refused() -> None:
    processor = transformers.ViTImageProcessorPil()
    processor.do_pad = True
    with pytest.raises(ExplainerError, match=r"asks for do_pad.*preprocess="):
        processor_preprocessing(processor)
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64})
    with pytest.raises(ExplainerError, match=r"longest_edge.*preprocess="):
        processor_preprocessing(processor)


def test_a_guessed_preprocessing_is_noted() -> None:
    model = wrap(FAMILIES["hf-vit"].build())
    prepared = model.prepare(picture(30, 30))
    assert "ViTImageProcessor" in prepared.notes[0][0]
    assert prepared.tensors["pixel_values"].shape == (1, 3, 32, 24)
    assert wrap(FAMILIES["hf-vit"].build(), preprocess=transformers.ViTImageProcessorPil(size={"height": 32, "width": 24})).prepare(
        picture(30, 30)
    ).notes == ((),)
    unknown = wrap(FAMILIES["hf-dinov2-reg"].build())
    with pytest.raises(ExplainerError, match="preprocess="):
        unknown.prepare(picture(30, 30))


@pytest.mark.parametrize(
    "recipe",
    [
        Preprocessing(resize=(32, 32), crop=(28, 28)),
        Preprocessing(resize=(28, 28), crop=(28, 28)),
        Preprocessing(resize=(28, 28), fit="squash"),
        Preprocessing(resize=(32, 32), fit="squash", crop=(28, 28)),
        Preprocessing(resize=(28, 28), fit="contain", crop=(28, 28)),
    ],
)
def test_a_crop_of_the_models_proportions_is_seen_whole_at_full_resolution(recipe: Preprocessing) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8))
    box = (30, 10, 86, 66)
    pixels, record = recipe.cut_out(Crop(image, box))
    expected = np.asarray(image.crop(box).resize((28, 28), recipe.resample), np.float32) / 255
    np.testing.assert_allclose(pixels.numpy(), expected.transpose(2, 0, 1), atol=1e-6)
    assert (record.width, record.height, record.crop, record.frame, record.seen) == (120, 90, box, box, (28, 28))
    assert record.pixels is not None
    assert record.pixels.tobytes() == image.crop(box).resize((28, 28), recipe.resample).tobytes()
    again, _ = recipe.cut_out(Crop(image, record.frame))
    assert bool((again == pixels).all())
    assert recipe(image)[1].frame is None


def test_a_crop_of_other_proportions_is_cut_around_its_centre() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8))
    _, record = Preprocessing(resize=(32, 32), crop=(28, 28)).cut_out(Crop(image, (20, 10, 80, 40)))
    assert record.crop == (35, 10, 65, 40)
    assert record.frame == (20, 10, 80, 40)


@pytest.mark.parametrize("box", [(0, 0, 121, 20), (-1, 0, 20, 20), (20, 0, 20, 20), (0, 30, 20, 10), (0, 0, 20, 91)])
def test_a_crop_beyond_the_picture_is_refused(box: tuple[int, int, int, int]) -> None:
    image = Image.new("RGB", (120, 90))
    with pytest.raises(ExplainerError, match="does not lie in the picture, which is 120 x 90 pixels"):
        Preprocessing(resize=(28, 28)).cut_out(Crop(image, box))


def test_a_crop_is_of_the_upright_picture(tmp_path: Path) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    image.save(tmp_path / "turned.png", exif=exif)
    upright = read_image(tmp_path / "turned.png")
    assert upright.size == (40, 60)
    recipe = Preprocessing(resize=(20, 20), crop=(20, 20))
    found, record = recipe.cut_out(Crop(tmp_path / "turned.png", (10, 20, 30, 40)))
    assert bool((found == recipe(upright.crop((10, 20, 30, 40)))[0]).all())
    assert (record.width, record.height) == (40, 60)
