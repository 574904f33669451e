"""The base of every kind of block: how its tokens lie, in the one row (B, S, D) that everything else reads, and what follows from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Size, Tensor, nn
from torch.nn.functional import pad

from explainers.models.layout import Layout
from explainers.old_names import accept_old_names

#: Methods of a kind of block by their names in version 0.2.
OLD_NAMES = {
    "taken": "input_tokens",
    "given": "output_tokens",
    "with_taken": "with_input_tokens",
    "with_given": "with_output_tokens",
    "apart": "split",
}


@dataclass(frozen=True)
class BlockCall:
    """A recorded call of a ``block`` in a trial pass.

    args    its positional arguments; ``kwargs`` are its keyword arguments
    output  what it returned
    batch   number of samples in the pass, which all differ
    """

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any
    batch: int

    @property
    def inputs(self) -> list[Tensor]:
        """The floating-point tensors among the block's arguments, in order."""
        return floating_tensors((self.args, self.kwargs))

    @property
    def outputs(self) -> list[Tensor]:
        """The floating-point tensors among the block's outputs, in order."""
        return floating_tensors(self.output)

    @property
    def taken(self) -> list[Tensor]:
        """The old name of ``inputs``, from version 0.2."""
        return self.inputs

    @property
    def given(self) -> list[Tensor]:
        """The old name of ``outputs``, from version 0.2."""
        return self.outputs


