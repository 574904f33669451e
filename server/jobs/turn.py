"""One turn of an explanation at the device: some of its maps, until it is done or others have waited long enough."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from PIL import Image
from safetensors.torch import save

from explainers import explain
from explainers.methods import parse
from explainers.models.inputs.depth import Windowed
from explainers.models.inputs.types import Crop, TextPair
from server.http.uploads import encoded, open_picture
from server.jobs.costs import ANSWER, SLOW_SECONDS, Costs
from server.jobs.intake import plan
from server.jobs.job import Job
from server.jobs.map_files import npy, pixels_name
from server.jobs.model_registry import ModelFacts
from server.jobs.store import TENSORS_FILE
from server.schemas.question import ExplainOptions
from server.settings import Settings


class Turn:
    """What the worker's thread does of one explanation at a time. A turn makes one method's maps at least, unless ``quick`` forbids.

    quick     methods that take long are left for another turn
    now       seconds that the device was used for this task, what was done in between left out
    is_over   says after each method whether others go on
    spec      the method that is made now
    """

    def __init__(
        self, job: Job, settings: Settings, costs: Costs, now: Callable[[], float], is_over: Callable[[], bool], quick: bool
    ) -> None:
        self._job, self._settings, self._costs = job, settings, costs
        self._now, self._is_over, self._quick = now, is_over, quick
        self._made = 0
        self._rules: set[tuple[str, str]] = set()  # rule and target, the passes that were made in this turn
        self._since = now()
        self._facts: ModelFacts | None = None
        self.spec: str | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the method that is made now takes long."""
        return self.spec is not None and self._facts is not None and is_slow(self.spec, self._job, self._facts)

    def run(self, model: Any, facts: ModelFacts, cancelled: Callable[[], bool]) -> None:
        """Ask the engine for the maps that are left."""
        self._facts, job, self._since = facts, self._job, self._now()
        options = {name: getattr(job.question, name) for name in ExplainOptions.model_fields}
        assert job.plan is not None
        explain(
            model,
            self._source(),
            job.plan.targets,
            job.left,
            observer=self,
            cancelled=cancelled,
            next_method=self._next,
            side=job.question.side,
            **options,
        )

    def _source(self) -> Image.Image | Crop | Windowed | TextPair | str:
        question = self._job.question
        if question.image is not None:
            picture = open_picture(question.image, self._settings)
            whole = picture if question.window is None else Windowed(picture, *question.window)
            return whole if question.crop is None else Crop(whole, question.crop)
        text = question.text or ""
        return text if question.text_pair is None else TextPair(text, question.text_pair)

    def _next(self, left: list[str]) -> str | None:
        """The method that comes next in this turn; None where it is over."""
        if self._made and (self._job.stopped.is_set() or self._is_over()):
            return None
        self.spec = self._job.next_of(left)
        if self._quick and self.is_slow:
            self.spec = None
        self._made += 1
        return self.spec

    def on_prediction(self, explanation: Any) -> None:
        """The model has answered, for the first time or in a later turn."""
        job, facts = self._job, self._facts
        assert facts is not None
        tokens = _tokens(explanation)
        self._costs.note(facts_name(job), ANSWER, self._took(), tokens)
        document = explanation.to_json()
        self._estimate(document, tokens)
        if job.question.image is not None:
            document["input"]["sha256"] = hashlib.sha256(job.question.image).hexdigest()  # tells whether two are of the same picture
        pixels = getattr(explanation.input, "pixels", None)  # a text has none
        if pixels is not None:
            job.images["input.png"] = encoded(pixels, "PNG")
        job.images[TENSORS_FILE] = save({name: tensor.detach().cpu().contiguous() for name, tensor in explanation.tensors.items()})
        job.predicted(document)
        self._since = self._now()

    def _estimate(self, document: dict[str, Any], tokens: int) -> None:
        job, facts = self._job, self._facts
        assert job.plan is not None
        assert facts is not None
        left, order = list(job.plan.methods), []
        while (spec := job.next_of(left)) is not None:
            left.remove(spec)
            order.append(spec)
        targets = 1 if job.question.side == "text" else max(1, len(document["targets"]))
        job.costs = self._costs.of_methods(facts_name(job), order, facts.methods, tokens, facts.blocks, targets)

    def on_map(self, explanation: Any, attribution: Any) -> None:
        """A map is there."""
        job = self._job
        if attribution.pixels is not None:
            job.images[pixels_name(attribution.method, attribution.target)] = npy(attribution.pixels.numpy())
        after = (attribution.rule, attribution.target) in self._rules
        if attribution.rule is not None:
            self._rules.add((attribution.rule, attribution.target))
        self._costs.note(facts_name(job), attribution.method, self._took(), _tokens(explanation), after_its_rule=after)
        job.mapped(attribution.to_json())

    def _took(self) -> float:
        """Seconds since this was called last."""
        before, self._since = self._since, self._now()
        return max(0.0, self._since - before)


def facts_name(job: Job) -> str:
    """The name under which the costs of a job's model are kept: one side of a CLIP model is not as dear as the other."""
    return f"{job.entry.name} text" if job.question.side == "text" else job.entry.name


def _tokens(explanation: Any) -> int:
    """The length of the input, as costs go by it."""
    shapes = [tensor.shape for name, tensor in explanation.tensors.items() if name == "input_ids"]
    return int(shapes[0].numel()) if shapes else 0


def is_slow(spec: str, job: Job, facts: ModelFacts) -> bool:
    """Whether a method takes so long that others pass it: it is declared to make many passes, and nothing says that they are quick."""
    method_name = parse(spec, blocks=facts.blocks).method.name
    is_declared = any(method["slow"] for method in facts.methods if method["name"] == method_name)
    return is_declared and job.costs.get(spec, SLOW_SECONDS) >= SLOW_SECONDS


def prepare(job: Job, facts: ModelFacts, costs: Costs) -> None:
    """Look at the question for the first time; raises the Problem that is found in it."""
    if job.plan is None:
        job.plan = plan(job.question, facts)
        job.key = job.plan.key
        job.costs = costs.of_methods(facts_name(job), job.plan.methods, facts.methods, 0, facts.blocks)
