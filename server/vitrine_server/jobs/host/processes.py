"""How the processes of models are started. It imports nothing that takes long, so that these can begin before the server itself."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver

#: Where the system can fork, all processes that come after each other share what the first one has imported, and its memory.
START_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
#: What they need before their first model, in this order.
IMPORTED = ["vitrine_server.jobs.host.host_process", "timm"]


def prepare_processes() -> None:
    """Start to import in the background what the processes of models need, so that the first model loads as fast as in this process."""
    if START_METHOD == "forkserver":
        forkserver.ensure_running()


if START_METHOD == "forkserver":
    multiprocessing.set_forkserver_preload(IMPORTED)
