"""A run that was begun on the page: what it measures, how far it is, and its record on the disk, by which it is known after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from explainers.evaluation.rows import inputs_in_part
from server.http.problems import Problem
from server.http.visitors import Visitor
from server.jobs.feed import Feed, event
from server.jobs.study import Study
from server.schemas.runs import RunRequest

_SAVED_EVERY = 5.0  # seconds, while it is measured
EndState = Literal["done", "stopped", "failed"]


@dataclass(eq=False)
class RunState:
    """A run. ``feed`` has the events ``progress`` and, at its end, ``ended``, each with :meth:`to_json`.

    title    of its data set
    visitor  whose it is, and with whom they share turns
    place    of its record
    study    what goes on; None where nothing does
    ended    how it ended last; None while it waits or runs
    problem  why it failed, as JSON
    spent    seconds that it was measured for since the server started, and ``measured`` the inputs of that time
    """

    id: str
    request: RunRequest
    title: str
    visitor: Visitor
    created: str
    place: Path
    done: int = 0
    total: int = 0
    ended: EndState | None = None
    problem: dict[str, Any] | None = None
    study: Study | None = None
    spent: float = 0.0
    measured: int = 0
    turn_began: float | None = None  # when the first input of this turn was begun
    turn_from: int = 0  # how many inputs were done then
    is_stopped: bool = False  # somebody has asked for its end
    is_unwanted: bool = False  # it is removed at its end
    saved: float = 0.0  # when its record was written last
    feed: Feed = field(default_factory=Feed)

    @property
    def state(self) -> str:
        """One of waiting, running, done, stopped, failed."""
        return self.ended or ("waiting" if self.turn_began is None else "running")

    @property
    def folder(self) -> Path:
        """Where its rows and reports are."""
        return self.place.with_suffix("")

    def begin(self) -> None:
        """It waits for its turn."""
        self.ended = self.problem = None
        self.is_stopped = self.is_unwanted = False
        self.spent, self.measured, self.feed = 0.0, 0, Feed()
        self.turn_began = None
        self.save()

    def tell(self, done: int, total: int) -> None:
        """So many inputs of so many are measured."""
        if self.turn_began is None:
            self.turn_began, self.turn_from = time.monotonic(), done
        self.done, self.total = done, total
        if time.monotonic() - self.saved > _SAVED_EVERY:
            self.save()
        self.feed.publish(event(done, "progress", self.to_json()))

    @property
    def loses_nothing(self) -> bool:
        """Whether all that this turn measured is on the disk, and that is more than nothing: rows are kept in parts."""
        measured = 0 if self.turn_began is None else self.done - self.turn_from
        return measured > 0 and measured % inputs_in_part(self.total) == 0

    @property
    def turn_seconds(self) -> float:
        """How long this turn has lasted."""
        return 0.0 if self.turn_began is None else time.monotonic() - self.turn_began

    def end_turn(self) -> None:
        """It waits for its next turn, or is over."""
        self.spent += self.turn_seconds
        self.measured += self.done - self.turn_from if self.turn_began is not None else 0
        self.turn_began = None

    def end(self, ended: EndState, problem: Problem | None = None) -> None:
        """Nothing more happens; tell the followers."""
        self.ended, self.problem, self.study = ended, None if problem is None else problem.to_json(), None
        self.save()
        self.feed.publish(event(self.total + 1, "ended", self.to_json()))
        self.feed.close()

    def seconds_left(self) -> float | None:
        """About how long it will take still, without the turns of others; None where that is not known."""
        measured = self.measured + (self.done - self.turn_from if self.turn_began is not None else 0)
        if self.ended is not None or measured == 0:
            return None
        return (self.spent + self.turn_seconds) / measured * (self.total - self.done)

    def to_json(self) -> dict[str, Any]:
        """As the page reads it."""
        left = self.seconds_left()
        document = {
            "id": self.id,
            **self.request.model_dump(),
            "title": self.title,
            "created": self.created,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "seconds_left": None if left is None else round(left, 1),
        }
        return document if self.problem is None else {**document, "problem": self.problem}

    def save(self) -> None:
        """Write its record."""
        document = {
            "request": self.request.model_dump(),
            "owner": self.visitor.owner,
            **{name: getattr(self, name) for name in ("title", "created", "done", "total", "ended", "problem")},
        }
        half = self.place.with_name(f".{self.place.name}.half")
        half.write_text(json.dumps(document), "utf-8")
        half.replace(self.place)
        self.saved = time.monotonic()


def run_from_record(place: Path, document: Mapping[str, Any]) -> RunState:
    """A run from its record: one that waited or ran when the server ended was stopped by that. Raises ValueError, KeyError or TypeError for
    what is no record.
    """
    plain = {name: document[name] for name in ("title", "created", "done", "total", "problem")}
    run = RunState(
        id=place.stem, request=RunRequest.model_validate(document["request"]), place=place, visitor=Visitor(document["owner"]), **plain
    )
    run.ended = document["ended"] or "stopped"
    run.feed.publish(event(run.total + 1, "ended", run.to_json()))
    run.feed.close()
    return run
