"""Words for what each head of a model of images and prompts looks for: chosen once over many pictures, from a bank of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from explainers.analysis.heads.text_span import RANK, text_span
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from explainers.methods.embedding_parts import EmbeddingParts, text_embeddings
from explainers.methods.requirements import missing_requirements
from explainers.models.companion_files.head_words import HeadText, HeadWords, WordsOfHead
from explainers.models.encoders import encoder
from explainers.models.model import Model
from explainers.models.passes import Passes
from explainers.self_check.opening import model_of

TEXTS_PER_HEAD = 8
LEAST_PICTURES = 10
#: A head whose part of an embedding of length 1 differs less than this from picture to picture says nothing in words.
STEADY = 1e-3
_PICTURES_AT_ONCE, _TEXTS_AT_ONCE = 8, 64


def head_words(
    model: Any,
    pictures: Iterable[Any],
    texts: Sequence[str],
    *,
    about: str = "",
    count: int = TEXTS_PER_HEAD,
    rank: int = RANK,
    progress: Callable[[int], None] | None = None,
) -> HeadWords:
    """Choose, for each head, the ``count`` texts along which its part of the embedding varies most over ``pictures``.

    See :func:`explainers.analysis.heads.text_span.text_span`.

    pictures  PIL images, paths, or anything else that the model prepares; a few hundred of many kinds. From pictures of one kind come words
              for that kind
    rank      how many singular directions of what a head adds the texts are projected on: 80 in the published code; in the paper, the rank
              of the head's output, which is its width
    about     what the pictures are, in words for people; by default their number
    progress  called after each batch with how many pictures were seen

    The result is also set as ``model.head_words``; to keep it, call its ``.save("head_words.json")`` next to the model's weights. Raises
    ExplainerError for a model whose embedding is no sum over heads, for fewer than 10 pictures, and without texts.

    Source: Gandelsman, Efros & Steinhardt, ICLR 2024, algorithm 1.
    """
    if rank < 1:
        raise ExplainerError(f"rank={rank!r}: send a number of directions of at least 1.")
    model = model_of(model)
    lacks = missing_requirements(model)
    for need in ("patch_features", "residual"):
        if need in lacks:
            raise ExplainerError(f"The heads of {model.name} cannot be described in words. {lacks[need]}")
    if not texts or model.prompt_inputs is None:
        raise ExplainerError("There are no texts to choose from: send some, and a model with a tokenizer.")
    heads = _heads_of(model, pictures, progress)
    if len(heads) < LEAST_PICTURES:
        raise ExplainerError(
            f"{len(heads)} pictures do not say what a head looks for: send {LEAST_PICTURES} or more, better a few hundred."
        )
    prompt_inputs, passes = model.prompt_inputs, Passes(_TEXTS_AT_ONCE)
    embed = lambda first, number: text_embeddings(model, prompt_inputs(texts[first : first + number]).tensors)  # noqa: E731
    bank = torch.cat(list(passes.run(len(texts), embed)))
    spreads = (heads - heads.mean(0)).square().sum(-1).mean(0).sqrt()
    blocks = []
    for block in range(heads.shape[1]):
        row = []
        for head in range(heads.shape[2]):
            spread = float(spreads[block, head])
            chosen: tuple[HeadText, ...] = ()
            if spread >= STEADY:
                span = text_span(heads[:, block, head], bank.to(heads), count, rank)
                pairs = zip(span.texts, span.shares, strict=True)
                chosen = tuple(HeadText(texts[place], float(f"{share:.4g}")) for place, share in pairs)
            row.append(WordsOfHead(chosen, float(f"{spread:.4g}")))
        blocks.append(tuple(row))
    words = HeadWords(model.weights_digest, about or f"{len(heads)} pictures", len(texts), tuple(blocks))
    model.head_words = words
    return words


def _heads_of(model: Model, pictures: Iterable[Any], progress: Callable[[int], None] | None) -> Tensor:
    """Run the image encoder of ``model`` on ``pictures``, anything that the model prepares, such as PIL images or paths, a few at a time.
    Return the part that each head adds to the embedding of each picture, divided by the length of that embedding and summed over all
    tokens: float64 (pictures, blocks, heads, P) on the CPU, with P the width of the embedding. ``progress``, unless None, is called with
    the number of pictures done after each batch.
    """
    images, rows, seen = encoder(model, "image"), list[Tensor](), 0
    passes = Passes(_PICTURES_AT_ONCE)

    def parts(batch: Sequence[Any], first: int, number: int) -> Tensor:
        return EmbeddingParts(Recording(images, model.tensors(batch[first : first + number]))).of_heads().double().cpu()

    for batch in _batches(pictures, _PICTURES_AT_ONCE):
        rows += passes.run(len(batch), partial(parts, batch))
        seen += len(batch)
        if progress is not None:
            progress(seen)
    return torch.cat(rows) if rows else torch.zeros(0, 1, 1, 1)


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
