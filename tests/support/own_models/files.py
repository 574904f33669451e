"""Files of weights, as training scripts leave them."""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.support.own_models.case import ARCHITECTURE, CLASSES, Case, Given, save_text, shaken, text_model, vit

HOW = '`architecture="timm/<name>"`'


def _renamed(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in weights.items()}


def _file(name: str, wrapped: Callable[[dict[str, Tensor]], Any], architecture: bool = True, **how: Any) -> Callable[[Path], Given]:
    """Weights of a tiny ViT, ``wrapped`` as a script has it, in a file of this name."""

    def make(folder: Path) -> Given:
        module = vit()
        torch.save(wrapped(dict(module.state_dict())), folder / name)
        return Given(folder / name, {**({"architecture": ARCHITECTURE} if architecture else {}), **how}, module)

    return make


def _with_names(folder: Path) -> Given:
    given = _file("best_checkpoint.pth", lambda w: {"model": w, "optimizer": {"state": {}}, "args": argparse.Namespace(lr=1e-3)})(folder)
    (folder / "names.txt").write_text("\n".join(CLASSES) + "\n")
    return Given(given.what, {**given.arguments, "labels": folder / "names.txt"}, given.module)


def _many_classes(folder: Path) -> Given:
    module = vit(23)
    torch.save({"net": module.state_dict(), "acc": 91.2, "epoch": 7}, folder / "ckpt.pth")
    return Given(folder / "ckpt.pth", {"architecture": ARCHITECTURE}, module)


def _timm_training(weights: dict[str, Tensor]) -> Any:
    args = argparse.Namespace(model="test_vit", num_classes=5, mean=None)
    return {"epoch": 3, "arch": "test_vit", "state_dict": weights, "optimizer": {}, "version": 2, "args": args, "metric": np.float64(71.5)}


def _lightning(weights: dict[str, Tensor]) -> Any:
    return {
        "epoch": 1,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {**_renamed(weights, "model."), "criterion.weight": torch.ones(5)},
        "hyper_parameters": {"model_name": "test_vit", "lr": 1e-4},
        "callbacks": {},
        "optimizer_states": [],
    }


def _lightning_parts(weights: dict[str, Tensor]) -> Any:
    body = {name: tensor for name, tensor in weights.items() if not name.startswith("head.")}
    return {"state_dict": {**_renamed(body, "backbone."), "head.weight": weights["head.weight"], "head.bias": weights["head.bias"]}}


def _safetensors(half: torch.dtype | None, architecture: bool) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        module = vit()
        weights = {name: tensor if half is None else tensor.to(half) for name, tensor in module.state_dict().items()}
        save_file(weights, folder / "model.safetensors")
        if half is not None:
            module.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        return Given(folder / "model.safetensors", {"architecture": ARCHITECTURE} if architecture else {}, module)

    return make


def _halves(folder: Path) -> Given:
    module = vit().bfloat16()
    torch.save(module.state_dict(), folder / "bf16.pth")
    return Given(folder / "bf16.pth", {"architecture": ARCHITECTURE}, module.float())


def _other(**shape: Any) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        module = vit(**shape)
        torch.save({"model": module.state_dict()}, folder / "weights.pt")
        return Given(folder / "weights.pt", {"architecture": ARCHITECTURE}, module)

    return make


def _one_logit(folder: Path) -> Given:
    module = vit(1, in_chans=1)
    torch.save({"model": module.state_dict()}, folder / "scan.pth")
    return Given(folder / "scan.pth", {"architecture": ARCHITECTURE, "labels": ["tumour"]})


def _legacy(folder: Path) -> Given:
    module = vit()
    torch.save(module.state_dict(), folder / "old.pth", _use_new_zipfile_serialization=False)
    return Given(folder / "old.pth", {"architecture": ARCHITECTURE}, module)


