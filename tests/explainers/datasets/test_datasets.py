"""Every reader reads a made-up sample of its data set and refuses what is missing or broken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explainers import ExplainerError, TextPair
from explainers.datasets import DATASETS, AnnotatedObject, Dataset, Sample, open_dataset
from explainers.models.labels import ClassEntry, imagenet_entries
from tests.explainers.support.made_up_datasets import (
    HEIGHT,
    SAMPLES,
    THIRD,
    WIDTH,
    imagenet_kaggle,
    imagenet_parquet,
    left,
    made_up,
    parquet,
    photo,
    plane,
    png,
    sst2_parquet,
)


def test_every_data_set_has_a_sample() -> None:
    with_files = {name for name, entry in DATASETS.items() if entry.layout}
    assert with_files <= SAMPLES.keys(), "Add a made-up sample to SAMPLES of tests/explainers/support/made_up_datasets.py."
    assert SAMPLES.keys() <= with_files
    made_here = {"scenes", "scenes-mosaic", "scenes-pairs", "scenes-parts", "marked-scenes", "votes", "subject-verb"}
    made_here |= {f"sample-{name}" for name in ("photos", "reviews", "molecules", "questions")}
    assert made_here == DATASETS.keys() - with_files


def test_the_first_paragraph_of_a_docstring_describes_the_data_set() -> None:
    assert DATASETS["sst-2"].description == "872 sentences from film reviews, negative or positive."


def test_pairs_are_of_two_kinds_and_a_part_of_a_data_set_keeps_its_order() -> None:
    pairs = open_dataset("scenes-pairs")
    part = pairs.at([7, 3])
    assert (len(part), part.gives, part.classes) == (2, ("class", "mask", "others"), pairs.classes)
    assert [sample.name for sample in part] == ["00007", "00003"]
    for sample in part:
        first, second = sample.objects
        assert sample.labels == (first.label, second.label)
        assert len(set(sample.labels)) == 2
        assert first.mask.sum() >= second.mask.sum() > 0
        assert not (first.mask & second.mask).any()


def test_the_samples_of_the_pages_are_data_sets() -> None:
    photos, reviews, molecules = (open_dataset(f"sample-{name}") for name in ("photos", "reviews", "molecules"))
    assert len({photo.name for photo in photos}) == len(photos) >= 12
    assert all(photo.image is not None and photo.image.mode == "RGB" for photo in photos)
    assert {label for review in reviews for label in review.labels} == {"negative", "positive"}
    assert {label for molecule in molecules for label in molecule.labels} == {"not mutagenic", "mutagenic"} == set(molecules.classes)
    assert len({molecule.text for molecule in molecules}) == len(molecules) >= 10


@pytest.mark.parametrize("name", SAMPLES)
def test_a_reader_reads(name: str, tmp_path: Path) -> None:
    found = open_dataset(name, made_up(name, tmp_path))
    sample = SAMPLES[name]
    assert found.name == name
    assert len(found) == sample.length
    samples = list(found)
    assert len({each.name for each in samples}) == sample.length
    first = samples[0]
    assert first.labels == sample.labels
    assert (
        found.kind
        == DATASETS[name].kind
        == ("image" if first.image is not None else "molecule" if name in ("molecules", "bace") else "text")
    )
    if first.image is not None:
        assert (first.image.mode, first.image.size) == ("RGB", (WIDTH, HEIGHT))
    for obj, area in zip(first.objects, sample.areas, strict=True):
        # a polygon's rim may be drawn a pixel wider than COCO draws it
        assert area <= int(obj.mask.sum()) <= area + (WIDTH if name.startswith("coco") else 0)
    assert (0 if first.labelled is None else int((~first.labelled).sum())) == sample.unlabelled


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, sample in SAMPLES.items() for make in sample.forms])
def test_every_form_gives_the_same_inputs(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "form")
    first, form = open_dataset(name, made_up(name, tmp_path)), open_dataset(name, tmp_path / "form")
    assert [(sample.labels, sample.text) for sample in form] == [(sample.labels, sample.text) for sample in first]
    assert form.unread == first.unread == ()


def test_labels_that_are_no_classes_are_refused(tmp_path: Path) -> None:
    """-1, which Hugging Face gives photos without a label, is no index from the end."""
    imagenet_parquet(tmp_path / "hub")
    row = {"image": {"bytes": png(), "path": None}, "label": -1}
    parquet(tmp_path / "hub/data/validation-00000-of-00002.parquet", [row])
    with pytest.raises(ExplainerError, match="row 1 has the label -1: classes are numbered 0 to 999"):
        open_dataset("imagenet", tmp_path / "hub")[0]
    imagenet_kaggle(tmp_path / "kaggle")
    (tmp_path / "kaggle/LOC_synset_mapping.txt").write_text("n01440764 tench\n", "utf-8")
    with pytest.raises(ExplainerError, match="ILSVRC2012_val_00000002 has the class 'n02119789', which is not in LOC_synset_mapping"):
        open_dataset("imagenet", tmp_path / "kaggle")
    sst2_parquet(tmp_path / "sst")
    parquet(tmp_path / "sst/sst2/validation-00000-of-00001.parquet", [{"sentence": "dull", "label": -1}])
    with pytest.raises(ExplainerError, match="row 1 must have a text, and a label that is 0 or 1, not -1"):
        open_dataset("sst-2", tmp_path / "sst")[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_missing_is_named(name: str, tmp_path: Path) -> None:
    entry = DATASETS[name]
    with pytest.raises(ExplainerError, match="--data DIR"):
        entry.open()
    with pytest.raises(ExplainerError, match="There is no"):
        entry.open(tmp_path / "nowhere")
    if name != "texts":
        (tmp_path / "empty").mkdir()
        with pytest.raises(ExplainerError, match=r"lacks .*empty") as refusal:
            entry.open(tmp_path / "empty")
        assert entry.get in str(refusal.value)


#: name -> a file of the sample that is spoilt, and what is then said
SPOILT = {
    "imagenet": ("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "cannot be read"),
    "imagenet-segmentation": ("gtsegs_ijcv.mat", "cannot be read"),
    "imagenet-s": ("ImageNetS919/validation-segmentation/n04346328/ILSVRC2012_val_00000293.png", "cannot be read"),
    "imagenet-hard": ("data/validation-00000-of-00002.parquet", "cannot be read"),
    "pets": ("annotations/test.txt", "name, class, species, breed"),
    "mura": ("MURA-v1.1/valid_image_paths.csv", "no study"),
    "funnybirds": ("dataset_test.json", "cannot be read"),
    "coco": ("annotations/instances_val2017.json", "cannot be read"),
    "voc": ("VOCdevkit/VOC2012/JPEGImages/2007_000033.jpg", "not an image"),
    "eraser-movies": ("movies/test.jsonl", "cannot be read"),
    "eraser-esnli": ("esnli/docs.jsonl", "cannot be read"),
    "eraser-boolq": ("boolq/test.jsonl", "cannot be read"),
    "sst-2": ("SST-2/dev.tsv", "lacks the column label"),
    "texts": ("", "cannot be read"),
    "tweet-hate": ("datasets/hate/test_labels.txt", "has 1 lines, and there are 2 tweets"),
    "tweet-emotion": ("datasets/emotion/mapping.txt", "the number of a class"),
    "semaine": ("sem/test.csv", "lacks the column"),
    "mnist": ("t10k-labels-idx1-ubyte", "does not begin as a file of IDX"),
    "bace": ("bace.csv", "lacks the column Class, mol"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_broken_is_refused(name: str, tmp_path: Path) -> None:
    folder = made_up(name, tmp_path)
    file, words = SPOILT[name]
    (folder / file if file else folder).write_text("no such thing", "utf-8")
    with pytest.raises(ExplainerError, match=words):
        open_dataset(name, folder)[0]


@pytest.mark.parametrize(("name", "file"), [("tweet-emotion", "datasets/emotion/test_labels.txt"), ("meld-s", "meld/test.csv")])
def test_a_class_that_there_is_not_is_named(name: str, file: str, tmp_path: Path) -> None:
    folder = made_up(name, tmp_path)
    text = (folder / file).read_text("utf-8")
    (folder / file).write_text(text.replace("1\n0", "1\n7").replace("positive", "glad"), "utf-8")
    with pytest.raises(ExplainerError, match=r"labels must be .*, not (7|glad)"):
        open_dataset(name, folder)


def test_a_tweet_is_one_line_and_keeps_its_words(tmp_path: Path) -> None:
    found = open_dataset("tweet-emotion", made_up("tweet-emotion", tmp_path))
    assert [(sample.text, sample.labels) for sample in found] == [("@user what a day !", ("joy",)), ("Hm", ("anger",))]
    assert found.classes == ("anger", "joy", "optimism", "sadness")


def test_digits_are_read_as_they_were_written(tmp_path: Path) -> None:
    found = open_dataset("mnist", made_up("mnist", tmp_path))
    assert [sample.labels for sample in found] == [(7,), (2,)]
    for sample, value in zip(found, (255, 9), strict=True):
        assert (np.asarray(sample.image) == left(value)[..., None]).all()
    assert (found.classes[7], found.split) == ("7", "test")


def test_the_training_digits_are_read_where_they_are_named_or_alone(tmp_path: Path) -> None:
    folder = made_up("mnist", tmp_path)
    with pytest.raises(ExplainerError, match=r"lacks .*train-images-idx3-ubyte nor .*\.gz"):
        open_dataset("mnist", folder, "train")
    for name in ("images-idx3", "labels-idx1"):
        (folder / f"t10k-{name}-ubyte").rename(folder / f"train-{name}-ubyte")
    assert open_dataset("mnist", folder).split == open_dataset("mnist", folder, "train").split == "train"


@pytest.mark.parametrize(
    ("file", "spoil", "words"),
    [
        ("images-idx3", lambda content: content[:-1], "it has 207 bytes, and should have 208"),
        ("labels-idx1", lambda content: content[:-1] + b"\x0a", "labels must be 0 to 9, not 10"),
        ("labels-idx1", lambda content: content[:4] + b"\0\0\0\x01" + content[8:9], "it has 1 labels, and there are 2 pictures"),
        ("labels-idx1", lambda content: content[:6], "does not begin as a file of IDX"),
    ],
)
def test_digits_that_are_broken_are_refused(file: str, spoil: Callable[[bytes], bytes], words: str, tmp_path: Path) -> None:
    path = made_up("mnist", tmp_path) / f"t10k-{file}-ubyte"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ExplainerError, match=words):
        open_dataset("mnist", path.parent)
    path.with_name(f"{path.name}.gz").write_bytes(b"no gzip")
    path.unlink()
    with pytest.raises(ExplainerError, match=r"\.gz cannot be read: Not a gzipped file"):
        open_dataset("mnist", path.parent)


def test_a_result_that_is_neither_0_nor_1_is_refused(tmp_path: Path) -> None:
    folder = made_up("bace", tmp_path)
    (folder / "bace.csv").write_text("mol,Class\nCCO,1\nCC,yes\n", "utf-8")
    with pytest.raises(ExplainerError, match="Class of row 2 is 'yes', and must be 0 or 1"):
        open_dataset("bace", folder)


@pytest.mark.parametrize("name", ["voc", "pets", "imagenet-s", "funnybirds"])
def test_a_mask_that_is_missing_is_named(name: str, tmp_path: Path) -> None:
    folder = made_up(name, tmp_path)
    masks = {"voc": "VOCdevkit/VOC2012/SegmentationClass", "pets": "annotations/trimaps", "funnybirds": "test_part_map"}
    found = open_dataset(name, folder)
    shutil.rmtree(folder / masks.get(name, "ImageNetS919/validation-segmentation/n04346328"))
    with pytest.raises(ExplainerError, match=r"lacks .*png"):
        found[0]


def test_what_is_broken_inside_of_a_large_file_is_refused(tmp_path: Path) -> None:
    """What is seen only when an input is read, or in a list that is whole in form."""
    folder = made_up("imagenet-segmentation", tmp_path)
    with h5py.File(folder / "gtsegs_ijcv.mat", "r+") as file:
        del file["value/gt"]
    with pytest.raises(ExplainerError, match=r"gtsegs_ijcv\.mat cannot be read: picture 1: "):
        open_dataset("imagenet-segmentation", folder)[0]
    folder = made_up("imagenet-hard", tmp_path)
    row = {"image": {"bytes": b"no picture", "path": None}, "label": [1]}
    pq.write_table(pa.Table.from_pylist([row]), folder / "data/validation-00000-of-00002.parquet")
    with pytest.raises(ExplainerError, match="row 1 has no picture"):
        open_dataset("imagenet-hard", folder)[0]
    folder = made_up("funnybirds", tmp_path)
    plane(folder / "test_part_map/4/000000.png", left(1))
    with pytest.raises(ExplainerError, match="must be in colour"):
        open_dataset("funnybirds", folder)[0]
    folder = made_up("coco", tmp_path)
    listing = folder / "annotations/instances_val2017.json"
    listing.write_text(listing.read_text("utf-8").replace('"height"', '"tallness"'), "utf-8")
    with pytest.raises(ExplainerError, match="'height' is missing or wrong"):
        open_dataset("coco", folder)


def test_the_training_part_of_coco_is_read_where_the_validation_part_is_missing(tmp_path: Path) -> None:
    folder = made_up("coco", tmp_path)
    validation = open_dataset("coco", folder)[0]
    (folder / "val2017").rename(folder / "train2017")
    (folder / "annotations/instances_val2017.json").rename(folder / "annotations/instances_train2017.json")
    training = open_dataset("coco", folder)[0]
    assert (training.name, training.labels) == (validation.name, validation.labels)
    (folder / "annotations/instances_train2017.json").unlink()
    with pytest.raises(ExplainerError, match=r"instances_val2017\.json nor .*instances_train2017\.json"):
        open_dataset("coco", folder)


def test_the_split_of_coco_that_is_asked_for_is_read(tmp_path: Path) -> None:
    """With val2017 beside train2017, train2017 was never read."""
    folder = made_up("coco-zebra-elephant", tmp_path)
    about = json.loads((folder / "annotations/instances_val2017.json").read_text("utf-8"))
    photo(folder / "train2017/000000000009.jpg")
    image = {"id": 9, "file_name": "000000000009.jpg", "height": HEIGHT, "width": WIDTH}
    rows = [{**row, "image_id": 9} for row in about["annotations"][:2]]
    (folder / "annotations/instances_train2017.json").write_text(json.dumps({**about, "images": [image], "annotations": rows}), "utf-8")
    for name in ("coco", "coco-zebra-elephant"):
        by_default, training = open_dataset(name, folder), open_dataset(name, folder, "train2017")
        assert (by_default.split, by_default[0].name) == ("val2017", "000000000139.jpg")
        assert (training.split, len(training), training[0].name) == ("train2017", 1, "000000000009.jpg")
    with pytest.raises(ExplainerError, match="COCO 2017 has no split 'test': choose val2017 or train2017"):
        open_dataset("coco", folder, "test")
    with pytest.raises(ExplainerError, match="read whole: leave out --split"):
        open_dataset("scenes", None, "val2017")
    (folder / "annotations/instances_val2017.json").unlink()
    with pytest.raises(ExplainerError, match=r"lacks .*instances_val2017\.json\. "):
        open_dataset("coco", folder, "val2017")


def test_every_picture_in_the_folders_of_synsets_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    """`*.JPEG` alone was read: six of twelve files were dropped without a word."""
    folder = tmp_path / "imagenet" / "val"
    endings = ["JPEG", "jpeg", "JPG", "jpg", "png", "PNG", "webp", "bmp", "tiff", "gif", "ppm", "jp2"]
    for number, ending in enumerate(endings):
        photo(folder / "n01440764" / f"{number}.{ending}")
    for path in ("n01440764/notes.txt", "tench/one.jpg", "n02119789/.hidden", "n02119789/deeper/one.jpg"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("no picture", "utf-8")
    data = open_dataset("imagenet", folder.parent)
    assert {sample.name for sample in data} == {str(number) for number in range(12)}
    assert data.unread == ("val/n01440764/notes.txt", "val/n02119789/deeper", "val/tench")
    photo(folder / "n02119789" / "0.jpg")
    assert {"n01440764/0.JPEG", "n02119789/0.jpg"} <= {sample.name for sample in open_dataset("imagenet", folder.parent)}


def test_imagenet_s_reads_every_picture_too(tmp_path: Path) -> None:
    folder = made_up("imagenet-s", tmp_path)
    photos = folder / "ImageNetS919/validation/n04346328"
    (photos / "ILSVRC2012_val_00000293.JPEG").rename(photos / "ILSVRC2012_val_00000293.jpg")
    (sample,) = open_dataset("imagenet-s", folder)
    assert sample.labels == ("n04346328",)


def test_a_mask_may_be_any_picture_and_one_without_its_picture_is_named(tmp_path: Path) -> None:
    folder = made_up("pictures", tmp_path)
    (folder / "masks/tabby cat/one.png").rename(folder / "masks/tabby cat/one.PNG")
    plane(folder / "masks/tabby cat/oen.bmp", left(255))
    (folder / "list.txt").write_text("one", "utf-8")
    data = open_dataset("pictures", folder)
    assert [int(obj.mask.sum()) for obj in data[0].objects] == [THIRD]
    assert data.unread == ("list.txt", "masks/tabby cat/oen.bmp")


def test_what_a_data_set_of_ones_own_gives_is_seen_from_its_files(tmp_path: Path) -> None:
    folder = made_up("pictures", tmp_path)
    assert open_dataset("pictures", folder).gives == ("class", "mask")
    shutil.rmtree(folder / "masks")
    assert open_dataset("pictures", folder).gives == ("class",)
    assert open_dataset("pictures", folder / "tabby cat").gives == ()  # no folder says what they are
    assert of_texts(tmp_path, "text,label\nGood,positive\nOdd,\n").gives == ("class",)
    assert of_texts(tmp_path, "text,label\nGood,\n").gives == ()
    assert of_texts(tmp_path, '{"text": "Good", "rationale": [[0, 4]]}', ".jsonl").gives == ("rationale",)


def test_reviews_that_are_not_read_are_named(tmp_path: Path) -> None:
    folder = made_up("imdb", tmp_path)
    (folder / "aclImdb/test/neg/1_3.TXT").write_text("Bad.", "utf-8")
    (folder / "aclImdb/test/neg/2_3.doc").write_text("Bad.", "utf-8")
    data = open_dataset("imdb", folder)
    assert (len(data), data.unread) == (3, ("aclImdb/test/neg/2_3.doc",))


def test_a_pair_is_the_two_largest_things_that_have_a_name_and_are_no_specks(tmp_path: Path) -> None:
    folder = made_up("coco", tmp_path)
    listing = folder / "annotations/instances_val2017.json"
    whole = json.loads(listing.read_text("utf-8"))

    def pairs(*things: tuple[str, float]) -> list[tuple[str | int, ...]]:
        """The labels of the photos of pairs, where one photo shows these, each with the share that it covers."""
        whole["categories"] = [{"id": i, "name": name} for i, (name, _) in enumerate(things)]
        whole["annotations"] = [
            {**whole["annotations"][0], "id": i, "category_id": i, "area": share * HEIGHT * WIDTH} for i, (_, share) in enumerate(things)
        ]
        listing.write_text(json.dumps(whole), "utf-8")
        found = open_dataset("coco-pairs", folder)
        assert all(len(sample.objects) == 2 for sample in found)
        return [tuple(sorted(map(str, sample.labels))) for sample in found]

    assert pairs(("dog", 0.3), ("cat", 0.02), ("car", 0.2)) == [("car", "dog")]
    assert pairs(("dog", 0.3), ("cat", 0.009)) == []
    assert pairs(("dog", 0.3), ("giraffe", 0.4), ("cat", 0.02)) == [("cat", "dog")]  # ImageNet has no giraffe


def test_zebras_with_elephants_are_the_two_animals_alone_large_and_apart(tmp_path: Path) -> None:
    """The rules of LibraGrad's code, and its classes of ImageNet: 340 and 386."""
    folder = made_up("coco-zebra-elephant", tmp_path)
    listing = folder / "annotations/instances_val2017.json"
    whole = json.loads(listing.read_text("utf-8"))
    categories = [{"id": 24, "name": "zebra"}, {"id": 22, "name": "elephant"}, {"id": 1, "name": "person"}]

    def photos(*things: tuple[int, tuple[int, int, int, int]]) -> list[list[tuple[str | int | None, int]]]:
        """The objects of the photos that are read, where one photo shows boxes (category; left, top, right, bottom)."""
        boxes = [(category, [a, b, c, b, c, d, a, d]) for category, (a, b, c, d) in things]
        rows = [
            {**whole["annotations"][0], "id": i, "category_id": category, "segmentation": [box]} for i, (category, box) in enumerate(boxes)
        ]
        listing.write_text(json.dumps({**whole, "categories": categories, "annotations": rows}), "utf-8")
        return [[(obj.label, int(obj.mask.sum())) for obj in sample.objects] for sample in open_dataset("coco-zebra-elephant", folder)]

    zebra, elephant = (24, (0, 0, 4, HEIGHT)), (22, (6, 2, 10, 6))
    assert photos(zebra, elephant, (1, (10, 0, 12, HEIGHT))) == [[("zebra", 4 * HEIGHT), ("African elephant", 25)]]
    assert photos(zebra, (22, (6, 2, 7, 3))) == []  # 4 of 96 pixels are no twentieth
    assert photos((24, (0, 0, 8, HEIGHT)), (22, (6, 2, 10, 6))) != []  # a part of the elephant is hidden
    assert photos((24, (0, 0, 10, HEIGHT)), (22, (6, 2, 10, 6))) == []  # nearly all of it is
    assert photos((24, (0, 0, 12, 4)), (24, (6, 4, 7, 5)), (22, (0, 4, 8, HEIGHT))) == []  # one small zebra lies on the elephant
    assert photos(zebra) == []
    entries = imagenet_entries()
    model: Any = SimpleNamespace(classes=entries, labels=[entry.label for entry in entries], synonyms={}, groups={}, kind="image")
    photos(zebra, elephant)
    data = open_dataset("coco-zebra-elephant", folder)
    assert [data.class_of(label, model) for label in data[0].labels] == [340, 386]


