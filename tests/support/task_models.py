"""Tiny random models with a task, whose outputs are more than one row of logits, and one of clips."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

import explainers
from explainers.models.inputs.images import Preprocessing
from tests.families import FAMILIES
from tests.support import detectors
from tests.support.vocabularies import byte_level, wordpiece

# isort: split
from tokenizers import processors
from transformers import (
    ASTConfig,
    ASTForAudioClassification,
    BeitConfig,
    BeitForSemanticSegmentation,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForTokenClassification,
    CLIPVisionConfig,
    Dinov2Config,
    Dinov2Model,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    VideoMAEConfig,
    VideoMAEForVideoClassification,
    YolosConfig,
    YolosForObjectDetection,
)

SIZE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = "the good movie, not a bad film"


@cache
def token_classifier() -> explainers.Model:
    """Calls words O or LOC."""
    torch.manual_seed(0)
    tokenizer = wordpiece(30)
    labels: dict[str, Any] = {"num_labels": 2, "id2label": {0: "O", 1: "LOC"}}
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=32, **labels, **SIZE)
    return explainers.wrap(BertForTokenClassification(config).eval(), name="names", tokenizer=tokenizer, device="cpu")


@cache
def backbone() -> explainers.Model:
    """Features of a picture of 4 x 4 patches."""
    torch.manual_seed(0)
    module = Dinov2Model(Dinov2Config(image_size=56, patch_size=14, mlp_ratio=2, **SIZE)).eval()
    return explainers.wrap(module, name="backbone", preprocess=Preprocessing(resize=(56, 56), fit="squash"), device="cpu")


@cache
def masked() -> explainers.Model:
    """Says which word is at a mask."""
    torch.manual_seed(0)
    tokenizer = wordpiece(30)
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=32, **SIZE)
    return explainers.wrap(BertForMaskedLM(config).eval(), name="masked", tokenizer=tokenizer, device="cpu")


@cache
def question_answerer() -> explainers.Model:
    """Finds the answer to a question in a text."""
    torch.manual_seed(0)
    tokenizer = wordpiece(40)
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=64, max_position_embeddings=40, **SIZE)
    return explainers.wrap(BertForQuestionAnswering(config).eval(), name="questions", tokenizer=tokenizer, device="cpu")


@cache
def writer() -> explainers.Model:
    """Goes on with a text by four tokens, of whole words."""
    torch.manual_seed(0)
    tokenizer = byte_level(40)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    size: Any = {"n_positions": 40, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 2, "eos_token_id": 3}
    module: Any = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), initializer_range=0.3, **size)).eval()
    module.generation_config.max_new_tokens = 4
    with torch.no_grad():
        module.lm_head.weight[:270] *= 0.1  # it writes words, as its bytes hardly count
    return explainers.wrap(module, name="writer", tokenizer=tokenizer, device="cpu")


@cache
def llama() -> explainers.Model:
    """Goes on with a text by three tokens; it has no biases."""
    torch.manual_seed(0)
    tokenizer = byte_level(40)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    ends: Any = {"bos_token_id": 2, "eos_token_id": 3, "num_key_value_heads": 2, "max_position_embeddings": 40}
    config = LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.3, intermediate_size=64, **ends, **SIZE)
    module: Any = LlamaForCausalLM(config).eval()
    module.generation_config.max_new_tokens = 3
    return explainers.wrap(module, name="llama", tokenizer=tokenizer, device="cpu")


@cache
def picture_writer() -> explainers.Model:
    """Goes on with a picture of 4 x 4 patches and a text by four tokens, of whole words."""
    torch.manual_seed(0)
    tokenizer = byte_level(60)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    shape: Any = {**SIZE, "intermediate_size": 64}
    vision = CLIPVisionConfig(image_size=32, patch_size=8, projection_dim=32, **shape)
    ends: Any = {"bos_token_id": 2, "eos_token_id": 3, "num_key_value_heads": 2, "max_position_embeddings": 64}
    text = LlamaConfig(vocab_size=len(tokenizer), initializer_range=0.3, **ends, **shape)
    image = tokenizer.convert_tokens_to_ids("<image>")
    module: Any = LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_id=image)).eval()
    module.generation_config.max_new_tokens = 4
    with torch.no_grad():
        module.lm_head.weight[:270] *= 0.1  # it writes words, as its bytes hardly count
        module.lm_head.weight[image] = 0
    preprocess = Preprocessing(resize=(32, 32), fit="squash")
    return explainers.wrap(module, name="picture-writer", tokenizer=tokenizer, preprocess=preprocess, device="cpu")


@cache
def detector() -> explainers.Model:
    """Five boxes in a picture of 64 x 64 pixels."""
    torch.manual_seed(3)
    config = YolosConfig(intermediate_size=64, image_size=[64, 64], num_detection_tokens=5, id2label={0: "dog", 1: "cat"}, **SIZE)
    module = YolosForObjectDetection(config).eval()
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1 or name.endswith("detection_tokens"):
            torch.nn.init.normal_(parameter, std=0.3)  # so that boxes differ
    return explainers.wrap(module, name="boxes", preprocess=Preprocessing(resize=(64, 64), fit="squash"), device="cpu")


@cache
def points_detector() -> explainers.Model:
    """Six boxes in a picture of 64 x 64 pixels, of a model that reads maps of several sizes at points that it chooses."""
    recipe = Preprocessing(resize=(64, 64), fit="squash")
    return explainers.wrap(detectors.detector("RTDetrForObjectDetection", torch.float32), name="points", preprocess=recipe, device="cpu")


@cache
def segmenter() -> explainers.Model:
    """Four classes for the pixels of a picture of 64 x 64."""
    torch.manual_seed(0)
    labels = {0: "background", 1: "dog", 2: "grass", 3: "sky"}
    size = {**SIZE, "num_hidden_layers": 4, "intermediate_size": 64, "image_size": 64}
    config = BeitConfig(**size, out_indices=[1, 2, 3, 4], use_relative_position_bias=True, id2label=labels)
    module = BeitForSemanticSegmentation(config).eval()
    return explainers.wrap(module, name="regions", preprocess=Preprocessing(resize=(64, 64), fit="squash"), device="cpu")


@cache
def clip_classifier() -> explainers.Model:
    """Three classes for a clip of 8 frames of 64 x 64 pixels: tokens of 4 times, 4 rows and 4 columns."""
    torch.manual_seed(0)
    labels = {0: "running", 1: "jumping", 2: "sitting"}
    config = VideoMAEConfig(intermediate_size=64, image_size=64, patch_size=16, num_frames=8, tubelet_size=2, id2label=labels, **SIZE)
    module = VideoMAEForVideoClassification(config).eval()
    return explainers.wrap(module, name="clips", preprocess=Preprocessing(resize=(64, 64), fit="squash"), device="cpu")


@cache
def sound_classifier() -> explainers.Model:
    """Three classes for a second of sound, by 4 x 9 patches of a spectrogram that overlap."""
    torch.manual_seed(0)
    labels = {0: "dog", 1: "rain", 2: "speech"}
    module = ASTForAudioClassification(ASTConfig(intermediate_size=64, num_mel_bins=48, max_length=104, id2label=labels, **SIZE))
    return explainers.wrap(module.eval(), name="sounds", device="cpu")


#: A chat template in words that the tiny tokenizers know.
TEMPLATE = "{% for m in messages %}the {{ m['content'] }} is{% endfor %}{% if add_generation_prompt %} a{% endif %}"


def chatting(model: explainers.Model, template: str = TEMPLATE) -> explainers.Model:
    """A copy of a model that writes, whose tokenizer has a chat template."""
    twin = copy.deepcopy(model)
    twin.task.tokenizer.chat_template = template  # type: ignore[union-attr]
    return twin.rebuild()


class Heads(nn.Module):
    """A species and a weight of what is in a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.species, self.weight = FAMILIES["vit"].build(), nn.Linear(5, 3), nn.Linear(5, 1)

    def forward(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """An output each."""
        trunk = self.trunk(pixel_values)
        return {"species": self.species(trunk), "weight": self.weight(trunk)}


@cache
def heads() -> explainers.Model:
    """Says several things of a picture, one of them a value."""
    torch.manual_seed(0)
    labels = {"species": ["cat", "dog", "fox"], "weight": ["weight (kg)"]}
    preprocess = Preprocessing(resize=(32, 24), fit="squash")
    return explainers.wrap(Heads().eval(), name="heads", kind="image", preprocess=preprocess, labels=labels, device="cpu")
