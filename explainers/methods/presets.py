"""Sets of methods to begin with: the pages offer the small ones, the command line and measurements also the set of all quick methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from explainers.json_records import HIDDEN, INLINE, Record
from explainers.methods.registry import METHODS
from explainers.methods.variants import Variant


@dataclass(frozen=True)
class Preset(Record):
    """A named set of methods to choose together; no method has the same name, as ``--methods`` takes both.

    name  its name on the command line; ``title`` is its name for people
    says  a sentence on what is in it
    has   returns whether a variant belongs to it
    """

    name: str
    title: str
    says: str
    has: Annotated[Callable[[Variant], bool], HIDDEN]

    def specs(self, variants: Iterable[Variant]) -> list[str]:
        """Return the specs of the ``variants`` that belong to this preset and can run, in their order."""
        return [variant.spec for variant in variants if variant.reason is None and self.has(variant)]

    def among(self, variants: Iterable[Variant]) -> PresetOfVariants:
        """Return the preset as a record, with the specs of the ``variants`` that belong to it and can run."""
        return PresetOfVariants(self, tuple(self.specs(variants)))


@dataclass(frozen=True)
class PresetOfVariants(Record, name="Preset"):
    """A named set of methods to start with, and the specs of the methods in it."""

    preset: Annotated[Preset, INLINE]
    specs: tuple[str, ...]


_CHEFER = ("transformer_attribution", "generic_attention", "raw_attention", "rollout", "gradcam_attention", "partial_lrp", "lrp")
_LIBRAGRAD = tuple(
    f"{name}:libra"
    for name in (
        "input_x_gradient",
        "attcat",
        "generic_attention",
        "token_tm",
        "gradcam_plus",
        "hirescam",
        "xgradcam_plus",
        "fullgrad_plus",
    )
)
_LRP = ("lrp", "partial_lrp", "input_x_gradient:conservative", "input_x_gradient:attnlrp", "transformer_attribution")

MOST_IN_A_PRESET = 8  # methods, controls not counted: what one panel can show

PRESETS = (
    Preset("default", "Default", "Quick methods of four families, and a control.", lambda variant: variant.default),
    Preset(
        "chefer",
        "Chefer et al.",
        "Both methods of Chefer et al. with the baselines of their tables.",
        lambda variant: variant.spec in _CHEFER,
    ),
    Preset("libragrad", "LibraGrad", "Methods of the paper's tables under its rule.", lambda variant: variant.spec in _LIBRAGRAD),
    Preset("lrp-family", "LRP", "Layer-wise relevance propagation, from the baseline to AttnLRP.", lambda variant: variant.spec in _LRP),
    Preset(
        "perturbation",
        "Perturbation",
        "Hide parts and ask again. Slow.",
        lambda variant: METHODS[variant.method_name].family == "perturbation",
    ),
)

#: A set too large for a page, for measurements.
QUICK = Preset("quick", "Everything quick", "Every method with every rule of its own, but the slow ones.", lambda variant: not variant.slow)
#: Every method with every rule of its own.
EVERYTHING = Preset("all", "Everything", "Every method with every rule of its own.", lambda variant: True)
#: The sets that a measurement takes by name.
METHOD_SETS = (*PRESETS, QUICK)


def specs_called(names: Iterable[str], variants: Callable[[], Iterable[Variant]]) -> list[str]:
    """Return the specs for which ``names`` stand, each once, in their order: ``all`` for all that can run, the name of a set of methods for
    those of it that can run, a spec for itself. ``variants`` returns the methods of a model; it is not called for specs alone.
    """
    wanted, sets = list(names), {preset.name: preset for preset in (EVERYTHING, *METHOD_SETS)}
    known = list(variants()) if any(name in sets for name in wanted) else []
    return list(dict.fromkeys(spec for name in wanted for spec in (sets[name].specs(known) if name in sets else [name])))
