"""The families that people ask for in public threads, each as a tiny random model of transformers' class, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

import explainers
from explainers import ExplainerError, Preprocessing
from tests.support.detectors import ASKED_WITH_TEXTS, detector, words_of
from tests.support.encoder_decoders import encoder_decoder, picture_writer, sound_extractor, sound_writer, tokenizer
from tests.support.picture_models import FAMILIES, blip2, build
from tests.support.sound_models import SOUND_FAMILIES
from tests.support.vocabularies import wordpiece

# isort: split
import transformers as hf

#: A module, and how it is opened.
Made = tuple[nn.Module, dict[str, Any]]
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
TOWER: dict[str, Any] = {**SMALL, "image_size": 32, "patch_size": 8}


@dataclass(frozen=True)
class AskedFamily:
    """A family that people ask for.

    name   what it is called
    make   makes a tiny module of it, and the arguments with which it is opened
    apart  what else says that it is explained, in the table's words, where it is not opened as a model
    tests  the file of tests that hold it in that case
    """

    name: str
    make: Callable[[], Made] | None = None
    apart: str = ""
    tests: str = ""


def _with_words(name: str) -> Made:
    return encoder_decoder(name), {"tokenizer": tokenizer()}


def _looks(name: str) -> Made:
    module, processor = build(FAMILIES[name][0])
    return module, {"preprocess": processor}


def _detects(name: str) -> Made:
    texts = {"labels": ["a good film", "a dog"], "tokenizer": words_of(name)} if name in ASKED_WITH_TEXTS else {}
    return detector(name), {"preprocess": Preprocessing(resize=(64, 64), fit="squash"), **texts}


def _hears(name: str) -> Made:
    return SOUND_FAMILIES[name][0](), {}


def _blip2() -> Made:
    module, processor = build(blip2)
    return module, {"preprocess": processor}


def _of_words(name: str, config: str, **more: Any) -> Made:
    sizes = {**SMALL, "vocab_size": len(wordpiece()), "max_position_embeddings": 40, **more}
    return getattr(hf, name)(getattr(hf, config)(**sizes)), {"tokenizer": wordpiece(24)}


def _vilt() -> Made:
    config = hf.ViltConfig(**TOWER, vocab_size=len(wordpiece()), pad_token_id=1, id2label={0: "yes", 1: "no"})
    recipe = Preprocessing(resize=None, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    return hf.ViltForQuestionAnswering(config), {"tokenizer": wordpiece(), "preprocess": recipe}


def _blip() -> Made:
    text = {**SMALL, "vocab_size": 30, "encoder_hidden_size": 16}
    config = hf.BlipConfig(text_config=text, vision_config=TOWER, projection_dim=8, image_text_hidden_size=8)
    return hf.BlipForImageTextRetrieval(config), {}


def _clipseg() -> Made:
    text = {**SMALL, "vocab_size": 30, "max_position_embeddings": 16}
    decoder: Any = {"extract_layers": [0], "reduce_dim": 8, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 16}
    return hf.CLIPSegForImageSegmentation(hf.CLIPSegConfig(text_config=text, vision_config=TOWER, projection_dim=8, **decoder)), {}


def _layout() -> Made:
    boxes: Any = {"coordinate_size": 4, "shape_size": 2, "max_2d_position_embeddings": 64}
    return hf.LayoutLMv3ForSequenceClassification(hf.LayoutLMv3Config(**SMALL, vocab_size=30, input_size=32, patch_size=8, **boxes)), {}


def _series() -> Made:
    sizes: Any = {"d_model": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "ffn_dim": 16}
    config = hf.PatchTSTConfig(num_input_channels=2, context_length=32, patch_length=8, **sizes)
    return hf.PatchTSTForClassification(config), {}


_MATCHES = "`late_interaction`: matches and their sum"
_OF_MATCHES = "tests/explainers/analysis/test_late_interaction.py"
ASKED_FAMILIES = (
    AskedFamily("Qwen2-VL", partial(_looks, "Qwen2VLForConditionalGeneration")),
    AskedFamily("Qwen2.5-VL", partial(_looks, "Qwen2_5_VLForConditionalGeneration")),
    AskedFamily("Qwen3-VL", partial(_looks, "Qwen3VLForConditionalGeneration")),
    AskedFamily("LLaVA-NeXT", partial(_looks, "LlavaNextForConditionalGeneration")),
    AskedFamily("LLaVA-OneVision", partial(_looks, "LlavaOnevisionForConditionalGeneration")),
    AskedFamily("InternVL", partial(_looks, "InternVLForConditionalGeneration")),
    AskedFamily("SmolVLM, Idefics3", partial(_looks, "SmolVLMForConditionalGeneration")),
    AskedFamily("Gemma 3", partial(_looks, "Gemma3ForConditionalGeneration")),
    AskedFamily("PaliGemma", partial(_looks, "PaliGemmaForConditionalGeneration")),
    AskedFamily("BLIP-2", _blip2),
    AskedFamily("T5", partial(_with_words, "T5ForConditionalGeneration")),
    AskedFamily("BART", partial(_with_words, "BartForConditionalGeneration")),
    AskedFamily("Marian", partial(_with_words, "MarianMTModel")),
    AskedFamily(
        "TrOCR",
        lambda: (picture_writer(), {"tokenizer": tokenizer(), "preprocess": Preprocessing(resize=(32, 32), fit="squash")}),
    ),
    AskedFamily("Whisper", lambda: (sound_writer(), {"tokenizer": tokenizer(), "preprocess": sound_extractor()})),
    AskedFamily("RT-DETR", partial(_detects, "RTDetrForObjectDetection")),
    AskedFamily("D-FINE", partial(_detects, "DFineForObjectDetection")),
    AskedFamily("Deformable DETR", partial(_detects, "DeformableDetrForObjectDetection")),
    AskedFamily("OWL-ViT, OWLv2", partial(_detects, "Owlv2ForObjectDetection")),
    AskedFamily("Grounding DINO", partial(_detects, "GroundingDinoForObjectDetection")),
    AskedFamily("BLIP-ITM", _blip),
    AskedFamily("ViLT", _vilt),
    AskedFamily("CLIPSeg", _clipseg),
    AskedFamily("LayoutLMv3", _layout),
    AskedFamily("sentence-transformers", partial(_of_words, "BertModel", "BertConfig")),
    AskedFamily("cross-encoders", partial(_of_words, "BertForSequenceClassification", "BertConfig", num_labels=1)),
    AskedFamily("ColBERT", None, _MATCHES, _OF_MATCHES),
    AskedFamily("ColPali", None, _MATCHES, _OF_MATCHES),
    AskedFamily("AST", partial(_hears, "AST")),
    AskedFamily("Wav2Vec2", partial(_hears, "Wav2Vec2")),
    AskedFamily("HuBERT", partial(_hears, "HuBERT")),
    AskedFamily("Whisper's encoder", partial(_hears, "Whisper")),
    AskedFamily("ESM", partial(_of_words, "EsmForSequenceClassification", "EsmConfig", pad_token_id=1, position_embedding_type="rotary")),
    AskedFamily("PatchTST", _series),
)


def outcome_of(asked: AskedFamily) -> tuple[str, str, str]:
    """Open a model of ``asked`` and return a row of the table: the family, the class, and what became of it: that it opens and which of the
    checks of a model it passed, or why it is refused.
    """
    if asked.make is None:
        return asked.name, "", asked.apart
    torch.manual_seed(0)
    module, how = asked.make()
    kind = f"`{type(module).__name__}`"
    try:
        report = explainers.open(module.eval(), **how).report
    except ExplainerError as error:
        return asked.name, kind, f"refused: {str(error).removeprefix(type(module).__name__).strip()}"
    assert report is not None
    states = {check.name: check.state for check in report.checks}
    agrees = "agrees" if states["logits"] == states["gradient"] == "passed" else "does not agree"
    whole = "Libra adds up" if states["completeness"] == "passed" else "Libra does not add up, which each map says"
    return asked.name, kind, f"opens, {agrees}; {whole}"
