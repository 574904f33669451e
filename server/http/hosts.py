"""The check of ``Origin`` and ``Host``: only Vitrine's own pages, and programs that are no pages, may change anything.

Any page that a person opens can make their browser send a request here. Two headers, which no script can set, tell where it comes from.
``Origin`` names the page's site. ``Host`` is the name by which the browser found this server: a site that points a name of its own at
this machine (DNS rebinding) has both agree, so the name must be one that whoever runs the server gave it.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.types import Scope

from server.http.problems import Problem
from server.settings import HOST, Settings, environment_name

_PORT = re.compile(r":[0-9]{1,5}$")
_USUAL_PORTS = (":80", ":443")
_SETTING = environment_name("allowed_hosts")


def check_origin(scope: Scope, settings: Settings) -> None:
    """Raise Problem 403 for a request that a page of another site sent, or that came by a name which is not this server's."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    for host in hosts:  # a browser always sends one
        if len(hosts) > 1 or not _is_ours(host.lower(), scope, settings):
            named = _without_port(host)[:200]
            send = f"Use the address that it listens on, or have whoever runs it add {named} to {_SETTING}."
            raise Problem(403, "unknown-host", f"This server does not know itself as {named!r}, so it changes nothing.", send=send)
    origins = headers.getlist("origin")
    if headers.get("sec-fetch-site") == "cross-site" or not all(_is_same(origin.lower(), hosts, settings) for origin in origins):
        site = f"Another site, {origins[0][:200]!r}," if origins else "Another site"
        send = f"Ask from Vitrine's own pages; behind a proxy, have whoever runs it add the name that people use to {_SETTING}."
        raise Problem(403, "cross-site", f"{site} asked for this.", send=send)


def _is_ours(host: str, scope: Scope, settings: Settings) -> bool:
    """Whether a Host names this machine to itself, the address listened on, or a name that the settings allow."""
    if not HOST.fullmatch(host):
        return False
    name = _without_port(host)
    listened = {settings.host.lower(), str((scope.get("server") or ("",))[0]).lower()}  # the second: at which this request came in
    return is_loopback(name) or name in listened or name in {_without_port(host.lower()) for host in settings.allowed_hosts}


def _is_same(origin: str, hosts: list[str], settings: Settings) -> bool:
    """Whether an Origin is the site of this server: the host and port of the request, or those that the settings allow."""
    scheme, _, site = origin.partition("://")
    if scheme not in ("http", "https"):
        return False  # also "null": a page that hides where it is from
    return _usual(site) in {_usual(host.lower()) for host in (*hosts, *settings.allowed_hosts)}


def is_loopback(name: str) -> bool:
    """Whether a host, without its port, means the machine that asks."""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".") == "localhost"


def is_local(scope: Scope, settings: Settings) -> bool:
    """Whether the server listens for this machine alone, and was asked by a name of this machine and not through a proxy's."""
    hosts = Headers(scope=scope).getlist("host")
    return is_loopback(settings.host.lower()) and all(is_loopback(_without_port(host.lower())) for host in hosts)


def is_reached_by_others(settings: Settings) -> bool:
    """Whether the server listens for more than this machine, or has a name for others, such as that of a reverse proxy."""
    names = (settings.host, *map(_without_port, settings.allowed_hosts))
    return not all(is_loopback(name.lower()) for name in names)


def are_apart(settings: Settings) -> bool:
    """Whether what one visitor asks is theirs alone; else one person is assumed."""
    return is_reached_by_others(settings) if settings.visitors == "auto" else settings.visitors == "apart"


def _without_port(host: str) -> str:
    return _PORT.sub("", host).strip("[]")


def _usual(host: str) -> str:
    """A host without a port that its scheme has anyway."""
    return next((host.removesuffix(port) for port in _USUAL_PORTS if host.endswith(port)), host)
