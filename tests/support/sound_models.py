"""Tiny classifiers of sounds of transformers with random weights, and the grid of tokens of one second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers as hf

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
CONVOLUTIONS = {"conv_dim": (8,) * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8}


def ast(**more: Any) -> Any:
    return hf.ASTForAudioClassification(hf.ASTConfig(**SMALL, **{"num_mel_bins": 48, "max_length": 104, **more}))


def whisper() -> Any:
    sizes = {"d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 16}
    config = hf.WhisperConfig(**sizes, decoder_layers=1, decoder_attention_heads=2, num_mel_bins=16, max_source_positions=50)
    return hf.WhisperForAudioClassification(config)


#: Each family by its name: how a model is made, and the rows and columns of tokens of one second.
SOUND_FAMILIES: dict[str, tuple[Callable[[], Any], tuple[int, int]]] = {
    "AST": (ast, (4, 9)),
    "Wav2Vec2": (lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**SMALL, **CONVOLUTIONS)), (1, 49)),
    "HuBERT": (lambda: hf.HubertForSequenceClassification(hf.HubertConfig(**SMALL, **CONVOLUTIONS)), (1, 49)),
    "Wav2Vec2, norms in each token": (
        lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**SMALL, **CONVOLUTIONS, feat_extract_norm="layer")),
        (1, 49),
    ),
    "WavLM": (lambda: hf.WavLMForSequenceClassification(hf.WavLMConfig(**SMALL, **CONVOLUTIONS)), (1, 49)),
    "Whisper": (whisper, (1, 50)),
}
