"""Features without a head: how alike two pictures are, what a patch has become, a principal component, one feature.

What is compared with is held constant: it is a vector, as the weights of a class are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.models.libraries.calls import RawForward
from explainers.models.libraries.recognition import Library, has_class_token
from explainers.models.libraries.sentence_embedding import ATTRIBUTE, MASK
from explainers.models.tasks.task import Place, Reading, Task, TaskInput, add_task, tensor_of

#: Under this name the features (1, D) of what an input is compared with stand among the tensors.
REFERENCE = "reference"
_PROJECTED = ("image_embeds", "text_embeds")  # how transformers calls the embedding of one side of a dual encoder
COMPONENTS = 3  # that are offered: as many as there are colours
_PATCH = re.compile(r"(?:patch|token):(\d+)(?:,(\d+))?")
_COMPONENT = re.compile(r"component:(\d+)")


@add_task
class Features(Task):
    """Task of a backbone without a head, ``module`` of ``library``: its features are the hidden states (B, S, D), and one vector (B, D) for
    the whole input.

    The vector is the model's embedding if it has one (a projection, or the layers that a folder of sentence-transformers adds), else its
    pooled output, else its class token, else the mean of its tokens. A pooler that transformers adds to a backbone without weights for it
    (a dense layer and a tanh) is not read.
    """

    name = "features"
    places_are = (
        "features (the vector of the whole; a target is then one of its numbers), mean (their mean), similar (to what is sent as the "
        "reference), patch:row,column or token:number (what one patch or token has become), or component:1 (a principal component of the "
        "patches)"
    )
    control = "patches"
    output = "regression"

    def __init__(self, module: nn.Module, library: Library) -> None:
        self._module, self._library = module, library
        self._embedding: Any = getattr(module, ATTRIBUTE, None)
        self._class_token = has_class_token(module) or tensor_named(module, "word_embeddings")

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> Task | None:
        """Return this task if ``module`` is a timm model without a head, or a backbone of transformers, judged by ``library`` and
        ``output``, else None.
        """
        bare = library == "timm" and getattr(module, "num_classes", None) == 0
        hidden = library == "transformers" and tensor_of(output, "last_hidden_state") is not None
        return cls(module, library) if bare or (hidden and tensor_of(output, "logits") is None) else None

    def raw_forward(self, forward: RawForward) -> RawForward:
        """Return a forward pass, made of the module's own ``forward``, that returns the hidden states; timm's models have a method for
        that.
        """
        if self._embedding is not None:
            return lambda tensors: {**forward(tensors), MASK: tensors.get(MASK, torch.ones_like(tensors["input_ids"]))}
        if self._library != "timm":
            return forward
        module: Any = self._module
        return lambda tensors: module.forward_features(tensors["pixel_values"])

    def hidden_states(self, output: Any) -> Tensor:
        """Return the last hidden states (B, S, D) in ``output``, a backbone's."""
        tokens = output if isinstance(output, Tensor) else tensor_of(output, "last_hidden_state")
        if tokens is None:
            raise ExplainerError(f"{type(self._module).__name__} gives its hidden states in another form: {type(output).__name__}")
        if tokens.dim() == 4:  # a map: timm has it with channels last, or first
            tokens = tokens.flatten(1, 2) if tokens.shape[-1] == getattr(self._module, "num_features", -1) else tokens.flatten(2).mT
        return tokens

    def pooled_features(self, output: Any) -> Tensor:
        """Return the vector (B, D) of features of the whole input, from a backbone's output."""
        module: Any = self._module
        if self._library == "timm":
            pooled: Tensor = module.forward_head(output, pre_logits=True)
            return pooled if pooled.dim() == 2 else self._of_tokens(self.hidden_states(pooled))
        if self._embedding is not None:
            embedding: Tensor = self._embedding(self.hidden_states(output), output[MASK])
            return embedding
        for name in _PROJECTED:
            if (projected := tensor_of(output, name)) is not None and projected.dim() == 2:
                return projected
        given = tensor_of(output, "pooler_output")
        if given is not None and not hasattr(getattr(module, "pooler", None), "dense"):
            return given.flatten(1)
        return self._of_tokens(self.hidden_states(output))

    def _of_tokens(self, tokens: Tensor) -> Tensor:
        """Return the features (B, D) of ``tokens`` (B, S, D): the class token if there is one, else the mean of all tokens."""
        return tokens[:, 0] if self._class_token else tokens.mean(1)

    def trial(self, output: Any) -> Tensor:
        """Return the vector (B, D) of features of the whole input, from a backbone's output."""
        return self.pooled_features(output)

    def class_count(self, logits: Tensor) -> int:
        """Return 0: a feature is no class, so the model has no class names. The ``logits`` are not read."""
        return 0

    @property
    def outputs(self) -> str:
        """A phrase for the output in the model's report."""
        return "features of each token, and of the whole"

    def places(self, task_input: TaskInput) -> list[Place]:
        """Return the places of an input that can be chosen: the whole vector, its similarity to the reference, and the principal
        components; a patch is chosen by a click.
        """
        similar = [Place("similar", "similarity to the reference")] if REFERENCE in task_input.tensors else []
        patches = [self._farthest_patch(task_input)] if task_input.layout.grid else []
        components = [Place(f"component:{i + 1}", f"principal component {i + 1}") for i in range(COMPONENTS) if task_input.layout.grid]
        return [*similar, *patches, Place("features", "features"), Place("mean", "mean of the features"), *components]

    def default_place(self, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the first of ``places``, which is explained if none is named: the similarity if there is a reference, else the patch that
        differs most from the others, else the features.
        """
        return places[0]

    def find(self, at: str, task_input: TaskInput, places: Sequence[Place]) -> Place:
        """Return the place that ``at`` names: one of ``places``, or a patch, token or principal component of the output in ``task_input``
        by its number. Raises ExplainerError if there is none.
        """
        number, component = _PATCH.fullmatch(at.strip()), _COMPONENT.fullmatch(at.strip())
        if number is not None:
            return self._token_place(int(number[1]), None if number[2] is None else int(number[2]), at, task_input)
        if component is not None:
            count = int(component[1])
            most = min(self.hidden_states(task_input.output).shape[1:])
            if task_input.layout.grid is None or not 1 <= count < most:
                raise ExplainerError(f"at={at!r}: send component:1 to component:{most - 1}, of a picture.")
            return Place(f"component:{count}", f"principal component {count}")
        if at.strip() == "similar" and REFERENCE not in task_input.tensors:
            raise ExplainerError("at='similar' compares with something: send it as the reference.")
        return super().find(at, task_input, places)

    def _farthest_patch(self, task_input: TaskInput) -> Place:
        """Return the place of the patch whose features lie farthest along the first principal component of an input."""
        patches = self._patches(task_input.output, task_input.layout.prefix)[0]
        mean, axes = principal_components(patches, 1)
        rows, columns = task_input.layout.grid or (1, 1)
        row, column = divmod(int(((patches[: rows * columns] - mean) @ axes[0]).argmax()), columns)
        return self._token_place(row, column, "", task_input)

    @staticmethod
    def _token_place(first: int, column: int | None, at: str, task_input: TaskInput) -> Place:
        grid, prefix = task_input.layout.grid, task_input.layout.prefix
        if grid is None:
            tokens = getattr(task_input.record, "tokens", ())
            if column is not None or first >= len(tokens):
                raise ExplainerError(f"at={at!r}: send token:0 to token:{len(tokens) - 1}.")
            return Place(f"token:{first}", tokens[first].text, tokens=(first, first))
        if column is None or first >= grid[0] or column >= grid[1]:
            raise ExplainerError(f"at={at!r}: send patch:row,column, from patch:0,0 to patch:{grid[0] - 1},{grid[1] - 1}.")
        token = prefix + first * grid[1] + column
        return Place(f"patch:{first},{column}", f"patch in row {first + 1}, column {column + 1}", (token, token), (first, column))

    def reading(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a :class:`Reading` of ``place`` for the input ``task_input``, which says how to read the explained numbers from the
        backbone's output: a cosine with a constant vector, projections, or the features themselves.
        """
        read_class_token = 0 if self._class_token and self._reads_class_token(task_input.output) else None
        if place.at == "features":
            width = self.pooled_features(task_input.output).shape[-1]
            return Reading(place, self.pooled_features, [f"feature {i}" for i in range(width)], "regression", read_class_token)
        if place.at == "mean":
            return Reading(
                place,
                lambda output: self.pooled_features(output).mean(-1, keepdim=True),
                ["mean of the features"],
                "regression",
                read_class_token,
            )
        if place.at == "similar":
            reference = task_input.tensors[REFERENCE]
            labels = ["similarity to the reference"]
            return Reading(place, lambda output: cosines(self.pooled_features(output), reference), labels, "regression", read_class_token)
        if place.tokens is not None:
            token = place.tokens[0]
            features = self.hidden_states(task_input.output)[:, token].detach()
            # no cosine: that of a vector with itself has no slope
            towards = features.mT / features.square().sum()
            note = (
                f"What is explained is how much of the features of the {place.label} stays: their projection on the features that it has "
                "here, as a share, which is 1 for the whole input."
            )
            return Reading(
                place, lambda output: self.hidden_states(output)[:, token] @ towards, [place.label], "regression", token, (note,)
            )
        return self._component(place, task_input)

    def _component(self, place: Place, task_input: TaskInput) -> Reading:
        """Return a reading of the principal component that ``place`` names, of the input ``task_input``: the mean projection of the patches
        on its positive side, when the mean of all patches is zero.
        """
        start = task_input.layout.prefix
        mean, axes = principal_components(self._patches(task_input.output, start)[0], int(place.at.partition(":")[2]))
        axis = axes[-1]
        positive = (self._patches(task_input.output, start)[0] - mean) @ axis > 0

        def read(output: Any) -> Tensor:
            return ((self._patches(output, start)[:, positive] - mean) @ axis).mean(1, keepdim=True)

        note = (
            f"What is explained is how far the {int(positive.sum())} patches on the positive side of the component lie from the mean of "
            "all: the component, and which patches these are, is held as it is here."
        )
        return Reading(place, read, [place.label], "regression", None, (note,))

    def _patches(self, output: Any, start: int) -> Tensor:
        return self.hidden_states(output)[:, start:]

    def _reads_class_token(self, output: Any) -> bool:
        """Return whether the backbone whose result is ``output`` computes its features of the whole input from the class token."""
        if self._library == "timm":
            return getattr(self._module, "global_pool", "token") in ("token", "")
        return self._embedding is None or bool(self._embedding.reads_first)


def without_reference(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``tensors`` of an input without the reference with which features are compared."""
    return {name: tensor for name, tensor in tensors.items() if name != REFERENCE}


def tensor_named(module: nn.Module, part: str) -> bool:
    """Return whether a parameter of the module has ``part`` in its name."""
    return any(part in name for name, _ in module.named_parameters())


def cosines(features: Tensor, vectors: Tensor) -> Tensor:
    """Return the cosines (B, K) of ``features`` (B, D) with ``vectors`` (K, D)."""
    return F.normalize(features, dim=-1) @ F.normalize(vectors.to(features), dim=-1).mT


def principal_components(features: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the mean (D,) of features (N, D) and their first ``count`` principal components (count, D), unit vectors.

    As the sign of a component is arbitrary, each points to the side with fewer and farther patches, where the third moment is positive.
    Computed in float64.
    """
    rows = features.detach().double()
    mean = rows.mean(0)
    _, _, axes = torch.linalg.svd(rows - mean, full_matrices=False)
    axes = axes[:count]
    sides = ((rows - mean) @ axes.mT).pow(3).sum(0)
    axes = axes * torch.where(sides < 0, -1.0, 1.0)[:, None]
    return mean.to(features), axes.to(features)
