"""``explain``: plan the passes that the methods need, run each once, and compute the maps."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, count
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, overload

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from explainers.autograd.attention_trial import trial_plan
from explainers.autograd.memory import has_long_rows
from explainers.autograd.recomputation import ReadsInsideError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, gradient_rules
from explainers.autograd.signals import ALL
from explainers.errors import ExplainerError, MemoryShortageError, circumstances
from explainers.installation import DISTRIBUTION, package_version
from explainers.methods import METHODS, Request, parse
from explainers.methods.requests import Methods, read_methods
from explainers.methods.requirements import defaults_of, for_probability, lacks_of, lacks_of_input, missing_requirements, reason_against
from explainers.models.autocast import autocast_dtype
from explainers.models.eval_mode import with_gradients
from explainers.models.inputs.types import ImageInput, Input, Prepared, Side, Single, TextInput
from explainers.models.model import Model
from explainers.models.outputs import notes_on_outputs
from explainers.models.padding import of_equal_length
from explainers.models.registers.moving import OutlierTokens, view_of
from explainers.models.tf32 import asking_for_tf32, products_in_float32
from explainers.models.token_sources import TokenSources
from explainers.pipeline.abstentions import InputAbstentions
from explainers.pipeline.batches import MapBatch, explain_batches
from explainers.pipeline.long_texts import LONG_TEXTS, LongTexts, explain_long, read_windows
from explainers.pipeline.memory_steps import explain_in_steps, words_of_kept
from explainers.pipeline.places import ask_at, notes_on_model, single_inputs, with_chat_template
from explainers.pipeline.precision import MakeMaps, compute_maps, notes_on_scores, unit_of
from explainers.pipeline.sinks import sink_notes
from explainers.plugins import plugin_versions
from explainers.records.outliers import added_token_notes, outlier_patches
from explainers.records.result import Attribution, Explanation, Numerics
from explainers.records.session import Cancelled, Precision, Session, check_seed, checker, content_of
from explainers.records.targets import Contrast, Probability, ResolvedTarget, Target, TargetLike, resolved_class
from explainers.records.trace import MethodOutput, Trace
from explainers.self_check.opening import model_of

_PIXELS_OF_CLIPS = "Of a clip, the pixels of each patch are summed over the frames that one token is made of, and not shown one by one."
#: The types of weights in which rounding shows in maps, with the decimal digits that their numbers have.
_FEW_DIGITS = {torch.float16: "3", torch.bfloat16: "2"}
#: What is added to the number that scores promise to add up to, where the model has tokens of its own.
_WITH_OWN = ", together with what is at the tokens that the model adds to the text"
#: Needs of a method that are met only by what is inside the blocks.
_NEEDS_INSIDE = frozenset(("attention", "attention_input", "residual", "parts", "one_attention", "product"))
_MOST_UNREAD = 5  # words that a note quotes
#: Given the specs that are left: the one that comes next, or None where no more is wanted.
NextMethod = Callable[[list[str]], str | None]


class Observer(Protocol):
    """An object whose methods :func:`explain` calls during its work: first with the model's answer, then with each map."""

    def on_prediction(self, explanation: Explanation) -> None:
        """Receive ``explanation`` when logits, top classes and targets are known, before any map."""

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """Receive the map ``attribution`` when it is done; ``explanation.maps`` holds it already."""


def versions() -> dict[str, str]:
    """Return the versions of Python, Vitrine, libraries and plugins that numbers depend on, by name."""
    packages = {"vitrine": DISTRIBUTION, "torch": "torch", "timm": "timm", "transformers": "transformers"}
    known = {package: package_version(name) or "source" for package, name in packages.items()}
    return {"python": platform.python_version(), **known, **plugin_versions()}


#: The forms of a model: an opened one, or anything that :func:`explainers.open` takes.
Explained = Model | nn.Module | str | Path | Sequence[str | Path] | Mapping[str, Tensor]


class _Options(TypedDict, total=False):
    side: Side | None
    at: str | None
    reference: Single | None
    chat: bool
    prompts: Sequence[str] | None
    seed: int
    long_texts: LongTexts
    observer: Observer | None
    cancelled: Callable[[], bool] | None
    precision: Precision
    next_method: NextMethod | None
    outlier_tokens: OutlierTokens


