"""The search for the blocks of a model, by watching one forward pass. Nothing here knows a class name.

A block is one of a row of alike modules; it takes tokens and gives back tokens of the same shape. Tokens are (batch, tokens, width), or a
map of them: (batch, height, width, channels) or (batch, channels, height, width), or several tensors of them: the kinds of blocks are
described in :mod:`explainers.models.structure.block_kinds`. Where a model has several such rows (stages whose tokens
grow coarser, patches first and a class token later), the blocks are the longest row over the patches that the head reads: those of the
row that runs last. A row of blocks that attend, or take tokens in a row, goes before rows over maps without attention, such as those of a
convolutional trunk, however long these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explainers.errors import ExplainerError
from explainers.models.eval_mode import without_compilation
from explainers.models.structure.block_kinds import BlockCall, BlockKind, OneStream, kind_of
from explainers.models.structure.block_kinds.base import floating_tensors
from explainers.models.structure.hooks import remove_hooks_after
from explainers.models.structure.spans import Span, spans_of


@dataclass(frozen=True)
class EarlierCall:
    """A call of a block that runs before the explained ones: the ``number``-th call of this block, counted from 1; ``keeps_shape``: whether
    its output has as many tokens as its input.
    """

    block: nn.Module
    number: int
    keeps_shape: bool = True


@dataclass(frozen=True)
class Structure:
    """The structure of a model: its blocks in the order they run (a shared block once for each time it runs), and the module whose first
    argument is the embedded tokens x^1.

    block_kind  how the blocks take and give tokens
    width  width of a token, without tokens inside it; if there are several sizes of patches, that of the finest
    grid   (height, width) of a map of tokens; None if tokens lie in a row
    class_blocks  modules after the blocks in which a class token may join the tokens, in the order they run
    earlier  the calls of blocks of the same kind that run before ``blocks`` and take more tokens of the same width, in order, followed by
             the call of the first of ``blocks``; empty if there are no such calls
    left_out  how many calls of other modules in the list of the blocks run before them, and how many after them, as where a token joins
             between two of them
    """

    blocks: tuple[nn.Module, ...]
    entry: nn.Module
    tokens: int
    width: int
    block_kind: BlockKind
    grid: tuple[int, int] | None
    class_blocks: tuple[nn.Module, ...] = ()
    earlier: tuple[EarlierCall, ...] = ()
    left_out: tuple[int, int] = (0, 0)


@dataclass
class _Call:
    """One call of a module, ``block``, in a ``row`` of alike modules: its input ``tokens`` and its ``output``, several streams of tokens
    joined to one row.
    """

    row: str
    block: nn.Module
    tokens: Tensor | None
    norm: nn.Module | None  # the normalisation that made its input
    inputs: list[Tensor]  # all tensors that went in
    output: Tensor | None = None
    block_kind: BlockKind | None = None  # where calls tell it: of several streams
    tokens_first: bool = False  # whether tokens lie before samples in what it takes and gives
    attends: bool = False  # whether a softmax or attention ran in it
    other_samples: int | None = None  # how many samples it takes, where these are not those of the model

    @property
    def gives_fewer(self) -> bool:
        """True if the module takes tokens in a row and returns fewer."""
        shapes = [None if each is None or each.dim() != 3 else each.shape for each in (self.tokens, self.output)]
        return shapes[0] is not None and shapes[1] is not None and shapes[1][1] < shapes[0][1] and shapes[1][2] == shapes[0][2]

    @property
    def keeps(self) -> bool:
        """True if the module takes tokens and returns tokens of the same shape."""
        return self.tokens is not None and self.output is not None and self.tokens.shape == self.output.shape

    @property
    def is_of_transformer(self) -> bool:
        """True if the module attends, or if it takes tokens in a row or in several streams; else it takes a map."""
        return self.attends or self.block_kind is not None or (self.tokens is not None and self.tokens.dim() == 3)

    @property
    def is_of_row(self) -> bool:
        """True if the module takes tokens in one row."""
        return self.block_kind is None and self.tokens is not None and self.tokens.dim() == 3

    @property
    def kind(self) -> BlockKind:
        """The kind of block that the module is, which says how its tokens lie."""
        assert self.tokens is not None
        return self.block_kind or OneStream.of(self.block, self.tokens, self.tokens_first, isinstance(self.block, Span))

    @property
    def token_row(self) -> Tensor:
        """The tokens (B, S, D) that the module takes."""
        assert self.tokens is not None
        return self.tokens if self.tokens.dim() == 3 else self.kind.row_of(self.tokens)


class _Attending(TorchFunctionMode):
    """A torch mode that marks the running module calls, ``open_calls``, as calls with attention if a softmax or attention function runs."""

    def __init__(self, open_calls: Sequence[_Call]) -> None:
        super().__init__()
        self._open_calls = open_calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _ATTENTION:
            for call in self._open_calls:
                call.attends = True
        return func(*args, **(kwargs or {}))


#: The names of torch's functions that run where a block attends.
_ATTENTION = frozenset(["softmax", "scaled_dot_product_attention", "multi_head_attention_forward", "flex_attention"])
_LISTS = (nn.ModuleList, nn.Sequential)
_ROW_OF_CALLER = "blocks="  # the row that the caller named; no module's name has this character
BlockCalls = list[_Call]  # successive calls that keep one shape


@contextmanager
def trial(module: nn.Module) -> Iterator[None]:
    """Open a context with ``module`` in eval mode, without gradients and without a change of the random state; every module's mode is put
    back.
    """
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with without_compilation(), torch.random.fork_rng(devices=[]), torch.no_grad():
            yield
    finally:
        for m, training in modes:
            m.training = training


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor in ``value``, a module's arguments or result, None if there is none: hidden states come first everywhere."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return next((tensor for item in value if (tensor := first_tensor(item)) is not None), None)
    return None


def find(
    module: nn.Module,
    run: Callable[[], Any],
    batch: int,
    blocks: Any = None,
    entry: Any = None,
    words: int | None = None,
    first_row: Callable[[], bool] = lambda: False,
) -> Structure:
    """Watch one forward pass of ``batch`` samples, ``run()``, and return the structure of the model. Two samples are to be different
    images.

    ``words`` is how many tokens a text has: blocks that see them all are preferred to later ones that see fewer.
    ``first_row`` says, after the pass, whether the first row over patches is preferred, rather than the last: of a detector or a segmenter
    its encoder, not what follows.
    ``blocks`` (a dotted name of a list of modules, or the modules) and ``entry`` (a dotted name or a module) are what the caller knows.
    Raises ExplainerError, naming the argument to pass, if the blocks cannot be found.
    """
    names = dict(module.named_modules())
    given = _given_blocks(names, blocks)
    containers = {name: list(c.children()) for name, c in names.items() if _is_row(c)} | ({_ROW_OF_CALLER: given} if given else {})
    calls = _watch(module, containers, run, batch)
    if not given and (blocks_found := _blocks_taken_for_rows(names, calls)):
        outer = {name.rpartition(".")[0] for name in blocks_found}
        containers = {name: row for name, row in containers.items() if name not in blocks_found}
        containers |= {name: list(names[name].children()) for name in outer}
        calls = _watch(module, containers, run, batch)
    runs = _runs([call for call in calls if not given or call.row == _ROW_OF_CALLER])
    if not runs and not given:
        with trial(module):
            spans = spans_of(module, run)
        calls = _watch(module, spans, run, batch) if spans else calls
        runs = _runs(calls) if spans else runs
        names = names | {f"{name}.{i}": span for name, row in spans.items() for i, span in enumerate(row)}
    if given:
        if len(runs) != 1 or {id(call.block) for call in runs[0]} != {id(block) for block in given}:
            raise ExplainerError(
                "blocks= must be modules that run and that take and give tokens of one shape: (batch, tokens, width), or a map of them"
                + _which_do_not(given, runs, names)
            )
        chosen = runs[0]
    elif not runs and (unlike := next((call for call in calls if call.other_samples is not None and call.attends), None)) is not None:
        raise ExplainerError(
            f"the blocks in {unlike.row!r} take {unlike.other_samples} samples for {batch} of the model's: which of them belong to which "
            "is not known. Wrap a module whose forward gives its blocks one row of tokens for each sample"
        )
    elif not runs and (fewer := next((call for call in calls if call.gives_fewer), None)) is not None:
        raise ExplainerError(
            f"each of the blocks in {fewer.row!r} gives fewer tokens than it takes, as where tokens are merged or dropped (ToMe), so that "
            "no two take the same tokens, and blocks= cannot help: let none be merged or dropped (r=0)"
        )
    elif not runs and any(call.tokens is None or call.output is None for call in calls):
        several = next(call for call in calls if call.tokens is None or call.output is None)
        raise ExplainerError(
            f"the blocks in {several.row!r} take or give several streams of tokens, or none of (batch, tokens, width): which one "
            "is explained is not known, and blocks= cannot say it"
        )
    else:
        whole = [run for run in runs if words is not None and run[0].tokens is not None and run[0].tokens.shape[1] >= words]
        runs = (whole or runs) if not first_row() else _from_first(runs)
        chosen = _choose_run(runs or [_last_map(module, run, batch)], {id(m): name for name, m in names.items()})
    first = chosen[0]
    assert first.tokens is not None
    row, kind = first.token_row, first.kind
    return Structure(
        blocks=tuple(call.block for call in chosen),
        entry=_entry_of_spans(names, first) if isinstance(first.block, Span) and entry is None else _entry(names, first, entry),
        tokens=row.shape[1],
        width=kind.patch_width(first.inputs),
        block_kind=kind,
        grid=kind.map_of((first.tokens,), {}),
        class_blocks=_class_blocks(calls, chosen[-1], row.shape),
        earlier=_earlier(calls, first),
        left_out=_left_out(calls, chosen),
    )


def _blocks_taken_for_rows(names: Mapping[str, nn.Module], calls: Sequence[_Call]) -> set[str]:
    """Return the names of containers in a list that are no row of blocks but one block: of modules of one class around its parts, some of
    which attend and others do not, as vit-pytorch's ``[PreNorm(attention), PreNorm(mlp)]``. ``names`` has the modules by name.
    """
    attend: dict[str, set[bool]] = {}
    for call in calls:
        if isinstance(names.get(call.row.rpartition(".")[0]), _LISTS):
            attend.setdefault(call.row, set()).add(call.attends)
    return {name for name, kinds in attend.items() if len(kinds) > 1}


def _is_row(container: nn.Module) -> bool:
    """Return whether a container is a row of blocks: a list of modules of one class, each with at least two weights (attention or mixing,
    and an MLP; or two convolutions).

    A list of such lists (stages) is not a row. A module that is no list but holds modules of one class under different names is a row too
    (RegNet).
    """
    children = list(container.children())
    if not isinstance(container, _LISTS) and (len(children) < 2 or any(isinstance(child, _LISTS) for child in children)):
        return False
    if not children:
        return False
    if len({type(child) for child in children}) > 1 or all(_is_row(child) for child in children):
        return False
    return all(sum(p.dim() >= 2 for p in child.parameters()) >= 2 for child in children)


def _given_blocks(names: Mapping[str, nn.Module], blocks: Any) -> list[nn.Module] | None:
    if blocks is None:
        return None
    if isinstance(blocks, str):
        if blocks not in names:
            raise ExplainerError(f"blocks={blocks!r} names no module of this model; pass a name of module.named_modules()")
        blocks = names[blocks]
    if isinstance(blocks, nn.Module) and not isinstance(blocks, _LISTS):
        raise ExplainerError("blocks= must be a list of modules, or the dotted name of one")
    return list(blocks)


def _watch(module: nn.Module, containers: Mapping[str, Sequence[nn.Module]], run: Callable[[], Any], batch: int) -> list[_Call]:
    """Run the model by ``run`` and return, in order, every call of a module in ``containers``, rows of modules of ``module`` by name.
    ``batch`` is the number of samples.
    """
    calls: list[_Call] = []
    open_calls: list[_Call] = []
    last_norm: list[Any] = [None, None]  # the normalisation that ran last and its result

    def before(row: str) -> Callable[..., None]:
        def hook(child: nn.Module, args: Any, kwargs: Any) -> None:
            tokens = first_tensor(args) if args else first_tensor(kwargs)
            turned = tokens is not None and tokens.dim() == 3 and len(tokens) != batch == tokens.shape[1] and tokens.is_floating_point()
            is_row = tokens is not None and tokens.dim() == 3 and tokens.is_floating_point() and not turned
            samples = len(tokens) if is_row and tokens is not None and len(tokens) != batch else None
            if tokens is not None and not turned and (tokens.dim() not in (3, 4) or len(tokens) != batch or not tokens.is_floating_point()):
                tokens = None
            norm, result = last_norm
            made = tokens is not None and result is not None and result.shape == tokens.shape
            made = made and (result is tokens or bool((result == tokens).all()))
            laid = tokens.transpose(0, 1) if turned and tokens is not None else tokens
            given = floating_tensors((args, kwargs))
            open_calls.append(_Call(row, child, laid, norm if made else None, given, tokens_first=turned, other_samples=samples))
            calls.append(open_calls[-1])

        return hook

    def after(child: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        call = open_calls.pop()
        call.output, call.block_kind = first_tensor(output), kind_of(BlockCall(child, args, kwargs, output, batch))
        if call.block_kind is not None:
            call.tokens, call.output, call.norm = call.block_kind.input_tokens(args, kwargs), call.block_kind.output_tokens(output), None
        elif call.tokens_first and call.output is not None and call.output.dim() == 3:
            call.output = call.output.transpose(0, 1)

    def norm_ran(child: nn.Module, args: Any, output: Any) -> None:
        last_norm[:] = [child, output if isinstance(output, Tensor) else None]

    handles = []
    for row, children in containers.items():
        for child in dict.fromkeys(children):
            handles.append(child.register_forward_pre_hook(before(row), with_kwargs=True))
            handles.append(child.register_forward_hook(after, with_kwargs=True))
    for m in module.modules():
        weights = [] if list(m.children()) else list(m.parameters())
        if weights and all(p.dim() == 1 for p in weights):
            handles.append(m.register_forward_hook(norm_ran))
    with remove_hooks_after(handles), trial(module), _Attending(open_calls):
        run()
    return calls


def _runs(calls: Sequence[_Call]) -> list[BlockCalls]:
    """Group successive ``calls`` of modules in the same list whose outputs keep one shape, and return the groups. If the input of a list is
    the output of a similar list with the same shape, both form one group.
    """
    runs: list[BlockCalls] = []
    current: dict[str, BlockCalls | None] = {}
    for call in calls:
        run = current.get(call.row)
        if not call.keeps:
            current[call.row] = None
            continue
        assert call.tokens is not None
        if run is None:
            run = next((r for r in runs if r[-1].output is call.tokens and type(r[-1].block) is type(call.block)), None)
        if run is None or run[-1].tokens is None or run[-1].tokens.shape != call.tokens.shape:
            run = []
            runs.append(run)
        run.append(call)
        current[call.row] = run
    return runs


def _from_first(runs: list[BlockCalls]) -> list[BlockCalls]:
    """Return the groups of calls in ``runs`` that have as many patches as the first group whose tokens lie in a row. This leaves out a
    convolutional trunk and later parts.
    """
    first = next((run[0] for run in runs if run[0].tokens is not None and run[0].tokens.dim() == 3), None)
    return runs if first is None else [run for run in runs if _patches(run[0]) == _patches(first)]


def _last_map(module: nn.Module, run: Callable[[], Any], batch: int) -> BlockCalls:
    """Return, in a list, the call of the last layer that has weights and keeps the shape of its map, for ``module``, a convolutional
    network without blocks (VGG, DenseNet). ``run`` runs it on ``batch`` samples. Raises ExplainerError if there is no such layer.
    """
    layers = [m for m in module.modules() if list(m.parameters(recurse=False))]
    kept = [c for c in _watch(module, {"": layers}, run, batch) if c.keeps and c.tokens is not None and c.tokens.dim() == 4]
    kept = [call for call in kept if call.tokens is not None and min(call.tokens.shape[2:]) > 1]
    if not kept:
        raise ExplainerError(_no_blocks(module))
    return kept[-1:]


def _which_do_not(given: Sequence[nn.Module], runs: list[BlockCalls], names: Mapping[str, nn.Module]) -> str:
    """Return the end of a sentence that names those of the ``given`` modules that are in none of ``runs``, where the others are one run;
    else nothing. ``names`` has the modules by their names.
    """
    known = {id(call.block) for run in runs for call in run}
    others = [name for name, part in names.items() if name and id(part) in {id(block) for block in given} - known]
    if len(runs) != 1 or not others or not known <= {id(block) for block in given}:
        return ""
    several = len(others) > 1
    return (
        f". {', '.join(others)} {'do' if several else 'does'} not, as where a last block gives the class token alone. Pass the others, as "
        f"a list of modules: what {'these give' if several else 'this one gives'} is then part of the head"
    )


_NO_BLOCKS = (
    "no row of blocks that take and give tokens (batch, tokens, width), or maps of them, was found, alike modules with an attention and an "
    "MLP each; pass blocks= (a list of modules or its dotted name)"
)


def _no_blocks(module: nn.Module) -> str:
    """Return a sentence that says why no row of blocks was found in a module."""
    for name, part in module.named_modules():
        children = list(part.children())
        if isinstance(part, nn.ModuleList) and children and all(isinstance(child, nn.ModuleList | nn.ModuleDict) for child in children):
            return (
                f"each block in {name!r} is a list of modules that a loop calls one by one (as in vit-pytorch), so that nothing takes and "
                "gives the tokens of a block: write a block as a module whose forward does what the loop does, and load the weights into it"
            )
        for alike, other, where, rest in ((children[:-1], children[-1:], "last", "[:-1]"), (children[1:], children[:1], "first", "[1:]")):
            is_row = isinstance(part, nn.ModuleList | nn.Sequential) and len(alike) > 1 and any(True for _ in alike[0].children())
            is_row |= isinstance(part, nn.ModuleList) and len(children) == 2 and all(list(each.children()) for each in children)
            if is_row and len({type(child) for child in alike}) == 1 and type(alike[0]) is not type(other[0]):
                return (
                    f"the {where} module in {name!r} is of another class than the rest, and may not take and give all tokens as they do, "
                    "as where a last block gives the class token alone: pass blocks= those that do (a list of modules, such as "
                    f"list(model.{name}{rest}))"
                )
    return _NO_BLOCKS


def _choose_run(runs: list[BlockCalls], names: Mapping[int, str]) -> BlockCalls:
    """Choose the blocks to explain: return the longest of ``runs``, groups of calls, among those with as many patches as the last one, of
    those of a Transformer if there are any; ``names`` has the name of each module by its id. Raises ExplainerError if there is none.
    """
    # a row inside one of several blocks (MLPs in a row, branches) is a part of that block
    inside = tuple(f"{names[id(call.block)]}." for run in runs if len({id(call.block) for call in run}) > 1 for call in run)
    runs = [run for run in runs if not names[id(run[0].block)].startswith(inside)]
    if not runs:
        raise ExplainerError(_NO_BLOCKS)
    runs = [run for run in runs if run[0].is_of_transformer] or runs
    last = _patches(runs[-1][0])
    longest = [run for run in runs if _patches(run[0]) == last]
    longest = [run for run in longest if len(run) == max(map(len, longest))]
    # of nested rows that run equally often (a group that holds one shared block), the innermost is the block; of others that of the model
    # itself, not of its convolutional trunk
    innermost = [run for run in longest if not any(other[0].row.startswith(f"{run[0].row}.") for other in longest)]
    return min(innermost, key=lambda run: run[0].row.count("."))


def _class_blocks(calls: Sequence[_Call], last: _Call, shape: torch.Size) -> tuple[nn.Module, ...]:
    """Return the modules among ``calls`` that are called after ``last``, the last block, with one token more than its output, of this
    ``shape``, and that return either all these tokens or the added one alone.
    """
    batch, tokens, width = shape
    whole, others, token = ((batch, count, width) for count in (1 + tokens, tokens, 1))
    ways = (((whole,), whole), ((others, token), token), ((token, others), token))
    after = next((i for i, call in enumerate(calls) if call is last), len(calls)) + 1
    behind = [
        call for call in calls[after:] if call.output is not None and (tuple(x.shape for x in call.inputs), call.output.shape) in ways
    ]
    return tuple(call.block for call in behind if call.row == behind[0].row)


def _earlier(calls: Sequence[_Call], first: _Call) -> tuple[EarlierCall, ...]:
    """Return the calls of blocks before ``first`` that work on more tokens of the same width, followed by the call ``first``. A call counts
    if its block is in the same list as that of ``first``, or of the same class. Empty if there are no such calls.
    """
    if first.tokens is None or first.tokens.dim() != 3 or first.block_kind is not None or not any(call is first for call in calls):
        return ()
    shape, seen, with_more = first.tokens.shape, set[int](), list[_Call]()
    for call in calls[: next(i for i, call in enumerate(calls) if call is first)]:
        alike = call.row == first.row or type(call.block) is type(first.block)
        more = call.tokens is not None and call.tokens.dim() == 3 and call.tokens.shape[1] > shape[1] and call.tokens.shape[2] == shape[2]
        if alike and more and call.block_kind is None and call.output is not None and id(call.tokens) not in seen:
            seen.add(id(call.tokens))
            with_more.append(call)
    return tuple(_number_call(calls, call) for call in [*with_more, first]) if with_more else ()


def _left_out(calls: Sequence[_Call], chosen: BlockCalls) -> tuple[int, int]:
    """Return how many ``calls`` of the list of the ``chosen`` blocks run before these, and how many after them; none if their tokens lie in
    maps, whose stages have other sizes.
    """
    if not chosen[0].is_of_row:
        return 0, 0
    order = {id(call): place for place, call in enumerate(calls) if call.row == chosen[0].row}
    first, last = order.get(id(chosen[0])), order.get(id(chosen[-1]))
    if first is None or last is None:
        return 0, 0
    return sum(place < first for place in order.values()), sum(place > last for place in order.values())


def _number_call(calls: Sequence[_Call], call: _Call) -> EarlierCall:
    same = [each for each in calls if each.block is call.block and each.row == call.row]
    return EarlierCall(call.block, next((i for i, each in enumerate(same, 1) if each is call), 1), call.keeps)


def _patches(call: _Call) -> int:
    """Return how many tokens of a call's input differ between the two samples, as a class token is the same for every image; all, if there
    is one sample.
    """
    row = call.token_row
    return row.shape[1] if len(row) < 2 else int((row[0] != row[1]).any(-1).sum())


def _entry_of_spans(names: Mapping[str, nn.Module], first: _Call) -> nn.Module:
    """Return the module that takes the embedded tokens x^1 in a model that adds the residual of its blocks in a loop. It is the module in
    ``names`` (by name) that holds the list of blocks; ``first`` is the first call of a block. Raises ExplainerError if that is the model
    itself, which takes no tokens.
    """
    holder = first.row.rpartition(".")[0]
    if not holder:
        raise ExplainerError(
            f"the loop over {first.row!r}, whose parts the model's own forward calls one by one, adding what they give, begins with tokens "
            "that no module takes: put the loop in a module of its own that takes and gives (batch, tokens, width), as vit-pytorch's "
            "Transformer does, or write a block as a module whose forward does what the loop does"
        )
    return names[holder]


def _entry(names: Mapping[str, nn.Module], first: _Call, entry: Any) -> nn.Module:
    if isinstance(entry, str):
        if entry not in names:
            raise ExplainerError(f"entry={entry!r} names no module of this model; pass a name of module.named_modules()")
        return names[entry]
    if isinstance(entry, nn.Module):
        return entry
    if first.norm is not None:
        # A norm outside of the blocks (norm_pre, pre_layrnorm) takes x^1; one that belongs to the embeddings (BERT) makes it.
        path = {id(m): name for name, m in names.items()}
        parent = path[id(first.norm)].rpartition(".")[0]
        if path[id(first.block)].startswith(f"{parent}." if parent else ""):
            return first.norm
    return first.block
