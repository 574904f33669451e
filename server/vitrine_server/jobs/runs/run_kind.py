"""The kinds of work that a visitor begins on a data set and comes back to: where each is kept, and the functions that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.schemas.collections import CollectionRequest, SlicesRequest
from vitrine_server.schemas.runs import RunRequest

Request = RunRequest | CollectionRequest | SlicesRequest
#: Does the work of a request with a model, into a folder, until it is cancelled; returns ``{"finished": whether it reached its end}``.
Work = Callable[[Mapping[str, Any], Path, Any, Callable[[], bool], TellAnswers], dict[str, Any]]
#: Checks a request for a model. Raises ExplainerError for one that is refused.
Check = Callable[[Mapping[str, Any], Any, Callable[[], bool], TellAnswers], dict[str, Any]]


@dataclass(frozen=True)
class RunKind:
    """A kind of work on a data set; ``work`` and ``check`` run in the process of the model.

    noun      its name in messages
    folder    the folder in the server's home, and the last part of the address of its calls
    request   the type of its requests
    keeps_data  whether the data that was sent for it stays with it until it is deleted
    most_kept, most_of_one  how many are kept, of all visitors and of one
    in_turns  whether one that has run for a while lets others of its kind go on
    """

    noun: str
    folder: str
    request: type[Request]
    work: Work
    check: Check
    keeps_data: bool = False
    most_kept: int = 200
    most_of_one: int = 200
    in_turns: bool = True
