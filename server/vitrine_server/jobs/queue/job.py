"""An explanation while it is computed: its question, its results so far, and its events."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import NOBODY, Visitor
from vitrine_server.jobs import explanation_events
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.feed import Feed, event
from vitrine_server.jobs.intake import ExplanationPlan
from vitrine_server.json_text import json_text
from vitrine_server.schemas.question import Question
from vitrine_server.store.stored_files import QUESTION, REFERENCE
from vitrine_server.store.tables import FINAL, new_identity

#: Seconds after which what nobody follows any more ends with the maps that are there: a page that is loaded anew is back before.
LEFT_SECONDS = 20.0


class Job:
    """An explanation while it is computed. The worker writes it, web threads read ``document()``; ``feed`` carries its events.

    cancelled  set when the visitor does not want it any more
    stopped    set when the visitor wants the finished maps and no others
    plan       the arguments for ``explain``; None until the worker has checked the question against the model
    used       seconds of the device that it has used
    needs_device_alone  whether memory was too short for it between two passes of another item, so that it waits for the end of such
    visitor    the visitor who asked
    waits_since  when it began to wait for its first turn, by the clock of ``time.monotonic``
    costs      spec -> estimated seconds for its maps
    """

    def __init__(
        self,
        question: Question,
        entry: ModelEntry,
        images: dict[str, bytes],
        visitor: Visitor = NOBODY,
        stored: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a job for ``question`` of ``visitor`` to the model of ``entry``; ``images`` are files to store with it, by name. ``stored``
        is the document of an explanation that an earlier process of the server left unfinished, which the job continues.
        """
        identity = new_identity() if stored is None else {"id": str(stored["id"])}
        self.id = identity["id"]
        self.question, self.entry, self.visitor = question, entry, visitor
        self.images = {**images, QUESTION: question.to_json().encode()}
        if question.reference is not None:
            self.images[REFERENCE] = question.reference
        self.waits_since = time.monotonic()
        self.key: str | None = None
        self.feed = Feed()
        self.cancelled, self.stopped = threading.Event(), threading.Event()
        self.plan: ExplanationPlan | None = None
        self.used = 0.0
        self.needs_device_alone = False
        self.costs: dict[str, float] = {}
        self._order = question.order
        self._position: int | None = None
        self._lock = threading.Lock()
        self._document: dict[str, Any] = {
            **identity,
            "state": "queued",
            **{name: stored[name] for name in ("created", "title") if stored is not None and name in stored},
            "model": entry.name,
            **question.unusual,
        }

    @property
    def final(self) -> bool:
        """True once the explanation is done, failed or cancelled."""
        return self._document["state"] in FINAL

    def document(self) -> dict[str, Any]:
        """Return a copy of the explanation as JSON, with the maps so far."""
        with self._lock:
            return {**self._document, "maps": list(self._document.get("maps", ()))}

    @property
    def has_begun(self) -> bool:
        """True once the explanation has had a turn on the device."""
        return self.used > 0

    @property
    def is_running(self) -> bool:
        """True once its model was there for it: a first turn may end before that."""
        return bool(self._document["state"] == "running")

    @property
    def is_left(self) -> bool:
        """True if everybody who followed the events has left, more than ``LEFT_SECONDS`` ago."""
        seconds = self.feed.unfollowed_seconds
        return seconds is not None and seconds > LEFT_SECONDS

    def put_first(self, specs: Sequence[str]) -> None:
        """Set ``specs``, whose maps are to be made first, in this order."""
        with self._lock:
            self._order = tuple(specs)

    def next_of(self, left: Sequence[str]) -> str | None:
        """Return the spec in ``left`` whose map is to be made next; None if ``left`` is empty."""
        with self._lock:
            return next((spec for spec in self._order if spec in left), left[0] if left else None)

    @property
    def left(self) -> list[str]:
        """The requested specs that lack a map for at least one target."""
        assert self.plan is not None
        complete = self._complete()
        return [spec for spec in self.plan.methods if spec not in complete]

    def _complete(self) -> set[str]:
        with self._lock:
            made = Counter(entry["method"] for entry in self._document.get("maps", ()))
            targets = len(self._document.get("targets", ()))
        return {spec for spec, count in made.items() if count >= targets}

    def cut_short(self) -> bool:
        """Reduce the explanation to the methods whose maps are complete; return False, and change nothing, if there are none."""
        complete = self._complete()
        if self.plan is None or not complete:
            return False
        with self._lock:
            methods = [spec for spec in self.plan.methods if spec in complete]
            note = f"Stopped: {len(methods)} of {len(self.plan.methods)} methods were made."
            maps = [entry for entry in self._document["maps"] if entry["method"] in complete]
            left = [spec for spec in self.plan.methods if spec not in complete]
            self._document |= {"methods": methods, "left": left, "maps": maps, "notes": [*self._document["notes"], note]}
            self.key = self.plan.key_of(methods)
        return True

    def set_position(self, position: int) -> None:
        """Publish ``position``, the number of explanations before this one in the queue, if it has changed."""
        if position != self._position:
            self._position = position
            self.feed.publish(event(0, "queued", {"position": position}))

    def begin(self, facts: ModelFacts, plan: ExplanationPlan) -> dict[str, Any]:
        """Mark the explanation as running with the model of these ``facts`` under ``plan``; return its document."""
        with self._lock:
            started = {"state": "running", "weights_digest": facts.weights_digest, "methods": list(plan.methods), "notes": plan.notes}
            self._document |= started
        return self.document()

    def set_answer(self, explanation: dict[str, Any]) -> None:
        """Add the model's answer, the JSON ``explanation`` without its maps, and publish it. A second call (after memory ran out) changes
        nothing.

        Raises NotJsonError where the answer holds a value that JSON lacks.
        """
        with self._lock:
            if "targets" in self._document:
                return
            assert self.plan is not None
            if "place" in explanation:  # where some methods may not run
                self.plan = replace(self.plan, methods=[spec for spec in self.plan.methods if spec in explanation["methods"]])
            notes = [*explanation["notes"], *self._document["notes"]]
            whole = {"model": self.entry.name, "methods": list(self.plan.methods), "notes": notes, "maps": []}
            document = {**self._document, **explanation, **whole}
            json_text(document)  # it can be stored and sent
            self.feed.publish(explanation_events.started_event(document, self.costs))
            self._document = document

    def add_map(self, found_map: dict[str, Any]) -> None:
        """Add ``found_map``, a map as JSON, and publish it; a map of the same method and target is ignored. Raises NotJsonError if it holds
        a value that JSON lacks.
        """
        with self._lock:
            maps = self._document["maps"]
            if any((known["method"], known["target"]) == (found_map["method"], found_map["target"]) for known in maps):
                return  # memory ran out after this map; it came again
            self.feed.publish(explanation_events.map_event(found_map, len(maps)))
            maps.append(found_map)

    def rename(self, title: str | None) -> dict[str, Any]:
        """Set the ``title``, or remove it (None); return the document."""
        with self._lock:
            self._document.pop("title", None)
            if title is not None:
                self._document["title"] = title
        return self.document()

    def finish(self, state: str, problem: Problem | None, seconds: float | None) -> dict[str, Any]:
        """Set the final ``state`` (done, failed or cancelled), the ``problem`` of a failed one and the ``seconds`` that it took; return the
        document to store.
        """
        with self._lock:
            self._document["state"] = state
            self._put_in_order()
            if seconds is not None:
                self._document["seconds"] = seconds
            if problem is not None:
                self._document["problem"] = problem.to_json()
        return self.document()

    def _put_in_order(self) -> None:
        """Sort the maps by target and method; ``made`` in the document records the order in which they were made, if it differs."""
        maps = self._document.get("maps")
        if not maps or self.plan is None:
            return
        places = {target["label"]: place for place, target in enumerate(self._document["targets"])}

        def place(found_map: dict[str, Any]) -> tuple[int, int]:
            by_target, by_method = places.get(found_map["target"], 0), self.plan.methods.index(found_map["method"])  # type: ignore[union-attr]
            return (by_method, by_target) if self.question.side == "text" else (by_target, by_method)

        in_order = sorted(maps, key=place)
        made = [in_order.index(found_map) for found_map in maps]
        self._document["maps"] = in_order
        if made != sorted(made):
            self._document["made"] = made

    def end(self) -> None:
        """Publish the last event and close the feed."""
        self.feed.publish(explanation_events.end_event(self.document()))
        self.feed.close()