@overload
def explain(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
    model: Explained,
    inputs: Single,
    target: TargetLike | Sequence[TargetLike] = None,
    methods: Methods | str | None = None,
    **options: Unpack[_Options],
) -> Explanation: ...
@overload
def explain(
    model: Explained,
    inputs: Prepared | Sequence[Single],
    target: TargetLike | Sequence[TargetLike] = None,
    methods: Methods | str | None = None,
    **options: Unpack[_Options],
) -> list[Explanation]: ...
@overload
def explain(
    model: Explained,
    inputs: Mapping[str, Tensor],
    target: TargetLike | Sequence[TargetLike] = None,
    methods: Methods | str | None = None,
    **options: Unpack[_Options],
) -> Explanation | list[Explanation]: ...
@overload
def explain(
    model: Explained,
    inputs: DataLoader[Any],
    target: TargetLike | Sequence[TargetLike] = None,
    methods: Methods | str | None = None,
    **options: Unpack[_Options],
) -> Iterator[MapBatch]: ...
def explain(
    model: Explained,
    inputs: Input | Prepared | DataLoader[Any],
    target: TargetLike | Sequence[TargetLike] = None,
    methods: Methods | str | None = None,
    *,
    side: Side | None = None,
    at: str | None = None,
    reference: Single | None = None,
    chat: bool = False,
    prompts: Sequence[str] | None = None,
    seed: int = 0,
    long_texts: LongTexts = "windows",
    observer: Observer | None = None,
    cancelled: Callable[[], bool] | None = None,
    precision: Precision = "auto",
    next_method: NextMethod | None = None,
    outlier_tokens: OutlierTokens = "keep",
) -> Explanation | list[Explanation] | Iterator[MapBatch]:
    """Explain what ``model`` says about ``inputs``: one :class:`Explanation`, or a list of them for a list of inputs
    (or a batch of tensors).

    model     a result of :func:`explainers.load`, :func:`wrap` or :func:`open`, or anything that ``open`` takes: a torch module is opened
              once, a name or a path at each call
    inputs    PIL image, path, :class:`Crop` of one, text, a list of these (a batch), a dict of tensors from ``model.tensors``, or a result
              of ``model.prepare``; a DataLoader of tensors, whose batches become :class:`MapBatch` one by one, with a bar
    target    None: the top class, of ``prompts`` the one that fits best; a label, an index, :class:`Contrast`, :class:`Probability`; for
              CLIP a prompt; a list of these: several targets of each input
    methods   specs ``method[:rule][?option=value]``, a list or one text with commas, or pairs of a spec without a rule and your own
              :class:`Rule`; a map that is spelt in two ways is computed once, and found by both; different rules of the same name get
              numbers (``custom-2``); None: those that make sense for the model and the target
    side      CLIP only: whose tokens get the scores, those of the ``image`` (the default) or the words of each prompt (``text``)
    at        models with a task only (:data:`explainers.TASKS`): which place of the output is asked about, such as a word, a box or a
              patch, as docs/tasks.md lists them; None: the one that the model is surest of. Each of several inputs is then explained alone
    reference  features without a head only: a second input of the same kind, which the first is compared with
    chat      language models that write only: lay the tokenizer's chat template around the prompt. The template's tokens get scores, but
              they are marked (their ``part`` is ``TEMPLATE``), never removed, and left out of maps
    prompts   CLIP only: all prompts with which the image is compared, for the probabilities; None: those that the targets name
    seed      for methods that draw at random; the draw for an input depends only on this and its place in the batch
    long_texts  what is done with a text that is longer than the model takes: ``windows`` reads all of it in overlapping windows (the answer
                is the mean of their logits, a score the mean over the windows that contain its token); ``cut`` reads only the part that the
                model was trained to read, and a note says what was left out. A pair of texts, and prompts, are always cut
    observer  an :class:`Observer`, told of the prediction and of each map when it is done
    cancelled  asked between passes; when true, :class:`Cancelled` is raised
    precision  ``auto``: maps of relevance are computed in the model's own precision, and in float64 where their estimated rounding error is
               too large (over a thousandth of the largest score: docs/limits.md); ``double``: all of them in float64; ``tf32``: as
               ``auto``, and a GPU may round products of float32 to TF32, which is off otherwise. Each map says which precision it has, and
               why
    next_method  function from the remaining specs to the one that is computed next. If it returns None, no further method is computed. A
                 method's maps for all targets then come together. With several targets, and for a text in windows, the methods of the same
                 rule come with it: they share its passes. None: all of ``methods`` in their order

    outlier_tokens  images only: ``move`` explains the model without outlier tokens (test-time registers, Jiang et al., 2025), as
              :func:`explainers.without_outlier_tokens` makes it; ``move_published`` does so as the published code does; the register
              neurons must be known

    The model runs forward once, and backward once for each rule and target that the methods need; once more in float64 if a map of
    relevance needs it. Raises ExplainerError for an input, a target or a method that does not fit the model.
    """
    opened = model_of(model)
    with circumstances([], question=_question(inputs, target, methods), model=_facts(opened)):
        side_model, whole = view_of(opened, outlier_tokens).seen_from(side), check_seed(seed)
        how: dict[str, Any] = {
            "long_texts": long_texts,
            "observer": observer,
            "cancelled": cancelled,
            "precision": precision,
            "next_method": next_method,
        }

        def ask(given: Any) -> Any:
            if chat:
                given = with_chat_template(side_model, given)
            is_placed = side_model.task is None or side_model.reading is not None
            if is_placed and at is None and reference is None:
                return _explain(side_model, given, target, methods, prompts=prompts, seed=whole, **how)
            singles = single_inputs(side_model, given)
            explanations = []
            for single in singles:
                place_model, prepared = ask_at(side_model, single, at, reference)
                explanations += _explain(place_model, prepared, target, methods, prompts=prompts, seed=whole, **how)
            return explanations if len(singles) > 1 or isinstance(given, list | tuple) else explanations[0]

        if not isinstance(inputs, DataLoader):
            result: Explanation | list[Explanation] = ask(inputs)
            return result
        if isinstance(target, list | tuple):
            raise ExplainerError("over a DataLoader one target is explained at a time: send one, or None for each sample's top class")
        return explain_batches(lambda tensors: _listed(ask(tensors)), side_model, inputs)


