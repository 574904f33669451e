"""Fontconfig files that leave the system's fonts only one family, so that no test hangs on what else is installed."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

DEJAVU, LIBERATION = "DejaVu", "Liberation"
TYPEFACES = (DEJAVU, LIBERATION)
# Debian and Fedora; `make chromium` installs them where it may
LIBERATION_FOLDERS = ("/usr/share/fonts/truetype/liberation", "/usr/share/fonts/truetype/liberation2", "/usr/share/fonts/liberation")
# what pages mean by serif, sans-serif and monospace
GENERIC = {
    DEJAVU: {"serif": "DejaVu Serif", "sans-serif": "DejaVu Sans", "monospace": "DejaVu Sans Mono"},
    LIBERATION: {"serif": "Liberation Serif", "sans-serif": "Liberation Sans", "monospace": "Liberation Mono"},
}


def font_files(typeface: str) -> list[Path]:
    """The font files of a typeface, none where it is not installed. DejaVu comes with matplotlib, Liberation with the system."""
    folders = [Path(mpl.get_data_path()) / "fonts" / "ttf"] if typeface == DEJAVU else [Path(folder) for folder in LIBERATION_FOLDERS]
    return sorted({file.name: file for folder in folders for file in folder.glob(f"{typeface}*.ttf")}.values())


def only(typeface: str, folder: Path) -> Path:
    """A fontconfig file in ``folder`` that knows no fonts but those of ``typeface``."""
    fonts = folder / "fonts"
    fonts.mkdir(parents=True)
    for file in font_files(typeface):
        (fonts / file.name).symlink_to(file)
    aliases = [
        f"<match target='pattern'><test name='family'><string>{name}</string></test>"
        f"<edit name='family' mode='assign' binding='strong'><string>{family}</string></edit></match>"
        for name, family in GENERIC[typeface].items()
    ]
    lines = ["<?xml version='1.0'?>", "<!DOCTYPE fontconfig SYSTEM 'fonts.dtd'>", "<fontconfig>"]
    lines += [f"<dir>{fonts}</dir>", f"<cachedir>{folder / 'cache'}</cachedir>", *aliases, "</fontconfig>"]
    config = folder / "fonts.conf"
    config.write_text("\n".join(lines) + "\n", "utf-8")
    return config


ALL_FONTS = 150_000  # bytes of all fonts together
