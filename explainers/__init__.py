"""Vitrine's engine: what made a Transformer answer as it did.

``load`` or ``wrap`` a model, ``explain`` an input. Knows nothing of the web.
"""

from typing import TYPE_CHECKING

from explainers.models.libraries import torchvision_ops  # noqa: F401  first: timm and transformers may not import without it

# isort: split
from explainers.analysis.agreement import Agreement, agreement
from explainers.analysis.agreement_sentence import agreement_sentence
from explainers.analysis.answer_table import AnswerTable, answer_table
from explainers.analysis.claims.claim import Claim, FillingFall, TriedSize, claim
from explainers.analysis.counterfactual import Counterfactual, counterfactual
from explainers.analysis.deletion_test import DeletionTest, deletion_test
from explainers.analysis.depth import Depth, depth
from explainers.analysis.flow_routes.records import FlowRoute, FlowStep, InformationFlow
from explainers.analysis.flow_routes.routes import information_flow
from explainers.analysis.heads.similarity import SimilarityDecomposition, WithoutHead, decompose_similarity, similarity_without_head
from explainers.analysis.heads.words import head_words
from explainers.analysis.inspection import HEAD_QUANTITIES, contributions, head_maps
from explainers.analysis.interactions import (
    FaithfulInteraction,
    Interaction,
    InteractionMeasures,
    SparseInteractions,
    SparseTerm,
    faithful_interaction,
    input_interaction,
    interaction,
    measure_interactions,
    sparse_interactions,
)
from explainers.analysis.late_interaction import LateInteraction, TokenMatch, late_interaction
from explainers.analysis.metric_driven import metric_driven_map
from explainers.analysis.patch_similarity import PatchSimilarity, patch_similarity
from explainers.analysis.picture_components import PictureComponents, picture_components
from explainers.analysis.picture_sentence import picture_sentence
from explainers.analysis.prior_or_pixels import PriorOrPixels, prior_or_pixels
from explainers.analysis.regions import Region, Regions, regions
from explainers.analysis.rule_mixer import Mix, mix
from explainers.analysis.summary import Summary, summarise
from explainers.analysis.token_activation import TokenActivationMaps, token_activation_maps
from explainers.analysis.word_probe import WordProbe, word_probe
from explainers.autograd.backward_rule import backward_rule
from explainers.autograd.rules import OPERATOR_KINDS, RULES, Rule, Strength, add_choice, add_rule
from explainers.citation import Citation
from explainers.collection.collect import collect
from explainers.collection.diff.diff import diff
from explainers.collection.diff.difference import Difference
from explainers.collection.fiftyone_export import to_fiftyone
from explainers.collection.records import CollectedMap, CollectedRow, CollectedWord
from explainers.collection.result import Collection
from explainers.collection.slices.records import CopyTest, HidingTest, Slice, Slices
from explainers.collection.slices.slices import slices
from explainers.errors import ExplainerError
from explainers.methods import METHODS, requirements
from explainers.methods.registry import method
from explainers.methods.requirements import all_variants, default_methods, variants
from explainers.metrics import METRICS
from explainers.models.abstention import Abstention
from explainers.models.companion_files.head_words import HeadWords
from explainers.models.companion_files.register_neurons import RegisterNeurons
from explainers.models.inputs.depth import WindowedPicture
from explainers.models.inputs.images import Preprocessing
from explainers.models.inputs.molecules import add_molecule_reader
from explainers.models.inputs.types import Clip, Crop, PicturePrompt, Sound, TextPair
from explainers.models.loading import load
from explainers.models.model import Model
from explainers.models.registers.finding import find_register_neurons
from explainers.models.registers.moving import without_outlier_tokens
from explainers.models.report import Check, Guess, Report
from explainers.models.structure.block_kinds import add_block_kind
from explainers.models.tasks import TASKS, add_task
from explainers.models.threads import Threads
from explainers.models.wrapping import wrap
from explainers.pipeline.batches import MapBatch
from explainers.pipeline.explain import explain
from explainers.plugins import load_plugins
from explainers.records.result import Attribution, Explanation, MapPrecision
from explainers.records.session import Cancelled, Session
from explainers.records.targets import (
    CLRP,
    SGLRP,
    TARGETS,
    AnyOf,
    Contrast,
    Finer,
    FinerWeighted,
    NamedLogits,
    Over,
    Probability,
    Target,
    add_target,
)
from explainers.records.trace import MethodOutput, Trace
from explainers.self_check.opening import open  # noqa: A004  (the word for it)
from explainers.serving import LiveServer, serve

