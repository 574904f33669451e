"""Texts longer than their model: each overlapping window explained on its own, and the windows' maps joined to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from explainers.models.abstention import Evidence, abstention
from explainers.models.eval_mode import answering
from explainers.models.feature_scores import token_means
from explainers.models.inputs.types import Windows
from explainers.models.model import Model
from explainers.models.padding import of_equal_length
from explainers.models.passes import Passes, rows_per_pass
from explainers.pipeline.precision import join_maps
from explainers.records.notes import kind_of
from explainers.records.result import Attribution, Explanation, WindowInfo
from explainers.records.targets import Classes, ResolvedTarget, TargetLike, as_targets, expand_targets, resolve

LongTexts = Literal["windows", "cut"]
LONG_TEXTS: tuple[LongTexts, ...] = get_args(LongTexts)
TOKENS_AT_ONCE = 2048  # of the windows that are recorded together, on a CPU

#: :func:`explainers.pipeline.explain.explain` with its model and methods already set.
Explain = Callable[..., Any]
#: Gives the requests that are made together, each with its ``spec``, one list after the other.
Rounds = Callable[[], Iterable[Sequence[Any]]]


class WindowObserver(Protocol):
    """An object whose methods :func:`explainers.pipeline.explain.explain` calls during its work."""

    def on_prediction(self, explanation: Explanation) -> None:
        """Receive the ``explanation`` of a window when the model's answer to it is known."""

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """Receive the map ``attribution`` of a window when it is done; ``explanation.maps`` holds it already."""


def read_windows(model: Model, inputs: Any) -> list[Windows | None]:
    """Return the windows of each input, None for an input that the model takes whole; an empty list if it takes all of them whole."""
    windows_of = [model.windows(text) for text in _list_inputs(inputs)]
    return windows_of if any(windows is not None for windows in windows_of) else []


def _list_inputs(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, list | tuple) else [inputs]


def explain_long(
    explain: Explain,
    model: Model,
    inputs: Any,
    windows_of_inputs: Sequence[Windows | None],
    target: TargetLike | Sequence[TargetLike],
    *,
    seed: int,
    **options: Any,
) -> Any:
    """Explain ``inputs``, of which some are longer than ``model`` takes, for ``target`` by ``explain``, a function like :func:`explain`,
    with another ``seed`` for each; ``windows_of_inputs`` holds the windows of each, or None. Return one explanation, or a list for a list;
    ``options`` are as in :func:`explain_windows`.
    """
    explanations = []
    for i, (text, windows) in enumerate(zip(_list_inputs(inputs), windows_of_inputs, strict=True)):
        if windows is None:
            explanations += explain([text], target=target, seed=seed + i, observer=options["observer"])
        else:
            explanations.append(explain_windows(explain, model, windows, target, seed=seed + i, **options))
    return explanations if isinstance(inputs, list | tuple) else explanations[0]


def explain_windows(
    explain: Explain,
    model: Model,
    windows: Windows,
    target: TargetLike | Sequence[TargetLike],
    *,
    seed: int,
    observer: WindowObserver | None,
    check: Callable[[], None],
    rounds: Rounds | None = None,
) -> Explanation:
    """Explain a long text by its ``windows`` for ``target`` of ``model``, with ``explain``, a function like :func:`explain`, for a few of
    them at a time; return the explanation of the whole text.

    With ``rounds`` the methods of one round are computed after the other, so that the maps of the first round are ready before the next
    begins. The answer is the mean of the windows' logits. Each window is explained for its own logit or probability of the target; the
    score of a token is the mean over the windows that contain it. ``observer`` receives it and each of its maps; ``check`` is called
    between passes and may raise.
    """
    logits = window_logits(model, windows, check)
    mean = logits.mean(0, keepdim=True)
    targets, top = expand_targets(as_targets(target, model.labels), Classes.of(model), mean), int(mean.argmax())
    chosen = [resolve(wanted, Classes.of(model), mean) for wanted in targets]
    window_targets = [wanted.with_top_class(top) for wanted in targets]  # the same for every window
    joiner = _WindowJoiner(model, windows, logits, chosen, observer)
    specs: list[str] = []
    for requests in [None] if rounds is None else rounds():
        methods = {} if requests is None else {"methods": [request.spec for request in requests]}
        specs += methods.get("methods", ())
        for first in range(0, len(windows), _windows_per_pass(windows, model.device)):
            rows = windows.rows(first, first + _windows_per_pass(windows, model.device))
            explain(rows, target=window_targets, seed=seed + first, observer=joiner, **methods)
    if rounds is not None:
        joiner.explanation.methods[:] = specs
    return joiner.explanation