def test_texts_keep_what_people_marked(tmp_path: Path) -> None:
    review = open_dataset("eraser-movies", made_up("eraser-movies", tmp_path))[0]
    assert review.text == "it is a dull film , alas ."
    assert review.rationale is not None
    assert [review.text[start:end] for start, end in review.rationale] == ["dull film"]
    own = open_dataset("texts", made_up("texts", tmp_path))[0]
    assert own.rationale == ((2, 8),)
    assert open_dataset("imdb", made_up("imdb", tmp_path))[0].text == "Dull. Very dull."
    assert open_dataset("sst-2", made_up("sst-2", tmp_path))[0].text == 'a "lovely film'


def test_pairs_keep_what_people_marked_in_either_text(tmp_path: Path) -> None:
    def marked(text: str | None, spans: tuple[tuple[int, int], ...] | None) -> list[str] | None:
        return None if text is None or spans is None else [text[start:end] for start, end in spans]

    entailed = open_dataset("eraser-esnli", made_up("eraser-esnli", tmp_path))[0]
    assert entailed.model_input == TextPair("a dog sleeps .", "the dog is running fast")
    assert marked(entailed.text, entailed.rationale) == ["sleeps"]
    assert marked(entailed.text_pair, entailed.pair_rationale) == ["running fast"]
    asked = open_dataset("eraser-boolq", made_up("eraser-boolq", tmp_path))[0]
    assert asked.model_input == TextPair("do zebras eat grass", "Zebras have stripes . They eat grass .")
    assert (asked.rationale, marked(asked.text_pair, asked.pair_rationale)) == (None, ["eat grass"])
    row = {"text": "Is it good?", "text_pair": "It is dull.", "rationale": [], "pair_rationale": [[6, 10]]}
    own = of_texts(tmp_path, json.dumps(row), ".jsonl")[0]
    assert (own.rationale, marked(own.text_pair, own.pair_rationale)) == ((), ["dull"])
    assert of_texts(tmp_path, "text,text_pair\nIs it good?,It is dull.\n")[0].model_input == TextPair("Is it good?", "It is dull.")


