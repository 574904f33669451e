"""A PostgreSQL of a test's own: Debian's package, or whatever is on the PATH."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_USERS = ("postgres", "nobody")  # it refuses to run as root


def _program(name: str) -> Path:
    """A program of the newest version that is there; skips the test where there is none."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), reverse=True)
    if found := shutil.which(name):
        places.append(Path(found))
    if not places:
        pytest.skip(f"there is no {name}: apt-get install postgresql")
    return places[0]


def _account() -> str:
    return next(user for user in _USERS if any(entry.pw_name == user for entry in pwd.getpwall()))


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def postgresql() -> Iterator[str]:
    """A server for the time of a test; the URL of its first database, whose owner asks for no password."""
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    folder, port = Path(tempfile.mkdtemp(prefix="pg-")), free_port()
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        who = {"user": _account(), "group": pwd.getpwnam(_account()).pw_gid, "extra_groups": []}
        shutil.chown(folder, _account())
    data = folder / "data"

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, cwd=folder, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, stdout=subprocess.DEVNULL, **who)

    try:
        run(initdb, "-D", data, "-U", "vitrine", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off -c shared_buffers=32MB"
        run(pg_ctl, "-D", data, "-o", options, "-l", folder / "log", "-w", "start")
        try:
            yield f"postgresql://vitrine@127.0.0.1:{port}/postgres"
        finally:
            run(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
