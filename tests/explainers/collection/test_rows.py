"""Each column of a collection against a calculation of its own: for pictures, for texts, and for a model of pictures and prompts."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr

import explainers
from explainers.collection.records import CollectedRow
from explainers.collection.result import Collection
from explainers.models.model import Model
from tests.explainers.support.collected import LABELS, approximately, finished, picture, save_pictures, tiny_bert, tiny_vit
from tests.explainers.support.saved_models import save_transformers

METHODS = ["fullgrad_plus:libra", "input_x_gradient:attnlrp", "rollout"]
ROWS, COLUMNS = 4, 3
Pictures = tuple[Model, Collection, list[CollectedRow]]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    """Seven pictures in passes of three."""
    folder = tmp_path_factory.mktemp("pictures")
    model = tiny_vit(folder / "model")
    data = save_pictures(folder / "data", 7)
    collection = finished(explainers.collect(model, data, folder / "out", METHODS, batch=3))
    return model, collection, list(collection)


def pixels(number: int) -> torch.Tensor:
    """A picture as the model reads it: 0 to 255 become -1 to 1."""
    return torch.from_numpy(np.asarray(picture(number)).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1


def number_of(row: CollectedRow) -> int:
    return int(Path(row.input).stem)


@torch.no_grad()
def logits_of(module: Any, number: int, left_out: list[int] | None = None) -> torch.Tensor:
    """The logits (C,) of a picture, without some of its patches, from the parts of timm's own module."""
    tokens = module._pos_embed(module.patch_embed(pixels(number)))
    kept = [0, *(1 + place for place in range(ROWS * COLUMNS) if place not in (left_out or []))]
    logits: torch.Tensor = module.forward_head(module.norm(module.blocks(module.norm_pre(tokens)[:, kept])))[0]
    return logits


def test_the_order_is_that_of_the_folder(pictures: Pictures) -> None:
    _, collection, rows = pictures
    assert [row.input for row in rows] == sorted(f"{LABELS[i % 5]}/{i:03d}.png" for i in range(7))
    assert [row.index for row in rows] == list(range(7))
    assert len(collection) == 7
    assert collection.broken == []


def test_answers_are_those_of_the_module(pictures: Pictures) -> None:
    model, _, rows = pictures
    for row in rows:
        logits = logits_of(model.module, number_of(row)).double()
        shares = (logits.exp() / logits.exp().sum()).tolist()
        first, second = sorted(range(5), key=lambda i: -shares[i])[:2]
        label = Path(row.input).parent.name
        assert (row.answer, row.answer_index, row.runner_up) == (LABELS[first], first, LABELS[second])
        assert row.probability == approximately(shares[first])
        assert row.runner_up_probability == approximately(shares[second])
        assert row.logit == approximately(float(logits[first]))
        assert row.labels == [label]
        assert row.right == (LABELS[first] == label)
        assert row.label_probability == approximately(shares[LABELS.index(label)])
        assert row.doubt is None


def test_maps_are_those_of_single_pictures_in_steps(pictures: Pictures) -> None:
    model, _, rows = pictures
    for row in rows:
        alone = explainers.explain(model, picture(number_of(row)), None, METHODS)
        assert row.grid == [ROWS, COLUMNS]
        assert [each.method for each in row.maps] == METHODS
        for each, attribution in zip(row.maps, alone.maps, strict=True):
            scores = attribution.scores[1:].double().numpy()
            assert each.step == approximately(float(np.abs(scores).max()) / 127)
            assert max(map(abs, each.scores)) == 127
            assert np.abs(np.array(each.scores) * each.step - scores).max() <= 0.51 * each.step
            assert each.top == [int(np.argmax(scores))]  # a tenth of twelve, rounded


