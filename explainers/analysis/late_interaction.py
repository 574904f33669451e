"""Matches of late interaction (ColBERT, ColPali, ColQwen2): which word or patch of a document each token of a query goes by.

Query and document become a vector for each token. The score is the sum over the query's tokens of the largest cosine with a token of the
document (MaxSim), so the matches are the whole explanation of it: their cosines add up to the score.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe, optional
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.images import read_image
from explainers.models.inputs.texts import check_text
from explainers.models.libraries.recognition import saved_with
from explainers.models.preparing import move_tensors
from explainers.rendering.saving import save_numbers_or_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LateInteraction", "TokenMatch", "late_interaction"]


@dataclass(frozen=True)
class TokenMatch(Record):
    """One token of a query and the token of the document that it matched: the one with the largest cosine."""

    token: Annotated[str, describe("The token of the query.")]
    cosine: Annotated[float, describe("What it adds to the score: its cosine with the matched token.")]
    index: Annotated[int, describe("The matched token, by its place in the document, from 0.")]
    matched: Annotated[str, describe("The text of the matched token; for a patch empty.")]
    patch: Annotated[tuple[int, int] | None, optional("Row and column of the matched patch, from 0.")] = None


@dataclass(frozen=True, eq=False)
class LateInteraction:
    """The score of a query and a document, and the matches of which it is the sum.

    score     the sum of the matches' cosines
    matches   one for each token of the query, special ones included, in their order
    cosines   float32 (query tokens, document tokens), on the CPU; -inf for tokens of the document that are not compared
    tokens    the text of each token of the document; empty for a patch
    grid      rows and columns of the document's patches; None for a text
    first     the index of the first patch among the tokens of the document, of which the others follow in raster order; None for a text
    picture   the document, if it is a picture
    """

    query: str
    score: float
    matches: tuple[TokenMatch, ...]
    cosines: Tensor
    tokens: tuple[str, ...]
    grid: tuple[int, int] | None = None
    first: int | None = None
    picture: Image.Image | None = None

    @property
    def received(self) -> Tensor:
        """What each token of the document adds to the score, float32 (document tokens,): the sum of the cosines of the matches with it.
        All of them add up to the score.
        """
        matched = torch.tensor([match.index for match in self.matches])
        cosines = torch.tensor([match.cosine for match in self.matches])
        return torch.zeros(len(self.tokens)).index_add(0, matched, cosines)

    def on_picture(self, token: int | None = None) -> Tensor:
        """Return a map of the document's patches, float32 (rows, columns): their cosines with the ``token`` of the query with this index;
        None: what each adds to the score. Raises ExplainerError for a document that is a text, and for an unknown token.
        """
        if self.grid is None or self.first is None:
            raise ExplainerError("The document is a text, so there is no map on a picture: see cosines and received.")
        if token is not None and not 0 <= token < len(self.matches):
            raise ExplainerError(f"There is no token {token} of the query: it has {len(self.matches)}, from 0.")
        values = self.received if token is None else self.cosines[token]
        on_grid: Tensor = values[self.first : self.first + math.prod(self.grid)].unflatten(0, self.grid)
        return on_grid

    def to_json(self) -> dict[str, Any]:
        """Return the score, the matches and the tokens of the document as plain data for JSON."""
        return {
            "query": self.query,
            "score": self.score,
            "matches": [match.to_json() for match in self.matches],
            "document": list(self.tokens),
            "grid": None if self.grid is None else list(self.grid),
        }

    def figure(self, token: int | None = None) -> Figure:
        """Draw the matches, and return the matplotlib Figure: of a text a table of cosines, each token of the query in a row, with a dot at
        its match; of a picture the map :meth:`on_picture`, of the ``token`` of the query with this index or of the score, on the picture.
        """
        from matplotlib.figure import Figure

        if self.picture is None:
            size = (1.5 + 0.35 * len(self.tokens), 1 + 0.3 * len(self.matches))
            figure = Figure(figsize=size, layout="constrained")
            axis = figure.subplots()
            shown = axis.imshow(np.ma.masked_invalid(self.cosines.numpy()), cmap="magma", vmin=-1, vmax=1, aspect="auto")
            axis.plot([match.index for match in self.matches], range(len(self.matches)), "o", color="tab:cyan", markersize=4)
            axis.set_xticks(range(len(self.tokens)), self.tokens, rotation=90)
            axis.set_yticks(range(len(self.matches)), [f"{match.token}  {match.cosine:.2f}" for match in self.matches])
        else:
            figure = Figure(figsize=(5, 4), layout="constrained")
            axis = figure.subplots()
            extent = (0, self.picture.width, self.picture.height, 0)
            axis.imshow(np.asarray(self.picture), extent=extent)
            shown = axis.imshow(self.on_picture(token).numpy(), extent=extent, cmap="magma", alpha=0.6)
            axis.set_axis_off()
        figure.colorbar(shown, ax=axis, shrink=0.8)
        of = self.query if token is None else self.matches[token].token
        axis.set_title(f"{of}: {self.score if token is None else self.matches[token].cosine:.3f}", loc="left", fontsize="small")
        return figure

    def save(self, path: Path | str, token: int | None = None) -> None:
        """Write the numbers (``.json``) or the figure (``.png``, ``.pdf``, ``.svg``) to ``path``; ``token`` is that of :meth:`figure`.
        Raises ExplainerError for another ending.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json()), lambda: self.figure(token))


