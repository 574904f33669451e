"""What the numbers of an explanation depend on besides its model."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import explainers
from explainers.pipeline.explain import versions
from explainers.plugins import plugin_sources


@cache  # a process keeps the source that it has imported
def engine_digest() -> str:
    """SHA-256 over the versions of the libraries and the source of the engine. It changes whenever the numbers may: explanations of
    another one are not used again.
    """
    root = Path(explainers.__file__).parent
    digest = hashlib.sha256(json.dumps(versions()).encode())
    for path in (*sorted(root.rglob("*.py")), *plugin_sources()):
        digest.update(path.read_bytes())
    return digest.hexdigest()