def _averaged(folder: Path) -> Given:
    module = vit()
    torch.save(torch.optim.swa_utils.AveragedModel(module).state_dict(), folder / "swa.pt")
    return Given(folder / "swa.pt", {"architecture": ARCHITECTURE}, module)


def _apart(folder: Path) -> Given:
    module = vit()
    body = {name: tensor for name, tensor in module.state_dict().items() if not name.startswith("head.")}
    torch.save(body, folder / "backbone.pth")
    torch.save({"head.weight": module.state_dict()["head.weight"], "head.bias": module.state_dict()["head.bias"]}, folder / "head.pth")
    return Given([folder / "backbone.pth", folder / "head.pth"], {"architecture": ARCHITECTURE}, module)


def _dinov2(folder: Path) -> Given:
    """As torch.hub has DINOv2: the backbone alone, and a linear head over the class token beside the mean of the patches."""
    backbone = vit(0)
    head = shaken(nn.Linear(128, 7), "head")
    torch.save(backbone.state_dict(), folder / "pretrain.pth")
    torch.save(head.state_dict(), folder / "linear_head.pth")
    return Given([folder / "pretrain.pth", folder / "linear_head.pth"], {"architecture": ARCHITECTURE}, BackboneAndHead(backbone, head))


class BackboneAndHead(nn.Module):
    """DINOv2's classifier, written again."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, pixel_values: Tensor) -> Tensor:
        tokens = self.backbone.forward_features(pixel_values)  # type: ignore[operator]
        out: Tensor = self.head(torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], 1))
        return out


class OwnNet(nn.Module):
    """A class of one's own around a ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head = vit(0), nn.Linear(64, 3)

    def forward(self, pixel_values: Tensor) -> Tensor:
        out: Tensor = self.head(self.trunk(pixel_values))
        return out


def _own_class(folder: Path) -> Given:
    from explainers import Preprocessing

    module = shaken(OwnNet(), "own")
    torch.save({"model_state_dict": module.state_dict()}, folder / "own.pt")
    size = Preprocessing(resize=(160, 160), fit="squash")
    return Given(folder / "own.pt", {"architecture": OwnNet(), "preprocess": size}, module)


def _beside_config(folder: Path) -> Given:
    module = vit()
    config = {"architecture": "test_vit", "num_classes": 5, "label_names": CLASSES, "pretrained_cfg": {}}
    (folder / "config.json").write_text(json.dumps(config))
    torch.save(module.state_dict(), folder / "last.pth")
    return Given(folder / "last.pth", {}, module)


def _text_file(folder: Path) -> Given:
    module = text_model()
    save_text(folder / "base", module)
    torch.save({"model": OrderedDict(_renamed(module.state_dict(), "module."))}, folder / "bert.pt")
    return Given(folder / "bert.pt", {"architecture": folder / "base"}, module)


def _openclip(folder: Path) -> Given:
    import open_clip

    small = {"embed_dim": 16, "vision_cfg": {"image_size": 32, "patch_size": 8, "layers": 2, "width": 32, "head_width": 16}}
    small["text_cfg"] = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
    (folder / "tiny-clip.json").write_text(json.dumps(small))
    open_clip.add_model_config(folder)
    module = shaken(open_clip.create_model("tiny-clip", pretrained=None), "clip")
    torch.save({"epoch": 2, "name": "tiny", "state_dict": _renamed(module.state_dict(), "module."), "optimizer": {}}, folder / "epoch_2.pt")
    return Given(folder / "epoch_2.pt", {"architecture": "openclip/tiny-clip"}, module)


def _classes_inside(weights: dict[str, Tensor]) -> Any:
    return {"model_state_dict": weights, "class_to_idx": {name: index for index, name in enumerate(CLASSES)}}


