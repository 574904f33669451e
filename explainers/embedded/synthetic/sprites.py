"""Cut the sprites out of the Noto Color Emoji font: ``python -m explainers.embedded.synthetic.sprites NotoColorEmoji.ttf``.

Only needed when ``kinds.toml`` changes; the pictures are part of the package and scenes need no font.
"""

from __future__ import annotations

import argparse
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

FONT_SIZE = 109  # the one size the font's bitmaps exist in


@cache
def kinds() -> dict[str, dict[str, Any]]:
    """Return the table of kinds in ``explainers/embedded/sprites/kinds.toml``, by name, in the order of the models' classes."""
    return tomllib.loads(resources.files("explainers.embedded").joinpath("sprites/kinds.toml").read_text("utf-8"))


def file_names(kind: str) -> list[str]:
    """Return the names of the sprite files of one ``kind`` of object: ``dog.png``, ``dog-2.png``, ..."""
    stem = kind.replace(" ", "-")
    return [f"{stem}-{i + 1}.png" if i else f"{stem}.png" for i in range(len(kinds()[kind]["glyphs"]))]


def cut(font: ImageFont.FreeTypeFont, glyph: str, crop: list[float] | None = None) -> Image.Image:
    """Draw ``glyph`` of a colour ``font`` as an RGBA picture, cropped to its visible part; only the fractions ``crop`` of it (left, top,
    right, bottom) are kept first. Raises ValueError if the font has no colours for it.
    """
    picture = Image.new("RGBA", (200, 200))
    ImageDraw.Draw(picture).text((100, 100), glyph, font=font, embedded_color=True, anchor="mm")
    box = picture.getbbox()
    if box is None:
        raise ValueError(f"the font has no colour picture for {glyph!r}; use Noto Color Emoji")
    picture = picture.crop(box)
    if crop is not None:
        left, top, right, bottom = crop
        picture = picture.crop((int(left * picture.width), int(top * picture.height),
                                int(right * picture.width), int(bottom * picture.height)))  # fmt: skip
        picture = picture.crop(picture.getbbox())
    return picture


def main() -> None:
    """Cut every sprite of the table out of the font named on the command line, and save each as a picture in the folder of ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("font", type=Path, help="NotoColorEmoji.ttf")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "sprites")
    args = parser.parse_args()
    font = ImageFont.truetype(str(args.font), FONT_SIZE)
    for kind, row in kinds().items():
        for name, glyph in zip(file_names(kind), row["glyphs"], strict=True):
            cut(font, glyph, row.get("crop")).save(args.out / name, optimize=True)


if __name__ == "__main__":
    main()