def _windows_per_pass(windows: Windows, device: torch.device) -> int:
    return rows_per_pass(device, max(1, TOKENS_AT_ONCE // windows.prepared.tensors["input_ids"].shape[1]))


def window_logits(model: Model, windows: Windows, check: Callable[[], None]) -> Tensor:
    """Return the logits (windows, C) of ``model`` for each of ``windows``; ``check`` is called between passes. The answer to the whole text
    is their mean.
    """

    def answer(first: int, number: int) -> Tensor:
        check()
        parts = of_equal_length(model, windows.rows(first, first + number))
        return torch.cat([model.forward(part.tensors).float().cpu() for part in parts])

    with answering(model.module):
        return torch.cat(list(Passes(_windows_per_pass(windows, model.device)).run(len(windows), answer)))


def _features(model: Model, windows: Windows) -> Tensor:
    """Return the features (windows, D) by ``model`` of each window of a text: the mean of its tokens after the last block."""

    def means_of(first: int, number: int) -> Tensor:
        parts = of_equal_length(model, windows.rows(first, first + number))
        return torch.cat([token_means(model, part.tensors) for part in parts])

    return torch.cat(list(Passes(_windows_per_pass(windows, model.device)).run(len(windows), means_of)))


@dataclass(eq=False)
class _WindowJoiner:
    """An observer of the explanations of the ``windows`` of a long text. It joins their maps to maps of the whole text and passes these on
    to ``observer``.

    answers  the logits of each window
    chosen   the targets for the whole text
    """

    model: Model
    windows: Windows
    answers: Tensor
    chosen: list[ResolvedTarget]
    observer: WindowObserver | None

    def __post_init__(self) -> None:
        self._explanation: Explanation | None = None
        self._completeness: list[Callable[[str, int], float]] = []
        self._waiting: dict[int, list[Attribution]] = {}  # of each map of the whole, by its place, the maps of the windows so far

    @property
    def explanation(self) -> Explanation:
        """The explanation of the whole text, once the first window has answered."""
        assert self._explanation is not None
        return self._explanation

    def on_prediction(self, explanation: Explanation) -> None:
        """Take a window's answer. The first one starts the explanation of the whole text, and the observer is called."""
        assert explanation.completeness_of is not None
        if len(self._completeness) < len(self.windows):  # a later round answers again
            self._completeness.append(explanation.completeness_of)
        if self._explanation is not None:
            return
        self._explanation = self._make_whole(explanation)
        if self.observer is not None:
            self.observer.on_prediction(self._explanation)

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """Take the map ``attribution`` of one window, which ``explanation`` already holds. When all windows have given this map, their
        average becomes the map of the whole text, and the observer is called.
        """
        place = len(explanation.maps) - 1  # not method and target: two targets may be called the same
        parts = self._waiting.setdefault(place, [])
        parts.append(attribution)
        if len(parts) == len(self.windows):
            del self._waiting[place]
            whole = self._average_maps(parts)
            self.explanation.maps.append(whole)
            if self.observer is not None:
                self.observer.on_map(self.explanation, whole)

    def _make_whole(self, window: Explanation) -> Explanation:
        logits, model = self.answers.mean(0), self.model
        whole = replace(
            window,
            input=self.windows.whole,
            logits=logits,
            probabilities=self._probabilities(logits),
            targets=[],
            maps=[],
            notes=[*self._notes(), *window.notes],
            tensors=self.windows.prepared.tensors,
            completeness_of=self._largest_error,
            abstention=None,
        )
        whole.targets = [whole.target_info(chosen) for chosen in self.chosen]
        whole.windows = tuple(self._window_info(whole, i) for i in range(len(self.windows)))
        if model.calibration.thresholds:
            unknown_token = model.details.get("unknown_token_id")
            evidence = Evidence(
                logits, model.calibration, whole.labels, self.windows.whole, self.windows.ids, unknown_token, directions=model.directions
            )
            if model.calibration.reads_features:  # as the answer is: the mean of the windows
                evidence = replace(evidence, features=_features(model, self.windows).mean(0))
            whole.abstention = abstention(evidence, "The text")
        return whole

    def _window_info(self, whole: Explanation, window: int) -> WindowInfo:
        """Return where the window number ``window`` lies in the text, and the model's answer for it alone; ``whole`` is the explanation of
        the whole text.
        """
        first, last = self.windows.content(window)
        tokens, answer = self.windows.whole.tokens, self.answers[window]
        alone = replace(whole, logits=answer, probabilities=self._probabilities(answer))
        (top,) = alone.top(1)
        logits = tuple(alone.target_info(chosen).logit for chosen in self.chosen)
        return WindowInfo(tokens[first].start, tokens[last].end, (first, last), top.label, top.probability, logits)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return self.model.calibration.probabilities(logits, self.model.output)

    def _notes(self) -> list[str]:
        count = sum(not token.special for token in self.windows.whole.tokens)
        return [
            f"The text has {count} word pieces, and the model takes {self.model.details['max_tokens']} tokens: it was read in "
            f"{len(self.windows)} overlapping windows. The answer is the mean of their logits; where windows overlap, scores are averaged."
        ]

    def _average_maps(self, parts: list[Attribution]) -> Attribution:
        random_parts = [part for part in parts if part.seed_correlation is not None]
        noisiest_part = min(random_parts, key=lambda part: part.seed_correlation or 0.0, default=None)
        parts = [part if part is noisiest_part else _drop_noise_note(part) for part in parts]
        whole = replace(
            parts[0],
            scores=self.windows.join_scores([part.scores for part in parts]),
            content=torch.tensor([not token.special for token in self.windows.whole.tokens]),
            text=self.windows.whole,
            seconds=sum(
                part.seconds for part in parts[:: _windows_per_pass(self.windows, self.model.device)]
            ),  # each says what its batch took
            adds_up_to=None,
            completeness_error=None,
            # each window draws its own samples: the map is no noisier than the noisiest of them
            seed_correlation=None if noisiest_part is None else noisiest_part.seed_correlation,
        )
        return join_maps(parts, whole, self.windows.join_scores)

    def _largest_error(self, rule: str, target: int) -> float:
        """Return the largest of the windows' completeness errors under the rule called ``rule``, for the target number ``target``."""
        return max(of(rule, target) for of in self._completeness)


def _drop_noise_note(part: Attribution) -> Attribution:
    """Return ``part``, the map of a window, without its note on noise, because the note of the noisiest window is added to the whole map
    instead.
    """
    return replace(part, notes=tuple(note for note in part.notes if kind_of(note) != "noise"))
