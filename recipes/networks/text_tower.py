"""The text tower of ``clip``: a pretrained sentence encoder with fewer word pieces and layers, its mean pooling made a layer.

Dual encoders of transformers read the first token of a BERT. all-MiniLM-L6-v2 means the average of all tokens, so a layer is added that
writes this average into every token: it looks at all of them alike (queries and keys are zero), and copies (its values are the identity).
The pooler after it then subtracts what all prompts share. Nothing here is trained.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertModel, PreTrainedTokenizerFast

from recipes.networks.pruning import (
    CONTINUES,
    SPECIAL_TOKENS,
    alphabet,
    drop_layers,
    isolate_symbols,
    prune_embeddings,
    with_vocabulary,
)

# Half of the encoder's six layers: 81 % of 52 synonyms and wider words are nearest to the right one of 32 names, as with all six (83 %).
DROPPED_LAYERS = (1, 3, 4)
VOCABULARY = 9000
FREQUENT_PIECES, CONTINUING_PIECES = (
    2000,
    3000,
)  # how many of them are the most frequent pieces of English, and the most frequent that continue a word
FIRST_WORD = "the"  # the most frequent word: BERT's vocabulary goes on from it in the order of frequency
MAX_TOKENS = 64  # tokens of a prompt
AVERAGE_SCALE = 32.0  # how much more the average counts than the token that it is added to
POOLER_SCALE = 0.05  # scale of the pooler's input: so small that its tanh changes nothing


def vocabulary_near(words: Sequence[str], tokenizer: Tokenizer, table: Tensor, size: int) -> list[str]:
    """Choose the ``size`` pieces of the vocabulary of ``tokenizer`` to keep, and return them: special ones, letters, those of ``words``,
    frequent ones, then the nearest to ``words`` in ``table``, the embeddings (pieces, width).

    People ask about things that pictures show; a word without its own piece is split into smaller ones.
    """
    numbers = tokenizer.get_vocab()
    pieces = sorted(numbers, key=numbers.__getitem__)
    pieces_of_words = sorted({i for word in words for i in tokenizer.encode(word, add_special_tokens=False).ids})
    kept = dict.fromkeys([*SPECIAL_TOKENS, *alphabet(pieces, tokenizer), *(pieces[i] for i in pieces_of_words)])
    start = numbers.get(FIRST_WORD, 0)
    frequent = pieces[start : start + FREQUENT_PIECES]
    continuing = [piece for piece in pieces[start:] if piece.startswith(CONTINUES)][:CONTINUING_PIECES]
    rows = F.normalize(table - table.mean(0), dim=1)
    nearness = (rows @ rows[pieces_of_words].T).amax(1)
    nearest = (pieces[i] for i in nearness.argsort(descending=True).tolist())
    for piece in (*frequent, *continuing, *nearest):
        if len(kept) >= size:
            break
        if not piece.startswith("[unused"):
            kept[piece] = None
    return [*SPECIAL_TOKENS, *(piece for piece in pieces if piece in kept and piece not in SPECIAL_TOKENS)]


@torch.no_grad()
def make_averaging_(layer: nn.Module) -> None:
    """Overwrite a BERT layer so that it gives every token the normalised average of all of them, in place."""
    for name, value in layer.named_parameters():
        value.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    attention = layer.attention  # type: ignore[union-attr]
    attention.self.value.weight.copy_(torch.eye(len(attention.self.value.weight)))  # type: ignore[union-attr, arg-type]
    attention.output.dense.weight.copy_(AVERAGE_SCALE * torch.eye(len(attention.output.dense.weight)))  # type: ignore[union-attr, arg-type]


@torch.no_grad()
def centre_(tower: BertModel, texts: Tensor) -> None:
    """Set the pooler of ``tower`` to subtract the mean of ``texts`` (N, width), outputs of the last layer, from what it reads, in place."""
    dense = tower.pooler.dense
    dense.weight.copy_(POOLER_SCALE * torch.eye(len(dense.weight)))
    dense.bias.copy_(-POOLER_SCALE * texts.mean(0))


def new_tower(encoder: Path, words: Sequence[str], vocabulary: int) -> tuple[BertModel, PreTrainedTokenizerFast]:
    """Build a pruned copy of the text encoder in the folder ``encoder`` with an averaging layer, not yet centred, and return it with its
    tokenizer. It keeps ``vocabulary`` pieces, above all those near ``words``, which are what pictures show.
    """
    tokenizer = isolate_symbols(Tokenizer.from_file(str(encoder / "tokenizer.json")))
    tower = BertModel.from_pretrained(
        encoder, dtype=torch.float32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, local_files_only=True
    ).eval()
    numbers = tokenizer.get_vocab()
    kept = vocabulary_near(words, tokenizer, tower.get_input_embeddings().weight.detach(), vocabulary)
    prune_embeddings(tower, numbers, kept)
    drop_layers(tower, DROPPED_LAYERS)
    pooling = copy.deepcopy(tower.encoder.layer[-1])
    make_averaging_(pooling)
    tower.encoder.layer.append(pooling)
    tower.config.num_hidden_layers += 1
    _shorten(tower, MAX_TOKENS)
    pad, unknown, cls, sep, mask = SPECIAL_TOKENS
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=with_vocabulary(tokenizer, kept),
        model_max_length=MAX_TOKENS,
        do_lower_case=True,
        pad_token=pad, unk_token=unknown, cls_token=cls, sep_token=sep, mask_token=mask,
    )  # fmt: skip
    return tower, fast


def _shorten(tower: BertModel, length: int) -> None:
    """Drop the position embeddings of ``tower`` after the first ``length`` tokens, in place."""
    embeddings = tower.embeddings
    rows = embeddings.position_embeddings.weight.detach()[:length].clone()
    embeddings.position_embeddings = nn.Embedding.from_pretrained(rows, freeze=False)
    embeddings.register_buffer("position_ids", torch.arange(len(rows))[None], persistent=False)
    embeddings.register_buffer("token_type_ids", torch.zeros(1, len(rows), dtype=torch.long), persistent=False)
    tower.config.max_position_embeddings = len(rows)


@torch.inference_mode()
def read(tower: BertModel, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], batch: int = 128) -> Tensor:
    """Return the average token of each of ``texts`` as the last layer of ``tower`` gives it, (texts, width). Texts of similar length share
    a batch: less is padded. ``tokenizer`` is the tower's.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    averages = torch.empty(len(texts), tower.config.hidden_size, device=tower.device)
    for start in range(0, len(texts), batch):
        rows = order[start : start + batch]
        inputs = tokenizer([texts[i] for i in rows], padding=True, truncation=True, return_tensors="pt")
        averages[rows] = tower(**inputs.to(tower.device)).last_hidden_state[:, 0]
    return averages


def directions(texts: Tensor, number: int) -> Tensor:
    """Return the ``number`` directions (number, width) in which texts (N, width) differ most, at right angles. Each is divided by the
    square root of its singular value, relative to the largest, so that names of similar things lie less close together.
    """
    decomposed = torch.linalg.svd(texts - texts.mean(0), full_matrices=False)
    sizes = decomposed.S[:number] / decomposed.S[0]
    return decomposed.Vh[:number] / sizes.clamp(min=0.01).sqrt()[:, None]
