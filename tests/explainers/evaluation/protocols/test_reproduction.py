"""Protocols measured: on what ships, as they are; and on data in the form of its publisher, against metrics asked by themselves."""

from __future__ import annotations

import explainers  # before timm

# isort: split
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from explainers import ExplainerError
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.evaluation.protocols.pictures import by_superpixel
from explainers.evaluation.protocols.protocol import find_protocol, protocol_names, protocol_of
from explainers.evaluation.protocols.reproduction import published_table, reproduce, spec_of
from explainers.models.resizing import with_resize
from explainers.models.superpixels import find_superpixels
from tests.explainers.support.made_up_datasets import idx, made_up, photo
from tests.support.embedded_models import loaded
from tests.support.molecule_models import tiny_module
from tests.support.task_models import llama

pytestmark = pytest.mark.slow


def wrapped(labels: tuple[str, ...]) -> explainers.Model:
    """A tiny random ViT of these classes."""
    torch.manual_seed(0)
    shape = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}
    return explainers.wrap(timm.create_model("vit_tiny_patch16_224", **shape, num_classes=len(labels)).eval(), labels=list(labels))


@pytest.mark.parametrize("name", protocol_names())
def test_each_protocol_runs_on_what_ships(name: str, tmp_path: Path) -> None:
    protocol = find_protocol(name)
    reproduction = reproduce(protocol, tmp_path, open_model=loaded, limit=1, pictures=min(1, protocol.pictures))
    table = reproduction.table
    assert len(reproduction.pictures) == min(1, protocol.pictures)
    assert table.notes[0].startswith("Stands in for the paper's models and data: ")
    assert all(cell.value is not None or cell.note for row in table.rows for cell in row.cells)
    if protocol.kind == "runs":
        assert [row.title for row in table.rows] == [row.title for row in protocol.rows]
        values = [cell.value for row in table.rows for cell in row.cells]
        assert len([value for value in values if value is not None]) >= 0.6 * len(values)


def test_cells_are_those_of_a_run_with_the_same_options(tmp_path: Path) -> None:
    document = {
        "title": "Half of a table",
        "paper": "LIBRAGRAD",
        "place": "Table 0",
        "version": "arXiv v1",
        "options": {"explains": "probability", "resize": "squashed"},
        "models": {"ViT": "scenes-vit", "BERT": {"get": "write to its authors"}},
        "inside": {"models": ["scenes-vit"], "datasets": {"pictures": "scenes"}},
        "measures": [
            {"head": "Predicted", "dataset": "pictures", "metric": "mif_aopc"},
            {"head": "Second", "dataset": "pictures", "metric": "mif_aopc", "target": "second"},
            {"head": "Logit", "dataset": "pictures", "metric": "mif_aopc", "explains": "logit"},  # in one run with rows of the others
        ],
        "rows": [
            {"title": "Ours", "spec": "attcat:libra"},
            {"title": "AttnLRP", "spec": "input_x_gradient:attnlrp", "explains": "logit"},
            {"title": "LRP", "spec": "lrp"},
        ],
        "published": {"heads": ["Predicted"], "source": "The paper.", "rows": {"Ours": ["12.30±.1"], "LRP": [""]}},
    }
    model, told = loaded("scenes-vit"), []
    protocol = protocol_of("half", document)
    folder = tmp_path / "data"
    for number, label in enumerate(model.labels[:2]):
        photo(folder / label / "one.png", (90 * number, 120, 200))
    reproduction = reproduce(
        protocol, tmp_path / "runs", open_model=lambda name: model, data=folder, tell=lambda *progress: told.append(progress)
    )
    assert [column.head for column in reproduction.table.columns] == [
        ("ViT", "A folder of pictures", head) for head in ("Predicted", "Second", "Logit")
    ]
    data = open_dataset("pictures", folder)
    for row, spec, explains in zip(
        reproduction.table.rows, ("attcat:libra", "input_x_gradient:attnlrp", "lrp"), ("probability", "logit", "logit"), strict=True
    ):
        measures = (("predicted", explains), ("second", explains), ("predicted", "logit"))
        for cell, (target, number) in zip(row.cells, measures, strict=True):
            plan = make_plan(model, data, [spec], ["mif_aopc"], target=target, explains=number, resize="squashed")  # type: ignore[arg-type]
            setup = EvaluationSetup(model, data, plan)
            values = [line["mif_aopc"] for index in range(len(data)) for line in rows_of(setup, index)]
            assert cell.value == pytest.approx(sum(values) / len(values), abs=3e-8)  # six digits would be off by more
    assert reproduction.missing == ("BERT: write to its authors.",)
    assert told[-1][1] == told[-1][2] == len(data)
    assert reproduction.published is not None
    assert [cell.printed for cell in (reproduction.published.rows[0].cells[0], reproduction.published.rows[1].cells[0])] == ["12.30±.1", ""]


