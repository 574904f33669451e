"""``explainers.serve``: the pages on a model that is live in this process. Who shows them is another package, named by an entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Protocol

from explainers.errors import ExplainerError

#: The group of the entry point that names the function which serves.
ENTRY_POINT_GROUP = "vitrine.serve"


class LiveServer(Protocol):
    """A server that shows the pages in the background, until it is stopped or the process ends."""

    url: str

    def stop(self) -> None:
        """Stop showing the pages, and forget what was asked unless a folder was named for it."""


def serve(model: Any, *, host: str = "127.0.0.1", port: int = 0, block: bool = False, **settings: Any) -> LiveServer:
    """Show the pages on a model that was made in Python.

    model     a :class:`Model`, or what :func:`open` takes, which is opened and checked first. It stays in this process, in a thread:
              nothing can end it, what hangs in it hangs until the process ends, and nobody else should use it meanwhile
    host      the address to listen on; on another one than this machine's own, visitors are kept apart
    port      0 for a free one
    block     whether to return only once it is interrupted, as a script wants; a notebook goes on, with ``url`` and ``stop()`` at hand
    settings  those of the server by their names; ``home`` is the folder that keeps what is asked, otherwise gone when it stops

    Raises ExplainerError where the model cannot be opened, a setting is wrong, the port is taken, or the pages are not installed.
    """
    servers = entry_points(group=ENTRY_POINT_GROUP)
    if not servers:
        raise ExplainerError("The pages are not installed here: install Vitrine whole, as with pip install")
    server: LiveServer = next(iter(servers)).load()(model, host=host, port=port, block=block, **settings)
    return server
