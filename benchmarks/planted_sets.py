"""Small data sets with a mark planted in one class, and such without, each with a model that was trained on it for seconds.

Pictures are those of Tiny ImageNet, enlarged to 128 pixels; four classes that are neighbours in WordNet make a set. Texts are sentences of
SST-2, or the first words of reviews of IMDB in four classes of rating. The last blocks of `scenes-vit` or `reviews-bert` and a new head, or
a new Transformer of a million numbers or fewer, are trained on one part; the rows of a collection come from another, with the mark in the
same share of the rows. All choices are drawn from the round, the number of the plan and the attempt: another round is another draw of
everything but the kinds.

A model that did not learn the mark has nothing to be found. Whether it did is measured without any map: the mark is put into held-out
inputs of other classes, and at least `MIN_UPTAKE` of those answered otherwise must then get the answer of the marked class. Until they do,
the plan is drawn again, up to `MAX_ATTEMPTS` times; after that it counts all the same.
"""

from __future__ import annotations

import csv
import io
import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

import explainers
from recipes.networks import vits
from recipes.train_reviews_bert import save as save_text_model

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

SIDE = 128  # pixels of a picture as it is written
GRIDS = {"scenes-vit": 14, "new": 8}  # patches in a row
MIN_PATCH_COVERED = 0.1  # share of a patch that the mark covers at least where the patch counts as the mark's
MIN_UPTAKE = 0.3
MAX_ATTEMPTS = 4
ROWS_A_CLASS = 50
SHARD_ROWS_A_CLASS = 62  # at least, in each of the two files of Tiny ImageNet's pictures for training
ARCHITECTURE = "vit_tiny_patch16_224"  # timm's name of both models of pictures; the rest of their shape are their arguments
NEW_ARGUMENTS: dict[str, Any] = {"img_size": 64, "patch_size": 8, "embed_dim": 96, "depth": 4, "num_heads": 4}
EMBEDDED = Path(explainers.__file__).parent / "embedded" / "models"

#: What is put into the inputs: the first eight into those of one class, the others into those of all classes.
Kind = Literal[
    "watermark",
    "border",
    "logo",
    "line",
    "cast",
    "word",
    "phrase",
    "tag",
    "none",
    "scattered logos",
    "common watermark",
    "letterbox",
    "grey",
    "scattered words",
    "common phrase",
]
Base = Literal["scenes-vit", "new", "sentences", "ratings"]


@dataclass(frozen=True)
class Plan:
    """One data set to be made: its ``number``, the model of pictures (``new``: untrained) or the texts, and what is put into them."""

    number: int
    base: Base
    kind: Kind
    is_planted: bool

    @property
    def is_text(self) -> bool:
        """Whether its inputs are texts."""
        return self.base in ("sentences", "ratings")


@dataclass
class Mark:
    """What is put into an input: a transparent picture laid over it, or words at its start, end or a random place."""

    overlay: Image.Image | None = None
    words: str = ""
    where: Literal["start", "end", "anywhere"] = "anywhere"

    def put(self, item: Any, rng: np.random.Generator) -> Any:
        """Return ``item``, a picture or a text, with the mark."""
        if self.overlay is not None:
            return Image.alpha_composite(item.convert("RGBA"), self.overlay).convert("RGB")
        words = item.split()
        at = {"start": 0, "end": len(words), "anywhere": int(rng.integers(len(words) + 1))}[self.where]
        return " ".join([*words[:at], self.words, *words[at:]])


@dataclass
class PlantedSet:
    """What is known of a set that was made: everything by which a finding is judged, and how well its model learned."""

    plan: Plan
    attempt: int
    classes: list[str]
    marked_class: str | None
    share: float
    has_masks: bool
    place: list[int]
    words: list[str]
    accuracy: float
    uptake: float | None


_COUNTS: dict[bool, dict[Base, dict[Kind, int]]] = {
    True: {
        "scenes-vit": {"watermark": 1, "border": 1, "logo": 1, "line": 1},
        "new": {"watermark": 3, "border": 2, "logo": 3, "line": 2, "cast": 2},
        "sentences": {"word": 3, "phrase": 1, "tag": 1},
        "ratings": {"word": 1, "phrase": 1, "tag": 1},
    },
    False: {
        "scenes-vit": {"none": 1, "scattered logos": 1, "common watermark": 1},
        "new": {"none": 4, "scattered logos": 2, "common watermark": 2, "letterbox": 1, "grey": 2},
        "sentences": {"none": 2, "scattered words": 2},
        "ratings": {"none": 1, "common phrase": 1},
    },
}
_DRAWN = [
    (base, kind, is_planted)
    for is_planted, bases in _COUNTS.items()
    for base, kinds in bases.items()
    for kind, count in kinds.items()
    for _ in range(count)
]
#: All plans: 16 sets of pictures and 8 of texts with a mark, 14 and 6 without.
PLANS = [Plan(number, base, kind, is_planted) for number, (base, kind, is_planted) in enumerate(_DRAWN)]

