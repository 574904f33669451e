"""Functions that call a module with a dict of tensors, and find the logits in what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError
from explainers.models.inputs.types import Side
from explainers.models.libraries import openclip
from explainers.models.libraries.recognition import Library, clip_shape, vision_config
from explainers.models.libraries.vision_language import MULTIMODAL_TENSORS, VIDEO_PIXELS, with_positions

#: A function from a dict of tensors to the module's own output.
RawForward = Callable[[Mapping[str, Tensor]], Any]
#: The argument of transformers' language models that says of which tokens the logits are computed: a tensor of their indices.
LOGITS_TO_KEEP = "logits_to_keep"
#: The tensors that a model may be given.
TENSOR_NAMES = ("pixel_values", "input_ids", "attention_mask", "token_type_ids", "position_ids", LOGITS_TO_KEEP, *MULTIMODAL_TENSORS)
#: From how many tokens on only those logits are computed that are read: the others may take more memory than all else.
_LONG_TEXT = 2048
#: The names of features in outputs of transformers; these are not logits.
_FEATURES = ("last_hidden_state", "pooler_output", "image_embeds", "text_embeds")
#: Tensors that tokenizers always add, and that are left out if a model does not take them.
_LEFT_OUT = ("token_type_ids", "attention_mask")


def forward_of(
    module: nn.Module, library: Library, side: Side = "image", head: str | int | None = None, raw: RawForward | None = None
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Return a function from a dict of tensors to the logits (B, C) of ``module``, which comes from ``library``: of its output ``head`` if
    it has several; for the text side of a CLIP model transposed, (prompts, images). ``raw`` runs the module; None: :func:`raw_forward_of`.
    """
    output_of = raw or raw_forward_of(module, library)

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        return logits_given(output_of(tensors), tensors, library, head)

    def turned(tensors: Mapping[str, Tensor]) -> Tensor:
        return run(tensors).T

    return run if side == "image" else turned


def with_last_logits(module: nn.Module, tensors: Mapping[str, Tensor], rows: int | None) -> Mapping[str, Tensor]:
    """Return ``tensors`` of a long text for ``module`` with the order to compute no logits but those of the last ``rows`` tokens; unchanged
    for a shorter text, for None, and for a module that does not take such an order.
    """
    ids = tensors.get("input_ids")
    if getattr(getattr(module, "config", None), "is_encoder_decoder", False):
        return tensors  # whose logits are of the tokens of its decoder
    if rows is None or ids is None or ids.shape[1] < _LONG_TEXT or LOGITS_TO_KEEP not in inspect.signature(module.forward).parameters:
        return tensors
    return {**tensors, LOGITS_TO_KEEP: torch.arange(ids.shape[1] - rows, ids.shape[1], device=ids.device)}


def logits_given(output: Any, tensors: Mapping[str, Tensor], library: Library, head: str | int | None = None) -> Tensor:
    """Return the logits (B, C) in ``output``, what a module of ``library`` returned for ``tensors``; of several outputs those of
    ``head``.
    """
    if library == "open_clip":
        return output  # type: ignore[no-any-return]
    if library == "transformers" and head is None and isinstance(output, tuple):
        output = output[0]  # logits stand first, and of a model without a head the tokens
    return logits_of(output, len(next(iter(tensors.values()))), head)


