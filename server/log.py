"""The server's log: what it writes, and that no line of it was made up by whoever asks."""

from __future__ import annotations

import logging
import re

#: Line breaks and other control characters: in an address or a name they would begin a line of their own, or colour a terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLineFormatter(logging.Formatter):
    """Writes a message on one line, its control characters escaped; a traceback follows on lines of its own, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the library's
        """The line of a record."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        """A traceback, whose last line may hold what somebody sent."""
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).splitlines())  # type: ignore[arg-type]


def escaped(text: str) -> str:
    """``text`` without line breaks and other control characters, which are written as Python writes them."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def set_up_log(level: str) -> None:
    """Write the server's log to stderr, unless whoever started it has set up logging already."""
    ours = logging.getLogger("server")
    ours.setLevel(level.upper())
    if not ours.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(OneLineFormatter("%(levelname)s:     %(message)s"))
        ours.addHandler(handler)
