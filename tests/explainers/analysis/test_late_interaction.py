"""Matches of late interaction: sums equal to the score by torch and by transformers' own, the right words, and the right patches."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.conftest import ROOT
from tests.support.picture_models import paligemma, qwen2_vl
from tests.support.vocabularies import bert_pieces, wordpiece

# isort: split
import transformers as hf
from transformers.models.colpali import ColPaliProcessor
from transformers.models.colqwen2 import ColQwen2Processor

QUERY, DOCUMENT = "good film", "the movie is not bad, the film is good."


class ColBERT(nn.Module):
    """A BERT with a linear layer, as the published one."""

    def __init__(self) -> None:
        super().__init__()
        size: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
        self.bert = hf.BertModel(hf.BertConfig(**size, vocab_size=len(wordpiece()), max_position_embeddings=40), add_pooling_layer=False)
        self.linear = nn.Linear(16, 8, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        vectors: Tensor = self.linear(self.bert(input_ids, attention_mask=attention_mask).last_hidden_state)
        return vectors


@cache
def colbert() -> ColBERT:
    torch.manual_seed(0)
    module = ColBERT().double().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def plain_cosines(query: list[int], document: list[int], masks: int = 0) -> Tensor:
    """Cosines by torch alone; the last ``masks`` tokens of the query are attended to by none."""
    with torch.no_grad():
        vectors = [F.normalize(colbert()(torch.tensor([ids]), torch.ones(1, len(ids)))[0], dim=-1) for ids in (query, document)]
        if masks:
            attended = torch.tensor([[1] * (len(query) - masks) + [0] * masks])
            vectors[0] = F.normalize(colbert()(torch.tensor([query]), attended)[0], dim=-1)
    return vectors[0] @ vectors[1].T


def test_matches_of_two_texts_are_the_largest_cosines_and_add_up_to_the_score() -> None:
    tokenizer = wordpiece(40)
    cosines = plain_cosines(tokenizer(QUERY)["input_ids"], tokenizer(DOCUMENT)["input_ids"])
    found = explainers.late_interaction(colbert(), QUERY, DOCUMENT, processor=tokenizer)
    assert found.score == pytest.approx(float(cosines.amax(1).sum()), abs=1e-12)
    assert sum(match.cosine for match in found.matches) == pytest.approx(found.score, abs=1e-12)
    assert float(found.received.sum()) == pytest.approx(found.score, abs=1e-5)
    assert [match.index for match in found.matches] == cosines.argmax(1).tolist()
    assert [match.token for match in found.matches] == ["[CLS]", "good", "film", "[SEP]"]
    assert found.tokens[:3] == ("[CLS]", "the", "movie")
    assert all(found.tokens[match.index] == match.matched and match.patch is None for match in found.matches)
    torch.testing.assert_close(found.cosines, cosines.float())


def test_a_query_finds_its_own_words() -> None:
    found = explainers.late_interaction(colbert(), DOCUMENT, DOCUMENT, processor=wordpiece(40))
    assert [match.index for match in found.matches] == list(range(len(found.tokens)))
    assert found.score == pytest.approx(len(found.tokens))


def test_markers_mask_tokens_and_punctuation_as_in_colbert() -> None:
    tokenizer = wordpiece(40)
    query, document = tokenizer(QUERY)["input_ids"], tokenizer(DOCUMENT)["input_ids"]
    marks = tokenizer.convert_tokens_to_ids(["!", "##ing"])
    query = [query[0], marks[0], *query[1:], *[tokenizer.mask_token_id] * 3]
    document = [document[0], marks[1], *document[1:]]
    cosines = plain_cosines(query, document, masks=3)
    how: Any = {"markers": ("!", "##ing"), "query_length": 8, "skip_punctuation": True}
    found = explainers.late_interaction(colbert(), QUERY, DOCUMENT, processor=tokenizer, **how)
    skipped = [i for i, token in enumerate(found.tokens) if token in ",."]
    assert len(skipped) == 2
    cosines[:, skipped] = -torch.inf
    assert found.score == pytest.approx(float(cosines.amax(1).sum()), abs=1e-12)
    assert [match.token for match in found.matches][-3:] == ["[MASK]"] * 3
    short = explainers.late_interaction(colbert(), "good film and bad film", DOCUMENT, processor=tokenizer, query_length=4)
    assert [match.token for match in short.matches] == ["[CLS]", "good", "film", "[SEP]"]


@cache
def col(name: str) -> tuple[Any, Any]:
    """A model of documents as pictures and its processor."""
    torch.manual_seed(0)
    if name == "colpali":
        inner, made = paligemma()
        processor = ColPaliProcessor(made.image_processor, made.tokenizer)
        config: Any = hf.ColPaliConfig(vlm_config=inner.config, embedding_dim=8)
        module: Any = hf.ColPaliForRetrieval(config)
    else:
        inner, made = qwen2_vl()
        processor = ColQwen2Processor(made.image_processor, made.tokenizer)
        module = hf.ColQwen2ForRetrieval(hf.ColQwen2Config(vlm_config=inner.config, embedding_dim=8))
    module.resize_token_embeddings(len(processor.tokenizer))
    module = module.float().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module, processor


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", ["colpali", "colqwen2"])
def test_matches_in_a_picture_add_up_to_the_score_of_the_models_own_processor(name: str) -> None:
    module, processor = col(name)
    with torch.no_grad():
        of_query = module(**processor(text=[QUERY], return_tensors="pt")).embeddings
        of_picture = module(**processor(images=[picture()], return_tensors="pt")).embeddings
    expected = float(processor.score_retrieval(of_query, of_picture)[0, 0])
    found = explainers.late_interaction(module, QUERY, picture(), processor=processor)
    assert found.score == pytest.approx(expected, abs=1e-4)
    assert sum(match.cosine for match in found.matches) == pytest.approx(found.score, abs=1e-9)
    assert [match.index for match in found.matches] == (of_query[0] @ of_picture[0].T).argmax(1).tolist()
    assert found.grid is not None
    assert found.first is not None
    for match in found.matches:
        place = match.index - found.first
        assert match.patch == (divmod(place, found.grid[1]) if 0 <= place < found.grid[0] * found.grid[1] else None)
        assert (match.matched == "") == (match.patch is not None)


@pytest.mark.parametrize("name", ["colpali", "colqwen2"])
def test_the_patch_that_is_changed_is_the_patch_that_is_drawn(name: str) -> None:
    """The vision tower alone: later tokens of the language model read others."""
    module, processor = col(name)
    grid = explainers.late_interaction(module, QUERY, picture(), processor=processor).grid
    assert grid is not None
    seen: list[Tensor] = []
    tower = module.vlm.multi_modal_projector if name == "colpali" else module.vlm.visual.merger
    handle = tower.register_forward_hook(lambda _module, _args, output: seen.append(output.reshape(-1, output.shape[-1])))
    masks = [part for part in module.vlm.modules() if type(part).__name__ in ("SiglipAttention", "VisionAttention")]
    handles = [part.register_forward_hook(without_others) for part in masks]
    try:
        explainers.late_interaction(module, QUERY, picture(), processor=processor)
        for row, column in ((0, 0), (grid[0] - 1, 1), (1, grid[1] - 1)):
            changed = picture()
            top, bottom = (round(edge * 96 / grid[0]) for edge in (row, row + 1))
            left, right = (round(edge * 128 / grid[1]) for edge in (column, column + 1))
            changed.paste((0, 255, 0), (left, top, right, bottom))
            explainers.late_interaction(module, QUERY, changed, processor=processor)
            moved = (seen[-1] - seen[0]).norm(dim=-1)
            assert divmod(int(moved.argmax()), grid[1]) == (row, column)
    finally:
        for each in (handle, *handles):
            each.remove()


def without_others(module: nn.Module, args: Any, output: Any) -> Any:
    """Attention that adds nothing: tokens of the tower are of their own patch alone."""
    return (
        tuple(torch.zeros_like(each) if isinstance(each, Tensor) else each for each in output) if isinstance(output, tuple) else output * 0
    )


def test_maps_figures_and_json() -> None:
    module, processor = col("colpali")
    found = explainers.late_interaction(module, QUERY, picture(), processor=processor)
    assert found.on_picture().shape == found.on_picture(0).shape == found.grid
    on_patches = sum(match.cosine for match in found.matches if match.patch is not None)
    assert float(found.on_picture().sum()) == pytest.approx(on_patches, abs=1e-5)
    told = found.to_json()
    assert sum(match["cosine"] for match in told["matches"]) == pytest.approx(told["score"])
    assert [match["token"] for match in told["matches"]] == [match.token for match in found.matches]
    texts = explainers.late_interaction(colbert(), QUERY, DOCUMENT, processor=wordpiece(40))
    assert [label.get_text() for label in texts.figure().axes[0].get_xticklabels()] == list(texts.tokens)
    assert "good film" in found.figure().axes[0].get_title(loc="left")
    with pytest.raises(ExplainerError, match="no token 99 of the query"):
        found.on_picture(99)
    with pytest.raises(ExplainerError, match="document is a text"):
        texts.on_picture()


def test_the_example_in_the_documents_runs_on_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "tasks.md").read_text("utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "late_interaction(" in block)
    pieces = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "owl", "painted", "by", "the", "who", "was", "."]
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=bert_pieces(pieces, ["[CLS]", "[SEP]", "[MASK]"]), mask_token="[MASK]", unk_token="[UNK]", pad_token="[PAD]"
    )
    tokenizer.save_pretrained(tmp_path)
    size: Any = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    inner = hf.BertModel(hf.BertConfig(**size, vocab_size=len(pieces)))
    weights = {f"bert.{name}": tensor for name, tensor in inner.state_dict().items()} | {"linear.weight": torch.randn(128, 16)}
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    inner.config.save_pretrained(tmp_path)
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(code.replace("colbert-ir/colbertv2.0", str(tmp_path)), made)
    found = made["found"]
    assert len(found.matches) == 32
    assert [match.token for match in found.matches[:4]] == ["[CLS]", "[unused0]", "who", "painted"]
    assert found.score == pytest.approx(sum(match.cosine for match in found.matches))
    assert (tmp_path / "matches.png").is_file()


@pytest.mark.parametrize("name", ["colpali", "colqwen2"])
def test_opening_such_a_model_says_what_to_call(name: str) -> None:
    with pytest.raises(ExplainerError, match=r"gives a vector for each token.*explainers\.late_interaction"):
        explainers.open(col(name)[0], check="none")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "pass processor="),
        ({"processor": wordpiece(), "markers": ("[unused0]", "[unused1]")}, r"names \[unused0\]"),
    ],
)
def test_what_is_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.late_interaction(colbert(), QUERY, DOCUMENT, **how)


def test_documents_of_the_wrong_kind_and_models_without_vectors_are_refused() -> None:
    with pytest.raises(ExplainerError, match="send the document as a text"):
        explainers.late_interaction(colbert(), QUERY, picture(), processor=wordpiece())
    with pytest.raises(ExplainerError, match="gives no vector for each token"):
        explainers.late_interaction(colbert().bert, QUERY, DOCUMENT, processor=wordpiece())
    module, processor = col("colpali")
    with pytest.raises(ExplainerError, match="are for models of texts"):
        explainers.late_interaction(module, QUERY, picture(), processor=processor, query_length=32)
    with pytest.raises(ExplainerError, match="takes a torch module"):
        explainers.late_interaction("colbert", QUERY, DOCUMENT)  # type: ignore[arg-type]
