"""Rendered scenes as files."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from explainers.embedded.synthetic.scenes import render


def scene(seed: int, width: int, height: int) -> tuple[bytes, tuple[str, ...]]:
    """A rendered scene on a wider or higher ground, as a PNG file, and what is in it."""
    rendered = render(np.random.default_rng(seed), min(width, height), count=2)
    ground = Image.new("RGB", (width, height), "#c8c0b0")
    ground.paste(rendered.image, ((width - rendered.image.width) // 2, (height - rendered.image.height) // 2))
    buffer = io.BytesIO()
    ground.save(buffer, "PNG")
    return buffer.getvalue(), tuple(item.kind for item in rendered.objects)
