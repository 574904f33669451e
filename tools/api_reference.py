"""The reference of the library, made from the docstrings of its public modules: pages of the site that ``make docs`` builds."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

#: The modules that people import from; the names in the ``__all__`` of each are public.
PUBLIC = (
    "explainers",
    "explainers.methods",
    "explainers.metrics",
    "explainers.datasets",
    "explainers.training",
    "explainers.analysis.interactions",
    "explainers.evaluation.plan",
    "explainers.evaluation.running",
    "explainers.evaluation.run_engines",
    "explainers.evaluation.distributed",
)
SIGNATURE_WIDTH = 100  # characters of a signature on one line
_ROLE = re.compile(r":\w+:`~?\.?([\w.]+)`")
_PARAMETER = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)  +(\S.*)$")


def module_page(name: str) -> str:
    """Return the page of the public module ``name`` as Markdown: its docstring, and a part for each of its public names. A name that an
    earlier module of ``PUBLIC`` has is a reference to it there.
    """
    described: dict[int, str] = {}
    for earlier in PUBLIC[: PUBLIC.index(name)]:
        module = importlib.import_module(earlier)
        described |= {id(getattr(module, public)): f"{earlier}.{public}" for public in module.__all__}
    module = importlib.import_module(name)
    names = sorted(module.__all__, key=str.lower)
    parts = [f"# `{name}`\n\n{markdown(inspect.getdoc(module) or '')}\n"]
    parts += [f"## `{public}`\n\n{entry(module, public, described)}\n" for public in names]
    return "\n".join(parts)


def entry(module: ModuleType, name: str, described: dict[int, str]) -> str:
    """Return the Markdown for ``name``, a public name of ``module``; one that is in ``described`` (its full name by the object's id)
    becomes a reference, another is added to it.
    """
    thing = getattr(module, name)
    if id(thing) in described:
        return f"See `{described[id(thing)]}`."
    described[id(thing)] = f"{module.__name__}.{name}"
    if inspect.isclass(thing):
        return _class(thing)
    if inspect.isfunction(thing):
        return f"{_code(signature(thing))}\n\n{markdown(inspect.getdoc(thing) or '')}"
    return markdown(comment(name, thing))


def markdown(docstring: str) -> str:
    """Return ``docstring`` as Markdown text; its rows of ``name  what it is`` become a list."""
    lines: list[str] = []
    for line in _ROLE.sub(r"`\1`", docstring).replace("``", "`").splitlines():
        parameter = _PARAMETER.match(line)
        if parameter:
            if lines and lines[-1] and not lines[-1].startswith("- "):
                lines.append("")
            lines.append(f"- `{parameter[1]}`: {parameter[2]}")
        elif line.startswith("  ") and lines and lines[-1].startswith("- "):
            lines[-1] += f" {line.strip()}"
        else:
            if line and lines and lines[-1].startswith("- "):
                lines.append("")
            lines.append(line)
    return "\n".join(lines).strip()


def signature(function: Any) -> str:
    """Return the signature of a function as it is written, one parameter a line where it is long."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return _call(node.name, _split(ast.unparse(node.args)), returns)


def _call(name: str, arguments: Sequence[str], returns: str = "") -> str:
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= SIGNATURE_WIDTH:
        return line
    inside = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inside}){returns}"


def _split(arguments: str) -> list[str]:
    """Split ``arguments``, the text between the brackets of a signature, at the commas outside of inner brackets; return the parts."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [re.sub(r"^(\s*\w+: .*?)=", r"\1 = ", part).strip() for part in parts]


def _fields(kind: type) -> str:
    """Return the constructor of the dataclass ``kind`` with its fields, as Markdown; empty if ``kind`` is no dataclass."""
    if not is_dataclass(kind):
        return ""
    written = [ast.unparse(ast.AnnAssign(field.target, _parts(field.annotation)[0], field.value, 1)) for field in _declared(kind)]
    return _code(_call(kind.__name__, [field for field in written if not field.startswith("_")]))


def _declared(kind: type) -> list[ast.AnnAssign]:
    """Return the fields that the dataclass ``kind`` declares, as syntax trees."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    return [field for field in node.body if isinstance(field, ast.AnnAssign)]


