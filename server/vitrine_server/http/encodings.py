"""The encodings that a client takes, as its ``Accept-Encoding`` says (RFC 9110, section 12.5.3)."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_NAME = "accept-encoding"
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


def takes_gzip(headers: Headers) -> bool:
    """Return whether a client that sent these ``headers`` accepts gzip: ``Accept-Encoding`` names it, or else any encoding by ``*``, with a
    weight above 0.
    """
    weights: dict[str, float] = {}
    for part in ",".join(headers.getlist(_NAME)).split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        said = next((match for piece in parameters if (match := _WEIGHT.fullmatch(piece))), None)
        is_understood = said is not None or not parameters
        weights[name.lower()] = 0.0 if not is_understood else 1.0 if said is None else float(said[1])
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


class ReadEncodings:
    """ASGI middleware around ``app`` that reduces ``Accept-Encoding`` to its meaning, ``gzip`` or ``identity``.

    Without it starlette packs answers for any client that writes the word gzip, also for one that refuses it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request in ``scope`` on to the application. For HTTP its header ``Accept-Encoding`` becomes "gzip" if the client accepts
        gzip, else "identity"; other requests pass unchanged.
        """
        if scope["type"] == "http":
            chosen = "gzip" if takes_gzip(Headers(scope=scope)) else "identity"
            others = [(name, value) for name, value in scope["headers"] if name != _NAME.encode()]
            scope["headers"] = [*others, (_NAME.encode(), chosen.encode())]
        await self._app(scope, receive, send)
