"""Sets of methods to begin with: the pages, the API and the command line offer the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from explainers.json_records import HIDDEN, INLINE, Record
from explainers.methods.registry import METHODS
from explainers.methods.variants import Variant


@dataclass(frozen=True)
class Preset(Record):
    """A named set of methods to choose together, with a title and a sentence on it; no method has the same name, as ``--methods`` takes
    both. ``has`` returns whether a variant belongs to the set.
    """

    name: str
    title: str
    says: str
    has: Annotated[Callable[[Variant], bool], HIDDEN]

    def specs(self, variants: Iterable[Variant]) -> list[str]:
        """Return the specs of the ``variants`` that belong to this preset and can run, in their order."""
        return [variant.spec for variant in variants if variant.reason is None and self.has(variant)]

    def among(self, variants: Iterable[Variant]) -> PresetOfVariants:
        """Return the preset with the specs of those ``variants`` that belong to it and can run."""
        return PresetOfVariants(self, tuple(self.specs(variants)))


@dataclass(frozen=True)
class PresetOfVariants(Record, name="Preset"):
    """A named set of methods to start with, and the specs of the methods in it."""

    preset: Annotated[Preset, INLINE]
    specs: tuple[str, ...]


_CHEFER = ("transformer_attribution", "generic_attention", "raw_attention", "rollout", "gradcam_attention", "partial_lrp", "lrp")
_LRP = ("lrp", "partial_lrp", "input_x_gradient:conservative", "input_x_gradient:attnlrp", "transformer_attribution")

PRESETS = (
    Preset("default", "Default", "A dozen from every school, all quick.", lambda variant: variant.default),
    Preset(
        "chefer",
        "Chefer et al.",
        "Both methods of Chefer et al. with the baselines of their tables.",
        lambda variant: variant.spec in _CHEFER,
    ),
    Preset(
        "libragrad", "LibraGrad", "Every quick method under the rule Libra.", lambda variant: variant.rule == "libra" and not variant.slow
    ),
    Preset("lrp-family", "LRP", "Layer-wise relevance propagation, from the baseline to AttnLRP.", lambda variant: variant.spec in _LRP),
    Preset(
        "perturbation",
        "Perturbation",
        "Hide parts and ask again. Slow.",
        lambda variant: METHODS[variant.method_name].family == "perturbation",
    ),
    Preset("quick", "Everything quick", "Every method with every rule of its own, but the slow ones.", lambda variant: not variant.slow),
)
