"""The cosine of an image and a prompt as a sum over heads and patches, and what is left of it without one head."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor

from explainers.analysis.inspection import brief
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe
from explainers.methods.embedding_parts import EmbeddingParts, text_embeddings
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.requirements import lacks_of
from explainers.models.companion_files.head_words import HeadText, HeadWords
from explainers.models.model import Model
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget
from explainers.rendering.plain import align

SHOWN = 12  # heads in the table


@dataclass(frozen=True)
class SimilarityHead(Record):
    """The contribution of one attention head to a cosine: in total, by patch and from all other tokens; and the words for what the head
    looks for.
    """

    total: float
    scores: Annotated[list[float], describe("The scores of the patches in raster order, four digits each.")]
    outside: Annotated[float, describe("The sum of the scores of tokens that stand for no patch.")]
    words: Annotated[
        tuple[HeadText, ...] | None,
        describe("What it looks for; empty where it adds the same to every picture; null where that is not known."),
    ]
    spread: Annotated[float | None, describe("How far what it adds is from its mean over pictures; null where that is not known.")]


@dataclass(frozen=True)
class SimilarityBlock(Record):
    """The contributions of one block to a cosine: its MLP and its heads."""

    block: int
    mlp: Annotated[float, describe("What its MLP adds.")]
    heads: list[SimilarityHead]


@dataclass(frozen=True, eq=False)
class SimilarityDecomposition(Record):
    """The part of each head, token and MLP in the cosine of an image with a prompt, or in the difference of two cosines.

    heads    (blocks, heads, tokens) in float64
    mlps     (1 + blocks,): of the class token as it is before block 1, then of the MLP of each block
    content  bool (tokens,): which of them are patches, in raster order on the ``grid``
    words    what each head looks for; None if the model has no head words (:func:`explainers.head_words`)
    notes    what a reader should know
    """

    target: Annotated[str, describe("The label of the target.")]
    cosine: Annotated[float, describe("The sum of ``start`` and of the MLPs and heads of all blocks, to rounding.")]
    heads: Annotated[Tensor, HIDDEN]
    mlps: Annotated[Tensor, HIDDEN]
    content: Annotated[Tensor, HIDDEN]
    grid: tuple[int, int]
    words: Annotated[HeadWords | None, HIDDEN]
    notes: tuple[str, ...] = ()

    @property
    def _start(self) -> Annotated[float, describe("What the class token adds as it is before block 1.", key="start")]:
        return float(self.mlps[0])

    @property
    def _blocks(self) -> Annotated[list[SimilarityBlock], describe(key="blocks")]:
        return [
            SimilarityBlock(block, float(self.mlps[1 + block]), [self._head(block, head) for head in range(len(heads))])
            for block, heads in enumerate(self.heads)
        ]

    @property
    def _pictures(self) -> Annotated[str | None, describe("The pictures over which the words were chosen.", key="pictures")]:
        return None if self.words is None else self.words.pictures

    @property
    def _texts(self) -> Annotated[int | None, describe("From how many texts the words were chosen.", key="texts")]:
        return None if self.words is None else self.words.texts

    def _head(self, block: int, head: int) -> SimilarityHead:
        row, words = self.heads[block, head], None if self.words is None else self.words.blocks[block][head]
        texts, spread = (None, None) if words is None else (words.texts, words.spread)
        return SimilarityHead(float(row.sum()), brief(row[self.content]), float(row[~self.content].sum()), texts, spread)

    @property
    def totals(self) -> Tensor:
        """The sum that each head adds to the cosine, (blocks, heads)."""
        return self.heads.sum(-1)

    def __str__(self) -> str:
        rows = [["part", "adds", "what it looks for"]]
        order = self.totals.flatten().abs().argsort(descending=True).tolist()
        for number in order[:SHOWN]:
            block, head = divmod(number, self.heads.shape[1])
            texts = () if self.words is None else self.words.blocks[block][head].texts[:3]
            rows.append(
                [f"block {block + 1}, head {head + 1}", f"{float(self.totals[block, head]):+.4f}", "; ".join(t.text for t in texts)]
            )
        if len(order) > SHOWN:
            rows.append([f"{len(order) - SHOWN} other heads", f"{float(self.totals.flatten()[order[SHOWN:]].sum()):+.4f}", ""])
        rows += [["class token at first", f"{float(self.mlps[0]):+.4f}", ""]]
        rows += [[f"MLP of block {i}", f"{value:+.4f}", ""] for i, value in enumerate(self.mlps[1:].tolist(), 1)]
        head_line = f"The cosine with {self.target!r} is {self.cosine:.4f}: the sum of"
        said = () if self.words is None else (f"The words are the best of {self.words.texts} texts, chosen on {self.words.pictures}.",)
        return "\n".join([head_line, *align(rows, left=(0, 2)), *said, *(f"note: {note}" for note in self.notes)])

    def save(self, path: Path | str) -> None:
        """Write the numbers to the file ``path``, which ends in ``.json``. Raises ExplainerError for any other ending of the name."""
        save_json(self.to_json(), path)


@dataclass(frozen=True)
class PromptWithoutHead(Record):
    """A prompt, and the picture's cosine with it before and after one attention head is set to zero.

    before  the cosine of the whole model; ``without`` is that without the head
    """

    prompt: str
    before: float
    without: float


def _named(prompts: tuple[tuple[str, float, float], ...]) -> list[dict[str, Any]]:
    return [PromptWithoutHead(*prompt).to_json() for prompt in prompts]


@dataclass(frozen=True)
class WithoutHead(Record):
    """The target's cosine, and that of each prompt, before and after the output of one attention head was set to zero."""

    target: str
    block: Annotated[int, describe("Counted from 0.")]
    head: Annotated[int, describe("Counted from 0.")]
    cosine: Annotated[float, describe("The cosine of the target with the whole model.")]
    direct: Annotated[float, describe("That cosine less what the head adds directly.")]
    without: Annotated[float, describe("What the model says without the head: later blocks change too.")]
    prompts: Annotated[
        tuple[tuple[str, float, float], ...],
        describe("For each prompt its cosine before and without the head.", kind=list[PromptWithoutHead], write=_named),
    ]

    def __str__(self) -> str:
        rows = [["prompt", "cosine", f"without block {self.block + 1}, head {self.head + 1}", "change"]]
        rows += [[name, f"{before:.4f}", f"{without:.4f}", f"{without - before:+.4f}"] for name, before, without in self.prompts]
        return "\n".join([*align(rows, left=(0,)), f"What the head adds directly to {self.target!r}: {self.cosine - self.direct:+.4f}."])

    def save(self, path: Path | str) -> None:
        """Write the numbers to the file ``path``, which ends in ``.json``. Raises ExplainerError for any other ending of the name."""
        save_json(self.to_json(), path)