def test_the_split_of_eraser_that_is_asked_for_is_read(tmp_path: Path) -> None:
    folder = made_up("eraser-movies", tmp_path)
    row = json.loads((folder / "movies/test.jsonl").read_text("utf-8"))
    (folder / "movies/val.jsonl").write_text(json.dumps({**row, "classification": "POS", "evidences": []}), "utf-8")
    by_default, validation = open_dataset("eraser-movies", folder), open_dataset("eraser-movies", folder, "val")
    assert (by_default.split, by_default[0].labels) == ("test", ("negative",))
    assert (validation.split, validation[0].labels, validation[0].rationale) == ("val", ("positive",), ())


def test_what_is_wrong_with_evidence_is_said(tmp_path: Path) -> None:
    folder = made_up("eraser-esnli", tmp_path)
    listing = folder / "esnli/test.jsonl"
    row = json.loads(listing.read_text("utf-8"))
    (first, second), *_ = row["evidences"]
    spoilt = {
        "line 1: the evidence lies outside of 12.jpg#0r1c_premise, which has 4 tokens": {"evidences": [[{**first, "end_token": 9}]]},
        "line 1: the evidence names 13.jpg, not": {"evidences": [[second, {**first, "docid": "13.jpg"}]]},
        "line 1: 'docid' is missing or wrong in the evidence": {"evidences": [[{"start_token": 1, "end_token": 2}]]},
        "line 1: the classification 'maybe' is none of entailment": {"classification": "maybe"},
        "it has no document 12.jpg#0r2_premise": {"annotation_id": "12.jpg#0r2", "evidences": []},
    }
    for words, change in spoilt.items():
        listing.write_text(json.dumps({**row, **change}), "utf-8")
        with pytest.raises(ExplainerError, match=words):
            open_dataset("eraser-esnli", folder)[0]
    folder = made_up("eraser-boolq", tmp_path)
    listing = folder / "boolq/test.jsonl"
    listing.write_text(listing.read_text("utf-8").replace('["AA_wiki_00_0"]', '["AA_wiki_00_0", "AA_wiki_00_1"]'), "utf-8")
    with pytest.raises(ExplainerError, match="about one document, and names AA_wiki_00_0, AA_wiki_00_1"):
        open_dataset("eraser-boolq", folder)[0]