NAMES = tuple(CLASSES)
FILES: list[Case] = [
    Case("deit", "`{model, optimizer, args}` of DeiT's script", f"{HOW}, `labels=` a file of names", _with_names, labels=NAMES),
    Case("plain", "`torch.save(model.state_dict())`", HOW, _file("plain.pth", lambda w: w)),
    Case("parallel", "`{state_dict}` under `module.`", HOW, _file("p.pth", lambda w: {"state_dict": _renamed(w, "module.")})),
    Case("net", "`{net}` with a head of 23 classes", f"{HOW}; classes are read from the head", _many_classes),
    Case("compiled", "weights of a compiled model, `_orig_mod.`", HOW, _file("c.pt", lambda w: _renamed(w, "_orig_mod."))),
    Case(
        "both prefixes",
        "`module._orig_mod.` and `model.` at once",
        HOW,
        _file("c2.pt", lambda w: {"model": _renamed(w, "module._orig_mod.model.")}),
    ),
    Case(
        "ema",
        "`{model, ema}`: two sets of weights",
        f'{HOW}; `model` is read, `weights="ema"` takes the other',
        _file("ema.pth", lambda w: {"model": w, "ema": {n: t + 1 for n, t in w.items()}}),
        guess="under 'model'",
    ),
    Case(
        "timm training",
        "`model_best.pth.tar` of timm's train.py",
        "alone: the file names its architecture",
        _file("model_best.pth.tar", _timm_training, architecture=False),
        guess="the file names it",
    ),
    Case(
        "lightning",
        "`.ckpt` of Lightning, `model.` in front",
        "alone, where its hyperparameters name a model of timm",
        _file("epoch=1.ckpt", _lightning, architecture=False),
        guess="the file names it",
    ),
    Case("lightning parts", "`.ckpt` with `backbone.` and `head.`", HOW, _file("parts.ckpt", _lightning_parts)),
    Case("safetensors", "`.safetensors` alone", HOW, _safetensors(None, True)),
    Case(
        "guessed",
        "`.safetensors` alone, nothing else known",
        "alone: guessed from names and shapes, and said so",
        _safetensors(None, False),
        guess="names and shapes of the weights fit",
    ),
    Case("float16", "`.safetensors` in float16", f"{HOW}; explained in float32", _safetensors(torch.float16, True)),
    Case("bfloat16", "`.pth` in bfloat16", f"{HOW}; explained in float32", _halves),
    Case("grey", "a model of 1 channel", f"{HOW}; channels are read from the first layer", _other(in_chans=1)),
    Case("one logit", "grey pictures and one logit", f"{HOW}, `labels=` the name of yes", _one_logit, labels=("tumour", "no tumour")),
    Case("four channels", "a model of 4 channels", HOW, _other(in_chans=4)),
    Case("other size", "a model of another size of pictures", f"{HOW}; the size is read from its positions", _other(img_size=96)),
    Case("mean pooling", "a head over the mean (MAE fine-tuned)", f"{HOW}; seen from `fc_norm`", _other(global_pool="avg")),
    Case("old format", "a file of torch before 1.6", HOW, _legacy),
    Case("averaged weights", "weights of `AveragedModel`", HOW, _averaged),
    Case("apart", "backbone and head in two files (DINOv2)", "a list of both files", _apart),
    Case("DINOv2", "DINOv2 of torch.hub: backbone and linear head apart", f"a list of both files, {HOW}", _dinov2),
    Case("own class", "weights of a class of one's own", "`architecture=MyNet()`, an instance of it", _own_class),
    Case("beside config", "`last.pth` next to a `config.json`", "alone", _beside_config),
    Case("text file", "`.pt` of a BERT", "`architecture=` the folder or hub name of its base", _text_file, kind="text"),
    Case(
        "openclip file",
        "`epoch_2.pt` of OpenCLIP's training",
        '`architecture="openclip/<model>"`',
        _openclip,
        kind="clip",
        needs="open_clip",
    ),
    Case("names inside", "class names in the file (`class_to_idx`)", HOW, _file("n.pth", _classes_inside), labels=NAMES),
]