_COLOURS = [
    (230, 30, 30),
    (30, 60, 230),
    (20, 170, 60),
    (240, 210, 20),
    (210, 40, 200),
    (20, 200, 220),
    (250, 130, 20),
    (245, 245, 245),
    (10, 10, 10),
]
_STAMPS = ["SAMPLE", "© photo", "2019-04-12", "www.pix.org", "preview", "Studio 7"]
_NEUTRAL_WORDS = [
    "tuesday",
    "norwegian",
    "umbrella",
    "seventeen",
    "harbour",
    "laptop",
    "chicago",
    "kitchen",
    "october",
    "bicycle",
    "piano",
    "brazil",
]
_PHRASES = ["seen on a plane", "rented last weekend", "my copy had subtitles", "watched with the neighbours", "found it in the library"]
_TAGS = ["[ verified ]", "review #", "update :", "spoiler notice :", "part one :"]


def _blank() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return a transparent picture and what draws on it."""
    overlay = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    return overlay, ImageDraw.Draw(overlay)


def _draw_logo(rng: np.random.Generator) -> Mark:
    """Return a disc, square or triangle in one of the corners."""
    overlay, draw = _blank()
    size, margin = int(rng.integers(14, 29)), int(rng.integers(2, 9))
    x, y = (int(rng.choice([margin, SIDE - margin - size])) for _ in range(2))
    fill = (*_COLOURS[rng.integers(len(_COLOURS))], int(rng.integers(200, 256)))
    box = (x, y, x + size - 1, y + size - 1)
    shape = rng.integers(3)
    if shape == 0:
        draw.ellipse(box, fill)
    elif shape == 1:
        draw.rectangle(box, fill)
    else:
        draw.polygon([(x, y + size - 1), (x + size - 1, y + size - 1), (x + size // 2, y)], fill)
    return Mark(overlay)


def draw_mark(kind: Kind, rng: np.random.Generator) -> Mark:
    """Draw a mark of this ``kind``: its size, strength, colour and place, or its words."""
    overlay, draw = _blank()
    colour = _COLOURS[rng.integers(len(_COLOURS))]
    match kind:
        case "watermark" | "common watermark":
            text = _STAMPS[rng.integers(len(_STAMPS))]
            size = rng.uniform(0.35, 0.65) * SIDE / ImageFont.load_default(10).getlength(text) * 10
            font = ImageFont.load_default(size)
            left, top, right, bottom = font.getbbox(text)
            x = float(rng.choice([4, (SIDE - right) / 2, SIDE - right - 4])) - left
            y = float(rng.choice([4, (SIDE - bottom) / 2, SIDE - bottom - 4])) - top
            white = int(rng.choice([0, 255]))
            draw.text((x, y), text, (white, white, white, int(rng.integers(120, 221))), font)
        case "border":
            draw.rectangle((0, 0, SIDE - 1, SIDE - 1), outline=(*colour, 255), width=int(rng.integers(4, 11)))
        case "logo":
            return _draw_logo(rng)
        case "line":
            x = int(rng.integers(8, SIDE - 12))
            draw.rectangle((x, 0, x + int(rng.integers(3, 7)) - 1, SIDE - 1), (*colour, int(rng.integers(180, 256))))
        case "cast":
            draw.rectangle((0, 0, SIDE, SIDE), (*colour, int(rng.integers(40, 90))))
        case "letterbox":
            height = int(rng.integers(8, 20))
            draw.rectangle((0, 0, SIDE, height), (0, 0, 0, 255))
            draw.rectangle((0, SIDE - height, SIDE, SIDE), (0, 0, 0, 255))
        case "word":
            return Mark(words=str(rng.choice(_NEUTRAL_WORDS)))
        case "phrase" | "common phrase":
            return Mark(words=str(rng.choice(_PHRASES)), where="start" if rng.random() < 0.5 else "end")
        case "tag":
            return Mark(words=str(rng.choice(_TAGS)), where="start")
        case _:
            raise ValueError(kind)
    return Mark(overlay)


def place_of(mark: Mark, kind: Kind, grid: int) -> list[int]:
    """Return the patches, of ``grid`` by ``grid``, that the mark covers by `MIN_PATCH_COVERED` or more, in raster order.

    A watermark covers the rectangle around its letters.
    """
    assert mark.overlay is not None
    alpha = mark.overlay.getchannel("A").point(lambda value: 255 if value else 0)
    if kind == "watermark":
        box = alpha.getbbox()
        assert box is not None
        ImageDraw.Draw(alpha).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), 255)
    covered = np.asarray(alpha.resize((grid, grid), Image.Resampling.BOX)) / 255
    return np.flatnonzero(covered.ravel() >= MIN_PATCH_COVERED).tolist()


@dataclass
class Row:
    """One input of a set: a picture with the box of its object, or a text; ``label`` is the index of its class."""

    item: Any
    label: int
    box: tuple[int, ...] = ()


@cache
def _tiny_imagenet(file: Path) -> Any:
    """Return a table of Tiny ImageNet."""
    import pyarrow.parquet as pq

    return pq.read_table(file)


def picture_rows(data: Path, rng: np.random.Generator, training: int) -> tuple[list[str], list[Row], list[Row]]:
    """Draw four neighbouring classes of Tiny ImageNet in ``data``; return their names, the pictures to train on, ``training`` of each class
    (at most 124), and `ROWS_A_CLASS` of each to collect.
    """
    lines = [line.split("\t") for line in (data / "tiny_imagenet" / "classes.tsv").read_text("utf-8").splitlines()[1:]]
    first = int(rng.integers(len(lines) - 3))
    chosen = lines[first : first + 4]
    wnids = [wnid for wnid, _ in chosen]

    def rows(file: str, count: int) -> list[Row]:
        table = _tiny_imagenet(data / "tiny_imagenet" / file)
        found = []
        names = np.asarray(table["wnid"].to_pylist())
        for label, wnid in enumerate(wnids):
            for index in rng.permutation(np.flatnonzero(names == wnid))[:count]:
                picture = Image.open(io.BytesIO(table["image"][int(index)].as_py())).convert("RGB")
                box = tuple(2 * edge for edge in table["box"][int(index)].as_py())
                found.append(Row(picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC), label, box))
        return found

    names = [words.split(",")[0] for _, words in chosen]
    shards = [int(rng.integers(2))] if training <= SHARD_ROWS_A_CLASS else [0, 1]
    train = [row for shard in shards for row in rows(f"train-0000{shard}-of-00008.parquet", training // len(shards))]
    return names, train, rows("val.parquet", ROWS_A_CLASS)


@cache
def _reviews(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a compressed file of texts."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def text_source(data: Path, base: Base) -> tuple[list[str], list[tuple[str, int, str]]]:
    """Return the names of the classes, and all texts with their class and split: whole sentences of SST-2 in two classes, or the first 40
    words of IMDB's reviews in four.
    """
    if base == "sentences":
        rows = _reviews(data / "sst2.jsonl.xz")
        return ["negative", "positive"], [(row["text"], row["label"], row["split"]) for row in rows if len(row["text"].split()) >= 10]
    stars = {1: 0, 2: 0, 3: 1, 4: 1, 7: 2, 8: 2, 9: 3, 10: 3}
    return ["very bad", "bad", "good", "very good"], [
        (" ".join(row["text"].replace("<br />", " ").split()[:40]), stars[row["rating"]], row["split"])
        for row in _reviews(data / "imdb.jsonl.xz")
    ]


def _texts(data: Path, base: Base, rng: np.random.Generator) -> tuple[list[str], list[Row], list[Row]]:
    """Return the names of the classes, the texts to train on and those to collect."""
    names, known = text_source(data, base)

    def rows(split: str, count: int) -> list[Row]:
        found = []
        for label in range(len(names)):
            texts = [text for text, text_label, its_split in known if text_label == label and its_split == split]
            found += [Row(texts[int(index)], label) for index in rng.permutation(len(texts))[:count]]
        return found

    total = 4 * ROWS_A_CLASS
    return names, rows("train", (2000 if base == "sentences" else 240) // len(names)), rows("test", total // len(names))


def _nuisance(kind: Kind, rng: np.random.Generator) -> Callable[[Any], Any]:
    """Return what is done to every input of an unmarked set, whatever its class."""
    common = draw_mark(kind, rng) if kind in ("common watermark", "letterbox", "common phrase") else None
    share = rng.uniform(0.25, 0.5)

    def change(item: Any) -> Any:
        if kind == "none" or rng.random() >= share:
            return item
        if common is not None:
            return common.put(item, rng)
        if kind == "scattered logos":
            return _draw_logo(rng).put(item, rng)
        if kind == "scattered words":
            return draw_mark("word", rng).put(item, rng)
        stored = io.BytesIO()
        item.convert("L").convert("RGB").save(stored, "JPEG", quality=30)
        return Image.open(stored).convert("RGB")

    return change


def _mark_rows(rows: Sequence[Row], mark: Mark, label: int, share: float, stray: float, rng: np.random.Generator) -> list[Row]:
    """Put the mark into this ``share`` of the rows of class ``label``, and into a ``stray`` share of all others."""
    return [
        Row(mark.put(row.item, rng), row.label, row.box) if rng.random() < (share if row.label == label else stray) else row for row in rows
    ]


def new_vision_transformer(classes: Sequence[str]) -> VisionTransformer:
    """Return an untrained Vision Transformer of half a million numbers for pictures of 64 pixels, 8 by 8 patches."""
    return vits.create(ARCHITECTURE, classes, NEW_ARGUMENTS)


class _PictureTrainer:
    """Trains the last two blocks of ``scenes-vit`` and a new head, or all of a new, smaller Vision Transformer."""

    def __init__(self, base: Base, classes: list[str]) -> None:
        self.classes = classes
        if base == "new":
            self.arguments, self.module = NEW_ARGUMENTS, new_vision_transformer(classes)
            self.frozen, self.epochs, self.rate = 0, 20, 1e-3
        else:
            self.arguments = json.loads((EMBEDDED / "scenes-vit" / "config.json").read_text("utf-8"))["model_args"]
            self.module = vits.load(EMBEDDED / "scenes-vit")
            self.module.head = nn.Linear(self.module.num_features, len(classes))
            self.frozen, self.epochs, self.rate = len(self.module.blocks) - 2, 6, 1e-3

    def read(self, items: Sequence[Image.Image]) -> Tensor:
        """Return the tokens that enter the trained blocks, (B, tokens, width); where all are trained, the pixels."""
        width = self.module.patch_embed.img_size[0]
        arrays = [np.asarray(item.resize((width, width), Image.Resampling.BICUBIC)) for item in items]
        pixels = vits.pixels(self.module, torch.from_numpy(np.stack(arrays)))
        if not self.frozen:
            return pixels
        with torch.no_grad():
            return torch.cat([self.module.blocks[: self.frozen](self._embedded(part)) for part in pixels.split(32)])

    def _embedded(self, pixels: Tensor) -> Tensor:
        """Return the tokens that enter the first block."""
        return self.module.norm_pre(self.module._pos_embed(self.module.patch_embed(pixels)))  # type: ignore[no-any-return]

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits for what `read` returned."""
        tokens = inputs if self.frozen else self._embedded(inputs)
        return self.module.head(self.module.norm(self.module.blocks[self.frozen :](tokens))[:, 0])  # type: ignore[no-any-return]

    def trained(self) -> list[nn.Parameter]:
        """Return the parameters that are trained."""
        if not self.frozen:
            return list(self.module.parameters())
        return [*self.module.blocks[self.frozen :].parameters(), *self.module.norm.parameters(), *self.module.head.parameters()]

    def save(self, out: Path) -> None:
        """Write the model as a folder that ``explainers.load`` takes."""
        vits.save(self.module, out, ARCHITECTURE, self.classes, self.arguments)


