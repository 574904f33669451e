"""One explanation on its way: what was asked, what is there so far, and its events."""

from __future__ import annotations

import secrets
import threading
from datetime import UTC, datetime
from typing import Any

from server.http.problems import Problem
from server.jobs import documents
from server.jobs.feed import Feed
from server.jobs.intake import ExplanationPlan, Question
from server.jobs.model_registry import ModelEntry, ModelFacts
from server.json_text import json_text


class Job:
    """The worker writes it, web threads read ``document()``; ``feed`` carries its events."""

    def __init__(self, question: Question, entry: ModelEntry, images: dict[str, bytes]) -> None:
        self.id = secrets.token_hex(8)
        self.question, self.entry, self.images = question, entry, images
        self.key: str | None = None
        self.feed = Feed()
        self.cancelled = threading.Event()
        self._lock = threading.Lock()
        self._document: dict[str, Any] = {
            "id": self.id,
            "state": "queued",
            "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "model": entry.name,
            **({} if question.long_texts == "windows" else {"long_texts": question.long_texts}),
            **({} if question.precision == "auto" else {"precision": question.precision}),
        }

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self._document["state"] in documents.FINAL

    def document(self) -> dict[str, Any]:
        """The explanation as it stands."""
        with self._lock:
            return {**self._document, "maps": list(self._document.get("maps", ()))}

    def running(self, facts: ModelFacts, plan: ExplanationPlan) -> dict[str, Any]:
        """The worker has taken it."""
        with self._lock:
            started = {"state": "running", "weights_digest": facts.weights_digest, "methods": list(plan.methods), "notes": plan.notes}
            self._document |= started
        return self.document()

    def predicted(self, explanation: dict[str, Any]) -> None:
        """The model has answered. A second call (after memory ran out) changes nothing.

        Raises NotJsonError where its answer holds what JSON has not.
        """
        with self._lock:
            if "targets" in self._document:
                return
            notes = [*explanation["notes"], *self._document["notes"]]
            document = {**self._document, **explanation, "model": self.entry.name, "notes": notes, "maps": []}
            json_text(document)  # it can be stored and sent
            self.feed.publish(documents.started(document))
            self._document = document

    def mapped(self, found_map: dict[str, Any]) -> None:
        """One map is there. Raises NotJsonError where it holds what JSON has not."""
        with self._lock:
            maps = self._document["maps"]
            if any((known["method"], known["target"]) == (found_map["method"], found_map["target"]) for known in maps):
                return  # memory ran out after this map; it came again
            self.feed.publish(documents.method(found_map, len(maps)))
            maps.append(found_map)

    def rename(self, title: str | None) -> dict[str, Any]:
        """Give it a title, or take it away; the explanation as it stands."""
        with self._lock:
            self._document.pop("title", None)
            if title is not None:
                self._document["title"] = title
        return self.document()

    def finished(self, state: str, problem: Problem | None, seconds: float | None) -> dict[str, Any]:
        """Nothing more will happen; the document to store."""
        with self._lock:
            self._document["state"] = state
            if seconds is not None:
                self._document["seconds"] = seconds
            if problem is not None:
                self._document["problem"] = problem.to_json()
        return self.document()

    def end(self) -> None:
        """Tell the followers."""
        self.feed.publish(documents.ended(self.document()))
        self.feed.close()
