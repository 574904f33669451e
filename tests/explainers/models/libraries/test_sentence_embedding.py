"""The vector of a whole text or picture is the model's own: that of sentence-transformers' folders, and that of projection models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from tests.explainers.support.explained import picture
from tests.support.vocabularies import wordpiece

SIZE: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
TEXTS = ("not a good film", "a bad movie , and the film is good .")
LENGTH = 12  # tokens, fewer than the tokenizer would give
KIND = "sentence_transformers.models"


def saved(root: Path, pooling: dict[str, Any], *behind: str, place: str = "") -> Path:
    """A folder as sentence-transformers writes it, of a BERT with random weights."""
    torch.manual_seed(0)
    tokenizer = wordpiece(24)
    module = hf.BertModel(hf.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **SIZE)).eval()
    module.save_pretrained(root / place)
    tokenizer.save_pretrained(root / place)
    (root / place / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LENGTH, "do_lower_case": False}))
    modules = [{"idx": 0, "name": "0", "path": place, "type": f"{KIND}.Transformer"}]
    for index, kind in enumerate(("Pooling", *behind), 1):
        folder = root / f"{index}_{kind}"
        folder.mkdir()
        modules.append({"idx": index, "name": str(index), "path": folder.name, "type": f"{KIND}.{kind}"})
        if kind == "Pooling":
            (folder / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
        elif kind == "Dense":
            settings = {"in_features": 32, "out_features": 8, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
            (folder / "config.json").write_text(json.dumps(settings))
            save_file({"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)}, folder / "model.safetensors")
    (root / "modules.json").write_text(json.dumps(modules))
    return root


def states(root: Path, text: str) -> Tensor:
    module, tokenizer = hf.AutoModel.from_pretrained(root), hf.AutoTokenizer.from_pretrained(root)
    with torch.no_grad():
        return module.eval()(**tokenizer(text, return_tensors="pt", truncation=True, max_length=LENGTH)).last_hidden_state[0]  # type: ignore[no-any-return]


POOLINGS: dict[str, Any] = {
    "pooling_mode_mean_tokens": lambda h: h.mean(0),
    "pooling_mode_max_tokens": lambda h: h.amax(0),
    "pooling_mode_cls_token": lambda h: h[0],
    "pooling_mode_lasttoken": lambda h: h[-1],
    "pooling_mode_mean_sqrt_len_tokens": lambda h: h.sum(0) / len(h) ** 0.5,
    "pooling_mode_weightedmean_tokens": lambda h: (h * torch.arange(1, len(h) + 1)[:, None]).sum(0) / torch.arange(1, len(h) + 1).sum(),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_text_is_pooled_as_its_folder_says(pooling: str, tmp_path: Path) -> None:
    root = saved(tmp_path, {pooling: True})
    model = explainers.open(root, check="none")
    first, second = (POOLINGS[pooling](states(root, text)) for text in TEXTS)
    results: Any = explainers.explain(model, list(TEXTS), methods=["fullgrad:libra"], at="similar", reference=TEXTS[1])
    for result, vector in zip(results, (first, second), strict=True):  # padded to one length
        assert float(result.logits) == pytest.approx(float(F.cosine_similarity(vector, second, dim=0)), abs=1e-5)
        assert result.completeness("libra") < 1e-4
    assert model.tensors(" ".join(["film"] * 20))["input_ids"].shape[1] == LENGTH


@pytest.mark.parametrize("place", ["", "0_Transformer"])
def test_dense_layers_and_normalisation_follow(place: str, tmp_path: Path) -> None:
    root = saved(tmp_path, {"pooling_mode": "mean"}, "Dense", "Normalize", place=place)
    model = explainers.open(root, check="none")
    result = explainers.explain(model, TEXTS[0], methods=["input_x_gradient"], at="features")
    from safetensors.torch import load_file

    dense = load_file(root / "2_Dense" / "model.safetensors")
    expected = F.normalize(torch.tanh(dense["linear.weight"] @ states(root / place, TEXTS[0]).mean(0) + dense["linear.bias"]), dim=0)
    torch.testing.assert_close(result.logits, expected, rtol=1e-4, atol=1e-6)


def test_an_unknown_module_is_refused(tmp_path: Path) -> None:
    root = saved(tmp_path, {"pooling_mode_mean_tokens": True}, "LSTM")
    with pytest.raises(ExplainerError, match=r"names a LSTM.*Pooling, Dense and Normalize"):
        explainers.open(root, check="none")


def test_a_projection_is_the_vector_of_the_whole() -> None:
    torch.manual_seed(0)
    vision = hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(image_size=56, patch_size=14, projection_dim=8, **SIZE)).eval()
    model = explainers.wrap(vision, preprocess=explainers.Preprocessing(resize=(56, 56), fit="squash"))
    result = explainers.explain(model, picture(), methods=["input_x_gradient"], at="similar", reference=picture(1))
    with torch.no_grad():
        one, other = (vision(model.tensors(picture(*number))["pixel_values"]).image_embeds[0] for number in ((), (1,)))
    assert float(result.logits) == pytest.approx(float(F.cosine_similarity(one, other, dim=0)), abs=1e-5)

    tokenizer = wordpiece(24)
    config = hf.CLIPTextConfig(vocab_size=len(tokenizer), max_position_embeddings=24, projection_dim=8, eos_token_id=3, **SIZE)
    texts = hf.CLIPTextModelWithProjection(config).eval()
    reader = explainers.wrap(texts, tokenizer=tokenizer)
    said = explainers.explain(reader, TEXTS[0], methods=["input_x_gradient"], at="similar", reference=TEXTS[1])
    with torch.no_grad():
        one, other = (texts(**{k: v for k, v in reader.tensors(text).items() if k != "token_type_ids"}).text_embeds[0] for text in TEXTS)
    assert float(said.logits) == pytest.approx(float(F.cosine_similarity(one, other, dim=0)), abs=1e-5)


@pytest.mark.parametrize("place", ["../elsewhere", "{outside}", "1_Pooling/../../elsewhere"])
def test_a_module_that_lies_elsewhere_is_refused(place: str, tmp_path: Path) -> None:
    """A folder that somebody sends must not read another one of the machine."""
    root = saved(tmp_path / "model", {"pooling_mode_mean_tokens": True})
    (root / "1_Pooling").rename(tmp_path / "elsewhere")
    modules = json.loads((root / "modules.json").read_text())
    modules[1]["path"] = place.format(outside=tmp_path / "elsewhere")
    (root / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ExplainerError, match="leads out of its folder"):
        explainers.load(str(root))


@pytest.mark.parametrize("text", ["{}", "[" * 100_000, "[3]", '[{"type": "a"}]', "no JSON"])
def test_a_broken_list_of_modules_is_refused_in_plain_words(text: str, tmp_path: Path) -> None:
    root = saved(tmp_path / "model", {"pooling_mode_mean_tokens": True})
    (root / "modules.json").write_text(text)
    with pytest.raises(ExplainerError, match=r"no list of modules|nested too deep|is not JSON"):
        explainers.load(str(root))
