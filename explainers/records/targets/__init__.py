"""Targets of explanations: a file for each kind of target, the registry of kinds, and the search for their classes in a model.

Importing this package imports all of its files, so each kind of target that one of them adds is in :data:`TARGETS`.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.records.targets.any_of import AnyOf
from explainers.records.targets.contrast import Contrast
from explainers.records.targets.contrastive import CLRP, SGLRP
from explainers.records.targets.finer import Finer, FinerWeighted
from explainers.records.targets.form import targets_of_form
from explainers.records.targets.names import Classes, TopClass, find_class, find_group
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.over import Over
from explainers.records.targets.probability import Probability
from explainers.records.targets.registry import TARGETS, TargetLike, add_target, as_targets, parse_target, python_code, target_from_json
from explainers.records.targets.resolved import (
    ResolvedTarget,
    check_names,
    expand_targets,
    prompts_of,
    refuse_repeated,
    resolve,
    resolved_class,
)
from explainers.records.targets.target import ClassSet, NamedLogits, NameOf, ReadName, Target

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

__all__ = [
    "CLRP",
    "SGLRP",
    "TARGETS",
    "AnyOf",
    "ClassSet",
    "Classes",
    "Contrast",
    "Finer",
    "FinerWeighted",
    "NameOf",
    "NamedLogits",
    "OneClass",
    "Over",
    "Probability",
    "ReadName",
    "ResolvedTarget",
    "Target",
    "TargetLike",
    "TopClass",
    "add_target",
    "as_targets",
    "check_names",
    "expand_targets",
    "find_class",
    "find_group",
    "parse_target",
    "prompts_of",
    "python_code",
    "refuse_repeated",
    "resolve",
    "resolved_class",
    "target_from_json",
    "targets_of_form",
]
