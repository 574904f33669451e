"""The trial pass that shows once for a model how its attention is to be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from explainers.autograd.structure.attention_plan import AttentionPlan
from explainers.autograd.structure.model_structure import ModelStructure
from explainers.errors import ran_out_of_memory
from explainers.models.inputs.types import Prepared, TextInput, Token
from explainers.models.libraries.words_and_patches import WordsAndPatches
from explainers.models.model import Model
from explainers.models.structure.two_rows import DECODER_TOKENS

#: How many word pieces a trial text has, where the model takes as many.
_WORDS = 8
Key = tuple[str | int, ...]
Plans = dict[Key, AttentionPlan]
_PLANS: WeakKeyDictionary[nn.Module, Plans] = WeakKeyDictionary()


class Pass(Protocol):
    """A recorded pass, of which this module needs its structure, the mask (B, S) of real tokens, and the pixels from which it starts (None:
    it starts at the embedded tokens).
    """

    pixels: Tensor | None

    @property
    def mask(self) -> Tensor:
        """Which tokens are real, bool (B, S)."""

    @property
    def structure(self) -> ModelStructure:
        """The structure of the model, found from the pass."""


P = TypeVar("P", bound=Pass)
#: Records a pass of a model on tensors, with the options ``pixels`` and ``double`` of a recording.
Record = Callable[..., P]


def made_up_text(model: Model, tokens: int) -> dict[str, Tensor]:
    """Return the tensors of a made-up text for ``model``: three repeated token ids, ``tokens`` of them if the model takes as many, more if
    the place that it is asked about lies further on. If that is in an answer, the answer follows; a model that answers no text alone gets a
    picture of random numbers after it.
    """
    if "text" not in model.reads:  # it writes from a picture or a sound
        alone = model.prepare_input({"pixel_values": _made_up_picture(model)})
        if model.reading is not None:
            return model.reading.complete(alone).tensors
        return {name: torch.cat([row, row[:, -1:]], 1) if row.dim() == 2 else row for name, row in alone.tensors.items()}  # the decoder's
    most = model.details.get("max_tokens") or tokens
    completed = _completed(model, min(tokens, most))
    if isinstance(model.module, WordsAndPatches):
        return model.module.joined(completed["input_ids"], _made_up_picture(model))
    length = completed["input_ids"].shape[1]
    if model.reading is None or length > tokens:
        too_many = 0 if DECODER_TOKENS in completed else max(0, length - most)
        return {name: tensor[:, too_many:] for name, tensor in completed.items()}
    return _completed(model, max(length, 1 + max([*(model.reading.place.tokens or ()), model.reading.token or 0])))


def _completed(model: Model, tokens: int) -> dict[str, Tensor]:
    """Return the tensors of a text of so many repeated token ids with what the place that ``model`` is asked about adds to it."""
    ids = torch.tensor([[1, 2, 3]], device=model.device).repeat(1, tokens)[:, :tokens]
    tensors = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.reading is None:
        return tensors
    record = TextInput(None, (Token("", 0, 0, False),) * tokens, ())
    return model.reading.complete(Prepared(tensors, (record,), ((),))).tensors


def _made_up_picture(model: Model) -> Tensor:
    """Return a picture of random numbers for ``model``, (1, channels, height, width)."""
    size = (1, model.details["channels"], *model.details["input"])
    return torch.randn(size, generator=torch.Generator().manual_seed(0)).to(device=model.device, dtype=model.dtype)


def trial_tensors(model: Model) -> dict[str, Tensor]:
    """Return the tensors of one made-up input for a model: a picture of random numbers, a text of three repeated token ids (of a CLIP model
    also the prompt "a"), or the molecule CCO. No preprocessing is needed, which may be missing.
    """
    if model.kind == "molecule":
        return model.prepare("CCO").tensors
    if model.kind == "text":
        return made_up_text(model, _WORDS)
    tensors = {"pixel_values": _made_up_picture(model)}
    return tensors if model.prompt_inputs is None else {**tensors, **model.prompt_inputs(["a"]).tensors}


def trial(model: Model, record: Record[P]) -> P:
    """Record a pass of ``model`` by ``record`` over :func:`trial_tensors`, from the pixels, in float64 if the weights are in half
    precision; return the recording. The attention plan found by it is cached as long as the module exists.
    """
    with torch.no_grad():
        recording = record(model, trial_tensors(model), pixels=True, double=_is_short(model))
    plans, key = _PLANS.setdefault(model.module, {}), key_of(model)
    if key not in plans:
        plans[key] = recording.structure.found_plan()
    return recording


def attention_plan_of(model: Model, recording: Pass, record: Record[Pass]) -> AttentionPlan:
    """Return the plan of how to read the attention of ``model``; it is found once and then cached. It is found from ``recording`` itself if
    that holds one picture and starts at its pixels, or if the model accepts no made-up input; else from another pass, made by ``record``.
    """
    plans, key = _PLANS.setdefault(model.module, {}), key_of(model)
    if key in plans:
        return plans[key]
    of_one_picture = not model.reads_text and len(recording.mask) == 1 and recording.pixels is not None and not _is_short(model)
    if of_one_picture or trial_plan(model, record) is None:
        plans[key] = recording.structure.found_plan()
    return plans[key]


def trial_plan(model: Model, record: Record[Pass]) -> AttentionPlan | None:
    """Return the plan of how to read the attention of ``model``, which ``record`` finds by a trial pass if it is not known; None if the
    model accepts no made-up input.
    """
    if not has_plan(model):
        try:
            trial(model, record)
        except Exception as error:  # whatever code of the model's own raises of an input that is made up
            if ran_out_of_memory(error):
                raise
            return None
    return _PLANS[model.module][key_of(model)]


def has_plan(model: Model) -> bool:
    """Return whether the attention plan of a model is in the cache: whether it is known how its attention is read."""
    return key_of(model) in _PLANS.get(model.module, {})


def follows_biases(model: Model) -> bool:
    """Return whether a recording of ``model`` keeps the outputs of operators that add a bias. It does if it is not known yet to which
    tokens their rows belong, or if these rows do not lie as the tokens do or are of some tokens alone.
    """
    plan = _PLANS.get(model.module, {}).get(key_of(model))
    return plan is None or plan.has_rows_elsewhere or plan.has_rows_of_some


def _is_short(model: Model) -> bool:
    """Return whether the weights of a model are in a 16-bit type. Such numbers are too short for the codes that are multiplied into signals
    to see which token they come from.
    """
    return model.dtype in (torch.float16, torch.bfloat16)


def key_of(model: Model) -> Key:
    """Return the key under which results of trial passes of a model are cached: its side, its name and the identities of its explained
    blocks.
    """
    return (model.side, model.name, *(id(block) for block in model.blocks))