def test_what_is_not_at_hand_is_a_line_that_says_how_to_get_it(tmp_path: Path) -> None:
    def refuse(name: str) -> explainers.Model:
        raise ExplainerError(f"{name} cannot be reached; check the network.")

    with pytest.raises(ExplainerError, match=r"Nothing of ali-imdb is at hand. BERT, 3 blocks: the authors' checkpoint is on no hub"):
        reproduce(find_protocol("ali-imdb"), tmp_path, open_model=refuse, data=tmp_path)
    with pytest.raises(ExplainerError, match="cannot be reached; check the network"):
        reproduce(find_protocol("chefer-table1"), tmp_path, open_model=refuse, data=tmp_path)
    with pytest.raises(ExplainerError, match=r"(?s)ImageNet validation lacks .*https://image-net.org"):
        reproduce(find_protocol("chefer-table1"), tmp_path, open_model=loaded, models=["scenes-vit"], data=tmp_path)


def test_a_model_of_other_classes_is_not_measured(tmp_path: Path) -> None:
    """Its predictions would be, and mean nothing beside the paper's."""
    folder = made_up("pets", tmp_path)
    with pytest.raises(ExplainerError, match=r"Oxford-IIIT Pet for scenes-vit: scenes-vit knows none of its classes \(the first: "):
        reproduce(find_protocol("libragrad-mif"), tmp_path, open_model=loaded, models=["scenes-vit"], data=folder.parent)


def test_models_are_measured_as_the_paper_measures_each(tmp_path: Path) -> None:
    """Table 6 has one data set; BEiT's tokens are zeroed; where a head pools, a method is read at the token that it leaves out."""
    protocol = find_protocol("libragrad-mif")
    by_title = {model.title: model for model in protocol.models}
    assert by_title["BEiT2-L"].options == {"how": "zeroed"}
    assert [measure.dataset for measure in protocol.measures if not measure.models] == ["imagenet"]
    torch.manual_seed(0)
    shape = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 4}
    pooled = timm.create_model("vit_tiny_patch16_224", global_pool="avg", class_token=True, **shape).eval()
    rows = {row.title: spec_of(row, explainers.wrap(pooled)) for row in protocol.rows}
    assert rows["GenAtt"] == "generic_attention?row=class_token"
    assert rows["Libra GenAtt"] == "generic_attention:libra?row=class_token"
    assert rows["AttCAT"] == "attcat"
    assert spec_of(next(row for row in protocol.rows if row.title == "GenAtt"), loaded("scenes-vit")) == "generic_attention"


def test_other_metrics_of_the_same_runs(tmp_path: Path) -> None:
    reproduction = reproduce(find_protocol("libragrad-completeness"), tmp_path, open_model=loaded, limit=1, metrics=["srg", "mif_aopc"])
    assert [column.head[-1] for column in reproduction.table.columns] == ["Symmetric relevance gain", "MIF AOPC"]
    assert reproduction.published is None
    with pytest.raises(ExplainerError, match="no metric 'sgr'"):
        reproduce(find_protocol("libragrad-completeness"), tmp_path, open_model=loaded, limit=1, metrics=["sgr"])


def of_sentences(folder: Path, *sentences: str) -> Path:
    """SST-2's validation file of these sentences, all positive."""
    (folder / "SST-2").mkdir(parents=True)
    (folder / "SST-2/dev.tsv").write_text("\n".join(["sentence\tlabel", *(f"{sentence}\t1" for sentence in sentences), ""]), "utf-8")
    return folder


