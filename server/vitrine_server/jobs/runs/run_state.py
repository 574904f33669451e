"""A run that was begun on the page: what it measures, how far it is, and its record on the disk, by which it is known after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from explainers.evaluation.rows import inputs_in_part
from explainers.json_records import Record, describe, optional
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.feed import Feed, event
from vitrine_server.jobs.queue.study import Study
from vitrine_server.jobs.runs.run_kind import Request
from vitrine_server.schemas.base import ProblemDocument

_SAVED_EVERY = 5.0  # seconds, while it is measured
EndState = Literal["done", "stopped", "failed"]
State = Literal["waiting", "running", "done", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class RunProgress(Record, name="Run"):
    """A run and its progress: its id, the title of its data set, its state, the inputs done and in total, and the seconds left. The fields
    of its request come before these.
    """

    id: str
    title: Annotated[str, describe("That of its data set.")]
    created: str
    state: State
    done: int
    total: int
    seconds_left: float | None
    problem: Annotated[dict[str, Any] | None, optional("Why it failed.", kind=ProblemDocument)]


@dataclass(eq=False)
class RunState:
    """A run: its request, its progress and its record on the disk. ``feed`` has the events ``progress`` and, at its end, ``ended``, each
    with :meth:`to_json`.

    id                its name in requests
    request           what is measured
    title             the title of its data set
    visitor           its owner, and with whom they share turns
    created           when it was begun, ISO 8601
    place             the path of its record
    done, total       numbers of inputs that are measured, and of all
    ended             how it ended last; None while it waits or runs
    problem           why it failed, as JSON
    study             the study that is queued or running; None if there is none
    spent             seconds for which it was measured since the server started; ``measured``: the inputs measured in that time
    turn_began        when the first input of this turn was begun, None before; ``turn_from``: the inputs done then
    is_stopped        whether somebody has asked for its end; ``is_unwanted``: whether it is removed then
    expected_seconds  estimate for the whole run, before anything was measured; None if unknown
    saved             when its record was written last, in seconds of the monotonic clock
    """

    id: str
    request: Request
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
    expected_seconds: float | None = None  # of the whole run, before anything was measured
    saved: float = 0.0  # when its record was written last
    feed: Feed = field(default_factory=Feed)

    @property
    def state(self) -> State:
        """The state of the run: waiting, running, done, stopped or failed."""
        return self.ended or ("waiting" if self.turn_began is None else "running")

    @property
    def folder(self) -> Path:
        """The folder of the run's rows and reports."""
        return self.place.with_suffix("")

    def begin(self) -> None:
        """Reset the run to waiting, before its first turn or after an end, and write its record."""
        self.ended = self.problem = None
        self.is_stopped = self.is_unwanted = False
        self.spent, self.measured, self.feed = 0.0, 0, Feed()
        self.turn_began = None
        self.save()

    def tell(self, done: int, total: int) -> None:
        """Record and publish that ``done`` of ``total`` inputs are measured."""
        if self.turn_began is None:
            self.turn_began, self.turn_from = time.monotonic(), done
        self.done, self.total = done, total
        if time.monotonic() - self.saved > _SAVED_EVERY:
            self.save()
        self.feed.publish(event(done, "progress", self.to_json()))

    @property
    def loses_nothing(self) -> bool:
        """True if the turn could end now without losing work: it measured something, and all of it is on the disk, where rows are written
        in parts.
        """
        measured = 0 if self.turn_began is None else self.done - self.turn_from
        return measured > 0 and measured % inputs_in_part(self.total) == 0

    @property
    def turn_seconds(self) -> float:
        """Return the seconds for which this turn has lasted; 0 if the run has no turn."""
        return 0.0 if self.turn_began is None else time.monotonic() - self.turn_began

    def end_turn(self) -> None:
        """Add the time and inputs of this turn to the totals; the run then waits for its next turn, or is over."""
        self.spent += self.turn_seconds
        self.measured += self.done - self.turn_from if self.turn_began is not None else 0
        self.turn_began = None

    def end(self, ended: EndState, problem: Problem | None = None) -> None:
        """Set how the run ended (``ended``) and the ``problem`` if it failed, write its record, publish the event ``ended`` and close the
        feed.
        """
        self.ended, self.problem, self.study = ended, None if problem is None else problem.to_json(), None
        self.save()
        self.feed.publish(event(self.total + 1, "ended", self.to_json()))
        self.feed.close()

    def seconds_left(self) -> float | None:
        """Estimate the seconds that the run still needs, without the turns of other runs: by what was measured, before that by what the run
        was expected to take; None if neither is known, or it has ended.
        """
        if self.ended is not None:
            return None
        measured = self.measured + (self.done - self.turn_from if self.turn_began is not None else 0)
        spent, total = self.spent + self.turn_seconds, self.total or self.request.limit
        if measured:
            return spent / measured * (total - self.done)
        if self.expected_seconds is None:
            return None
        left = self.expected_seconds * (total - self.done) / total - spent
        return left if left > 0 else None  # the estimate was too short

    def to_json(self) -> dict[str, Any]:
        """Return the request and progress of the run as JSON, for the page."""
        left = self.seconds_left()
        progress = RunProgress(
            id=self.id,
            title=self.title,
            created=self.created,
            state=self.state,
            done=self.done,
            total=self.total,
            seconds_left=None if left is None else round(left, 1),
            problem=self.problem,
        )
        return {**self.request.model_dump(), **progress.to_json()}

    def save(self) -> None:
        """Write the record of the run to ``place``."""
        document = {
            "request": self.request.model_dump(),
            "owner": self.visitor.owner,
            **{name: getattr(self, name) for name in ("title", "created", "done", "total", "ended", "problem")},
        }
        half = self.place.with_name(f".{self.place.name}.half")
        half.write_text(json.dumps(document), "utf-8")
        half.replace(self.place)
        self.saved = time.monotonic()


def run_from_record(place: Path, document: Mapping[str, Any], request: type[Request]) -> RunState:
    """Make a run from ``document``, its record, which is kept at ``place``, with a ``request`` of this type; one that waited or ran when
    the server ended counts as stopped.
    Raises ValueError, KeyError or TypeError if the document is no record.
    """
    plain = {name: document[name] for name in ("title", "created", "done", "total", "problem")}
    run = RunState(
        id=place.stem, request=request.model_validate(document["request"]), place=place, visitor=Visitor(document["owner"]), **plain
    )
    run.ended = document["ended"] or "stopped"
    run.feed.publish(event(run.total + 1, "ended", run.to_json()))
    run.feed.close()
    return run
