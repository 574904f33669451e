"""The documentation as a site, by hooks of MkDocs: what stands outside of ``docs``, the reference of the library, and ``llms.txt``.

``make docs`` builds it. The front page is README.md, and each public module has a page of its docstrings, made while the site is built.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # mkdocs loads this file by its path

from tools import api_reference  # noqa: E402

#: The pages that stand outside of ``docs``, by their place on the site.
OUTSIDE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
#: The tutorials, notebooks with the outputs that they had when they were last run.
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
_LINK = re.compile(r"\[(?P<text>[^\]\[]*)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_PICTURE = re.compile(r"(?P<before>(?:src|srcset)=\")(?P<target>[^\"#:]+)")
_FENCE = re.compile(r"^(```.*?^```)$", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the public modules to the part *Reference* of the navigation."""
    parts = config.nav
    assert isinstance(parts, list)
    (reference,) = [part["Reference"] for part in parts if "Reference" in part]
    reference.append({"The library": [{name: page_of(name)} for name in api_reference.PUBLIC]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of ``OUTSIDE``, of the public modules and of the tutorials to ``files``."""
    for place, name in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text("utf-8")))
    for name in api_reference.PUBLIC:
        files.append(File.generated(config, page_of(name), content=api_reference.module_page(name)))
    for notebook in TUTORIALS:
        files.append(File.generated(config, f"tutorials/{notebook.stem}.md", content=notebook_markdown(notebook)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of ``page`` with its links turned to pages of the site (``files``)."""
    return site_markdown(markdown, page.file.src_uri, {file.src_uri for file in files}, config.repo_url)


def on_post_build(config: MkDocsConfig) -> None:
    """Write ``llms.txt``, an index of the site for language models (llmstxt.org): what the project is, and each page by its title."""
    assert isinstance(config.nav, list)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for part in config.nav:
        for title, pages in part.items():
            lines += ["", f"## {title}", ""]
            lines += [f"- [{name}]({_address(place)})" for name, place in _titles(pages)]
    (Path(config.site_dir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _address(place: str) -> str:
    """Return the address on the site of the page at ``place``: a README is the index of its folder."""
    return place.replace("README.md", "index.md").removesuffix(".md") + ".html"


def _titles(pages: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield the title and the place of each page of a part of the navigation."""
    for page in pages:
        if isinstance(page, str):
            yield Path(page).parent.name.capitalize() or "Overview", page
            continue
        for title, inside in page.items():
            yield from _titles(inside) if isinstance(inside, list) else [(title, inside)]


def page_of(module: str) -> str:
    """Return the place on the site of the page of a public module."""
    return f"library/{module}.md"


def site_markdown(markdown: str, place: str, pages: set[str], repository: str | None) -> str:
    """Return the text of the page at ``place`` of the site, whose links were written for the repository, with links for the site.

    A link to one of the ``pages`` of the site leads there. Of what is no part of the site the path in the repository follows the text, as
    a link where the address of the ``repository`` is known. Code stays as it is.
    """
    source = OUTSIDE.get(place, f"docs/{place}")
    here = posixpath.dirname(place)

    def found(target: str) -> tuple[str | None, str]:
        """The link on the site, or None, and the path in the repository."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        at = next((at for at, name in OUTSIDE.items() if name == path), path.removeprefix("docs/"))
        at = f"{at.removesuffix('.ipynb')}.md" if at.endswith(".ipynb") else at
        return (posixpath.relpath(at, here or ".") if at in pages else None), path

    def link(match: re.Match[str]) -> str:
        on, path = found(match["target"])
        if on is not None:
            return f"[{match['text']}]({on}{match['anchor'] or ''})"
        text = match["text"] if match["text"].strip("`") == path else f"{match['text']} (`{path}`)"
        return f"[{match['text']}]({repository.rstrip('/')}/blob/main/{path})" if repository else text

    def picture(match: re.Match[str]) -> str:
        return f"{match['before']}{found(match['target'])[0] or match['target']}"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _PICTURE.sub(picture, _LINK.sub(link, part)) for part in parts)


def notebook_markdown(path: Path) -> str:
    """Return the notebook at ``path`` as Markdown: its text, its code, and its outputs as text or, where they have it, as HTML."""
    parts: list[str] = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            shown = output.get("data", {})
            text = (output.get("text") or shown.get("text/plain", "")).rstrip()
            parts.append(shown.get("text/html", f"```text\n{text}\n```"))
    return "\n\n".join(parts) + "\n"
