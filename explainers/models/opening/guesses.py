"""Guesses of the architectures that weights may belong to, by the names and shapes of their tensors; loading then tests them."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

Shapes = Mapping[str, Sequence[int]]

#: A row for each architecture of timm, written by ``python -m tools.timm_shapes``: what :func:`digest_of_shapes` makes of its weights, the
#: side of its pictures, and whether the hub has weights of it. It is read without timm, which takes seconds to import.
TABLE = "timm_shapes.json"
_HEADS = frozenset(("head", "head_dist", "heads", "fc", "classifier", "last_linear"))
_BY_SIZE = re.compile(r"pos_embed|relative_position|rel_pos|rope|attn_mask|attention_bias|num_batches_tracked|coords_table")
_FEW_CHANNELS = 16  # no more than a picture has

#: transformers' models that people fine-tune, by what their weights are called and how large they are: prefix, words or patch, width.
_HUB: tuple[tuple[str, int, int, str], ...] = (
    ("bert.", 30522, 768, "google-bert/bert-base-uncased"),
    ("bert.", 30522, 1024, "google-bert/bert-large-uncased"),
    ("bert.", 28996, 768, "google-bert/bert-base-cased"),
    ("bert.", 119547, 768, "google-bert/bert-base-multilingual-cased"),
    ("bert.", 105879, 768, "google-bert/bert-base-multilingual-uncased"),
    ("bert.", 21128, 768, "google-bert/bert-base-chinese"),
    ("distilbert.", 30522, 768, "distilbert/distilbert-base-uncased"),
    ("distilbert.", 28996, 768, "distilbert/distilbert-base-cased"),
    ("roberta.", 50265, 768, "FacebookAI/roberta-base"),
    ("roberta.", 50265, 1024, "FacebookAI/roberta-large"),
    ("roberta.", 250002, 768, "FacebookAI/xlm-roberta-base"),
    ("roberta.", 250002, 1024, "FacebookAI/xlm-roberta-large"),
    ("deberta.", 128100, 768, "microsoft/deberta-v3-base"),
    ("deberta.", 128100, 384, "microsoft/deberta-v3-small"),
    ("albert.", 30000, 128, "albert/albert-base-v2"),
    ("electra.", 30522, 768, "google/electra-base-discriminator"),
    ("vit.", 16, 768, "google/vit-base-patch16-224"),
    ("vit.", 16, 1024, "google/vit-large-patch16-224"),
    ("deit.", 16, 768, "facebook/deit-base-patch16-224"),
    ("beit.", 16, 768, "microsoft/beit-base-patch16-224"),
    ("dinov2.", 14, 384, "facebook/dinov2-small-imagenet1k-1-layer"),
    ("dinov2.", 14, 768, "facebook/dinov2-base-imagenet1k-1-layer"),
)


def digest_of_shapes(shapes: Shapes) -> str:
    """Return a short hash of the names and shapes of tensors. Left out are tensors whose shape depends on the number of classes or
    channels, or on the size of pictures.
    """
    digest = hashlib.sha256()
    for name in sorted(shapes):
        if name.split(".")[0] in _HEADS or _BY_SIZE.search(name):
            continue
        shape = list(shapes[name])
        if len(shape) == 4 and shape[1] <= _FEW_CHANNELS:
            shape[1] = 0
        digest.update(f"{name}{shape}".encode())
    return digest.hexdigest()[:10]


class TimmRow(NamedTuple):
    """One architecture of timm in the table by which weights are recognised: its name, the side of its pictures in pixels (None if timm
    does not say), and whether timm has weights for it.
    """

    name: str
    side: int | None
    has_weights: bool


@cache
def _table() -> dict[str, list[TimmRow]]:
    """Return timm's architectures by the fingerprint of their weights, a digest of names and shapes."""
    rows: dict[str, tuple[str, int | None, bool]] = json.loads((files("explainers.models.opening") / TABLE).read_text("utf-8"))
    table: dict[str, list[TimmRow]] = {}
    for name, (key, side, has_weights) in rows.items():
        table.setdefault(key, []).append(TimmRow(name, side, has_weights))
    return table


