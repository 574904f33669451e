"""Interactions of two inputs, against Jacobians made by finite differences and against methods of one embedding dimension at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import explainers
from explainers.analysis.interactions.inputs import encode
from explainers.analysis.interactions.pairs import _check_settings, _components_along, _products
from explainers.models.encoders import encoder
from explainers.models.inputs.images import Preprocessing
from explainers.models.model import Model
from explainers.models.tokens import tokens_in, with_tokens
from tests.explainers.support.explained import clip_model
from tests.families import CLASS, FAMILIES, PADDING, SEPARATOR
from tests.support.vocabularies import wordpiece

PROMPT = "a good film, well-made"
SQUARE = Preprocessing(resize=(32, 32), crop=(32, 32))


@pytest.fixture(scope="module")
def clip() -> Model:
    return clip_model()


@pytest.fixture(scope="module")
def pixels() -> dict[str, Tensor]:
    return {"pixel_values": FAMILIES["hf-clip"].inputs(1)["pixel_values"].double()}


def embedding_at(model: Model, side: Any, features: Callable[[], Tensor]) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """x^1 (S, D), and the embedding as a function of it, by a hook on the first block of the tower: nothing of the engine's passes."""
    entry, seen = model.seen_from(side).blocks[0], []

    def put(x: Tensor | None) -> Tensor:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> Any:
            if x is None:
                seen.append(tokens_in(args, kwargs)[0].clone())
                return None
            return with_tokens(args, kwargs, x[None])

        handle = entry.register_forward_pre_hook(hook, with_kwargs=True)
        try:
            with torch.no_grad():
                return features()[0]
        finally:
            handle.remove()

    put(None)
    return seen[0], put


def differences(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
    """(S, D): for each token, the embedding's change along the token itself, by central differences."""
    step = 1e-4
    rows = []
    for token in range(len(x)):
        moved = torch.zeros_like(x)
        moved[token] = x[token] * step
        rows.append((f(x + moved) - f(x - moved)) / (2 * step))
    return torch.stack(rows)


def towers(clip: Model, pixels: dict[str, Tensor], prompt: str) -> tuple[Any, Any, Any]:
    module: Any = clip.module.eval()
    assert clip.prompt_inputs is not None
    read = clip.prompt_inputs([prompt])
    text = embedding_at(clip, "text", lambda: _plain(module.get_text_features(**read.tensors)))
    image = embedding_at(clip, "image", lambda: _plain(module.get_image_features(**pixels)))
    return text, image, read.inputs[0]


def _plain(features: Any) -> Tensor:
    found: Tensor = getattr(features, "pooler_output", features)
    return found


def expected(clip: Model, pixels: dict[str, Tensor], along: Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]) -> tuple[Tensor, float]:
    """Words x patches and the cosine, from the two towers."""
    (x, f), (y, g), record = towers(clip, pixels, PROMPT)
    e, h = f(x), g(y)
    whole = along(x, f) @ along(y, g).T / (e.norm() * h.norm())
    words = torch.stack([whole[list(word.tokens)].sum(0) for word in record.words])
    return words[:, 1:], float(e @ h / (e.norm() * h.norm()))  # the first token of the image stands for no patch


def test_words_and_patches_interact_by_both_jacobians(clip: Model, pixels: dict[str, Tensor]) -> None:
    found = explainers.interaction(clip, pixels, PROMPT, rule="gradient")
    pairs, cosine = expected(clip, pixels, differences)
    assert found.cosine == pytest.approx(cosine, rel=1e-6)
    assert found.pairs.shape == pairs.shape
    torch.testing.assert_close(found.pairs.double(), pairs, rtol=1e-4, atol=1e-4 * float(pairs.abs().max()))


