"""One input of each kind measured: a text with marked words, a mosaic, a picture compared with names; random weights and small changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

import explainers
from explainers import ExplainerError
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import ExplainedTarget, make_plan
from explainers.evaluation.reporting import write_reports
from explainers.evaluation.running import run
from explainers.evaluation.sanity_maps import all_random_scores, randomised_scores
from explainers.metrics import METRICS
from recipes.evaluation import MODELS
from tests.explainers.support.made_up_datasets import made_up, photo
from tests.support.embedded_models import loaded

pytestmark = pytest.mark.slow

METHODS = ("random", "input_x_gradient")


def test_a_text_with_marked_words(tmp_path: Path) -> None:
    text = "A dull film. It is a mess from the first hour to the last, and the end is worse."
    file = tmp_path / "texts.jsonl"
    rows = [{"text": text, "label": "negative", "rationale": [[2, 11]]}, {"text": "Lovely.", "label": "joyful"}]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    model, data = loaded("reviews-bert"), open_dataset("texts", file)
    setup = EvaluationSetup(model, data, make_plan(model, data, METHODS, ["all"]))
    assert {"auac", "au_mse", "auprc", "iou_f1", "token_f1_10", "attcat_log_odds", "srg", "class_tau"} <= set(setup.plan.metrics)
    assert "ap" not in setup.plan.metrics
    found = {row["method"]: row for row in rows_of(setup, 0)}["input_x_gradient"]
    for name in setup.plan.metrics:
        metric = METRICS[name]
        values = [found[column] for column in metric.columns]
        assert (name == "claim_size" and not found["claim"]) or None not in values, name
        assert metric.lowest is None or values[0] is None or values[0] >= metric.lowest - 1e-9
    result = explainers.explain(model, text, methods=["input_x_gradient"])
    words = result["input_x_gradient"].words()
    assert found["scores"] == pytest.approx([word.score for word in words], rel=1e-3, abs=1e-4)
    best = sorted(words, key=lambda word: -word.score)[:10]
    hits = sum(word.text in ("dull", "film") for word in best)
    assert found["token_f1_10"] == pytest.approx(2 * hits / 12)
    assert found["au_mse_special"] > found["au_mse"]  # without [CLS] as well, the answer changes more
    unmarked = rows_of(setup, 1)[0]
    assert unmarked["auprc"] is None  # nobody marked a word
    assert unmarked["auac"] is None  # the model has no such class
    assert unmarked["mif"] is not None
    gold = EvaluationSetup(model, data, make_plan(model, data, METHODS, ["mif"], target="gold"))
    assert rows_of(gold, 0)[0]["target"] == "negative"
    assert rows_of(gold, 1) == []  # the model has no such class


def test_inputs_of_classes_that_the_model_does_not_know_are_left_out_and_counted(tmp_path: Path) -> None:
    """As of a photo of ImageNet-S on which no object is large enough, or of a person for a model that knows animals alone."""
    file = tmp_path / "texts.csv"
    file.write_text("text,label\nGood,joyful\nA good film,positive\nDull,\n")
    model, data = loaded("reviews-bert"), open_dataset("texts", file)
    targets: tuple[ExplainedTarget, ...] = ("gold", "each")
    for target in targets:
        plan = make_plan(model, data, METHODS, ["mif"], target=target)
        done = run(model, data, plan, tmp_path / target)
        assert done is not None
        assert [(row["index"], row["target"]) for row in done.rows] == [(1, "positive")] * 2
        report = write_reports(done, EvaluationSetup(model, data, plan))
        assert (report["inputs"], report["left_out"]) == (1, 2)
        assert "1 input, 2 more left out" in (tmp_path / target / "report.html").read_text("utf-8")
        with pytest.raises(ExplainerError, match=r"knows none of the classes .* \(the first: joyful\).*--target predicted"):
            run(model, data.at([0, 2]), plan, tmp_path / f"{target}-none")


def test_a_long_text_is_read_in_windows_or_cut(tmp_path: Path) -> None:
    scenes = " ".join(f"And then scene {number} with the old man, which was dull." for number in range(14))
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"text": f"I saw this film. {scenes} What an awful mess.", "rationale": [[0, 16]]}), "utf-8")
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "reviews-bert", model_max_length=128)  # of 512, which take longer
    model, data = explainers.wrap(loaded("reviews-bert").module, tokenizer=tokenizer), open_dataset("texts", file)
    whole = rows_of(EvaluationSetup(model, data, make_plan(model, data, METHODS, ["auprc"])), 0)
    with pytest.raises(ExplainerError, match="--long-texts cut"):
        rows_of(EvaluationSetup(model, data, make_plan(model, data, METHODS, ["mif"], long_texts="windows")), 0)
    cut = rows_of(EvaluationSetup(model, data, make_plan(model, data, ["random"], ["mif", "auprc"], long_texts="cut")), 0)
    assert 100 < len(cut[0]["scores"]) < len(whole[0]["scores"])
    assert all(0 <= row["mif"] <= 1 for row in cut)
    by_default = make_plan(model, data, ["random"], ["mif", "auprc"])
    assert by_default.long_texts == "cut"  # without a word: the metrics need it
    assert rows_of(EvaluationSetup(model, data, by_default), 0)[0]["scores"] == cut[0]["scores"]


def test_marks_that_a_cut_text_lacks_are_missed(tmp_path: Path) -> None:
    """As in ERASER's scorer, which knows the document and not what of it was read."""
    scenes = " ".join(f"And then scene {number} with the old man, which was dull." for number in range(14))
    text = f"I saw this film. {scenes} What an awful mess."
    middle = text.index("scene 7 with the old man")
    file = tmp_path / "long.jsonl"
    rows = [{"text": text, "rationale": marks} for marks in ([[0, 15], [middle, middle + 24]], [[middle, middle + 24]])]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "reviews-bert", model_max_length=64)
    model, data = explainers.wrap(loaded("reviews-bert").module, tokenizer=tokenizer), open_dataset("texts", file)
    names = ["token_f1_10", "auprc", "iou_f1"]
    setup = EvaluationSetup(model, data, make_plan(model, data, ["input_x_gradient"], names, long_texts="cut"))
    (row,), (missed,) = rows_of(setup, 0), rows_of(setup, 1)
    explained = explainers.explain(model, text, methods=["input_x_gradient"], long_texts="cut")["input_x_gradient"]
    best = sorted(explained.words(), key=lambda word: -word.score)[:10]
    hits = sum(word.start < 15 for word in best)  # I, saw, this, film
    assert all(not middle <= word.start < middle + 24 for word in explained.words())
    assert row["token_f1_10"] == pytest.approx(2 * hits / (10 + 4 + 6))  # and scene, 7, with, the, old, man
    assert row["iou_f1.documents"] == 1
    assert missed["token_f1_10"] == missed["iou_f1.recall"] == 0  # ERASER counts such a document; it was left out
    assert 0 < missed["auprc"] < 0.2