def decompose_similarity(session: Session) -> SimilarityDecomposition:
    """Return, for the ``session`` of a CLIP model, the cosine of the first input with the first target's prompt, or the difference of two,
    as a sum over blocks, heads and tokens.

    All is computed in float64. Raises ExplainerError if the embedding is no such sum (such as SigLIP's, which pools with attention), for
    the text side, and for a target that is no sum of cosines, such as a probability.

    Source: Gandelsman, Efros & Steinhardt, ICLR 2024, equations 3 to 5.
    """
    target, model = _target(session), session.model
    recording = session.double
    parts = EmbeddingParts(recording)
    assert session.prepared_prompts is not None
    texts = text_embeddings(model, session.prepared_prompts.tensors, double=True)
    parts.cosines(texts, recording)  # refuses a head of another kind
    weights = _weights(target, len(texts), texts)
    heads = parts.similarity_of_heads(texts)[0]
    heads, mlps = torch.einsum("t,tlhn->lhn", weights, heads).cpu(), (parts.of_mlps()[0] @ texts.mT @ weights).cpu()
    layout = recording.layout
    assert layout.grid is not None
    content = torch.zeros(heads.shape[-1], dtype=torch.bool)
    content[layout.prefix : layout.prefix + layout.grid[0] * layout.grid[1]] = True
    words, notes = words_of(model)
    cosine = float(heads.sum() + mlps.sum())
    return SimilarityDecomposition(target.labels[0], cosine, heads, mlps, content, layout.grid, words, notes)


