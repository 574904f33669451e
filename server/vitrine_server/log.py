"""The server's log: what it writes, and that no line of it was made up by whoever asks."""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

#: The id of the request that is answered here, which its answer has, too; empty outside of one.
REQUEST: ContextVar[str] = ContextVar("request", default="")
#: The loggers that write it: ours, and that of the library that speaks HTTP.
_LOGGERS = ("vitrine_server", "uvicorn")
#: Line breaks and other control characters: in an address or a name they would begin a line of their own, or colour a terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLineFormatter(logging.Formatter):
    """A log formatter that writes a message on one line, with control characters escaped and the id of the request; a traceback follows on
    indented lines.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the library's
        """Return the message of a log record as one line, with the id of the request."""
        request, text = REQUEST.get(), super().formatMessage(record)
        lines = text.splitlines() if record.name.startswith("uvicorn") else [text]  # where a start fails, its message is a traceback
        return "\n    ".join(map(escape_control, lines)) + (f" {request}" if request else "")

    def formatException(self, ei: object) -> str:  # noqa: N802
        """Format the traceback of the exception ``ei`` (as ``sys.exc_info()``), indented and with control characters escaped: its last line
        may contain what a client sent.
        """
        return "\n".join(f"    {escape_control(line)}" for line in super().formatException(ei).splitlines())  # type: ignore[arg-type]


class JsonFormatter(logging.Formatter):
    """A log formatter that writes a record as one JSON object on one line: time, level, logger and message; if present, the id of the
    request, the values of ``extra={"facts": {...}}``, and the traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return ``record``, a log record, as one line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := REQUEST.get():
            line["request"] = request
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # all but ASCII is escaped


def escape_control(text: str) -> str:
    """Return ``text`` with line breaks and other control characters escaped as in Python."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def set_up_log(level: str, form: str) -> None:
    """Write the server's log to stderr in the format ``form``, "lines" or "json", from ``level`` on, unless the program has set up logging
    already.
    """
    formatter = JsonFormatter() if form == "json" else OneLineFormatter("%(levelname)s:     %(message)s")
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(formatter)
            logger.addHandler(handler)