def test_a_text_in_windows_is_explained_for_the_class_that_they_say_together(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(
        json.dumps({"text": " ".join(["A wonderful, moving film."] * 30 + ["Dull and bad."] * 12), "rationale": [[0, 3]]}), "utf-8"
    )
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "reviews-bert", model_max_length=64)
    model, data = explainers.wrap(loaded("reviews-bert").module, tokenizer=tokenizer), open_dataset("texts", file)
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["auprc"]))
    whole = explainers.explain(model, data[0].text, methods=["random"])
    assert setup.plan.long_texts == "windows"
    torch.testing.assert_close(setup.answers(data[0].text), whole.logits, rtol=1e-4, atol=1e-4)
    assert rows_of(setup, 0)[0]["target"] == whole.maps[0].target


def test_any_thing_of_a_scene_is_a_right_answer() -> None:
    """Of the 60 scenes that a run of the documents draws, the model names another thing than the largest in 16."""
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["positive_auc"], limit=60))
    drawn = data.choose(60)
    answers = {index: int(setup.answers(data[index].image).argmax()) for index in drawn}
    second = [index for index in drawn if model.labels[answers[index]] != data[index].labels[0]]
    assert len(second) == 16
    assert all(answers[index] in setup.classes.right_classes(data[index]) for index in drawn)
    # 0.05 is the half of the first trapezoid, of the whole picture alone
    assert all(rows_of(setup, index)[0]["positive_auc"] >= 0.05 - 1e-9 for index in second[:4])


