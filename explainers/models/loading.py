"""``load``: a model by name, from inside Vitrine, from the hub or its cache, or from a folder; all through the same code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import torch
from torch import nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)
from explainers.errors import ExplainerError
from explainers.json_files import read_json_object
from explainers.models.catalogue import CATALOGUE, catalogued, embedded_names, embedded_path, pinned_revision
from explainers.models.companion_files.calibration import CALIBRATION_FILE, UNCALIBRATED, Calibration, read_calibration
from explainers.models.companion_files.fingerprints import FINGERPRINTS_FILE, read_fingerprints
from explainers.models.companion_files.head_words import HEAD_WORDS_FILE, read_head_words
from explainers.models.companion_files.prompt_words import PROMPT_WORDS_FILE, read_prompt_words
from explainers.models.companion_files.register_neurons import REGISTER_NEURONS_FILE, read_register_neurons
from explainers.models.eval_mode import with_gradients
from explainers.models.feature_scores import FEATURE_SCORES_FILE, read_directions
from explainers.models.inputs.types import ModelKind
from explainers.models.labels import imagenet_classes, read_classes
from explainers.models.libraries import hub, openclip
from explainers.models.libraries.calls import argument_names
from explainers.models.libraries.hub import DownloadProgress, missing_weights
from explainers.models.libraries.molecule_architectures import build_molecule_model
from explainers.models.libraries.recognition import is_asked_with_texts, kind_of
from explainers.models.libraries.sentence_embedding import ATTRIBUTE, max_length_of, sentence_embedding_of
from explainers.models.libraries.sound_models import reads_sounds
from explainers.models.libraries.source_writers import writer_source_of
from explainers.models.libraries.vision_language import VIDEO_PIXELS, picture_token_of
from explainers.models.model import Model
from explainers.models.outputs import Output
from explainers.models.processor_prompts import processor_of
from explainers.models.wrapping import wrap
from explainers.plugins import ARCHITECTURE_GROUP, load_group

#: The types in which the weights of a model can be loaded.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DTYPES_BY_NAME = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
_LABELS = "labels.json"
#: The files of transformers' tokenizers and image processors; a folder that holds one has at least one of its files.
_SAVED_FILES: dict[str, tuple[str, ...]] = {
    "AutoTokenizer": ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"),
    "AutoImageProcessor": ("preprocessor_config.json", "processor_config.json"),
    "AutoFeatureExtractor": ("preprocessor_config.json", "processor_config.json"),
}
_EXTRACTOR = "AutoFeatureExtractor"


@with_gradients()
def load(
    name: str | Path,
    device: str | torch.device | None = None,
    *,
    labels: Sequence[str] | None = None,
    output: Output | None = None,
    head: str | int | None = None,
    preprocess: Any = None,
    tokenizer: Any = None,
    progress: DownloadProgress | None = None,
    dtype: torch.dtype = torch.float32,
    **structure: Any,
) -> Model:
    """Load a model in eval mode, in ``dtype``, on ``device`` (None: CUDA if there is any, else the CPU), ready to explain.

    name      an embedded model ("scenes-vit"), "timm/<name>", "hf/<organisation>/<name>", "openclip/<model>/<pretrained>" (with the extra
              openclip), or the path of a folder with config.json and weights, as timm or as transformers writes them
    labels, output, head  those of :func:`explainers.wrap`, if the files do not have them or have wrong ones
    preprocess, tokenizer  those of :func:`explainers.wrap`, or the name of a folder or of the hub from which to take one, if the model's
                           own folder has none
    structure  further arguments by name, passed on to :func:`explainers.wrap`: ``kind``, ``blocks``, ``entry`` and ``prefix``, if they
               are not found out rightly
    progress  called with a text and the finished fraction (None: unknown) while files are downloaded
    dtype     torch.float32, or torch.bfloat16 or torch.float16 for half of the memory: maps then have two or three digits
              (docs/limits.md)

    Raises ExplainerError for an unknown name, device or dtype, for a folder that lacks a file, and, within 5 seconds, when the hub is
    needed and cannot be reached.
    """
    torch_device = device_named(device)
    text = str(name)
    checked_dtype(dtype)
    said = {"labels": labels, "output": output, "head": head}
    said |= {"preprocess": _load_if_named(preprocess, "AutoImageProcessor"), "tokenizer": _load_if_named(tokenizer, "AutoTokenizer")}
    how: dict[str, Any] = {"device": torch_device, "dtype": dtype, **structure}
    how |= {key: value for key, value in said.items() if value is not None}
    if text in embedded_names():
        return _from_folder(embedded_path(text), text, how)
    if text.startswith("openclip/"):
        module, own_tokenizer = openclip.load(text, progress)
        return _wrapped(module, name=text, **{"tokenizer": own_tokenizer, **how})
    repository = repository_of(text)
    if repository is not None:
        folder = hub.fetch(repository, progress, pinned_revision(text))
        how = {**_known_labels(text), **how}
        return _timm_from_hub(text, folder, how) if text.startswith("timm/") else _from_folder(folder, text, how)
    folder = Path(text).expanduser()
    if folder.is_dir():
        return _from_folder(folder, folder.resolve().name, how)
    raise ExplainerError(_describe_unknown_name(text))


def checked_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return ``dtype``. Raises ExplainerError if weights are not loaded in it."""
    if dtype not in DTYPES:
        raise ExplainerError(f"dtype={dtype}: choose one of {', '.join(map(str, DTYPES))}.")
    return dtype