def test_a_data_set_that_needs_no_files_takes_none(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="Scenes needs no files: leave out --data"):
        open_dataset("scenes", tmp_path)


def of_texts(folder: Path, text: str | bytes, suffix: str = ".csv") -> Dataset:
    """The data set of a file of one's own."""
    path = folder / f"texts{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_dataset("texts", path)


def test_a_file_of_texts_is_read_as_spreadsheets_write_it(tmp_path: Path) -> None:
    """With a byte order mark, quoted line breaks, commas, and characters that part lines elsewhere."""
    rows = of_texts(tmp_path, '\ufefftext,label\r\n"A good\r\nfilm, all in all",positive\r\n\r\nDull\u2028and long,\r\n')
    assert [(sample.text, sample.labels) for sample in rows] == [
        ("A good\r\nfilm, all in all", ("positive",)),
        ("Dull\u2028and long", ()),
    ]
    lines = of_texts(tmp_path, '{"text": "Dull\u2028and\x85long", "label": null}\r\n{"text": "Good"}', ".jsonl")
    assert [sample.text for sample in lines] == ["Dull\u2028and\x85long", "Good"]


@pytest.mark.parametrize(
    ("suffix", "text", "words"),
    [
        (".csv", "review,label\nGood,positive\n", "lacks the column text"),
        (".csv", "text,label\nGood, bad,positive\n", "line 2 has more columns than the first"),
        (".csv", f"text\n{'good ' * 30_000}\n", "after line 1: field larger"),
        (".csv", "text\ncaf\xe9\n".encode("latin-1"), "it is not UTF-8, at byte 8"),
        (".csv", "\n", "it is empty"),
        (".jsonl", '{"text": "Good", "label": 1}', "row 1: label must be the name of a class, in quotes, not 1"),
        (".jsonl", '{"text": 3}', "row 1 has no text"),
    ],
)
def test_a_file_of_texts_that_is_wrong_says_what_it_should_be(tmp_path: Path, suffix: str, text: str | bytes, words: str) -> None:
    with pytest.raises(ExplainerError, match=words) as refusal:
        of_texts(tmp_path, text, suffix)[0]
    assert "the columns text and, if known, label" in str(refusal.value)
    assert "Fetch" not in str(refusal.value)


