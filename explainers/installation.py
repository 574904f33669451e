"""Facts on how Vitrine was installed: its distribution, its version, and how missing parts are added."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Literal

#: The name on the package index, where ``vitrine`` is another project.
DISTRIBUTION = "vitrine-xai"
#: The file that only the image of the Dockerfile has.
_IMAGE = Path("/usr/share/vitrine")


@cache  # it is read from a file, and what was imported stays what it was
def package_version(name: str) -> str | None:
    """Return the version of the installed distribution ``name``; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def installed_as() -> Literal["checkout", "image", "wheel"]:
    """Return the kind of installation: "checkout" (editable, or not installed), "image" of a container, or "wheel"."""
    if _IMAGE.is_dir():
        return "image"
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")  # PEP 610
    except PackageNotFoundError:
        return "checkout"
    return "checkout" if origin.get("dir_info", {}).get("editable") else "wheel"


def not_installed(what: str, extra: str) -> str:
    """Return the message for a package that is missing: ``what`` it is needed for, and how to install the ``extra`` of Vitrine that brings
    it.
    """
    how = {
        "checkout": f"In the folder of Vitrine: pip install -e '.[{extra}]'",
        "wheel": f"Type: pip install '{DISTRIBUTION}[{extra}]'",
        "image": f"In an image built FROM this one, as root: pip install '{DISTRIBUTION}[{extra}]'",
    }
    return f"{what}, which is not installed. {how[installed_as()]}"
