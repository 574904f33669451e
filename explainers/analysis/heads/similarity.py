"""The cosine of an image and a prompt as a sum over heads and patches, and what is left of it without one head."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from explainers.analysis.inspection import brief
from explainers.errors import ExplainerError
from explainers.methods.embedding_parts import EmbeddingParts, text_embeddings
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.requirements import lacks_of
from explainers.models.companion_files.head_words import HeadWords
from explainers.models.model import Model
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget
from explainers.rendering.plain import align

SHOWN = 12  # heads in the table


@dataclass(frozen=True, eq=False)
class SimilarityDecomposition:
    """What each head, token and MLP adds to the cosine of an image with a prompt, or to the difference of two cosines.

    target   label of the target
    cosine   the number that is taken apart: the sum of ``heads`` and ``mlps``, to rounding
    heads    (blocks, heads, tokens) in float64
    mlps     (1 + blocks,): of the class token as it is before block 1, then of the MLP of each block
    content  bool (tokens,): which of them are patches, in raster order on the ``grid``
    words    what each head looks for; None where nobody has looked
    notes    what a reader should know
    """

    target: str
    cosine: float
    heads: Tensor
    mlps: Tensor
    content: Tensor
    grid: tuple[int, int]
    words: HeadWords | None
    notes: tuple[str, ...] = ()

    @property
    def totals(self) -> Tensor:
        """What each head adds, (blocks, heads)."""
        return self.heads.sum(-1)

    def to_json(self) -> dict[str, Any]:
        """Plain data. ``scores`` are those of the patches, four digits each, ``outside`` what the other tokens add."""
        return {
            "target": self.target,
            "cosine": self.cosine,
            "grid": list(self.grid),
            "start": float(self.mlps[0]),
            "blocks": [
                {"block": block, "mlp": float(self.mlps[1 + block]), "heads": [self._head_json(block, head) for head in range(len(heads))]}
                for block, heads in enumerate(self.heads)
            ],
            "pictures": None if self.words is None else self.words.pictures,
            "texts": None if self.words is None else self.words.texts,
            "notes": list(self.notes),
        }

    def _head_json(self, block: int, head: int) -> dict[str, Any]:
        row, words = self.heads[block, head], None if self.words is None else self.words.blocks[block][head]
        return {
            "total": float(row.sum()),
            "scores": brief(row[self.content]),
            "outside": float(row[~self.content].sum()),
            "words": None if words is None else [{"text": text.text, "share": text.share} for text in words.texts],
            "spread": None if words is None else words.spread,
        }

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
        said = () if self.words is None else (f"Words: the best of {self.words.texts} texts over {self.words.pictures}.",)
        return "\n".join([head_line, *align(rows, left=(0, 2)), *said, *(f"note: {note}" for note in self.notes)])

    def save(self, path: Path | str) -> None:
        """Write the numbers as ``.json``. Raises ExplainerError for another ending."""
        save_json(self.to_json(), path)


@dataclass(frozen=True)
class WithoutHead:
    """The model asked again with one head giving nothing.

    block, head  counted from 0
    cosine       with the target before; ``direct`` what is left when what the head adds directly is taken away; ``without`` what the model
                 says, in which later blocks answer to its absence too
    prompts      of each prompt its cosine before and without the head
    """

    target: str
    block: int
    head: int
    cosine: float
    direct: float
    without: float
    prompts: tuple[tuple[str, float, float], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        prompts = [{"prompt": prompt, "before": before, "without": without} for prompt, before, without in self.prompts]
        return {**{name: getattr(self, name) for name in ("target", "block", "head", "cosine", "direct", "without")}, "prompts": prompts}

    def __str__(self) -> str:
        rows = [["prompt", "cosine", f"without block {self.block + 1}, head {self.head + 1}", "change"]]
        rows += [[name, f"{before:.4f}", f"{without:.4f}", f"{without - before:+.4f}"] for name, before, without in self.prompts]
        return "\n".join([*align(rows, left=(0,)), f"What the head adds directly to {self.target!r}: {self.cosine - self.direct:+.4f}."])

    def save(self, path: Path | str) -> None:
        """Write the numbers as ``.json``. Raises ExplainerError for another ending."""
        save_json(self.to_json(), path)


def decompose_similarity(session: Session) -> SimilarityDecomposition:
    """The cosine of the first input with the first target's prompt, or the difference of two, as a sum over blocks, heads and tokens.

    Computed in float64. Raises ExplainerError where the embedding is no such sum (SigLIP, which pools with attention, is one), for the text
    side, and for a target that is no sum of cosines, such as a probability.

    Source: Gandelsman, Efros & Steinhardt, ICLR 2024, equations 3 to 5.
    """
    target, model = _target(session), session.model
    recording = session.double
    parts = EmbeddingParts(recording)
    assert session.prepared_prompts is not None
    texts = text_embeddings(model, session.prepared_prompts.tensors, double=True)
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
    """The cosines of the first input with all prompts, asked again with one head of one block giving nothing to any token.

    Raises ExplainerError as :func:`decompose_similarity` does, for a block or a head that is not there, and where the module of a block's
    attention cannot be told.
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
    """Write plain data as ``.json``. Raises ExplainerError for another ending."""
    path = Path(path)
    if path.suffix != ".json":
        raise ExplainerError(f"{path} ends in nothing that this is saved as: end it in .json")
    path.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")


def words_of(model: Model) -> tuple[HeadWords | None, tuple[str, ...]]:
    """The words of a model's heads, and what must be said of them."""
    words = model.head_words
    if words is None:
        return None, (f"What the heads of {model.name} look for has not been put in words: vitrine head-words does it once for a model.",)
    if words.weights_digest != model.weights_digest:
        return None, (f"The words of the heads of {model.name} are of other weights, and are left out: run vitrine head-words anew.",)
    return words, ()


def _target(session: Session) -> ResolvedTarget:
    """The target of the first input. Raises ExplainerError where its number is no sum over heads."""
    lacks = lacks_of(session.recording)
    for need in ("patch_features", "residual"):
        if need in lacks:
            raise ExplainerError(f"The similarity cannot be taken apart by head. {lacks[need]}")
    target = session.targets_and_rows()[0][0].only(0)
    probe = session.answers[:1].detach().double()
    slopes = target.target.output_gradient(target.named(probe))
    if target.explains == "probability" or target.halves is not None or not torch.allclose((slopes * probe).sum(1), target.value(probe)):
        raise ExplainerError(f"{target.labels[0]} is no sum of cosines: explain a prompt, or one prompt rather than another.")
    return target


def _weights(target: ResolvedTarget, prompts: int, like: Tensor) -> Tensor:
    """How the target is made of the cosines with the prompts, (prompts,)."""
    return target.target.output_gradient(target.named(torch.zeros(1, prompts, dtype=like.dtype, device=like.device)))[0]
