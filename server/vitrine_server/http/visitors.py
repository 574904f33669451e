"""Visitors: a browser by its signed cookie, a program by the same secret in a header, a user by the name that a reverse proxy gives."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from itsdangerous import Signer
from starlette.types import Scope

from vitrine_server.http.problems import Problem

COOKIE = "vitrine-visitor"
HEADER = "X-Vitrine-Visitor"
COOKIE_SECONDS = 365 * 24 * 3600
KEY_FILE = "visitors.key"
_KEY_BYTES = 32
_SITE_BITS = 64  # of an IPv6 address: whoever has one has all that begin so


@dataclass(frozen=True)
class Visitor:
    """The visitor who sent a request.

    owner     the owner of what they make; "" if all visitors are one person, and for a visitor without a secret
    turn      key of the visitors with whom they share turns of the device and a place in the queue
    address   their network address, as :func:`site_of` returns it
    is_alone  whether all visitors are one person, who owns everything
    """

    owner: str = ""
    turn: str = ""
    address: str = ""
    is_alone: bool = False

    def owns(self, owner: str) -> bool:
        """Return whether this visitor is the owner. Nobody owns a thing without an owner ("")."""
        return self.is_alone or (owner != "" and owner == self.owner)


NOBODY = Visitor()


def visitor_of(request: Request) -> Visitor:
    """Return the visitor of ``request``, noted by :class:`vitrine_server.http.gate.Gate`."""
    visitor = request.scope["visitor"]
    assert isinstance(visitor, Visitor)
    return visitor


async def _who(request: Request) -> Visitor:  # no thread is asked for it, as all may be busy
    return visitor_of(request)


#: The parameter of a call that says who asks.
Who = Annotated[Visitor, Depends(_who)]


def site_of(address: str) -> str:
    """Return an IPv4 address unchanged, and for an IPv6 address its /64 network, as one site has 2^64 addresses."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, _SITE_BITS), strict=False))
    return address


class VisitorSecrets:
    """A maker and reader of the secrets of visitors. A secret is a random id with its signature by a key in the server's home."""

    def __init__(self, home: Path) -> None:
        """Read the key in ``home``, or make the folder and the key. Raises OSError if the key cannot be read or written."""
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _key_of(home)
        self._signer = self.signer("visitor")

    def signer(self, purpose: str) -> Signer:
        """Return the signer for a ``purpose``; a signature for one purpose is not valid for another."""
        return Signer(self._key, salt=f"vitrine {purpose}", digest_method=hashlib.sha256)

    def new(self) -> tuple[str, str]:
        """Make a new visitor: return their id and their secret."""
        owner = secrets.token_hex(16)
        return owner, self._signer.sign(owner).decode()

    def read(self, secret: str) -> str | None:
        """Return the id in ``secret``, the secret of a visitor; None if this server did not make it."""
        return verify_text(self._signer, secret)


def verify_text(signer: Signer, signed: str) -> str | None:
    """Return the text in ``signed``; None unless ``signed`` is exactly what ``signer`` makes of that text. Other spellings that decode to
    the same signature are refused.
    """
    text = signed.rpartition(".")[0]
    try:
        return text if hmac.compare_digest(signer.sign(text), signed.encode()) else None
    except UnicodeError:
        return None


def _key_of(home: Path) -> bytes:
    path = home / KEY_FILE
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = path.read_bytes()
        if len(key) != _KEY_BYTES:
            raise OSError(f"{path} is not the key that Vitrine wrote; delete it, and no browser is known any more") from None
        return key
    with os.fdopen(file, "wb") as opened:
        opened.write(key := secrets.token_bytes(_KEY_BYTES))
    return key


def cookie_name(name: str, scope: Scope) -> str:
    """Return the full name of the cookie ``name`` for the request ``scope``, with the prefix ``__Host-`` over TLS.

    The prefix makes browsers take it from this host only, not from another one of its domain. Its path is then ``/``, so below a path
    prefix the name also contains the prefix, because another server of the host may set a cookie too.
    """
    if scope["scheme"] != "https":
        return name
    return f"__Host-{name}{scope.get('root_path', '').replace('/', '.')}"


def cookie_header(name: str, value: str, scope: Scope) -> str:
    """Return the value of the Set-Cookie header that gives the browser of the request ``scope`` the secret ``value`` as the cookie
    ``name``. Scripts cannot read the cookie, and the browser does not send it with requests that other sites embed.
    """
    is_secure = scope["scheme"] == "https"
    where = "Path=/; Secure" if is_secure else f"Path={scope.get('root_path') or '/'}"
    return f"{cookie_name(name, scope)}={value}; {where}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax"


def not_yours(explanation_id: str) -> Problem:
    """Return the Problem 403 for a change of another visitor's explanation, by its id: its link only allows reading."""
    detail = f"The explanation {explanation_id!r} belongs to somebody else: with its link it can only be read."
    return Problem(403, "not-yours", detail, send="Send the picture or the text itself: the new explanation is then yours.")
