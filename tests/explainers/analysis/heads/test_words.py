"""Words of heads: chosen once over pictures, kept in a file that `load` finds, and refused where they would say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from explainers import ExplainerError, head_words
from explainers.analysis.heads.text_span import text_span
from explainers.autograd.recording import Recording
from explainers.embedded.text_bank import texts
from explainers.methods.embedding_parts import EmbeddingParts, text_embeddings
from explainers.models.catalogue import embedded_path
from explainers.models.companion_files.head_words import HEAD_WORDS_FILE, read_head_words
from explainers.models.encoders import encoder
from tests.server.conftest import picture
from tests.server.support.tiny_models import make_tiny
from tests.support.embedded_models import loaded

BANK = ["a good film", "a bad movie", "the plot", "not bad", "well made"]


def test_they_are_those_of_text_span_over_all_pictures(tmp_path: Path) -> None:
    model = make_tiny("clip", "cpu")
    pictures = [picture().rotate(15 * turn) for turn in range(12)]
    seen: list[int] = []
    found = head_words(model, iter(pictures), BANK, count=3, progress=seen.append)
    assert seen == [8, 12]
    assert model.head_words is found
    tensors = torch.cat([model.tensors(one)["pixel_values"] for one in pictures])
    heads = EmbeddingParts(Recording(encoder(model, "image"), {"pixel_values": tensors})).of_heads().double()
    assert model.prompt_inputs is not None
    bank = text_embeddings(model, model.prompt_inputs(BANK).tensors).double()
    for block, row in enumerate(found.blocks):
        for head, words in enumerate(row):
            span = text_span(heads[:, block, head], bank, 3)
            assert [text.text for text in words.texts] == [BANK[place] for place in span.texts]
    of_few = head_words(model, iter(pictures), BANK, count=3, rank=2)
    span = text_span(heads[:, 0, 0], bank, 3, 2)
    assert [text.text for text in of_few.blocks[0][0].texts] == [BANK[place] for place in span.texts]
    model.head_words = found
    found.save(tmp_path / HEAD_WORDS_FILE)
    assert read_head_words(tmp_path / HEAD_WORDS_FILE) == found
    assert found.pictures == "12 pictures"


def test_a_head_that_adds_the_same_to_every_picture_has_none() -> None:
    found = head_words(make_tiny("clip", "cpu"), [Image.new("RGB", (32, 32))] * 10, BANK)
    assert all(not head.texts for row in found.blocks for head in row)
    assert "adds the same to every picture" in str(found)


@pytest.mark.parametrize(("pictures", "bank", "said"), [(9, BANK, "10 or more"), (10, [], "no texts")])
def test_too_little_is_refused(pictures: int, bank: list[Any], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        head_words(make_tiny("clip", "cpu"), [picture()] * pictures, bank)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / HEAD_WORDS_FILE
    path.write_text('{"pictures": "9"}')
    with pytest.raises(ExplainerError, match="must hold weights_digest"):
        read_head_words(path)


def test_those_of_the_embedded_model_are_of_its_weights_and_of_our_bank() -> None:
    words = read_head_words(embedded_path("clip") / HEAD_WORDS_FILE)
    model = loaded("clip")
    assert words.weights_digest == model.weights_digest
    assert model.head_words == words
    chosen = {text.text for row in words.blocks for head in row for text in head.texts}
    assert chosen
    assert chosen <= set(texts())
    assert words.texts == len(texts()) == len(set(texts()))
