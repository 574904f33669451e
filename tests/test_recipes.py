"""The recipes of docs/recipes.md for a method, a rule and a metric, walked as they stand there; tests/browser/tools walks the tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PYTHONPATH, ROOT

FOLDERS = "explainers|server|recipes|static|tests|docs|tools|experiments"
TEXT = (ROOT / "docs" / "recipes.md").read_text("utf-8")
#: The files of the tool that the recipe adds; tests/browser/tools serves them.
OF_THE_TOOL = {"static/tools/meanscore.js", "static/styles/tools/meanscore.css"}

# Runs in a fresh interpreter, which forgets what the recipes added; the blocks are its arguments, in the order of the page.
SCRIPT = """
import sys

import torch
from fastapi.testclient import TestClient
from torch import Tensor

import explainers
from explainers import METHODS, RULES, Citation, Rule, Trace, add_rule, method
from explainers.methods.about import About
from explainers.metrics import METRICS, sanity
from explainers.metrics.registry import metric
from vitrine_server.app import create_app
from vitrine_server.settings import load_settings
from tests.families import FAMILIES

a_method, a_rule, a_metric, a_test = sys.argv[1:]
exec(a_method)
add_rule(eval(a_rule))
exec(a_metric, vars(sanity))
exec(a_test)
test_half_of_the_strength()
assert METRICS["half_strength"].description.startswith("The smallest share of the tokens")

model = explainers.wrap(FAMILIES["vit"].build(seed=1))
picture = torch.randn(1, 3, 32, 24, generator=torch.Generator().manual_seed(0))
specs = ["my_gradcam", "gradcam_plus", "my_gradcam:libra", "my_gradcam:frozen-norm", "fullgrad_plus", "fullgrad_plus:frozen-norm"]
result = explainers.explain(model, {"pixel_values": picture}, 0, specs)
mine, theirs, *others = (result[spec].scores for spec in specs)
torch.testing.assert_close(mine, theirs)  # it is written after this one
assert not any(torch.allclose(mine, other) for other in others[:2])
assert not torch.allclose(others[2], others[3])

with TestClient(create_app(load_settings({"home": "home", "device": "cpu"}), samples=[])) as client:
    pairs = {pair["spec"]: pair["reason"] for one in client.get("/api/methods").json()["methods"] for pair in one["pairs"]}
    assert pairs["my_gradcam:libra"] is None
    assert pairs["my_gradcam:frozen-norm"] is None
    assert pairs["fullgrad_plus:frozen-norm"] is None
    assert "frozen-norm" in [rule["name"] for rule in client.get("/api/rules").json()["rules"]]
    page = client.get("/methods/my_gradcam").text
    assert "My GradCAM" in page
    assert "Channels are weighted by their mean gradient" in page
"""


def test_the_recipes_of_the_engine_make_what_they_say(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT.partition("\n## Add a tool to the pages\n")[0], re.DOTALL)
    assert len(blocks) == 4
    words = [sys.executable, "-W", "error::SyntaxWarning", "-c", SCRIPT, *blocks]
    environ = {"PYTHONPATH": PYTHONPATH, "PATH": "", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(set(re.findall(rf"`((?:{FOLDERS})/[\w/.]*)`", TEXT)) - OF_THE_TOOL))
def test_files_that_recipes_name_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_names_that_recipes_are_told_by_are_there() -> None:
    """What a recipe tells to change stands in the file that it names."""
    for name, file in (
        ("RULES_IN_A_LINE", "explainers/methods/about.py"),
        ("GRADIENT_ALSO", "explainers/methods/registry.py"),
        ("CHOICES", "explainers/autograd/rules/choices/activation.py"),
        ("class Twin", "tests/explainers/support/formulas.py"),
        ("class Split", "tests/explainers/support/formulas.py"),
        ("ATTENTION_KINDS", "explainers/autograd/structure/attention_kinds.py"),
        ("add_block_kind", "explainers/models/structure/block_kinds/branches.py"),
        ("need", "explainers/metrics/needs.py"),
        ("def given", "tests/explainers/metrics/test_registry.py"),
        ("SAMPLES", "tests/explainers/support/made_up_datasets.py"),
        ("PAGES", "server/vitrine_server/pages/routes.py"),
        ("API", "server/vitrine_server/app.py"),
        ("DRAWERS", "static/tools/drawers.js"),
        ("CATALOGUE", "explainers/models/catalogue.py"),
        ("RECIPES", "recipes/__init__.py"),
        ("EVALUATIONS", "recipes/evaluation/__init__.py"),
    ):
        assert name.split()[-1] in TEXT
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text("utf-8")), f"{name} in {file}"
