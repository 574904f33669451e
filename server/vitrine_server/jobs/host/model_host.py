"""The model host: it holds the loaded models, makes explanations with them and answers studies, in one thread or process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from safetensors.torch import save

from explainers import explain
from explainers.models.inputs.depth import WindowedPicture
from explainers.models.inputs.types import Clip, Crop, PicturePrompt, TextPair
from explainers.models.registers.moving import view_of
from explainers.models.threads import Threads
from explainers.pipeline.places import ask_at, runnable_specs, with_chat_template
from explainers.records.session import Cancelled
from explainers.records.targets import TargetLike
from vitrine_server.http.uploads import encode_image, open_clip, open_picture
from vitrine_server.jobs.catalogue.model_facts import ModelFacts, facts_of
from vitrine_server.jobs.catalogue.model_source import TellStage
from vitrine_server.jobs.failures import load_problem, problem_of
from vitrine_server.jobs.host.work import TellAnswers, Work, release_memory, run_with_memory_retry
from vitrine_server.json_text import json_text
from vitrine_server.schemas.question import ExplainOptions, Question
from vitrine_server.settings import Settings
from vitrine_server.store.map_files import npy
from vitrine_server.store.stored_files import TENSORS_FILE

SEND_LESS = "Ask for fewer methods at once, for fewer targets, or for a shorter text."


@dataclass(frozen=True)
class LoadRequest:
    """A request to load a model by name, or from the ``place`` of an upload; ``open_options`` are arguments of ``explainers.open``."""

    name: str
    device: str | None
    place: Path | None = None
    open_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of a model: the explanation as JSON, without maps; the number of tokens of a text (0: no text); files to store with it, by
    name.
    """

    document: dict[str, Any]
    tokens: int
    files: dict[str, bytes]


@dataclass(frozen=True)
class MadeMap:
    """A finished map as JSON; its values by pixel as a NumPy file, or None; and the number of tokens of a text (0: no text)."""

    document: dict[str, Any]
    pixels: bytes | None
    tokens: int


@dataclass(frozen=True)
class TurnCalls:
    """The callbacks through which a model host asks for work and reports results during one turn of an explanation.

    left         returns the specs whose maps are missing
    next_method  picks the next of these specs; None ends the turn
    cancelled    returns whether to stop, called between passes
    answered     takes the answer of the model
    mapped       takes a finished map
    """

    left: Callable[[], list[str]]
    next_method: Callable[[list[str]], str | None]
    cancelled: Callable[[], bool]
    answered: Callable[[ModelAnswer], None]
    mapped: Callable[[MadeMap], None]


