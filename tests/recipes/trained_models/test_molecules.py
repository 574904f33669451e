"""The trained model of molecules: what its card claims of known molecules, and that its maps find what is known."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import explainers
import explainers.embedded
from explainers.records.result import Explanation
from recipes.evaluation import MODELS
from tests.support.embedded_models import loaded

MODEL = MODELS / "molecules"
SAMPLES = json.loads((Path(explainers.embedded.__file__).parent / "samples" / "molecules" / "index.json").read_text("utf-8"))["samples"]
WRONG = {"molecule-nitrotoluene"}  # as its note says
GOOD, POOR = ("fullgrad_plus:libra", "input_x_gradient:conservative"), "gradcam_attention"


@pytest.fixture(scope="module")
def explained() -> dict[str, Explanation]:
    return {sample["id"]: explainers.explain(loaded("molecules"), sample["text"], "mutagenic", [*GOOD, POOR]) for sample in SAMPLES}


def test_the_samples_are_answered_as_they_are_said_to_be(explained: dict[str, Explanation]) -> None:
    answers = {sample["id"]: explained[sample["id"]].top(1)[0].label == sample["expected"] for sample in SAMPLES}
    assert {name for name, is_right in answers.items() if not is_right} == WRONG
    assert not [name for name, result in explained.items() if result.abstention is not None]


def test_the_nitro_group_makes_it_say_mutagenic(explained: dict[str, Explanation]) -> None:
    result = explained["molecule-nitrofluorene"]
    without = explainers.explain(loaded("molecules"), SAMPLES[0]["pair"], "mutagenic", ["random"])
    assert result.target.probability is not None
    assert without.target.probability is not None
    assert result.target.probability > 0.85
    assert without.target.probability < 0.5
    nitro = {1, 0, 2, 3}  # N, its oxygens and the carbon that holds it
    for spec in GOOD:
        words = result[spec].words()
        first = sorted(range(len(words)), key=lambda i: -words[i].score)[:2]
        assert set(first) <= nitro, spec


def test_full_accounts_add_up_on_the_trained_model(explained: dict[str, Explanation]) -> None:
    assert max(result.completeness("libra") / abs(result.target.logit) for result in explained.values()) < 1e-5


def test_something_unlike_its_training_is_said_to_be() -> None:
    strange = explainers.explain(loaded("molecules"), "[Na+].[Na+].[O-][Si]([O-])=O", methods=["random"])
    assert strange.abstention is not None
    assert strange.abstention.kind == "unlike_training"


def test_the_card_names_these_weights_and_they_are_small() -> None:
    card = (MODEL / "README.md").read_text("utf-8")
    assert hashlib.sha256((MODEL / "model.safetensors").read_bytes()).hexdigest() in card
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 4e6
    assert "Not for safety decisions" in card
