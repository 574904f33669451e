"""What explain takes: pictures, texts, prompts, tensors, one or many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import explainers
from explainers import Contrast, ExplainerError, Probability, explain, summarise
from explainers.records.result import Explanation
from tests.explainers.support.explained import TEXT, clip_model, image_model, picture, text_model


def test_one_image_many_images_a_path_and_tensors_agree(tmp_path: Path) -> None:
    model, spec = image_model(), "fullgrad_plus:libra"
    one = explain(model, picture(), methods=spec)
    assert isinstance(one, Explanation)
    picture().save(tmp_path / "one.png")
    from_path = explain(model, tmp_path / "one.png", methods=spec)
    several = explain(model, [picture(), picture(1)], methods=spec)
    assert isinstance(several, list)
    assert [type(e) for e in several] == [Explanation, Explanation]
    assert isinstance(explain(model, [picture()], methods=spec), list)
    tensors = model.tensors(picture())
    from_tensors = explain(model, tensors, methods=spec)
    for other in (from_path, several[0], from_tensors):
        torch.testing.assert_close(other[spec].scores, one[spec].scores, rtol=1e-4, atol=1e-6)
    assert len(explain(model, model.tensors([picture(), picture(1)]), methods=spec)) == 2


@pytest.mark.parametrize("side", ["image", "text"])
def test_the_tensors_of_each_image_of_a_batch_are_what_the_model_was_given(side: Any) -> None:
    model = clip_model()
    asked: list[Any] = ["a bad movie", "the plot"]
    for one in explain(model, [picture(), picture(1)], target=asked, methods="rollout", side=side):
        logits = model.seen_from(side).forward(one.tensors)
        torch.testing.assert_close((logits.T if side == "text" else logits)[0].float(), one.logits)


def test_the_tensors_of_each_text_of_a_batch_are_what_the_model_was_given() -> None:
    for one in explain(text_model(), [TEXT, "a bad movie"], methods="rollout"):
        torch.testing.assert_close(text_model().forward(one.tensors)[0], one.logits, rtol=1e-4, atol=1e-5)


def test_the_shape_of_an_attribution_of_an_image() -> None:
    result = explain(image_model(), picture(), target="Zebra", methods=["rollout", "input_x_gradient:libra"])
    one = result["rollout"]
    assert one.scores.dtype == torch.float32
    assert one.scores.device.type == "cpu"
    assert one.scores.shape == one.content.shape == (13,)
    assert one.content.dtype == torch.bool
    assert one.content.tolist() == [False] + [True] * 12
    assert one.patches == (4, 3)
    assert (one.method, one.method_name, one.rule, one.signed, one.class_specific) == ("rollout", "rollout", None, False, False)
    other = result["input_x_gradient:libra"]
    assert (other.method_name, other.rule, other.signed, other.class_specific, other.target) == (
        "input_x_gradient",
        "libra",
        True,
        True,
        "Zebra",
    )
    low, high = other.range
    assert low == float(other.scores[other.content].min())
    assert high == float(other.scores[other.content].max())
    assert other.seconds >= 0
    with pytest.raises(ExplainerError, match="patches"):
        _ = other.tokens
    with pytest.raises(ExplainerError, match="patches"):
        other.words()
    assert result.methods == ["rollout", "input_x_gradient:libra"]
    assert [m.method for m in result.maps] == result.methods
    assert result.logits.shape == result.probabilities.shape == (5,)
    torch.testing.assert_close(result.probabilities, result.logits.softmax(-1))


def test_texts_their_tokens_and_words() -> None:
    specs = ["input_x_gradient:libra", "transformer_attribution"]
    result = explain(text_model(), TEXT, methods=specs)
    for one in result.maps:
        assert len(one.tokens) == len(one.scores) == len(one.content)
        assert [t.special for t in one.tokens] == [not c for c in one.content.tolist()]
        assert one.patches is None
        words = one.words()
        assert [w.text for w in words][:4] == ["Not", "a", "bad", "movie"]
        assert "well-made" in [w.text for w in words]
        for word in words:
            assert TEXT[word.start : word.end] == word.text
            pieces = [float(one.scores[i]) for i in word.tokens]
            assert word.score == pytest.approx(sum(pieces) if one.signed else max(pieces), rel=1e-6, abs=1e-9)
    assert any(len(w.tokens) > 1 for w in result[specs[0]].words())


def test_a_batch_of_texts_gives_what_each_gives_alone() -> None:
    """Padding never gets a score."""
    texts, specs = ["a good film", TEXT], ["fullgrad_plus:libra", "transformer_attribution", "gradcam_attention", "attcat"]
    for text, together in zip(texts, explain(text_model(), texts, target="positive", methods=specs), strict=True):
        alone = explain(text_model(), text, target="positive", methods=specs)
        for spec in specs:
            a, b = together[spec], alone[spec]
            assert len(a.tokens) == len(a.scores) == len(a.content), spec
            assert [t.text for t in a.tokens] == [t.text for t in b.tokens]
            torch.testing.assert_close(a.scores, b.scores, rtol=1e-3, atol=1e-5 * float(b.scores.abs().max()))
            assert [w.text for w in a.words()] == [w.text for w in b.words()]


def test_a_long_text_is_cut_and_said_so() -> None:
    result = explain(text_model(), "a good film " * 20, methods="random", long_texts="cut")
    assert any("left out" in note for note in result.notes)
    assert result.to_json()["notes"] == result.notes


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(ExplainerError, match="empty"):
        explain(text_model(), text)


def test_prompts() -> None:
    specs = ["fullgrad_plus:libra", "generic_attention", "input_x_gradient"]
    result = explain(clip_model(), picture(), target=["a bad film", "a good movie"], methods=specs)
    assert [t.prompt for t in result.targets] == ["a bad film", "a good movie"]
    assert result.labels == ["a bad film", "a good movie"]
    assert result.logits.shape == (2,)
    alone = explain(clip_model(), picture(), target="a good movie", methods=specs)
    for spec in specs:
        a, b = result[spec, "a good movie"].scores, alone[spec].scores
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5 * float(b.abs().max()))
    assert result["generic_attention", 1].target == "a good movie"
    contrast = explain(clip_model(), picture(), target=Contrast("a bad film", "a good movie"), methods="input_x_gradient")
    gap = result["input_x_gradient", 0].scores - result["input_x_gradient", 1].scores
    size = float(result["input_x_gradient", 0].scores.abs().max())
    torch.testing.assert_close(contrast["input_x_gradient"].scores, gap, rtol=1e-3, atol=1e-5 * size)
    several = explain(clip_model(), [picture(), picture(1)], target=["a bad film", "a good movie"], methods=specs)
    torch.testing.assert_close(several[0][specs[0]].scores, result[specs[0]].scores, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("target", [None, 0, "", "  ", ["a film", 3], Contrast("a film", 1), Probability()])
def test_what_is_no_prompt_is_refused(target: Any) -> None:
    with pytest.raises(ExplainerError, match="prompt"):
        explain(clip_model(), picture(), target=target, methods="random")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.zeros(1, 3, 8, 8), r"a Tensor of shape \(1, 3, 8, 8\) .* \{'pixel_values': x\}"),
        (torch.zeros(1, 8, dtype=torch.long), r"\{'input_ids': x\}"),
        (np.zeros((2, 8, 8, 3), np.uint8), r"a numpy array of shape \(2, 8, 8, 3\) .*PIL.Image.fromarray"),
        ([torch.zeros(3, 8, 8)], r"holds a Tensor; .*\{'pixel_values': x\}"),
        ([1, 2, 3], r"holds an int; .*\{'input_ids': torch.tensor\(\[ids\]\)\}"),
        (b"\xff\xd8", r"a bytes cannot be explained; .*PIL.Image.open\(io.BytesIO\(data\)\)"),
        ([b"\xff\xd8"], "holds a bytes"),
        (3, "an int cannot be explained"),
    ],
)
@pytest.mark.parametrize("model", [image_model, text_model])
def test_what_is_no_input_is_refused_with_what_to_send(model: Any, wrong: Any, said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        explain(model(), wrong, methods="random")


def test_ids_that_the_model_does_not_know_are_refused() -> None:
    module = text_model().module
    words = module.get_input_embeddings().num_embeddings  # type: ignore[operator]
    explain(text_model(), {"input_ids": torch.tensor([[words - 1, 0]])}, methods="random")
    for wrong in (words, -1):
        with pytest.raises(ExplainerError, match=f"input_ids hold {wrong}, and the model knows the ids 0 to {words - 1}"):
            explain(text_model(), {"input_ids": torch.tensor([[1, wrong]])}, methods="random")


def test_a_seed_is_a_whole_number() -> None:
    one, other = (explain(image_model(), picture(), methods="random", seed=seed)["random"].scores for seed in (3, np.int64(3)))
    torch.testing.assert_close(one, other)
    for wrong in ("a", 1.5, None):
        with pytest.raises(ExplainerError, match="is no whole number"):
            explain(image_model(), picture(), methods="random", seed=wrong)


def test_a_module_is_opened_and_what_is_none_is_told_how() -> None:
    module: Any = image_model().module
    opened, wrapped = (explain(model, picture(), methods="random") for model in (module, image_model()))
    assert torch.equal(opened.logits, wrapped.logits)
    assert torch.equal(explainers.Session(module, picture()).answers, explainers.Session(image_model(), picture()).answers)
    assert summarise(module, [picture()], method="saliency").model == explainers.open(module).name
    with pytest.raises(ExplainerError, match="a int cannot be opened as a model; send a name"):
        explain(3, picture())
    with pytest.raises(ExplainerError, match="there is no model 'scene-vit'"):
        explain("scene-vit", picture())
