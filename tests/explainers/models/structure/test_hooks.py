"""Hooks for the time of a block of code, in one thread."""

from threading import Thread

import pytest
import torch
from torch import nn

from explainers.models.structure.hooks import in_this_thread, remove_hooks_after


def test_hooks_are_removed_also_after_an_error() -> None:
    module, asked = nn.Sequential(nn.Identity(), nn.Linear(2, 2)), []
    handles = [module[0].register_forward_hook(lambda *given: asked.append(given))]
    with pytest.raises(RuntimeError), remove_hooks_after(handles):
        module(torch.ones(3))
    module[0](torch.ones(3))
    assert len(asked) == 1


def test_a_hook_changes_nothing_in_another_thread() -> None:
    module, given = nn.Identity(), []
    with remove_hooks_after([module.register_forward_hook(in_this_thread(lambda module, args, output: output + 1))]):
        other = Thread(target=lambda: given.append(module(torch.zeros(1))))
        other.start()
        other.join()
        given.append(module(torch.zeros(1)))
    assert [float(value) for value in given] == [0, 1]
