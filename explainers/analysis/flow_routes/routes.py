"""Information-flow routes of a decoder, from one forward pass.

Each vector o of the residual stream is a sum of parts v: what every head brings from every token, or what the MLP adds, and the stream
before. The importance of a part is max(0, |o|_1 - |o - v|_1), divided by the sum of those of all parts of o. From the token that predicts
the answer the graph is followed down through routes of more than a threshold.

Ferrando & Voita, Information Flow Routes: Automatically Interpreting Language Models at Scale (EMNLP 2024, arXiv 2403.00824). As in their
code biases after attention are in o and are no part of it, and a route between two tokens is the sum over heads; one from a token to itself
is judged together with the stream around attention. Vectors of values carry their bias, as in ALTI here; their code counts it with the
constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explainers.analysis.flow_routes.records import FlowRoute, FlowStep, InformationFlow
from explainers.autograd.recording import Recording
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.attention_terms import AttentionTerms, attention_terms, stream_into
from explainers.methods.requirements import lacks_of
from explainers.models.inputs.types import TextInput
from explainers.models.tasks import GeneratedAnswer
from explainers.pipeline.memory_steps import in_memory_steps
from explainers.pipeline.places import ask_at, with_chat_template
from explainers.records.session import Session, checker
from explainers.self_check.opening import model_of

INFORMATION_FLOW = Citation(
    authors="Ferrando & Voita",
    year=2024,
    title="Information Flow Routes: Automatically Interpreting Language Models at Scale",
    venue="EMNLP",
    arxiv="2403.00824",
)
#: The importance that a route must exceed unless told otherwise: where the slider of the authors' tool stands.
THRESHOLD = 0.04
_MAX_NUMBERS = 2**22  # of the vectors that one head brings from all tokens to some, held at a time in float64
_NEEDS = ("attention", "one_attention", "token_order", "inner_order", "product", "own_tokens", "residual")

Refuse = Callable[[str], ExplainerError]


@in_memory_steps
def information_flow(
    model: Any,
    prompt: Any,
    at: str | None = None,
    *,
    threshold: float = THRESHOLD,
    renormalise: bool = False,
    chat: bool = False,
    cancelled: Callable[[], bool] | None = None,
) -> InformationFlow:
    """Return the routes by which a decoder came to one token of the answer that it writes to ``prompt``, or a classifier to its class.

    model        a decoder of texts, in any form that :func:`explainers.explain` takes: one that writes, or one that classifies
    prompt       a text
    at           the token of the answer, such as ``token:9`` or ``word:Paris``; of several tokens the first is taken. None: the first
    threshold    routes of at most this importance are not followed, from 0 to less than 1
    renormalise  take parts of at most the threshold out first, head by head, and scale the others to add up to 1, as the authors' tool does
                 unless told otherwise
    chat         put the model's chat template around the prompt
    cancelled    asked between blocks; when true, :class:`Cancelled` is raised

    Raises ExplainerError for a threshold out of range, for a model that reads no text alone or its answer at no single token, and for one
    whose blocks are not each an attention and then an MLP that are added to the residual stream as they are: of blocks with both in
    parallel (GPT-J) and of those that normalise what they add or the sum (OLMo 2, Gemma 2, BERT) the parts are not these.
    """
    if not 0 <= threshold < 1:
        raise ExplainerError(f"threshold={threshold}: send a share from 0 to less than 1, such as {THRESHOLD}.")
    opened, check = model_of(model), checker(cancelled)
    if not opened.reads_text or opened.reads_pictures or opened.kind != "text":
        raise ExplainerError(f"{opened.name} does not read texts alone: information-flow routes are between the tokens of one text.")
    writes = isinstance(opened.task, GeneratedAnswer)
    placed, prepared = ask_at(opened, with_chat_template(opened, prompt) if chat else prompt, at)
    session = Session(placed, prepared, 0 if writes else None, cancelled=cancelled)
    recording, record = session.recording, prepared.inputs[0]

    def refuse(reason: str) -> ExplainerError:
        return ExplainerError(f"Information-flow routes of {opened.name} cannot be read: {reason}.")

    lacks = lacks_of(recording)
    if (lack := next((lacks[need] for need in _NEEDS if need in lacks), None)) is not None:
        raise ExplainerError(f"Information-flow routes cannot be read. {lack}")
    if not isinstance(record, TextInput) or recording.mask.shape != (1, len(record.tokens)):
        raise refuse("it reads other tokens than those of one text")
    notes: tuple[str, ...] = tuple(prepared.notes[0])
    if writes:
        assert placed.reading is not None
        assert placed.reading.place.tokens is not None
        first, last = placed.reading.place.tokens
        start, answer = first - 1, record.tokens[first].text
        if at is not None and last > first:
            notes += (f"{at} has {last - first + 1} tokens: these are the routes to the first, {answer!r}.",)
    elif recording.class_tokens is None:
        raise refuse("its answer is read at no single token")
    else:
        start, answer = int(recording.class_tokens[0]), session.chosen[0].labels[0]
    routes, steps = _follow(recording, start, threshold, renormalise, refuse, check)
    return InformationFlow(
        model=opened.name,
        tokens=tuple(token.text for token in record.tokens),
        start=start,
        answer=answer,
        blocks=len(recording.block_inputs),
        threshold=threshold,
        renormalised=renormalise,
        routes=tuple(routes),
        steps=tuple(steps),
        notes=notes,
    )


def _follow(
    recording: Recording, start: int, threshold: float, renormalise: bool, refuse: Refuse, check: Callable[[], None]
) -> tuple[list[FlowRoute], list[FlowStep]]:
    """Return the routes and the nodes of the graph that lead to the token ``start`` at the output of the last block, from there down."""
    routes, steps, reached = list[FlowRoute](), list[FlowStep](), [start]
    # every block is read before any is followed, so that a model is refused whatever its routes are
    blocks = [_read_block(recording, block, refuse) for block in range(len(recording.block_inputs))]
    for block, (terms, x, mid, out) in reversed(list(enumerate(blocks))):
        check()
        by_mlp = normalise(mlp_nearness(mid, out, reached), threshold if renormalise else None)
        by_attention = normalise(attention_nearness(terms, x, mid, reached), threshold if renormalise else None)
        least, below = 0.0 if renormalise else threshold, set[int]()
        for token, of_mlp, (*of_heads, of_stream) in zip(reached, by_mlp, by_attention, strict=True):
            mlp, around_mlp = (value if value > least else 0.0 for value in of_mlp[:, 0].tolist())
            if not mlp and not around_mlp:
                steps.append(FlowStep(block, token, 0.0, 0.0, 0.0))
                continue
            heads = torch.stack(of_heads)
            is_kept = heads.sum(0) + of_stream > least
            steps.append(FlowStep(block, token, float(of_stream[token] * is_kept[token]), mlp, around_mlp))
            for source in is_kept.nonzero()[:, 0].tolist():
                if bool(heads[:, source].any()):
                    routes.append(FlowRoute(block, source, token, tuple(heads[:, source].tolist())))
                below.add(source)
        reached = sorted(below)
    return routes, steps


def _read_block(recording: Recording, block: int, refuse: Refuse) -> tuple[AttentionTerms, Tensor, Tensor, Tensor]:
    """Return the terms of a block's attention, and the residual stream before it, after attention and after the MLP, (S, D) each. Raises
    what ``refuse`` makes of the reason if the block does anything else to its stream.
    """
    x, structure = stream_into(recording, block), recording.structure
    terms = attention_terms(recording, block, x, refuse)
    mid, out, additions = recording.mid_residuals[block], recording.block_outputs[block].detach(), structure.additions[block]
    assert mid is not None
    if [each.has_attention for each in additions] != [True, False]:
        raise refuse(f"block {block + 1} is no attention and then an MLP, each added to its residual stream, as where both run in parallel")
    if not torch.equal(additions[1].total.detach().reshape(out.shape), out):
        raise refuse(f"block {block + 1} does something else after it has added its MLP, such as to normalise the sum")
    return terms, x[0], mid[0].detach(), out[0]


def nearness(parts: Tensor, whole: Tensor) -> Tensor:
    """Return how near each of ``parts`` (..., D) comes to ``whole`` (broadcast with it), max(0, |o|_1 - |o - v|_1), in float64."""
    o = whole.double()
    return (o.abs().sum(-1) - (o - parts.double()).abs().sum(-1)).clamp(min=0)


def mlp_nearness(mid: Tensor, out: Tensor, tokens: list[int]) -> Tensor:
    """Return the nearness of the MLP and of the stream ``mid`` before it to the stream ``out`` after it, both (S, D), at ``tokens``: (n, 2,
    1) on the CPU.
    """
    whole, before = out[tokens], mid[tokens]
    return nearness(torch.stack([whole - before, before], 1), whole[:, None])[..., None].cpu()


def attention_nearness(terms: AttentionTerms, x: Tensor, mid: Tensor, tokens: list[int]) -> Tensor:
    """Return the nearness of what each head brings from each token to the stream ``mid`` after attention at each of ``tokens``, and in a
    last row that of the stream ``x`` before it, both (S, D), at the place of the token itself: (n, heads + 1, S) on the CPU.
    """
    heads, length = terms.value.shape[1:3]
    near = torch.zeros(len(tokens), heads + 1, length, dtype=torch.float64)
    for head in range(heads):
        vectors = terms.value[0, head].double() @ terms.projection[:, head].double().T  # (S, D)
        for some in torch.arange(len(tokens)).split(max(1, _MAX_NUMBERS // vectors.numel())):
            queries = [tokens[i] for i in some.tolist()]
            parts = terms.weights[0, head, queries].double()[..., None] * vectors
            near[some, head] = nearness(parts, mid[queries][:, None]).cpu()
    near[range(len(tokens)), heads, tokens] = nearness(x[tokens], mid[tokens]).cpu()
    return near


def normalise(near: Tensor, threshold: float | None = None) -> Tensor:
    """Return nearness (n, ...) as importance: divided by its sum for each of the n vectors, zeros where that is 0. With a ``threshold``
    parts of at most that are then set to 0, and the others divided by their sum.
    """

    def divided(values: Tensor) -> Tensor:
        total = values.flatten(1).sum(1).view(-1, *[1] * (values.dim() - 1))
        return values / total.clamp(min=torch.finfo(values.dtype).tiny)

    shares = divided(near)
    return shares if threshold is None else divided(shares * (shares > threshold))
