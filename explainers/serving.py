"""``explainers.serve``: the pages on a model that is live in this process. Who shows them is another package, named by an entry point."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Protocol

from explainers.errors import ExplainerError

#: The group of the entry point that names the function which serves.
ENTRY_POINT_GROUP = "vitrine.serve"


class LiveServer(Protocol):
    """A server that shows the pages at ``url`` in the background, until it is stopped or the process ends."""

    url: str

    def stop(self) -> None:
        """Stop the server; delete all explanations unless a folder was named for them."""


def serve(model: Any, *, host: str = "127.0.0.1", port: int = 0, block: bool = False, **settings: Any) -> LiveServer:
    """Serve the pages for a model that was made in Python.

    model     a :class:`Model`, or anything that :func:`open` takes, which is opened and checked first. It runs in a thread of this process:
              a call that hangs cannot be ended, and no other code should use the model meanwhile
    host      the address to listen on; if other machines can reach it, visitors see only their own explanations
    port      the port to listen on; 0 for a free one
    block     whether to return only when interrupted, for scripts; a notebook can go on and use ``url`` and ``stop()`` of the result
    settings  settings of the server by name; ``home`` is the folder that keeps explanations, which are otherwise deleted at the end

    Raises ExplainerError if the model cannot be opened, a setting is wrong, the port is taken, or the pages are not installed.
    """
    servers = entry_points(group=ENTRY_POINT_GROUP)
    if not servers:
        raise ExplainerError("The pages are not installed here: install Vitrine whole, as with pip install")
    server: LiveServer = next(iter(servers)).load()(model, host=host, port=port, block=block, **settings)
    return server