def test_steps_average_both_jacobians_along_the_path_as_exclip_does(clip: Model, pixels: dict[str, Tensor]) -> None:
    """exCLIP: (a - r_a) J_a . J_b (b - r_b), each J the mean of the Jacobians along the path, references zero."""
    points, weights = (torch.tensor(values) for values in np.polynomial.legendre.leggauss(8))

    def along(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        step, rows = 1e-4, []
        for token in range(len(x)):
            moved = torch.zeros_like(x)
            moved[token] = x[token] * step
            at = [(f(a * x + moved) - f(a * x - moved)) / (2 * step) for a in (points + 1) / 2]
            rows.append((torch.stack(at) * weights[:, None] / 2).sum(0))
        return torch.stack(rows)

    found = explainers.interaction(clip, pixels, PROMPT, rule="gradient", steps=8)
    pairs, _ = expected(clip, pixels, along)
    torch.testing.assert_close(found.pairs.double(), pairs, rtol=1e-4, atol=1e-5 * float(pairs.abs().max()))


class Embeds(nn.Module):
    """A CLIP tower as a classifier, whose classes are the dimensions of the embedding."""

    def __init__(self, clip: nn.Module) -> None:
        super().__init__()
        self.clip = clip
        self.config = clip.config  # type: ignore[assignment]

    def forward(self, pixel_values: Tensor) -> Tensor:
        return _plain(self.clip.get_image_features(pixel_values=pixel_values))  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["libra", "conservative", "attnlrp"])
def test_other_rules_take_the_place_of_the_jacobian(clip: Model, pixels: dict[str, Tensor], rule: str) -> None:
    """Two pictures: every pair from maps of Input x Gradient, one for each dimension of the embedding, explained as if it were a class."""
    other = {"pixel_values": pixels["pixel_values"].flip(-1) * 0.7 + 0.1}
    found = explainers.input_interaction(clip, pixels, other, rule=rule)
    tower = explainers.wrap(Embeds(clip.module), kind="image", blocks=clip.blocks, entry=clip.blocks[0], preprocess=SQUARE)
    sides, embeddings = [], []
    for one in (pixels, other):
        logits = tower.forward(one)[0].detach()
        spec = f"input_x_gradient:{rule}"
        results = [explainers.explain(tower, one, target=d, methods=spec)[spec].scores[1:] for d in range(len(logits))]
        sides.append(torch.stack(results, 1).double())
        embeddings.append(logits.double())
    norms = embeddings[0].norm() * embeddings[1].norm()
    pairs = sides[0] @ sides[1].T / norms
    torch.testing.assert_close(found.pairs.double(), pairs, rtol=1e-4, atol=1e-5 * float(pairs.abs().max()))
    assert found.cosine == pytest.approx(float(embeddings[0] @ embeddings[1] / norms), rel=1e-5)
    for own, side, embedding in zip(found.maps, sides, embeddings[::-1], strict=True):
        expected_map = side @ embedding / norms
        torch.testing.assert_close(own.double(), expected_map, rtol=1e-4, atol=1e-5 * float(expected_map.abs().max()))


def test_an_input_is_wholly_alike_itself_and_sides_can_be_exchanged(clip: Model, pixels: dict[str, Tensor]) -> None:
    same = explainers.input_interaction(clip, pixels, pixels)
    assert same.cosine == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(same.pairs, same.pairs.T)
    other = {"pixel_values": pixels["pixel_values"].roll(7, -1)}
    there, back = explainers.input_interaction(clip, pixels, other), explainers.input_interaction(clip, other, pixels)
    torch.testing.assert_close(there.pairs, back.pairs.T)
    torch.testing.assert_close(there.maps[0], back.maps[1])


@pytest.mark.parametrize("prompts", [("a good film", "not a bad movie"), ("a good film", "good")])
def test_two_texts_of_a_clip_model(clip: Model, prompts: tuple[str, str]) -> None:
    found = explainers.input_interaction(clip, *prompts)
    assert found.pairs.shape == tuple(len(prompt.split()) for prompt in prompts)
    assert found.grids == (None, None)
    assert [word["text"] for word in found.to_json()["first"]["input"]["words"]] == prompts[0].split()


def test_two_texts_of_a_classifier_are_compared_before_its_last_layer() -> None:
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["against", "for", "unsure"])
    a, b = "a good film", "not a bad movie"
    found = explainers.input_interaction(model, a, b, rule="gradient")
    module: Any = model.module.eval()
    with torch.no_grad():
        pooled = [module.bert(**model.tensors(text)).pooler_output[0] for text in (a, b)]
    assert found.cosine == pytest.approx(float(torch.cosine_similarity(*pooled, dim=0)), rel=1e-5)
    assert found.pairs.shape == (3, 4)


