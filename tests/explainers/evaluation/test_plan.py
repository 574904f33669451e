"""The options of a protocol, each against the same calculated by itself on a tiny model."""

from __future__ import annotations

import explainers  # before timm

# isort: split
import json
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image

from explainers import ExplainerError, Probability
from explainers.datasets import Dataset, open_dataset
from explainers.evaluation.curve_logits import CurveLogits
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.evaluation.running import run
from explainers.metrics import RemovalCurve

SPEC = "input_x_gradient"


@pytest.fixture(scope="module")
def model() -> explainers.Model:
    torch.manual_seed(0)
    module = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2, num_classes=5)
    return explainers.wrap(module.eval(), labels=["cat", "dog", "hen", "cow", "pig"])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("pictures")
    for number, label in enumerate(("cat", "dog", "hen")):
        (folder / label).mkdir()
        Image.effect_noise((60, 40), 70 + number).convert("RGB").save(folder / label / "one.png")
    return open_dataset("pictures", folder)


def row_of(model: explainers.Model, data: Dataset, metrics: list[str], **options: object) -> EvaluationRow:
    plan = make_plan(model, data, [SPEC], metrics, **options)  # type: ignore[arg-type]
    return rows_of(EvaluationSetup(model, data, plan), 0)[0]


def test_the_second_class_and_its_probability(model: explainers.Model, data: Dataset) -> None:
    row = row_of(model, data, ["mif_aopc"], target="second", explains="probability")
    logits = model.forward(model.tensors(data[0].image))[0]
    second = model.labels[int(logits.argsort(descending=True)[1])]
    result = explainers.explain(model, data[0].image, Probability(second), SPEC)
    assert row["target"] == result.maps[0].target
    torch.testing.assert_close(torch.tensor(row["scores"]), result[SPEC].scores[result[SPEC].content])
    assert row["scores"] != row_of(model, data, ["mif_aopc"], target="second")["scores"]


def test_without_scikit_image_superpixels_are_refused_and_left_out_of_all(
    model: explainers.Model, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "auac_superpixels" in make_plan(model, data, [SPEC], ["all"]).metrics
    monkeypatch.setattr("explainers.evaluation.plan.can_find_superpixels", lambda: False)
    assert "auac_superpixels" not in make_plan(model, data, [SPEC], ["all"]).metrics
    with pytest.raises(ExplainerError, match=r"auac_superpixels cannot be measured here: it cuts .* scikit-image.*segments\]'\.$"):
        make_plan(model, data, [SPEC], ["auac_superpixels"])


def test_pictures_are_squashed_or_cropped(model: explainers.Model, data: Dataset) -> None:
    image = data[0].image
    assert image is not None
    squashed = image.resize((32, 32), Image.Resampling.BICUBIC)
    side = image.resize((48, 32), Image.Resampling.BICUBIC).crop((8, 0, 40, 32))
    for resize, shown in {"squashed": squashed, "cropped": side}.items():
        setup = EvaluationSetup(model, data, make_plan(model, data, [SPEC], ["mif"], resize=resize))  # type: ignore[arg-type]
        pixels = setup.tensors(image)["pixel_values"]
        torch.testing.assert_close(pixels, setup.tensors(shown)["pixel_values"])
        assert setup.model.module is model.module
        assert not torch.equal(pixels, model.tensors(image)["pixel_values"])


def test_steps_of_removal(model: explainers.Model, data: Dataset) -> None:
    row = row_of(model, data, ["srg", "mif_aopc"], steps=4)
    assert len(row["curve.most"]) == 3
    result = explainers.explain(model, data[0].image, None, SPEC)
    scores = result[SPEC].scores[result[SPEC].content][None]
    curves = [RemovalCurve(fractions=(0.25, 0.5, 0.75), keeps_first=keeps) for keeps in (False, True)]
    answers = CurveLogits(model, result.tensors, (4, 4), result[SPEC].content, None).along(curves, scores)
    index = int(result.logits.argmax())
    most, left = (logits.double().softmax(-1)[0, :, index] for logits in answers)
    kept = torch.cat([torch.tensor([1.0]), left.flip(0), torch.tensor([0.0])])
    gone = torch.cat([torch.tensor([1.0]), most, torch.tensor([0.0])])
    srg = torch.trapezoid(kept - gone, dx=0.25)  # from the whole input to nothing
    assert row["srg"] == pytest.approx(float(srg), abs=1e-5)
    whole = float(result.logits.double().softmax(0)[index])
    assert row["mif_aopc"] == pytest.approx(whole - float(most.mean()), abs=1e-5)


def test_tenths_become_steps_and_other_fractions_stay() -> None:
    assert RemovalCurve(fractions=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)).in_steps(2).fractions == (0.0, 0.5)
    whole = tuple(n / 10 for n in range(11))
    assert RemovalCurve(fractions=whole).in_steps(4).fractions == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert RemovalCurve(fractions=whole).in_steps(10).fractions == whole
    assert RemovalCurve(fractions=(0.01, 0.5)).in_steps(4).fractions == (0.01, 0.5)
    assert RemovalCurve(fractions=(1.0,)).in_steps(4).fractions == (1.0,)


def test_any_label_is_right_or_the_first_alone() -> None:
    scenes, model = open_dataset("scenes"), explainers.load("scenes-vit", "cpu")
    setup = EvaluationSetup(model, scenes, make_plan(model, scenes, ["random"], ["positive_auc"]))
    several = next(index for index in range(50) if len(scenes[index].labels) > 1)
    assert len(setup.classes.right_classes(scenes[several])) > 1
    first = setup.classes.right_classes(scenes[several], first_alone=True)
    assert first == {model.labels.index(scenes[several].labels[0])}


def test_a_run_says_in_which_way_tokens_were_taken_away_and_earlier_runs_go_on(
    model: explainers.Model, data: Dataset, tmp_path: Path
) -> None:
    plan = make_plan(model, data, [SPEC], ["mif"])
    done = run(model, data, plan, tmp_path)
    assert done is not None
    assert done.about["removal"] == "removed"
    record = json.loads((tmp_path / "run.json").read_text("utf-8"))
    for option in ("explains", "resize", "right", "steps"):
        del record["plan"][option]  # as a run of 0.2 wrote it
    (tmp_path / "run.json").write_text(json.dumps(record), "utf-8")
    again = run(model, data, plan, tmp_path)
    assert again is not None
    assert again.rows == done.rows
    with pytest.raises(ExplainerError, match=r"other steps \(10, not 5\)"):
        run(model, data, make_plan(model, data, [SPEC], ["mif"], steps=5), tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": "third"}, "target='third': choose one of predicted, second, gold, each"),
        ({"explains": "score"}, "explains='score': choose one of logit, probability"),
        ({"right": "last"}, "right='last': choose one of any, first"),
        ({"resize": "padded"}, "resize='padded': choose one of squashed, cropped"),
        ({"steps": 1}, "2 to 100 steps"),
    ],
)
def test_options_that_are_none(model: explainers.Model, data: Dataset, options: dict[str, object], says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        make_plan(model, data, [SPEC], ["mif"], **options)  # type: ignore[arg-type]


def test_a_rule_of_relevance_explains_no_probability(model: explainers.Model, data: Dataset) -> None:
    with pytest.raises(ExplainerError, match=r"lrp\. Measure them in a run of logits"):
        make_plan(model, data, [SPEC, "lrp"], ["mif"], explains="probability")
