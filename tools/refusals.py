"""The words in which attention, the order of tokens and their places are refused, collected from the source, for ``docs/families.md``.

They are read from the syntax of the modules that refuse, so that the page lists every one of them: each text that an error or a plan is
made with, through names of constants, dicts of them, and functions that return them. What is filled in later is an ellipsis.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import explainers

_ROOT = Path(explainers.__file__).parent
_STRUCTURE, _OPENING = "autograd/structure", "models/structure"
_FILLED = re.compile(r"\{[^{}]*\}")
_ELLIPSIS = "…"


@dataclass(frozen=True)
class Kind:
    """A kind of refusals: what the page calls it, and where its words stand.

    files      the modules, as patterns in the package
    errors     the calls that take the words as their first text argument
    constants  names of module constants or class attributes that hold words, or dicts of them
    """

    title: str
    files: tuple[str, ...]
    errors: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()


KINDS = (
    Kind(
        'Methods that read attention maps: "blocks without an attention map over all its tokens: ..."',
        (f"{_STRUCTURE}/*.py", f"{_OPENING}/block_kinds/*.py", "methods/requirements.py"),
        ("Unreadable", "BlockPlan", "AttentionKind"),
        ("no_attention", "why"),
    ),
    Kind(
        'Methods that read queries, keys and values: "the last block ..."; the stream after attention; tokens made of other pixels',
        ("methods/requirements.py", f"{_OPENING}/block_kinds/*.py"),
        (),
        ("_NO_PARTS", "_NO_RESIDUALS", "_PARALLEL", "_OTHER_PIXELS", "no_residual"),
    ),
    Kind(
        "Methods that follow tokens from block to block",
        ("methods/requirements.py",),
        ("_lacks_of_order",),
    ),
    Kind(
        "Methods that propagate single tokens (GlobEnc, ALTI, DecompX)",
        ("methods/contributions.py", "autograd/forward_decomposition.py"),
        ("ExplainerError",),
    ),
    Kind(
        "Opening a model: its blocks, the order of its tokens and their places",
        tuple(f"{_OPENING}/{name}.py" for name in ("blocks", "layouts", "word_places", "head_reading", "watching")),
        ("ExplainerError",),
    ),
)


def refusals() -> dict[str, list[str]]:
    """Return the texts of all refusals of each kind, by its title, sorted."""
    return {kind.title: sorted(set(_texts_of(kind))) for kind in KINDS}


def _texts_of(kind: Kind) -> Iterator[str]:
    for pattern in kind.files:
        for path in sorted(_ROOT.glob(pattern)):
            module = ast.parse(path.read_text("utf-8"))
            known = _Words(module)
            for node in ast.walk(module):
                if isinstance(node, ast.Call) and _name_of(node.func) in kind.errors:
                    for argument in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "no_map")):
                        yield from filter(_is_sentence, known.of(argument))
                elif isinstance(node, ast.FunctionDef) and node.name in kind.errors:
                    for assigned in ast.walk(node):
                        if isinstance(assigned, ast.Assign) and isinstance(assigned.targets[0], ast.Subscript):
                            yield from filter(_is_sentence, known.of(assigned.value))
            for name in kind.constants:
                yield from filter(_is_sentence, known.named(name))


class _Words:
    """The texts that expressions of one module stand for, and of the modules next to it from which it takes constants."""

    def __init__(self, module: ast.Module) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._imported: dict[str, str] = {}
        for node in ast.walk(module):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._values.setdefault(target.id, []).append(node.value)
            elif isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("explainers."):
                self._imported |= {alias.asname or alias.name: node.module for alias in node.names}
        self._asked: set[str] = set()

    def named(self, name: str) -> Iterator[str]:
        """Yield the texts that a name stands for: of a constant, of the values of a dict, or of what a function returns."""
        if name in self._asked:
            return
        self._asked.add(name)
        for value in self._values.get(name, ()):
            yield from self.of(value)
        if name in self._functions:
            for node in ast.walk(self._functions[name]):
                if isinstance(node, ast.Return) and node.value is not None:
                    yield from self.of(node.value)
        if name in self._imported and (name.isupper() or name.startswith("_")):
            path = _ROOT.parent / (self._imported[name].replace(".", "/") + ".py")
            if path.exists():
                yield from _Words(ast.parse(path.read_text("utf-8"))).named(name)
        self._asked.discard(name)

    def of(self, value: ast.expr) -> Iterator[str]:
        """Yield the texts that an expression may give; what is filled in is an ellipsis."""
        match value:
            case ast.Constant(value=str(text)):
                yield _FILLED.sub(_ELLIPSIS, text)
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else _ELLIPSIS for part in parts)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                ends = [*self.of(right)] or [_ELLIPSIS]
                for start in self.of(left):
                    yield from (start + end for end in ends)
            case ast.IfExp(body=body, orelse=other):
                yield from self.of(body)
                yield from self.of(other)
            case ast.BoolOp(values=values):
                for each in values:
                    yield from self.of(each)
            case ast.Dict(values=values):
                for each in values:
                    yield from self.of(each)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
                yield from self.named(name)
            case ast.Call(func=ast.Attribute(value=inner, attr="format")):
                yield from self.of(inner)


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def _is_sentence(text: str) -> bool:
    return text.count(" ") > 2


def as_lists() -> str:
    """Return all refusals as lists of the page, each under its title."""
    return "\n\n".join(f"{title}\n\n" + "\n".join(f"- {text}" for text in texts) for title, texts in refusals().items())
