"""How often a module runs while it is opened: nothing is asked twice."""

from __future__ import annotations

from typing import Any

import pytest

import explainers
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece


@pytest.mark.parametrize(("family", "passes"), [("bert", 3), ("vit", 4)])
def test_a_model_is_opened_in_few_whole_passes(family: str, passes: int) -> None:
    module, count = FAMILIES[family].build(), 0

    def ran(*given: Any) -> None:  # passes that end at the first block do not get here
        nonlocal count
        count += 1

    handle = module.register_forward_hook(ran)
    explainers.wrap(module, **({"tokenizer": wordpiece()} if family == "bert" else {}))
    handle.remove()
    assert count == passes
