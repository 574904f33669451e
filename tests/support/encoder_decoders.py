"""Tiny random encoder-decoders of transformers' real classes."""

from __future__ import annotations

from typing import Any

import torch

import explainers  # before transformers
from tests.support.vocabularies import wordpiece

# isort: split
import transformers as hf

_BART: dict[str, Any] = {
    **{"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 24, "init_std": 0.3},
    **{"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3, "forced_eos_token_id": None},
}
_T5: dict[str, Any] = {
    **{"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 2},
    **{"pad_token_id": 1, "eos_token_id": 3, "decoder_start_token_id": 1},
}
_PROPHETNET: dict[str, Any] = {
    **{"hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_encoder_attention_heads": 2},
    **{"num_decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 24, "ngram": 2},
    **{"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3},
}
#: Names of transformers' classes of encoder-decoders that write, and of those that classify or answer a question.
WRITERS = ("T5ForConditionalGeneration", "BartForConditionalGeneration", "MarianMTModel")
REREADERS = ("BartForSequenceClassification", "MBartForSequenceClassification", "T5ForSequenceClassification")
WRITTEN = 5  # tokens of an answer


def tokenizer() -> Any:
    """The tokenizer of all of them."""
    return wordpiece(24)


def encoder_decoder(name: str) -> Any:
    """A module of the class ``name`` with random weights; one that writes does so in words, :data:`WRITTEN` tokens of them."""
    torch.manual_seed(0)
    made = getattr(hf, name)
    shape = _T5 if "T5" in name else _PROPHETNET if "Prophet" in name else _BART
    module = made(made.config_class(vocab_size=len(tokenizer()), num_labels=3, **shape)).eval()
    if module.can_generate():
        module.generation_config.max_new_tokens = WRITTEN
        with torch.no_grad():  # words of more than one letter alone
            module.lm_head.weight = torch.nn.Parameter(torch.randn_like(module.lm_head.weight))
            module.config.tie_word_embeddings = False
            words = [piece.isalpha() and len(piece) > 1 for piece in tokenizer().convert_ids_to_tokens(range(len(tokenizer())))]
            module.lm_head.weight[~torch.tensor(words)] = 0
    return module


def translator() -> explainers.Model:
    """A tiny T5 that writes five words."""
    return explainers.wrap(encoder_decoder("T5ForConditionalGeneration"), name="translator", tokenizer=tokenizer(), device="cpu")


def first_inputs(module: Any) -> tuple[Any, Any]:
    """The first layer of the encoder and that of the decoder, whose first arguments are the embedded tokens."""
    stacks = module.get_encoder(), module.get_decoder()
    first, second = ((stack.block if hasattr(stack, "block") else stack.layers)[0] for stack in stacks)
    return first, second


#: Encoders of the pictures that writers of a picture have here, each with its configuration; widths differ from the decoder's or not.
PICTURE_SIDE, PATCH_SIDE = 32, 8
_VISION: dict[str, Any] = {
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "image_size": PICTURE_SIDE, "patch_size": PATCH_SIDE},
    "initializer_range": 0.2,
}
_TROCR: dict[str, Any] = {
    **{"decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 48, "max_position_embeddings": 24, "init_std": 0.3},
    **{"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3, "d_model": 32},
}
PICTURE_ENCODERS: dict[str, Any] = {
    "TrOCR": lambda: (hf.ViTConfig(hidden_size=32, **_VISION), hf.TrOCRConfig(**_TROCR)),
    "TrOCR, wider encoder": lambda: (hf.ViTConfig(hidden_size=48, **_VISION), hf.TrOCRConfig(**_TROCR, cross_attention_hidden_size=48)),
    "DeiT and BERT": lambda: (
        hf.DeiTConfig(hidden_size=24, **_VISION),
        hf.BertConfig(
            **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "initializer_range": 0.3},
            **{"max_position_embeddings": 24, "is_decoder": True, "add_cross_attention": True},
        ),
    ),
}

PICTURE_ENCODERS["ViT and GPT-2"] = lambda: (
    hf.ViTConfig(hidden_size=32, **_VISION),
    hf.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=24, add_cross_attention=True, initializer_range=0.2, bos_token_id=3),
)


def picture_writer(name: str = "TrOCR") -> Any:
    """A module of :data:`PICTURE_ENCODERS` with random weights that writes :data:`WRITTEN` words about a picture."""
    torch.manual_seed(0)
    encoder, decoder = PICTURE_ENCODERS[name]()
    decoder.vocab_size = len(tokenizer())
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 3, 1, 3
    module = hf.VisionEncoderDecoderModel(config).eval()
    return _writes_words(module, module.decoder.get_output_embeddings())


def _writes_words(module: Any, head: Any) -> Any:
    """Return ``module`` with a random ``head`` that gives words of more than one letter alone; None: the one of the module."""
    head = module.get_output_embeddings() if head is None else head
    config = module.generation_config
    config.max_new_tokens, config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = WRITTEN, 3, 1, 3
    with torch.no_grad():
        head.weight = torch.nn.Parameter(torch.randn_like(head.weight))
        words = [piece.isalpha() and len(piece) > 1 for piece in tokenizer().convert_ids_to_tokens(range(len(tokenizer())))]
        head.weight[~torch.tensor(words)] = 0
    return module


#: The frames of the spectrogram of a writer of sounds, and the seconds that they are.
SOUND_BANDS, SOUND_FRAMES, SOUND_SECONDS = 16, 100, 1


def sound_writer(**more: Any) -> Any:
    """A tiny Whisper with random weights that writes :data:`WRITTEN` words about a sound of one second."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_target_positions": 24, "init_std": 0.2}
    ids = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3, "suppress_tokens": None}
    config = hf.WhisperConfig(
        vocab_size=len(tokenizer()), num_mel_bins=SOUND_BANDS, max_source_positions=SOUND_FRAMES // 2, begin_suppress_tokens=None,
        **sizes, **heads, **ids,
    )  # fmt: skip
    module = _writes_words(hf.WhisperForConditionalGeneration(config).eval(), None)
    for name, value in more.items():
        setattr(module.generation_config, name, value)
    return module


def sound_extractor() -> Any:
    """The feature extractor of the tiny Whisper."""
    return hf.WhisperFeatureExtractor(feature_size=SOUND_BANDS, chunk_length=SOUND_SECONDS)
