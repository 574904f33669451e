"""What is explained: a file for each kind of target, the registry of kinds, and what finds their classes in a model."""

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
from explainers.records.targets.resolved import ResolvedTarget, check_names, expanded, prompts_of, refuse_repeated, resolve, resolved_class
from explainers.records.targets.target import ClassSet, NamedLogits, NameOf, ReadName, Target

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
    "expanded",
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
