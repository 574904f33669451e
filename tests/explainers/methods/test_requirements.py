"""Why a method cannot run for a model is said of that model."""

from __future__ import annotations

from dataclasses import replace

from explainers.methods.requirements import missing_requirements
from tests.support.task_models import writer


def test_a_copy_by_another_name_is_called_by_it() -> None:
    first = missing_requirements(writer())
    other = missing_requirements(replace(writer(), name="other"))
    assert first.keys() == other.keys()
    assert {key: text.replace("writer", "other") for key, text in first.items()} == other
    assert other["image"].startswith("other ")
    assert missing_requirements(writer()) is first  # and is found once
