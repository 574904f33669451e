"""The scripts of a page as one file: what a script imports, written out before it.

A page has some sixty scripts, and a browser fetches six files at a time over HTTP/1.1: far away it waits ten times for the way to the
server and back. In the file each script is a block, in the order in which a browser runs them; what it exports is one object, from which
the others take what they import. That is what modules do, as long as what they export never changes and none import each other in a circle.
What else a module can do is refused here, and a test joins every page.

A script that is imported later, with ``import()``, stays a file of its own. It too takes from the joined file what that has, so that no
script runs twice: ``tools/mixer.js?page=image`` is that script for the page of ``pages/image.js?page=image``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import cached_property

#: Types for tsc, which are a quarter of what is sent; lines keep their numbers.
_TYPES = re.compile(r"^[ \t]*/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*$", re.M)
_IMPORT = re.compile(r"""^import\s(?:(?P<what>[^;"'(]*?)\sfrom\s)?\s*(?P<quote>["'])(?P<path>\.{1,2}/[^"']+)(?P=quote);?[ \t]*$""", re.M)
_LATER = re.compile(r'\bimport\((?P<quote>["`])(?P<path>\.{1,2}/[^"`]+)(?P=quote)\)')
_EXPORT = re.compile(r"^export (?P<kind>(?:async )?function\*?|class|const) (?P<names>\[[^\]=]+\]|[\w$]+)", re.M)
#: Scripts that wait while they load: joined, they would wait for later imports, which wait for the whole joined script.
_LEFT = re.compile(r"^(?:import\b(?!\()|export\b|(?:(?:const|let) [^=\n]+= )?await\b).*", re.M)
_NAMES = re.compile(r"[\w$]+(?:\s+as\s+[\w$]+)?")


class NotJoinableError(ValueError):
    """Raised for a script that does what a joined file cannot do; the message names it and what to write instead."""


class JoinedPage:
    """The scripts of one page, joined in one file. ``text_of`` returns the text of a script, given its path below the folder
    of the pages.
    """

    def __init__(self, page: str, text_of: Callable[[str], str]) -> None:
        """Prepare to join the scripts of ``page``, the name of a script in ``pages/`` without its suffix."""
        self.page, self._text_of = page, text_of
        self.root = f"pages/{page}.js"

    @cached_property
    def scripts(self) -> tuple[str, ...]:
        """The scripts of the joined file in the order in which they run: each after those that it imports."""
        order: list[str] = []
        self._visit(self.root, order, ())
        return tuple(order)

    def _visit(self, script: str, order: list[str], above: tuple[str, ...]) -> None:
        if script in order:
            return
        if script in above:
            raise NotJoinableError(f"{script} imports itself by way of {above[-1]}: move what both need to a third script")
        for imported in imports_of(script, self._text_of(script)):
            self._visit(imported, order, (*above, script))
        order.append(script)

    @cached_property
    def joined(self) -> str:
        """The text of the joined file, which is served at the address of the page's own script."""
        return _TYPES.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(self._block(script) for script in self.scripts))

    def later(self, script: str) -> str:
        """Return the text of a script that this page imports after it has loaded: rewritten so that its own imports come from the joined
        file; if the joined file contains the script itself, a text that only exports its names again.
        """
        if script in self.scripts:
            names = ", ".join(exports_of(script, self._text_of(script)))
            return f"{self._bindings(script, script)}\nexport const {{ {names} }} = {_object(script)};\n"
        text = _IMPORT.sub(lambda match: self._import_later(match, script), self._text_of(script))
        return _LATER.sub(lambda match: self._address_in(match, script, script), text)

    def _block(self, script: str) -> str:
        """Return the text of one script as a block of the joined file."""
        text = self._text_of(script)
        exported = exports_of(script, text)
        text = _IMPORT.sub(lambda match: self._rewrite_import(match, script), text)
        text = _LATER.sub(lambda match: self._address_in(match, script, self.root), text)
        text = _EXPORT.sub(lambda match: f"{match['kind']} {match['names']}", text)
        if left := _LEFT.search(text):
            raise NotJoinableError(f"{script}: {left[0]!r} cannot be joined; write import {{ ... }} from, export const, function or class")
        return f"export let {_object(script)};\n{{ // {script}\n{text}\n{_object(script)} = {{ {', '.join(exported)} }};\n}}"

    def _rewrite_import(self, match: re.Match[str], script: str) -> str:
        """Return an import statement, found (``match``) in ``script``, rewritten as an assignment from the same joined file, which holds
        the imported script. Raises NotJoinableError for a form that cannot be rewritten, or a name that is not exported.
        """
        if match["what"] is None:  # it is run, before this
            return ""
        imported = _resolve(script, match["path"])
        what = match["what"].strip()
        if not (what.startswith("{") and what.endswith("}")):
            raise NotJoinableError(f"{script}: import {what} cannot be joined; write import {{ ... }} from {imported}")
        names = _NAMES.findall(what[1:-1])
        lacks = {name.split()[0] for name in names} - set(exports_of(imported, self._text_of(imported)))
        if lacks:
            raise NotJoinableError(f"{script} imports {', '.join(sorted(lacks))}, which {imported} does not export")
        taken = ", ".join(": ".join(name.split()[::2]) for name in names)  # `a as b` is `a: b`
        return f"const {{ {taken} }} = {_object(imported)};" + "\n" * match[0].count("\n")  # lines keep their numbers

    def _import_later(self, match: re.Match[str], script: str) -> str:
        """Return an import statement, found (``match``) in ``script``, which stays a file of its own, rewritten so that it imports from the
        joined file.
        """
        imported = _resolve(script, match["path"])
        if imported not in self.scripts:
            return match[0].replace(match["path"], self._address(match["path"]))
        if match["what"] is None:
            return ""
        return f"{self._bindings(imported, script)} {self._rewrite_import(match, script)}"

    def _bindings(self, imported: str, script: str) -> str:
        """Return the import statement by which ``script``, a file of its own, gets the exports of the script ``imported`` from the joined
        file.
        """
        return f'import {{ {_object(imported)} }} from "{_relative(self._address(self.root), script)}";'

    def _address_in(self, match: re.Match[str], script: str, place: str) -> str:
        """Return an ``import()``, found (``match``) in ``script``, rewritten for the file ``place``, which holds the text of the script
        now.
        """
        path = _relative(_resolve(script, match["path"]), place)
        return f"import({match['quote']}{self._address(path)}{match['quote']})"

    def _address(self, script: str) -> str:
        """Return the address of a script for this page."""
        return f"{script}?page={self.page}"


def imports_of(script: str, text: str) -> tuple[str, ...]:
    """List the scripts that ``script``, a path below the folder of the pages, imports when it loads."""
    return tuple(_resolve(script, match["path"]) for match in _IMPORT.finditer(text))


def exports_of(script: str, text: str) -> list[str]:
    """List the names that the script ``text`` exports."""
    return [name for match in _EXPORT.finditer(text) for name in _NAMES.findall(match["names"])]


def _resolve(script: str, path: str) -> str:
    """Convert a relative path in ``script`` to a path below the folder of the pages."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(script), path))


def _relative(script: str, place: str) -> str:
    """Return the path of ``script`` relative to the file ``place``."""
    path = posixpath.relpath(script, posixpath.dirname(place))
    return path if path.startswith(".") else f"./{path}"


def _object(script: str) -> str:
    """Return the name of the object that holds the exports of a script in a joined file."""
    return "$" + re.sub(r"\W", "_", script.removesuffix(".js"))
