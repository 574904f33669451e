"""JSON as the standard has it, in and out: neither NaN nor infinities, and no text that cannot be encoded as UTF-8."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class NotJsonError(ValueError):
    """Raised for a value that JSON cannot hold, or a text that is not JSON; the message is a clause that says why."""


def can_be_encoded(text: str) -> bool:
    """Return whether ``text`` can be written as UTF-8; a text with half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodable(text: str) -> str:
    """Return ``text`` with U+FFFD in place of characters that cannot be encoded as UTF-8."""
    return text if can_be_encoded(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    """Encode ``value`` as compact JSON. Raises NotJsonError if it contains a NaN, an infinity or a text that cannot be encoded as UTF-8."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        raise NotJsonError("it holds a number that is not finite (NaN or infinity)") from None
    if not can_be_encoded(text):
        raise NotJsonError("it holds a text that cannot be encoded as UTF-8")
    return text


def decode_json(data: bytes, *, mend: bool = False) -> Any:
    """Parse the JSON text ``data``; with ``mend``, characters that cannot be encoded as UTF-8 are replaced by U+FFFD.

    Raises NotJsonError for anything but JSON in UTF-8, including NaN and infinities, numbers of thousands of digits, nesting of thousands
    of levels and, without ``mend``, texts that cannot be encoded.
    """

    def refuse(constant: str) -> NoReturn:
        raise NotJsonError(f"it holds {constant}, which JSON has not")

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise NotJsonError("it holds a number that is too large")
        return value

    try:
        text = data.decode()
        value = json.loads(text, parse_constant=refuse, parse_float=finite)
    except NotJsonError:
        raise
    except UnicodeDecodeError as error:
        raise NotJsonError(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJsonError(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise NotJsonError("it is nested too deeply") from None
    except ValueError:
        raise NotJsonError("it holds a number of too many digits") from None
    if _ESCAPED_SURROGATE.search(text):  # else every text in it came from UTF-8
        if mend:
            return _mend(value)
        json_text(value)
    return value


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_mend(part) for part in value]
    if isinstance(value, dict):
        return {encodable(name): _mend(part) for name, part in value.items()}
    return value