class BlockKind(ABC):
    """A kind of block, as a frozen dataclass. Its fields describe the layout of tokens in one model; everything else is the same for all
    models of the kind.

    An attribute that refuses something is a sentence with the reason, with ``{name}`` for the name of the model; None: nothing is refused.

    name           name of the kind
    no_attention   the reason why there is no attention map over all tokens, as the end of a sentence
    no_residual    the reason why attention is not added to a residual stream
    no_positions   why position embeddings cannot be distinguished from patches
    no_removal     why patches can neither be removed nor be zeroed among the tokens, only be painted in the image
    attention_note a note for maps that read attention
    falls_short    what does not work for the kind, and why: a line of docs/families.md with its models and its sentence
    """

    name: ClassVar[str]
    no_attention: ClassVar[str | None] = None
    no_residual: ClassVar[str | None] = None
    no_positions: ClassVar[str | None] = None
    no_removal: ClassVar[str | None] = None
    attention_note: ClassVar[str | None] = None
    falls_short: ClassVar[tuple[str, str] | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        accept_old_names(cls, OLD_NAMES)

    # --- how tokens lie -----------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def find(cls, call: BlockCall) -> Self | None:
        """Read the layout of a block's tokens from one recorded call, and return the kind of block with that layout; None if the block is
        of another kind.
        """

    @abstractmethod
    def streams(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[Tensor]:
        """Return the tensors of tokens among the arguments of a block. Raises ExplainerError if there are none."""

    @abstractmethod
    def input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        """Return the row of tokens (B, S, D) among the arguments of a block. Raises ExplainerError if there is none."""

    @abstractmethod
    def with_input_tokens(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor) -> tuple[Any, Any]:
        """Return the arguments ``args`` and ``kwargs`` of a block with the tokens among them replaced by ``x`` (B, S, D). ``x`` may have
        another batch size and another number of patches than the tokens that it replaces.
        """

    @abstractmethod
    def output_tokens(self, output: Any) -> Tensor:
        """Return the tokens in ``output``, what a block returned, as one row (B, S, D)."""

    @abstractmethod
    def with_output_tokens(self, output: Any, x: Tensor) -> Any:
        """Return the output of a block with its tokens replaced by ``x`` (B, S, D)."""

    @abstractmethod
    def patch_width(self, streams: Sequence[Tensor]) -> int:
        """Return the width of a patch's token in ``streams``, the tensors that a block takes; with several sizes of patches, that of the
        finest.
        """

    # --- what else differs from one row of tokens; the usual ------------------------------------------------------------

    @property
    def is_row(self) -> bool:
        """True if blocks take and return the row of tokens (B, S, D) itself."""
        return False

    @property
    def is_map(self) -> bool:
        """True if tokens lie in a map, with axes of their own for height and width."""
        return False

    @property
    def tokens_first(self) -> bool:
        """True if the axis of tokens comes before that of samples: (S, B, D)."""
        return False

    @property
    def in_loop(self) -> bool:
        """True if a loop outside the blocks adds their residual."""
        return False

    @property
    def before(self) -> int | None:
        """The number of tokens before the patches; None if unknown; they are then the tokens that are the same for every image."""
        return None

    @property
    def patch_places(self) -> Sequence[slice]:
        """The slices of a row that hold the patches of each size, finest first, for kinds that know them; else empty. ``before`` is then
        known too.
        """
        return ()

    @property
    def no_forward_decomposition(self) -> str | None:
        """The reason why single tokens cannot be propagated forward through the blocks; None if they can."""
        return None

    @property
    def tokens_note(self) -> str | None:
        """A note for people on what a token of the row is; None if that needs none."""
        return None

    def map_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return (height, width) of the map of tokens among the arguments ``args`` and ``kwargs`` of a block; None if
        tokens lie in a row.
        """
        return None

    def stream_shape(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Size | None:
        """Return the shape of the one residual stream to which a block adds its attention, from the block's arguments ``args`` and
        ``kwargs``; None if there are several.
        """
        return None

    def row_of(self, x: Tensor) -> Tensor:
        """Return the tokens ``x`` of the block's only stream as a row (B, S, D); this base class returns them unchanged."""
        return x

    def check(self, x: Tensor) -> None:
        """Raise ExplainerError for a row ``x`` (B, S, D) that cannot be explained."""
        return

    def spread(self, by_token: Tensor, y: Tensor, stream: Size | None) -> Tensor | None:
        """Reshape ``by_token``, a number for each token (B, S), so that it multiplies a tensor ``y`` inside a block whose stream has the
        shape ``stream``; None if ``y`` does not hold one row of values a token.
        """
        if y.dim() not in (3, 4) or len(y) != len(by_token):
            return None
        places = (1, y.dim() - 2, y.dim() - 1)  # the tokens of heads apart, or after the width
        axis = next((axis for axis in places if y.shape[axis] == by_token.shape[1]), None)
        return None if axis is None else by_token.view(len(y), *(size if at == axis else 1 for at, size in enumerate(y.shape) if at))

    # --- bias terms ---------------------------------------------------------------------------------------------------

    def by_token(self, term: Tensor, tokens: int, layout: Layout) -> Tensor | None:
        """Sum a bias term (B, ...) over all axes but samples and tokens: (B, S); None if it has no axis of ``tokens``, nor height and width
        of the map of patches in ``layout``.
        """
        batch, grid, around = term.shape[0], layout.grid, (layout.prefix, layout.after)
        patches = tokens - sum(around)
        if term.dim() == 3 and any(around) and grid is not None and term.shape[1] == grid[0] * grid[1] == patches:  # patches alone
            return pad(term.sum(2), around)
        # (B, C), (B, 1, C) and (B, C, 1, 1) have no tokens, even where there happen to be as many classes or channels as tokens
        is_pooled = term.shape[1] == 1 if term.dim() == 3 else term.dim() > 3 and term.shape[1:].numel() == term.shape[1]
        places = () if term.dim() < 3 or (is_pooled and tokens > 1) else (1, term.dim() - 2, term.dim() - 1)
        axis = next((a for a in places if term.shape[a] == tokens), None)
        if term.dim() == 4 and grid is not None and grid[0] * grid[1] == patches:
            for down in (2, 1):
                if term.shape[down : down + 2] == grid:
                    return pad(term.movedim((down, down + 1), (1, 2)).reshape(batch, patches, -1).sum(2), around)
        return None if axis is None else term.movedim(axis, 1).reshape(batch, tokens, -1).sum(2)

    def by_patch(self, term: Tensor, batch: int, layout: Layout) -> Tensor | None:
        """Sum ``term``, whose first axis runs over the patches of all ``batch`` samples, by patch of ``layout``: (B, patches). This base
        class returns None, as its blocks have no such tensor.
        """
        return None


def floating_tensors(value: Any) -> list[Tensor]:
    """Return the floating-point tensors in ``value`` (the arguments or the result of a call), nested ones too, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for item in value for tensor in floating_tensors(item)] if isinstance(value, (tuple, list)) else []
