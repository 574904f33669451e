"""Greys of more than 8 bits, DICOM files and arrays: their values are kept until a window shows them, and the record says which."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers import Crop, ExplainerError, Model, WindowedPicture, wrap
from explainers.models.inputs.images import read_image
from tests.families import FAMILIES

#: A scan of 12 bits in a type of 16, as scanners save them.
SCAN = (np.arange(40 * 48).reshape(40, 48) * 4095 // (40 * 48 - 1)).astype(np.uint16)


@pytest.fixture(scope="module")
def model() -> Model:
    return wrap(FAMILIES["vit"].build())


def saved(folder: Path, suffix: str, values: np.ndarray = SCAN) -> Path:
    path = folder / f"scan.{suffix}"
    if suffix == "npy":
        np.save(path, values)
    else:
        Image.fromarray(values).save(path)
    return path


@pytest.mark.parametrize("suffix", ["png", "tiff", "npy"])
def test_a_scan_of_12_bits_spans_black_to_white(suffix: str, tmp_path: Path) -> None:
    """Divided by 257, as 16 bits would be, nothing would be brighter than 16 of 255."""
    greys = np.asarray(read_image(saved(tmp_path, suffix)))[..., 0]
    np.testing.assert_array_equal(greys, np.round(SCAN / 4095 * 255))


@pytest.mark.parametrize("suffix", ["png", "tiff", "npy"])
def test_a_window_is_set_and_recorded(suffix: str, tmp_path: Path, model: Model) -> None:
    path = saved(tmp_path, suffix)
    prepared = model.prepare(WindowedPicture(path, 1000.5, 255))
    expected = (SCAN.astype(int) - 873).clip(0, 255).astype(np.uint8)
    same = model.prepare(Image.fromarray(expected).convert("RGB"))
    assert torch.equal(prepared.tensors["pixel_values"], same.tensors["pixel_values"])
    result = explainers.explain(model, WindowedPicture(path, 1000.5, 255), methods=["raw_attention"])
    assert json.loads(json.dumps(result.to_json()))["input"]["window"] == {"level": 1000.5, "width": 255, "source": "set"}
    unset = explainers.explain(model, path, methods=["raw_attention"]).to_json()["input"]["window"]
    assert unset == {"level": 2047.5, "width": 4095, "source": "range"}
    assert "window" not in explainers.explain(model, Image.new("RGB", (9, 9)), methods=["raw_attention"]).to_json()["input"]


def test_a_part_is_shown_through_the_window_of_the_whole(tmp_path: Path, model: Model) -> None:
    path = saved(tmp_path, "png")
    part = model.prepare(Crop(path, (8, 0, 40, 8)))
    whole = model.prepare(Crop(read_image(path), (8, 0, 40, 8)))
    assert torch.equal(part.tensors["pixel_values"], whole.tensors["pixel_values"])
    assert part.inputs[0].window.width == 4095  # type: ignore[union-attr]


def test_arrays_and_whole_numbers_are_pictures(model: Model) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    wanted = model.tensors(Image.fromarray(colours))["pixel_values"]
    first = np.moveaxis(colours, -1, 0)
    for same in (colours, first, torch.from_numpy(first.copy()), colours / 255.0):
        assert torch.equal(model.tensors(same)["pixel_values"], wanted)
    assert torch.equal(model.tensors([colours, colours])["pixel_values"], wanted.repeat(2, 1, 1, 1))
    floats = SCAN.astype(np.float64) - 1024
    assert model.prepare(floats).inputs[0].window.level == 1023.5  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (np.zeros((3, 9, 3), np.uint8), "which axis holds the channels"),
        (np.zeros((8, 9, 5), np.uint8), "which axis holds the channels"),
        (np.full((8, 9, 3), -2.0), "preprocessed pixels"),
        (np.array([["a"]]), "no picture"),
        (WindowedPicture(np.zeros((8, 8), np.uint16), 5, 0), "width above 0"),
        (WindowedPicture(Image.new("RGB", (8, 8)), 5, 1), "has colours"),
    ],
    ids=["both ends", "neither end", "normalised", "letters", "no width", "colours"],
)
def test_what_is_no_picture_is_refused(sent: object, said: str, model: Model) -> None:
    with pytest.raises(ExplainerError, match=said):
        model.prepare(sent)  # type: ignore[arg-type]


def test_an_array_of_objects_is_not_executed(tmp_path: Path, model: Model) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ExplainerError, match="holds no array of numbers"):
        model.prepare(tmp_path / "x.npy")


@pytest.mark.parametrize("inverted", [False, True])
def test_a_dicom_file_is_shown_through_its_own_window(inverted: bool, tmp_path: Path, model: Model) -> None:
    path = dicom(tmp_path / "slice.dcm", inverted)
    from pydicom import dcmread
    from pydicom.pixels import apply_modality_lut, apply_voi_lut

    data = dcmread(path)
    shown = apply_voi_lut(apply_modality_lut(data.pixel_array, data), data)  # over the range of the stored bits
    shown = (shown - shown.min()) / (shown.max() - shown.min()) * 255
    greys = np.asarray(read_image(path))[..., 0].astype(float)
    assert np.abs(greys - (255 - shown if inverted else shown)).max() <= 1  # pydicom's window lies half a unit beside ours
    window = model.prepare(path).inputs[0].window  # type: ignore[union-attr]
    assert window is not None
    assert (window.level, window.width, window.source) == (-40 if inverted else 40, 400, "file")
    path.rename(tmp_path / "IM0001")  # as scanners name them
    assert model.prepare(tmp_path / "IM0001").inputs[0].window == window  # type: ignore[union-attr]


def dicom(path: Path, inverted: bool) -> Path:
    """A slice in Hounsfield units, of 12 bits, as a CT scanner saves it."""
    pydicom = pytest.importorskip("pydicom", reason="the extra medical")
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.Rows, data.Columns = SCAN.shape
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation, data.SamplesPerPixel = 16, 12, 11, 0, 1
    data.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
    data.RescaleSlope, data.RescaleIntercept, data.WindowCenter, data.WindowWidth = 1, -1024, 40, 400
    data.PixelData = SCAN.tobytes()
    pydicom.dcmwrite(path, data)
    return path