@dataclass
class ModelHost:
    """The loaded models by name, and the work on them. Only one thread uses it."""

    load_model: Callable[..., Any]
    settings: Settings
    _models: dict[str, Any] = field(default_factory=dict)
    _threads: Threads = field(default_factory=Threads)

    def load(self, request: LoadRequest, tell: TellStage) -> ModelFacts:
        """Load a model and return its facts; ``tell`` is called with the stages of opening an uploaded model. Raises a Problem if it cannot
        be loaded.
        """
        name, place = request.name, request.place
        staged = {} if place is None else {"on_stage": tell}
        try:
            with _exits_as_errors():
                model = self.load_model(name if place is None else place, request.device, **staged, **request.open_options)
                facts = facts_of(model)
        except Exception as error:
            problem = load_problem(name, error, place)
            del error
            release_memory()
            raise problem from None
        self._models[name] = model
        return facts

    def keep(self, names: Iterable[str]) -> None:
        """Drop all models from memory except those named."""
        wanted = set(names)
        if gone := set(self._models) - wanted:
            for name in gone:
                del self._models[name]
            release_memory()

    def count_free_cores(self) -> None:
        """Choose the number of CPU threads by the cores that other processes leave; called now and then while the host is idle."""
        self._threads.fit(None)

    def explain(self, name: str, question: Question, targets: list[TargetLike] | None, calls: TurnCalls) -> None:
        """Make maps of the model ``name`` for a question until ``calls.next_method`` returns None. Raises Problem, or Cancelled if
        ``calls.cancelled`` returns True.
        """
        model = self._models[name]

        def work() -> None:
            place_model, specs, note = model, calls.left(), None
            source: Any = source_of(question, self.settings, model)
            how: dict[str, Any] = {option: getattr(question, option) for option in ExplainOptions.model_fields}
            how["reference"] = reference_of(question, self.settings)
            if model.task is not None and not question.methods:  # the place is looked for once, for what can run there and for its maps
                view = view_of(model, how.pop("outlier_tokens"))
                source = with_chat_template(view, source) if how.pop("chat") else source
                place_model, source = ask_at(view, source, how.pop("at"), how.pop("reference"))
                specs, note = runnable_specs(specs, place_model, source)
            explain(
                place_model,
                source,
                targets,
                specs,
                observer=_Observer(calls, note),
                cancelled=self._fitting_threads(model, calls.cancelled),
                next_method=calls.next_method,
                side=question.side,
                **how,
            )

        with _problems("explanation", "cannot-explain"):
            run_with_memory_retry(work, name, str(model.device), SEND_LESS)

    def answer(self, name: str, work: Work, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
        """Run a study on the model ``name`` and return its answer as JSON. Raises Problem, or Cancelled if ``cancelled`` returns True."""
        model, answers = self._models[name], list[dict[str, Any]]()
        polled = self._fitting_threads(model, cancelled)
        send = "Ask for less at once, or explain a shorter text."
        with _problems("study", "cannot-answer"):
            run_with_memory_retry(lambda: answers.append(work(model, polled, tell)), name, str(model.device), send)
            json_text(answers[-1])  # it can be sent
        return answers[-1]

    def _fitting_threads(self, model: Any, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """Wrap ``cancelled`` so that each call also chooses the number of CPU threads for the next pass."""

        def polled() -> bool:
            self._threads.fit(model)
            return cancelled()

        return polled


class _Observer:
    """An observer of ``explain`` that passes the answer and each map to the server as plain data."""

    def __init__(self, calls: TurnCalls, note: str | None = None) -> None:
        self._calls, self._note = calls, note

    def on_prediction(self, explanation: Any) -> None:
        """Send the model's answer, its tensors and its input picture to the server; called once in every turn."""
        files = {TENSORS_FILE: save({name: tensor.detach().cpu().contiguous() for name, tensor in explanation.tensors.items()})}
        shown = getattr(explanation.input, "picture", explanation.input)  # that which stands in a text
        pixels = getattr(shown, "pixels", None)  # a text has none
        if pixels is not None:
            files["input.png"] = encode_image(pixels, "PNG")
        document = explanation.to_json()
        if self._note is not None:
            document["notes"].append(self._note)
        self._calls.answered(ModelAnswer(document, _tokens(explanation), files))

    def on_map(self, explanation: Any, attribution: Any) -> None:
        """Send a finished map to the server."""
        pixels = None if attribution.pixels is None else npy(attribution.pixels.numpy())
        self._calls.mapped(MadeMap(attribution.to_json(), pixels, _tokens(explanation)))


def _tokens(explanation: Any) -> int:
    """Return the number of tokens of the explained text, by which costs are estimated; 0 if there is no text."""
    shapes = [explanation.tensors[name].shape for name in ("input_ids", "attention_mask") if name in explanation.tensors]
    return int(shapes[0].numel()) if shapes else 0


def source_of(question: Question, settings: Settings, model: Any) -> Any:
    """Convert the input of a question to the argument of ``explain`` for this model: a picture, a clip, a crop, a text or a
    pair of texts.
    """
    if question.image is not None and model.details.get("frames") is not None:
        return Clip(open_clip(question.image, settings))
    if question.image is not None:
        picture = open_picture(question.image, settings)
        whole = picture if question.window is None else WindowedPicture(picture, *question.window)
        shown = whole if question.crop is None else Crop(whole, question.crop)
        return shown if question.text is None else PicturePrompt(shown, question.text)
    text = question.text or ""
    return text if question.text_pair is None else TextPair(text, question.text_pair)


def reference_of(question: Question, settings: Settings) -> Image.Image | str | None:
    """Return the picture or text to which the input of a question is compared; None if there is none."""
    return question.reference_text if question.reference is None else open_picture(question.reference, settings)


@contextmanager
def _exits_as_errors() -> Iterator[None]:
    """Turn a SystemExit inside this context into a RuntimeError: a model's code must not end the server."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError("the model's code asked Python to exit") from error


@contextmanager
def _problems(kind: str, refusal: str) -> Iterator[None]:
    """Turn any error inside this context except Cancelled into a Problem, see :func:`problem_of`."""
    try:
        with _exits_as_errors():
            yield
    except Cancelled:
        raise
    except Exception as error:
        raise problem_of(error, kind, refusal) from None