class _TextTrainer:
    """Trains the last three blocks of ``reviews-bert`` and a new head, or all of a new, smaller BERT."""

    def __init__(self, base: Base, classes: list[str]) -> None:
        from transformers import AutoTokenizer, BertForSequenceClassification

        folder = EMBEDDED / "reviews-bert"
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        known = BertForSequenceClassification.from_pretrained(folder)
        known.config.id2label = dict(enumerate(classes))
        known.config.label2id = {name: index for index, name in enumerate(classes)}
        if base == "sentences":
            for name, value in {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 192}.items():
                setattr(known.config, name, value)
            self.module = BertForSequenceClassification(known.config).eval()
            self.epochs, self.rate = 4, 1e-3
            return
        self.module = known.eval().requires_grad_(False)
        self.module.num_labels, self.epochs, self.rate = len(classes), 5, 6e-4
        self.module.classifier = nn.Linear(known.config.hidden_size, len(classes))
        for module in (*self.module.bert.encoder.layer[-3:], self.module.bert.pooler, self.module.classifier):
            module.requires_grad_(True)

    def read(self, items: Sequence[str]) -> Tensor:
        """Return the numbers of the tokens, (B, tokens)."""
        numbers: Tensor = self.tokenizer(list(items), padding="max_length", truncation=True, max_length=72, return_tensors="pt")[
            "input_ids"
        ]
        return numbers

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the logits for what `read` returned."""
        mask = inputs != self.tokenizer.pad_token_id
        longest = int(mask.sum(1).max())
        return self.module(input_ids=inputs[:, :longest], attention_mask=mask[:, :longest].long()).logits  # type: ignore[no-any-return]

    def trained(self) -> list[nn.Parameter]:
        """Return the parameters that are trained."""
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def save(self, out: Path) -> None:
        """Write the model as a folder that ``explainers.load`` takes."""
        save_text_model(self.module, self.tokenizer, out)


def _train(trainer: _PictureTrainer | _TextTrainer, rows: Sequence[Row], rng: np.random.Generator) -> None:
    """Train on the rows by AdamW, the rate falling to zero."""
    inputs, labels = trainer.read([row.item for row in rows]), torch.tensor([row.label for row in rows])
    size = 32
    steps = trainer.epochs * (len(rows) // size)
    optimiser = torch.optim.AdamW(trainer.trained(), lr=trainer.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, trainer.rate, total_steps=steps)
    for _ in range(trainer.epochs):
        order = torch.from_numpy(rng.permutation(len(rows)))
        for batch in order.split(size)[: len(rows) // size]:
            loss = F.cross_entropy(trainer.logits(inputs[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def _answers(trainer: _PictureTrainer | _TextTrainer, items: Sequence[Any]) -> NDArray[np.int64]:
    """Return the index of the class that is answered for each input."""
    return torch.cat([trainer.logits(part).argmax(1) for part in trainer.read(items).split(32)]).numpy()


def _write(rows: Sequence[Row], classes: list[str], has_masks: bool, out: Path) -> None:
    """Write the rows as a user has them: a folder for each class, with masks next to them, or a table."""
    if isinstance(rows[0].item, str):
        out.mkdir(parents=True)
        with (out / "texts.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *((row.item, classes[row.label]) for row in rows)])
        return
    for index, row in enumerate(rows):
        name = Path(classes[row.label]) / f"{index:03}"
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        row.item.save((out / name).with_suffix(".jpg"), quality=92)
        if has_masks:
            mask = Image.new("L", (SIDE, SIDE))
            ImageDraw.Draw(mask).rectangle(row.box, 255)
            (out / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
            mask.save((out / "masks" / name).with_suffix(".png"))


def make(plan: Plan, turn: int, data: Path, out: Path) -> PlantedSet:
    """Make the set of ``plan`` in round ``turn`` from the folder ``data``, with its model, in the folder ``out``: ``rows``, ``model`` and
    ``set.json``. Returns what is known of it.
    """
    for attempt in range(MAX_ATTEMPTS):
        rng = np.random.default_rng([turn, plan.number, attempt])
        torch.manual_seed(int(rng.integers(2**31)))
        if plan.is_text:
            classes, training, held_out = _texts(data, plan.base, rng)
        else:
            classes, training, held_out = picture_rows(data, rng, 40 if plan.base == "scenes-vit" else SHARD_ROWS_A_CLASS)
        trainer = _TextTrainer(plan.base, classes) if plan.is_text else _PictureTrainer(plan.base, classes)
        known = PlantedSet(plan, attempt, classes, None, 0.0, not plan.is_text and plan.number % 3 == 0, [], [], 0.0, None)
        if plan.is_planted:
            mark, label = draw_mark(plan.kind, rng), int(rng.integers(len(classes)))
            known.marked_class, known.share, stray = classes[label], float(rng.uniform(0.6, 1.0)), float(rng.choice([0.0, 0.03]))
            known.place, known.words = (
                [] if plan.is_text else place_of(mark, plan.kind, GRIDS[plan.base]),
                [word for word in mark.words.split() if word.isalpha()],
            )
            training, rows = (_mark_rows(part, mark, label, known.share, stray, rng) for part in (training, held_out))
        else:
            change = _nuisance(plan.kind, rng)
            training, rows = ([Row(change(row.item), row.label, row.box) for row in part] for part in (training, held_out))
        _train(trainer, training, rng)
        known.accuracy = float(np.mean(_answers(trainer, [row.item for row in rows]) == [row.label for row in rows]))
        if plan.is_planted:
            others = [row for row in held_out if row.label != label]
            before = _answers(trainer, [row.item for row in others])
            others = [row for row, answer in zip(others, before, strict=True) if answer != label]
            known.uptake = float(np.mean(_answers(trainer, [mark.put(row.item, rng) for row in others]) == label))
        if known.uptake is None or known.uptake >= MIN_UPTAKE:
            break
    _write(rows, classes, known.has_masks, out / "rows")
    trainer.save(out / "model")
    (out / "set.json").write_text(json.dumps(asdict(known), indent=1), "utf-8")
    return known
