"""Open a model from a name, a folder, files, tensors or a module: a wrapped :class:`Model` with a report of what was found and guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError, circumstances, ran_out_of_memory
from explainers.failure_report import structure
from explainers.json_files import read_json_object
from explainers.models.eval_mode import with_gradients
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.libraries.recognition import unwrap
from explainers.models.loading import checked_dtype, device_named, has_saved, load, load_saved
from explainers.models.model import Model
from explainers.models.opening import adapters
from explainers.models.opening.architectures import SPELLINGS, build, shapes_of
from explainers.models.opening.class_names import class_names
from explainers.models.opening.folders import content_of
from explainers.models.opening.guesses import suggest_architectures
from explainers.models.opening.opened import Opened, find_opened, keep_opened
from explainers.models.opening.quantised import in_float32
from explainers.models.opening.reporting import describe
from explainers.models.opening.weights import Weights, find_prefixes, read_weights, weights_in
from explainers.models.report import Guess
from explainers.models.wrapping import wrap

#: The types that ``open`` accepts in Python.
ANYTHING = (
    "a name (scenes-vit, timm/..., hf/..., openclip/...), the path of a folder or of a file of weights, a list of files (a backbone and "
    "its head), a dict of tensors, or a torch module"
)


@dataclass(frozen=True, eq=False)
class OpeningResult:
    """An opened model, and what is known of how it was opened.

    model    the model, wrapped
    opened   what it was opened from, as a phrase such as "a folder that timm saved"
    guesses  values that nobody stated, each with the argument that overrides it
    notes    sentences for a person
    twin     the original module, whose answers the model must reproduce; None if there is none
    """

    model: Model
    opened: str
    guesses: tuple[Guess, ...] = ()
    notes: tuple[str, ...] = ()
    twin: nn.Module | None = None


@dataclass(frozen=True)
class OpenOptions:
    """The arguments of :func:`open_model` except the thing to open; None if the caller gave none.

    architecture  for weights without code: the name of an architecture, a file with its configuration, or a module
    labels        the names of the classes
    base          for an adapter: its base model, as a name, a folder or a module
    weights       the key of the set of weights to read, if a file holds several
    device        where the model runs
    progress      called during downloads
    dtype         the type of the weights
    wrapping      further arguments, for :func:`explainers.wrap`
    """

    architecture: str | Path | nn.Module | None = None
    labels: Any = None
    base: str | Path | nn.Module | None = None
    weights: str | None = None
    device: torch.device | None = None
    progress: DownloadProgress | None = None
    dtype: torch.dtype | None = None
    wrapping: Mapping[str, Any] = field(default_factory=dict)

    def convert(self, module: nn.Module) -> nn.Module:
        """Return a module, whose weights were read in float32, with its weights in ``dtype``."""
        return module if self.dtype in (None, torch.float32) else module.to(self.dtype)

    def wrap_arguments(self, **of_model: Any) -> dict[str, Any]:
        """Return the arguments of ``wrap`` and ``load``: those from the model's files, overridden by the caller's."""
        labels = {} if self.labels is None else {"labels": self.labels}
        return {"device": self.device, **{k: v for k, v in of_model.items() if v is not None}, **labels, **self.wrapping}


@with_gradients()
def open_model(
    anything: Any,
    *,
    architecture: str | Path | nn.Module | None = None,
    labels: Any = None,
    base: str | Path | nn.Module | None = None,
    weights: str | None = None,
    device: str | torch.device | None = None,
    progress: DownloadProgress | None = None,
    dtype: torch.dtype | None = None,
    **wrapping: Any,
) -> Opened:
    """Open ``anything`` as a model with its report, without the checks: see :func:`explainers.open`."""
    is_module = isinstance(anything, nn.Module)
    if dtype is not None and is_module:
        raise ExplainerError(f"dtype={dtype} is for names and files: a module is explained in its own, so convert it by module.to({dtype})")
    options = OpenOptions(
        dtype=None if dtype is None else checked_dtype(dtype),
        architecture=architecture,
        labels=None if labels is None else class_names(labels),
        base=base,
        weights=weights,
        device=None if is_module and device is None else device_named(device),
        progress=progress,
        wrapping={key: value for key, value in wrapping.items() if value is not None},
    )
    with circumstances(_private(anything, options), question=_question(anything, options)):
        result = _open(anything, options)
    report = describe(result.model, result.opened, result.guesses, result.notes, said=frozenset(options.wrap_arguments()))
    opened = Opened(replace(result.model, report=report), result.twin)
    if is_module:
        keep_opened(anything, opened)
    return opened


def open_unchecked(anything: Any) -> Model:
    """Return a model unchanged, for a module the model that it was opened as before, and for anything else a model opened without
    checks.
    """
    if isinstance(anything, Model):
        return anything
    known = find_opened(anything) if isinstance(anything, nn.Module) else None
    return (known or open_model(anything)).model


def _open(anything: Any, options: OpenOptions) -> OpeningResult:
    """Open ``anything`` by its type. Errors are raised as ExplainerError, except when memory runs out."""
    try:
        if isinstance(anything, Model):
            return OpeningResult(anything, "a model that is wrapped already")
        if isinstance(anything, nn.Module):
            with circumstances([], found=structure(_shapes(anything))):
                return _of_module(anything, options)
        if isinstance(anything, Mapping):
            return _of_weights(weights_in(anything, options.weights), "a dict of tensors", "weights", options)
        if isinstance(anything, list | tuple) and anything and all(isinstance(file, str | Path) for file in anything):
            return _of_parts([Path(file).expanduser() for file in anything], options)
        if isinstance(anything, str | Path):
            return _of_name(anything, options)
    except Exception as problem:
        if isinstance(problem, ExplainerError) or ran_out_of_memory(problem):
            raise
        raise ExplainerError(f"it could not be opened: {type(problem).__name__}: {problem}") from problem
    raise ExplainerError(f"a {type(anything).__name__} cannot be opened as a model; send {ANYTHING}")


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def _private(anything: Any, options: OpenOptions) -> list[str]:
    """List the paths and names of files in a call of ``open`` with ``anything`` and ``options``, which a failure report must leave out."""
    given = anything if isinstance(anything, list | tuple) else [anything]
    places = [
        Path(item)
        for item in (*given, options.architecture, options.base)
        if isinstance(item, str | Path) and Path(item).expanduser().exists()
    ]
    return [text for place in places for text in (str(place), place.name, place.stem.split(".")[0])]


def _question(anything: Any, options: OpenOptions) -> str:
    """Return the call of ``open`` with these options as one line of Python, without paths, for the report of a failure."""
    what = f"a {type(anything).__name__}"
    if isinstance(anything, str | Path):
        place = Path(anything).expanduser()
        what = f"a file {place.suffix}" if place.is_file() else "a folder" if place.is_dir() else repr(str(anything))
    named = {"architecture": options.architecture, "weights": options.weights, **options.wrapping, "name": None}
    said = [f"{key}={value if isinstance(value, str) else type(value).__name__}" for key, value in named.items() if value is not None]
    classes = [] if options.labels is None else [f"labels={len(options.labels)} names"]
    return f"open({', '.join([what, *said, *classes])})"


def _of_module(module: nn.Module, options: OpenOptions) -> OpeningResult:
    kind = type(module).__name__
    if isinstance(module, torch.jit.ScriptModule):
        return _of_scripted(module, options)
    inside = unwrap(module)
    opened = f"a {kind}" if inside is module else f"a {type(inside).__name__} inside a {kind}"
    plain, note = in_float32(inside)
    return OpeningResult(wrap(plain, **options.wrap_arguments()), opened, notes=() if note is None else (note,))


def _of_scripted(module: Any, options: OpenOptions) -> OpeningResult:
    """Load the weights of a scripted module, whose code cannot be followed, into a Python module of the architecture in ``options``, and
    return the result with the scripted module as its twin.
    """
    weights = weights_in(dict(module.state_dict()))
    result = _of_weights(weights, "a scripted module", "scripted", options)
    note = "The code of a scripted module cannot be followed. Its weights were put into the architecture, which must give the same answers."
    return replace(result, notes=(note, *result.notes), twin=module)


def _of_name(name: str | Path, options: OpenOptions) -> OpeningResult:
    place = Path(name).expanduser()
    if place.is_file():
        return _of_file(place, options)
    if not place.is_dir():
        _refuse_missing(str(name), place)
        if options.architecture is not None:
            raise ExplainerError(
                f"architecture= goes with a file of weights, and {str(name)!r} is the name of a model with its own; leave it out"
            )
        return OpeningResult(_load_named(str(name), options), f"the name {name}")
    content = content_of(place)
    guesses = () if content.guess is None else (Guess(content.guess, "a folder may hold several", "the path of the one to open"),)
    if content.adapter is not None:
        result = _of_adapter(content.adapter, options)
    elif content.file is not None:
        result = _of_file(content.file, options)
    else:
        assert content.folder is not None
        result = _of_folder(content.folder, options)
    return replace(result, guesses=(*guesses, *result.guesses))


def _load_named(name: str | Path, options: OpenOptions) -> Model:
    how = options.wrap_arguments(dtype=options.dtype)
    title = how.pop("name", None)
    model = load(name, progress=options.progress, **how)
    return model if title is None else replace(model, name=title)


def _refuse_missing(name: str, place: Path) -> None:
    if place.suffix in (".pth", ".pt", ".ckpt", ".safetensors", ".tar", ".bin") or name.startswith(("/", "./", "../", "~")):
        raise ExplainerError(f"there is no file or folder {name!r}; send {ANYTHING}")


def _of_folder(folder: Path, options: OpenOptions) -> OpeningResult:
    if (folder / "open_clip_config.json").is_file():
        return _of_openclip_folder(folder, options)
    config = read_json_object(folder / "config.json")
    if (method := (config.get("quantization_config") or {}).get("quant_method")) is not None:
        raise ExplainerError(
            f"{folder.name} holds weights quantised by {method}: load it where that runs, call model.dequantize(), save it again with "
            "save_pretrained, and open that; or open the model that it was made from"
        )
    for file in sorted(folder.glob("pytorch_model*.bin")):
        read_weights(file)  # refuses what is more than weights, whatever the library does with it
    stored = config.get("dtype") or config.get("torch_dtype")
    notes = (_note_on_type(stored, options),) if stored in ("float16", "bfloat16") else ()
    library = "timm" if "architecture" in config else "transformers"
    return OpeningResult(_load_named(folder, options), f"a folder that {library} saved", notes=notes)


def _of_openclip_folder(folder: Path, options: OpenOptions) -> OpeningResult:
    import open_clip

    name = f"local-dir:{folder}"
    try:
        module, tokenizer = open_clip.create_model(name), open_clip.get_tokenizer(name)
    except Exception as problem:  # each format of weights has errors of its own
        raise ExplainerError(f"open_clip cannot load {folder.name}: {problem}") from problem
    return OpeningResult(
        wrap(options.convert(module.eval()), **options.wrap_arguments(tokenizer=tokenizer, name=folder.name)),
        "a folder that OpenCLIP saved",
    )


def _of_adapter(folder: Path, options: OpenOptions) -> OpeningResult:
    module, base, title = adapters.merge_adapter(folder, options.base, options.progress)
    how: dict[str, Any] = {}
    for argument, auto_class in (("tokenizer", "AutoTokenizer"), ("preprocess", "AutoImageProcessor")):
        how[argument] = next((load_saved(place, auto_class) for place in (folder, base) if place and has_saved(place, auto_class)), None)
    result = wrap(options.convert(module), **options.wrap_arguments(name=folder.resolve().name, **how))
    return OpeningResult(result, f"an adapter, merged into {title}", notes=("The adapter is merged into the weights of its base model.",))


def _of_file(path: Path, options: OpenOptions) -> OpeningResult:
    is_of_folder = path.name == "config.json" or (options.architecture is None and path.name in ("model.safetensors", "pytorch_model.bin"))
    if is_of_folder and (path.parent / "config.json").is_file():
        return _of_folder(path.parent, options)
    if path.name.startswith("adapter_model") and (path.parent / adapters.CONFIG).is_file():
        return _of_adapter(path.parent, options)
    if options.architecture is None and (path.parent / "config.json").is_file():
        options = replace(options, architecture=path.parent)
    return _of_weights(read_weights(path, options.weights), "a file", path.name.split(".")[0], options)


def _of_parts(files: Sequence[Path], options: OpenOptions) -> OpeningResult:
    """Open a model whose backbone and head were saved in separate ``files``, by joining their weights."""
    tensors: dict[str, Tensor] = {}
    parts = [read_weights(file, options.weights) for file in files]
    for part in parts:
        tensors |= part.tensors
    first = parts[0]
    return _of_weights(replace(first, tensors=tensors, others=()), f"{len(files)} files", files[0].name.split(".")[0], options)


def _of_weights(weights: Weights, where: str, name: str, options: OpenOptions) -> OpeningResult:
    with circumstances([], found=structure(weights.shapes)):
        return _of_read_weights(weights, where, name, options)


def _of_read_weights(weights: Weights, where: str, name: str, options: OpenOptions) -> OpeningResult:
    guesses: list[Guess] = []
    architecture = options.architecture
    if weights.others and options.weights is None:
        others = ", ".join(repr(other) for other in weights.others)
        guesses.append(Guess(f"the weights under {weights.key!r} are read", f"the file has others under {others}", "weights="))
    if architecture is None and weights.architecture is not None:
        architecture = weights.architecture
        guesses.append(Guess(f"the architecture is {architecture}", "the file names it", "architecture="))
    if architecture is None:
        known = suggest_architectures(shapes_of(weights), installed=True)
        if not known:
            raise ExplainerError(
                f"the file holds {len(weights.tensors)} tensors, such as {next(iter(weights.tensors))}, and no architecture that is known "
                f"here has such: pass architecture=, {SPELLINGS}"
            )
        architecture = known[0]
        alike = f"; {', '.join(known[1:4])} {'have the same, and more' if len(known) > 4 else 'have the same'}" if len(known) > 1 else ""
        alike += " (what weights do not show may differ: how pictures are prepared, activations, heads)" if alike else ""
        guesses.append(Guess(f"the architecture is {architecture}", f"names and shapes of the weights fit it{alike}", "architecture="))
    built = build(architecture, weights, options.progress)
    how = dict(built.how)
    prefix, copies = find_prefixes(weights.tensors, built.module.state_dict())
    if copies:
        others = ", ".join(repr(".".join(filter(None, (weights.key, copy.removesuffix("."))))) for copy in copies)
        guesses.append(Guess(f"the weights whose names begin with {prefix!r} are read", f"others fit too, under {others}", "weights="))
    if options.labels is None and weights.labels is not None:
        how["labels"] = _names_in_file(weights.labels)
    notes = []
    if weights.stored in ("float16", "bfloat16"):
        notes.append(_note_on_type(weights.stored, options))
    if built.left_out:
        notes.append(
            f"{len(built.left_out)} tensors of the file have no place in the model and were left out, such as {built.left_out[0]}."
        )
    title = architecture if isinstance(architecture, str) else type(architecture).__name__ if isinstance(architecture, nn.Module) else ""
    inside = f", in {title}" if title and not Path(title).expanduser().exists() else ""
    under = f"the weights under {weights.key!r} of {where}" if weights.key else f"the weights of {where}"
    model = _wrap_with_labels(options.convert(built.module), options.wrap_arguments(name=name, **how), how)
    return OpeningResult(model, under + inside, tuple(guesses), tuple(notes))


def _note_on_type(stored: str, options: OpenOptions) -> str:
    """Return the note on weights that are ``stored`` in half precision."""
    return f"The weights are {stored}; they are explained in {str(options.dtype or torch.float32).removeprefix('torch.')}."


def _wrap_with_labels(module: nn.Module, how: dict[str, Any], result: Mapping[str, Any]) -> Model:
    """Wrap a module; the labels in its file are left out if their number differs from that of its classes."""
    try:
        return wrap(module, **how)
    except ExplainerError as problem:
        if "labels" in result and how.get("labels") is result["labels"] and "labels= holds" in str(problem):
            return wrap(module, **{key: value for key, value in how.items() if key != "labels"})
        raise


def _names_in_file(labels: Any) -> list[str] | None:
    try:
        return class_names(labels)
    except ExplainerError:  # something else under that name
        return None
