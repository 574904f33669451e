"""EAGLE: its search against a second one that asks for everything by name, on worths that add up, and on tiny models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from explainers.methods.implementations.eagle import scores_of_order, search_order
from tests.explainers.support.d_rise import SIZE, yolos
from tests.explainers.support.explained import image_model, picture
from tests.explainers.support.wrapped import wrapped


def answer_of(seed: int, parts: int) -> Callable[[Tensor], Tensor]:
    """A probability that parts raise and lower, alone and in pairs."""
    generator = torch.Generator().manual_seed(seed)
    worth = torch.randn(parts, generator=generator, dtype=torch.float64)
    pairs = torch.randn(parts, parts, generator=generator, dtype=torch.float64) / parts
    return lambda keep: (keep.double() @ worth + ((keep.double() @ pairs) * keep.double()).sum(1)).sigmoid()


def twin(p: Callable[[set[int]], float], parts: int) -> list[int]:
    """The order, by sets: best next ones at the front, those that are missed least at the back."""

    def objective(shown: set[int]) -> float:
        return p(shown) + 1 - p(set(range(parts)) - shown)

    pool, front, back = list(range(parts)), list[int](), list[int]()
    for step in range(parts):
        if len(pool) <= 1:
            break
        looked_at = pool if step % 5 == 0 else pool[:10]
        gains = {part: objective({*front, part}) for part in looked_at}
        if step % 5 == 0:
            pool.sort(key=lambda part: -gains[part])
        front.append(max(looked_at, key=lambda part: gains[part]))
        pool.remove(front[-1])
        if step == 0:
            back.append(pool.pop())
        elif len(pool) > 8:
            back.append(max(pool[-8:], key=lambda part: objective(set(range(parts)) - {*back, part})))
            pool.remove(back[-1])
    return [*front, *pool, *back[::-1]]


@pytest.mark.parametrize("parts", [1, 2, 3, 9, 17, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_is_that_of_a_search_by_sets(seed: int, parts: int) -> None:
    ask = answer_of(seed, parts)

    def p(shown: set[int]) -> float:
        keep = torch.zeros(1, parts, dtype=torch.bool)
        keep[0, list(shown)] = True
        return float(ask(keep))

    order, objective = search_order(ask, parts, p(set()), p(set(range(parts))))
    assert order == twin(p, parts)
    along = [p(set(order[:n])) + 1 - p(set(order[n:])) for n in range(parts + 1)]
    np.testing.assert_allclose(objective, along, rtol=0, atol=1e-12)


def test_worths_that_add_up_are_ordered_by_what_they_are_worth() -> None:
    worth = torch.tensor([0.0, 0.4, 0.1, 0.3, 0.2], dtype=torch.float64)
    order, objective = search_order(lambda keep: keep.double() @ worth, 5, 0.0, 1.0)
    assert order == [1, 3, 4, 2, 0]
    np.testing.assert_allclose(objective, [0.0, 0.8, 1.4, 1.8, 2.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(scores_of_order(order, objective), [0.0, 1.2, 0.0, 0.6, 0.2], atol=1e-12)


def test_a_map_is_that_of_every_run_and_parts_are_squares_of_patches() -> None:
    first, again = (explainers.explain(image_model(), picture(), methods=["eagle?side=2"]).maps[0] for _ in range(2))
    assert torch.equal(first.scores, again.scores)
    assert first.patches is not None
    rows, columns = first.patches
    patches = first.scores[first.content].view(rows, columns)
    assert len(patches.unique()) <= 4
    assert bool((patches[: rows // 2, : columns // 2] == patches[0, 0]).all())
    assert float(patches.max()) > 0
    assert not bool(first.scores[~first.content].any())


def test_a_detector_is_asked_about_the_class_of_the_explained_box() -> None:
    """Of 4 x 6 patches, in 2 x 2 parts; p is the class's share among the classes of that box and no object."""
    module = yolos()
    model = explainers.wrap(module, preprocess=explainers.Preprocessing(resize=SIZE, fit="squash"))
    result = explainers.explain(model, picture(), "cat", methods=["eagle?side=2"], at="box:1")
    pixels = result.tensors["pixel_values"]

    def p(shown: set[int]) -> float:
        keep = torch.tensor([float(part in shown) for part in range(4)]).view(2, 2)
        mask = keep.repeat_interleave(SIZE[0] // 2, 0).repeat_interleave(SIZE[1] // 2, 1)
        with torch.no_grad():
            return float(module(pixels * mask).logits[0, 1].softmax(-1)[1])

    order = twin(p, 4)
    along = [p(set(order[:n])) + 1 - p(set(order[n:])) for n in range(5)]
    expected = torch.zeros(4, dtype=torch.float64)
    for place, part in enumerate(order):
        expected[part] = sum(abs(after - before) for before, after in zip(along[place + 1 :], along[place + 2 :], strict=False))
    patches = expected.view(2, 2).repeat_interleave(2, 0).repeat_interleave(3, 1).flatten()
    torch.testing.assert_close(result["eagle?side=2"].scores[1:25].double(), patches, rtol=1e-4, atol=1e-7)
    assert float(patches.max()) > 0


def test_words_are_refused() -> None:
    with pytest.raises(ExplainerError, match="reads words here, and this is for images"):
        explainers.explain(wrapped("bert", torch.float32), {"input_ids": torch.tensor([[1, 2, 3]])}, methods=["eagle"])


def test_a_prompt_without_others_is_refused_in_words() -> None:
    model = explainers.load("clip")
    with pytest.raises(ExplainerError, match="Of one prompt alone the probability is always 1: send others with it"):
        explainers.explain(model, picture(), target="a dog", methods=["eagle?side=2"])
