"""A digest of the code that computes explanations: stored ones count as current only under the same digest."""

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
    """Return SHA-256 over the versions of the libraries and the source of the engine and of plugins, in hexadecimal."""
    root = Path(explainers.__file__).parent
    digest = hashlib.sha256(json.dumps(versions()).encode())
    for path in (*sorted(root.rglob("*.py")), *plugin_sources()):
        digest.update(path.read_bytes())
    return digest.hexdigest()