def _listed(result: Explanation | list[Explanation]) -> list[Explanation]:
    return result if isinstance(result, list) else [result]


def _question(inputs: object, target: object, methods: object) -> str:
    """Return one line that describes a call of :func:`explain` for the report of a failure: the number of inputs, the type of the target,
    and the methods, without the input itself.
    """
    count = f"{len(inputs)} inputs" if isinstance(inputs, list | tuple) else f"a {type(inputs).__name__}"
    return (
        f"explain({count}, target of type {type(target).__name__}, methods={methods if isinstance(methods, str | list | tuple) else None})"
    )


def _facts(model: Model) -> list[str]:
    """Return facts about the model, without the names of its classes, for the report of a failure."""
    facts = [] if model.report is None else [f"{fact.name}: {fact.value}" for fact in model.report.facts if fact.name != "labels"]
    return facts or [f"{type(model.module).__name__}, {model.kind}, {len(model.blocks)} blocks"]


def _explain(
    model: Model,
    inputs: Input | Prepared,
    target: TargetLike | Sequence[TargetLike],
    methods: Methods | str | None,
    *,
    prompts: Sequence[str] | None,
    seed: int,
    long_texts: LongTexts,
    observer: Observer | None,
    cancelled: Callable[[], bool] | None,
    precision: Precision,
    next_method: NextMethod | None,
) -> Any:
    if long_texts not in LONG_TEXTS:
        raise ExplainerError(f"long_texts={long_texts!r}: choose one of {', '.join(LONG_TEXTS)}.")
    if long_texts == "windows" and (windows_of_inputs := read_windows(model, inputs)):
        explain_batch = partial(explain, model, methods=methods, cancelled=cancelled, precision=precision)
        rounds = None if next_method is None else partial(_rounds, _named_requests(methods, model), next_method)
        of_windows: dict[str, Any] = {"observer": observer, "check": checker(cancelled), "rounds": rounds}
        return explain_long(explain_batch, model, inputs, windows_of_inputs, target, seed=seed, **of_windows)
    requests, spellings = ([], {}) if methods is None else read_methods(methods, len(model.blocks))
    prepared = inputs if isinstance(inputs, Prepared) else model.prepare(inputs)
    several = isinstance(inputs, list | tuple | Prepared) or len(prepared) > 1
    if isinstance(inputs, Prepared) or len(prepared) > 1:
        parts = of_equal_length(model, prepared)  # more than one where padding changes the answers
        if len(parts) > 1:
            options: dict[str, Any] = {"long_texts": long_texts, "observer": observer, "cancelled": cancelled, "precision": precision}
            options |= {"next_method": next_method, "prompts": prompts}
            seeds = accumulate(map(len, parts), initial=seed)  # those of a row's place in the whole batch
            return list(
                chain(*(_explain(model, part, target, methods, seed=at, **options) for part, at in zip(parts, seeds, strict=False)))
            )
        (prepared,) = parts
    options = {"prompts": prompts, "cancelled": cancelled, "precision": precision}
    work = _Work(model, prepared, target, requests, spellings, seed, observer, next_method, options)
    with with_gradients(), asking_for_tf32(precision == "tf32"), products_in_float32():
        reads_inside = not requests or any(_reads_inside(model, prepared.tensors, request) for request in requests)
        explain_in_steps(model, prepared.tensors, len(prepared), work.explain_part, reads_inside)
    explanations = [work.explanations[i] for i in range(len(prepared))]
    return explanations if several else explanations[0]