def raw_forward_of(module: nn.Module, library: Library) -> RawForward:
    """Return a function that runs ``module``, which comes from ``library``, on a dict of tensors and returns its output unchanged: a
    tensor, a tuple or a dict. It raises ExplainerError for tensors that the module does not take.
    """
    takes = inspect.signature(module.forward).parameters
    by_name = library == "transformers" or any(name in takes for name in TENSOR_NAMES)
    own_names = {} if by_name or library == "open_clip" else names_in_forward(module)
    known = {*takes, "pixel_values"} if VIDEO_PIXELS in takes else set(takes)

    def run(tensors: Mapping[str, Tensor]) -> Any:
        unknown = [key for key in tensors if key not in TENSOR_NAMES or (by_name and key not in known and key not in _LEFT_OUT)]
        mask = tensors.get("attention_mask")
        if (
            (by_name or ("input_ids" in tensors and library != "open_clip"))  # which finds the end of a prompt itself
            and "attention_mask" not in {*takes, *own_names}
            and mask is not None
            and not bool(mask.all())
        ):
            raise ExplainerError(
                "the model takes no attention_mask, so it would read the padding of shorter texts: explain texts of different lengths one "
                "at a time"
            )
        if unknown:
            raise ExplainerError(f"the model does not take {', '.join(unknown)}; send {', '.join(k for k in TENSOR_NAMES if k in takes)}")
        tensors = _copy_tensors(tensors)
        if library == "open_clip":
            return openclip.logits(module, tensors)
        if by_name:
            return module(**_as_taken(module, takes, {key: tensor for key, tensor in tensors.items() if key in known}))
        first = next((name for name in ("pixel_values", "input_ids") if name in tensors), None)
        if first is None:
            raise ExplainerError(f"{type(module).__name__} is given pixel_values or input_ids, and here are {', '.join(tensors)}")
        given = {
            own_names[name]: tensor for name, tensor in tensors.items() if name in own_names and name not in ("pixel_values", "input_ids")
        }
        lacking = [
            name
            for name, argument in list(takes.items())[1:]
            if argument.default is argument.empty and argument.kind in _GIVEN and name not in given
        ]
        if lacking:
            raise ExplainerError(
                f"{type(module).__name__}.forward also takes {', '.join(lacking)}, which are not known here: open a module of your own "
                f"whose forward({first}) gives the rest itself"
            )
        return module(tensors[first], **given)

    return run


#: Arguments that have to be given.
_GIVEN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
#: Parts of the names of arguments that take what a tokenizer gives besides the ids.
_NAMED_LIKE = {"attention_mask": "mask", "token_type_ids": "type", "position_ids": "position"}


def names_in_forward(module: nn.Module) -> dict[str, str]:
    """Return for each tensor name the argument of the module's forward that takes it: the one of the same name, or another usual name such
    as ``masks``.

    Other usual names are tried only if no argument is called ``pixel_values`` or ``input_ids``.
    """
    takes = inspect.signature(module.forward).parameters
    same = {name: name for name in TENSOR_NAMES if name in takes}
    if {"pixel_values", "input_ids"} & same.keys():
        return same
    others = list(takes)[1:]
    alike = {tensor: next((name for name in others if part in name.lower()), None) for tensor, part in _NAMED_LIKE.items()}
    return {**{tensor: name for tensor, name in alike.items() if name is not None}, **same}


def molecule_forward_of(module: nn.Module, head: str | int | None = None) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Return a function from a dict of tensors to logits (B, C), for ``module``, a model of molecules, whose forward takes tensors by name.
    ``head`` names one of several outputs.
    """
    takes = inspect.signature(module.forward).parameters

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        if unknown := [name for name in tensors if name not in takes and name not in _LEFT_OUT]:
            raise ExplainerError(f"the model takes {', '.join(takes)}, not {', '.join(unknown)}: pass reader= with one that gives them")
        samples, tensors = len(next(iter(tensors.values()))), _copy_tensors(tensors)
        return logits_of(module(**{name: tensor for name, tensor in tensors.items() if name in takes}), samples, head)

    return run


def _copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of each of ``tensors``, by name, for a module that may write into its arguments (``x.sub_(mean)``)."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def argument_names(module: nn.Module) -> frozenset[str]:
    """Return the names of the arguments of the forward of ``module``."""
    return frozenset(inspect.signature(module.forward).parameters)


def _as_taken(module: nn.Module, takes: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` in the form that ``module``, whose arguments are named in ``takes``, takes: images unchanged, as clips, or cut
    into rows of patches with the positions of these.
    """
    tensors, pixels = with_positions(module, tensors), tensors.get("pixel_values")
    if pixels is not None and (clip := clip_shape(module)) is not None:
        others = {name: tensor for name, tensor in tensors.items() if name != "pixel_values"}
        return {**others, VIDEO_PIXELS if VIDEO_PIXELS in takes else "pixel_values": clip.clips_of(pixels)}
    if pixels is None or "spatial_shapes" not in takes:
        return tensors
    side = vision_config(module).patch_size
    rows, columns = pixels.shape[-2] // side, pixels.shape[-1] // side
    cells = pixels[..., : rows * side, : columns * side].unflatten(-1, (columns, side)).unflatten(-3, (rows, side))
    patches = cells.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
    shapes = torch.tensor([[rows, columns]] * len(pixels), device=pixels.device)
    mask = torch.ones(len(pixels), rows * columns, dtype=torch.int64, device=pixels.device)
    return {**tensors, "pixel_values": patches, "spatial_shapes": shapes, "pixel_attention_mask": mask}


