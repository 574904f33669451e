"""Who asks: a browser by its signed cookie, a program by the same secret in a header, a user by the name that a reverse proxy gives."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from itsdangerous import BadSignature, Signer
from starlette.types import Scope

from server.http.problems import Problem

COOKIE = "vitrine-visitor"
HEADER = "X-Vitrine-Visitor"
COOKIE_SECONDS = 365 * 24 * 3600
KEY_FILE = "visitors.key"
_KEY_BYTES = 32
_SITE_BITS = 64  # of an IPv6 address: whoever has one has all that begin so


@dataclass(frozen=True)
class Visitor:
    """Who asks.

    owner     whose is what they make; "" where all are one person, and for who has no secret yet
    turn      with whom they share turns of the device and a place in the queue
    address   where they ask from, as :func:`site_of` has it
    is_alone  all are one person: everything is theirs
    """

    owner: str = ""
    turn: str = ""
    address: str = ""
    is_alone: bool = False

    def owns(self, owner: str) -> bool:
        """Whether what belongs to ``owner`` is theirs; what belongs to nobody ("") is not."""
        return self.is_alone or (owner != "" and owner == self.owner)


NOBODY = Visitor()


def visitor_of(request: Request) -> Visitor:
    """The visitor of a request, as :class:`server.http.gate.Gate` noted it."""
    visitor = request.scope["visitor"]
    assert isinstance(visitor, Visitor)
    return visitor


#: The parameter of a call that says who asks.
Who = Annotated[Visitor, Depends(visitor_of)]


def site_of(address: str) -> str:
    """An address of IPv4 itself; of IPv6 the /64 network, as one site has 2^64 addresses."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, _SITE_BITS), strict=False))
    return address


class VisitorSecrets:
    """Makes and reads the secrets of visitors: an unguessable id and its signature, by a key that lies in the server's home."""

    def __init__(self, home: Path) -> None:
        """``home`` is made where it is not there yet. Raises OSError where the key cannot be read or written."""
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _key_of(home)
        self._signer = self.signer("visitor")

    def signer(self, purpose: str) -> Signer:
        """What signs for another ``purpose``: no signature for one is good for another."""
        return Signer(self._key, salt=f"vitrine {purpose}", digest_method=hashlib.sha256)

    def new(self) -> tuple[str, str]:
        """A new visitor: their id, and their secret."""
        owner = secrets.token_hex(16)
        return owner, self._signer.sign(owner).decode()

    def read(self, secret: str) -> str | None:
        """The id in a secret; None where nobody here made it."""
        try:
            return self._signer.unsign(secret).decode()
        except (BadSignature, UnicodeError):
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


def cookie_header(name: str, value: str, scope: Scope) -> str:
    """The header that has a browser keep a secret, which no script reads and no other site sends along."""
    path = scope.get("root_path") or "/"
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"{name}={value}; Path={path}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}"


def not_yours(explanation_id: str) -> Problem:
    """The Problem 403 for a change of an explanation that belongs to another visitor: its link allows reading alone."""
    detail = f"The explanation {explanation_id!r} is somebody else's: its link shares it to be read."
    return Problem(403, "not-yours", detail, send="Send the picture or the text itself: what it makes is yours.")
