"""Tokenizers without character offsets: the places of their tokens in the text, and the words."""

from __future__ import annotations

import explainers  # isort: skip  (before torchvision)

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EsmConfig,
    EsmForMaskedLM,
    EsmForSequenceClassification,
    EsmForTokenClassification,
    EsmTokenizer,
    PreTrainedTokenizer,
)

from explainers import ExplainerError, TextPair
from explainers.models.inputs.slow_tokenizers import spans_of, with_offsets

WORDS = [
    "[UNK]",
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "not",
    "a",
    "good",
    "bad",
    "film",
    "movie",
    "un",
    "##like",
    "##ly",
    ",",
    ".",
    "is",
    "cafe",
]


class Pieces(PreTrainedTokenizer):
    """Pieces of words as BERT has them, written in Python."""

    vocab_files_names: ClassVar[dict[str, str]] = {}

    def __init__(self, **more: Any) -> None:
        self.ids = {word: i for i, word in enumerate(WORDS)}
        names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
        super().__init__(**names, model_max_length=16, **more)

    @property
    def vocab_size(self) -> int:
        return len(self.ids)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.ids)

    def _tokenize(self, text: str, **more: Any) -> list[str]:
        plain = text.lower().replace("é", "e").replace(".", " . ").replace(",", " , ")
        return [piece for word in plain.split() for piece in (["un", "##like", "##ly"] if word == "unlikely" else [word])]

    def _convert_token_to_id(self, token: str) -> int:
        return self.ids.get(token, 0)

    def _convert_id_to_token(self, index: int) -> str:
        return WORDS[index]

    def build_inputs_with_special_tokens(self, token_ids_0: list[int], token_ids_1: list[int] | None = None) -> list[int]:
        return [2, *token_ids_0, 3] + ([] if token_ids_1 is None else [*token_ids_1, 3])

    def get_special_tokens_mask(self, token_ids_0: Any, token_ids_1: Any = None, already_has_special_tokens: bool = False) -> list[int]:
        return [1, *[0] * len(token_ids_0), 1] + ([] if token_ids_1 is None else [*[0] * len(token_ids_1), 1])


def model() -> Any:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=16
    )
    return explainers.wrap(BertForSequenceClassification(config).eval(), tokenizer=Pieces())


def words(anything: Any) -> list[tuple[str, int, int]]:
    result = explainers.explain(model(), anything, 0, ["input_x_gradient"])
    result = result[0] if isinstance(result, list) else result
    return [(word.text, word.start, word.end) for word in result.maps[0].words()]


def test_words_have_their_places_whatever_case_accents_and_unknown_words() -> None:
    text = "Unlikely, a zebra Café film."
    assert [text[start:end] for _, start, end in words(text)] == ["Unlikely", ",", "a", "zebra", "Café", "film", "."]


def test_the_texts_of_a_pair_are_told_apart() -> None:
    assert words(TextPair("a good film", "bad movie")) == [("a", 0, 1), ("good", 2, 6), ("film", 7, 11), ("bad", 0, 3), ("movie", 4, 9)]


def test_texts_of_different_length_and_long_ones_are_read() -> None:
    results = explainers.explain(model(), ["a good film", "bad"], 0, ["input_x_gradient"])
    assert [len(each.maps[0].words()) for each in results] == [3, 1]  # type: ignore[union-attr]
    assert len(words("a good film is not a bad movie . " * 4)) == 36


def test_each_residue_of_a_protein_is_a_word(tmp_path: Path) -> None:
    letters = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(letters))
    encoded = with_offsets(EsmTokenizer(str(tmp_path / "vocab.txt")))("MKTA", return_offsets_mapping=True)
    assert encoded["offset_mapping"] == [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (0, 0)]
    assert encoded.word_ids() == [None, 0, 1, 2, 3, None]


@pytest.mark.parametrize("make", [EsmForSequenceClassification, EsmForTokenClassification, EsmForMaskedLM])
def test_a_folder_of_esm_is_explained_by_residues(make: Any, tmp_path: Path) -> None:
    letters = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    (tmp_path / "vocab.txt").write_text("\n".join(letters))
    tokenizer = EsmTokenizer(str(tmp_path / "vocab.txt"))
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ids = {"vocab_size": len(letters), "pad_token_id": 1, "mask_token_id": len(letters) - 1}
    module = make(EsmConfig(**sizes, **ids, position_embedding_type="rotary")).eval()
    module.save_pretrained(tmp_path)
    model = explainers.open(tmp_path)
    assert not model.report.failures  # type: ignore[union-attr]
    protein = "MKTA<mask>IAK" if make is EsmForMaskedLM else "MKTAYIAK"
    found = explainers.explain(model, protein, methods=["input_x_gradient:libra"])
    assert isinstance(found, explainers.Explanation)
    assert [word.text for word in found.input.words] == [*"MKTA", "<mask>" if make is EsmForMaskedLM else "Y", *"IAK"]  # type: ignore[union-attr]
    with torch.no_grad():
        logits = module(**tokenizer(protein, return_tensors="pt")).logits
    assert float((logits - found.targets[0].logit).abs().min()) < 1e-5  # what is explained is among the plain model's


def test_pieces_that_are_not_found_stand_for_what_lies_between_their_neighbours() -> None:
    assert spans_of("a xx yy film", ["a", "", "", "film"]) == [(0, 1), (2, 4), (5, 7), (8, 12)]
    assert spans_of("xx", [""]) == [(0, 2)]


def test_what_is_no_tokenizer_is_refused() -> None:
    with pytest.raises(ExplainerError, match="takes no int"):
        with_offsets(7)
