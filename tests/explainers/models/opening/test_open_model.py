"""What cannot be opened is refused in a sentence that says what is in the way and what to do."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.models.opening import adapters
from explainers.models.opening.weights import rename_weights
from tests.support.own_models.case import ARCHITECTURE, CLASSES, save_text, text_model, vit


def _whole_module(folder: Path) -> Any:
    torch.save(vit(), folder / "model.pth")
    return folder / "model.pth"


def _own_object(folder: Path) -> Any:
    torch.save({"model": vit().state_dict(), "trainer": pytest.Item}, folder / "odd.pth")
    return folder / "odd.pth"


def _scripted(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(vit(), torch.zeros(1, 3, 160, 160)), folder / "scripted.pt")
    return folder / "scripted.pt"


def _text(name: str, text: bytes) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        (folder / name).write_bytes(text)
        return folder / name

    return make


def _saved(content: Callable[[], Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        torch.save(content(), folder / "weights.pth")
        return folder / "weights.pth"

    return make


def _cut_off(folder: Path) -> Any:
    torch.save(vit().state_dict(), folder / "whole.pth")
    (folder / "cut.pth").write_bytes((folder / "whole.pth").read_bytes()[:100_000])
    return folder / "cut.pth"


def _quantised_folder(folder: Path) -> Any:
    save_text(folder / "model", text_model())
    config = json.loads((folder / "model" / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (folder / "model" / "config.json").write_text(json.dumps(config))
    return folder / "model"


def _lost_base(folder: Path) -> Any:
    (folder / adapters.CONFIG).write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": ""}))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (
            _whole_module,
            {},
            r"model.pth holds timm\.\S+.*, and not weights alone; .* torch.save\(model.state_dict",
        ),
        (_own_object, {}, r"odd.pth holds _pytest.nodes.Item, and not weights alone.*torch.save\(model.state_dict"),
        (_scripted, {}, r"scripted.pt is a scripted or traced model .*torch.jit.load\(file\).state_dict"),
        (_text("lfs.safetensors", b"version https://git-lfs.github.com/spec/v1\n"), {}, "is a pointer of Git LFS.* git lfs pull"),
        (_text("net.onnx", b"\x08\x07"), {}, "net.onnx is a file of ONNX.* Send its weights as .safetensors or .pth"),
        (_text("no.safetensors", b"nothing"), {}, "is no whole file of safetensors .*save or download it again"),
        (_text("no.pth", b"nothing at all"), {}, "no.pth cannot be read as weights .*save or download it again"),
        (_cut_off, {}, "cut.pth cannot be read as weights .*broken off"),
        (
            _saved(lambda: {"epoch": 3, "optimizer": {"state": {0: torch.ones(2, 2)}}}),
            {},
            "a dict of 'epoch', 'optimizer' and no",
        ),
        (_saved(lambda: {"a.weight": torch.ones(2, 2)}), {}, r"1 tensors, such as a.weight, and no architecture .*pass architecture="),
        (
            _saved(lambda: vit().state_dict()),
            {"architecture": "test_vitt"},
            r"'test_vitt'\. Did you mean timm/test_vit.*may be of",
        ),
        (_saved(lambda: vit().state_dict()), {"architecture": "timm/test_vit2"}, r"do not fit timm/test_vit2: .*may be of timm/test_vit\."),
        (_saved(lambda: vit().state_dict()), {"architecture": ARCHITECTURE, "weights": "ema"}, "no weights under 'ema'; there are ''"),
        (
            _saved(lambda: vit().state_dict()),
            {"architecture": ARCHITECTURE, "labels": CLASSES[:3]},
            "3 names; the model has 5 classes",
        ),
        (_quantised_folder, {}, r"holds weights quantised by bitsandbytes: load it where that runs, call model.dequantize\(\)"),
        (lambda folder: folder, {}, "holds no model: config.json with weights, an adapter, checkpoints .* it holds nothing"),
        (lambda folder: folder / "gone.pth", {}, "there is no file or folder .*gone.pth"),
        (_lost_base, {}, "names no base model: pass base="),
        (lambda folder: 3, {}, "a int cannot be opened as a model"),
        (lambda folder: vit(), {"check": "some"}, "check='some': choose one of quick, all, none"),
    ],
)
def test_it_is_refused_in_a_sentence(make: Callable[[Path], Any], arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    if make is _lost_base:
        pytest.importorskip("peft")
    with pytest.raises(ExplainerError, match=message):
        explainers.open(make(tmp_path), **arguments)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    class Harmful:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "executed",))

    torch.save({"model": vit().state_dict(), "hook": Harmful()}, tmp_path / "bad.pth")
    with (tmp_path / "bad.pkl").open("wb") as file:
        pickle.dump(Harmful(), file)
    for name in ("bad.pth", "bad.pkl"):
        with pytest.raises(ExplainerError):
            explainers.open(tmp_path / name, architecture=ARCHITECTURE)
    assert not (tmp_path / "executed").exists()


def test_an_adapter_without_peft_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    (tmp_path / adapters.CONFIG).write_text("{}")
    with pytest.raises(ExplainerError, match=r"is an adapter and needs the package peft, .*pip install -e '.\[peft\]'"):
        explainers.open(tmp_path)


def test_the_report_of_a_failure_has_what_helps_and_nothing_private(tmp_path: Path) -> None:
    secret = tmp_path / "secret_project"
    secret.mkdir()
    torch.save({"model": vit().state_dict()}, secret / "patients_v2.pth")
    with pytest.raises(ExplainerError) as raised:
        explainers.open(secret / "patients_v2.pth", architecture="timm/test_vit2", labels=CLASSES)
    report = raised.value.report()
    assert "open(a file .pth, architecture=timm/test_vit2, labels=5 names)" in report
    assert "blocks.*.attn.qkv.weight (192, 64) x 6" in report
    assert "do not fit timm/test_vit2" in report
    assert f"torch {torch.__version__}" in report
    assert "explainers/models/opening/architectures.py" in report
    for private in (str(tmp_path), "secret_project", "patients", *CLASSES):
        assert private not in report, private
    with pytest.raises(ExplainerError) as raised:
        explainers.open(secret / "gone.pth")
    assert str(tmp_path) not in raised.value.report()


def test_a_failed_explanation_has_a_report_too() -> None:
    model = explainers.open(vit(), check="none")
    with pytest.raises(ExplainerError) as raised:
        explainers.explain(model, {"pixel_values": torch.zeros(1, 3, 160, 160)}, methods=["nothing"])
    report = raised.value.report()
    assert "methods=['nothing']" in report
    assert "blocks: 6 in blocks, 64 wide" in report


def _copies(*prefixes: str, but: int | None = None) -> dict[str, torch.Tensor]:
    """A model of test weights under each prefix, each copy with other numbers; the one at ``but`` without its head."""
    tensors = {}
    for number, prefix in enumerate(prefixes):
        for name, tensor in vit().state_dict().items():
            if number != but or not name.startswith("head"):
                tensors[prefix + name] = tensor + (0.01 * number if tensor.is_floating_point() else 0)
    return tensors


@pytest.mark.parametrize("architecture", [ARCHITECTURE, None])
@pytest.mark.parametrize(
    ("prefixes", "read"),
    [
        (("teacher.", "student."), "student."),
        (("ema.", "student.backbone."), "student.backbone."),
        (("module.teacher.", "module.student."), "module.student."),
        (("ema_model.", "model."), "model."),
    ],
)
def test_of_two_copies_in_a_file_one_is_read_the_other_named_and_weights_chooses(
    prefixes: tuple[str, str], read: str, architecture: str | None
) -> None:
    tensors = _copies(*prefixes)
    module: Any = explainers.open({"state_dict": tensors}, architecture=architecture, check="none")
    other = next(prefix for prefix in prefixes if prefix != read)
    assert torch.equal(module.module.state_dict()["head.bias"], tensors[f"{read}head.bias"])
    assert [str(guess) for guess in module.report.guesses if guess.argument == "weights=" and f"'state_dict.{other[:-1]}'" in guess.why]
    chosen: Any = explainers.open({"state_dict": tensors}, architecture=architecture, weights=f"state_dict.{other[:-1]}", check="none")
    assert torch.equal(chosen.module.state_dict()["head.bias"], tensors[f"{other}head.bias"])
    assert not [guess for guess in chosen.report.guesses if guess.argument == "weights="]
    again: Any = explainers.open(tensors, architecture=architecture, weights=other[:-1], check="none")
    assert torch.equal(again.module.state_dict()["head.bias"], tensors[f"{other}head.bias"])


def test_of_unequal_copies_the_whole_one_is_read() -> None:
    tensors = _copies("student.", "teacher.", but=0)
    module: Any = explainers.open(tensors, architecture=ARCHITECTURE, check="none")
    assert torch.equal(module.module.state_dict()["norm.bias"], tensors["teacher.norm.bias"])


def test_towers_of_one_model_are_no_copies() -> None:
    from torch import nn

    towers = nn.ModuleDict({"student": nn.Linear(2, 2), "teacher": nn.Linear(2, 2)})
    assert rename_weights(dict(towers.state_dict()), dict(towers.state_dict())).keys() == towers.state_dict().keys()