def _parts(annotation: ast.expr) -> tuple[ast.expr, str]:
    """Return the type of a field with this ``annotation``, and its description in ``Annotated[type, describe("...")]``; "" where it has
    none.
    """
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, *marks])):
            texts = [mark.args[0] for mark in marks if isinstance(mark, ast.Call) and mark.args]
            return kind, next((str(text.value) for text in texts if isinstance(text, ast.Constant)), "")
    return annotation, ""


def descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions of the fields of ``kind``, a record that describes its fields, by name; empty for another class."""
    described = [(ast.unparse(field.target), _parts(field.annotation)[1]) for field in _declared(kind)] if is_dataclass(kind) else []
    return {name: text.replace("``", "`") for name, text in described if text}


def _with_descriptions(text: str, described: dict[str, str]) -> str:
    """Return ``text``, the docstring of a record as Markdown, with the descriptions of its fields: after what its list says of a field, or
    as a list at the end.
    """
    lines, listed = [], set()
    for line in text.splitlines():
        row = re.match(r"- `(\w+)`: (.*)", line)
        if row and (more := described.get(row[1])):
            listed.add(row[1])
            says_more = row[2].rstrip(".").lower() != more.rstrip(".").lower()
            lines.append(f"{line.rstrip('.')}. {more}" if says_more else line)
        else:
            lines.append(line)
    rest = "\n".join(f"- `{name}`: {more}" for name, more in described.items() if name not in listed)
    return "\n\n".join(part for part in ("\n".join(lines), rest) if part)


def undescribed(thing: Any) -> list[str]:
    """Return the parameters of a function, or the fields of a dataclass with the parameters of its methods (``method.parameter``), of which
    neither a docstring nor a description says a word. A parameter called ``names`` is described where its docstring says ``name``.
    """
    if not inspect.isclass(thing):
        return _unsaid(thing) if inspect.isfunction(thing) else []
    said = _words(thing) | set(descriptions(thing))
    fields = [ast.unparse(field.target) for field in _declared(thing)] if is_dataclass(thing) else []
    missing = [name for name in fields if name not in said and not name.startswith("_")]
    for name, member in vars(thing).items():
        function = member.__func__ if isinstance(member, classmethod) else member
        if inspect.isfunction(function) and not name.startswith("_"):
            missing += [f"{name}.{parameter}" for parameter in _unsaid(function)]
    return missing


def _unsaid(function: Any) -> list[str]:
    said = _words(function)
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls") and not {name, name.rstrip("s")} & said]


def _words(thing: Any) -> set[str]:
    return set(re.findall(r"\w+", inspect.getdoc(thing) or ""))


def _class(kind: type) -> str:
    """Return the class ``kind`` as Markdown: its docstring, and its public methods and properties, except those that a public base class
    describes.
    """
    bases = [base for base in kind.__mro__[1:] if getattr(sys.modules["explainers"], base.__name__, None) is base]
    parts = [part for part in (_fields(kind), _with_descriptions(markdown(inspect.getdoc(kind) or ""), descriptions(kind))) if part]
    for name, member in vars(kind).items():
        function = member.fget if isinstance(member, property) else member.__func__ if isinstance(member, classmethod) else member
        if name.startswith("_") or not inspect.isfunction(function) or any(name in vars(base) for base in bases):
            continue
        written = f"{name}`, a property" if isinstance(member, property) else f"{' '.join(signature(function).split())}`"
        parts.append(f"**`{written}**\n\n{markdown(inspect.getdoc(function) or '')}")
    return "\n\n".join(parts)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def comment(name: str, value: object) -> str:
    """Return the ``#:`` comment above the declaration of the constant ``name``, which is ``value``, from the module of the engine that
    declares it; "" if there is none.
    """
    modules = [module for key, module in sys.modules.items() if key.startswith("explainers.") and getattr(module, name, None) is value]
    for module in modules:
        declared = re.search(rf"((?:^#: .*\n)+)^{name}\b.*? = ", inspect.getsource(module), re.MULTILINE)
        if declared:
            return " ".join(line.removeprefix("#: ") for line in declared[1].splitlines())
    return ""
