"""The share of the cosine with a prompt that comes from each token, by the exact decomposition of the image's embedding."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import Tensor

from explainers.autograd.recording import Recording
from explainers.methods.embedding_parts import SOURCE, EmbeddingParts, text_embeddings
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.records.trace import MethodOutput, Trace, over_blocks

#: Of a recording its parts, and the embeddings of its prompts: they serve all prompts and options.
_PARTS: WeakKeyDictionary[Recording, tuple[EmbeddingParts, Tensor]] = WeakKeyDictionary()


def parts_and_texts(trace: Trace) -> tuple[EmbeddingParts, Tensor]:
    """The parts of the images' embeddings, and the embeddings of length 1 (prompts, P) of all prompts."""
    recording = trace.recording
    if recording not in _PARTS:
        tensors: dict[str, Tensor] = {}

        def keep(name: str, tensor: Tensor) -> Tensor:
            tensors[name] = tensor
            return tensor

        trace.answer(0, 1, keep)
        _PARTS[recording] = EmbeddingParts(recording), text_embeddings(recording.model, tensors)
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
)
def clip_decomposition(trace: Trace, less_mean: bool = False) -> MethodOutput:
    """What each token sends the classification token through all heads of all blocks, as its share of the cosine with the prompt.

    The embedding is the sum of what each token adds through each head (c = A_0j W_O v_j and its share of the bias), and of what the MLPs
    add, with the statistics of the last LayerNorm held; the score is the product with the prompt. What the MLPs add is in no token.
    """
    parts, texts = parts_and_texts(trace)
    logits = trace.recording.logits.detach()
    weights = _weights(trace, logits)
    if less_mean:
        weights = weights - weights.sum(1, keepdim=True) / weights.shape[1]
    terms = parts.similarity_of_heads((weights.to(texts) @ texts)[:, None])[:, 0].sum(2)  # (B, L, N)
    return over_blocks(terms.unbind(1))


def _weights(trace: Trace, logits: Tensor) -> Tensor:
    """How the cosines with the prompts make the target (B, prompts): of what is no sum of them, its slopes with respect to the logits."""
    chosen, details = trace.chosen, trace.recording.model.details
    slopes: Tensor = chosen.target.output_gradient(chosen.named(logits))
    if chosen.explains != "probability":
        return slopes
    trace.note("A probability is no sum of cosines: each prompt counts by how much the probability rises with its score.")
    return slopes * float(details["logit_scale"])