def _wrapped(module: nn.Module, *, dtype: torch.dtype, **how: Any) -> Model:
    """Convert ``module``, whose weights were read in float32, to ``dtype`` and return it as a :class:`Model`; ``how`` are the other
    arguments of :func:`wrap`.
    """
    return wrap(module if dtype == torch.float32 else module.to(dtype), **how)


def _load_if_named(passed: Any, auto_class: str) -> Any:
    """Return ``passed`` itself, or if it is the name of a folder or a repository of the hub, the tokenizer or processor (``auto_class``)
    saved there.
    """
    if not isinstance(passed, str | Path):
        return passed
    place = hub.fetch(str(passed).removeprefix("hf/"), None) if str(passed).startswith("hf/") else Path(passed).expanduser()
    if not place.is_dir():
        raise ExplainerError(f"there is no folder {str(passed)!r}; send one that holds it, or hf/<organisation>/<name>")
    return load_saved(place, auto_class)


def device_named(device: str | torch.device | None) -> torch.device:
    """Return ``device`` after checking that it exists here. None is CUDA if there is any, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch_device = torch.device(device)
    except (RuntimeError, TypeError):
        raise ExplainerError(f"there is no kind of device {device!r}; send cpu, cuda or cuda:0") from None
    if torch_device.type == "cuda" and (torch_device.index or 0) >= torch.cuda.device_count():
        raise ExplainerError(f"{torch_device} is not there: {torch.cuda.device_count()} CUDA devices are seen; send cpu")
    if torch_device.type not in ("cpu", "cuda"):
        try:
            torch.empty(0, device=torch_device)
        except (RuntimeError, NotImplementedError, AssertionError):
            raise ExplainerError(f"the device {torch_device} cannot be used here; send cpu") from None
        if torch_device.type == "meta":
            raise ExplainerError("the device meta holds no numbers; send cpu")
    return torch_device


def _describe_unknown_name(name: str) -> str:
    known = [*embedded_names(), *(entry.name for entry in CATALOGUE if not entry.embedded)]
    near = get_close_matches(name, known, n=3, cutoff=0.4)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"there is no model {name!r}.{meant} Embedded models: {', '.join(embedded_names())}. "
        "Others: timm/<name>, hf/<organisation>/<name>, openclip/<model>/<pretrained>, or the path of a folder."
    )


def fetch(name: str, progress: DownloadProgress | None = None) -> None:
    """Bring the files of a hub model ("timm/<name>", "hf/<organisation>/<name>", "openclip/<model>/<pretrained>") into the local cache;
    other names need nothing. ``progress`` is called as by ``load``.

    Raises ExplainerError as ``load`` does.
    """
    if name.startswith("openclip/"):
        openclip.fetch(name, progress)
        return
    repository = repository_of(name)
    if repository is not None:
        hub.fetch(repository, progress, pinned_revision(name))


def is_downloaded(name: str) -> bool:
    """Return whether the files of a hub model of the catalogue are in the local cache, so that it can be loaded without a network."""
    repository = repository_of(name)
    return repository is not None and hub.find_cached(repository, pinned_revision(name)) is not None


def _known_labels(name: str) -> dict[str, list[str]]:
    """Return the argument ``labels`` for a hub model whose files do not name its classes, where the catalogue does; else none."""
    entry = catalogued(name)
    return {"labels": list(entry.labels)} if entry is not None and entry.labels else {}


def card(name: str) -> str | None:
    """Return the model card (Markdown) of the model ``name``, an embedded model, a folder, or a hub model in the local cache; None if it
    has none.
    """
    repository = repository_of(name)
    if name in embedded_names():
        folder: Path | None = embedded_path(name)
    else:
        folder = Path(name).expanduser() if repository is None else hub.find_cached(repository, pinned_revision(name))
    path = folder / "README.md" if folder is not None else None
    return path.read_text("utf-8") if path is not None and path.is_file() else None


def calibration_of(name: str) -> Calibration:
    """Return the calibration stored with the weights of the embedded model ``name``; UNCALIBRATED where there is none."""
    if name not in embedded_names():
        return UNCALIBRATED
    path = embedded_path(name) / CALIBRATION_FILE
    return read_calibration(path) if path.is_file() else UNCALIBRATED


def repository_of(name: str) -> str | None:
    """Return the name of the repository on the hub that holds the files of the model ``name``; None if they are not on the hub."""
    if name in embedded_names() or Path(name).is_dir():
        return None
    if name.startswith("hf/"):
        return name.removeprefix("hf/")
    if name.startswith("timm/"):
        return name if catalogued(name) is not None else str(_timm_config(name).hf_hub_id)  # without importing timm, if that can be
    return None


def _timm_config(name: str) -> Any:
    """Return timm's own configuration of "timm/<name>". Raises ExplainerError for a name that has no weights."""
    import timm

    bare = name.removeprefix("timm/")
    try:
        config = timm.get_pretrained_cfg(bare, allow_unregistered=True) if timm.is_model(bare.split(".")[0]) else None
    except RuntimeError:  # an architecture that timm has, with a tag that it has not
        config = None
    if config is None or not config.hf_hub_id:
        architecture = bare.split(".")[0]
        tagged = timm.list_pretrained(f"{architecture}.*") or timm.list_pretrained()
        near = get_close_matches(bare, tagged, n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(f'timm/{n}' for n in near)}?" if near else ""
        raise ExplainerError(f"timm has no pretrained model {bare!r}.{meant} Embedded models: {', '.join(embedded_names())}.")
    return config