def test_scenes_are_the_same_each_time() -> None:
    for name in ("scenes", "scenes-mosaic"):
        first, again = (open_dataset(name)[3] for _ in range(2))
        assert first.image is not None
        assert again.image is not None
        assert first.image.tobytes() == again.image.tobytes()
        assert [obj.label for obj in first.objects] == list(first.labels) == list(again.labels)
        assert all(obj.mask.any() for obj in first.objects)
    assert [obj.cell for obj in open_dataset("scenes-mosaic")[0].objects] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_inputs_are_drawn_with_a_seed() -> None:
    scenes = open_dataset("scenes")
    assert scenes.choose(5) == scenes.choose(5)
    assert scenes.choose(5) != scenes.choose(5, seed=1)
    assert scenes.choose(5) == scenes.choose(8)[:5]


def test_names_of_classes_are_found_in_a_model(tmp_path: Path) -> None:
    def model(labels: list[str], classes: list[ClassEntry] | None = None) -> Any:
        return SimpleNamespace(kind="image", labels=labels, classes=classes or [], synonyms={})

    photos = open_dataset("imagenet", made_up("imagenet", tmp_path))
    known = model(["fox", "tench"], [ClassEntry("fox", wnid="n02119789"), ClassEntry("tench", wnid="n01440764")])
    assert photos.class_of("n01440764", known) == 1
    assert photos.class_of("n01440764", model(["fox", "tench"])) is None
    reviews = open_dataset("sst-2", made_up("sst-2", tmp_path))
    assert reviews.class_of("positive", model(["LABEL_0", "LABEL_1"])) == 1
    assert reviews.class_of("positive", model(["Positive", "Negative"])) == 0


