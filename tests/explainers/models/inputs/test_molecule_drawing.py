"""A drawing holds outlines and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from rdkit import Chem

from explainers.models.inputs.molecule_drawing import HEIGHT, WIDTH, draw_molecule, plain_svg


def test_only_outlines_and_their_colours_are_kept() -> None:
    hostile = """<svg onload="alert(1)"><script>alert(2)</script><style>path{fill:url(http://a)}</style><a href="javascript:x">
    <path d="M 0,0 L 1,1" onclick="x()" style="stroke:#000000;fill:url(#a);background:red"/></a><image href="http://a/b.png"/>
    <path d="M 0,0" stroke="#FF0000" class='bond-0"&gt;&lt;script'/></svg>"""
    assert plain_svg(hostile) == (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"><path d="M 0,0 L 1,1" stroke="currentColor"/>'
        '<path d="M 0,0" stroke="#FF0000"/></svg>'
    )


def test_a_drawing_of_rdkit_stays_whole_and_its_atoms_lie_in_it() -> None:
    drawing = draw_molecule(Chem.MolFromSmiles("c1ccccc1[N+](=O)[O-]"))
    root = ElementTree.fromstring(drawing.svg)
    names = {re.sub(r"{.*}", "", str(element.tag)) for element in root.iter()}
    assert names <= {"svg", "path", "line", "polygon", "ellipse"}
    joined = {name for path in root for name in (path.get("class") or "").split()}
    assert {f"bond-{i}" for i in range(9)} <= joined
    assert len(drawing.places) == 9
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in drawing.places)
    assert "style" not in drawing.svg