def test_names_of_sentences_in_lower_case_are_ranked_by_gender(tmp_path: Path) -> None:
    """Each by the word's own scores in each sentence; SST-2 has no capitals, and gave an empty table."""
    sentences = ("emma thompson and steven are great", "a dull film by steven", "leslie will hope")
    model, told = loaded("reviews-bert"), find_protocol("ali-names")
    reproduction = reproduce(told, tmp_path, open_model=loaded, models=["reviews-bert"], data=of_sentences(tmp_path / "data", *sentences))
    scores: dict[str, list[float]] = {}
    for sentence in sentences:
        for word in explainers.explain(model, sentence, "positive", told.rows[0].spec).maps[0].words():
            scores.setdefault(word.text, []).append(word.score)
    expected = [("all names of women (1)", scores["emma"]), ("emma", scores["emma"]), ("all names of men (1)", scores["steven"])]
    expected += [("steven", scores["steven"]), ("all names of both or unknown (1)", scores["leslie"]), ("leslie", scores["leslie"])]
    assert [row.title for row in reproduction.table.rows] == [title for title, _ in expected]
    for row, (_, values) in zip(reproduction.table.rows, expected, strict=True):
        assert [cell.value for cell in row.cells] == pytest.approx(
            [len(values), sum(values), sum(values) / len(values)], rel=1e-4, abs=1e-7
        )


def test_texts_without_names_are_refused(tmp_path: Path) -> None:
    data = of_sentences(tmp_path / "data", "a dull film", "the end is worse")
    with pytest.raises(ExplainerError, match=r"There is no name in 2 texts: .* Name other texts with --data"):
        reproduce(find_protocol("ali-names"), tmp_path, open_model=loaded, models=["reviews-bert"], data=data)


def test_a_part_of_a_data_set_can_be_asked_for(tmp_path: Path) -> None:
    """LibraGrad's animals are those of train2017, which the published code reads."""
    folder = made_up("coco-zebra-elephant", tmp_path)
    protocol = find_protocol("libragrad-zebra-elephant")
    asked = {"open_model": lambda name: wrapped(("zebra", "African elephant", "dog")), "models": ["vit"], "data": folder}
    with pytest.raises(ExplainerError, match=r"(?s)lacks .*instances_train2017\.json\. .*--split"):
        reproduce(protocol, tmp_path / "train", **asked)
    table = reproduce(protocol, tmp_path / "val", **asked, split="val2017").table
    assert "Explained: each class that the data set gives, its probability." in " ".join(table.notes)
    assert max(cell.inputs or 0 for row in table.rows for cell in row.cells) == 2  # both animals of the one photo
    with pytest.raises(ExplainerError, match="has a part 'test': choose val2017 or train2017"):
        reproduce(protocol, tmp_path, **asked, split="test")
    with pytest.raises(ExplainerError, match="What ships has no parts to choose from"):
        reproduce(protocol, tmp_path, open_model=loaded, split="val2017")
    with pytest.raises(ExplainerError, match="has a part 'val2017': leave out --split"):
        reproduce(find_protocol("ali-sst2"), tmp_path, open_model=loaded, data=tmp_path, split="val2017")


def test_a_figure_is_drawn_of_the_cells(tmp_path: Path) -> None:
    """A line a row, at the heads of the columns, from 0."""
    reproduction = reproduce(find_protocol("chefer-figure4"), tmp_path, open_model=loaded, limit=2)
    assert reproduction.drawing is not None
    tree = ElementTree.fromstring(reproduction.drawing)
    lines = tree.findall(".//{*}polyline")
    rows = reproduction.table.rows
    assert [group.findtext("{*}title") for group in tree.findall(".//{*}g[@stroke]")] == [row.title for row in rows]
    values = torch.tensor([[cell.value for cell in row.cells] for row in rows], dtype=torch.float64)
    points = torch.tensor([[[float(part) for part in point.split(",")] for point in line.get("points", "").split()] for line in lines])
    assert points[0, :, 0].tolist() == pytest.approx([440 * k / 7 for k in range(8)], abs=0.06)
    top = (300 - points[..., 1]).double()
    scale = float(top.max() / values.max())
    assert torch.allclose(top, values * scale, atol=0.11)
    assert "the class that the data set gives, its logit" in " ".join(reproduction.table.notes)


