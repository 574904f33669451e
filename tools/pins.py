"""What an installation is made of, by version and hash: ``make pins`` completes ``constraints.txt`` and writes ``deploy/requirements``.

uv asks the package index and downloads nothing. It needs the extra ``supply``. `tests/test_pins.py` says, without the index, when a file
no longer fits ``pyproject.toml`` or ``constraints.txt``.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
FOLDER = ROOT / "deploy" / "requirements"
#: The versions of Python and platform whose dependencies are listed, as in the Dockerfile. Hashes are of all files of a version.
PYTHON, PLATFORM = "3.11", "x86_64-unknown-linux-gnu"
#: The distributions of torch and of its build for GPUs, which may come from another index than the rest.
TORCH_PACKAGES = re.compile(r"(torch|triton|(cuda|nvidia)-.*)")
#: For each file of ``deploy/requirements`` with one extra the name of that extra in ``pyproject.toml``.
EXTRAS = {"heif": "heif", "supply": "supply"}
_PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)")


def read_pins(text: str) -> dict[str, str]:
    """Return the pinned version of each distribution in ``text``, a file of constraints or requirements, by its normalised name."""
    return {canonicalize_name(pin["name"]): pin["version"] for line in text.splitlines() if (pin := _PIN.match(line))}


def read_hashes(text: str) -> dict[str, list[str]]:
    """Return the SHA-256 hashes of each distribution in ``text``, a requirements file, by its normalised name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if pin := _PIN.match(line):
            hashes = found.setdefault(canonicalize_name(pin["name"]), [])
        elif digest := re.fullmatch(r"\s+--hash=sha256:([0-9a-f]{64})(?: \\)?", line):
            hashes.append(digest[1])
    return found


def resolve(requirements: Iterable[str], *options: str) -> str:
    """Resolve ``requirements`` with uv (``options`` are further arguments) under the constraints, and return the text of a requirements
    file. Raises CalledProcessError.
    """
    uv = [sys.executable, "-m", "uv", "pip", "compile", "-", "--constraint", str(CONSTRAINTS), "--no-config", "--quiet"]
    form = ["--no-header", "--no-annotate", "--python-version", PYTHON, "--python-platform", PLATFORM]
    return subprocess.run([*uv, *form, *options], input="\n".join(requirements), stdout=subprocess.PIPE, text=True, check=True).stdout


def complete(constraints: str, resolved: str) -> str:
    """Return the constraints with a line at their end for each distribution of ``resolved`` that has none."""
    there = read_pins(constraints)
    missing = [f"{name}=={version}\n" for name, version in sorted(read_pins(resolved).items()) if name not in there]
    return constraints + "".join(missing)


def write_requirements(name: str, resolved: str, wanted: Iterable[str]) -> None:
    """Write the lines of ``resolved`` that belong to the distributions ``wanted`` to the file ``name`` of ``deploy/requirements``."""
    blocks = re.split(r"\n(?=\S)", resolved.strip())
    names = set(wanted)
    kept = [block for block in blocks if read_pins(block).keys() & names]
    head = f"# Made by `make pins` from pyproject.toml and constraints.txt, for Python {PYTHON} on Linux.\n"
    (FOLDER / f"{name}.txt").write_text(head + "\n".join(kept) + "\n", "utf-8")


def main() -> None:
    """Complete ``constraints.txt`` with the versions that resolve now, and write a file of pinned requirements for each part of the image
    and each extra to `FOLDER`.
    """
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = pyproject["project"]
    extras = project["optional-dependencies"]
    everything = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    CONSTRAINTS.write_text(complete(CONSTRAINTS.read_text("utf-8"), resolve(everything)), "utf-8")

    FOLDER.mkdir(exist_ok=True)
    server = resolve(project["dependencies"], "--generate-hashes")
    of_torch = {name for name in read_pins(server) if TORCH_PACKAGES.fullmatch(name)}
    write_requirements("torch", server, of_torch)
    write_requirements("server", server, read_pins(server).keys() - of_torch)
    build = resolve(pyproject["build-system"]["requires"], "--generate-hashes")
    write_requirements("build", build, read_pins(build))
    for name, extra in EXTRAS.items():
        resolved = resolve(extras[extra], "--generate-hashes")
        write_requirements(name, resolved, read_pins(resolved).keys() - (read_pins(server).keys() if extra == "heif" else set()))


if __name__ == "__main__":
    main()
