"""Objects in memory: modules, and what training and deployment lay around them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from explainers import Preprocessing
from tests.support.own_models.case import ARCHITECTURE, Case, Given, shaken, text_model, vit
from tests.support.own_models.files import HOW
from tests.support.vocabularies import wordpiece


def _around(wrapper: Callable[[nn.Module], Any], **how: Any) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        module = vit()
        return Given(wrapper(copy.deepcopy(module)), how, module)

    return make


def _traced(module: nn.Module) -> Any:
    with warnings.catch_warnings():  # torch says that tracing is old
        warnings.simplefilter("ignore")
        return torch.jit.trace(module, torch.zeros(1, 3, 160, 160))


def _peft(folder: Path) -> Given:
    import peft

    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    adapted = peft.get_peft_model(text_model(), config).eval()
    return Given(adapted, {"tokenizer": wordpiece()}, adapted)


def _timm_wrapper(folder: Path) -> Given:
    import transformers

    config = transformers.TimmWrapperConfig(architecture="test_vit", num_labels=5, pretrained_cfg={"num_classes": 5})
    module = shaken(transformers.TimmWrapperForImageClassification(config), "wrapper")
    return Given(module, {}, module)


def _dynamic(folder: Path) -> Given:
    with warnings.catch_warnings():  # torch says that this kind is old
        warnings.simplefilter("ignore")
        return Given(torch.ao.quantization.quantize_dynamic(vit(), {nn.Linear}, dtype=torch.qint8), {})


def _torchao(folder: Path) -> Given:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    module = vit()
    quantize_(module, Int8WeightOnlyConfig())
    return Given(module, {}, module)


def _bfloat16(folder: Path) -> Given:
    module = vit().bfloat16()
    return Given(module, {}, module)


def _trained(folder: Path) -> Given:
    module = vit()
    return Given(copy.deepcopy(module).train(), {}, module)


class Sum(nn.Module):
    """A class of one's own whose forward has no names that are known."""

    def __init__(self) -> None:
        super().__init__()
        self.net = vit()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x)
        return out


def _own(folder: Path) -> Given:
    module = shaken(Sum(), "sum")
    return Given(module, {"kind": ["picture"], "preprocess": Preprocessing(resize=(160, 160), fit="squash")}, module)


def _tensors(folder: Path) -> Given:
    module = vit()
    return Given(module.state_dict(), {"architecture": ARCHITECTURE}, module)


OBJECTS: list[Case] = [
    Case("module", "a module of timm or transformers", "the module", _around(lambda m: m)),
    Case("training", "a module in training mode", "the module", _trained),
    Case("torch.compile", "a compiled module", "the module", _around(torch.compile)),
    Case(
        "scripted",
        "a scripted or traced module",
        "the module: its weights in the architecture that is named, else guessed",
        _around(_traced),
    ),
    Case("DataParallel", "`DataParallel`", "the module", _around(nn.DataParallel)),
    Case("AveragedModel", "`AveragedModel`", "the module", _around(torch.optim.swa_utils.AveragedModel)),
    Case("PeftModel", "a `PeftModel`", "the module", _peft, kind="text", needs="peft"),
    Case("TimmWrapper", "`TimmWrapperForImageClassification`", "the module", _timm_wrapper),
    Case("int8 of torch", "int8 by `quantize_dynamic`", "the module: a copy with the numbers its weights stand for", _dynamic),
    Case("int8 of torchao", "int8 by torchao", "the module: a copy with the numbers its weights stand for", _torchao, needs="torchao"),
    Case("bfloat16 module", "a module in bfloat16", "the module, which stays in bfloat16", _bfloat16),
    Case("own module", "a module of one's own", '`kind=["picture"]` and `preprocess=`, where its forward does not say', _own),
    Case("tensors", "a dict of tensors", HOW, _tensors),
]