def test_every_label_of_a_photo_is_right(tmp_path: Path) -> None:
    data, model = open_dataset("imagenet-hard", made_up("imagenet-hard", tmp_path)), loaded("photos-vit")
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["mif", "positive_auc"], target="gold"))
    assert setup.classes.right_classes(data[0]) == {7, 3}
    assert rows_of(setup, 0)[0]["target"] == model.labels[7]  # the first is explained


def test_a_group_of_classes_is_explained_as_one(tmp_path: Path) -> None:
    """ "elephant" is three of ImageNet's classes: only the zebra was explained, without a word."""
    folder, model = made_up("coco", tmp_path), loaded("photos-vit")
    listing = folder / "annotations/instances_val2017.json"
    about = json.loads(listing.read_text("utf-8"))
    about["categories"].append({"id": 1, "name": "unicorn"})
    about["annotations"].append({**about["annotations"][1], "id": 9, "category_id": 1})
    listing.write_text(json.dumps(about), "utf-8")
    data, methods = open_dataset("coco", folder), ["random", "input_x_gradient:libra"]
    metrics = ["mif", "mif_aopc", "srg", "positive_auc", "ap", "own_object", "class_correlation", "randomisation_end", "sensitivity"]
    plan = make_plan(model, data, methods, [*metrics, "completeness"], target="each")
    setup = EvaluationSetup(model, data, plan)
    rows = rows_of(setup, 0)
    assert [row["target"] for row in rows] == ["zebra"] * 2 + ["any elephant"] * 2
    assert all(row["unknown"] == ["unicorn"] for row in rows)
    alone = explainers.explain(model, data[0].image, explainers.AnyOf("elephant"), methods=methods, seed=0)
    assert rows[3]["scores"] == pytest.approx(alone[methods[1]].scores[alone[methods[1]].content].tolist(), rel=1e-3, abs=1e-6)
    assert rows[3]["ap"] is not None
    probabilities = alone.probabilities[list(model.groups["elephant"])].sum()
    assert rows[3]["mif_aopc"] == pytest.approx(float(probabilities) - sum(rows[3]["curve.most"]) / 9, abs=1e-6)
    finished = run(model, data, plan, tmp_path / "run")
    assert finished is not None
    report = write_reports(finished, setup)
    assert (report["inputs"], report["left_out"], report["unknown"]) == (2, 0, {"unicorn": 1})
    assert "neither a class nor a group of the name: unicorn (in 1)" in (tmp_path / "run/report.html").read_text("utf-8")
    gold = EvaluationSetup(model, data, make_plan(model, data, methods, ["mif"], target="gold"))
    assert {row["target"] for row in rows_of(gold, 1)} == {"any elephant"}
    assert gold.classes.right_classes(data[0]) == {model.labels.index("zebra"), *model.groups["elephant"]}


def test_a_kite_of_coco_is_no_bird(tmp_path: Path) -> None:
    folder, model = made_up("coco", tmp_path), loaded("photos-vit")
    listing = folder / "annotations/instances_val2017.json"
    listing.write_text(listing.read_text("utf-8").replace('"zebra"', '"kite"'), "utf-8")
    data = open_dataset("coco", folder)
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["ap"], target="each"))
    assert setup.classes.unknown_labels(data[0]) == ["kite (toy)"]
    assert [row["target"] for row in rows_of(setup, 0)] == ["any elephant"]


def test_pictures_are_compared_with_names_and_not_with_numbers(tmp_path: Path) -> None:
    clip = loaded("clip")
    hard = open_dataset("imagenet-hard", made_up("imagenet-hard", tmp_path))
    prompts = EvaluationSetup(clip, hard, make_plan(clip, hard, ["random"], ["mif"])).prompts
    assert prompts is not None
    assert (len(prompts), prompts[0], prompts[502]) == (1000, "a photo of a tench", "a photo of a clog (shoe)")
    for name in ("n13040303", "tabby cat"):
        photo(tmp_path / "named" / name / "one.jpg")
    named = open_dataset("pictures", tmp_path / "named")
    assert EvaluationSetup(clip, named, make_plan(clip, named, ["random"], ["mif"])).prompts == [
        "a photo of a stinkhorn",
        "a photo of a tabby cat",
    ]
    for name, first in (("502", "502"), ("n99999999", "n99999999")):
        photo(tmp_path / f"folder of {name}" / name / "one.jpg")
        numbered = open_dataset("pictures", tmp_path / f"folder of {name}")
        with pytest.raises(ExplainerError, match=rf"1 classes of pictures have none \(the first: {first}\): name the folders"):
            make_plan(clip, numbered, ["random"], ["mif"])
    birds = open_dataset("funnybirds", made_up("funnybirds", tmp_path))
    with pytest.raises(ExplainerError, match="50 classes of funnybirds have none"):
        make_plan(clip, birds, ["random"], ["mif"])