def test_printed_figures_keep_their_digits() -> None:
    table = published_table(find_protocol("chefer-table1"))
    assert table is not None
    assert [cell.printed for cell in table.rows[0].cells] == ["53.10", "", "20.05", ""]
    assert table.rows[0].cells[1].value is None
    assert published_table(find_protocol("chefer-table3")) is None


def test_pictures_are_a_row_for_each_class_and_a_column_for_each_method(tmp_path: Path) -> None:
    protocol = find_protocol("chefer-figure3")
    reproduction = reproduce(protocol, tmp_path, open_model=loaded, limit=1, pictures=2)
    assert len(reproduction.pictures) == 2
    for figure in reproduction.pictures:
        titles = [axes.get_title().split("\n") for axes in figure.axes]
        assert len(titles) == 2 * len(protocol.rows)
        of_classes = [titles[: len(protocol.rows)], titles[len(protocol.rows) :]]
        assert [title[0] for title in of_classes[0]] == [title[0] for title in of_classes[1]]
        targets = [{title[1] for title in of_class} for of_class in of_classes]
        assert [len(names) for names in targets] == [1, 1]
        assert targets[0] != targets[1]


def test_pictures_that_cannot_be_drawn_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="chefer-table1 is no figure of maps: leave pictures= out"):
        reproduce(find_protocol("chefer-table1"), tmp_path, open_model=loaded, limit=1, pictures=1)
    with pytest.raises(ExplainerError, match="pass 0 or more pictures"):
        reproduce(find_protocol("chefer-figure3"), tmp_path, open_model=loaded, limit=1, pictures=-1)
    assert not list(tmp_path.iterdir())  # no run was begun


def digits(folder: Path, *labels: int) -> Path:
    """MNIST's test files, each picture a bright stroke on black at a place that its digit decides."""
    pictures = np.zeros((len(labels), 28, 28), np.uint8)
    for picture, label in zip(pictures, labels, strict=True):
        picture[4:24, 2 * label + 4 : 2 * label + 8] = 255
    folder.mkdir(parents=True)
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(pictures))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


def test_superpixels_of_digits_are_put_in(tmp_path: Path) -> None:
    """The class that the file names, of a model of ten classes: against the probability while superpixels come back one by one."""
    segmentation = pytest.importorskip("skimage.segmentation")
    model = wrapped(tuple(f"LABEL_{number}" for number in range(10)))
    protocol, folder = find_protocol("ali-mnist"), digits(tmp_path / "data", 3, 8)
    reproduction = reproduce(protocol, tmp_path, open_model=lambda name: model, models=["ten"], data=folder, pictures=1)
    assert reproduction.published is not None
    assert len(reproduction.pictures[0].axes) == len(protocol.rows)
    table = reproduction.table
    assert "Superpixels (SLIC, about 75 of a picture) turn black, in steps of 1/10." in " ".join(table.notes)
    row = next(row for row in table.rows if row.title == "LRP (AH+LN)")
    squashed = with_resize(model, "squashed")
    black = squashed.tensors(Image.new("RGB", (28, 28)))["pixel_values"][0]
    areas = []
    for sample in open_dataset("mnist", folder):
        target = int(sample.labels[0])
        pixels = squashed.tensors(sample.model_input)["pixel_values"][0]
        explained = explainers.explain(squashed, sample.model_input, target, row.spec).maps[0]
        scores = explained.scores[explained.content].double().unflatten(0, explained.patches or (0, 0))
        per_pixel = scores.repeat_interleave(8, 0).repeat_interleave(8, 1) / 64
        scaled = (pixels - pixels.min()) / (pixels.max() - pixels.min())
        segments = torch.from_numpy(segmentation.slic(scaled.permute(1, 2, 0).double().numpy(), n_segments=75, start_label=0))
        names = segments.unique()
        sums = torch.stack([per_pixel[segments == name].sum() for name in names])
        best = names[sums.argsort(descending=True, stable=True)]
        steps = []
        for tenth in range(11):
            shown = torch.isin(segments, best[: math.ceil(tenth * len(names) / 10 - 1e-9)])
            with torch.no_grad():
                logits = squashed.forward({"pixel_values": torch.where(shown, pixels, black)[None]})[0]
            steps.append(float(logits.double().softmax(-1)[target]))
        areas.append((sum(steps) - (steps[0] + steps[-1]) / 2) / 10)
    assert row.cells[0].value == pytest.approx(sum(areas) / 2, abs=1e-5)
    with pytest.raises(ExplainerError, match=r"MNIST for scenes-vit: scenes-vit knows none of its classes"):
        reproduce(protocol, tmp_path / "other", open_model=loaded, models=["scenes-vit"], data=folder)