def test_two_pictures_of_a_classifier() -> None:
    model = explainers.wrap(FAMILIES["vit"].build())
    pair = [{"pixel_values": FAMILIES["vit"].inputs(2)["pixel_values"][i : i + 1]} for i in range(2)]
    found = explainers.input_interaction(model, *pair)
    assert found.pairs.shape == (len(found.maps[0]), len(found.maps[1])) == (12, 12)
    assert found.grids[0] == found.grids[1]
    best = found.strongest(3)
    assert abs(best[0][2]) == pytest.approx(float(found.pairs.abs().max()))
    assert [abs(score) for _, _, score in best] == sorted((abs(score) for _, _, score in best), reverse=True)


@pytest.mark.parametrize("ending", [".png", ".TIF"])
def test_names_of_pictures_are_read_as_pictures_beside_plain_words(tmp_path: Path, ending: str) -> None:
    wrapped = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16), preprocess=SQUARE)
    paths = [tmp_path / f"{name}{ending}" for name in "ab"]
    for path, shade in zip(paths, (40, 200), strict=True):
        Image.linear_gradient("L").point(lambda value, shade=shade: (value + shade) % 256).save(path)
    expected = explainers.input_interaction(wrapped, *paths)
    for pair in (list(map(str, paths)), [paths[0], str(paths[1])]):
        likeness = explainers.input_interaction(wrapped, *pair)
        assert likeness.grids == expected.grids
        assert likeness.grids[0] is not None
        assert likeness.cosine == pytest.approx(expected.cosine)
    with pytest.raises(explainers.ExplainerError, match="there is no file"):
        explainers.input_interaction(wrapped, str(paths[0]), str(tmp_path / "c.png"))
    with pytest.raises(explainers.ExplainerError, match="two pictures or two texts"):
        explainers.input_interaction(wrapped, str(paths[0]), "a good film")
    assert explainers.input_interaction(wrapped, "a good film.", "a bad .png film").grids == (None, None)
    vit = explainers.wrap(FAMILIES["vit"].build(), preprocess=Preprocessing(resize=(32, 24), crop=(32, 24)))
    assert explainers.input_interaction(vit, paths[0], str(paths[1])).grids[0] is not None


def test_what_cannot_be_compared_is_said(clip: Model, pixels: dict[str, Tensor]) -> None:
    vit = explainers.wrap(FAMILIES["vit"].build())
    with pytest.raises(explainers.ExplainerError, match="compares no image with words"):
        explainers.interaction(vit, pixels, "a film")
    with pytest.raises(explainers.ExplainerError, match="two pictures or two texts"):
        explainers.input_interaction(clip, pixels, "a film")
    with pytest.raises(explainers.ExplainerError, match="carry gradients"):
        explainers.interaction(clip, pixels, "a film", rule="deep_taylor")
    for steps in (1.5, -1, "2"):
        with pytest.raises(explainers.ExplainerError, match="whole number of steps"):
            explainers.interaction(clip, pixels, "a film", steps=steps)  # type: ignore[arg-type]
    for name in ("baseline", "block", "quadrature"):
        with pytest.raises(explainers.ExplainerError, match=f"{name}='grey': choose one of"):
            explainers.interaction(clip, pixels, "a film", **{name: "grey"})  # type: ignore[arg-type]
    with pytest.raises(explainers.ExplainerError, match="cannot take pixel_values of 3x9x9"):
        explainers.interaction(clip, {"pixel_values": torch.zeros(1, 3, 9, 9)}, "a film")
    with pytest.raises(explainers.ExplainerError, match="2 inputs"):
        explainers.input_interaction(clip, {"pixel_values": pixels["pixel_values"].repeat(2, 1, 1, 1)}, pixels)
    with pytest.raises(explainers.Cancelled):
        explainers.interaction(clip, pixels, "a film", cancelled=lambda: True)


@pytest.mark.parametrize(("rule", "steps"), [("libra", 0), ("attnlrp", 0), ("gradient", 3)])
def test_units_pushed_forward_give_what_every_dimension_gives_going_back(clip: Model, rule: str, steps: int) -> None:
    """The same products, one pass a unit or one a dimension."""
    assert clip.prompt_inputs is not None
    read = clip.prompt_inputs([PROMPT])
    side = encode(encoder(clip, "text"), read)
    units, width = len(side.units), len(side.embedding)
    assert units + 1 < width
    way = _check_settings(rule, steps, "zero", "first", "gauss_legendre", lambda: None)
    by_unit = _products(side, way)
    with torch.enable_grad():
        by_dimension = _components_along(side, torch.eye(width), way).T
    assert by_unit.shape == by_dimension.shape == (units + 1, width)
    assert float((by_unit - by_dimension).abs().max() / by_dimension.abs().max()) < 1e-5