def test_a_map_without_a_positive_score_has_no_energy_and_is_not_in_the_mean(tmp_path: Path) -> None:
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    plan = make_plan(model, data, ["random", "rollout"], ["energy", "ap"], limit=3)
    finished = run(model, data, plan, tmp_path / "run")
    assert finished is not None
    values = [row["energy"] for row in finished.rows if row["method"] == "random"]
    finished.rows[0]["energy"] = None
    report = write_reports(finished, EvaluationSetup(model, data, plan))
    found = report["results"]["energy"]
    assert (found["random"]["inputs"], found["rollout"]["inputs"]) == (2, 3)
    assert found["random"]["value"] == pytest.approx(sum(values[1:]) / 2, rel=1e-5)
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert "<small>2 of 3</small>" in page
    assert "the others are left out of the mean" in page


def test_a_mosaic_is_pointed_at() -> None:
    model, data = loaded("scenes-vit"), open_dataset("scenes-mosaic")
    plan = make_plan(model, data, ["random", "fullgrad_plus:libra"], ["grid_pointing", "pointing"], target="gold", how="black")
    rows = [row for index in range(3) for row in rows_of(EvaluationSetup(model, data, plan), index)]
    mean = {method: sum(row["grid_pointing"] for row in rows if row["method"] == method) / 3 for method in plan.methods}
    assert mean["random"] == pytest.approx(0.25, abs=0.1)  # one of four
    assert mean["fullgrad_plus:libra"] > 0.5


def test_a_picture_compared_with_names() -> None:
    model, data = loaded("clip"), open_dataset("scenes")
    plan = make_plan(model, data, ["random"], ["mif", "ap", "class_correlation"], target="gold", how="zeroed")
    row = rows_of(EvaluationSetup(model, data, plan), 0)[0]
    assert row["target"] == f"a photo of a {data[0].labels[0]}"
    assert 0 <= row["ap"] <= 1
    assert row["class_correlation"] == pytest.approx(1)  # chance draws the same map for every class


def test_each_thing_of_a_picture_is_explained_in_turn() -> None:
    model, data = loaded("clip"), open_dataset("scenes-pairs")
    methods = ["random", "generic_attention"]
    plan = make_plan(model, data, methods, ["own_object", "ap", "class_correlation"], target="each")
    rows = rows_of(EvaluationSetup(model, data, plan), 2)
    first, second = data[2].labels
    assert [(row["target"], row["method"]) for row in rows] == [
        (f"a photo of a {label}", method) for label in (first, second) for method in methods
    ]
    assert rows[0]["own_object"] + rows[2]["own_object"] == 1  # chance draws one map for both
    assert rows[0]["scores"] == rows[2]["scores"]
    assert rows[1]["own_object"] == rows[3]["own_object"] == 1
    assert rows[1]["ap"] > 2 * rows[0]["ap"]
    assert rows[3]["ap"] > 2 * rows[2]["ap"]


def test_the_things_of_a_picture_are_asked_for_without_the_others() -> None:
    model, data = loaded("clip"), open_dataset("scenes-pairs")
    methods = ["maskclip", "maskclip?less=prompts"]
    plan = make_plan(model, data, methods, ["own_object"], target="together")
    rows = rows_of(EvaluationSetup(model, data, plan), 2)
    names = [f"a photo of a {label}" for label in data[2].labels]
    asked = explainers.explain(model, data[2].image, names, methods)
    for row in rows:
        assert row["scores"] == pytest.approx(asked[row["method"], names.index(row["target"])].scores[asked.maps[0].content].tolist())
    with pytest.raises(ExplainerError, match="only models that compare pictures with prompts"):
        make_plan(loaded("scenes-vit"), data, ["random"], ["own_object"], target="together")


