"""The share of the cosine with a prompt that comes from each token, by the exact decomposition of the image's embedding."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.methods.about import About
from explainers.methods.embedding_parts import SOURCE, EmbeddingParts, text_embeddings
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace, over_blocks

#: For each recording its embedding parts and the embeddings of its prompts, cached for all prompts and options.
_PARTS: WeakKeyDictionary[Recording, tuple[EmbeddingParts, Tensor]] = WeakKeyDictionary()


def parts_and_texts(trace: Trace) -> tuple[EmbeddingParts, Tensor]:
    """Return, for the pass of a trace, the parts of the images' embeddings, and the embeddings of length 1 (prompts, P) of all prompts;
    cached for the pass.
    """
    recording = trace.recording
    if recording not in _PARTS:
        tensors: dict[str, Tensor] = {}

        def keep(name: str, tensor: Tensor) -> Tensor:
            tensors[name] = tensor
            return tensor

        trace.answer(0, 1, keep)
        parts, texts = EmbeddingParts(recording), text_embeddings(recording.model, tensors)
        parts.cosines(texts, recording)  # refuses a head of another kind
        _PARTS[recording] = parts, texts
    return _PARTS[recording]


@method(
    "clip_decomposition",
    title="CLIP decomposition",
    family="decomposition",
    source=SOURCE,
    rule=None,
    signed=True,
    summed=True,
    needs=("patch_features", "residual"),
    passes="2 forward for all prompts",
    options={
        "less_mean": Option(bool, False, "take away the mean of the maps of all prompts of the question, as its code does to segment")
    },
    about=About(
        formula=(
            r"s_j = \sum_{l,h} t \cdot \text{project}\left(A^{l,h}_{0,j} W_O^{l,h} v^{l,h}_j\right)",
            r"\cos = \sum_j s_j + \text{what the MLPs add}",
        ),
        words=(
            "The classification token is a sum of what each token sends it through each head and of what the MLPs add. With the "
            "scale of the last norm held, the cosine with the prompt is the same sum: exactly, to rounding."
        ),
        trust=(
            "Use it to see which heads and patches write the prompt's direction: with it, the tool Layers and heads says what each head "
            "looks for in words."
        ),
        fails=(
            "Only what reaches the classification token directly is counted: what a head does through later blocks, and what the "
            "MLPs make of it, is in no patch (Gandelsman et al. 2024, arXiv 2310.05916)."
        ),
        line="What each part sends straight to the cosine with the prompt.",
    ),
)
def clip_decomposition(trace: Trace, less_mean: bool = False) -> MethodOutput:
    """The share of each token in the cosine with the prompt: what it sends the classification token through all heads of all blocks.

    The embedding is the sum of what each token adds through each head (c = A_0j W_O v_j and its share of the bias), and of what the MLPs
    add, with the statistics of the last LayerNorm held; the score is the product with the prompt. What the MLPs add is in no token. With
    ``less_mean`` the mean over all prompts is subtracted.
    """
    parts, texts = parts_and_texts(trace)
    logits = trace.recording.logits.detach()
    weights = _weights(trace, logits)
    if less_mean:
        weights = weights - weights.sum(1, keepdim=True) / weights.shape[1]
    terms = parts.similarity_of_heads((weights.to(texts) @ texts)[:, None])[:, 0].sum(2)  # (B, L, N)
    return over_blocks(terms.unbind(1))


def _weights(trace: Trace, logits: Tensor) -> Tensor:
    """Return the weight (B, prompts) of each prompt's cosine in the target of ``trace``, from the ``logits`` (B, prompts); where the target
    is no sum of cosines, its slope with respect to the logits.
    """
    chosen, details = trace.chosen, trace.recording.model.details
    slopes: Tensor = chosen.target.output_gradient(chosen.name_logits(logits))
    if chosen.explains != "probability":
        return slopes
    trace.note("A probability is no sum of cosines: each prompt counts by how much the probability rises with its score.")
    return slopes * float(details["logit_scale"])