def features_of(module: Any, library: Library, side: Side) -> Callable[[Mapping[str, Tensor]], Any]:
    """Return a function from a dict of tensors to the features that a dual encoder, ``module`` of ``library``, computes of images, or with
    ``side`` "text" of texts.
    """

    def run(tensors: Mapping[str, Tensor]) -> Any:
        tensors = _copy_tensors(tensors)
        if library == "open_clip":
            return module.encode_image(tensors["pixel_values"]) if side == "image" else module.encode_text(tensors["input_ids"])
        if side == "image":
            takes = inspect.signature(module.get_image_features).parameters
            return module.get_image_features(**_as_taken(module, takes, {"pixel_values": tensors["pixel_values"]}))
        return module.get_text_features(**{name: tensor for name, tensor in tensors.items() if name != "pixel_values"})

    return run


def logits_of(output: Any, samples: int, head: str | int | None = None) -> Tensor:
    """Find the logits (samples, C) in what a model returns.

    They are the output itself, ``logits``, ``logits_per_image``, or the only such tensor of a tuple or dict; if there are several, that of
    ``head``, an index or a key. One number for each sample is one logit.
    """
    if head is None:
        for name in ("logits_per_image", "logits"):
            if isinstance(field := getattr(output, name, None), Tensor):
                output = field
                break
    if isinstance(output, Tensor) and head is None:
        outputs = {"": output}
    else:
        outputs = _outputs_of(output)
        if head is not None and str(head) not in outputs:
            raise ExplainerError(f"the model has no output head={head!r}; it gives {', '.join(map(repr, outputs)) or 'one tensor alone'}")
        outputs = outputs if head is None else {str(head): outputs[str(head)]}
    heads = {name: logits for name, tensor in outputs.items() if (logits := _as_logits(tensor, samples)) is not None}
    if len(heads) == 1:
        return next(iter(heads.values()))
    if heads:
        listed = ", ".join(f"{name!r} {tuple(logits.shape)}" for name, logits in heads.items())
        raise ExplainerError(f"the model gives several outputs (batch, classes): {listed}; pass head= with the name of the one to explain")
    kind = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
    raise ExplainerError(
        f"the model gives no logits (batch, classes) but {kind}; use a model with a classification head, whose forward returns a tensor of "
        "that shape, (batch,) for one logit, a tuple or dict with one, or something that has it as .logits. If it gives logits at each "
        "place, pass task= to wrap: token-classification, fill-mask or image-segmentation"
    )


def heads_in(output: Any) -> dict[str, Tensor]:
    """Return the outputs (B, C) in a tuple, list or dict, by index or key. A tensor (B,) is an output of one number; one without axes is a
    loss and left out.
    """
    rows = {name: tensor for name, tensor in _outputs_of(output).items() if tensor.dim() in (1, 2) and tensor.is_floating_point()}
    return {name: tensor if tensor.dim() == 2 else tensor[:, None] for name, tensor in rows.items()}


def _outputs_of(output: Any) -> dict[str, Tensor]:
    """Return the tensors in a model's ``output`` (a tuple, list or dict), each by its index or key."""
    named = output.items() if isinstance(output, Mapping) else enumerate(output) if isinstance(output, tuple | list) else ()
    return {str(name): tensor for name, tensor in named if isinstance(tensor, Tensor) and name not in _FEATURES}


def _as_logits(tensor: Tensor, samples: int) -> Tensor | None:
    """Return a tensor as logits (samples, C); None if it is none. (samples,) is one logit, and for one sample so is a tensor without
    axes.
    """
    if tensor.dim() < 2 and tensor.numel() == samples:
        tensor = tensor.reshape(samples, 1)
    return tensor if tensor.dim() == 2 and tensor.is_floating_point() else None
