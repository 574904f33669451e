"""Names of version 0.2 that keep working: methods of other packages' classes, and attributes that were renamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from explainers import Citation
from explainers.models.structure.block_kinds import SeveralStreams
from explainers.models.structure.block_kinds.base import BlockCall
from explainers.models.tasks import Task
from explainers.old_names import accept_old_names


def test_a_method_under_an_old_name_is_also_found_under_the_new_one() -> None:
    class WithOldName:
        def apart(self) -> str:
            return "old"

    accept_old_names(WithOldName, {"apart": "split"})
    assert WithOldName().split() == "old"  # type: ignore[attr-defined]


def test_a_method_under_both_names_is_left_alone() -> None:
    class WithBothNames:
        def apart(self) -> str:
            return "old"

        def split(self) -> str:
            return "new"

    accept_old_names(WithBothNames, {"apart": "split"})
    assert WithBothNames().split() == "new"


def test_a_kind_of_block_and_a_task_of_another_package_may_override_old_names() -> None:
    class Kind(SeveralStreams):
        def apart(self, x: Any, streams: Any) -> Any:
            return x

        def taken(self, args: Any, kwargs: Any) -> Any:
            return args

    class TaskOfPackage(Task):
        def usual(self, task_input: Any, places: Sequence[Any]) -> Any:
            return places[0]

    assert (Kind.split, Kind.input_tokens) == (Kind.apart, Kind.taken)
    assert TaskOfPackage.default_place is TaskOfPackage.usual


def test_old_attributes_give_what_the_new_ones_give() -> None:
    call = BlockCall(nn.Identity(), (), {}, None, 2)
    assert (call.taken, call.given) == (call.inputs, call.outputs) == ([], [])
    assert Citation(authors="A", year=2020, title="T").noted("n") == Citation(authors="A", year=2020, title="T").with_note("n")
