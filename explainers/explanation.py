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
from explainers.errors import ExplainerError
from explainers.evaluating import evaluating
from explainers.methods import METHODS, Request, parse
from explainers.models.base import ImageInput, Input, Layout, Model, Prepared, Side, TextInput
from explainers.precision import Sources, conditioned
from explainers.recording import Recording
from explainers.result import Attribution, Explanation, TargetInfo
from explainers.rules import GRADIENT_RULES, RULES, Rule
from explainers.targets import Chosen, Contrast, Probability, Target, as_list, choose, prompts_of
from explainers.trace import Answer, Rerun, Trace

Methods = Sequence[str | tuple[str, Rule]]


class Cancelled(Exception):
    """The caller's ``cancelled`` said so; nothing more was computed."""


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
    seed      for methods that draw at random; each input's draw depends on its place in the batch alone
    observer  told of the prediction and of each map as it is done
    cancelled asked between passes; when true, :class:`Cancelled` is raised

    The model runs forward once, and backward once for each rule and target that the methods need. Rules that carry relevance
    amplify rounding: they run on a second forward pass in float64, and a map that float32 would have changed says by how much.
    Raises ExplainerError for what cannot be done.
    """
    targets = as_list(target)
    model = model.seen_from(side)
    requests = [] if methods is None else _requests(methods, len(model.blocks))
    prepared = model.prepare(inputs)
    tensors, labels, prompts = prepared.tensors, list(model.labels), None
    if model.prompt_inputs is not None:
        labels = prompts_of(targets, alone=model.side == "text")
        prompts = model.prompt_inputs(labels)
        tensors = {**tensors, **prompts.tensors}
    check = _checker(cancelled)
    check()
    with torch.inference_mode(False), torch.enable_grad():
        recording = Recording(model, tensors, pixels=any(r.pixels for r in requests))
        lacks = lacks_of(recording)
        requests, left_out = (requests, []) if requests else _usual(lacks, targets)
        answers = recording.logits.detach()
        answers = answers.T if model.side == "text" else answers
        chosen = [choose(t, labels, answers) for t in targets]
        _refuse(requests, lacks, answers, chosen)
        samples = [_without_padding(r, m.tolist()) for r, m in zip(_samples(model, prepared, prompts), recording.mask, strict=True)]
        inputs_seen = prepared.inputs if model.side == "text" else samples
        explanations = _predictions(model, replace(prepared, inputs=tuple(inputs_seen)), labels, answers, chosen, requests)
        for i, explanation in enumerate(explanations):
            explanation.tensors = {k: v[i : i + 1] if k in prepared.tensors else v for k, v in tensors.items()}
            explanation.notes += left_out
            if prompts is not None:
                explanation.notes += [f"{label!r}: {note}" for label, notes in zip(labels, prompts.notes, strict=True) for note in notes]
            if model.side == "text":
                explanation.prompts = {label: text for label, text in zip(labels, samples, strict=True) if isinstance(text, TextInput)}
        if observer is not None:
            for explanation in explanations:
                observer.on_prediction(explanation)
        seeds = tuple(seed + i for i in range(len(samples)))
        content = torch.zeros_like(recording.mask)
        for own, mask, sample in zip(content, recording.mask, samples, strict=True):
            own[mask] = _content(sample, recording.layout, int(mask.sum())).to(own.device)
        sources = Sources(model, tensors, recording, any(r.pixels for r in requests))
        rerun, answer = _rerunner(model, tensors, check), _answerer(model, tensors, check)
        for one, owners in _questions(model, chosen, labels, explanations):
            for request in requests:
                check()
                trace = Trace(sources.of(request), one, request.rule, seeds=seeds, rerun=rerun, answer=answer, content=content)
                maps = _read(request, trace, samples)
                if trace.recording is not recording:
                    maps = conditioned(maps, request.read(Trace(recording, one, request.rule, content=content)), recording)
                for explanation, attribution in zip(owners, maps, strict=True):
                    explanation.maps.append(attribution)
                    if observer is not None:
                        observer.on_map(explanation, attribution)
            sources.forget_signals()
    several = isinstance(inputs, list | tuple) or len(explanations) > 1
    return explanations if several else explanations[0]


def _samples(model: Model, prepared: Prepared, prompts: Prepared | None) -> tuple[ImageInput | TextInput, ...]:
    """What the samples of the recording are: the inputs, or on the text side the prompts."""
    return prompts.inputs if model.side == "text" and prompts is not None else prepared.inputs


def _without_padding(record: ImageInput | TextInput, mask: list[bool]) -> ImageInput | TextInput:
    return record.without_padding(mask) if isinstance(record, TextInput) else record


def _questions(
    model: Model, chosen: list[Chosen], labels: list[str], explanations: list[Explanation]
) -> list[tuple[Chosen, list[Explanation]]]:
    """What is asked of the recording, one backward pass a rule each, and for each sample the explanation that its map belongs to.

    The samples of the image side are the inputs, of which each target is asked. Those of the text side are the prompts, of which each
    image is asked.
    """
    if model.side == "image":
        return [(one, explanations) for one in chosen]
    return [
        (Chosen(tuple(labels), torch.full((len(labels),), i, device=model.device)), [explanation] * len(labels))
        for i, explanation in enumerate(explanations)
    ]


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


def _refuse(requests: list[Request], lacks: dict[str, str], logits: Tensor, chosen: list[Chosen]) -> None:
    """Raise ExplainerError for what makes no sense, before any work is done on what does."""
    for request in requests:
        reason = reason_against(request.method, lacks)
        if reason is not None:
            raise ExplainerError(f"{request.spec} cannot run here. {reason}")
        for one in chosen:
            if request.rule is not None:
                one.seed(logits, request.rule)


def _checker(cancelled: Callable[[], bool] | None) -> Callable[[], None]:
    def check() -> None:
        if cancelled is not None and cancelled():
            raise Cancelled

    return check


def _rerunner(model: Model, tensors: dict[str, Tensor], check: Callable[[], None]) -> Rerun:
    def rerun(
        repeats: int = 1, *, change: Callable[[str, Tensor], Tensor] | None = None, kind: type[Recording] = Recording, **how: Any
    ) -> Recording:
        check()
        own = {k: v.repeat_interleave(repeats, 0) if model.is_sample(k) else v for k, v in tensors.items()}
        if change is not None:
            own = {k: change(k, v) for k, v in own.items()}
        return kind(model, own, **how)

    return rerun


def _answerer(model: Model, tensors: dict[str, Tensor], check: Callable[[], None]) -> Answer:
    def answer(sample: int, repeats: int, change: Callable[[str, Tensor], Tensor]) -> Tensor:
        check()
        own = {k: v[sample : sample + 1].repeat_interleave(repeats, 0) if model.is_sample(k) else v for k, v in tensors.items()}
        with torch.no_grad(), evaluating(model.module):
            return model.forward({k: change(k, v) for k, v in own.items()})

    return answer


def _predictions(
    model: Model, prepared: Prepared, labels: list[str], answers: Tensor, chosen: list[Chosen], requests: list[Request]
) -> list[Explanation]:
    logits = answers.float().cpu()
    probabilities = logits.softmax(-1)
    explanations = []
    for i, (record, notes) in enumerate(zip(prepared.inputs, prepared.notes, strict=True)):
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
            notes=list(notes),
            prompted=model.kind == "clip",
        )
        for one in chosen:
            explanation.targets.append(_target_info(explanation, one, i))
        explanation.completeness_of = _completeness(model, prepared, i, labels, chosen[0])
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
                content=_content(sample, trace.layout, len(own)),
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


def _content(record: ImageInput | TextInput, layout: Layout, tokens: int) -> Tensor:
    """Which of the tokens stand for patches or words."""
    if isinstance(record, TextInput):
        return torch.tensor([not t.special for t in record.tokens], dtype=torch.bool)
    content = torch.zeros(tokens, dtype=torch.bool)
    rows, cols = layout.grid or (0, 0)
    content[layout.prefix : layout.prefix + rows * cols] = True
    return content


__all__ = [
    "Cancelled",
    "Contrast",
    "Explanation",
    "Observer",
    "Probability",
    "explain",
    "versions",
]
