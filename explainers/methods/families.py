"""The kinds of methods, in one line each. A method names its family where it is declared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MethodFamily:
    """A kind of method: its ``title``, and one ``line`` on what its maps show."""

    title: str
    line: str


OTHER = "other"
#: In the order of the pages.
METHOD_FAMILIES = {
    "gradients": MethodFamily("Gradients", "What each part adds to the answer, or how the answer reacts to it."),
    "attention_gradient": MethodFamily("Attention with gradients", "Where the model looks, weighted by what the answer needs."),
    "relevance": MethodFamily("Relevance", "The answer is handed back through the model, layer by layer."),
    "decomposition": MethodFamily("Decomposition", "The model is split into what each part hands on to the others."),
    "paths": MethodFamily("Averages", "A gradient, averaged over many inputs near this one."),
    "perturbation": MethodFamily("Perturbation", "Parts are hidden, and the answer is watched."),
    "guided_perturbation": MethodFamily(
        "Guided perturbation", "What is hidden is chosen by the model's own features, or searched for: up to thousands of passes."
    ),
    "similarity": MethodFamily("Similarity", "How like the prompt each patch is, without going back through the model."),
    "attention": MethodFamily("Attention", "Where the model looks, whatever is asked."),
    "control": MethodFamily("Control", "Knows nothing; every other method has to beat it."),
    OTHER: MethodFamily("Further methods", "Methods of other packages."),
}
