"""How the processes of models are started. It imports nothing that takes long, so that these can begin before the server itself."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver

#: Where the system can fork, all processes that come after each other share what the first one has imported, and its memory.
START_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
#: What they need before their first model, in this order.
IMPORTED = ["server.jobs.host_process", "timm"]


def prepare_processes() -> None:
    """Begin to import what the processes need, beside this one: the first model is then there as soon as if this one had loaded it."""
    if START_METHOD == "forkserver":
        forkserver.ensure_running()


if START_METHOD == "forkserver":
    multiprocessing.set_forkserver_preload(IMPORTED)
