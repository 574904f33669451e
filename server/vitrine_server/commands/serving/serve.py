"""``vitrine serve``: the server. Its arguments are the settings of ``vitrine_server.settings``: there is one list of them."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from vitrine_server.commands import CommandError, Commands
from vitrine_server.log import set_up_log
from vitrine_server.settings import Settings, environment_name, load_settings

if TYPE_CHECKING:
    from vitrine_server.web_server import WebServer

log = logging.getLogger(__name__)


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine serve``."""
    parser = commands.add_parser(
        "serve",
        help="start the server",
        description="Start the server. Every setting can also come from the environment variable named with it.",
    )
    for name, setting in Settings.model_fields.items():
        about = f"{(setting.description or '').replace('`', '').replace('%', '%%')} [{environment_name(name)}]"
        if name == "models":
            about = about.replace("separated by commas", "repeatable")
            parser.add_argument("--model", dest="models", metavar="NAME", action="append", help=about)
        elif setting.annotation is bool:
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_const", const=True, help=about)
        else:
            parser.add_argument(f"--{name.replace('_', '-')}", metavar=name.upper(), help=about)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine serve`` with its parsed arguments: serve pages and the HTTP API until the process is interrupted, and print the
    address. Raises CommandError for settings that are not valid.
    """
    try:
        settings = load_settings({name: getattr(args, name) for name in Settings.model_fields})
    except ValueError as problem:
        raise CommandError(str(problem)) from None
    if settings.listens_everywhere and not settings.allowed_hosts:
        name = environment_name("allowed_hosts")
        print(
            f"vitrine: warning: other machines can reach this server, and by a name they can only look: set {name} to the names by which "
            "they may ask for anything",
            file=sys.stderr,
            flush=True,
        )
    if settings.engine == "ray":
        from vitrine_server.cluster.serving import serve

        _say("Vitrine is starting on a cluster of Ray ...", settings)
        serve(settings, lambda place: _say(f"Vitrine is at {place} (Ctrl+C stops it)", settings))
        return
    with listen(settings.host, settings.port) as listener:  # before torch: a taken port is said at once
        _say("Vitrine is starting ...", settings)
        server = make_server(settings)
        with suppress(KeyboardInterrupt):  # uvicorn has put everything away by then
            server.run(sockets=[listener])


def _say(text: str, settings: Settings) -> None:
    """Print the message ``text`` to the terminal, or write it to the log if the log that ``settings`` name is JSON that programs read."""
    if settings.log_format == "json":
        set_up_log(settings.log_level, settings.log_format)
        log.info(text)
    else:
        print(text, flush=True)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on this ``host`` and ``port``. Raises CommandError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as problem:
        raise CommandError(f"cannot listen on {host} port {port}: {problem.strerror}; choose another --port") from None


def address(listener: socket.socket) -> str:
    """Return the URL at which a browser finds the server that listens on the socket ``listener``; an address of all interfaces is shown as
    127.0.0.1 or ::1.
    """
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # nosec B104  # it is compared with, not listened on
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(settings: Settings) -> WebServer:
    """Return the application with these ``settings`` inside uvicorn, which prints its address once it answers."""
    from vitrine_server.jobs.host.processes import prepare_processes

    prepare_processes()  # they import what models need while this one imports what the pages need
    from vitrine_server.app import create_app
    from vitrine_server.web_server import WebServer

    set_up_log(settings.log_level, settings.log_format)
    return WebServer(
        create_app(settings), settings, lambda listener: _say(f"Vitrine is at {address(listener)} (Ctrl+C stops it)", settings)
    )
