"""Models of open_clip, the optional extra ``openclip``: their logits, preprocessing and tokenizers, and loading by name.

Such a model has ``encode_image`` and ``encode_text``, which give features, and makes logits of their cosines.
"""

from __future__ import annotations

import copy
import re
import string
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from PIL import Image
from torch import Tensor, nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before open_clip)
from explainers.errors import ExplainerError, NotInstalledError
from explainers.installation import not_installed
from explainers.models.inputs.images import Preprocessing
from explainers.models.libraries import hub
from explainers.models.libraries.hub import DownloadProgress

#: File names of weights in a repository of the hub, best first.
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
_FIT = {"shortest": "cover", "longest": "contain", "squash": "squash"}


def encodes(module: nn.Module) -> bool:
    """Return whether ``module`` has the interface of open_clip's models, which OpenAI's CLIP had first."""
    return hasattr(module, "encode_image") and hasattr(module, "encode_text") and hasattr(module, "logit_scale")


def logits(module: Any, tensors: Mapping[str, Tensor]) -> Tensor:
    """Run a module on tensors and return the logits (images, prompts): the scaled cosines of their features, plus a bias if it has one."""
    images = module.encode_image(tensors["pixel_values"], normalize=True)
    texts = module.encode_text(tensors["input_ids"], normalize=True)
    scores: Tensor = module.logit_scale.exp() * images @ texts.T
    bias = getattr(module, "logit_bias", None)
    return scores if bias is None else scores + bias


def preprocessing(module: Any) -> tuple[Preprocessing | None, bool]:
    """Return the preparation of images for ``module``, a model of open_clip, and whether the model declares it (else it is a guess); None
    and False for a model that names no size.
    """
    visual = getattr(module, "visual", None)
    known = getattr(visual, "preprocess_cfg", None)
    config = known or {"size": getattr(visual, "image_size", None), **_defaults()}
    size = config["size"]
    if not size:
        return None, False
    size = (size, size) if isinstance(size, int) else tuple(size)
    fit = _FIT[config.get("resize_mode") or "shortest"]
    return Preprocessing(
        resize=size,
        fit=fit,  # type: ignore[arg-type]
        crop=None if fit == "squash" else size,
        resample=Image.Resampling[(config.get("interpolation") or "bicubic").upper()],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        fill=(int(config.get("fill_color") or 0),) * 3,
    ), known is not None


def _defaults() -> dict[str, Any]:
    from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD

    return {"mean": OPENAI_DATASET_MEAN, "std": OPENAI_DATASET_STD}


def tokenizer(module: Any, passed: Any) -> Any:
    """Return a tokenizer with character offsets and the ids of open_clip's tokenizer for the model ``module``: ``passed``, or the model's
    own. None if the vocabularies differ.
    """
    if passed is None:
        passed = _own(module.context_length)
        if passed.vocab_size != _vocabulary(module):
            return None
    inner = getattr(passed, "tokenizer", None)  # open_clip's own wrapper around one of transformers
    if inner is not None:
        return _cleaning(passed, inner) if getattr(inner, "is_fast", False) else inner
    if not hasattr(passed, "bpe_ranks"):
        return passed
    import transformers

    start, end = "<start_of_text>", "<end_of_text>"
    return transformers.CLIPTokenizer(
        vocab=dict(passed.encoder),
        merges=[tuple(pair) for pair in passed.bpe_ranks],
        unk_token=end,
        bos_token=start,
        eos_token=end,
        pad_token=end,
        model_max_length=passed.context_length,
    )


@lru_cache(1)  # it takes a tenth of a second, and is only read
def _own(context_length: int) -> Any:
    import open_clip

    return open_clip.SimpleTokenizer(context_length=context_length)


def _cleaning(tokenizer: Any, inner: Any) -> Any:
    """Return a copy of ``inner``, a transformers tokenizer, that cleans texts as open_clip's wrapper around it does, and keeps
    offsets.
    """
    from tokenizers import Regex, normalizers

    if getattr(tokenizer, "tokenizer_mode", "") or getattr(tokenizer, "strip_sep_token", False):
        raise ExplainerError("this tokenizer of open_clip places special tokens in its own way; pass tokenizer= one of transformers'")
    cleaned = tokenizer.clean_fn("A_b, C")
    steps: list[Any] = []
    if cleaned == "a b c":
        steps = [normalizers.Replace("_", " "), normalizers.Replace(Regex(f"[{re.escape(string.punctuation)}]"), "")]
    if cleaned == cleaned.lower():
        steps.append(normalizers.Lowercase())
    steps += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    inner = copy.deepcopy(inner)
    inner.model_max_length = tokenizer.context_length
    backend = inner.backend_tokenizer
    backend.normalizer = normalizers.Sequence([*steps, *([backend.normalizer] if backend.normalizer else [])])
    return inner


def _vocabulary(module: Any) -> int | None:
    return getattr(module, "vocab_size", None) or getattr(getattr(module, "text", None), "vocab_size", None)


def repository(name: str) -> str | None:
    """Return the hub's repository of "openclip/<model>/<pretrained>"; None if its files are elsewhere.

    Raises ExplainerError for names that open_clip does not know, and if it is not installed.
    """
    model, tag = _split_name(name)
    import open_clip

    return str(open_clip.get_pretrained_cfg(model, tag).get("hf_hub") or "").strip("/") or None


def _split_name(name: str) -> tuple[str, str]:
    try:
        import open_clip
    except ImportError:
        raise NotInstalledError(not_installed(f"{name} needs the package open_clip_torch", "openclip")) from None
    _, _, rest = name.partition("/")
    model, _, tag = rest.rpartition("/")
    known = [f"openclip/{model}/{tag}" for model, tag in open_clip.list_pretrained()]
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ExplainerError(f"open_clip has no pretrained model {rest!r}; send openclip/<model>/<pretrained>.{meant}")
    return model, tag


def fetch(name: str, progress: DownloadProgress | None = None) -> None:
    """Download the weights of the model ``name``, "openclip/<model>/<pretrained>", into the local cache, if the hub has them. Raises as
    ``hub.fetch``.
    """
    place = repository(name)
    if place is not None:
        hub.fetch_one(place, WEIGHTS, progress)


def load(name: str, progress: DownloadProgress | None = None) -> tuple[nn.Module, Any]:
    """Load the model ``name``, "openclip/<model>/<pretrained>", with its weights; return the module in eval mode, and its tokenizer. Raises
    ExplainerError if open_clip cannot load it.
    """
    fetch(name, progress)
    import open_clip

    model, tag = _split_name(name)
    try:
        module = open_clip.create_model(model, pretrained=tag, require_pretrained=True)
        return module.eval(), open_clip.get_tokenizer(model)
    except Exception as problem:  # each format of weights has errors of its own
        raise ExplainerError(f"open_clip cannot load {name}: {problem}") from problem
