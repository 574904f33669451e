"""The embedding that a model of images and prompts has of an image, as an exact sum over blocks, heads, tokens and MLPs.

The classification token of a pre-norm Transformer is a sum: what it is at first, what each token sends it through each head, and what the
MLP of each block adds. With the statistics of the last normalisation held, the head of the model is linear, so that its embedding, and with
it the cosine with a prompt, is the sum of what each of these adds (Gandelsman, Efros & Steinhardt, ICLR 2024, equations 3 to 5).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.nodes import Node, users_of
from explainers.autograd.operators import LinearMap, Norm
from explainers.autograd.operators.linear import weight_and_bias_of
from explainers.autograd.recording import Recording
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.attention_terms import attention_terms, stream_into
from explainers.models import matrix_products
from explainers.models.encoders import encoder
from explainers.models.model import Model

SOURCE = Citation(
    authors="Gandelsman, Efros & Steinhardt",
    year=2024,
    title="Interpreting CLIP's Image Representation via Text-Based Decomposition",
    venue="ICLR",
    arxiv="2310.05916",
)
_SAME_COSINE = 1e-4
_OTHER_HEAD = (
    "after its last LayerNorm its embedding is not made by one linear map of the classification token: a curve such as a pooler's tanh, "
    "or more than one layer, stands between, and no part of what these give is any head's own. Methods that go back, such as "
    "fullgrad_plus:libra, explain the cosine through them"
)


def text_embeddings(model: Model, prompts: Mapping[str, Tensor], double: bool = False) -> Tensor:
    """Return the embeddings by ``model`` of length 1 (prompts, P) of prompts, from their input tensors; with ``double`` computed in
    float64.
    """
    tensors = {name: tensor for name, tensor in prompts.items() if name != "pixel_values"}
    return F.normalize(Recording(encoder(model, "text"), tensors, double=double).logits.detach(), dim=-1)


class EmbeddingParts:
    """The parts that add up to the embeddings of a batch of B images; L blocks, H heads, N tokens, width D, embeddings of P numbers.

    embeddings  (B, P), of the length that the model gives them
    blocks, heads, tokens  their numbers
    """

    def __init__(self, recording: Recording) -> None:
        """Read the parts from the ``recording`` of a model of images and prompts, or of its encoder of images. Raises ExplainerError if its
        embedding is no such sum.
        """
        self._name = recording.model.name
        place = recording.layout.class_token
        if place is None or place < 0:
            raise self._refusal("its embedding is not read from a classification token before its patches (SigLIP pools with attention)")
        weight, bias, normed = self._read_head(recording, place)
        self.embeddings = F.linear(normed, weight, bias)
        inputs = [stream_into(recording, block) for block in range(len(recording.block_inputs))]
        terms = [attention_terms(recording, block, x, self._refusal) for block, x in enumerate(inputs)]
        #: Of each block the vector that each token sends to the classification token through each head, (B, H, N, d), and the linear map of
        #: these vectors into the residual stream: weight (D, H, d) and bias (D,).
        self._weighted = [each.weights[:, :, place, :, None] * each.value for each in terms]
        self._projections = [(each.projection, each.bias) for each in terms]
        weighted = self._weighted
        self.blocks, (_, self.heads, self.tokens, _) = len(weighted), weighted[0].shape
        first = inputs[0][:, place]
        residuals = [m[:, place].detach() for m in recording.mid_residuals if m is not None]
        outputs = [x[:, place].detach() for x in recording.block_outputs]
        self._mlps = torch.stack([first, *(x - m for x, m in zip(outputs, residuals, strict=True))], 1)
        # linear with the statistics of the normalisation held; the rest, of its mean and its bias, is shared out evenly among the 2 L + 1
        self._rest = (self.embeddings - (self._head @ outputs[-1][..., None])[..., 0]) / (2 * self.blocks + 1)
        self._length = self.embeddings.norm(dim=-1)
        if recording.model.kind != "clip":  # an encoder, which gives the embedding itself
            self._refuse_others(F.normalize(recording.logits.detach(), dim=-1), F.normalize(self.embeddings, dim=-1))

    def cosines(self, texts: Tensor, recording: Recording) -> Tensor:
        """Return the cosines (B, T) of the images of ``recording`` with the embeddings ``texts`` (T, P), each of length 1. Raises
        ExplainerError if the model, of images and prompts, computes others.
        """
        details = recording.model.details
        if "logit_scale" not in details:
            raise self._refusal("what it multiplies the cosine by is not known")
        if texts.shape[-1] != self.embeddings.shape[-1]:
            raise self._refusal(_OTHER_HEAD)
        ours = F.normalize(self.embeddings, dim=-1) @ texts.to(self.embeddings).mT
        self._refuse_others((recording.logits.detach() - details.get("logit_bias", 0.0)) / details["logit_scale"], ours)
        return ours

    def _refuse_others(self, theirs: Tensor, ours: Tensor) -> None:
        """Raise ExplainerError if the model's own cosines or embeddings (``theirs``) differ from those made of the parts (``ours``)."""
        tolerance = max(_SAME_COSINE, 8 * torch.finfo(theirs.dtype).eps)
        if theirs.shape != ours.shape or float((theirs - ours).abs().max()) > tolerance:
            raise self._refusal(_OTHER_HEAD)

    def _refusal(self, reason: str) -> ExplainerError:
        return ExplainerError(f"The similarity of {self._name} is no sum over its heads: {reason}.")

    def _read_head(self, recording: Recording, place: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """Read the head of an encoder in ``recording`` and return three tensors: weight and bias (None: no bias) of the projection after
        the blocks, and its input, the normalised classification tokens (B, D). ``place`` is the index of the classification token.

        The whole head is kept as one linear map. Raises ExplainerError if the head is anything but one LayerNorm and one linear map.
        """
        nodes = recording.nodes.ran[recording.nodes.blocks[-1].end :]
        norm = next((node for node in nodes if node.operator is Norm), None)
        projection = None if norm is None else _first_linear(norm, nodes)
        if norm is None or projection is None or norm.settings["dims"] != 1 or not norm.settings["centred"]:
            raise self._refusal("after its blocks there is not one LayerNorm and one linear map")
        weight, bias = (None if tensor is None else tensor.detach() for tensor in weight_and_bias_of(projection))
        gamma, eps = norm.settings["weight"], norm.settings["eps"]
        x = recording.block_outputs[-1][:, place].detach()
        assert weight is not None
        if projection.settings["forward"] is not matrix_products.linear:
            weight = weight.mT  # x @ weight
        if weight.dim() != 2 or weight.shape[1] != x.shape[-1]:
            raise self._refusal("after its blocks there is not one LayerNorm and one linear map")
        scale = (x.var(-1, keepdim=True, correction=0) + eps).rsqrt()
        scale = scale if gamma is None else scale * gamma.detach()
        self._head = weight * scale[:, None]  # (B, P, D)
        normed = F.layer_norm(x, x.shape[-1:], None if gamma is None else gamma.detach(), norm.settings["bias"], eps).detach()
        return weight, bias, normed

    def of_heads(self, tokens: slice = slice(None)) -> Tensor:
        """Return the part of each head in the embeddings of length 1, summed over some of the tokens: (B, L, H, P)."""
        parts = []
        for weighted, (weight, bias) in zip(self._weighted, self._projections, strict=True):
            share = len(range(self.tokens)[tokens]) / self.tokens / self.heads
            stream = torch.einsum("bhd,whd->bhw", weighted[:, :, tokens].sum(2), weight) + bias * share
            parts.append(torch.einsum("bpw,bhw->bhp", self._head, stream) + (self._rest * share)[:, None])
        whole: Tensor = torch.stack(parts, 1) / self._length[:, None, None, None]
        return whole

    def of_tokens(self, sample: int) -> Tensor:
        """Return the part of each head and token in the embedding of length 1 of the image number ``sample``: (L, H, N, P)."""
        parts, share = [], 1 / (self.heads * self.tokens)
        for weighted, (weight, bias) in zip(self._weighted, self._projections, strict=True):
            stream = torch.einsum("hnd,whd->hnw", weighted[sample], weight) + bias * share
            parts.append(torch.einsum("pw,hnw->hnp", self._head[sample], stream) + self._rest[sample] * share)
        whole: Tensor = torch.stack(parts) / self._length[sample]
        return whole

    def of_mlps(self) -> Tensor:
        """Return the parts of the classification token at the start, and then of each block's MLP, in the embeddings of length 1: (B, 1 +
        L, P).
        """
        whole: Tensor = (torch.einsum("bpw,bkw->bkp", self._head, self._mlps) + self._rest[:, None]) / self._length[:, None, None]
        return whole

    def similarity_of_heads(self, texts: Tensor) -> Tensor:
        """Return the part of each token and head in the product with texts (T, P), or (B, T, P) if each image has its own: (B, T, L, H, N).
        With texts of length 1 that is the cosine: these parts, and those of :meth:`of_mlps` times the texts, add up to it.
        """
        share = 1 / (self.heads * self.tokens)
        wanted = texts @ self._head  # (B, T, D)
        rest = ((texts * self._rest[:, None]).sum(-1) * share)[:, :, None, None]
        parts = []
        for weighted, (weight, bias) in zip(self._weighted, self._projections, strict=True):
            of_values = torch.einsum("btw,whd->bthd", wanted, weight)
            parts.append(torch.einsum("bthd,bhnd->bthn", of_values, weighted) + (wanted @ bias * share)[..., None, None] + rest)
        whole: Tensor = torch.stack(parts, 2) / self._length[:, None, None, None, None]
        return whole


def _first_linear(norm: Node, nodes: list[Node]) -> Node | None:
    """Return the first linear map that takes the output of the node ``norm``, directly or after operators that only move numbers; None if
    there is none.
    """
    users, waiting = users_of(nodes), [norm]
    while waiting:
        for user in users.get(id(waiting.pop(0)), ()):
            if user.operator is LinearMap:
                return user
            waiting.append(user)
    return None
