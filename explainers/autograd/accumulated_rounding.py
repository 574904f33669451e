"""The rounding that a model's activations accumulate, where relevance is split: measured once, on an input made for it.

An activation is off by the rounding of its own sum and of all before it. How far depends on the model, and on how deep it lies: 2 to 40
units in the last place were seen. So the model is recorded in float64 and as it is on the same made-up input, and what differs is kept for
each sum and each matrix product. Other inputs of the same model are nearly everywhere within a factor of two of that:
docs/results/precision.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd import rounding
from explainers.autograd.attention_trial import made_up_text
from explainers.autograd.nodes import Role
from explainers.autograd.operators import Add, DynamicConvolution, DynamicLinear, LinearAttention, LinearMap, MatMul
from explainers.autograd.recorder import Operator
from explainers.autograd.recording import Recording
from explainers.models.model import Model
from explainers.models.tf32 import is_tf32_asked

#: The share of the numbers of an activation that may be farther off than is said, and the quantile of a normal distribution beyond which
#: on both sides that share lies.
TAIL_SHARE, TAIL_QUANTILE = 1e-3, 3.29

_TOKENS = 12  # of a made-up text
#: Paracetamol, of the size of many drugs.
MOLECULE = "CC(=O)Nc1ccc(O)cc1"

_MEASURED: WeakKeyDictionary[nn.Module, dict[tuple[Any, ...], AccumulatedRounding]] = WeakKeyDictionary()


@dataclass(frozen=True)
class AccumulatedRounding:
    """The rounding that a model's activations accumulate.

    units        the rounding of the output of each sum and matrix product, by its position in the forward pass, in units of
                 :func:`explainers.autograd.rounding.scale_of`
    input_error  the error of the inputs of the worst linear map, relative to the numbers and their mean size; a thousandth of its numbers
                 may be worse. The estimate of rounding leaves it out
    """

    units: Mapping[int, float]
    input_error: float


def accumulated_rounding_of(model: Model) -> AccumulatedRounding:
    """Return the rounding that each sum and matrix product of ``model`` accumulates.

    It is measured when first needed and cached as long as the module exists, for each device, dtype and explained side. Needs a device with
    float64.
    """
    kept = _MEASURED.setdefault(model.module, {})
    key = (model.side, model.device, model.dtype, is_tf32_asked(model.device))
    if key not in kept:
        tensors = made_up(model)
        exact = Comparison(model, tensors, double=True)
        compared = Comparison(model, tensors, exact.noted)
        input_error = TAIL_QUANTILE * max(compared.input_errors, default=0.0) * torch.finfo(model.dtype).eps / 2
        kept[key] = AccumulatedRounding(compared.differences, input_error)
    return kept[key]


def made_up(model: Model) -> dict[str, Tensor]:
    """Make one input of the kind that ``model`` reads, for measuring rounding: a picture of blotches of all sizes, a few token ids, or a
    molecule. Returns its tensors by name, on the model's device.
    """
    if model.kind == "molecule":
        return model.prepare(MOLECULE).tensors
    if model.kind == "text":
        return made_up_text(model, _TOKENS)
    generator, size = torch.Generator().manual_seed(0), tuple(model.details["input"])
    blotches = [torch.randn(1, model.details["channels"], 2**n, 2**n, generator=generator) for n in range(1, 7)]
    picture = torch.stack([F.interpolate(each, size, mode="bilinear") for each in blotches]).sum(0) / len(blotches) ** 0.5
    tensors = {"pixel_values": picture.to(model.device, model.dtype)}
    return tensors if model.prompt_inputs is None else {**tensors, **model.prompt_inputs(["a photo of a dog"]).tensors}


class Comparison(Recording):
    """A recording that keeps the outputs of sums and products, and the inputs of linear maps, as ``noted``.

    If it is given ``exact``, the values that another comparison noted, it keeps the differences from these as ``differences`` and
    ``input_errors``.
    """

    def __init__(self, model: Model, tensors: Mapping[str, Tensor], exact: Mapping[int, Tensor] | None = None, **how: Any) -> None:
        self.noted: dict[int, Tensor] = {}
        self.differences: dict[int, float] = {}
        self.input_errors: list[float] = []  # of linear maps
        self._exact = exact
        super().__init__(model, tensors, pixels=not model.reads_text, **how)

    def run(self, operator: type[Operator], *arguments: Any, role: Role | None = None) -> Tensor:
        """Apply ``operator`` to its arguments, record it with ``role``, note its output, or for a linear map its input, and return the
        output.
        """
        out = super().run(operator, *arguments, role=role)
        if operator not in (Add, MatMul, DynamicLinear, DynamicConvolution, LinearAttention, LinearMap):
            return out
        value = (arguments[0] if operator is LinearMap else out).detach()
        if self._exact is None:
            self.noted[self.position] = value
        elif operator is LinearMap:
            self.input_errors.append(_units(value, self._exact[self.position], value.abs() + value.abs().mean()))
        else:
            terms = arguments[:2] if operator is Add else (value,)
            scale = torch.stack([rounding.scale_of(term.detach()).expand_as(value) for term in terms]).sum(0)
            self.differences[self.position] = _units(value, self._exact[self.position], scale)
        return out


def _units(value: Tensor, exact: Tensor, scale: Tensor) -> float:
    """Return the distance of ``value`` from ``exact``, tensors of one shape, in units of the last place of normal errors of numbers of the
    size ``scale``, ignoring the largest thousandth.
    """
    apart = ((value - exact).abs() / scale).flatten()
    apart = apart[apart.isfinite()]
    if not len(apart):
        return 0.0
    return float(apart.topk(1 + int(TAIL_SHARE * len(apart))).values[-1]) / (TAIL_QUANTILE * torch.finfo(value.dtype).eps / 2)
