"""Tasks in general: which one a module is of, and what is refused."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import ExplainerError
from explainers.models.tasks import TASKS, Place, Reading, Task, TaskInput, add_task, task_of
from tests.explainers.support.explained import image_model, picture
from tests.support.task_models import token_classifier, writer


class Depths(nn.Module):
    """A backbone of one's own that gives a number for each patch."""

    def __init__(self) -> None:
        super().__init__()
        self.model = image_model("vit").module

    def forward(self, pixel_values: Tensor) -> Any:
        tokens = self.model.forward_features(pixel_values)  # type: ignore[operator]
        return {"depth": tokens[:, 1:, 0]}


@pytest.fixture
def depth_task() -> Any:
    """A task that a package adds: one file."""

    class DepthEstimation(Task):
        name: ClassVar[str] = "made-up-depth"
        places_are: ClassVar[str] = "middle"
        output: ClassVar[Any] = "regression"

        @classmethod
        def of(cls, module: nn.Module, library: Any, output: Any) -> Task | None:
            return cls() if isinstance(output, dict) and "depth" in output else None

        def trial(self, output: Any) -> Tensor:
            return output["depth"].mean(1, keepdim=True)  # type: ignore[no-any-return]

        def places(self, asked: TaskInput) -> list[Place]:
            return [Place("middle", "the middle")]

        def reading(self, place: Place, asked: TaskInput) -> Reading:
            middle = asked.output["depth"].shape[1] // 2
            return Reading(place, lambda output: output["depth"][:, middle : middle + 1], ["depth"], "regression")

    yield add_task(DepthEstimation)
    del TASKS[DepthEstimation.name]


def test_a_task_of_ones_own_is_one_class(depth_task: Any) -> None:
    model = explainers.wrap(Depths(), preprocess=explainers.Preprocessing(resize=(32, 24), fit="squash"), kind="image")
    assert isinstance(model.task, depth_task)
    result = explainers.explain(model, picture(), methods=["fullgrad:libra", "random"])
    assert (result.task, result.target.label) == ("made-up-depth", "depth")
    with torch.no_grad():
        expected = model.module.eval()(result.tensors["pixel_values"])["depth"]
    assert float(result.logits[0]) == pytest.approx(float(expected[0, expected.shape[1] // 2]), abs=1e-6)
    assert result.completeness("libra") < 1e-5
    with pytest.raises(ExplainerError, match="Send middle: here middle"):
        explainers.explain(model, picture(), at="edge", methods="random")


def test_a_name_is_taken_once(depth_task: Any) -> None:
    with pytest.raises(ExplainerError, match="already a task made-up-depth"):
        add_task(depth_task)


def test_a_task_that_does_not_fit_is_refused() -> None:
    module = image_model("vit").module
    assert task_of(module, "timm", torch.zeros(1, 3)) is None
    with pytest.raises(ExplainerError, match="choose one of"):
        task_of(module, "timm", torch.zeros(1, 3), "reading tea leaves")
    with pytest.raises(ExplainerError, match=r"does not fit what .* gives: \(1, 3\)"):
        task_of(module, "timm", torch.zeros(1, 3), "token-classification")


def test_a_classifier_has_no_places() -> None:
    model = image_model("vit")
    with pytest.raises(ExplainerError, match="leave at= out"):
        explainers.explain(model, picture(), at="token:1", methods="random")
    with pytest.raises(ExplainerError, match="has a head and compares nothing"):
        explainers.explain(model, picture(), reference=picture(1), methods="random")


def test_relevance_is_measured_where_a_place_lies_behind_a_made_up_text() -> None:
    """The rounding of relevance is measured on a made-up text of 12 tokens: the place that is asked about lies in it, or its answer."""
    far = explainers.explain(token_classifier(), " ".join(["the good movie, not a bad film"] * 2), methods="lrp", at="tokens:15-15")
    assert far.place.tokens == (15, 15)
    module: Any = copy.deepcopy(writer().module)
    module.generation_config.max_new_tokens = 20
    answered = explainers.explain(explainers.wrap(module, tokenizer=writer().task.tokenizer, device="cpu"), "a good film", methods="lrp")
    assert answered.place.tokens[1] - answered.place.tokens[0] == 19
    for result in (far, answered):
        assert bool(result["lrp"].scores.isfinite().all())