__all__ = [
    "CLRP",
    "HEAD_QUANTITIES",
    "METHODS",
    "METRICS",
    "OPERATOR_KINDS",
    "RULES",
    "SGLRP",
    "TARGETS",
    "TASKS",
    "Abstention",
    "Agreement",
    "AnswerTable",
    "AnyOf",
    "Attribution",
    "Cancelled",
    "Check",
    "Citation",
    "Claim",
    "Clip",
    "CollectedMap",
    "CollectedRow",
    "CollectedWord",
    "Collection",
    "Contrast",
    "CopyTest",
    "Counterfactual",
    "Crop",
    "DeletionTest",
    "Depth",
    "Difference",
    "ExplainerError",
    "Explanation",
    "FaithfulInteraction",
    "FillingFall",
    "Finer",
    "FinerWeighted",
    "FlowRoute",
    "FlowStep",
    "Guess",
    "HeadWords",
    "HidingTest",
    "InformationFlow",
    "Interaction",
    "InteractionMeasures",
    "LateInteraction",
    "LiveServer",
    "MapBatch",
    "MapPrecision",
    "MethodOutput",
    "Mix",
    "Model",
    "NamedLogits",
    "Over",
    "PatchSimilarity",
    "PictureComponents",
    "PicturePrompt",
    "Preprocessing",
    "PriorOrPixels",
    "Probability",
    "Region",
    "Regions",
    "RegisterNeurons",
    "Report",
    "Rule",
    "Session",
    "SimilarityDecomposition",
    "Slice",
    "Slices",
    "Sound",
    "SparseInteractions",
    "SparseTerm",
    "Strength",
    "Summary",
    "Target",
    "TextPair",
    "Threads",
    "TokenActivationMaps",
    "TokenMatch",
    "Trace",
    "TriedSize",
    "WindowedPicture",
    "WithoutHead",
    "WordProbe",
    "add_block_kind",
    "add_choice",
    "add_molecule_reader",
    "add_rule",
    "add_target",
    "add_task",
    "agreement",
    "agreement_sentence",
    "all_variants",
    "answer_table",
    "backward_rule",
    "claim",
    "collect",
    "contributions",
    "counterfactual",
    "decompose_similarity",
    "default_methods",
    "deletion_test",
    "depth",
    "diff",
    "explain",
    "faithful_interaction",
    "find_register_neurons",
    "head_maps",
    "head_words",
    "information_flow",
    "input_interaction",
    "interaction",
    "late_interaction",
    "load",
    "measure_interactions",
    "method",
    "metric_driven_map",
    "mix",
    "open",
    "patch_similarity",
    "picture_components",
    "picture_sentence",
    "prior_or_pixels",
    "regions",
    "serve",
    "similarity_without_head",
    "slices",
    "sparse_interactions",
    "summarise",
    "to_fiftyone",
    "token_activation_maps",
    "variants",
    "without_outlier_tokens",
    "word_probe",
    "wrap",
]

KINDS, QUANTITIES, Windowed, alike = OPERATOR_KINDS, HEAD_QUANTITIES, WindowedPicture, input_interaction  # their names in 0.2
for_probability = requirements.for_probability  # public in 0.2

if not TYPE_CHECKING:  # a type checker would take any name for one that is here

    def __getattr__(name: str) -> type[Target]:
        """Return the class of target called ``name``, such as ``Contrast``, that the engine registers.

        Raises AttributeError if there is none.
        """
        kinds = (kind for kind in TARGETS.values() if kind.__name__ == name and kind.__module__.startswith("explainers."))
        if (kind := next(kinds, None)) is None:
            raise AttributeError(f"module 'explainers' has no attribute {name!r}")
        return kind


load_plugins()  # last: their modules import what is above