@pytest.mark.parametrize(("name", "metrics"), [("clip", ["ap"]), ("scenes-vit", ["own_object", "class_correlation", "positive_auc"])])
def test_the_first_thing_of_a_picture_is_explained_as_it_is_alone(name: str, metrics: list[str]) -> None:
    model, data = loaded(name), open_dataset("scenes-pairs")
    methods = ["random", "generic_attention"]
    rows, largest = (
        rows_of(EvaluationSetup(model, data, make_plan(model, data, methods, metrics, target=target)), 2) for target in ("each", "gold")
    )
    assert [row["target"] for row in largest] == [rows[0]["target"]] * 2
    assert largest[1]["scores"] == pytest.approx(rows[1]["scores"], rel=1e-3, abs=1e-5)
    if "positive_auc" in metrics:
        assert largest[1]["positive_auc"] == rows[1]["positive_auc"]


def test_reports_count_the_things_and_show_each(tmp_path: Path) -> None:
    model, data = loaded("scenes-vit"), open_dataset("scenes-pairs")
    plan = make_plan(model, data, ["random", "rollout"], ["own_object"], limit=2, target="each")
    finished = run(model, data, plan, tmp_path / "run")
    assert finished is not None
    report = write_reports(finished, EvaluationSetup(model, data, plan))
    assert report["inputs"] == 2
    found = report["results"]["own_object"]["rollout"]
    assert (found["inputs"], found["value"], found["error"]) == (4, 0.5, 0)  # the same map for both things
    examples = json.loads((finished.folder / "examples.json").read_text("utf-8"))
    shown = [examples["inputs"][number] for number in sorted(examples["inputs"])]
    assert {case["name"] for case in shown} == {row["input"] for row in finished.rows}
    assert len({(case["name"], case["target"]) for case in shown}) == len(shown) == 4
    assert "each class that the data set gives" in (finished.folder / "report.html").read_text("utf-8")


def test_an_input_that_cannot_be_explained_is_named() -> None:
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["mif"]))
    broken = replace(setup, plan=replace(setup.plan, methods=("rollout:libra",)))
    with pytest.raises(ExplainerError, match=rf"{data[3].name} cannot be explained: rollout reads no backward signal"):
        rows_of(broken, 3)


def test_all_weights_are_random_where_the_steps_end() -> None:
    model = loaded("scenes-vit")
    tensors = model.tensors(open_dataset("scenes")[3].image)
    every = randomised_scores(model, tensors, 0, METHODS, seed=5)
    assert torch.equal(all_random_scores(model, tensors, 0, METHODS, seed=5), every[:, -1])


@pytest.mark.parametrize(
    ("name", "dataset", "index"),
    [("scenes-vit", "scenes", 5), ("clip", "scenes-pairs", 5), ("photos-vit", "sample-photos", 14), ("reviews-bert", "sample-reviews", 5)],
)
def test_maps_of_random_weights_and_of_changed_inputs(name: str, dataset: str, index: int) -> None:
    model, data = loaded(name), open_dataset(dataset)
    changed = ["sensitivity"] if data.kind == "image" else []
    plan = make_plan(model, data, METHODS, ["randomisation", "randomisation_end", "class_correlation", "agreement", *changed])
    before = bytes(next(iter(model.blocks[-1].parameters())).detach().numpy())
    chance, gradient = rows_of(EvaluationSetup(model, data, plan), index)
    assert bytes(next(iter(model.blocks[-1].parameters())).detach().numpy()) == before
    assert chance["randomisation"] == chance["randomisation_end"] == pytest.approx(1)  # knows nothing of the weights
    assert gradient["randomisation_end"] < 0.9
    assert chance["class_correlation"] == pytest.approx(1)
    assert gradient["randomisation"] < 0.6
    assert -1 <= gradient["class_correlation"] < 0.9
    assert chance["agreement"] == gradient["agreement"]
    if changed:
        assert chance["sensitivity"] == pytest.approx(0)
        assert gradient["sensitivity"] > 0
