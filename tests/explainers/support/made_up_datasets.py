"""A tiny sample of every data set, laid out as its publisher lays it out."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from scipy.io import savemat

WIDTH, HEIGHT = 12, 8


def photo(path: Path, colour: tuple[int, int, int] = (200, 100, 50)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (WIDTH, HEIGHT), colour).save(path)


def plane(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(values, np.uint8)).save(path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def left(value: int) -> Any:
    """``value`` in the left third, 0 elsewhere."""
    return np.repeat(np.where(np.arange(WIDTH) < WIDTH // 3, value, 0)[None], HEIGHT, 0)


def imagenet(folder: Path) -> None:
    for number in (1, 2):
        photo(folder / "ILSVRC2012_img_val" / f"ILSVRC2012_val_{number:08d}.JPEG")
    write(folder / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", "2\n1\n")
    kinds = [("ILSVRC2012_ID", "i4"), ("WNID", "O"), ("words", "O")]
    synsets = np.array([(1, "n02119789", "kit fox"), (2, "n01440764", "tench")], kinds)
    savemat(folder / "ILSVRC2012_devkit_t12/data/meta.mat", {"synsets": synsets[:, None]})


def imagenet_kaggle(folder: Path) -> None:
    """The photos and labels of :func:`imagenet`, as Kaggle has them."""
    for number in (1, 2):
        photo(folder / "ILSVRC/Data/CLS-LOC/val" / f"ILSVRC2012_val_{number:08d}.JPEG")
    rows = "ILSVRC2012_val_00000002,n02119789 85 1 499 272 n02119789 1 2 3 4 \nILSVRC2012_val_00000001,n01440764 3 0 9 9 \n"
    write(folder / "LOC_val_solution.csv", f"ImageId,PredictionString\n{rows}")
    write(folder / "LOC_synset_mapping.txt", "n01440764 tench, Tinca tinca\nn02119789 kit fox, Vulpes macrotis\n")


def imagenet_flat(folder: Path) -> None:
    """The same in one folder val beside the development kit."""
    imagenet(folder)
    (folder / "ILSVRC2012_img_val").rename(folder / "val")


def parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1)


def png() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(data, "PNG")
    return data.getvalue()


def imagenet_parquet(folder: Path) -> None:
    """The same as Hugging Face has them: tench is class 0, kit fox 278."""
    for number, label in enumerate((0, 278)):
        row = {"image": {"bytes": png(), "path": f"ILSVRC2012_val_{number + 1:08d}.JPEG"}, "label": label}
        parquet(folder / f"data/validation-{number:05d}-of-00002.parquet", [row])


def imagenet_segmentation(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    reference = h5py.special_dtype(ref=h5py.Reference)
    with h5py.File(folder / "gtsegs_ijcv.mat", "w") as file:
        pixels = file.create_dataset("#refs#/image", data=np.full((3, WIDTH, HEIGHT), 90, np.uint8))
        mask = file.create_dataset("#refs#/mask", data=left(1).T.astype(np.uint8))
        masks = file.create_dataset("#refs#/masks", (1, 1), dtype=reference)
        masks[0, 0] = mask.ref
        file.create_dataset("value/img", (1, 1), dtype=reference)[0, 0] = pixels.ref
        file.create_dataset("value/gt", (1, 1), dtype=reference)[0, 0] = masks.ref


def imagenet_s(folder: Path, size: int = 919) -> None:
    write(folder / f"ImageNetS_categories_im{size}.txt", "n01532829\nn04346328\n")
    photo(folder / f"ImageNetS{size}/validation/n04346328/ILSVRC2012_val_00000293.JPEG")
    values = np.zeros((HEIGHT, WIDTH, 3))
    values[..., 0] = left(2)
    values[0, -1] = (1000 % 256, 1000 // 256, 0)
    plane(folder / f"ImageNetS{size}/validation-segmentation/n04346328/ILSVRC2012_val_00000293.png", values)


def imagenet_hard(folder: Path) -> None:
    for number, labels in enumerate(([[7, 3], [5]], [[9]])):
        rows = [{"image": {"bytes": png(), "path": None}, "label": label, "origin": "x"} for label in labels]
        parquet(folder / f"data/validation-{number:05d}-of-00002.parquet", rows)


def pets(folder: Path) -> None:
    write(folder / "annotations/test.txt", "British_Shorthair_201 1 1 1\n")
    photo(folder / "images/British_Shorthair_201.jpg")
    trimap = np.where(left(1) == 1, 1, 2)
    trimap[0] = 3
    plane(folder / "annotations/trimaps/British_Shorthair_201.png", trimap)


def mura(folder: Path) -> None:
    path = "MURA-v1.1/valid/XR_WRIST/patient11185/study1_positive/image1.png"
    write(folder / "MURA-v1.1/valid_image_paths.csv", f"{path}\n")
    photo(folder / path)


def funnybirds(folder: Path) -> None:
    write(folder / "dataset_test.json", json.dumps([{"class_idx": 4}]))
    photo(folder / "test/4/000000.png")
    beak = np.stack([left(255), left(255), left(0), left(255) * 0 + 255], -1)
    beak[:, -2:, :3] = 170  # the body
    plane(folder / "test_part_map/4/000000.png", beak)


SMALL_SQUARE, LARGE_SQUARE = [6, 2, 8, 2, 8, 4, 6, 4], [6, 2, 10, 2, 10, 6, 6, 6]  # the large one is large enough to count


def coco(folder: Path, elephant: Sequence[int] = SMALL_SQUARE) -> None:
    """Two photos; the first has a zebra, an elephant of this outline, and a crowd of elephants."""
    photo(folder / "val2017/000000000139.jpg")
    photo(folder / "val2017/000000000140.jpg")
    box = [0, 0, 4, 0, 4, HEIGHT, 0, HEIGHT]
    crowd = {"size": [HEIGHT, WIDTH], "counts": [(WIDTH - 1) * HEIGHT, HEIGHT]}
    told = {
        "categories": [{"id": 24, "name": "zebra"}, {"id": 22, "name": "elephant"}],
        "images": [
            {"id": 139, "file_name": "000000000139.jpg", "height": HEIGHT, "width": WIDTH},
            {"id": 140, "file_name": "000000000140.jpg", "height": HEIGHT, "width": WIDTH},
        ],
        "annotations": [
            {"id": 1, "image_id": 139, "category_id": 24, "iscrowd": 0, "area": 4 * HEIGHT, "segmentation": [box]},
            {"id": 2, "image_id": 139, "category_id": 22, "iscrowd": 0, "area": 4, "segmentation": [list(elephant)]},
            {"id": 3, "image_id": 139, "category_id": 22, "iscrowd": 1, "area": HEIGHT, "segmentation": crowd},
            {"id": 4, "image_id": 140, "category_id": 22, "iscrowd": 0, "area": 4 * HEIGHT, "segmentation": [box]},
        ],
    }
    write(folder / "annotations/instances_val2017.json", json.dumps(told))


def voc(folder: Path) -> None:
    root = folder / "VOCdevkit/VOC2012"
    write(root / "ImageSets/Segmentation/val.txt", "2007_000033\n")
    photo(root / "JPEGImages/2007_000033.jpg")
    values = left(8)  # cat
    values[0] = 255
    plane(root / "SegmentationClass/2007_000033.png", values)


def pictures(folder: Path) -> None:
    photo(folder / "tabby cat/one.jpg")
    photo(folder / "two.png")
    plane(folder / "masks/tabby cat/one.png", left(255))


def eraser_movies(folder: Path) -> None:
    write(folder / "movies/docs/negR_900.txt", "it is a\ndull film , alas .\n")
    row = {
        "annotation_id": "negR_900.txt",
        "classification": "NEG",
        "evidences": [[{"docid": "negR_900.txt", "start_token": 3, "end_token": 5, "text": "dull film"}]],
    }
    write(folder / "movies/test.jsonl", json.dumps(row) + "\n")


def evidence(document: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": document, "start_token": start, "end_token": end, "start_sentence": -1, "end_sentence": -1, "text": "..."}


def eraser_esnli(folder: Path) -> None:
    """The premise has a marked word, the hypothesis a marked passage."""
    texts = {"12.jpg#0r1c_premise": "a dog sleeps .", "12.jpg#0r1c_hypothesis": "the dog is\nrunning fast"}
    write(folder / "esnli/docs.jsonl", "\n".join(json.dumps({"docid": name, "document": text}) for name, text in texts.items()))
    groups = [[evidence("12.jpg#0r1c_premise", 2, 3), evidence("12.jpg#0r1c_hypothesis", 3, 5)]]
    row = {"annotation_id": "12.jpg#0r1c", "classification": "contradiction", "docids": None, "evidences": groups, "query": None}
    write(folder / "esnli/test.jsonl", json.dumps(row) + "\n")


def eraser_boolq(folder: Path) -> None:
    write(folder / "boolq/docs/AA_wiki_00_0", "Zebras have stripes .\nThey eat grass .\n")
    row = {"annotation_id": "7", "classification": "True", "docids": ["AA_wiki_00_0"], "query": "do zebras eat grass"}
    write(folder / "boolq/test.jsonl", json.dumps({**row, "evidences": [[evidence("AA_wiki_00_0", 5, 7)]]}) + "\n")


def imdb_parquet(folder: Path) -> None:
    """The reviews of :func:`imdb`, as Hugging Face has them."""
    rows = [{"text": "Dull.<br /><br />Very dull.", "label": 0}, {"text": "Lovely.", "label": 1}]
    parquet(folder / "plain_text/test-00000-of-00001.parquet", rows)


def sst2_parquet(folder: Path) -> None:
    """The sentences of :func:`sst2`, as Hugging Face has those of glue."""
    rows = [{"sentence": 'a "lovely film ', "label": 1, "idx": 0}, {"sentence": "dull ", "label": 0, "idx": 1}]
    parquet(folder / "sst2/validation-00000-of-00001.parquet", rows)


def imdb(folder: Path) -> None:
    write(folder / "aclImdb/test/neg/0_2.txt", "Dull.<br /><br />Very dull.")
    write(folder / "aclImdb/test/pos/0_10.txt", "Lovely.")


def sst2(folder: Path) -> None:
    write(folder / "SST-2/dev.tsv", 'sentence\tlabel\na "lovely film \t1\ndull \t0\n')


def tweets(folder: Path, task: str, classes: Sequence[str]) -> None:
    lines = {"mapping": [f"{number}\t{name}" for number, name in enumerate(classes)], "test_labels": ["1", "0"]}
    for name, rows in {**lines, "test_text": ["@user  what a day \u2028 ! ", "Hm"]}.items():
        write(folder / f"datasets/{task}/{name}.txt", "\n".join(rows) + "\n")


def utterances(folder: Path, part: str, sentiments: Sequence[str]) -> None:
    rows = f'0,"Oh , okay ?",Ross,{sentiments[0]}\n1,Yes .,Monica,{sentiments[1]}\n'
    write(folder / part / "test.csv", f",Utterance,Speaker,Sentiment\n{rows}")


def texts(folder: Path) -> None:
    rows = [{"text": "A lovely film", "label": "positive", "rationale": [[2, 8]]}, {"text": "Dull"}]
    write(folder, "\n".join(map(json.dumps, rows)))


def molecules(folder: Path) -> None:
    """Nitrobenzene, benzene and what RDKit cannot read, in the test split by their CAS numbers; 3-nitroaniline, in the other."""
    rows = "98-95-3,c1ccccc1[N+](=O)[O-],1\n71-43-2,c1ccccc1,0\n58-08-2,c1ccccc,1\n99-09-2,Nc1cccc(c1)[N+](=O)[O-],1\n"
    write(folder / "ames_hansen.csv", f"cas,smiles,mutagenic\n{rows}")


def molecules_packed(folder: Path) -> None:
    """The same, packed by xz."""
    molecules(folder)
    plain = folder / "ames_hansen.csv"
    (folder / "ames_hansen.csv.xz").write_bytes(lzma.compress(plain.read_bytes()))
    plain.unlink()


def bace(folder: Path) -> None:
    """An inhibitor, what RDKit cannot read, and a molecule that is none, with columns that are not read."""
    rows = "CC(=O)Nc1ccc(O)cc1,BACE_1,1,Train,9.1\nc1ccccc,BACE_2,1,Test,8\nCCO,BACE_3,0,Test,3.2\n"
    write(folder / "bace.csv", f"mol,CID,Class,Model,pIC50\n{rows}")


def idx(values: Any) -> bytes:
    """``values`` as a file of IDX holds them: two zeros, the type (8: bytes), the number of sides, the sides, the values."""
    values = np.asarray(values, np.uint8)
    return struct.pack(f">2xBB{values.ndim}I", 8, values.ndim, *values.shape) + values.tobytes()


def mnist(folder: Path) -> None:
    """A 7 and a 2 of the test part."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t10k-images-idx3-ubyte").write_bytes(idx(np.stack([left(255), left(9)])))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx([7, 2]))