@pytest.mark.parametrize(
    ("label", "index"),
    [
        ("brain coral", 1),
        ("brain_coral", 1),
        ("Brain-Coral", 1),
        ("brown  bear", 0),
        ("n02132136", 0),
        ("n02132136-brown_bear", 0),
        ("n021321360", None),
        ("bruin", 0),  # a synonym
        ("kodiak_bear", 0),
        ("2", 2),
        ("3", None),
        ("coral", None),
    ],
)
def test_a_label_is_found_however_it_is_written(label: str, index: int | None) -> None:
    entries = [ClassEntry("brown bear", wnid="n02132136"), ClassEntry("brain coral"), ClassEntry("sock")]
    synonyms = {"bruin": (0,), "kodiak bear": (0,)}
    model: Any = SimpleNamespace(kind="image", labels=[entry.label for entry in entries], classes=entries, synonyms=synonyms)
    data = Dataset(kind="image", length=0, read=lambda index: Sample(name=str(index)), is_ordered=False)
    assert data.class_of(label, model) == index


@pytest.mark.parametrize(
    ("labels", "is_ordered", "expected"),
    [
        (["sock", "brain coral"], True, {"brain_coral": 1, "socke": None}),  # one name is known, so the order means nothing
        (["Strumpf", "Koralle"], True, {"brain_coral": 0, "socke": 1}),
        (["Strumpf", "Koralle"], False, {"brain_coral": None, "socke": None}),
        (["class 0", "class 1"], False, {"brain_coral": 0, "socke": 1}),
        (["class 0", "class 1", "class 2"], False, {"brain_coral": None, "socke": None}),
    ],
)
def test_classes_are_those_of_a_model_in_order_where_no_name_says_otherwise(
    labels: list[str], is_ordered: bool, expected: dict[str, int | None]
) -> None:
    model: Any = SimpleNamespace(kind="image", labels=labels, classes=[], synonyms={})
    read = lambda index: Sample(name=str(index))  # noqa: E731
    data = Dataset(kind="image", length=0, read=read, classes=("brain_coral", "socke"), is_ordered=is_ordered)
    assert {label: data.class_of(label, model) for label in expected} == expected