def known_architectures() -> list[str]:
    """List the names for ``architecture=`` that are known: timm's Transformers that have weights, and those of transformers in `_HUB`."""
    rows = (row for rows in _table().values() for row in rows)
    return [*sorted(f"timm/{row.name}" for row in rows if row.has_weights), *(f"hf/{name}" for *_, name in _HUB)]


def suggest_architectures(shapes: Shapes, *, installed: bool = False) -> list[str]:
    """List names for ``architecture=`` whose weights have these names and shapes, the likeliest first; empty if none fits. With
    ``installed`` only architectures of the installed timm, which is imported.
    """
    return _of_timm(shapes, installed) or _of_openclip(shapes) or _of_torchvision(shapes) or _of_transformers(shapes)


def _of_timm(shapes: Shapes, installed: bool) -> list[str]:
    rows, side = _table().get(digest_of_shapes(shapes), []), picture_side(shapes)
    if installed:
        import timm

        rows = [row for row in rows if timm.is_model(row.name)]
    rows = [row for row in rows if side is None or row.side == side] or rows
    return [f"timm/{row.name}" for row in sorted(rows, key=lambda row: (not row.has_weights, len(row.name), row.name))]


def picture_side(shapes: Shapes) -> int | None:
    """Return the side, in pixels, of the square pictures for which a ViT has position embeddings, from the shapes of its weights; None if
    that cannot be derived from their number.
    """
    positions, patch = shapes.get("pos_embed"), shapes.get("patch_embed.proj.weight")
    if positions is None or patch is None or len(positions) != 3 or len(patch) != 4:
        return None
    tokens = positions[1]
    prefix = next((few for few in (1, 0, 2, 5) if math.isqrt(max(0, tokens - few)) ** 2 == tokens - few), None)
    return None if prefix is None else math.isqrt(tokens - prefix) * patch[-1]


def _of_openclip(shapes: Shapes) -> list[str]:
    width = shapes.get("visual.class_embedding")
    patch = shapes.get("visual.conv1.weight")
    text = shapes.get("token_embedding.weight") or shapes.get("text.token_embedding.weight")
    if width is None or patch is None or text is None:
        return []
    try:
        import open_clip
    except ImportError:
        return []
    pattern = re.compile(r"visual\.transformer\.resblocks\.(\d+)\.")
    layers = len({match[1] for name in shapes if (match := pattern.match(name))})
    positions = shapes["visual.positional_embedding"][0] - 1
    side = math.isqrt(positions) * patch[-1]
    names: list[str] = []
    for name in open_clip.list_models():
        config = open_clip.get_model_config(name)
        vision, words = config["vision_cfg"], config["text_cfg"]
        has = (vision.get("width"), vision.get("layers"), vision.get("patch_size"), vision.get("image_size"), words.get("width"))
        if has == (width[0], layers, patch[-1], side, text[1]) and words.get("vocab_size", text[0]) == text[0]:
            names.append(f"openclip/{name}")
    return sorted(names, key=len)


def _of_torchvision(shapes: Shapes) -> list[str]:
    patch = shapes.get("conv_proj.weight")
    size = {768: "b", 1024: "l", 1280: "h"}.get(patch[0]) if patch is not None else None
    if patch is None or size is None or "class_token" not in shapes:
        return []
    return [f"torchvision/vit_{size}_{patch[-1]}"]


def _of_transformers(shapes: Shapes) -> list[str]:
    words = next((s for name, s in shapes.items() if name.endswith("word_embeddings.weight")), None)
    patch = next((s for name, s in shapes.items() if name.endswith("patch_embeddings.projection.weight")), None)
    size, width = (words[0], words[1]) if words else (patch[-1], patch[0]) if patch else (0, 0)
    return [
        f"hf/{name}"
        for prefix, wanted, across, name in _HUB
        if (size, width) == (wanted, across) and any(key.startswith(prefix) for key in shapes)
    ]