def similarity_without_head(session: Session, block: int, head: int) -> WithoutHead:
    """Set the output of one attention head (``block``, ``head``) of the model in ``session`` to zero at every token, and return the cosines
    of the first input with all prompts.

    Raises ExplainerError as :func:`decompose_similarity` does, for a block or a head that does not exist, and if the module that computes
    the block's attention cannot be found.
    """
    decomposition = decompose_similarity(session)
    blocks, heads = decomposition.totals.shape
    for number, count, what in ((block, blocks, "block"), (head, heads, "head")):
        if not 0 <= number < count:
            raise ExplainerError(f"There is no {what} {number}: there are {count}, counted from 0.")
    target, details = _target(session), session.model.details
    features = PatchFeatures(session.trace(target, None), 0)
    bias, scale = details.get("logit_bias", 0.0), details["logit_scale"]
    before, without = ((logits[:1] - bias) / scale for logits in (session.answers, features.logits_without_head(block, head)))
    weights = _weights(target, before.shape[1], before)
    return WithoutHead(
        target=decomposition.target,
        block=block,
        head=head,
        cosine=float(before[0] @ weights),
        direct=float(before[0] @ weights - decomposition.totals[block, head]),
        without=float(without[0] @ weights),
        prompts=tuple(zip(session.labels, before[0].tolist(), without[0].tolist(), strict=True)),
    )


def save_json(data: dict[str, Any], path: Path | str) -> None:
    """Write ``data`` as JSON to the file ``path``. Raises ExplainerError for a name that does not end in ``.json``."""
    path = Path(path)
    if path.suffix != ".json":
        raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json")
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")


def words_of(model: Model) -> tuple[HeadWords | None, tuple[str, ...]]:
    """Return the texts that describe each head of a model (None if there are none for its weights), and notes on them."""
    words = model.head_words
    if words is None:
        return None, (f"What the heads of {model.name} look for has no words yet: run vitrine head-words once.",)
    if words.weights_digest != model.weights_digest:
        return None, (f"The words for the heads of {model.name} belong to other weights and are left out: run vitrine head-words again.",)
    return words, ()


def _target(session: Session) -> ResolvedTarget:
    """Return the target of a session's first input. Raises ExplainerError if the target's number is not a sum over heads."""
    lacks = lacks_of(session.recording)
    for need in ("patch_features", "residual"):
        if need in lacks:
            raise ExplainerError(f"The similarity cannot be taken apart by head. {lacks[need]}")
    target = session.targets_and_rows()[0][0].only(0)
    probe = session.answers[:1].detach().double()
    slopes = target.target.output_gradient(target.name_logits(probe))
    if target.explains == "probability" or target.halves is not None or not torch.allclose((slopes * probe).sum(1), target.value(probe)):
        raise ExplainerError(f"{target.labels[0]} is no sum of cosines: explain a prompt, or one prompt rather than another.")
    return target


def _weights(target: ResolvedTarget, prompts: int, like: Tensor) -> Tensor:
    """Return the weight (prompts,) with which the cosine of each of the ``prompts`` enters the number that ``target`` stands for, in the
    type and on the device of ``like``.
    """
    return target.target.output_gradient(target.name_logits(torch.zeros(1, prompts, dtype=like.dtype, device=like.device)))[0]