def late_interaction(
    model: nn.Module,
    query: str,
    document: str | Path | Image.Image,
    *,
    processor: Any = None,
    markers: tuple[str, str] | None = None,
    query_length: int | None = None,
    skip_punctuation: bool = False,
) -> LateInteraction:
    """Compare a query with a document by late interaction, and return the match of each token of the query.

    model       a torch module that gives a vector for each token: a tensor (1, tokens, width), or an output with ``embeddings``. ColBERT is
                a BERT with a linear layer (docs/tasks.md has one); ColPali and ColQwen2 are transformers' ``...ForRetrieval``
    document    a text for a model of texts; a picture (PIL image or path) for a model with a processor of pictures
    processor   a tokenizer of transformers, or a processor with ``tokenizer`` and ``image_processor``; None: the one that was saved with
                the model
    markers     for texts: the tokens that ColBERT puts after the first token of a query and of a document, ("[unused0]", "[unused1]") in
                its published weights; None: none
    query_length  for texts: the number of tokens to which a query is filled with mask tokens (32 in ColBERT). As there, their vectors count
                and no token attends to them. None: it is not filled
    skip_punctuation  for texts: whether punctuation in a document can be no match, as in ColBERT

    Vectors are divided by their length. Raises ExplainerError for a model that gives no vector for each token, and for a document of the
    wrong kind. Sources: Khattab & Zaharia 2020 (ColBERT, arXiv 2004.12832), Faysse et al. 2024 (ColPali, arXiv 2407.01449).
    """
    if not isinstance(model, nn.Module):
        raise ExplainerError(f"late_interaction takes a torch module that gives a vector for each token, not a {type(model).__name__}")
    check_text(query)
    processor = _processor_of(model) if processor is None else processor
    if hasattr(processor, "image_processor"):
        if markers or query_length or skip_punctuation:
            raise ExplainerError("markers=, query_length= and skip_punctuation= are for models of texts; leave them out")
        return _with_picture(model, query, document, processor)
    if not isinstance(document, str):
        raise ExplainerError("this model has a tokenizer and no processor of pictures: send the document as a text, or pass processor=")
    check_text(document)
    marks = markers or (None, None)
    of_query = _text_tensors(processor, query, marks[0], query_length)
    of_document = _text_tensors(processor, document, marks[1], None)
    names = _names(processor, of_document["input_ids"])
    compared = torch.tensor([not skip_punctuation or not name or name not in set(string.punctuation) for name in names])
    cosines = _cosines(_vectors(model, of_query), _vectors(model, of_document), compared)
    return _matched(query, _names(processor, of_query["input_ids"]), names, cosines)


def _with_picture(model: nn.Module, query: str, document: str | Path | Image.Image, processor: Any) -> LateInteraction:
    """Return the matches of a query in a picture, both prepared by a processor of pictures and texts."""
    picture = read_image(document)
    of_query, of_document = dict(processor(text=[query], return_tensors="pt")), dict(processor(images=[picture], return_tensors="pt"))
    ids = of_document["input_ids"]
    token = processor.tokenizer.convert_tokens_to_ids(str(processor.image_token))
    patches = (ids[0] == token).nonzero().flatten().tolist()
    grid = _grid(model, of_document, len(patches))
    if not patches or patches != list(range(patches[0], patches[0] + len(patches))):
        raise ExplainerError("the tokens of the picture do not follow each other, so that which part each shows is not known")
    names = ["" if i in set(patches) else name for i, name in enumerate(_names(processor.tokenizer, ids))]
    keep = of_query["attention_mask"][0].bool()
    cosines = _cosines(_vectors(model, of_query)[keep], _vectors(model, of_document), of_document["attention_mask"][0].bool())
    return _matched(query, _names(processor.tokenizer, of_query["input_ids"][:, keep]), names, cosines, grid, patches[0], picture)


