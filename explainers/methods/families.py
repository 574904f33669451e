"""What kinds of methods there are, in one line each. A method names its family where it is declared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A kind of method: its ``title``, and in one ``line`` what its maps show."""

    title: str
    line: str


OTHER = "other"
#: In the order of the pages.
FAMILIES = {
    "gradients": Family("Gradients", "What each part adds to the answer, or how the answer reacts to it."),
    "attention_gradient": Family("Attention with gradients", "Where the model looks, weighted by what the answer needs."),
    "relevance": Family("Relevance", "The answer is handed back through the model, layer by layer."),
    "decomposition": Family("Decomposition", "The model is split into what each part hands on to the others."),
    "paths": Family("Averages", "A gradient, averaged over many inputs near this one."),
    "perturbation": Family("Perturbation", "Parts are hidden, and the answer is watched."),
    "similarity": Family("Similarity", "How like the prompt each patch is, without going back through the model."),
    "attention": Family("Attention", "Where the model looks, whatever is asked."),
    "control": Family("Control", "Knows nothing; every other method has to beat it."),
    OTHER: Family("Further methods", "Methods of other packages."),
}
