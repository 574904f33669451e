"""The path below which a reverse proxy shows the server: where a request stands, seen from outside and from inside."""

from __future__ import annotations

from starlette.types import Scope


def scope_below(scope: Scope, prefix: str) -> Scope:
    """Return the ASGI scope of a request below the path ``prefix``, whether or not the reverse proxy removed the prefix from the path."""
    path = scope["path"]
    below = path if path == prefix or path.startswith(f"{prefix}/") else prefix + path
    return {**scope, "root_path": prefix, "path": below}


def path_within(scope: Scope) -> str:
    """Return the path of the request in ``scope`` without the prefix, for comparison with the server's routes."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("app_root_path", scope["root_path"]))  # a mounted application has a root path of its own
