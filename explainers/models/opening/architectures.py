"""A module of a named architecture with the weights of a file in it: of timm, transformers, OpenCLIP, torchvision, or one's own."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)
from explainers.errors import ExplainerError, NotInstalledError
from explainers.installation import not_installed
from explainers.json_files import read_json_object
from explainers.models.inputs.images import Preprocessing
from explainers.models.libraries import hub
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.libraries.recognition import preprocessing_of
from explainers.models.opening.guesses import picture_side, suggest_architectures
from explainers.models.opening.weights import Weights, rename_weights

#: The forms of ``architecture=``.
SPELLINGS = (
    "timm/<name>, hf/<organisation>/<name>, openclip/<model>, torchvision/<name>, the path of a folder with config.json, or in Python a "
    "module of your own"
)
_HEADS_APART = ("", "linear.", "fc.", "classifier.", "head.")  # what stands before the names of a head in a file of its own
_MANY_CLASSES = (7, 11)  # numbers of classes of two skeletons: the tensors whose shapes differ are the head
_MOST_LEFT_OUT = 0.5  # of the numbers in a file
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, with which torchvision's weights were trained


@dataclass(frozen=True, eq=False)
class Built:
    """A module with its weights.

    how       arguments for ``wrap`` that go with the module: its tokenizer, its preprocessing, its kind
    left_out  names of tensors in the file that the module has no place for
    """

    module: nn.Module
    how: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def build(architecture: str | Path | nn.Module, weights: Weights, progress: DownloadProgress | None = None) -> Built:
    """Build the architecture with these weights, from which its numbers of classes and channels are read.

    Raises ExplainerError for an unknown architecture, and if the weights do not fit it, naming one that they may fit.
    """
    if isinstance(architecture, nn.Module):
        module = copy.deepcopy(architecture)
        return Built(
            module, left_out=_load_tensors(module, rename_weights(weights.tensors, module.state_dict()), type(module).__name__, weights)
        )
    name = str(architecture)
    for start, make in (("timm/", _timm), ("openclip/", _openclip), ("torchvision/", _torchvision)):
        if name.startswith(start):
            return make(name.removeprefix(start), weights)
    import timm

    if name.startswith("hf/"):
        return _from_config(hub.fetch_config(name.removeprefix("hf/"), progress), name, weights)
    place = Path(name).expanduser()
    if place.exists():
        return _from_config(place if place.is_dir() else place.parent, name, weights)
    if timm.is_model(name.partition(".")[0]):
        return _timm(name, weights)
    near = get_close_matches(name, timm.list_models(), n=3, cutoff=0.6)
    meant = f" Did you mean {' or '.join(f'timm/{n}' for n in near)}?" if near else ""
    raise ExplainerError(f"there is no architecture {name!r}.{meant} Send {SPELLINGS}.{_may_be(weights)}")


def _timm(name: str, weights: Weights) -> Built:
    import timm

    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        near = get_close_matches(architecture, timm.list_models(), n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(f'timm/{n}' for n in near)}?" if near else ""
        raise ExplainerError(f"timm has no architecture {architecture!r}.{meant}{_may_be(weights)}")
    with torch.device("meta"):
        skeleton = timm.create_model(architecture)
    tensors = rename_weights(weights.tensors, skeleton.state_dict())
    config = dict(skeleton.pretrained_cfg)
    classifiers, convolutions = (_several(config.get(key)) for key in ("classifier", "first_conv"))
    tensors = _with_head(tensors, classifiers)
    head = next((tensors[f"{part}.weight"] for part in classifiers if f"{part}.weight" in tensors), None)
    shape: dict[str, Any] = {"num_classes": 0 if head is None else head.shape[0]}  # a file without a head gives features
    beside_mean = head is not None and head.dim() == 2 and head.shape[1] == 2 * skeleton.num_features
    if beside_mean:  # DINOv2's linear classifiers
        shape = {"num_classes": 0}
        tensors = {key: tensor for key, tensor in tensors.items() if key.partition(".")[0] not in classifiers}
    first = next((tensors[f"{part}.weight"] for part in convolutions if f"{part}.weight" in tensors), None)
    if first is not None and first.dim() == 4:
        shape["in_chans"] = first.shape[1]
    side, usual = picture_side({key: tuple(tensor.shape) for key, tensor in tensors.items()}), config["input_size"][-1]
    if side is not None and side != usual:
        shape["img_size"] = side
    if "fc_norm.weight" in tensors and "fc_norm.weight" not in skeleton.state_dict():
        shape["global_pool"] = "avg"  # MAE's fine-tuned models
    tagged = timm.get_pretrained_cfg(name, allow_unregistered=True) if tag else None
    try:
        module = timm.create_model(name if tagged is not None else architecture, **shape)
    except (TypeError, RuntimeError, AssertionError, ValueError) as problem:
        raise ExplainerError(f"timm cannot build {architecture} with {_list_names(shape)}: {problem}{_may_be(weights)}") from problem
    wanted = {key: tuple(tensor.shape) for key, tensor in module.state_dict().items()}
    if any(key in wanted and tuple(t.shape) != wanted[key] for key, t in tensors.items()) or not wanted.keys() <= tensors.keys():
        tensors = _convert(architecture, tensors, module)
    left_out = _load_tensors(module, tensors, f"timm/{architecture}", weights)
    if head is None or not beside_mean:
        return Built(module, left_out=left_out)
    recipe, _ = preprocessing_of(module, "timm", None)
    bias = _with_head(dict(weights.tensors), classifiers).get(f"{classifiers[0]}.bias")
    return Built(ClassAndMean(module, head, bias).eval(), {"preprocess": recipe}, left_out)


class ClassAndMean(nn.Module):
    """A backbone and a linear head that reads its class token and the mean of its patches, as DINOv2's classifiers do."""

    def __init__(self, backbone: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        with torch.no_grad():
            self.head.weight.copy_(weight)
            if bias is not None:
                self.head.bias.copy_(bias)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return the logits (batch, classes) of pictures, ``pixel_values`` (batch, channels, height, width)."""
        tokens = self.backbone.forward_features(pixel_values)  # type: ignore[operator]
        patches = tokens[:, self.backbone.num_prefix_tokens :]
        out: Tensor = self.head(torch.cat([tokens[:, 0], patches.mean(1)], -1))
        return out


def _with_head(tensors: dict[str, Tensor], classifiers: tuple[str, ...]) -> dict[str, Tensor]:
    """Return ``tensors`` with a head that was saved separately, renamed as the classifier: its file has a linear layer's own names."""
    if not classifiers or any(f"{part}.weight" in tensors for part in classifiers):
        return tensors
    start = next((start for start in _HEADS_APART if f"{start}weight" in tensors and tensors[f"{start}weight"].dim() == 2), None)
    if start is None:
        return tensors
    names = {f"{start}{part}": f"{classifiers[0]}.{part}" for part in ("weight", "bias")}
    return {names.get(key, key): tensor for key, tensor in tensors.items()}


def _several(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _convert(architecture: str, tensors: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Convert ``tensors`` from the format of a paper's authors to that of timm's ``architecture``, with timm's own conversion, which reads
    the shapes of ``module``, a model of that architecture; unchanged if timm has none or it fails.
    """
    from timm.models import model_entrypoint

    convert: Any = getattr(sys.modules[model_entrypoint(architecture).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return tensors
    try:
        return dict(convert(dict(tensors), module))
    except Exception:  # of other weights than it was written for: then they do not fit, which is said
        return tensors


def _openclip(name: str, weights: Weights) -> Built:
    try:
        import open_clip
    except ImportError:
        raise NotInstalledError(not_installed(f"openclip/{name} needs the package open_clip_torch", "openclip")) from None
    model = name.partition("/")[0]
    if model not in open_clip.list_models():
        near = get_close_matches(model, open_clip.list_models(), n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(f'openclip/{n}' for n in near)}?" if near else ""
        raise ExplainerError(f"open_clip has no architecture {model!r}.{meant}{_may_be(weights)}")
    module = open_clip.create_model(model, pretrained=None).eval()
    left_out = _load_tensors(module, rename_weights(weights.tensors, module.state_dict()), f"openclip/{model}", weights)
    return Built(module, {"tokenizer": open_clip.get_tokenizer(model)}, left_out)


def _torchvision(name: str, weights: Weights) -> Built:
    try:
        from torchvision.models import get_model, list_models
    except (ImportError, RuntimeError):
        raise ExplainerError("torchvision cannot be imported here: install the build that fits torch") from None
    if name not in list_models():
        near = get_close_matches(name, list_models(), n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(f'torchvision/{n}' for n in near)}?" if near else ""
        raise ExplainerError(f"torchvision has no architecture {name!r}.{meant}")

    def make(classes: int) -> nn.Module:
        module: nn.Module = get_model(name, weights=None, num_classes=classes)
        return module

    tensors, classes = _head_of(make, weights)
    module = make(classes)
    left_out = _load_tensors(module, tensors, f"torchvision/{name}", weights)
    side = getattr(module, "image_size", 224)
    recipe = Preprocessing(resize=(round(side / 0.875),) * 2, fit="cover", crop=(side, side), mean=_MEAN, std=_STD)
    return Built(module, {"kind": "image", "preprocess": recipe}, left_out)


def _head_of(make: Callable[[int], nn.Module], weights: Weights) -> tuple[dict[str, Tensor], int]:
    """Return the weights of a file under the names of the module that ``make(classes)`` builds, and their number of classes. The head is
    found as the tensors whose shapes differ between modules of two numbers of classes. Raises ExplainerError if the file has no weights of
    it.
    """
    with torch.device("meta"):
        smaller, other = (make(classes).state_dict() for classes in _MANY_CLASSES)
    tensors = rename_weights(weights.tensors, smaller)
    heads = [key for key, tensor in smaller.items() if tensor.shape != other[key].shape]
    for key in heads:
        if key in tensors:
            axis = next(i for i, size in enumerate(smaller[key].shape) if size == _MANY_CLASSES[0])
            return tensors, int(tensors[key].shape[axis])
    raise ExplainerError(f"the file has no weights of a head ({', '.join(heads[:2])}): it gives features, not classes{_may_be(weights)}")


def _from_config(folder: Path, name: str, weights: Weights) -> Built:
    """Build a model from the ``config.json`` in ``folder`` and ``weights``, with the tokenizer and preprocessing saved next to it."""
    import transformers

    if not (folder / "config.json").is_file():
        raise ExplainerError(f"{folder} lacks config.json; send {SPELLINGS}")
    said = read_json_object(folder / "config.json")
    if "architecture" in said:
        return _timm(said["architecture"], weights)
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    model_class = _classifier_class(config, said)

    def make(classes: int) -> nn.Module:
        twin = copy.deepcopy(config)
        if classes != twin.num_labels:
            twin.num_labels = classes
        module: nn.Module = model_class(twin)
        return module

    if hasattr(model_class, "get_image_features"):
        module, tensors = make(config.num_labels), dict(weights.tensors)
    else:
        tensors, classes = _head_of(make, weights)
        module = make(classes)
    expected = module.state_dict()
    tensors = rename_weights(tensors, expected)
    if not expected.keys() <= tensors.keys():  # written by an earlier release, under other names
        with torch.device("meta"):
            config.num_labels = module.config.num_labels  # type: ignore[union-attr]
        module, report = model_class.from_pretrained(None, config=module.config, state_dict=tensors, output_loading_info=True)
        if lost := sorted(report["missing_keys"]):
            raise ExplainerError(_misfit(name, lost, [], weights))
        left_out = tuple(sorted(report["unexpected_keys"]))
    else:
        left_out = _load_tensors(module, tensors, name, weights)
    how: dict[str, Any] = {}
    if _has_any(folder, "preprocessor_config.json", "processor_config.json"):
        how["preprocess"] = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, backend="pil"
        )
    if _has_any(folder, "tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model"):
        how["tokenizer"] = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return Built(module, how, left_out)


def _has_any(folder: Path, *names: str) -> bool:
    return any((folder / name).is_file() for name in names)


def _classifier_class(config: Any, said: Mapping[str, Any]) -> Any:
    """Return transformers' class that makes a classifier, or a dual encoder, from a configuration; ``said`` is the content of its file."""
    import transformers

    for name in said.get("architectures") or ():
        model_class = getattr(transformers, name, None)
        if model_class is not None and ("Classification" in name or hasattr(model_class, "get_image_features")):
            return model_class
    for auto in (transformers.AutoModelForSequenceClassification, transformers.AutoModelForImageClassification):
        if type(config) in auto._model_mapping:
            model_class = auto._model_mapping[type(config)]
            return model_class[0] if isinstance(model_class, tuple) else model_class
    raise ExplainerError(f"transformers has no classifier of the kind {config.model_type!r}; send the architecture of one")


def _load_tensors(module: nn.Module, tensors: Mapping[str, Tensor], name: str, weights: Weights) -> tuple[str, ...]:
    """Load ``tensors`` into ``module``; return the names of tensors that it has no place for. Raises ExplainerError if the others do not
    fit.
    """
    wanted = module.state_dict()
    wrong = [
        f"{key} is {_sides(tuple(tensor.shape))} and should be {_sides(tuple(wanted[key].shape))}"
        for key, tensor in tensors.items()
        if key in wanted and tensor.shape != wanted[key].shape
    ]
    learned = {key for key, _ in module.named_parameters()}
    lacking = sorted(learned - tensors.keys())
    left_out = sorted(set(tensors) - wanted.keys())
    outside = sum(tensors[key].numel() for key in left_out)
    if wrong or lacking or outside > _MOST_LEFT_OUT * sum(tensor.numel() for tensor in tensors.values()):
        raise ExplainerError(_misfit(name, lacking, wrong, weights) if wrong or lacking else _most_left(name, left_out, weights))
    module.load_state_dict(tensors, strict=False)
    module.eval()
    return tuple(left_out)


def _misfit(name: str, lacking: list[str], wrong: list[str], weights: Weights) -> str:
    parts = [f"{len(lacking)} tensors are missing, such as {lacking[0]}"] if lacking else []
    parts += [f"{len(wrong)} have another shape: {wrong[0]}"] if wrong else []
    return f"the weights do not fit {name}: {'; '.join(parts)}.{_may_be(weights)}"


def _most_left(name: str, left_out: list[str], weights: Weights) -> str:
    return f"the weights do not fit {name}, which has no place for {len(left_out)} of them, such as {left_out[0]}.{_may_be(weights)}"


def _may_be(weights: Weights) -> str:
    names = suggest_architectures(shapes_of(weights), installed=True)
    return f" By their names and shapes they may be of {' or '.join(names[:3])}." if names else ""


def shapes_of(weights: Weights) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in ``weights`` by its name, without the prefixes that wrappers add."""
    return {key: tuple(tensor.shape) for key, tensor in rename_weights(weights.tensors, {}).items()}


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _list_names(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
