"""The sample photos of the pages: ``python -m recipes.assets.photo_samples --sources DIR`` makes ``explainers/embedded/samples/photos``.

``--sources`` is a folder with the files that ``PHOTOS`` names, from scikit-image, scikit-learn, Debian's ``palapeli-data`` and
``lomiri-wallpapers-16.04``. Each becomes a JPEG of at most 512 pixels a side. Some are also set one above the other, or get a word
written onto them, for questions with two things and with a trap. ``index.json`` lists each photo twice, to be classified and to be
matched with prompts; ``NOTICE`` says of each who made it, under which licence, and what was changed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont, ImageOps

SIDE = 512
QUALITY = 85
OUT = Path(__file__).parents[2] / "explainers" / "embedded" / "samples" / "photos"

CC0 = "CC0 1.0, https://creativecommons.org/publicdomain/zero/1.0/"
CC_BY_2 = "CC BY 2.0, https://creativecommons.org/licenses/by/2.0/"
CC_BY_4 = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/"
CC_BY_SA_4 = "CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/"
PUBLIC_DOMAIN = "public domain"
SKIMAGE, SKLEARN = "scikit-image, skimage/data", "scikit-learn, sklearn/datasets/images"
PALAPELI, LOMIRI = "Debian's palapeli-data", "Debian's lomiri-wallpapers-16.04"
WIKIMEDIA = "https://commons.wikimedia.org/wiki/Image:"


@dataclass(frozen=True)
class Photo:
    """A photo as its source publishes it: its file, author, licence and source. ``box`` is the part that is kept, as fractions of the
    sides.
    """

    file: str
    author: str
    licence: str
    source: str
    box: tuple[float, float, float, float] = (0, 0, 1, 1)


@dataclass(frozen=True)
class Note:
    """A word written on a drawn piece of paper.

    word          the text
    x, y, height  centre and height, as fractions of the picture's sides
    angle         in degrees
    """

    word: str
    x: float
    y: float
    height: float
    angle: float


@dataclass(frozen=True)
class PhotoSample:
    """A sample picture of the pages.

    name     stem of its file; ``title`` and ``note`` are shown with it
    photos   names of its photos: one, or two that are joined
    prompts  what to ask about it; ``absent`` are prompts for what is not there
    trap     whether the model is easily misled by it
    written  a word to write on it; None: none
    """

    name: str
    title: str
    note: str
    photos: tuple[str, ...]
    prompts: tuple[str, ...]
    absent: tuple[str, ...]  # prompts for what is not there
    trap: bool = False
    written: Note | None = None


PHOTOS = {
    "cat": Photo("chelsea.png", "Stéfan van der Walt", CC0, SKIMAGE),
    "coffee": Photo("coffee.png", "Rachel Michetti, courtesy of Pikolo Espresso Bar", CC0, SKIMAGE),
    "rocket": Photo("rocket.jpg", "SpaceX", PUBLIC_DOMAIN, f"{SKIMAGE}; https://www.flickr.com/photos/spacexphotos/16511594820"),
    "astronaut": Photo("astronaut.png", "NASA, of Eileen Collins", PUBLIC_DOMAIN, f"{SKIMAGE}; https://flic.kr/p/r9qvLn"),
    "temple": Photo("china.jpg", "danielbuechele", CC_BY_2, f"{SKLEARN}; https://www.flickr.com/photos/danielbuechele/6061409035"),
    "dahlia": Photo("flower.jpg", "vultilion", CC_BY_2, f"{SKLEARN}; https://www.flickr.com/photos/vultilion/6056698931"),
    "bridge": Photo(
        "cincinnati-bridge.jpg", "Derek Jensen", PUBLIC_DOMAIN, f"{PALAPELI}; {WIKIMEDIA}Cincinnati-roebling-suspension-bridge.jpg"
    ),
    "citrus": Photo("citrus-fruits.jpg", "US Department of Agriculture", PUBLIC_DOMAIN, f"{PALAPELI}; {WIKIMEDIA}Citrus_fruits.jpg"),
    "bee": Photo("european-honey-bee.jpg", "John Severns", PUBLIC_DOMAIN, f"{PALAPELI}; {WIKIMEDIA}European_honey_bee_extracts_nectar.jpg"),
    "fig": Photo("Picture_0B_by_freespace.jpg", "Trevor “Freespace”", CC_BY_4, LOMIRI),
    "brushes": Photo("Picture_1A_by_freespace.jpg", "Trevor “Freespace”", CC_BY_4, LOMIRI),
    "drum": Photo("Wine_by_Jakkub_Mede.jpg", "Jakub Mede", CC_BY_4, LOMIRI, (0, 0.2, 1, 1)),
    "dogs": Photo("friends_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", CC_BY_4, LOMIRI, (0.05, 0.1, 1, 0.8)),
    "mountains": Photo("picosdeeuropa_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", CC_BY_4, LOMIRI),
    "clock": Photo("greentock_by_Peter_Nerlich.jpg", "Peter Nerlich", CC_BY_SA_4, LOMIRI),
    "dandelion": Photo("seeding_by_Clements_Engelhardt.jpg", "Clemens Engelhardt", CC0, LOMIRI),
}

#: The sample that the Prompt page opens with: two things, each in its half of the picture, and the model is sure of both.
FIRST_WITH_PROMPTS = "photo-cat-coffee-prompts"
SAMPLES = (
    PhotoSample("dogs", "Two dogs at a window", "Two of a kind: ask for any dog.", ("dogs",), ("a dog", "a window"), ("a cat", "a horse")),
    PhotoSample("cat", "Cat", "One animal that fills the picture: eyes, nose, or the stripes?", ("cat",), ("a cat",), ("a dog", "a fox")),
    PhotoSample("coffee", "Cup of coffee", "A cup of coffee and a spoon.", ("coffee",), ("a cup of coffee", "a spoon"),
                ("a banana",)),
    PhotoSample("bridge", "Suspension bridge", "Tower, cables, lights, and their reflection.", ("bridge",),
                ("a suspension bridge", "a river at night"), ("a castle", "a boat")),
    PhotoSample("temple", "Temple", "A building among trees, before a lake.", ("temple",), ("a temple", "trees"), ("a church", "a car")),
    PhotoSample("citrus", "Slices of fruit", "Many of a kind: the evidence is everywhere.",
                ("citrus",), ("an orange", "a lime"), ("an apple",)),
    PhotoSample("fig", "Fig in a bowl", "A small thing in the middle, and a large one around it.", ("fig",), ("a fig", "a red bowl"),
                ("a flower",)),
    PhotoSample("brushes", "Paint brushes", "Bristles, or paint?", ("brushes",), ("paint brushes",), ("pencils", "flowers")),
    PhotoSample("clock", "Clock on a wall", "Seen at an angle, and only in part.", ("clock",), ("a clock",), ("a plate", "a wheel")),
    PhotoSample("mountains", "Mountains", "Rock, snow, clouds and a path: no single thing.",
                ("mountains",), ("mountains", "a path", "clouds"),
                ("the sea",)),
    PhotoSample("drum", "Drum, wine and a loudspeaker", "Several things: which of them does the answer name?", ("drum",),
                ("a drum", "a bottle of wine", "a loudspeaker"), ("a guitar",)),
    PhotoSample("astronaut", "Astronaut", "A person, a helmet, a flag, and a model of the space shuttle.", ("astronaut",),
                ("an astronaut", "a space shuttle", "a flag"), ("a fire fighter",)),
    PhotoSample("dandelion", "Dandelion clocks", "ImageNet has no class for this: does the model say so?", ("dandelion",), ("a dandelion",),
                ("a mushroom", "a sheep")),
    PhotoSample("dahlia", "Dahlia", "ImageNet has no class for this: does the model say so?",
                ("dahlia",), ("a dahlia",), ("a sea anemone",)),
    PhotoSample("cat-coffee", "Cat above a cup of coffee", "Two photos in one: each thing has its own evidence.", ("cat", "coffee"),
                ("a cat", "a cup of coffee"), ("a dog", "a bowl of soup")),
    PhotoSample("bee-bridge", "Bee above a bridge", "Two photos in one: each thing has its own evidence.", ("bee", "bridge"),
                ("a bee", "a bridge"), ("a butterfly", "a boat")),
    PhotoSample("fig-brushes", "Fig above paint brushes", "Two photos in one, alike in colour.", ("fig", "brushes"),
                ("a fig", "paint brushes"), ("a tomato",)),
    PhotoSample("bee", "Bee on a flower", "Bees are photographed on flowers: did the bee make the answer, or the flower?", ("bee",),
                ("a bee", "a flower"), ("a butterfly",), trap=True),
    PhotoSample("rocket", "Rocket on its pad", "Towers and lights stand around it: did the rocket make the answer, or the pad?",
                ("rocket",),
                ("a rocket", "towers", "lights at night"), ("a lighthouse",), trap=True),
    PhotoSample("coffee-ipod", "Cup of coffee with a note", "The word on the paper says “iPod”.", ("coffee",),
                ("a cup of coffee", "an iPod"), ("a telephone",), trap=True, written=Note("iPod", 0.2, 0.74, 0.18, 12)),
    PhotoSample("cat-dog", "Cat with a note", "The word on the paper says “dog”.", ("cat",), ("a cat", "a dog"), ("a fox",), trap=True,
                written=Note("dog", 0.8, 0.82, 0.2, -7)),
)  # fmt: skip


def open_photo(folder: Path, photo: Photo) -> Image.Image:
    """Return the part of ``photo``, whose file is in ``folder``, that its ``box`` keeps, upright and in RGB, at most ``SIDE`` pixels a
    side.
    """
    picture = ImageOps.exif_transpose(Image.open(folder / photo.file)).convert("RGB")
    x0, y0, x1, y1 = photo.box
    picture = picture.crop((round(x0 * picture.width), round(y0 * picture.height), round(x1 * picture.width), round(y1 * picture.height)))
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return picture


def stack_pictures(upper: Image.Image, lower: Image.Image) -> Image.Image:
    """Return a square picture, ``SIDE`` pixels a side, with one picture in its upper and one in its lower half, each cut to its middle."""
    square = Image.new("RGB", (SIDE, SIDE))
    for place, picture in enumerate((upper, lower)):
        square.paste(ImageOps.fit(picture, (SIDE, SIDE // 2), Image.Resampling.LANCZOS), (0, place * SIDE // 2))
    return square


def add_note(picture: Image.Image, note: Note) -> Image.Image:
    """Return a copy of ``picture`` with the word of ``note`` on a piece of paper drawn onto it. The letters are matplotlib's DejaVu
    Sans.
    """
    import matplotlib

    height = round(note.height * picture.height)
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), round(0.62 * height))
    width = round(font.getlength(note.word) + 0.5 * height)
    paper = Image.new("RGBA", (width, height), (244, 240, 228, 255))
    ImageDraw.Draw(paper).text((width / 2, height / 2), note.word, font=font, fill=(28, 30, 44, 255), anchor="mm")
    paper = paper.rotate(note.angle, Image.Resampling.BICUBIC, expand=True)
    written = picture.copy()
    written.paste(paper, (round(note.x * picture.width - paper.width / 2), round(note.y * picture.height - paper.height / 2)), paper)
    return written


def compose_picture(folder: Path, sample: PhotoSample) -> Image.Image:
    """Return the finished picture of ``sample``, from photos in ``folder``: its photo or two photos in one, with the note where it has
    one.
    """
    pictures = [open_photo(folder, PHOTOS[name]) for name in sample.photos]
    picture = pictures[0] if len(pictures) == 1 else stack_pictures(*pictures)
    return picture if sample.written is None else add_note(picture, sample.written)


def entries(sample: PhotoSample) -> list[dict[str, Any]]:
    """Return the two entries of ``index.json`` for a sample: one to be classified, one to be matched with prompts."""
    shown = {"title": sample.title, "note": sample.note, "image": f"{sample.name}.jpg", "trap": sample.trap}
    present, others = ([f"a photo of {prompt}" for prompt in prompts] for prompts in (sample.prompts, sample.absent))
    sets = [{"name": "what is there", "prompts": present}, {"name": "and what is not", "prompts": [*present, *others]}]
    return [
        {"id": f"photo-{sample.name}", "kind": "image", "model": "photos-vit", **shown},
        {"id": f"photo-{sample.name}-prompts", "kind": "clip", "model": "clip", **shown, "prompts": present, "sets": sets},
    ]


def notice(sample: PhotoSample) -> str:
    """Return the paragraph of ``NOTICE`` for a sample: who made its photos, under which licence, and what was changed."""
    rows = [f"{sample.name}.jpg"]
    for name in sample.photos:
        photo = PHOTOS[name]
        rows.append(f"  {photo.file} by {photo.author}. {photo.licence}. From {photo.source}")
    cut = len(sample.photos) > 1 or any(PHOTOS[name].box != (0, 0, 1, 1) for name in sample.photos)
    changes = ["made smaller", *(["cut"] if cut else []), *(["set one above the other"] if len(sample.photos) > 1 else [])]
    changes += [] if sample.written is None else [f"a piece of paper with the word “{sample.written.word}” was drawn onto it"]
    return "\n".join([*rows, f"  Changed: {', '.join(changes)}, saved as JPEG."])


def main() -> None:
    """Make every sample picture from the photos in the folder ``--sources``, and write them with ``index.json`` and ``NOTICE`` to the
    samples' folder, `OUT`.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="folder with the files that PHOTOS names")
    folder = parser.parse_args().sources
    OUT.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        compose_picture(folder, sample).save(OUT / f"{sample.name}.jpg", quality=QUALITY, optimize=True, progressive=True)
    rows = [row for sample in SAMPLES for row in entries(sample)]
    rows.sort(key=lambda row: row["id"] != FIRST_WITH_PROMPTS)
    (OUT / "index.json").write_text(json.dumps({"samples": rows}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    head = "The photos in this folder are not ours. Each is under the licence named here, the pictures made from it too."
    (OUT / "NOTICE").write_text("\n\n".join([head, *(notice(sample) for sample in SAMPLES)]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
