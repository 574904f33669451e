"""Checks of where a request comes from: ``Origin`` and ``Host``, and whether the client is on this machine.

Only Vitrine's own pages, and programs that are no pages, may change anything; and what is for this machine alone answers to its names
alone.

Any page that a person opens can make their browser send a request here. Two headers, which no script can set, tell where it comes from.
``Origin`` names the page's site. ``Host`` is the name by which the browser found this server: a site that points a name of its own at
this machine (DNS rebinding) has both agree, so the name must be one that the operator gave the server.
"""

from __future__ import annotations

import re
from functools import cache
from ipaddress import ip_address
from socket import gethostname

from starlette.datastructures import Headers
from starlette.types import Scope

from vitrine_server.http.problems import Problem
from vitrine_server.settings import HOST, Settings, environment_name

_PORT = re.compile(r":[0-9]{1,5}$")
_USUAL_PORTS = (":80", ":443")
_SETTING = environment_name("allowed_hosts")
#: Headers that proxies add: these, and all whose names hold one of the parts, such as X-Forwarded-For and CF-Connecting-IP.
_PROXY_HEADERS = ("via", "x-real-ip", "x_real_ip", "x-scheme", "cdn-loop", "x-remote-addr", "x-remote-ip")
_PROXY_PARTS = ("forwarded", "client-ip", "connecting-ip", "x-original-", "x-envoy-", "proxyuser", "x-azure-", "x-arr-", "x-amzn-")


def check_name(scope: Scope, settings: Settings) -> None:
    """Raise Problem 403 for a request (``scope``) to a host name that is not this server's, or through a proxy that the settings do not
    name.

    Call it for every request that changes anything and, if the server listens for this machine only, for every other one too, since anyone
    who reads there counts as the person at the machine.
    """
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if is_forwarded(headers) and not all(_without_port(host.lower()) in _allowed_names(settings) for host in hosts):
        # what such a proxy passes on as its Host says nothing, as nobody said that there is a proxy
        detail = "This request came through a proxy that the server does not know, so it is refused."
        send = (
            f"Use the address that the server listens on. Whoever runs it names in {_SETTING} what the proxy is called, and has the proxy "
            "hand that name on as Host."
        )
        raise Problem(403, "unknown-proxy", detail, send=send)
    for host in hosts:  # a browser always sends one
        if len(hosts) > 1 or not _is_ours(host.lower(), scope, settings):
            named = _without_port(host)[:200]
            send = f"Open the address that the server listens on, or ask whoever runs it to add {named} to {_SETTING}."
            raise Problem(403, "unknown-host", f"This server does not accept the host name {named!r}, so this is refused.", send=send)


def check_origin(scope: Scope, settings: Settings) -> None:
    """Raise Problem 403 for a request that a page of another site sent, judging by its headers in ``scope`` and by the host names in
    ``settings``.
    """
    headers = Headers(scope=scope)
    hosts, origins = headers.getlist("host"), headers.getlist("origin")
    if headers.get("sec-fetch-site") == "cross-site" or not all(_is_same(origin.lower(), hosts, settings) for origin in origins):
        site = f"Another site, {origins[0][:200]!r}," if origins else "Another site"
        send = f"Ask from Vitrine's own pages; behind a proxy, have whoever runs it add the name that people use to {_SETTING}."
        raise Problem(403, "cross-site", f"{site} asked for this.", send=send)


def _is_ours(host: str, scope: Scope, settings: Settings) -> bool:
    """Return whether ``host``, the Host header of the request ``scope``, names this machine (localhost), the address listened on, or a name
    that the settings allow.

    If the server listens on all addresses of the machine, the machine's own name counts too.
    """
    if not HOST.fullmatch(host):
        return False
    name = _without_port(host)
    listened = {settings.host.lower(), str((scope.get("server") or ("",))[0]).lower()}  # the second: at which this request came in
    names_of_machine = _machine_names() if _is_any_address(settings.host) else frozenset()
    return is_loopback(name) or name in listened or name.rstrip(".") in names_of_machine or name in _allowed_names(settings)


def _allowed_names(settings: Settings) -> set[str]:
    return {_without_port(host.lower()) for host in settings.allowed_hosts}


def _is_any_address(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


@cache
def _machine_names() -> frozenset[str]:
    """Return the names of this machine on the network: with and without its domain, and its mDNS name."""
    whole = gethostname().lower()
    first = whole.partition(".")[0]
    return frozenset({whole, first, f"{first}.local"} - {"", ".local"})


def _is_same(origin: str, hosts: list[str], settings: Settings) -> bool:
    """Return whether an Origin header is the site of this server: the host and port of the request, or one that the settings allow."""
    scheme, _, site = origin.partition("://")
    if scheme not in ("http", "https"):
        return False  # also "null": a page that hides where it is from
    return _without_default_port(site) in {_without_default_port(host.lower()) for host in (*hosts, *settings.allowed_hosts)}


def is_loopback(name: str) -> bool:
    """Return whether ``name``, a host name or address without its port, means this machine (localhost)."""
    try:
        address = ip_address(name)
    except ValueError:
        return name.rstrip(".") == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def note_peer(scope: Scope) -> None:
    """Record in ``scope`` the IP address at the other end of the connection, before the header in which a proxy names its client replaces
    it.
    """
    scope["vitrine.peer"] = (scope.get("client") or ("",))[0]


def is_forwarded(headers: Headers) -> bool:
    """Return whether any header says that a proxy passed the request on; anyone can send one, but nobody gains by it."""
    return any(name in _PROXY_HEADERS or any(part in name for part in _PROXY_PARTS) for name in headers)


def is_local(scope: Scope, settings: Settings) -> bool:
    """Return whether the client of the request in ``scope`` is on this machine.

    This holds if the connection comes from it, no header tells of a proxy, ``Host`` is a name of it, and the server, by its ``settings``,
    listens for this machine only.
    """
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    is_from_here = is_loopback(scope["vitrine.peer"]) and not is_forwarded(headers)
    is_named_so = len(hosts) == 1 and is_loopback(_without_port(hosts[0].lower()))
    return is_from_here and is_named_so and is_for_this_machine_alone(settings)


def is_for_this_machine_alone(settings: Settings) -> bool:
    """Return whether the server, by its ``settings``, listens on an address that only this machine reaches; a proxy on the machine may
    still pass on requests of others.
    """
    return is_loopback(settings.host.lower().strip("[]"))


def is_reached_by_others(settings: Settings) -> bool:
    """Return whether the server, by its ``settings``, listens for other machines, or has a public name, such as that of a reverse proxy."""
    names = (settings.host, *map(_without_port, settings.allowed_hosts))
    return not all(is_loopback(name.lower()) for name in names)


def are_apart(settings: Settings) -> bool:
    """Return whether visitors are separate by these settings: each has their own explanations. Otherwise all visitors
    count as one person.
    """
    return is_reached_by_others(settings) if settings.visitors == "auto" else settings.visitors == "apart"


def _without_port(host: str) -> str:
    return _PORT.sub("", host).strip("[]")


def _without_default_port(host: str) -> str:
    """Return ``host`` without the default port (80 or 443), if it ends in one."""
    return next((host.removesuffix(port) for port in _USUAL_PORTS if host.endswith(port)), host)