def test_shares_are_those_of_positive_scores(pictures: Pictures) -> None:
    model, _, rows = pictures
    cover = np.zeros((ROWS, COLUMNS))
    cover[0] = [1, 0.5, 0]
    for row in rows:
        assert row.object_area == pytest.approx(1.5 / 12)
        alone = explainers.explain(model, picture(number_of(row)), None, METHODS)
        for each, attribution in zip(row.maps, alone.maps, strict=True):
            positive = np.maximum(attribution.scores[1:].double().numpy(), 0).reshape(ROWS, COLUMNS)
            inside = sum(positive[i, 1] for i in (1, 2))
            assert each.share_on_object == approximately(float((positive * cover).sum() / positive.sum()))
            assert each.share_on_border == approximately(float(1 - inside / positive.sum()))


def test_agreement_is_scipys_rank_correlation(pictures: Pictures) -> None:
    model, _, rows = pictures
    for row in rows:
        maps = [each.scores[1:].numpy() for each in explainers.explain(model, picture(number_of(row)), None, METHODS).maps]
        pairs = {pair: spearmanr(maps[pair[0]], maps[pair[1]]).statistic for pair in combinations(range(3), 2)}
        assert row.agreement == pytest.approx(np.mean(list(pairs.values())), abs=0.03)  # neighbours in rank may swap by rounding
        for i, each in enumerate(row.maps):
            assert each.agreement == pytest.approx(np.mean([value for pair, value in pairs.items() if i in pair]), abs=0.03)


def test_the_answer_without_the_top_patches_is_that_of_the_module_without_their_tokens(pictures: Pictures) -> None:
    model, collection, rows = pictures
    assert collection.about["how"] == "removed"
    for row in rows:
        for each in row.maps:
            logits = logits_of(model.module, number_of(row), each.top)
            assert each.logit_without == approximately(float(logits[row.answer_index]))
            assert each.probability_without == approximately(float(logits.softmax(0)[row.answer_index]))
            assert each.answer_without == LABELS[int(logits.argmax())]
            assert each.falls == (int(logits.argmax()) != row.answer_index)


def test_the_embedding_is_what_the_last_layer_is_given(pictures: Pictures) -> None:
    model, _, rows = pictures
    module: Any = model.module
    for row in rows:
        with torch.no_grad():
            vector = module.forward_head(module.forward_features(pixels(number_of(row))), pre_logits=True)[0]
        np.testing.assert_allclose(row.embedding, vector.numpy(), rtol=1e-4, atol=1e-5)