def _grid(model: nn.Module, tensors: Mapping[str, Tensor], count: int) -> tuple[int, int]:
    """Return the rows and columns of the ``count`` tokens of the one picture in ``tensors``, an input of ``model``. Raises ExplainerError
    if they are not known.
    """
    if (packed := tensors.get("image_grid_thw")) is not None:
        vision = getattr(getattr(model.config, "vlm_config", model.config), "vision_config", None)
        merged = int(getattr(vision, "spatial_merge_size", 1))
        grid = int(packed[0, 1]) // merged, int(packed[0, 2]) // merged
    else:
        grid = math.isqrt(count), math.isqrt(count)
    if math.prod(grid) != count or tensors["pixel_values"].dim() == 5:
        raise ExplainerError(
            f"{type(model).__name__} makes {count} tokens of this picture, and which part of it each shows is not known here: models that "
            "cut a picture into tiles are not read"
        )
    return grid


def _matched(
    query: str,
    query_tokens: list[str],
    tokens: list[str],
    cosines: Tensor,
    grid: tuple[int, int] | None = None,
    first: int | None = None,
    picture: Image.Image | None = None,
) -> LateInteraction:
    """Return the result with the best match in each row of ``cosines``."""
    best = cosines.max(1)
    matches = []
    for name, cosine, index in zip(query_tokens, best.values.tolist(), best.indices.tolist(), strict=True):
        patch = None
        if grid is not None and first is not None and first <= index < first + math.prod(grid):
            patch = divmod(index - first, grid[1])
        matches.append(TokenMatch(name, cosine, index, tokens[index], patch))
    return LateInteraction(query, float(best.values.sum()), tuple(matches), cosines.float(), tuple(tokens), grid, first, picture)


def _cosines(query: Tensor, document: Tensor, compared: Tensor) -> Tensor:
    """Return the cosines (Q, D), float64 on the CPU, of vectors (Q, width) and (D, width), -inf for those not ``compared``, bool (D,)."""
    cosines = F.normalize(query.double(), dim=-1) @ F.normalize(document.double(), dim=-1).mT
    if not bool(compared.any()):
        raise ExplainerError("nothing is left of the document to compare with: it is punctuation alone")
    return cosines.masked_fill(~compared, -torch.inf)


def _vectors(model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the vectors (tokens, width) that ``model`` gives for the one input in ``tensors``, on the CPU."""
    with torch.no_grad(), evaluating(model):
        output = model(**move_tensors(dict(tensors), model))
    vectors = output if isinstance(output, Tensor) else getattr(output, "embeddings", None)
    if not isinstance(vectors, Tensor) or vectors.dim() != 3 or vectors.shape[:2] != tensors["input_ids"].shape:
        raise ExplainerError(
            f"{type(model).__name__} gives no vector for each token: let its forward return a tensor (1, tokens, width), such as that of a "
            "linear layer after a BERT"
        )
    return vectors[0].cpu()


def _text_tensors(tokenizer: Any, text: str, marker: str | None, length: int | None) -> dict[str, Tensor]:
    """Return ``input_ids`` and ``attention_mask`` (1, tokens) of a text with a ``marker`` after its first token, filled up to a ``length``
    with mask tokens to which no token attends.
    """
    ids = list(tokenizer(text, truncation=tokenizer.model_max_length < 10**6)["input_ids"])
    if marker is not None:
        mark = tokenizer.convert_tokens_to_ids(marker)
        if mark is None or mark == tokenizer.unk_token_id:
            raise ExplainerError(f"markers= names {marker}, which the tokenizer does not have")
        ids.insert(1, mark)
    real = len(ids) if length is None else min(len(ids), length)
    if length is not None:
        if tokenizer.mask_token_id is None:
            raise ExplainerError("query_length= fills a query with mask tokens, and the tokenizer has none: leave it out")
        ids = [*ids[: length - 1], ids[-1]] if len(ids) > length else ids + [tokenizer.mask_token_id] * (length - len(ids))
    row = torch.tensor([ids])
    return {"input_ids": row, "attention_mask": (torch.arange(len(ids))[None] < real).long()}


def _names(tokenizer: Any, ids: Tensor) -> list[str]:
    """Return the text of each of the tokens ``ids`` (1, tokens)."""
    return [tokenizer.decode([index]).strip() or str(tokenizer.convert_ids_to_tokens(index)) for index in ids[0].tolist()]


def _processor_of(model: nn.Module) -> Any:
    """Return the processor, else the tokenizer, that was saved with ``model``. Raises ExplainerError if there is none."""
    processor = saved_with(model, "AutoProcessor") or saved_with(model, "AutoTokenizer")
    if processor is None:
        raise ExplainerError("no tokenizer or processor was saved with the model: pass processor=")
    return processor
