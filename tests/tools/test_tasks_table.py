"""The table of tasks is what is measured, and has every task."""

from __future__ import annotations

import pytest

from explainers.models.tasks import TASKS
from tools.tasks_table import HEADINGS, PAGE, TASK_CASES, row_of, wrap
from vitrine_server.commands.text_tables import markdown_table

TEXT = PAGE.read_text("utf-8").partition("<!-- tasks -->")[2].partition("<!-- end of tasks -->")[0]


def test_every_task_and_every_model_is_there() -> None:
    assert {task for task in TASKS if task not in TEXT} == set()
    assert [asked.name for asked in TASK_CASES if f"`{asked.name}`" not in TEXT] == []
    assert TEXT.count("\n| ") == len(TASK_CASES) + 2


@pytest.mark.parametrize("name", ["BertForTokenClassification", "YolosForObjectDetection", "VideoMAEForVideoClassification"])
def test_a_row_is_measured_anew(name: str) -> None:
    """``python -m tools.tasks_table`` writes them."""
    asked = next(asked for asked in TASK_CASES if asked.name == name)
    assert markdown_table(HEADINGS, [row_of(wrap(asked), asked)]).splitlines()[-1] in TEXT
