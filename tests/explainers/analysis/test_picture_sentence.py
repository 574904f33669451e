"""The sentence on which of several pictures an answer came from, of maps whose scores are known."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers.models.inputs.types import PICTURE, ImageInput, PicturePart, PicturePromptInput, Token

SHOWN = ImageInput(8, 8, (0, 0, 8, 8), (8, 8))


def attribution(scores: list[float], signed: bool, count: int = 3) -> explainers.Attribution:
    """A map of ``count`` pictures of two patches each, one after the other."""
    others = tuple(PicturePart(8, 8, (0, 0, 8, 8), (8, 8), grid=(1, 2), first=2 * number) for number in range(1, count))
    tokens = (Token("", 0, 0, False, PICTURE),) * (2 * count)
    record = PicturePromptInput("a film", tokens, (), picture=SHOWN, grid=(1, 2), first=0, others=others)
    return explainers.Attribution(
        method_name="x",
        method="x",
        rule=None,
        title="X",
        target="cat",
        signed=signed,
        class_specific=True,
        seconds=0.0,
        source=None,
        scores=torch.tensor(scores[: 2 * count]),
        content=torch.ones(2 * count, dtype=torch.bool),
        patches=None,
        text=record,
    )


@pytest.mark.parametrize(
    ("scores", "signed", "said"),
    [
        ([0.5, -0.25, 1, 0.5, -3, 1], True, "Picture 2 speaks most for cat: its patches add up to +1.5. Next is picture 1 with +0.25."),
        ([0.5, -0.25, 1, 0.5, 3, 0], False, "Picture 3 has the largest patch: 3. Next is picture 2 with 1."),
        ([-1, 0, -2, 0, -0.5, 0], True, "No picture speaks for cat. The highest is picture 3: -0.5."),
        ([1, 2, 2, 1.0001, 0, 0], True, "Picture 2 and picture 1 count alike: 3 each."),
    ],
)
def test_the_picture_with_the_largest_sum_or_score_is_named(scores: list[float], signed: bool, said: str) -> None:
    assert explainers.picture_sentence(attribution(scores, signed)) == said


def test_nothing_is_said_of_one_picture() -> None:
    assert explainers.picture_sentence(attribution([1, 2], True, count=1)) == ""
