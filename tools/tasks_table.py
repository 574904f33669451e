"""The table of tasks in ``docs/model_tables.md``, made by asking each model at each kind of place: ``python -m tools.tasks_table``.

Models are tiny, of the families that people load from the hub, with random weights; what is measured is which methods run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import explainers
from explainers.methods import METHODS
from explainers.models.inputs.images import Preprocessing
from explainers.models.inputs.types import PicturePromptInput
from explainers.models.model import Model
from explainers.pipeline.places import ask_at, runnable_specs
from tests.support.detectors import ASKED_WITH_TEXTS, DETECTORS, OwnDetector, boxes_and_scores, detector, words_of
from tests.support.encoder_decoders import (
    PICTURE_ENCODERS,
    WRITERS,
    encoder_decoder,
    sound_extractor,
    sound_writer,
)
from tests.support.encoder_decoders import picture_writer as written_from_picture
from tests.support.encoder_decoders import tokenizer as words_of_writers
from tests.support.picture_models import FAMILIES, Made, build
from tests.support.sound_models import SOUND_FAMILIES
from tests.support.task_models import TEXT, Heads, picture_writer
from tests.support.vocabularies import byte_level, wordpiece
from vitrine_server.commands.text_tables import markdown_table

# isort: split
import transformers as hf

PAGE = Path(__file__).resolve().parent.parent / "docs" / "model_tables.md"
HEADINGS = ("task", "model", "tokens", "methods that run, by place")
_BLOCK = re.compile(r"(<!-- tasks -->\n).*?(<!-- end of tasks -->)", re.DOTALL)
SIZE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
DETR: dict[str, Any] = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_queries": 5},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2},
}
VIT = {**SIZE, "image_size": 64, "patch_size": 16}
CLIP = {**SIZE, "image_size": 64, "num_frames": 4}
WORDS = {**SIZE, "max_position_embeddings": 66}
PAIR = explainers.TextPair("good film?", TEXT)
MASKED = "the [MASK] film"
SOUND = explainers.Sound(np.sin(np.arange(16000) / 20).astype(np.float32), 16000)
FRAMES = explainers.Clip([Image.effect_noise((64, 64), 40 + 10 * i).convert("RGB") for i in range(4)])
PICTURE = Image.effect_noise((64, 64), 80).convert("RGB")


def _trunk() -> dict[str, Any]:
    trunk = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, layer_type="basic", out_features=["stage4"])
    return {"backbone_config": trunk, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}


def _maker(name: str, config: Any, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(hf, name)(config(**settings))


def _picture_maker(name: str, make: Callable[[], Made]) -> Callable[[], Model]:
    def wrapped() -> Model:
        module, processor = build(make)
        return explainers.wrap(module, name=name, preprocess=processor)

    return wrapped


SQUARE = Preprocessing(resize=(64, 64), fit="squash")


def _box_maker(name: str) -> Model:
    return explainers.wrap(detector(name, torch.float32), name=name, preprocess=SQUARE)


def _source_maker(name: str) -> Model:
    square = Preprocessing(resize=(32, 32), fit="squash")
    return explainers.wrap(written_from_picture(name), name=name, tokenizer=words_of_writers(), preprocess=square)


def _sound_writer_maker() -> Model:
    return explainers.wrap(sound_writer(), name="Whisper", tokenizer=words_of_writers(), preprocess=sound_extractor())


def _text_box_maker(name: str) -> Model:
    labels = ["a good film", "bad dog"]
    return explainers.wrap(detector(name, torch.float32), name=name, labels=labels, tokenizer=words_of(name), preprocess=SQUARE)


def _word_box_maker(name: str) -> Model:
    return explainers.wrap(detector(name, torch.float32), name=name, picture=PICTURE, tokenizer=words_of(name), preprocess=SQUARE)


def _own_box_maker() -> Model:
    return explainers.wrap(
        OwnDetector().eval(), name="a detector", boxes=boxes_and_scores, labels=["dog", "cat", "bird"], preprocess=SQUARE
    )


def _segformer() -> dict[str, Any]:
    return {"hidden_sizes": [16, 16, 32, 32], "depths": [1] * 4, "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}


@dataclass(frozen=True)
class TaskCase:
    """A model of one task with an input, to be explained at several places of its output.

    name         name of the architecture in the table
    make         makes the model, with random weights
    model_input  what the model is given
    places       the places of its output that are asked about; (None,) for a model without places
    tokenizer    function from the size of a vocabulary to a tokenizer
    """

    name: str
    make: Callable[[], nn.Module | Model]
    model_input: Any
    places: tuple[str | None, ...]
    tokenizer: Callable[[int], Any] = wordpiece


def _of_words(ending: str, given: Any, places: tuple[str, ...], families: Mapping[str, Any]) -> list[TaskCase]:
    return [TaskCase(f"{name}{ending}", _maker(f"{name}{ending}", config), given, places) for name, config in families.items()]


def _words(name: str, **more: Any) -> Callable[[], Any]:
    return lambda: getattr(hf, f"{name}Config")(vocab_size=len(wordpiece(60)), **WORDS, **more)


BERTS = {
    "Bert": _words("Bert"),
    "Roberta": _words("Roberta", pad_token_id=0),
    "XLMRoberta": _words("XLMRoberta", pad_token_id=0),
    "DebertaV2": _words("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16, share_att_key=True),
    "ModernBert": _words("ModernBert", pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3),
}
BACKBONE = ("features", "mean", "patch:1,2", "component:1")
TASK_CASES = [
    *_of_words("ForTokenClassification", TEXT, ("movie", "tokens:1-3"), BERTS),
    *_of_words("ForQuestionAnswering", PAIR, ("start", "answer"), {name: make for name, make in BERTS.items() if name != "ModernBert"}),
    *_of_words("ForMaskedLM", MASKED, ("mask",), BERTS),
    TaskCase(
        "GPT2LMHeadModel",
        _maker("GPT2LMHeadModel", hf.GPT2Config, vocab_size=len(byte_level(40)), n_positions=80, n_embd=32, n_layer=2, n_head=2),
        TEXT,
        ("answer",),
        byte_level,
    ),
    *(TaskCase(name, partial(encoder_decoder, name), TEXT, ("answer", "words")) for name in WRITERS),
    *(
        TaskCase(f"VisionEncoderDecoderModel: {name}", partial(_source_maker, name), PICTURE, ("answer", "words"))
        for name in PICTURE_ENCODERS
        if "wider" not in name
    ),
    TaskCase("WhisperForConditionalGeneration", _sound_writer_maker, SOUND, ("answer", "words")),
    TaskCase(
        "LlavaForConditionalGeneration", picture_writer, explainers.PicturePrompt(PICTURE, "a good film, not a bad movie"), ("answer",)
    ),
    *(
        TaskCase(name, _picture_maker(name, make), explainers.PicturePrompt(PICTURE, "a good film, not a bad movie"), ("answer",))
        for name, (make, _) in FAMILIES.items()
    ),
    TaskCase("Dinov2Model", _maker("Dinov2Model", hf.Dinov2Config, **{**VIT, "mlp_ratio": 2}), PICTURE, BACKBONE),
    TaskCase("Dinov2WithRegistersModel", _maker("Dinov2WithRegistersModel", hf.Dinov2WithRegistersConfig, **VIT), PICTURE, BACKBONE),
    TaskCase("DINOv3ViTModel", _maker("DINOv3ViTModel", hf.DINOv3ViTConfig, **VIT, num_register_tokens=4), PICTURE, BACKBONE),
    TaskCase(
        "SegformerForSemanticSegmentation",
        _maker("SegformerForSemanticSegmentation", hf.SegformerConfig, **_segformer()),
        PICTURE,
        ("region:0,0,0.5,1",),
    ),
    TaskCase(
        "BeitForSemanticSegmentation",
        _maker("BeitForSemanticSegmentation", hf.BeitConfig, **{**VIT, "num_hidden_layers": 4}, out_indices=[1, 2, 3, 4]),
        PICTURE,
        ("region:0,0,0.5,1",),
    ),
    TaskCase(
        "YolosForObjectDetection",
        _maker("YolosForObjectDetection", hf.YolosConfig, **{**VIT, "image_size": [64, 64]}, num_detection_tokens=5),
        PICTURE,
        ("box:0", "box:0/left"),
    ),
    *(
        TaskCase(
            f"{name}ForObjectDetection",
            _maker(f"{name}ForObjectDetection", getattr(hf, f"{name}Config"), **_trunk(), **DETR),
            PICTURE,
            ("box:0", "box:0/left"),
        )
        for name in ("Detr", "ConditionalDetr", "TableTransformer")
    ),
    *(TaskCase(name, partial(_box_maker, name), PICTURE, ("box:0", "box:0/left")) for name in DETECTORS),
    *(TaskCase(name, partial(_text_box_maker, name), PICTURE, ("box:0", "box:0/left")) for name in ASKED_WITH_TEXTS),
    *(TaskCase(f"{name}, asked about a text", partial(_word_box_maker, name), "not a good film", ("box:0",)) for name in ASKED_WITH_TEXTS),
    TaskCase("a module of one's own with boxes=", _own_box_maker, PICTURE, ("box:0", "box:0/left")),
    TaskCase("a module of one's own with two outputs", Heads, PICTURE, ("species", "weight")),
    TaskCase("VideoMAEForVideoClassification", _maker("VideoMAEForVideoClassification", hf.VideoMAEConfig, **CLIP), FRAMES, (None,)),
    TaskCase(
        "VivitForVideoClassification",
        _maker("VivitForVideoClassification", hf.VivitConfig, **CLIP, tubelet_size=[2, 16, 16]),
        FRAMES,
        (None,),
    ),
    TaskCase(
        "VJEPA2ForVideoClassification",
        _maker(
            "VJEPA2ForVideoClassification",
            hf.VJEPA2Config,
            **{
                **SIZE,
                "crop_size": 64,
                "frames_per_clip": 4,
                "pred_hidden_size": 16,
                "pred_num_attention_heads": 2,
                "num_pooler_layers": 1,
            },
            pred_num_hidden_layers=1,
        ),
        FRAMES,
        (None,),
    ),
    *(TaskCase(name, make, SOUND, (None,)) for name, make in {type(make()).__name__: make for make, _ in SOUND_FAMILIES.values()}.items()),
]


def wrap(asked: TaskCase) -> Model:
    """Return the model of the case ``asked``, built with random weights and wrapped."""
    torch.manual_seed(0)
    module = asked.make()
    if isinstance(module, Model):
        return module
    module.eval()
    if isinstance(asked.model_input, explainers.Sound):
        return explainers.wrap(module, name=asked.name)
    if isinstance(asked.model_input, str | explainers.TextPair):
        return explainers.wrap(module, name=asked.name, tokenizer=asked.tokenizer(40 if asked.tokenizer is byte_level else 60))
    size = (32, 24) if isinstance(module, Heads) else (64, 64)
    return explainers.wrap(module, name=asked.name, kind="image", preprocess=Preprocessing(resize=size, fit="squash"))


def row_of(model: Model, asked: TaskCase) -> tuple[str, str, str, str]:
    """Return the row of ``model``, asked as in the case ``asked``, in the table of tasks: task, name of the case, tokens, and the number of
    methods that run at each place.
    """
    shown = []
    for at in asked.places:
        placed, given = ask_at(model, asked.model_input, at, None)
        specs, _ = runnable_specs(list(METHODS), placed, given)
        shown.append(f"{'' if at is None else f'`{at}` '}{len(specs)}")
    grid, frames = model.details["grid"], model.details["frames"]
    times = "" if frames is None else f" of {frames} frames"
    pictures, record = model.details["picture_grid"], given.inputs[0]
    tiles = f" of {len(record.tiles)} tiles" if isinstance(record, PicturePromptInput) and record.tiles else ""
    if isinstance(record, PicturePromptInput):
        pictures = record.grid
    and_patches = "" if pictures is None else f" and {pictures[0]} x {pictures[1]} patches{tiles}"
    tokens = f"word pieces{and_patches}" if grid is None else f"{grid[0]} x {grid[1]} patches{times}"
    of_sounds = model.details.get("sound_rate") is not None
    task = model.task.name if model.task is not None else "audio-classification" if of_sounds else "video-classification"
    return task, f"`{asked.name}`", tokens, ", ".join(shown)


def markdown() -> str:
    """Return the whole table."""
    return markdown_table(HEADINGS, [row_of(wrap(asked), asked) for asked in TASK_CASES])


def main() -> None:
    """Write the table into ``docs/model_tables.md``."""
    PAGE.write_text(_BLOCK.sub(lambda block: f"{block[1]}{markdown()}\n{block[2]}", PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
