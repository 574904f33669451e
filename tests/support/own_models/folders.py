"""Folders: of timm and transformers, of a run of training, of an adapter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.explainers.support.saved_models import save_timm, save_transformers
from tests.families import FAMILIES
from tests.support.own_models.case import Case, Given, save_image, save_text, shaken, text_model, vit
from tests.support.own_models.files import _lightning, _timm_training
from tests.support.vocabularies import wordpiece

NAMES = ("bad", "middling", "good")


def _timm(folder: Path) -> Given:
    module = save_timm(folder / "timm")
    return Given(folder / "timm", {}, module)


def _hf(family: str, half: bool = False) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        module = save_transformers(folder / "model", family, half)
        return Given(folder / "model", {}, module.float())

    return make


def _run(folder: Path) -> Given:
    """As transformers' Trainer leaves it, the last checkpoint not the best."""
    for step in (5, 10):
        place = folder / "run" / f"checkpoint-{step}"
        module: Any = shaken(text_model(), f"run-{step}")
        module.config.id2label = dict(enumerate(NAMES))
        save_text(place, module)
        torch.save({"state": {}}, place / "optimizer.pt")
        torch.save({"cpu": torch.get_rng_state()}, place / "rng_state.pth")
        state = {"best_model_checkpoint": "somewhere/run/checkpoint-5", "global_step": step}
        (place / "trainer_state.json").write_text(json.dumps(state))
    (folder / "run" / "runs").mkdir()
    return Given(folder / "run", {}, module)


def _checkpoint(folder: Path) -> Given:
    given = _run(folder)
    return Given(folder / "run" / "checkpoint-10", {}, given.module)


def _without_names(folder: Path) -> Given:
    module = text_model()
    save_text(folder / "model", module)
    (folder / "names.csv").write_text("index,name\n2,good\n0,bad\n1,middling\n")
    return Given(folder / "model", {"labels": folder / "names.csv"}, module)


def _without_tokenizer(folder: Path) -> Given:
    module = text_model()
    save_text(folder / "model", module, tokenizer=False)
    wordpiece().save_pretrained(folder / "base")
    return Given(folder / "model", {"tokenizer": folder / "base"}, module)


def _meaning(**config: Any) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        module = text_model(**config)
        save_text(folder / "model", module)
        return Given(folder / "model", {}, module)

    return make


def _lora_text(folder: Path) -> Given:
    import peft

    save_text(folder / "base", text_model())
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    adapted = peft.get_peft_model(text_model(), config)
    shaken(adapted, "lora")
    adapted.peft_config["default"].base_model_name_or_path = str(folder / "base")
    adapted.save_pretrained(folder / "adapter")
    shutil.rmtree(folder / "base")
    save_text(folder / "base", adapted.unload())  # the base that the adapter was trained over, its frozen weights as they were
    return Given(folder / "adapter", {})


def _lora_image(folder: Path) -> Given:
    import peft

    family = FAMILIES["hf-vit"]
    save_image(folder / "base", family.build(), family.size)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"], init_lora_weights=False)
    adapted = peft.get_peft_model(family.build(), config)
    adapted.save_pretrained(folder / "adapter")
    return Given(folder / "adapter", {"base": folder / "base"}, adapted.get_base_model())


def _timm_run(folder: Path) -> Given:
    place = folder / "output" / "train" / "20260101-test_vit-160"
    place.mkdir(parents=True)
    best, last = vit(), shaken(vit(), "last")
    torch.save(_timm_training(dict(best.state_dict())), place / "model_best.pth.tar")
    torch.save(_timm_training(dict(last.state_dict())), place / "last.pth.tar")
    (place / "args.yaml").write_text("model: test_vit\n")
    return Given(place, {}, best)


def _lightning_run(folder: Path) -> Given:
    place = folder / "lightning_logs" / "version_0" / "checkpoints"
    place.mkdir(parents=True)
    module = vit()
    torch.save(_lightning(dict(module.state_dict())), place / "epoch=1-step=10.ckpt")
    (place.parent / "hparams.yaml").write_text("model_name: test_vit\n")
    return Given(folder / "lightning_logs", {}, module)


def _nested(folder: Path) -> Given:
    """As a zip of a folder is unpacked."""
    module = save_timm(folder / "unpacked" / "my-model")
    return Given(folder / "unpacked", {}, module)


FOLDERS: list[Case] = [
    Case("timm folder", "a folder that timm saved", "its path", _timm, labels=("ant", "bee", "cat", "dog", "eel")),
    Case("ViT folder", "a ViT that transformers saved", "its path", _hf("hf-vit")),
    Case("BERT folder", "a BERT folder with `id2label`", "its path", _hf("bert"), kind="text", labels=NAMES),
    Case("half folder", "a folder in float16", "its path; explained in float32", _hf("bert", half=True), kind="text", labels=NAMES),
    Case(
        "run",
        "a run of transformers' Trainer",
        "its path: the newest whole checkpoint, and which one is best is said",
        _run,
        kind="text",
        labels=NAMES,
        guess="calls checkpoint-5 its best",
    ),
    Case("checkpoint", "`checkpoint-500` with optimizer and random state", "its path", _checkpoint, kind="text", labels=NAMES),
    Case("no names", "a folder without `id2label`", "`labels=` a .txt, .csv or .json", _without_names, kind="text", labels=NAMES),
    Case(
        "no tokenizer", "a folder without a tokenizer", "`tokenizer=` another folder, or a name of the hub", _without_tokenizer, kind="text"
    ),
    Case(
        "many labels",
        "a folder of many labels (`problem_type`)",
        "its path",
        _meaning(problem_type="multi_label_classification"),
        kind="text",
    ),
    Case("one value", "a folder with one number (regression)", "its path", _meaning(num_labels=1), kind="text"),
    Case(
        "LoRA of a text model",
        "a folder with `adapter_config.json`",
        "its path, where the base model that it names is found",
        _lora_text,
        kind="text",
        needs="peft",
    ),
    Case("LoRA of a ViT", "an adapter whose base has moved, with a head of its own", "`base=` the base model", _lora_image, needs="peft"),
    Case("CLIP folder", "a fine-tuned CLIP folder", "its path", _hf("hf-clip"), kind="clip"),
    Case("SigLIP folder", "a SigLIP folder", "its path", _hf("hf-siglip"), kind="clip"),
    Case("timm run", "a run of timm's train.py", "its path: `model_best.pth.tar`", _timm_run),
    Case("lightning run", "`lightning_logs` with versions", "its path: the newest checkpoint", _lightning_run),
    Case("nested", "a folder in a folder, as a zip has it", "its path", _nested),
]
