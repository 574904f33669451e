"""The scripts of a page: their tags, and links by which a browser fetches at once all that they import."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from markupsafe import Markup

#: What a script imports as it loads; what it imports when it needs it has a parenthesis, and what it says of types is in a comment.
_IMPORT = re.compile(r'^(?:import|export)\s(?:[^;"\'(]*?\sfrom\s)?\s*["\'](\.{1,2}/[^"\']+)["\']', re.MULTILINE)


def imports_of(name: str, text: str) -> tuple[str, ...]:
    """The scripts that the script ``name``, a path below the folder of the pages, imports as it loads."""
    return tuple(posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) for path in _IMPORT.findall(text))


def all_imports(name: str, imports: Callable[[str], tuple[str, ...]]) -> list[str]:
    """What a script imports, and what that imports, each once, the nearest first; ``imports`` says what one imports."""
    reached = [name]
    for script in reached:
        reached += [imported for imported in dict.fromkeys(imports(script)) if imported not in reached]
    return reached[1:]


class ModuleTags:
    """Of one page: called with a script, it writes its tag and a link for each script that it imports and that has none yet.

    A browser learns what a script imports once it has read it. So a page whose scripts import each other five deep would wait five times
    for the way to the server and back; with the links it waits once.
    """

    def __init__(self, address: str, imports: Callable[[str], tuple[str, ...]]) -> None:
        """``address`` is that of the folder of the pages, ``imports`` says what a script imports."""
        self._address, self._imports = address, imports
        self._linked: set[str] = set()

    def __call__(self, script: str) -> Markup:
        """The tags of ``script``, a path below the folder."""
        new = [name for name in all_imports(script, self._imports) if name not in self._linked]
        self._linked.update(new)
        links = [Markup('<link rel="modulepreload" href="{}/{}">').format(self._address, name) for name in new]
        return Markup("\n").join([Markup('<script type="module" src="{}/{}"></script>').format(self._address, script), *links])
