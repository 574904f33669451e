"""The example package of docs/extending.md, installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "extending.md"


def install_example(folder: Path) -> Path:
    """Write the package as the page has it, install it without fetching anything, and give the folder it is in."""
    text = PAGE.read_text("utf-8")
    source, installed = folder / "source", folder / "installed"
    source.mkdir(parents=True)
    for language, name in (("python", "vitrine_example.py"), ("toml", "pyproject.toml")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (source / name).write_text(block, "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", "--target", installed, source], check=True)
    return installed
