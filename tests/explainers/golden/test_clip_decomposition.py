"""CLIP's embedding by block, head and token, and the texts that TextSpan chooses, against the published code."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.analysis.heads.text_span import text_span
from explainers.autograd.recording import Recording
from explainers.methods import parse
from explainers.methods.embedding_parts import EmbeddingParts, text_embeddings
from explainers.records.targets import resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.golden import Case

TOLERANCE = 1e-9
RANK, TEXTS = 6, 5


@cache
def case() -> Case:
    return Case("clip-decomposition")


@cache
def recording() -> Recording:
    return Recording(case().model, case().inputs)


@cache
def parts() -> EmbeddingParts:
    return EmbeddingParts(recording())


@cache
def texts() -> Tensor:
    return text_embeddings(case().model, case().inputs)


def check(ours: Tensor, array: str) -> None:
    theirs = case().published[array]
    assert ours.shape == theirs.shape
    assert float((ours - theirs).abs().max()) < TOLERANCE


def test_parts_of_the_embedding() -> None:
    check(parts().embeddings, "representation")
    check(texts() * case().published["text_embeds"].norm(dim=-1, keepdim=True), "text_embeds")
    check(parts().of_heads(), "attentions_heads")
    check(parts().of_mlps(), "mlps")
    check(parts().of_tokens(0).transpose(1, 2), "attentions_picture0")
    check(parts().of_heads(slice(0, 1)).sum(2), "attentions_class_to_class")


def test_they_add_up_to_the_cosine() -> None:
    sums = parts().similarity_of_heads(texts()).sum((2, 3, 4)) + (parts().of_mlps() @ texts().mT).sum(1)
    cosines = recording().logits.detach() / case().model.details["logit_scale"]
    assert float((sums - cosines).abs().max()) < 1e-12


def test_embeddings_with_parts_replaced_by_their_mean() -> None:
    whole, mlps, own = parts().of_heads().sum((1, 2)), parts().of_mlps(), parts().of_heads(slice(0, 1)).sum((1, 2))
    check(whole + mlps.mean(0).sum(0), "mean_ablated_mlps")
    check(whole + mlps.sum(1) - own + own.mean(0), "mean_ablated_class_to_class")


def read(prompt: Tensor, spec: str, prompts: int = TEXTS) -> Tensor:
    """The map of one prompt for each picture, asked beside the first prompts of the case."""
    model = case().model
    tensors = {name: tensor if name == "pixel_values" else tensor[:prompts] for name, tensor in case().inputs.items()}
    trace = Trace(
        Recording(model, tensors),
        resolved_class(("prompt",) * len(prompt), prompt),
        None,
        answer=lambda sample, repeats, change: model.forward({name: change(name, tensor) for name, tensor in tensors.items()}),
    )
    output = parse(spec).read(trace)
    assert torch.allclose(sum(output.terms.values()), output.scores, atol=1e-15)  # type: ignore[arg-type]  # a sum of tensors
    return output.scores[:, trace.content[0]]


def test_maps_of_prompts() -> None:
    pictures = len(case().inputs["pixel_values"])
    check(torch.stack([read(torch.full((pictures,), i), "clip_decomposition") for i in range(TEXTS)], 1), "map_patches_prompts5")
    check(read(case().published["chosen"].long(), "clip_decomposition?less_mean=true"), "map_chosen")


def test_texts_of_heads() -> None:
    heads, bank = parts().of_heads(), F.normalize(case().published["text_embeds"], dim=-1)
    spans = [[text_span(heads[:, block, head], bank, TEXTS, RANK) for head in range(parts().heads)] for block in range(parts().blocks)]
    assert [[list(span.texts) for span in row] for row in spans] == case().published["textspan"].int().tolist()
    check(torch.stack([torch.stack([span.reconstruction for span in row]) for row in spans]), "textspan_reconstruction")
