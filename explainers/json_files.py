"""JSON files next to a model's weights, whoever wrote them: read whole or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from explainers.errors import ExplainerError

MAX_JSON_BYTES = 20_000_000  # an index of 100,000 shards' tensors has 10 MB


def parse_json(text: str, name: str) -> Any:
    """Return the value of a JSON text that came from the file ``name``. Raises ExplainerError for text that is not JSON, or nested too deep
    to read.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise ExplainerError(f"{name} is not JSON: {problem}") from None
    except ValueError:
        raise ExplainerError(f"{name} holds a number of too many digits to be read; save it again") from None
    except RecursionError:
        raise ExplainerError(f"{name} is nested too deep to be read; save it again") from None


def read_json(path: Path) -> Any:
    """Return the value in the JSON file ``path``, in UTF-8. Raises ExplainerError for a file that is not JSON, is nested too deep, or is
    larger than `MAX_JSON_BYTES`.
    """
    with path.open("rb") as file:
        data = file.read(MAX_JSON_BYTES + 1)  # whatever size the file says that it has
    if len(data) > MAX_JSON_BYTES:
        raise ExplainerError(f"{path} has more than the {MAX_JSON_BYTES} bytes that are read of a JSON file here; save it again")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ExplainerError(f"{path} is not JSON: it is not UTF-8 at byte {problem.start}") from None
    return parse_json(text, str(path))


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the object in the JSON file ``path`` as a dict, as `read_json` does; raises ExplainerError for another value, too."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise ExplainerError(f"{path} holds no JSON object, but a {type(value).__name__}; save it again")
    return value