def _reads_inside(model: Model, tensors: Mapping[str, Tensor], request: Request) -> bool:
    """Return whether a ``request`` reads what is inside the blocks of ``model`` where it must be kept: not attention maps of a long text
    that the method reads some queries at a time.
    """
    method = request.method
    if not (method.needs & _NEEDS_INSIDE or method.reads >= ALL):
        return False
    if not method.by_rows or request.options.get("integrated") or not has_long_rows(model, tensors):
        return True
    plan = trial_plan(model, Recording)
    return plan is None or not plan.has_usual_maps


@dataclass(eq=False)
class _Work:
    """The state of explaining a batch, some of its inputs at a time: explanations that are finished are kept when memory runs out.

    model, prepared, target, requests, seed  what is explained, and by which methods
    spellings     the spec that was asked for, by the spec of its request
    observer, next_method  what is called with each map, and what chooses the next method
    options       further arguments of :class:`Session`
    explanations  the explanations that were begun, by the index of their input
    """

    model: Model
    prepared: Prepared
    target: TargetLike | Sequence[TargetLike]
    requests: list[Request]
    spellings: dict[str, str]
    seed: int
    observer: Observer | None
    next_method: NextMethod | None
    options: dict[str, Any]
    explanations: dict[int, Explanation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left_out: list[str] | None = None  # notes on default methods; None: not chosen yet
        self._groups: Iterator[list[Request]] | None = None
        self._chosen_groups: list[list[Request]] = []  # so far: those of the first inputs are those of all
        self._steps_done: Counter[int] = Counter()  # by input, the methods whose maps it has, once for each target

    def explain_part(self, first: int, number: int, recomputed: bool) -> None:
        """Explain ``number`` of the inputs from ``first`` on, as far as they are not explained yet; ``recomputed`` as in
        :class:`Session`.
        """
        rows, check = self.prepared.rows(first, number), checker(self.options["cancelled"])
        pixels = any(request.pixels for request in self.requests)
        session = Session(self.model, rows, self.target, pixels=pixels, seed=self.seed + first, recomputed=recomputed, **self.options)
        lacks = missing_requirements(self.model) if recomputed else lacks_of(session.recording)
        of_input = lacks_of_input(self.model, rows.tensors, first, len(self.prepared))
        lacks = of_input | lacks
        if self._left_out is None:
            self._left_out = [] if self.requests else self._choose_methods(lacks, of_input, session)
        session.plan(reads for request in self.requests for reads in request.fields.items())
        _check_requests(self.requests, lacks, session)
        if first not in self.explanations:
            for i, explanation in enumerate(_make_explanations(session, self.requests, self.spellings), first):
                self.explanations[i] = explanation
                explanation.notes += self._left_out
                if self.observer is not None:
                    self.observer.on_prediction(explanation)
        targets_and_owners = session.targets_and_rows()
        steps: Counter[int] = Counter()
        for group in self._groups_of_requests(alone=len(targets_and_owners) == 1):
            for session_target, owners in targets_and_owners:
                for request in group:
                    indices = [first + owner for owner in owners]
                    steps.update(set(indices))
                    if all(steps[i] <= self._steps_done[i] for i in indices):
                        continue  # done before memory ran out
                    check()
                    make_maps = partial(_maps_of_samples, request, session.samples)
                    maps = self._compute(session, session_target, request, make_maps)
                    self._steps_done.update(set(indices))
                    for i, attribution in zip(indices, maps, strict=True):
                        self.explanations[i].maps.append(attribution)
                        if self.observer is not None:
                            self.observer.on_map(self.explanations[i], attribution)
                if len(targets_and_owners) > 1:
                    session.forget_signals()
        session.forget_signals()

    def _choose_methods(self, lacks: dict[str, str], of_input: dict[str, str], session: Session) -> list[str]:
        """Request the default methods for what the model ``lacks``, ``of_input`` for this input alone, and return notes on those that are
        left out.
        """
        self.requests, notes = _choose_defaults(lacks, session.targets)
        return notes + [f"Methods that are usually computed are left out. {reason}" for reason in of_input.values()]

    def _groups_of_requests(self, alone: bool) -> Iterator[list[Request]]:
        """Yield the requests in groups that are computed together, in the order that ``next_method`` chose for the first inputs. ``alone``:
        one request in each group.
        """
        if self._groups is None:
            self._groups = iter([self.requests]) if self.next_method is None else _rounds(self.requests, self.next_method, alone=alone)
        for number in count():
            if number == len(self._chosen_groups):
                group = next(self._groups, None)
                if group is None:
                    return
                self._chosen_groups.append(group)
            yield self._chosen_groups[number]

    def _compute(self, session: Session, target: ResolvedTarget, request: Request, make_maps: MakeMaps) -> list[Attribution]:
        """Compute the maps of one ``request`` for one ``target`` of the recorded pass in ``session``, one map for each sample, by
        ``make_maps``. Raises MemoryShortageError if the method reads values inside blocks, which are not kept when memory is short.
        """
        try:
            return compute_maps(session, target, request.rule, request.read, make_maps)
        except ReadsInsideError as error:
            raise MemoryShortageError(f"{request.spec} cannot run here: {error}. {words_of_kept(session.model, session.tensors)}") from None


def _named_requests(methods: Methods | str | None, model: Model) -> list[Request]:
    """Parse ``methods``, specs for a text in windows, which are computed in several rounds, into requests for ``model``. Raises
    ExplainerError for None, and for a rule without a name, which a later round could not ask for again.
    """
    if methods is None:
        raise ExplainerError("next_method chooses among methods of a text in windows: name them.")
    requests = read_methods(methods, len(model.blocks))[0]
    if any(request.rule is not None and RULES.get(request.rule.name) != request.rule for request in requests):
        raise ExplainerError("next_method goes with rules that have a name: leave it out for a text in windows and a rule of your own.")
    return requests


def _rounds(requests: Sequence[Request], next_method: NextMethod, alone: bool = False) -> Iterator[list[Request]]:
    """Yield lists of requests that are computed together, in the order that ``next_method`` chooses. ``alone``: each list holds one
    request; else requests that share the backward passes of one rule are in one list, unless their method is slow.
    """
    remaining = list(requests)
    while remaining:
        spec = next_method([request.spec for request in remaining])
        if spec is None:
            return
        first_request = next(request for request in remaining if request.spec == spec)
        same_passes = [request for request in remaining if request.rule == first_request.rule and not request.method.slow]
        is_shared = not alone and first_request.rule is not None and not first_request.method.slow
        group = [first_request, *(request for request in same_passes if request is not first_request)] if is_shared else [first_request]
        remaining = [request for request in remaining if request not in group]
        yield group


def _choose_defaults(lacks: dict[str, str], targets: list[Target]) -> tuple[list[Request], list[str]]:
    """Return the default methods for a model that ``lacks`` these needs (need -> reason), and notes on those that cannot explain the
    ``targets``.
    """
    specs, note = defaults_of(lacks), None
    if any(target.explains == "probability" for target in targets):
        specs, note = for_probability(specs)
    return [parse(spec) for spec in specs], [] if note is None else [note]


def _check_requests(requests: list[Request], lacks: dict[str, str], session: Session) -> None:
    """Raise ExplainerError if one of ``requests`` cannot run for the recorded pass in ``session``, or makes no sense for its targets,
    before any method is computed. ``lacks`` says by requirement why the model does not meet it.
    """
    for request in requests:
        reason = reason_against(request.method, lacks, request.options)
        if reason is not None:
            raise ExplainerError(f"{request.spec} cannot run here. {reason}")
        for target in session.chosen:
            if request.rule is not None:
                target.output_gradient(session.answers, request.rule)


def _unread_words(session: Session, i: int) -> list[str]:
    """Return a note, in a list, on the words and signs of input number ``i`` of ``session``, a text, that are not in the model's
    vocabulary, so that it reads the same in place of each.
    """
    record, unknown_id = session.prepared.inputs[i], session.model.details.get("unknown_token_id")
    ids = session.tensors.get("input_ids")
    if unknown_id is None or ids is None or session.model.kind == "clip" or type(record) is not TextInput:
        return []
    unread = dict.fromkeys(word.text for word in record.words if any(int(ids[i, token]) == unknown_id for token in word.tokens))
    if not unread:
        return []
    more = f" and {len(unread) - _MOST_UNREAD} more" if len(unread) > _MOST_UNREAD else ""
    quoted = ", ".join(f"“{word}”" for word in list(unread)[:_MOST_UNREAD])
    return [f"The model cannot read {quoted}{more}: not in its vocabulary."]


def _make_explanations(session: Session, requests: list[Request], spellings: dict[str, str]) -> list[Explanation]:
    model, labels = session.model, session.labels
    logits = session.answers.float().cpu()
    probabilities = model.calibration.probabilities(logits, model.output)
    explanations = []
    for i, (record, notes) in enumerate(zip(session.unpadded_inputs.inputs, session.prepared.notes, strict=True)):
        explanation = Explanation(
            model=model.name,
            weights_digest=model.weights_digest,
            input=record,
            labels=labels,
            logits=logits[i],
            probabilities=probabilities[i],
            targets=[],
            methods=[r.spec for r in requests],
            spellings=spellings,
            versions=versions(),
            notes=[
                *notes_on_model(model),
                *notes,
                *_unread_words(session, i),
                *notes_on_outputs(logits[i], model.output, model.head_activation),
            ],
            prompted=model.kind == "clip",
            output=model.output,
            task=None if model.task is None else model.task.name,
            place=None if model.reading is None else model.reading.place,
            places=model.places,
            outliers=outlier_patches(session.recording, i) if model.side == "image" else None,
            tensors={
                k: v[i : i + 1] if not model.reads_pictures and (model.kind != "clip" or k == "pixel_values") else v
                for k, v in session.tensors.items()
            },
        )
        if session.prepared_prompts is not None:
            for label, prompt_notes in zip(labels, session.prepared_prompts.notes, strict=True):
                explanation.notes += [f"{label!r}: {note}" for note in prompt_notes]
        if model.side == "text":
            explanation.prompts = {label: text for label, text in zip(labels, session.samples, strict=True) if isinstance(text, TextInput)}
        abstentions = InputAbstentions(session, explanation, i)
        explanation.abstention = abstentions.judge_answer()
        for target in session.chosen:
            explanation.targets.append(replace(explanation.target_info(target, i), abstention=abstentions.judge_target(target)))
        explanation.completeness_of = _make_completeness(model, session.prepared, i, labels, session.chosen)
        explanations.append(explanation)
    return explanations


@dataclass(frozen=True, eq=False)
class _Completeness:
    """A function that records a sample again and returns how far its FullGrad terms miss a target. It holds the tensors and the model, so
    it is left out when an explanation is pickled.
    """

    model: Model
    tensors: dict[str, Tensor]
    labels: list[str]
    targets: list[ResolvedTarget]

    def __call__(self, rule: str, number: int) -> float:
        model, chosen, compared = self.model, self.targets[number], self.labels
        if model.side == "text":  # one prompt, of one image
            chosen, compared = resolved_class(chosen.labels, torch.zeros(1, dtype=torch.long)), list(chosen.labels)
        if rule not in gradient_rules():
            raise ExplainerError(
                f"Completeness is not defined for the rule {rule!r}: choose one that carries gradients, {', '.join(gradient_rules())}."
            )
        prompts = {} if model.prompt_inputs is None else model.prompt_inputs(compared).tensors
        with with_gradients():
            trace = Trace(Recording(model, {**self.tensors, **prompts}), chosen, RULES[rule])
            terms = METHODS["fullgrad"].read(trace).scores.sum(1) + trace.unplaced
        return float((trace.account() - terms).abs())


def _make_completeness(
    model: Model, prepared: Prepared, sample: int, labels: list[str], targets: Sequence[ResolvedTarget]
) -> _Completeness:
    whole = model.reads_pictures  # a picture in a text is one sample, whatever the first axis of its tensors is
    tensors = {k: v if whole else v[sample : sample + 1] for k, v in prepared.tensors.items()}
    return _Completeness(model, tensors, labels, [target.only(sample) for target in targets])


def _remedy(trace: Trace) -> str:
    """Return what to do, or why it is so, where a method gives numbers that are not finite."""
    recording = trace.recording
    if recording.logits.dtype not in (torch.float32, torch.float64):
        return "try float32 weights."
    if not bool(recording.logits.isfinite().all()):
        return "check the weights of the model."
    reason = missing_requirements(recording.model).get("attention", "choose another method or another rule.")
    return f"the model's own answer is finite, so that its weights are not at fault. {reason[0].upper()}{reason[1:]}"


def _maps_of_samples(
    request: Request, samples: list[ImageInput | TextInput], trace: Trace, output: MethodOutput | None = None
) -> list[Attribution]:
    """Run the method of ``request`` on ``trace`` and return one map for each of ``samples``, the records of its inputs; ``output`` is the
    method's output, if it is known already.
    """
    started = time.perf_counter()
    output = request.read(trace) if output is None else output
    scores, is_difference = output.scores.detach(), trace.chosen.halves is not None
    if trace.chosen.target.note is not None:
        trace.note(trace.chosen.target.note)
    error = output.error if output.error is not None or is_difference else _completeness_error(request, trace, scores, output.own_sum)
    scores, all_sizes, all_pixels = scores.float().cpu(), _on_cpu(output.sizes), _on_cpu(output.pixels)  # once for all samples
    errors = None if error is None else error.tolist()
    own_sums = None if output.own_sum is None or is_difference else output.own_sum.tolist()
    seconds = time.perf_counter() - started + trace.waited
    mask = trace.cpu_mask
    if request.method.family != "control" and (note := _note_on_digits(trace)) is not None:
        trace.note(note)
    attributions = []
    for i, sample in enumerate(samples):
        values = scores[i][mask[i]]
        if not bool(values.isfinite().all()):
            dtype = trace.recording.logits.dtype
            raise ExplainerError(f"{request.spec} gave numbers that are not finite for this input in {dtype}: {_remedy(trace)}")
        sizes = None if all_sizes is None else all_sizes[i][mask[i]]
        name, content = request.name, content_of(sample, trace.layout, len(values))
        notes_on_sink, notes_on_added = sink_notes(sample, values, request.method.signed), added_token_notes(values, trace.layout)
        own_sum = 0.0 if own_sums is None else own_sums[i]
        notes_on_own = _notes_on_own_tokens(trace.recording.real_tokens.sources, own_sum, float(values.sum()))
        notes_of_scores = tuple(notes_on_scores(values, content, sizes, unit_of(trace.layout.grid is not None, sample)))
        pixels = None if all_pixels is None else all_pixels[i].float()
        notes_on_pixels: tuple[str, ...] = ()
        if pixels is not None and isinstance(sample, ImageInput) and trace.recording.model.details.get("frames"):
            pixels, notes_on_pixels = None, (_PIXELS_OF_CLIPS,)
        attributions.append(
            Attribution(
                method=request.spec,
                method_name=request.method.name,
                rule=None if request.rule is None else request.rule.name,
                options=request.options,
                title=name.title,
                names_rule=name.names_rule,
                source=name.source,
                target=trace.chosen.labels[i],
                scores=values,
                content=content,
                patches=trace.layout.grid,
                text=sample if isinstance(sample, TextInput) else None,
                signed=request.method.signed and not is_difference,
                class_specific=request.method.class_specific,
                seconds=seconds,
                adds_up_to=None if is_difference or request.adds_up_to is None else request.adds_up_to + (_WITH_OWN if own_sum else ""),
                completeness_error=None if errors is None else errors[i],
                notes=tuple(
                    dict.fromkeys(
                        [
                            *trace.notes_on(i),
                            *(output.notes[i] if output.notes else ()),
                            *notes_of_scores,
                            *notes_on_sink,
                            *notes_on_added,
                            *notes_on_own,
                            *notes_on_pixels,
                        ]
                    )
                ),
                seed_correlation=output.seed_correlations[i] if output.seed_correlations else None,
                numerics=Numerics(sizes=sizes, notes=notes_of_scores),
                pixels=pixels,
                image=sample if isinstance(sample, ImageInput) else None,
            )
        )
    return attributions


def _note_on_digits(trace: Trace) -> str | None:
    """Return a note on the few digits of the type in which ``trace`` was computed: that of the weights, or of a caller's torch.autocast.
    None if it has enough.
    """
    recording = trace.recording
    shorter = autocast_dtype(recording.model.device) if recording.model.dtype == torch.float32 else None
    dtype = shorter or recording.model.dtype
    if recording.double or dtype not in _FEW_DIGITS:
        return None
    source, remedy = "the type of the weights", "Convert the model by .float() before it is opened"
    if shorter is not None:
        source, remedy = "the type of torch.autocast around the call", "Explain outside of torch.autocast"
    return (
        f"Computed in {str(dtype).removeprefix('torch.')}, {source}, which has {_FEW_DIGITS[dtype]} digits: scores may be off by a percent "
        f"of the largest, or more. {remedy} for more digits."
    )


def _notes_on_own_tokens(sources: TokenSources | None, own_sum: float, total: float) -> tuple[str, ...]:
    """Return a note, in a tuple, on how much of a map of a text is at tokens that the model adds to those of the text, ``own_sum``, next to
    ``total`` at those of the text. Empty if it is 0. ``sources`` says which tokens these are.
    """
    if sources is None or not own_sum:
        return ()
    count, several = sources.own_count, sources.several_count
    kinds = [f"{count} of its own, which no word changes"] if count else []
    kinds += [f"{several} that it makes of several words each"] if several else []
    return (
        f"This model adds tokens to those of the text: {' and '.join(kinds)}. They hold {own_sum:.3g} of the map, and the tokens of the "
        f"text {total:.3g}.",
    )


def _on_cpu(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.detach().cpu()


def _completeness_error(request: Request, trace: Trace, scores: Tensor, own_sum: Tensor | None) -> Tensor | None:
    """Return the completeness error (B,) of the ``scores`` (B, S) of ``trace`` and of ``own_sum`` (B,), the sum at tokens that the
    model adds to a text (None: it adds none): the size of what they miss of the number that they should add up to, for the method of
    ``request``, if it is one that promises a sum under some rule, even if the request has another rule. None for methods that promise
    no sum or report their own error.
    """
    promise = request.method.promise
    if promise is None or not promise.is_made_with(request.options) or trace.integrated:  # what was averaged over a path is no share
        return None
    total = scores.sum(1) if own_sum is None else scores.sum(1) + own_sum
    if promise.unplaced:
        total = total + trace.unplaced
    return (trace.account() - total).abs()


__all__ = [
    "Cancelled",
    "Contrast",
    "Explanation",
    "Observer",
    "Probability",
    "explain",
    "versions",
]