def _timm_from_hub(name: str, folder: Path, how: Mapping[str, Any]) -> Model:
    import timm

    weights = next(folder / file for file in ("model.safetensors", "pytorch_model.bin") if (folder / file).is_file())
    overlay = {"file": str(weights), "custom_load": False}
    try:
        module = timm.create_model(name.removeprefix("timm/"), pretrained=True, pretrained_cfg_overlay=overlay)
    except Exception as problem:  # each format of weights has errors of its own
        raise ExplainerError(f"timm cannot load {weights}: {problem}") from problem
    return _in_everyday_words(_wrapped(module.eval(), name=name, **how))


def _from_folder(folder: Path, name: str, how: Mapping[str, Any]) -> Model:
    config = _config(folder)
    lacking = missing_weights(folder)
    if lacking:
        raise ExplainerError(f"{folder} lacks {', '.join(lacking)}")
    load_from = (
        _molecules_from_folder
        if config.get("kind") == "molecule"
        else _timm_from_folder
        if "architecture" in config
        else _transformers_from_folder
    )
    model = load_from(folder, config, name, how)
    return model if "labels" in how else _with_companions(model, folder)


@dataclass(frozen=True)
class _Companion:
    """A file that may lie next to the weights of a model: the ``kinds`` of models that have it, its name, and the function that reads it
    into a ``field`` of the model.
    """

    kinds: frozenset[ModelKind]
    file: str
    field: str
    read: Callable[[Path], Any]


