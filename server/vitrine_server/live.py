"""The pages on a model that is live in a Python program: what ``explainers.serve`` does."""

from __future__ import annotations

import atexit
import socket
import threading
from contextlib import ExitStack, suppress
from html import escape
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from explainers.errors import ExplainerError
from explainers.models.catalogue import CatalogueEntry
from explainers.self_check.opening import model_of
from vitrine_server.app import create_app
from vitrine_server.commands import CommandError
from vitrine_server.commands.serving.serve import address, listen
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.settings import load_settings
from vitrine_server.store.database import StoreError
from vitrine_server.web_server import WebServer

_PAGES = {"image": "image", "clip": "prompt", "text": "text", "molecule": "molecule"}
_SAYS = (
    "A model of the Python program that shows these pages. It runs inside that program, where nothing can end it: what hangs in it hangs "
    "until the program ends."
)
_LOOK_SECONDS = 1.0  # seconds between two looks whether the thread is alive
_PATIENCE_SECONDS = 10.0  # seconds for a pass to end, until a server that is stopped is left alone


class LivePages:
    """The pages of a server for one model of this program, which runs in a thread. ``url`` is their address; ``stop`` ends them, as does
    the end of a ``with`` block.
    """

    def __init__(self, server: WebServer, listeners: list[socket.socket], url: str, cleanup: ExitStack) -> None:
        """Start ``server``, whose pages are at ``url``, on the sockets ``listeners`` in a thread of its own; ``cleanup`` is closed at the
        end of the pages. Raises ExplainerError if the server does not start.
        """
        self.url = url
        self._server, self._cleanup = server, cleanup
        self._thread = threading.Thread(target=server.run, kwargs={"sockets": listeners}, name="vitrine pages", daemon=True)
        self._thread.start()
        while not server.ready.wait(_LOOK_SECONDS) and self._thread.is_alive():
            pass
        if not server.started:
            self.stop()
            raise ExplainerError("The pages cannot be shown; the log says why")
        atexit.register(self.stop)

    def stop(self) -> None:
        """Stop the pages; further calls do nothing."""
        atexit.unregister(self.stop)
        self._server.should_exit = True
        self._thread.join(_PATIENCE_SECONDS)
        self._cleanup.close()

    def wait(self) -> None:
        """Block until the program is interrupted or the pages end, then stop them."""
        with suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                self._thread.join(_LOOK_SECONDS)
        self.stop()

    def __enter__(self) -> LivePages:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Vitrine at {self.url}>"

    def _repr_html_(self) -> str:
        """Return a link to the pages as HTML, for a notebook."""
        url = escape(self.url)
        return f'<a href="{url}" target="_blank" rel="noopener">Vitrine at {url}</a>'


def serve(model: Any, *, host: str, port: int, block: bool, **settings: Any) -> LivePages:
    """Start a server of the pages for ``model``, a model of this program, at ``host`` and ``port`` and return its pages; with ``block``
    wait until they are stopped, see :func:`explainers.serve`, which has the same arguments.
    """
    live = model_of(model)
    entry = CatalogueEntry(live.name, live.kind, live.name, _SAYS, False, "live")
    source = ModelSource((entry,), lambda *_, **__: live, lambda *_: None)
    with ExitStack() as cleanup:
        if settings.get("home") is None:
            settings["home"] = cleanup.enter_context(TemporaryDirectory(prefix="vitrine-"))
        fixed = {"host": host, "port": port, "device": str(live.device), "models": (live.name,)}
        try:
            known = load_settings({"log_level": "warning", **settings, **fixed}, {})
            listener = cleanup.enter_context(listen(known.host, known.port))
            server = WebServer(create_app(known, source), known)
        except (CommandError, StoreError, ValueError) as problem:
            raise ExplainerError(str(problem)) from None
        url = f"{address(listener)}/{_PAGES[live.kind]}?model={quote(live.name, safe='/')}"
        pages = LivePages(server, [listener], url, cleanup.pop_all())
    if block:
        print(f"Vitrine is at {pages.url} (Ctrl+C stops it)", flush=True)
        pages.wait()
    return pages
