"""Access by the token of the server: only those who have it are let in."""

from __future__ import annotations

import hashlib
import hmac
import math

from vitrine_server.http.problems import Problem
from vitrine_server.http.rates import Rate
from vitrine_server.http.visitors import VisitorSecrets, verify_text

LOGIN_COOKIE = "vitrine-login"
_WRONG_A_MINUTE = 30  # from one address, which a whole course may share
_IN = "in"


class Access:
    """The check of the server's ``token``, sent in a header or remembered in the cookie of a browser that logged in."""

    def __init__(self, token: str, visitor_secrets: VisitorSecrets) -> None:
        self._token = token.encode()
        self._signer = visitor_secrets.signer(
            f"login {hashlib.sha256(self._token).hexdigest()}"
        )  # after a change of the token everybody must log in again
        self._wrong = Rate(_WRONG_A_MINUTE)

    def check(self, token: str, address: str) -> None:
        """Raise Problem 401 if ``token`` is wrong, and 429, whatever the token, if too many wrong ones came from the IP ``address``."""
        if (seconds := self._wrong.seconds_full(address)) > 0:
            raise Problem(
                429,
                "too-many-tries",
                "Too many wrong tokens came from your address.",
                send="Try again in a minute.",
                headers={"Retry-After": str(math.ceil(seconds))},
            )
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token):
            self._wrong.wait(address)
            raise token_needed("The token is wrong")

    def login(self) -> str:
        """Return the value of the cookie for a browser that sent the right token."""
        return self._signer.sign(_IN).decode()

    def is_login(self, value: str) -> bool:
        """Return whether ``value`` is the value of a valid login cookie."""
        return verify_text(self._signer, value) == _IN


def token_needed(detail: str = "This server is open to those who have its token") -> Problem:
    """Return the Problem 401 for a request without the server's token, with the sentence ``detail``."""
    send = "Ask whoever runs it for the token; programs send it as Authorization: Bearer <token>."
    return Problem(401, "token-needed", detail, send=send, headers={"WWW-Authenticate": "Bearer"})
