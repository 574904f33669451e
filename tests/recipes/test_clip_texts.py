"""The text side of clip: the pruned encoder, and the words that it learns."""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before transformers)

# isort: split
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from recipes import clip_texts
from recipes.data import prompts
from recipes.data.held_out import HELD_OUT
from recipes.evaluation import clip as on_clip
from recipes.networks import text_tower
from recipes.networks.pruning import SPECIAL_TOKENS
from tests.recipes.support.tiny_encoder import LETTERS, PIECES, VOCABULARY, WORDS


def test_the_vocabulary_keeps_letters_and_what_is_near() -> None:
    tokenizer = Tokenizer(models.WordPiece({piece: index for index, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    table = torch.randn(len(PIECES), 8, generator=torch.Generator().manual_seed(0))
    table[PIECES.index("kitten")] = table[PIECES.index("cat")] + 0.01
    letters = len(SPECIAL_TOKENS) + 2 * len(LETTERS) + 1
    kept = text_tower.vocabulary_near(["cat"], tokenizer, table, letters + 1)
    assert kept == [piece for piece in PIECES if len(piece.removeprefix("##")) == 1 or piece in (*SPECIAL_TOKENS, "cat")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tower, "FREQUENT_PIECES", 2)
        patch.setattr(text_tower, "CONTINUING_PIECES", 0)
        kept = text_tower.vocabulary_near(["cat"], tokenizer, table, letters + 4)
    assert [piece for piece in kept if piece in WORDS and len(piece) > 1] == ["the", "dog", "cat", "kitten"]


def test_the_text_tower_means_the_average_of_all_tokens(encoder: Path) -> None:
    tower, tokenizer = text_tower.new_tower(encoder, ["dog"], 70)
    assert tower.config.num_hidden_layers == len(tower.encoder.layer) == 3  # one of three left out, one added
    texts = ["a photo of a dog", "cat"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        tokens = tower(**inputs, output_hidden_states=True).hidden_states[-2]
    mask = inputs["attention_mask"][..., None]
    average = (tokens * mask).sum(1) / mask.sum(1)
    read = text_tower.read(tower, tokenizer, texts)
    assert F.cosine_similarity(read, average - average.mean(1, keepdim=True)).min() > 0.999
    text_tower.centre_(tower, read)
    with torch.inference_mode():
        pooled = tower(**inputs).pooler_output
    torch.testing.assert_close(pooled / text_tower.POOLER_SCALE, read - read.mean(0), atol=2e-2, rtol=2e-2)


@pytest.fixture(scope="module")
def texts(encoder: Path) -> clip_texts.Texts:
    """A text side that has learned nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WORDINGS", "KIND_WORDINGS"):
            patch.setattr(clip_texts, name, 1)
        return clip_texts.new_texts(encoder, VOCABULARY)


def test_synonyms_stand_for_one_class_and_are_none_that_the_evaluation_asks_about() -> None:
    pairs = clip_texts.synonyms()
    assert len(pairs) > 700
    assert ("green mamba", prompts.words().names.index("green mamba")) not in pairs  # a class's own name
    for word, index in pairs:
        assert word.casefold() not in HELD_OUT
        assert on_clip.known_classes()[word] == [index]
        assert on_clip.is_synonym(word, [index])


def test_a_lesson_says_what_its_prompts_are_about(texts: clip_texts.Texts) -> None:
    first, again = (next(clip_texts.lessons(texts, 0, 3)) for _ in range(2))
    assert first.prompts == again.prompts
    assert len(first.prompts) == len(first.synonyms) + len(first.groups) + len(first.held)
    words = dict(clip_texts.synonyms())
    for prompt, index in zip(first.prompts, first.synonyms.tolist(), strict=False):
        assert any(word in prompt and words[word] == index for word in words)
    torch.testing.assert_close(first.groups.sum(1), torch.ones(len(first.groups)))
    for prompt, row in zip(first.prompts[len(first.synonyms) :], first.groups, strict=False):
        members = set(torch.nonzero(row).flatten().tolist())
        assert any(set(group.tolist()) == members and prompts.words().names[place] in prompt for place, group in prompts.words().groups)
    held = first.prompts[-len(first.held) :]
    torch.testing.assert_close(first.held, clip_texts.embed_prompts(texts, held), rtol=1e-4, atol=1e-4)
    assert not {word for prompt in first.prompts for word in re.findall(r"\w+", prompt)} & HELD_OUT


def test_words_are_learned_and_the_rest_stays(texts: clip_texts.Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = clip_texts.synonyms()[:10]
    for name, value in (
        ("SYNONYMS", 10),
        ("GROUPS", 2),
        ("LABELS", 4),
        ("OTHERS", 4),
        ("SCENES", 4),
        ("WORDINGS", 1),
        ("KIND_WORDINGS", 1),
        ("RATE", 3e-3),
    ):
        monkeypatch.setattr(clip_texts, name, value)
    monkeypatch.setattr(clip_texts, "synonyms", lambda: few)
    before = {name: value.clone() for name, value in texts.tower.state_dict().items()}
    learned = clip_texts.teach_words(texts, 20, 0, tmp_path / "words.pt")
    names = texts.names()[:1000]

    def nearness(side: clip_texts.Texts) -> float:
        found = clip_texts.embed_prompts(side, [f"a photo of a {word}" for word, _ in few]).detach()
        return float((found * names[[index for _, index in few]]).sum(1).mean())

    assert nearness(learned) > nearness(texts) + 0.05
    assert all(torch.equal(value, before[name]) for name, value in texts.tower.state_dict().items())
    changed = {name for name, value in learned.tower.state_dict().items() if not torch.equal(value, before[name])}
    assert "encoder.layer.0.output.dense.weight" in changed
    assert "embeddings.word_embeddings.weight" in changed
    last = f"encoder.layer.{len(texts.tower.encoder.layer) - 1}."
    assert not [name for name in changed if name.startswith((last, "pooler", "embeddings.position", "embeddings.LayerNorm"))]
    assert not (tmp_path / "words.pt").exists()