def mnist_packed(folder: Path) -> None:
    """The same, packed by gzip, where torchvision has them."""
    mnist(folder)
    (folder / "MNIST/raw").mkdir(parents=True)
    for plain in list(folder.glob("*ubyte")):
        (folder / "MNIST/raw" / f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()


def mnist_dotted(folder: Path) -> None:
    """The same, named as on Kaggle."""
    mnist(folder)
    for plain in list(folder.glob("*ubyte")):
        plain.rename(plain.with_name(plain.name.replace("-idx", ".idx")))


THIRD = HEIGHT * WIDTH // 3  # pixels of a mask


@dataclass(frozen=True)
class MadeUp:
    """A made-up sample of one data set, and what must be read from it.

    make        writes its files to a path
    length      how many inputs it has
    labels      the labels of the first
    areas       how many pixels each mask of the first has
    unlabelled  how many pixels of the first are not labelled
    forms       other forms in which the same inputs are passed on
    """

    make: Callable[[Path], None]
    length: int
    labels: tuple[str | int, ...] = ()
    areas: tuple[int, ...] = ()
    unlabelled: int = 0
    forms: tuple[Callable[[Path], None], ...] = ()


#: The sample of every data set that has files, by its name.
SAMPLES = {
    "imagenet": MadeUp(imagenet, 2, ("n01440764",), forms=(imagenet_flat, imagenet_kaggle, imagenet_parquet)),
    "imagenet-segmentation": MadeUp(imagenet_segmentation, 1, areas=(THIRD,)),
    "imagenet-s": MadeUp(imagenet_s, 1, ("n04346328",), (THIRD,)),
    "imagenet-s300": MadeUp(partial(imagenet_s, size=300), 1, ("n04346328",), (THIRD,)),
    "imagenet-s50": MadeUp(partial(imagenet_s, size=50), 1, ("n04346328",), (THIRD,)),
    "imagenet-hard": MadeUp(imagenet_hard, 3, (7, 3)),
    "pets": MadeUp(pets, 1, ("British Shorthair",), (THIRD - 4,), WIDTH),
    "mura": MadeUp(mura, 1, ("positive",)),
    "funnybirds": MadeUp(funnybirds, 1, (4,), (THIRD,)),
    "coco": MadeUp(coco, 2, ("zebra",), (THIRD, 4), HEIGHT),
    "coco-zebra-elephant": MadeUp(partial(coco, elephant=LARGE_SQUARE), 1, ("zebra", "African elephant"), (THIRD, 25), HEIGHT),
    "coco-pairs": MadeUp(coco, 1, ("zebra", "elephant"), (THIRD, 4), HEIGHT),
    "voc": MadeUp(voc, 1, ("cat",), (THIRD - 4,), WIDTH),
    "pictures": MadeUp(pictures, 2, ("tabby cat",), (THIRD,)),
    "eraser-movies": MadeUp(eraser_movies, 1, ("negative",)),
    "eraser-esnli": MadeUp(eraser_esnli, 1, ("contradiction",)),
    "eraser-boolq": MadeUp(eraser_boolq, 1, ("True",)),
    "imdb": MadeUp(imdb, 2, ("negative",), forms=(imdb_parquet,)),
    "sst-2": MadeUp(sst2, 2, ("positive",), forms=(sst2_parquet,)),
    "texts": MadeUp(texts, 2, ("positive",)),
    "tweet-emotion": MadeUp(partial(tweets, task="emotion", classes=("anger", "joy", "optimism", "sadness")), 2, ("joy",)),
    "tweet-hate": MadeUp(partial(tweets, task="hate", classes=("not-hate", "hate")), 2, ("hate",)),
    "tweet-sentiment": MadeUp(partial(tweets, task="sentiment", classes=("negative", "neutral", "positive")), 2, ("neutral",)),
    "meld-s": MadeUp(partial(utterances, part="meld", sentiments=("negative", "positive")), 2, ("negative",)),
    "semaine": MadeUp(partial(utterances, part="sem", sentiments=("Neutral", "Positive")), 2, ("neutral",)),
    "mnist": MadeUp(mnist, 2, (7,), forms=(mnist_packed, mnist_dotted)),
    "bace": MadeUp(bace, 2, ("inhibitor",)),
    "molecules": MadeUp(molecules, 2, ("mutagenic",), forms=(molecules_packed,)),
}


def made_up(name: str, folder: Path) -> Path:
    """The sample of one data set below ``folder``; what ``--data`` is given."""
    path = folder / ("texts.jsonl" if name == "texts" else name)
    SAMPLES[name].make(path)
    return path
