"""Plan the passes, run each once, read out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import torch
from torch import Tensor

from explainers.abilities import defaults_of, for_probability, lacks_of, reason_against
from explainers.asking import Asked, Cancelled, checker, content_of
from explainers.errors import ExplainerError
from explainers.methods import METHODS, Request, parse
from explainers.models.base import ImageInput, Input, Model, Prepared, Side, TextInput
from explainers.models.catalogue import doubt
from explainers.precision import conditioned, source
from explainers.recording import Recording
from explainers.result import Attribution, Explanation, TargetInfo
from explainers.rules import GRADIENT_RULES, RULES, Rule
from explainers.targets import Chosen, Contrast, Probability, Target
from explainers.trace import Trace

Methods = Sequence[str | tuple[str, Rule]]


class Observer(Protocol):
    """Whom :func:`explain` tells as it goes: first what the model says, then each map."""

    def on_prediction(self, explanation: Explanation) -> None:
        """Logits, top classes and targets are known; no map is yet."""

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """A map is done, and is in ``explanation.maps``."""


def versions() -> dict[str, str]:
    """The versions that numbers depend on."""

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "source"

    return {"python": platform.python_version(), **{p: of(p) for p in ("vitrine", "torch", "timm", "transformers")}}


def explain(
    model: Model,
    inputs: Input,
    target: Target | Sequence[Target] = None,
    methods: Methods | str | None = None,
    *,
    side: Side | None = None,
    prompts: Sequence[str] | None = None,
    seed: int = 0,
    observer: Observer | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Any:
    """Explain what ``model`` says about ``inputs``: one :class:`Explanation`, or a list of them for a list of inputs
    (or a batch of tensors).

    inputs    PIL image, path, text, a list of these (a batch), or a dict of tensors as ``model.tensors`` gives
    target    None: the top class; a label, an index, :class:`Contrast`, :class:`Probability`; for CLIP a prompt; a list
              of these: several targets of each input
    methods   specs ``read-out[:rule][?option=value]``, or pairs of a spec without a rule and a :class:`Rule` of your own;
              None: those that make sense for the model and the target
    side      CLIP only: whose tokens get the scores, those of the ``image`` (the default) or the words of each prompt (``text``)
    prompts   CLIP only: what else the image is compared with, for the probabilities; None: what the targets name
    seed      for methods that draw at random; each input's draw depends on its place in the batch alone
    observer  told of the prediction and of each map as it is done
    cancelled asked between passes; when true, :class:`Cancelled` is raised

    The model runs forward once, and backward once for each rule and target that the methods need. Rules that carry relevance
    amplify rounding: they run on a second forward pass in float64, and a map that float32 would have changed says by how much.
    Raises ExplainerError for what cannot be done.
    """
    model = model.seen_from(side)
    requests = [] if methods is None else _requests(methods, len(model.blocks))
    check = checker(cancelled)
    with torch.inference_mode(False), torch.enable_grad():
        pixels = any(r.pixels for r in requests)
        asked = Asked(model, inputs, target, prompts=prompts, pixels=pixels, seed=seed, cancelled=cancelled)
        lacks = lacks_of(asked.recording)
        requests, left_out = (requests, []) if requests else _usual(lacks, asked.targets)
        _refuse(requests, lacks, asked)
        explanations = _predictions(asked, requests)
        for explanation in explanations:
            explanation.notes += left_out
            if observer is not None:
                observer.on_prediction(explanation)
        for one, owners in asked.questions():
            for request in requests:
                check()
                trace = asked.trace(one, request.rule, source(asked, request.rule, request.spec))
                maps = _read(request, trace, asked.samples)
                if trace.recording is not asked.recording:
                    maps = conditioned(maps, request.read(asked.trace(one, request.rule)), asked.recording)
                for owner, attribution in zip(owners, maps, strict=True):
                    explanations[owner].maps.append(attribution)
                    if observer is not None:
                        observer.on_map(explanations[owner], attribution)
            asked.forget_signals()
    several = isinstance(inputs, list | tuple) or len(explanations) > 1
    return explanations if several else explanations[0]


def _requests(methods: Methods | str, blocks: int) -> list[Request]:
    specs = [methods] if isinstance(methods, str) else list(methods)
    if not specs:
        raise ExplainerError("The list of methods is empty: name at least one, or pass None for the usual ones.")
    requests = [parse(spec, None, blocks) if isinstance(spec, str) else parse(*spec, blocks) for spec in specs]
    return list({request.spec: request for request in reversed(requests)}.values())[::-1]


def _usual(lacks: dict[str, str], targets: list[Target]) -> tuple[list[Request], list[str]]:
    """The methods where none are named, and a note where some of them know nothing of a target."""
    specs, note = defaults_of(lacks), None
    if any(isinstance(target, Probability) for target in targets):
        specs, note = for_probability(specs)
    return [parse(spec) for spec in specs], [] if note is None else [note]


def _refuse(requests: list[Request], lacks: dict[str, str], asked: Asked) -> None:
    """Raise ExplainerError for what makes no sense, before any work is done on what does."""
    for request in requests:
        reason = reason_against(request.method, lacks)
        if reason is not None:
            raise ExplainerError(f"{request.spec} cannot run here. {reason}")
        for one in asked.chosen:
            if request.rule is not None:
                one.seed(asked.answers, request.rule)


def _predictions(asked: Asked, requests: list[Request]) -> list[Explanation]:
    model, labels = asked.model, asked.labels
    logits = asked.answers.float().cpu()
    probabilities = logits.softmax(-1)
    explanations = []
    for i, (record, notes) in enumerate(zip(asked.seen.inputs, asked.prepared.notes, strict=True)):
        explanation = Explanation(
            model=model.name,
            weights_digest=model.weights_digest,
            input=record,
            labels=labels,
            logits=logits[i],
            probabilities=probabilities[i],
            targets=[],
            methods=[r.spec for r in requests],
            versions=versions(),
            notes=[*notes, *doubt(model.name, float(probabilities[i].max()))],
            prompted=model.kind == "clip",
            tensors={k: v[i : i + 1] if model.kind != "clip" or k == "pixel_values" else v for k, v in asked.tensors.items()},
        )
        if asked.prompts_read is not None:
            for label, prompt_notes in zip(labels, asked.prompts_read.notes, strict=True):
                explanation.notes += [f"{label!r}: {note}" for note in prompt_notes]
        if model.side == "text":
            explanation.prompts = {label: text for label, text in zip(labels, asked.samples, strict=True) if isinstance(text, TextInput)}
        for one in asked.chosen:
            explanation.targets.append(_target_info(explanation, one, i))
        explanation.completeness_of = _completeness(model, asked.prepared, i, labels, asked.chosen[0])
        explanations.append(explanation)
    return explanations


def _target_info(explanation: Explanation, one: Chosen, sample: int) -> TargetInfo:
    info = explanation.class_info(int(one.index[sample]))
    if one.against is not None:
        other = explanation.class_info(int(one.against[sample]))
        return TargetInfo(one.labels[sample], None, None, info.logit - other.logit, None, "logit", info.label, other.label)
    if one.probability:
        return replace(info, label=one.labels[sample], read="probability", of=info.label)
    return replace(info, label=one.labels[sample], read="logit")


def _completeness(model: Model, prepared: Prepared, sample: int, labels: list[str], one: Chosen) -> Callable[[str], float]:
    """A function that records the sample again and adds up its FullGrad terms; it holds the tensors, not the graph."""
    tensors = {k: v[sample : sample + 1] for k, v in prepared.tensors.items()}
    alone = one.only(sample)
    if model.side == "text":  # one prompt, of one image
        labels, alone = list(alone.labels), Chosen(alone.labels, torch.zeros_like(alone.index))

    def completeness(rule: str) -> float:
        if rule not in GRADIENT_RULES:
            raise ExplainerError(f"Completeness is defined for rules that carry gradients: {', '.join(GRADIENT_RULES)}; not {rule!r}.")
        prompts = {} if model.prompt_inputs is None else model.prompt_inputs(labels).tensors
        with torch.inference_mode(False), torch.enable_grad():
            trace = Trace(Recording(model, {**tensors, **prompts}), alone, RULES[rule])
            terms = METHODS["fullgrad"].readout(trace).sum(1) + trace.unplaced
        return float((trace.value() - terms).abs())

    return completeness


def _read(request: Request, trace: Trace, samples: list[ImageInput | TextInput]) -> list[Attribution]:
    """Run one read-out and cut its scores (B, S) into one attribution a sample."""
    started = time.perf_counter()
    scores = request.read(trace).detach()
    error = _error(request, trace, scores)
    scores = scores.float().cpu()
    seconds = time.perf_counter() - started + trace.waited
    mask = trace.mask.cpu()
    attributions = []
    for i, sample in enumerate(samples):
        own = scores[i][mask[i]]
        if not bool(own.isfinite().all()):
            raise ExplainerError(
                f"{request.spec} gave numbers that are not finite for this input in {trace.recording.logits.dtype}: try float32 weights."
            )
        name = request.name
        attributions.append(
            Attribution(
                method=request.spec,
                readout=request.method.name,
                rule=None if request.rule is None else request.rule.name,
                title=name.title,
                by=name.by,
                year=name.year or None,
                paper=name.paper,
                target=trace.chosen.labels[i],
                scores=own,
                content=content_of(sample, trace.layout, len(own)),
                patches=trace.layout.grid,
                text=sample if isinstance(sample, TextInput) else None,
                signed=request.method.signed,
                class_specific=request.method.class_specific,
                seconds=seconds,
                completeness_error=None if error is None else float(error[i]),
                notes=tuple(dict.fromkeys(trace.notes)),
                pixels=None if trace.pixels is None else trace.pixels[i].detach().float().cpu(),
            )
        )
    return attributions


def _error(request: Request, trace: Trace, scores: Tensor) -> Tensor | None:
    """Completeness error (B,) of a read-out that promises to sum to the explained number; its own account where it has one."""
    if not request.method.complete:
        return None
    if trace.error is not None:
        return trace.error
    total = scores.sum(1)
    if request.method.name == "fullgrad":
        total = total + trace.unplaced
    return (trace.value() - total).abs()


__all__ = [
    "Cancelled",
    "Contrast",
    "Explanation",
    "Observer",
    "Probability",
    "explain",
    "versions",
]
