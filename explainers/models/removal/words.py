"""Take word pieces away: of a text, of a text read in windows, or of one prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.inputs.types import Windows
from explainers.models.model import Model
from explainers.models.removal.token_removal import TokenRemoval, answer, fewest_tokens, most_tokens, repeat_sample
from explainers.models.removal.ways import OF_WORDS, How, check_how

#: For each way that puts another token in the place of a word piece, which of the tokenizer's it is, the best first.
_FILLERS: dict[How, str] = {"masked": "mask_token_id", "unknown": "unknown_token_id"}


def word_removal(
    model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How = "removed", tokens: int | None = None
) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes word pieces from a text, a batch of one in ``tensors``, and asks ``model``. ``content``
    bool (S,) marks the word pieces; the other tokens (special ones) always stay.

    ``tokens`` is the maximum number of tokens in one forward pass; None: as many as the device can hold. ``how`` "removed": the pieces
    after a removed one move up. "masked" and "unknown" put the mask or the unknown token in its place. Raises ExplainerError for an unknown
    way, and if the tokenizer has no such token.
    """
    length, most = len(content), tokens or most_tokens(model)
    if how != "removed":
        return TokenRemoval(how, int(content.sum()), 0, _filler(model, tensors, content, how), most)

    def leave_out(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), length, dtype=torch.bool)
        stays[:, content.cpu()] = keep
        index = torch.nonzero(stays)[:, 1].view(len(keep), -1).to(model.device)
        repeated = repeat_sample(model, tensors, len(keep))
        return answer(model, {name: t.gather(1, index) if t.shape == (len(keep), length) else t for name, t in repeated.items()})

    count = int(content.sum())
    return TokenRemoval("removed", count, fewest_tokens(leave_out, count, length - count), leave_out, most)


def usual_way_of_words(model: Model) -> How:
    """Return the default way to remove word pieces from the texts that ``model`` reads: "removed", or if a place of the text is explained
    one that keeps positions.

    Raises ExplainerError if the tokenizer has no token to put in the place of a piece.
    """
    reading = model.reading
    if reading is None or reading.moves or (reading.token is None and reading.place.tokens is None):
        return "removed"
    for how, name in _FILLERS.items():
        if model.details.get(name) is not None:
            return how
    raise ExplainerError(
        f"No words can be removed from a text that {model.name} is asked about at a place: its tokenizer has no mask or unknown token."
    )


def window_removal(model: Model, windows: Windows, how: How = "removed") -> TokenRemoval:
    """Return the removal of word pieces from a text in overlapping windows: a piece that is removed is removed from every window.

    The logits are the means over the windows. If the model needs at least one word, empty windows are not counted. ``how`` is as in
    :func:`word_removal`.
    """
    special = torch.tensor([token.special for token in windows.whole.tokens])
    piece = (~special).cumsum(0) - 1
    rows: list[tuple[TokenRemoval, Tensor]] = []
    for i, indices in enumerate(windows.indices):
        tensors = windows.rows(i, i + 1).tensors
        positions = torch.tensor(indices)
        content = torch.zeros(tensors["input_ids"].shape[1], dtype=torch.bool)
        read = tensors["attention_mask"][0].bool().cpu() if "attention_mask" in tensors else torch.ones_like(content)
        content[read] = ~special[positions]
        rows.append((word_removal(model, tensors, content, how), piece[positions[~special[positions]]]))

    def leave_out(keep: Tensor) -> Tensor:
        total, count = torch.zeros(len(keep), 1), torch.zeros(len(keep), 1)
        for window, pieces in rows:
            left = keep[:, pieces]
            answers = left.sum(1) >= window.least
            if bool(answers.any()):
                logits = window.logits(left[answers])
                total = total.expand(-1, logits.shape[1]).index_add(0, torch.nonzero(answers).flatten(), logits)
                count = count + answers[:, None]
        return total / count

    least = max(window.least for window, _ in rows)
    return TokenRemoval(how, int((~special).sum()), least, leave_out)


def _filler(model: Model, tensors: Mapping[str, Tensor], content: Tensor, how: How) -> Callable[[Tensor], Tensor]:
    """Return a function from ``keep`` bool (K, N) to logits in which every removed word piece is replaced by a special token of the
    tokenizer. ``model`` reads the text in ``tensors``, ``content`` bool (S,) marks its N word pieces, and ``how`` names the special token.
    Raises ExplainerError if the tokenizer has no such token.
    """
    check_how(how, OF_WORDS, "word pieces")
    token = model.details.get(_FILLERS[how])
    if token is None:
        raise ExplainerError(f"The tokenizer of {model.name} has no token for how={how}: choose another way to take words away.")

    def fill(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), len(content), dtype=torch.bool)
        stays[:, content.cpu()] = keep
        repeated = repeat_sample(model, tensors, len(keep))
        return answer(model, {**repeated, "input_ids": repeated["input_ids"].where(stays.to(model.device), token)})

    return fill


def prompt_removal(model: Model, tensors: Mapping[str, Tensor], content: Tensor, prompt: int) -> TokenRemoval:
    """Return a :class:`TokenRemoval` that removes word pieces from the prompt number ``prompt`` in ``tensors`` and asks ``model``, a CLIP
    model seen from its text side. ``content`` bool (S,) marks the pieces.

    The logits (K, prompts) are those of one image; only this prompt changes. The remaining pieces move up, and padding keeps the length of
    the prompt, because some text towers accept only one length or read the last position.
    """
    row = {name: tensor[prompt : prompt + 1] if model.is_sample(name) else tensor for name, tensor in tensors.items()}
    length, padding = len(content), model.details["padding_token_id"]
    whole = answer(model, tensors).T  # (1, prompts)

    def leave_out(keep: Tensor) -> Tensor:
        stays = torch.ones(len(keep), length, dtype=torch.bool)
        stays[:, content.cpu()] = keep
        left = int(stays[0].sum())
        index = stays.int().argsort(dim=1, descending=True, stable=True).to(model.device)
        repeated = repeat_sample(model, row, len(keep))
        for name, tensor in repeated.items():
            if model.is_sample(name):
                closed = tensor.gather(1, index)
                filled = torch.full_like(closed, padding if name == "input_ids" else 0) if padding is not None else closed[:, :left]
                filled[:, :left] = closed[:, :left]
                repeated[name] = filled
        answers = whole.repeat(len(keep), 1)
        answers[:, prompt] = answer(model, repeated)[:, 0]
        return answers

    count = int(content.sum())
    return TokenRemoval("removed", count, fewest_tokens(leave_out, count, length - count), leave_out, most_tokens(model))