def test_the_embedding_of_a_map_is_its_mean_over_eight_by_eight_fields(pictures: Pictures) -> None:
    _, _, rows = pictures
    for row in rows:
        for each in row.maps:
            shares = np.array(each.scores).reshape(ROWS, COLUMNS) / np.abs(each.scores).sum()

            def span(i: int, length: int) -> slice:
                return slice(i * length // 8, -(-(i + 1) * length // 8))

            fields = [shares[span(i, ROWS), span(j, COLUMNS)].mean() for i in range(8) for j in range(8)]
            np.testing.assert_allclose(each.embedding, fields, atol=2e-3)


def test_a_thumbnail_shows_what_the_model_saw(pictures: Pictures) -> None:
    _, collection, rows = pictures
    table = pq.read_table(collection.folder / "thumbnails.parquet").to_pylist()
    assert [each["index"] for each in table] == [row.index for row in rows]
    for row, each in zip(rows, table, strict=True):
        assert (row.size, row.crop) == ([24, 32], [0, 0, 24, 32])
        small = Image.open(io.BytesIO(each["thumbnail"]))
        assert small.size == (72, 96)
        means = np.asarray(small).mean((0, 1)), np.asarray(picture(number_of(row))).mean((0, 1))
        np.testing.assert_allclose(*means, atol=4)


def test_words_of_a_text(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path / "model")
    text = "a dull film"
    (tmp_path / "texts.csv").write_text(f'text,label,site,stars\n"{text}",good,here,2\n"a film",,,\n', "utf-8")
    rows = list(finished(explainers.collect(model, tmp_path / "texts.csv", tmp_path / "out", ["input_x_gradient", "rollout"])))
    assert not (tmp_path / "out/thumbnails.parquet").exists()
    assert [(row.text, row.labels, row.own_columns) for row in rows] == [
        (text, ["good"], {"site": "here", "stars": "2"}),
        ("a film", [], {}),
    ]
    assert rows[1].right is None
    row, alone = rows[0], explainers.explain(model, text, None, ["input_x_gradient", "rollout"])
    assert [(word.text, word.start, word.end) for word in row.words] == [("a", 0, 1), ("dull", 2, 6), ("film", 7, 11)]
    assert row.grid == row.crop == row.size == []
    assert row.right == (row.answer == "good")
    module: Any = model.module
    tensors = model.tensors(text)
    with torch.no_grad():
        embedded = module.bert.embeddings(tensors["input_ids"])[0].double()
    for each, attribution in zip(row.maps, alone.maps, strict=True):
        words = [word.score for word in attribution.words()]
        assert np.abs(np.array(each.scores) * each.step - words).max() <= 0.51 * each.step
        assert each.top == [int(np.argmax(words))]
        assert each.share_on_border is None
        assert each.share_on_object is None
        pieces = [token for token in range(len(attribution.scores)) if token not in alone.maps[0].words()[each.top[0]].tokens]
        with torch.no_grad():
            without = module(**{name: tensor[:, pieces] for name, tensor in tensors.items()}).logits[0]
        assert each.logit_without == approximately(float(without[row.answer_index]))
        scores = attribution.scores.double() * attribution.content
        np.testing.assert_allclose(each.embedding, (scores / scores.abs().sum()) @ embedded, atol=1e-4)


def test_texts_of_several_lengths_are_as_each_alone(tmp_path: Path) -> None:
    model, texts = tiny_bert(tmp_path / "model"), ["a film", "a dull and long film", "film"]
    (tmp_path / "texts.csv").write_text("\n".join(["text", *texts]) + "\n", "utf-8")
    for row, text in zip(finished(explainers.collect(model, tmp_path / "texts.csv", tmp_path / "out")), texts, strict=True):
        (tmp_path / "one.csv").write_text(f"text\n{text}\n", "utf-8")
        (alone,) = finished(explainers.collect(model, tmp_path / "one.csv", tmp_path / f"out-{row.index}"))
        assert row.logit == approximately(alone.logit)
        assert row.words == alone.words
        np.testing.assert_allclose(row.embedding, alone.embedding, atol=1e-4)
        for each, other in zip(row.maps, alone.maps, strict=True):
            np.testing.assert_allclose(each.scores, other.scores, atol=1)
            np.testing.assert_allclose(each.embedding, other.embedding, atol=1e-3)
            assert each.logit_without == approximately(other.logit_without)


def test_prompts_are_chosen_from(tmp_path: Path) -> None:
    save_transformers(tmp_path / "model", "hf-clip")
    model = explainers.load(tmp_path / "model", "cpu")
    data = save_pictures(tmp_path / "data", 3, masks=False)
    prompts = ["a film", "a dull film"]
    collection = finished(explainers.collect(model, data, tmp_path / "out", ["rollout"], prompts=prompts, labels=False))
    module: Any = model.module
    for row in collection:
        prepared = model.prepare(data / row.input)
        with torch.no_grad():
            logits = model.forward({**prepared.tensors, **model.prompt_inputs(prompts).tensors})[0]  # type: ignore[misc]
            vector = module.get_image_features(**prepared.tensors)
        assert row.answer == prompts[int(logits.argmax())]
        assert row.right is None
        assert row.logit == approximately(float(logits.max()))
        np.testing.assert_allclose(row.embedding, getattr(vector, "pooler_output", vector)[0].numpy(), rtol=1e-3, atol=1e-4)