def test_a_figure_of_superpixels_has_one_score_in_each() -> None:
    pytest.importorskip("skimage")
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    picture = data[0].model_input
    attribution = explainers.explain(model, picture, methods=["attcat"]).maps[0]
    superpixels = find_superpixels(model.tensors(picture)["pixel_values"][0], 75)
    drawn = by_superpixel(attribution, superpixels)
    assert drawn.patches == tuple(superpixels.shape)
    values = drawn.scores.view(superpixels.shape)
    inside = [values[superpixels == number] for number in range(int(superpixels.max()) + 1)]
    assert all(len(part.unique()) == 1 for part in inside)
    total = float(attribution.scores[attribution.content].sum())
    assert sum(float(part[0]) for part in inside) == pytest.approx(total, rel=1e-4, abs=1e-5)


def test_atoms_of_bace_are_put_in(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    protocol, folder = find_protocol("ali-bace"), made_up("bace", tmp_path)
    unnamed = explainers.wrap(tiny_module(), kind="molecule", labels=["0", "1"], name="two classes")
    reproduction = reproduce(protocol, tmp_path / "runs", open_model=lambda name: unnamed, models=["mine"], data=folder, pictures=1)
    row = reproduction.table.rows[0]
    data = open_dataset("bace", folder)
    plan = make_plan(unnamed, data, [row.spec], ["auac"], target="gold", right="first")
    values = [rows_of(EvaluationSetup(unnamed, data, plan), index)[0] for index in range(len(data))]
    assert [value["target"] for value in values] == ["1", "0"]  # an inhibitor, and none
    assert row.cells[0].value == pytest.approx(sum(value["auac"] for value in values) / len(values), abs=1e-7)
    assert len(reproduction.pictures) == 1
    with pytest.raises(ExplainerError, match=r"molecules knows none of its classes \(the first: inhibitor\)"):  # mutagenic is no inhibitor
        reproduce(protocol, tmp_path / "other", open_model=loaded, models=["molecules"], data=folder)


def test_a_language_model_is_asked_about_its_whole_answer(tmp_path: Path) -> None:
    """Of prompts of one's own; without biases the mean over blocks adds up, under Libra alone."""
    file = tmp_path / "prompts.csv"
    file.write_text("text\nthe good movie\nnot a bad film\n", "utf-8")
    protocol, model = find_protocol("libragrad-llama"), llama()
    reproduction = reproduce(protocol, tmp_path / "runs", open_model=lambda name: model, models=["llama"], data=file, pictures=2)
    errors = {row.title: row.cells[0].value or 0 for row in reproduction.table.rows}
    assert errors["Libra FullGrad+, mean over blocks"] < 1e-4
    assert errors["FullGrad+, mean over blocks"] > 0.01
    titles = [figure.axes[0].get_title().split("\n")[1] for figure in reproduction.pictures]
    answers = [explainers.explain(model, text, methods=["random"]).maps[0].target for text in ("the good movie", "not a bad film")]
    assert titles == answers


def test_pictures_are_of_the_class_that_is_asked_for(tmp_path: Path) -> None:
    protocol = find_protocol("ali-sst2")
    one_row = replace(protocol, rows=protocol.rows[:1])
    data = of_sentences(tmp_path / "data", "a dull film", "a lovely film")
    shared = {"open_model": loaded, "models": ["reviews-bert"], "data": data, "pictures": 2}
    gold = reproduce(one_row, tmp_path / "gold", **shared)  # type: ignore[arg-type]
    assert [figure.axes[0].get_title().split("\n")[1] for figure in gold.pictures] == ["positive", "positive"]
    said = reproduce(one_row, tmp_path / "said", options={"target": "predicted"}, **shared)  # type: ignore[arg-type]
    assert [figure.axes[0].get_title().split("\n")[1] for figure in said.pictures] == ["negative", "positive"]