_KINDS: frozenset[ModelKind] = frozenset(get_args(ModelKind))
_COMPANIONS = (
    _Companion(_KINDS - {"clip"}, FEATURE_SCORES_FILE, "directions", read_directions),
    _Companion(frozenset({"clip"}), PROMPT_WORDS_FILE, "prompt_words", read_prompt_words),
    _Companion(frozenset({"clip"}), HEAD_WORDS_FILE, "head_words", read_head_words),
    _Companion(frozenset({"molecule"}), FINGERPRINTS_FILE, "fingerprints", read_fingerprints),
    _Companion(frozenset({"image", "clip"}), REGISTER_NEURONS_FILE, "register_neurons", read_register_neurons),
    _Companion(_KINDS, CALIBRATION_FILE, "calibration", read_calibration),
)


def _with_companions(model: Model, folder: Path) -> Model:
    """Return ``model`` with the names of its classes (``labels.json``) and the contents of the companion files, all read from ``folder``,
    which holds its weights.
    """
    labels = folder / _LABELS
    if labels.is_file():
        if model.kind == "clip":
            raise ExplainerError(f"{labels} names classes, and {model.name} has none: it is asked with prompts")
        classes = read_classes(labels, len(model.labels))
        model = replace(model, classes=classes, labels=[entry.label for entry in classes])
    else:
        model = _in_everyday_words(model)
    for companion in _COMPANIONS:
        if model.kind in companion.kinds and (file := folder / companion.file).is_file():
            model = replace(model, **{companion.field: companion.read(file)})
    return model


def _in_everyday_words(model: Model) -> Model:
    """Return ``model``. If its classes are ImageNet's, it gets their common names, groups and synonyms first."""
    classes = imagenet_classes(model.labels)
    return replace(model, classes=classes, labels=[entry.label for entry in classes]) if classes else model


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise ExplainerError(f"{folder} lacks config.json; send a folder as timm or transformers writes it")
    config = read_json_object(path)
    if not ("architecture" in config or "model_type" in config):
        raise ExplainerError(f"{path} names neither an architecture (timm) nor a model_type (transformers)")
    return config


def _import_plugins_for(architecture: str) -> None:
    """Import the timm architectures of installed plugins if timm itself does not know ``architecture``."""
    import timm

    if not timm.is_model(architecture):
        load_group(ARCHITECTURE_GROUP)


def _timm_from_folder(folder: Path, config: dict[str, Any], name: str, how: Mapping[str, Any]) -> Model:
    import timm

    _import_plugins_for(config["architecture"])
    try:
        module = timm.create_model(f"local-dir:{folder}", pretrained=True)
    except Exception as problem:  # each format of weights has errors of its own
        raise ExplainerError(f"timm cannot load {folder}: {problem}") from problem
    # a model that is blind to some patches cannot be asked which tokens change with the picture: its folder says it
    said = {"prefix": config["prefix"]} if "prefix" in config else {}
    return _wrapped(module.eval(), name=name, **{**said, **how})


def _molecules_from_folder(folder: Path, config: dict[str, Any], name: str, how: Mapping[str, Any]) -> Model:
    load_group(ARCHITECTURE_GROUP)
    module = build_molecule_model(config, folder)
    said = {"labels": config.get("label_names"), "reader": config.get("reader")}
    return _wrapped(module.eval(), name=name, kind="molecule", **{**{key: value for key, value in said.items() if value}, **how})