@pytest.mark.parametrize("what", ["alike", "interaction"])
def test_the_rest_of_the_cosine_is_accounted_for_and_said(clip: Model, pixels: dict[str, Tensor], what: str) -> None:
    """From the Jacobians of both towers along the path, of every token: what no pair of a word or patch holds."""
    points, weights = (torch.tensor(values) for values in np.polynomial.legendre.leggauss(8))

    def along(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        rows = []
        for token in range(len(x)):
            moved = torch.zeros_like(x)
            moved[token] = x[token] * 1e-4
            at = [(f(a * x + moved) - f(a * x - moved)) / 2e-4 for a in (points + 1) / 2]
            rows.append((torch.stack(at) * weights[:, None] / 2).sum(0))
        return torch.stack(rows)

    other = {"pixel_values": pixels["pixel_values"].roll(5, -1) * 0.5}
    way: dict[str, Any] = {"rule": "gradient", "steps": 8}
    (x, f), (y, g), _ = towers(clip, pixels, PROMPT)
    if what == "alike":
        found = explainers.input_interaction(clip, pixels, other, **way)
        x, f = towers(clip, other, PROMPT)[1]
        every = float((along(x, f).sum(0) @ along(y, g).sum(0)) / (f(x).norm() * g(y).norm()))
    else:
        found = explainers.interaction(clip, pixels, PROMPT, **way)
        every = float((along(x, f).sum(0) @ along(y, g).sum(0)) / (f(x).norm() * g(y).norm()))
    assert found.total == pytest.approx(float(found.pairs.sum()), rel=1e-5)
    assert found.other_tokens == pytest.approx(every - found.total, rel=1e-3, abs=1e-5)
    assert found.total + found.other_tokens + found.baseline_terms == pytest.approx(found.cosine, abs=1e-9)
    (note,) = found.notes
    assert note.startswith(f"The pairs add up to {found.total:.3f} and the cosine is {found.cosine:.3f}.")
    assert f"{found.baseline_terms:+.3f} are baseline terms" in note
    document = found.to_json()
    assert (document["total"], document["other_tokens"], document["baseline_terms"]) == (
        found.total,
        found.other_tokens,
        found.baseline_terms,
    )


def test_on_a_whole_path_the_baseline_terms_are_the_cosines_with_nothing(clip: Model, pixels: dict[str, Tensor]) -> None:
    """Sundararajan's completeness on both sides: f(x) g(y) - f(r) g(y) - f(x) g(r) + f(r) g(r), of the norms of x and y."""
    other = {"pixel_values": pixels["pixel_values"].roll(5, -1) * 0.5}
    nothing = {"pixel_values": torch.zeros_like(pixels["pixel_values"])}
    module: Any = clip.module.eval()
    with torch.no_grad():
        f, g, r = (_plain(module.get_image_features(**one))[0] for one in (pixels, other, nothing))
    found = explainers.input_interaction(clip, pixels, other, rule="gradient", steps=40, baseline="empty")
    expected = float((r @ g + f @ r - r @ r) / (f.norm() * g.norm()))
    assert found.baseline_terms == pytest.approx(expected, abs=2e-4)
    assert "of an empty input" in found.notes[-1]


def test_an_empty_text_is_its_special_tokens_around_one_of_padding() -> None:
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(), labels=["against", "for", "unsure"])
    module: Any = model.module.eval()
    prepared = model.prepare("a good film")
    side = encode(encoder(model, example=prepared.tensors), prepared, "empty")
    with torch.no_grad():
        embedded = module.bert.embeddings(torch.tensor([[CLASS, PADDING, SEPARATOR, PADDING, PADDING]]))[0]
    torch.testing.assert_close(side.baseline_tokens, embedded)
    found = explainers.input_interaction(model, "a good film", "not a bad movie", rule="gradient", steps=4, baseline="empty", block="last")
    assert found.pairs.shape == (3, 4)
    assert (found.baseline, found.block, found.quadrature) == ("empty", "last", "gauss_legendre")
