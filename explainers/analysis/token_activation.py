"""Maps of which part of a picture made a vision-language model write a word, from logits alone, for models too large for a backward pass.

Token Activation Maps (Li et al., ICCV 2025): what the logit of the word is at each image token, less what earlier words have there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import ANSWER, PicturePromptInput, Prepared
from explainers.models.tasks import PictureAnswer
from explainers.models.tasks.generated_answer import MAX_NEW_TOKENS, written_answer
from explainers.models.tasks.task import tensor_of
from explainers.papers import TAM_PAPER
from explainers.rendering.saving import save_numbers_or_figure
from explainers.self_check.opening import model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TAM_PAPER", "TokenActivationMaps", "clean_map", "rank_filter", "scale_map", "token_activation_maps"]

_TINY = 1e-8  # added to the sum of the weights, as in the published code


@dataclass(frozen=True, eq=False)
class TokenActivationMaps(Record, name="TokenMaps"):
    """The answer of a vision-language model, its tokens, and a map over the picture for each of them (TAM), made from logits alone.

    maps    float32 (tokens, rows, columns)
    """

    answer: Annotated[str, describe("The text that the model wrote.")]
    tokens: Annotated[tuple[str, ...], describe("The tokens of the answer, as texts.")]
    maps: Annotated[
        Tensor, describe("For each token of the answer a number from 0 to 1 for each patch, rows of patches.", kind=list[list[list[float]]])
    ]
    notes: Annotated[tuple[str, ...], describe("What a person should know.")] = ()
    places: Annotated[
        tuple[str, ...],
        describe(
            "Of each token, what the field ``at`` of POST /api/explanations and ``explain(at=)`` take; empty where only a module was asked."
        ),
    ] = ()

    def save(self, path: Path | str, picture: Any = None) -> None:
        """Write to the file ``path`` the numbers, if it ends in ``.json``, or the figure over ``picture`` as ``.png``, ``.pdf`` or
        ``.svg``. Raises ExplainerError for any other ending of the name.
        """
        save_numbers_or_figure(path, lambda: json.dumps(self.to_json(), ensure_ascii=False), lambda: self.figure(picture))

    def figure(self, picture: Any = None, columns: int = 4) -> Figure:
        """Draw the maps side by side, ``columns`` in a row, and return the matplotlib Figure; nothing is shown or saved. ``picture``, a PIL
        image as the model saw it, is drawn under the maps if it is passed.
        """
        from matplotlib.figure import Figure

        across = min(columns, len(self.tokens))
        down = math.ceil(len(self.tokens) / across)
        figure = Figure(figsize=(2.4 * across, 2.6 * down), layout="constrained")
        rows, wide = self.maps.shape[1:]
        for index, token in enumerate(self.tokens):
            axes = figure.add_subplot(down, across, index + 1)
            axes.set_axis_off()
            if picture is not None:
                axes.imshow(picture, extent=(0, wide, rows, 0))
            alpha = 1.0 if picture is None else 0.6
            axes.imshow(self.maps[index].numpy(), cmap="inferno", alpha=alpha, extent=(0, wide, rows, 0), vmin=0, vmax=1)
            axes.set_title(token, fontsize=9)
        return figure


def token_activation_maps(
    model: Any,
    inputs: Any,
    *,
    tokenizer: Any = None,
    image_token: int | None = None,
    grid: tuple[int, int] | None = None,
    tokens: int = MAX_NEW_TOKENS,
) -> TokenActivationMaps:
    """Have a vision-language model answer a picture and a prompt greedily; return the answer and a map over the picture for each of its
    tokens.

    model      what ``explain`` takes, with a picture and a prompt (:class:`explainers.PicturePrompt`) as ``inputs``: the other arguments
               are then known. Or the torch module itself, with what its processor gives for one picture and one prompt: a decoder of
               transformers that has the tokens of the picture among those of the text (LLaVA's kind)
    tokenizer  makes the texts of the answer's tokens; None: tokens are named by their ids
    image_token  the id that stands for the picture's tokens; None: as the module's configuration says
    grid       rows and columns of the picture's tokens; None: square
    tokens     the maximum number of tokens of the answer

    The model runs forward only: to write the answer, and once over prompt and answer, from which the logits of all positions are kept:
    (positions, vocabulary). A token's map is its logits at the image tokens, 0 where negative; from it the interference of earlier text
    tokens is subtracted: the weighted mean of the maps of all other text tokens after the picture's first token, each weighted by how much
    it raises the explained token's logit, scaled to fit best (:func:`clean_map`). Then :func:`scale_map` and :func:`rank_filter` are
    applied.

    Raises ExplainerError if the picture's tokens are not found, do not fill the grid, or if nothing is written.
    """
    if isinstance(model, nn.Module) and isinstance(inputs, Mapping):
        return _of_module(model, inputs, tokenizer, image_token, grid, tokens)
    opened = model_of(model)
    if not isinstance(opened.task, PictureAnswer) or opened.raw_forward is None:
        why = "gives no logits at the tokens of a picture" if opened.reads_pictures else "writes nothing about pictures"
        raise ExplainerError(f"{opened.name} {why}: pass a model that does (LLaVA's kind).")
    prepared = inputs if isinstance(inputs, Prepared) else opened.prepare(inputs)
    record, ids = prepared.inputs[0], prepared.tensors["input_ids"][0]
    assert isinstance(record, PicturePromptInput)
    if len(record.pictures) > 1:
        raise ExplainerError(
            f"Maps from logits alone are of one picture, and {len(record.pictures)} were sent: explain(...) has a map of each."
        )
    with torch.no_grad(), evaluating(opened.module):
        logits = tensor_of(opened.raw_forward(prepared.tensors), "logits")
    assert logits is not None
    start = next(i for i, token in enumerate(record.tokens) if token.part == ANSWER)
    seen = record.patches.to(ids.device)
    texts = _texts(opened.task.tokenizer, ids.tolist())
    maps = _maps(logits[0].clamp(min=0), ids, seen, start, texts, lambda values: _on_record(record, seen, values))
    places = tuple(f"token:{start + i}" for i in range(len(maps)))
    return TokenActivationMaps(record.answer or "", tuple(texts[start:]), maps, prepared.notes[0], places)


def _of_module(
    module: nn.Module, tensors: Mapping[str, Tensor], tokenizer: Any, image_token: int | None, grid: tuple[int, int] | None, tokens: int
) -> TokenActivationMaps:
    """Let a torch module that reads a picture and text write up to ``tokens`` tokens, and return the activation map of each over the
    picture.

    ``tensors`` are what its processor made of the picture and the prompt; ``tokenizer`` turns ids into text; ``image_token`` is the id that
    stands for a patch and ``grid`` the (rows, columns) of patches, each guessed if None. Raises ExplainerError if they cannot be, or if the
    model writes nothing.
    """
    config: Any = getattr(module, "config", None)
    known = [getattr(config, name, None) for name in ("image_token_id", "image_token_index")]
    image_id = image_token if image_token is not None else next((index for index in known if isinstance(index, int)), None)
    if image_id is None:
        raise ExplainerError("Which token stands for the picture is not known: pass image_token=, its id.")
    ids = tensors.get("input_ids")
    if ids is None or ids.dim() != 2 or len(ids) != 1:
        raise ExplainerError("Send the tensors of one picture and one prompt, as the processor gives them: input_ids (1, tokens), ...")
    seen = (ids[0] == image_id).nonzero().flatten()
    rows, columns = grid or (math.isqrt(len(seen)),) * 2
    if not len(seen) or rows * columns != len(seen) or min(rows, columns) < 2:
        raise ExplainerError(
            f"The prompt has {len(seen)} tokens of a picture, which fill no grid of {rows} x {columns}: pass grid=(rows, columns)."
        )
    answer, stopped = written_answer(module, tensors, tokens)
    if not answer:
        raise ExplainerError("The model writes nothing: its likeliest token ends the text. Send another prompt.")
    whole = torch.cat([ids, torch.tensor([answer], device=ids.device, dtype=ids.dtype)], 1)
    given = {name: tensor for name, tensor in tensors.items() if name == "pixel_values" or tensor.shape != ids.shape}
    with torch.no_grad(), evaluating(module):
        logits = module(**{**given, "input_ids": whole, "attention_mask": torch.ones_like(whole)}).logits[0].clamp(min=0)
    texts = _texts(tokenizer, whole[0].tolist())
    maps = _maps(logits, whole[0], seen, ids.shape[1], texts, lambda values: values.view(rows, columns))
    notes = () if stopped else (f"The answer was cut after {len(answer)} tokens.",)
    written = str(tokenizer.decode(answer)) if tokenizer is not None else " ".join(map(str, answer))
    return TokenActivationMaps(written, tuple(texts[ids.shape[1] :]), maps, notes)


def _texts(tokenizer: Any, ids: list[int]) -> list[str]:
    return [str(index) if tokenizer is None else str(tokenizer.decode([index])) for index in ids]


def _on_record(record: PicturePromptInput, seen: Tensor, values: Tensor) -> Tensor:
    """Return the map (rows, columns) of the picture in ``record`` from the ``values`` (N,) of its tokens, which are at ``seen`` (N,)."""
    return record.on_picture(values.new_zeros(len(record.tokens)).index_copy(0, seen, values))


def _maps(logits: Tensor, ids: Tensor, seen: Tensor, start: int, texts: list[str], on_picture: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the maps (tokens, rows, columns) of the tokens from position ``start`` on; ``on_picture`` lays values (N,) on the picture.

    ``logits`` (S, V), none below 0, ``ids`` (S,) and ``texts`` belong to all tokens; ``seen`` (N,) are the positions of the picture's
    tokens.
    """
    of_picture = set(seen.tolist())
    text = [position for position in range(int(seen[0]), len(ids)) if position not in of_picture]
    maps = []
    for position in range(start, len(ids)):
        index = int(ids[position])
        earlier = [before for before in text if before < position]
        others = [before for before in earlier if texts[before].strip() != texts[position].strip()]
        behind = logits[seen][:, ids[others]].T.double()
        _, _, cleaned = clean_map(logits[seen, index].double(), behind, logits[others, index].double())
        maps.append(rank_filter(on_picture(scale_map(cleaned, logits[earlier, index].double()))))
    return torch.stack(maps).float().cpu()


def clean_map(activations: Tensor, earlier: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Subtract the interference of earlier tokens from a map; return the interference (N,), its best-fitting scale, and the cleaned map
    (N,).

    activations  activations (N,) of the explained token at the image tokens
    earlier  activations (T, N) of the earlier text tokens at the image tokens
    weights  the activations (T,) of the explained token at the positions of the earlier tokens
    """
    interference = (weights / (weights.sum() + _TINY)) @ earlier
    size = interference @ interference
    scale = activations @ interference / size if bool(size > 0) else torch.zeros_like(size)
    return interference, scale, (activations - scale * interference).clamp(min=0)


def scale_map(cleaned: Tensor, text: Tensor) -> Tensor:
    """Scale a map (N,), ``cleaned``, linearly so that the smallest number in it and in ``text``, the activations (T,) at text tokens,
    becomes 0 and the largest 1; return the map. If all are equal it becomes zeros.
    """
    both = torch.cat([cleaned, text])
    low, high = both.min(), both.max()
    return (cleaned - low) / (high - low) if bool(high > low) else torch.zeros_like(cleaned)


def rank_filter(scores: Tensor) -> Tensor:
    """Replace each value of a map (rows, columns), ``scores``, by a weighted mean of its 3 x 3 window, and return the new map.

    The values of a window, reflected at the edges, are sorted and weighed by a bell around the middle one, whose width is their standard
    deviation over their mean. A window of equal values keeps them; if the mean of a window is 0, the result is 0.
    """
    padded = F.pad(scores[None, None], (1, 1, 1, 1), mode="reflect")
    ordered = F.unfold(padded, 3)[0].sort(0).values  # (9, N)
    mean = ordered.mean(0)
    width = ordered.std(0, correction=0) / mean.where(mean > 0, 1)
    ranks = torch.arange(9, dtype=scores.dtype, device=scores.device)[:, None] - 4
    bell = torch.exp(-ranks.square() / (2 * width.where(width > 0, 1).square()))
    filtered = (bell / bell.sum(0) * ordered).sum(0).where(width > 0, mean)
    return filtered.where(mean > 0, 0).view_as(scores)
