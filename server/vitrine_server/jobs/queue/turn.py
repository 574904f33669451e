"""One turn of an explanation at the device: some of its maps, until it is done or others have waited long enough."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from explainers.methods import parse
from explainers.methods.specs import Spec
from vitrine_server.http.limits import limits
from vitrine_server.http.metrics import Metrics
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import unpack_files
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.host.interface import ChooseMethod, MadeMap, Message, ModelAnswer, Pause, Reply
from vitrine_server.jobs.intake import plan
from vitrine_server.jobs.queue.costs import ANSWER, SLOW_SECONDS, Costs
from vitrine_server.jobs.queue.job import Job
from vitrine_server.settings import Settings
from vitrine_server.store.map_files import pixels_name

#: How many times a time limit an estimate must be for a text to be refused by it: on a busy machine estimates are off by as much.
_SURE = 2.0


class Turn:
    """The server's side of one turn of an explanation: it tells the host which method comes next, and stores what the host made. A turn
    makes the maps of at least one method, unless ``quick`` forbids it.

    quick     whether slow methods are left for another turn
    cancelled  called between passes; returns whether to stop
    now       a clock of the seconds that the device works for this explanation, without the work between its passes
    is_over   called after each method; returns whether the turn ends
    spec      the method whose maps are being made
    """

    def __init__(
        self,
        job: Job,
        facts: ModelFacts,
        settings: Settings,
        costs: Costs,
        metrics: Metrics,
        now: Callable[[], float],
        is_over: Callable[[], bool],
        cancelled: Callable[[], bool],
        quick: bool,
    ) -> None:
        self._job, self._facts, self._costs, self._metrics = job, facts, costs, metrics
        self._settings, known = settings, limits(settings)
        self._job_limit, self._method_limit = known["job_seconds"], known["method_seconds"]
        self._now, self._is_over, self._cancelled, self._quick = now, is_over, cancelled, quick
        self._made = 0
        self._rules: set[tuple[str, str]] = set()  # rule and target, the passes that were made in this turn
        self._began = self._since = self._method_began = now()
        self.spec: str | None = None

    def handle(self, message: Message) -> Reply:
        """Handle a message of the host: store the answer or map in it, or return the reply to its question (whether to stop, which method
        is next). Raises the Problem for which the host must stop.
        """
        match message:
            case Pause():
                return self._cancelled()
            case ChooseMethod(left):
                return self._next(left)
            case ModelAnswer():
                self._note_answer(message)
            case MadeMap():
                self._note_map(message)
        return None

    @property
    def is_slow(self) -> bool:
        """True if the method whose maps are being made is slow."""
        return self.spec is not None and is_slow(self.spec, self._job, self._facts)

    @property
    def used(self) -> float:
        """Return the seconds of the device that the turn has used."""
        return self._now() - self._began

    def limit_passed(self) -> Problem | None:
        """Return the Problem of an explanation or method that has reached its time limit; None before."""
        if self._job.used + self.used > self._job_limit.most:
            return self._job_limit.problem()
        if self.spec is not None and self._now() - self._method_began > self._method_limit.most:
            return self._method_limit.problem(what=self.spec)
        return None

    def _next(self, left: list[str]) -> str | None:
        """Choose the next method of this turn from the specs in ``left``; None if the turn is over."""
        if self._made and (self._job.stopped.is_set() or self._is_over()):
            return None
        self.spec, self._method_began = self._job.next_of(left), self._now()
        if self._quick and self.is_slow:
            self.spec = None
        self._made += 1
        return self.spec

    def _note_answer(self, answer: ModelAnswer) -> None:
        """Record the answer of the model, which arrives in every turn, with its time and the costs estimated from it."""
        job, document = self._job, answer.document
        self._costs.note(facts_name(job), ANSWER, self._took(), answer.tokens)
        self._estimate(document, answer.tokens)
        self._refuse_what_cannot_end(answer.tokens)
        if job.question.image is not None:
            further = document["input"].get("further_pictures", ())
            is_video = job.question.video
            files = unpack_files(job.question.image, self._settings) if further and not is_video else [job.question.image]
            shown = document["input"].get("picture", document["input"])  # that which stands in a text
            for picture, file in zip([shown] if is_video else [shown, *further], files, strict=True):
                picture["sha256"] = hashlib.sha256(file).hexdigest()  # tells whether two are of the same picture
        job.images.update(answer.files)
        job.set_answer(document)
        self._since = self._now()

    def _refuse_what_cannot_end(self, tokens: int) -> None:
        """Raise Problem 413, before the first map, if a text of this number of ``tokens`` is so long that a method, or all of them, would
        surely exceed the time limit, judging by the times of other texts.
        """
        job, text = self._job, self._job.question.text
        known = {spec: job.costs[spec] for spec in self._costs.measured(facts_name(job), job.costs)}
        if job.question.image is not None or text is None or job.has_begun or not known:
            return
        slowest = max(known, key=lambda spec: known[spec])
        for what, seconds, limit in (
            (f"The method {slowest}", known[slowest], self._method_limit.most),
            ("What was asked", sum(known.values()), self._job_limit.most),
        ):
            if seconds > _SURE * limit:
                detail = f"{what} would take about {seconds:.0f} seconds for this text of {tokens} word pieces; {limit} is the limit."
                fits = max(1, int(len(text) * limit / seconds))
                send = f"Send a text of at most about {fits} characters, or leave {slowest} out of the methods."
                raise Problem(413, "would-take-too-long", detail, send=send)

    def _estimate(self, document: dict[str, Any], tokens: int) -> None:
        job, facts = self._job, self._facts
        assert job.plan is not None
        left, order = list(job.plan.methods), []
        while (spec := job.next_of(left)) is not None:
            left.remove(spec)
            order.append(spec)
        targets = 1 if job.question.side == "text" else max(1, len(document["targets"]))
        most = facts.details.get("max_tokens")
        job.costs = self._costs.of_methods(facts_name(job), order, facts.methods, tokens, facts.blocks, targets, most)

    def _note_map(self, made: MadeMap) -> None:
        """Add the finished map ``made`` to the job and record its time."""
        job, document = self._job, made.document
        if made.pixels is not None:
            job.images[pixels_name(document["method"], document["target"])] = made.pixels
        rule, took = document["rule"], self._took()
        after = (rule, document["target"]) in self._rules
        if rule is not None:
            self._rules.add((rule, document["target"]))
        self._costs.note(facts_name(job), document["method"], took, made.tokens, after_its_rule=after)
        self._metrics.method(Spec.parse(document["method"]).variant, took)
        job.add_map(document)

    def _took(self) -> float:
        """Return the seconds since the last call of this function, and restart the count."""
        before, self._since = self._since, self._now()
        return max(0.0, self._since - before)


def facts_name(job: Job) -> str:
    """Return the name of a job's model in the table of costs; the text side of a CLIP model has a name of its own, as its costs differ."""
    return f"{job.entry.name} text" if job.question.side == "text" else job.entry.name


def is_slow(spec: str, job: Job, facts: ModelFacts) -> bool:
    """Return whether the method of ``spec`` is declared slow by the model with these ``facts`` and the estimated seconds of its maps for
    this job, if known, confirm it.
    """
    method_name = parse(spec, blocks=facts.blocks).method.name
    is_declared = any(method["slow"] for method in facts.methods if method["name"] == method_name)
    return is_declared and job.costs.get(spec, SLOW_SECONDS) >= SLOW_SECONDS


def prepare(job: Job, facts: ModelFacts, costs: Costs) -> None:
    """Check the question of ``job`` for the model with these ``facts`` and set its plan, its key and, by ``costs``, the estimated seconds
    of its maps, unless that was done. Raises the Problem of a bad question.
    """
    if job.plan is None:
        job.plan = plan(job.question, facts)
        job.key = job.plan.key
        job.costs = costs.of_methods(facts_name(job), job.plan.methods, facts.methods, 0, facts.blocks)
