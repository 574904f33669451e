"""docs/operations.md as an operator follows it: its commands, one after the other, as they stand there.

The system's folders are other ones, ``sudo`` is one of its own, the server is stopped and started by the test, and nothing is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.conftest import PYTHONPATH, ROOT
from tests.system.support.attacked import Attacked, ask, finished

pytestmark = pytest.mark.system
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
needs_sh = pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")


def blocks(heading: str) -> list[str]:
    """The commands of a chapter, a block each."""
    chapter = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)
    assert found, heading
    return found


class Machine:
    """A folder in place of ``/``, and a server whose home is in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.commands = root, root / "bin"
        self.home = root / "var" / "lib" / "vitrine"
        self.home.parent.mkdir(parents=True)
        self.commands.mkdir()
        self.server = Attacked(self.home)
        self.command("sudo", 'exec "$@"')
        self.command("vitrine", f'exec {sys.executable} -m vitrine_server.cli "$@"')

    def command(self, name: str, line: str) -> None:
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
        path.chmod(0o755)

    def type(self, block: str) -> str:
        """Run a block line by line, the server stopped and started where it says so; what was printed. Each line must succeed."""
        printed = ""
        for line in block.strip().splitlines():
            if re.search(r"systemctl (stop|start)", line):
                self.server.stop(60) if "systemctl stop" in line else self.server.start()
            command = self.here(line)
            if command.strip() and "pip install" not in command:
                environ = os.environ | {"PATH": f"{self.commands}:{os.environ['PATH']}", "PYTHONPATH": PYTHONPATH}
                done = subprocess.run(["sh", "-ec", command], check=False, cwd=self.root, env=environ, capture_output=True, text=True)
                assert done.returncode == 0, (command, done.stderr)
                printed += done.stdout
        return printed

    def here(self, line: str) -> str:
        """A line with the places of this machine; what has the server stopped or started is left out."""
        line = re.sub(r"sudo systemctl (stop|start) vitrine( && )?", "", line)
        line = line.replace("/opt/vitrine/.venv/bin/vitrine", str(self.commands / "vitrine"))
        line = re.sub(r"(?<![\w.])/(var/lib|backup)", rf"{self.root}/\1", line)
        return line.replace("https://vitrine.example/vitrine", self.server.address)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with machine.server:
        yield machine


def made(machine: Machine, text: str) -> str:
    with httpx.Client(base_url=machine.server.address, timeout=60) as client:
        one = ask(client, text).json()["id"]
        assert finished(client, one)["state"] == "done"
        return str(one)


def is_there(machine: Machine, one: str) -> bool:
    return httpx.get(f"{machine.server.address}/api/explanations/{one}", timeout=60).status_code == 200


def what_the_page_watches_is_there(machine: Machine) -> None:
    text = httpx.get(f"{machine.server.address}/metrics", timeout=60).text
    (watch,) = [chapter for chapter in PAGE.split("\n## ") if chapter.startswith("Watch")]
    named = set(re.findall(r"\bvitrine_\w+", watch))
    assert len(named) >= 8
    assert [name for name in named if not re.search(rf"^{name}\b", text, re.MULTILINE)] == []
    for name, reason in re.findall(r'(vitrine_\w+)\{reason="([\w-]+)"\}', watch):
        assert f'{name}{{reason="{reason}"}}' in text, "its first count would be no increase"


@needs_sh
def test_it_is_watched_backed_up_while_it_works_restored_and_upgraded(machine: Machine) -> None:
    what_the_page_watches_is_there(machine)
    backup, restore, _ = blocks("Back up and restore")
    one = made(machine, "a")
    machine.type(backup)
    later = made(machine, "b")
    machine.type(restore)
    assert (is_there(machine, one), is_there(machine, later)) == (True, False)
    (upgrade,) = blocks("Upgrade")
    assert "pip install" in upgrade
    machine.type(upgrade)
    assert is_there(machine, one)
    assert (machine.root / "backup" / "before-upgrade" / "vitrine.sqlite").is_file()


@needs_sh
def test_what_is_damaged_is_put_aside_and_recovered(machine: Machine) -> None:
    *_, recover = blocks("Back up and restore")
    one = made(machine, "a")
    machine.server.stop(60)
    with closing(sqlite3.connect(machine.home / "vitrine.sqlite")) as db, db:
        db.execute("PRAGMA writable_schema=ON")
        db.execute("UPDATE sqlite_master SET rootpage = 1000000 WHERE name = 'explanations_number'")  # an index that is nowhere
    machine.server.start()
    (aside,) = machine.home.glob("vitrine.sqlite.damaged-*")
    later = made(machine, "b")
    assert not is_there(machine, one)
    printed = machine.type(re.sub(r"vitrine\.sqlite\.damaged-[\d-]+", aside.name, recover))
    assert "recovered 1 explanation" in printed
    assert is_there(machine, one)
    assert is_there(machine, later)
