"""What only a process of its own can show: what ``import explainers`` costs, and models where neither torchvision nor a network is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.explainers.support.saved_models import cache_folder, save_transformers

# Nothing that only some metrics, figures, data sets or rare files use is imported with the package.
SLOW = ("sklearn", "scipy", "pyarrow", "pandas", "captum", "matplotlib", "PIL.BlpImagePlugin")
#: What packages of one's own are told to declare with, by names that ``import explainers`` alone has to give.
TOLD = sorted(set(re.findall(r"`@?(explainers(?:\.\w+)+)\(?[^`/]*`", (ROOT / "docs" / "extending.md").read_text("utf-8").split("\n\n")[2])))
SCRIPT = f"""
import json
from operator import attrgetter
import sys

sys.modules["torchvision"] = None

import explainers

absent = []
for name in {TOLD!r}:
    try:
        attrgetter(name.removeprefix("explainers."))(explainers)
    except AttributeError:
        absent.append(name)
imported = [name for name in {SLOW!r} if name in sys.modules]
assert (explainers.KINDS, explainers.alike) == (explainers.OPERATOR_KINDS, explainers.input_interaction)  # names of 0.2
assert (explainers.QUANTITIES, explainers.Windowed) == (explainers.HEAD_QUANTITIES, explainers.WindowedPicture)

from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

shape = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48)
module = ViTForImageClassification(ViTConfig(**shape, image_size=32, patch_size=8)).eval()
model = explainers.wrap(module)
logits = model.forward(model.tensors(Image.new("RGB", (50, 40))))

labels = list(explainers.load("hf/someone/tiny-bert", "cpu").labels)
try:
    problem = explainers.load("hf/someone/other")
except explainers.ExplainerError as error:
    problem = error
print(json.dumps(dict(imported=imported, absent=absent, logits=list(logits.shape), labels=labels, problem=str(problem))))
"""


@pytest.mark.slow
def test_slow_packages_wait_and_models_need_neither_torchvision_nor_a_network(tmp_path: Path) -> None:
    """HF_HUB_OFFLINE=1 and HF_HUB_CACHE are read when the hub's client is imported."""
    save_transformers(cache_folder(tmp_path, "someone/tiny-bert"))
    environ = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = json.loads(done.stdout)
    assert shown["imported"] == []
    assert "explainers.add_choice" in TOLD
    assert shown["absent"] == []
    assert shown["logits"] == [1, 2]
    assert shown["labels"] == ["bad", "middling", "good"]
    assert "someone/other is not on this machine, and offline mode is on (HF_HUB_OFFLINE)" in shown["problem"]


def test_slow_packages_are_not_imported_by_the_process_that_answers_requests() -> None:
    script = "import sys, vitrine_server.app; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script, *SLOW, "timm", "transformers", "torchvision"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_models_of_transformers_are_not_imported_for_a_model_of_timm() -> None:
    script = "import sys, explainers, transformers; explainers.load('scenes-vit'); print('transformers.modeling_utils' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