def _transformers_from_folder(folder: Path, config: dict[str, Any], name: str, how: Mapping[str, Any]) -> Model:
    import transformers

    if (tower := (config.get("vision_config") or {}).get("architecture")) is not None:  # one of timm's
        _import_plugins_for(tower)
    architecture = (config.get("architectures") or [None])[0]
    model_class = getattr(transformers, architecture, None) if architecture else None
    if model_class is None:
        raise ExplainerError(f"{folder / 'config.json'} names the architecture {architecture!r}, which transformers does not have")
    with _hide_progress_bar():
        try:
            module, report = model_class.from_pretrained(folder, dtype=how["dtype"], local_files_only=True, output_loading_info=True)
        except Exception as problem:  # each format of weights has errors of its own
            raise ExplainerError(f"transformers cannot load {folder}: {problem}") from problem
    # a pooler is laid on every backbone, also where its weights have none: its features are read without
    if missing := [key for key in sorted(report["missing_keys"]) if not key.startswith("pooler.")]:
        raise ExplainerError(f"the weights in {folder} lack {', '.join(missing[:3])}: not a finished model")
    if reads_sounds(module):
        extractor = {} if "preprocess" in how or not has_saved(folder, _EXTRACTOR) else {"preprocess": load_saved(folder, _EXTRACTOR)}
        return _wrapped(module.eval(), name=name, **extractor, **how)
    source = writer_source_of(module)
    if source is not None and source.is_sound and "preprocess" not in how and has_saved(folder, _EXTRACTOR):
        how = {**how, "preprocess": load_saved(folder, _EXTRACTOR)}
    if how.get("kind") is None:
        kind_of(module, "transformers")  # refuses what is of none, before a tokenizer is missed
    dual = hasattr(module, "get_image_features")
    takes = argument_names(module)
    shown = {"pixel_values", VIDEO_PIXELS} & takes
    reads_images = dual or module.main_input_name == "pixel_values" or bool(shown and "input_ids" not in takes)
    companions: dict[str, Any] = {}
    by_processor = picture_token_of(module, "transformers") is not None and processor_of(module, None) != (None, "")
    if reads_images and "preprocess" not in how and not by_processor:  # which wrap loads and tries, or says why it cannot
        companions["preprocess"] = _frame_processor(folder) or load_saved(folder, "AutoImageProcessor")
    if (dual or not reads_images or is_asked_with_texts(module) or source is not None) and "tokenizer" not in how:
        companions["tokenizer"] = load_saved(folder, "AutoTokenizer")
    if not reads_images and (embedding := sentence_embedding_of(folder)) is not None:
        module.add_module(ATTRIBUTE, embedding)
        tokenizer, most = companions.get("tokenizer"), max_length_of(folder)
        if tokenizer is not None and most is not None:
            tokenizer.model_max_length = min(tokenizer.model_max_length, most)
    return _wrapped(module.eval(), name=name, **companions, **how)


def _frame_processor(folder: Path) -> Any:
    """Return the settings for preparing the frames of clips if a folder has only those of a video processor; else None. They are read from
    its file because the processor itself needs torchvision.
    """
    path = folder / "video_preprocessor_config.json"
    if not path.is_file() or (folder / "preprocessor_config.json").is_file():
        return None
    settings = {"rescale_factor": 1 / 255, **read_json_object(path)}
    return type(settings.get("video_processor_type", "VideoProcessor"), (SimpleNamespace,), {})(**settings)


def has_saved(folder: Path, auto_class: str) -> bool:
    """Return whether ``folder`` holds a file of a tokenizer (``auto_class`` "AutoTokenizer") or of an image processor
    ("AutoImageProcessor") of transformers.
    """
    return any((folder / file).is_file() for file in _SAVED_FILES[auto_class])


def load_saved(folder: Path, auto_class: str) -> Any:
    """Load the tokenizer or image processor (``auto_class``) that ``folder`` holds, and return it; see :func:`has_saved`. Raises
    ExplainerError if it is missing or broken.
    """
    import transformers

    file = _SAVED_FILES[auto_class][0]
    if not has_saved(folder, auto_class):
        argument = "tokenizer" if auto_class == "AutoTokenizer" else "preprocess"
        raise ExplainerError(
            f"{folder} lacks {file}; save it there with the model's {auto_class.removeprefix('Auto')}, or name a folder that has one: "
            f"{argument}="
        )
    arguments = {"backend": "pil"} if auto_class == "AutoImageProcessor" else {}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "At least one mel filter", UserWarning)  # of extractors of sounds, by their settings
            return getattr(transformers, auto_class).from_pretrained(folder, local_files_only=True, trust_remote_code=False, **arguments)
    except Exception as problem:  # tokenizers have errors of their own
        raise ExplainerError(f"{folder}: {auto_class} cannot read {file}: {problem}") from problem


@contextmanager
def _hide_progress_bar() -> Iterator[None]:
    """Hide transformers' progress bar inside this context, as it would write over ours."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
