"""The kinds of methods, in one line each. A method names its family where it is declared."""

from __future__ import annotations

from dataclasses import dataclass

from explainers.json_records import Record


@dataclass(frozen=True)
class MethodFamily(Record):
    """A family of methods that work in a similar way: its ``title``, and one ``line`` on what its maps show.

    name  its key in :data:`METHOD_FAMILIES`
    """

    name: str
    title: str
    line: str


OTHER = "other"
_FAMILIES = (
    MethodFamily("gradients", "Gradients", "What each part adds to the answer, or how the answer reacts to it."),
    MethodFamily("attention_gradient", "Attention with gradients", "Where the model looks, weighted by what the answer needs."),
    MethodFamily("relevance", "Relevance", "The answer is handed back through the model, layer by layer."),
    MethodFamily("decomposition", "Decomposition", "The model is split into what each part hands on to the others."),
    MethodFamily(
        "guided_perturbation",
        "Guided perturbation",
        "What is hidden is chosen by the model's own features, or searched for: up to thousands of passes.",
    ),
    MethodFamily("perturbation", "Perturbation", "Parts are hidden, and the answer is watched."),
    MethodFamily("paths", "Averages", "A gradient, averaged over many inputs near this one."),
    MethodFamily("similarity", "Similarity", "How like the prompt each patch is, without going back through the model."),
    MethodFamily("attention", "Attention", "Where the model looks, whatever is asked."),
    MethodFamily("control", "Control", "Maps that know nothing: every other method has to beat them."),
    MethodFamily(OTHER, "Further methods", "Methods of other packages."),
)
#: In the order of the pages.
METHOD_FAMILIES = {family.name: family for family in _FAMILIES}