def test_a_wide_name_takes_in_the_classes_of_the_group_that_it_names(tmp_path: Path) -> None:
    def entry(name: str, *groups: str) -> ClassEntry:
        return ClassEntry(name, groups=groups)

    classes = [entry("tabby cat", "cat", "animal"), entry("sofa"), entry("Persian cat", "cat", "animal"), entry("cat box")]
    groups = {"cat": (0, 2), "animal": (0, 2), "bird of prey": (1,)}
    known: Any = SimpleNamespace(kind="image", labels=[one.label for one in classes], classes=classes, groups=groups, synonyms={})
    photos = open_dataset("coco", made_up("coco", tmp_path))
    assert photos.classes_of("cat", known) == {0, 2}
    assert photos.classes_of("sofa", known) == {1}
    assert photos.classes_of("kite", known) == frozenset()
    assert photos.classes_of("Bird_of-prey", known) == {1}
    assert photos.classes_of(1, known) == frozenset()  # it has other classes than the data set


def test_a_mask_has_the_size_of_its_image() -> None:
    with pytest.raises(ExplainerError, match="its image has None"):
        Sample(name="a", text="b", objects=(AnnotatedObject(label=None, mask=np.ones((2, 2), bool)),))


def test_molecules_are_parted_by_their_cas_numbers_and_those_that_are_mutagenic_have_marked_atoms(tmp_path: Path) -> None:
    folder = made_up("molecules", tmp_path)
    test, train = (open_dataset("molecules", folder, split) for split in ("test", "train"))
    assert [sample.name for sample in test] == ["98-95-3", "71-43-2"]
    assert [sample.name for sample in train] == ["99-09-2"]
    nitrobenzene, benzene = test
    assert nitrobenzene.text is not None
    assert nitrobenzene.rationale is not None
    assert [nitrobenzene.text[start:end] for start, end in nitrobenzene.rationale] == ["c", "[N+]", "O", "[O-]"]
    assert (benzene.labels, benzene.rationale) == (("not mutagenic",), None)
    (folder / "ames_hansen.csv").write_text("cas,smiles,mutagenic\n98-95-3,CC,maybe\n", "utf-8")
    with pytest.raises(ExplainerError, match="mutagenic of 98-95-3 is 'maybe', and must be 0 or 1"):
        open_dataset("molecules", folder)
