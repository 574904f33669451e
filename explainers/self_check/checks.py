"""The checks themselves. Each compares what the engine has with what somebody else computes: the plain module, its library, torch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from explainers.autograd.mode import Float64Mode
from explainers.autograd.rules import RULES
from explainers.autograd.signals import ACCOUNT, fields_of
from explainers.errors import ExplainerError, is_memory_shortage
from explainers.methods import METHODS, Request, parse
from explainers.methods.requirements import lacks_of, reason_against
from explainers.models.eval_mode import evaluating
from explainers.models.libraries import calls
from explainers.models.libraries import recognition as lib
from explainers.models.model import Model
from explainers.models.outputs import probabilities
from explainers.models.report import Check, CheckState
from explainers.models.structure.hooks import in_this_thread, remove_hooks_after
from explainers.models.structure.repeating import why_not_repeatable
from explainers.records.session import Session
from explainers.self_check.sample import Sample
from explainers.self_check.task_pipelines import TASK_PIPELINES

#: Maximum difference between two computations of the same number, relative to the largest: float32 rounding over the layers of a large
#: model.
ROUNDING = 1e-4
_OF_HALF = 3e-2  # in bfloat16 and float16
#: Maximum difference of probabilities from those of the library, whose preprocessing rounds in another way.
SAME_PROBABILITIES = 1e-5
_SAME_PIXELS = 1e-6
_SAME_IN_FLOAT64 = 1e-6  # of the largest number of a gradient
_AS_MUCH = 4.0  # times as far from the gradient in float64 as torch's own in float32: rounding falls on other sides of kinks
_PADDED = 64  # tokens, to which transformers' pipeline pads the prompts of a SigLIP model
#: Share of deep Taylor's relevance that may be lost at outputs without positive contributions: see docs/families.md.
_LOST = 0.05
_NOTHING = 1e-6  # of a number: less than float32 keeps of it through a model
#: Ends of the names of transformers' classes whose pipelines return one row of probabilities.
_CLASSIFIES = ("ForSequenceClassification", "ForImageClassification", "ForImageClassificationWithTeacher")
#: Options with which methods that run the model often need only a few runs, enough to show that they work.
FEW_RUNS = {
    "integrated_gradients": "steps=2",
    "smoothgrad": "draws=2",
    "rise": "samples=8",
    "d_rise": "samples=8",
    "tis": "masks=8",
    "vit_cx": "distance=0.5",
    "kernel_shap": "samples=8",
    "lime": "samples=8",
    "nib": "steps=2",
    "m2ib": "steps=2&draws=2",
    "eagle": "side=2",
}

_OF_GRADIENT = fields_of(("pixels", "block_inputs[0]"))  # what the check of the gradient reads of a way back

Outcome = tuple[CheckState, str]


def quick_checks(session: Session, sample: Sample, twin: nn.Module | None) -> list[Check]:
    """Run the quick checks of a model on its recorded pass, ``session``, over a ``sample`` input, and return the result of each: logits
    equal the plain module's, probabilities its library's, the gradient torch's, and FullGrad under Libra adds up to the logit.

    ``twin`` is the original module if the model is a copy or a new module, else None; the logits are then compared with the twin's.
    """
    plain = cache(lambda: _run_plain(session))
    session.plan([(RULES["gradient"], _OF_GRADIENT), (RULES["libra"], ACCOUNT)])
    return [
        _ask("logits", "Logits equal the plain model's", lambda: _logits(session, plain(), twin)),
        _ask("library", "Probabilities equal its library's own", lambda: _library(session, sample)),
        _ask("gradient", "The gradient equals torch's", lambda: _gradient(session, plain())),
        _ask("completeness", "FullGrad under Libra adds up to the logit", lambda: _completeness(session)),
    ]


def all_checks(session: Session) -> Iterator[Check]:
    """Run the slower checks on the recording of ``session``, and yield the result of each: relevance in float64, and every method once."""
    lacks = lacks_of(session.recording)
    requests = {name: parse(f"{name}?{FEW_RUNS[name]}" if name in FEW_RUNS else name) for name in METHODS}
    session.plan(read for request in requests.values() for read in request.fields.items())
    yield _ask("conservation", "Relevance under deep Taylor is conserved", lambda: _conservation(session))
    for name, method in METHODS.items():
        request = requests[name]
        reason = reason_against(method, lacks, request.options)
        if reason is not None:
            yield Check(name, f"{method.title} runs", "not asked", reason)
            continue
        yield _ask(name, f"{method.title} runs", lambda request=request: _runs(session, request))  # type: ignore[misc]


def _ask(name: str, title: str, ask: Callable[[], Outcome]) -> Check:
    try:
        return Check(name, title, *ask())
    except Exception as problem:  # what fails here fails in an explanation too: it is said, and the others are asked
        if is_memory_shortage(problem):
            raise
        message = str(problem) if isinstance(problem, ExplainerError) else f"{type(problem).__name__}: {problem}"
        return Check(name, title, "failed", " ".join(message.split())[:500])


def _compare(ours: Tensor, theirs: Tensor, tolerance: float, of: str) -> Outcome:
    """Compare two tensors of numbers; return "passed" if ``ours`` differs from ``theirs`` by at most ``tolerance``, as a share of the
    largest number in ``theirs``; else "failed"; and a phrase on the difference. ``of`` is the word for the numbers.
    """
    if ours.shape != theirs.shape:
        return "failed", f"{of} have the shape {tuple(theirs.shape)} there and {tuple(ours.shape)} here"
    off = float((ours.double() - theirs.double()).abs().max())
    if not math.isfinite(off):
        return "failed", f"{of} are not finite"
    relative = off / max(float(theirs.double().abs().max()), 1e-12)
    if off == 0:
        return "passed", "to the last digit"
    return ("passed" if relative <= tolerance else "failed"), f"largest difference {off:.1g}; that is {relative:.1g} of the largest of {of}"


def _tolerance(model: Model) -> float:
    return ROUNDING if model.dtype in (torch.float32, torch.float64) else _OF_HALF


@dataclass(frozen=True, eq=False)
class _Plain:
    """The logits of one pass of the plain module, and the gradient by torch's own backward pass.

    gradient  the gradient of the explained number at the pixels or at the embedded tokens; None if torch cannot compute it
    reason    why torch cannot compute it
    """

    logits: Tensor
    gradient: Tensor | None
    reason: str = ""


def _run_plain(session: Session, mode: AbstractContextManager[Any] | None = None) -> _Plain:
    """Run the plain module on the session's input and differentiate its explained number by torch alone, inside the context ``mode``;
    return its logits and the gradient.
    """
    model, tensors = session.model, session.tensors
    output_gradient = session.targets_and_rows()[0][0].output_gradient(session.recording.logits, RULES["gradient"]).detach()
    starts: list[Tensor] = []

    def start(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if starts or not args or not isinstance(args[0], Tensor):
            return None
        starts.append(args[0].detach().clone().requires_grad_())
        return (starts[0], *args[1:]), kwargs

    handles = []
    if session.recording.pixels is not None:
        starts.append(tensors["pixel_values"].detach().clone().requires_grad_())
        tensors = {**tensors, "pixel_values": starts[0]}
    else:
        handles.append(model.entry.register_forward_pre_hook(in_this_thread(start), with_kwargs=True))
    norms = [part for part in model.module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    handles += [part.register_forward_hook(in_this_thread(_keep_signal_in_order)) for part in norms]
    with remove_hooks_after(handles), torch.enable_grad(), evaluating(model.module):
        with mode or nullcontext():
            logits = model.forward(tensors)
        if not starts:
            return _Plain(logits.detach(), None, "the embedded tokens are handed on by name, where torch's gradient is not fetched")
        (gradient,) = torch.autograd.grad((logits * output_gradient).sum(), starts[0])
    return _Plain(logits.detach(), gradient)


def _keep_signal_in_order(norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
    """Have the gradient that arrives at the ``output`` of a batch normalisation laid out in order first: with other strides torch 2.13
    computes a wrong gradient on a CPU.
    """
    if output.requires_grad:
        output.register_hook(Tensor.contiguous)


def _logits(session: Session, plain: _Plain, twin: nn.Module | None) -> Outcome:
    """Compare the logits recorded in ``session`` with the output of the plain module, or of its ``twin``, the module that it was copied
    from. Return the outcome, and what differs.
    """
    model = session.model
    ours = session.recording.logits.detach()
    if twin is not None:
        with torch.no_grad(), evaluating(twin):
            theirs = calls.logits_of(twin(*session.tensors.values()), len(ours))
    elif model.task is not None or (model.head_activation.kind is None and not (model.output == "sigmoid" and len(model.labels) == 2)):
        theirs = plain.logits
    else:  # what it returns is not what is explained
        theirs = _run_module(model, session.tensors)
    if model.output == "sigmoid" and theirs.shape[-1] == 1:  # yes and no are made of one
        ours = ours[:, :1]
    if model.head_activation.kind is not None:
        ours = probabilities(ours, model.head_activation.kind)
        if bool((theirs <= 0).all()):
            ours = ours.log()
    if not bool(ours.isfinite().all()) and (strange := _strange_weights(model.module)):
        return "failed", strange
    outcome = _compare(ours, theirs, _tolerance(model), "logits")
    if outcome[0] == "passed" or twin is not None:
        return outcome
    with evaluating(model.module):
        return outcome[0], why_not_repeatable(model.forward, session.tensors) or outcome[1]


def _run_module(model: Model, tensors: dict[str, Tensor]) -> Tensor:
    """Run the model's plain module on these tensors and return its own output (B, C), after its final activation."""
    forward = calls.forward_of(model.module, model.details["library"], model.side, model.made_with.get("head"))
    with torch.no_grad(), evaluating(model.module):
        return forward(tensors)


def _library(session: Session, sample: Sample) -> Outcome:
    """Compare the probabilities of the model recorded in ``session`` with those that its own library gives for the sample: transformers'
    pipeline, or timm's eval transform. Return the outcome, and what differs or why nothing was compared.
    """
    model = session.model
    library = model.details["library"]
    if sample.source is None:
        of_sounds = model.details.get("sound_rate") is not None
        return "not asked", "its library is not asked about sounds" if of_sounds else "how its pictures are prepared is not known"
    if model.task is not None:
        return _task(session, sample)
    if library == "timm" and isinstance(sample.source, Image.Image):
        return _timm(session, sample.source)
    if library == "transformers" and model.kind in ("image", "text") and isinstance(sample.source, Image.Image | str):
        return _pipeline(session, sample.source)
    reason = "a module of your own has no library to compare with"
    if library == "transformers" and isinstance(sample.source, Image.Image):
        return _zero_shot(session, sample.source)
    return "not asked", reason if library == "torch" else "OpenCLIP has no pipeline to compare with"


def _task(session: Session, sample: Sample) -> Outcome:
    """Compare the probabilities of the model in ``session``, which has a task, at one place of the sample, with those of transformers'
    pipeline for the task. Return the outcome, and what differs or why nothing was compared.
    """
    model = session.model
    assert model.task is not None
    probabilities_of = TASK_PIPELINES.get(model.task.name)
    tokenizer = getattr(model.task.tokenizer, "slow", model.task.tokenizer)
    if probabilities_of is None or model.details["library"] != "transformers" or not isinstance(sample.source, str):
        return "not asked", f"nothing was compared: for {model.task.name} no pipeline of transformers is asked"
    if not hasattr(tokenizer, "save_pretrained"):
        return "not asked", "no tokenizer of transformers goes with the model"
    with torch.no_grad(), evaluating(model.module):
        theirs = probabilities_of(model, sample.source)
    p = _probable(model, session.answers)[0]
    return _alike(p[list(theirs)], torch.tensor(list(theirs.values())), "transformers' pipeline", session.model.dtype)


def _zero_shot(session: Session, picture: Image.Image) -> Outcome:
    """Compare the probabilities of the model in ``session``, of pictures and prompts, for one picture with those of transformers' pipeline
    over the same prompts. Return the outcome, and what differs or why nothing was compared.
    """
    import transformers

    model, prompts = session.model, list(session.labels)
    processor = model.made_with.get("preprocess") or lib.saved_with(model.module, "AutoImageProcessor", backend="pil")
    tokenizer = model.made_with.get("tokenizer") or lib.saved_with(model.module, "AutoTokenizer")
    if not hasattr(processor, "save_pretrained") or tokenizer is None:
        return "not asked", "no processor and tokenizer of transformers go with the model"
    config: Any = model.module.config
    is_siglip = "siglip" in config.model_type
    if is_siglip and (most := int(config.text_config.max_position_embeddings)) < _PADDED:
        return "not asked", f"transformers' pipeline pads prompts to {_PADDED} tokens, and the model takes {most}"
    with torch.no_grad(), evaluating(model.module):
        named: Any = {"image_processor": processor, "tokenizer": tokenizer, "device": model.device}
        pipe: Any = transformers.pipeline("zero-shot-image-classification", model=model.module, **named)
        rows = pipe(picture, candidate_labels=prompts, hypothesis_template="{}")
    by_prompt = {row["label"]: float(row["score"]) for row in rows}
    theirs = torch.tensor([[by_prompt[prompt] for prompt in prompts]])
    ours = probabilities(session.answers.detach().float().cpu(), "sigmoid" if is_siglip else "softmax")
    return _alike(ours, theirs, "transformers' pipeline", session.model.dtype)


def _timm(session: Session, picture: Image.Image) -> Outcome:
    from timm.data.transforms_factory import create_transform

    model = session.model
    if model.made_with.get("preprocess") is not None:
        return "not asked", "preprocess= was passed in place of timm's own"
    if not getattr(model.module, "pretrained_cfg", None):
        return "not asked", "the module says nothing of how its pictures are prepared"
    if model.details["channels"] != 3:
        return "not asked", f"timm's transform makes 3 channels, and the model takes {model.details['channels']}"
    config = {**lib.timm_config(model.module), "input_size": (3, *model.details["input"])}
    keys = ("input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode")
    transform: Any = create_transform(is_training=False, **{key: config[key] for key in keys if key in config})
    pixels = transform(picture).unsqueeze(0).to(model.device, model.dtype)
    off = (
        float((pixels - session.tensors["pixel_values"]).abs().max()) if pixels.shape == session.tensors["pixel_values"].shape else math.inf
    )
    if off <= _SAME_PIXELS:
        return "passed", f"same as timm's eval transform: yes, pixels off by {off:.1g}"
    with torch.no_grad(), evaluating(model.module):
        theirs = model.forward({"pixel_values": pixels})
    return _same(model, session.answers, _probable(model, theirs), "timm's eval transform")


def _probable(model: Model, logits: Tensor) -> Tensor:
    """Convert a model's logits to probabilities; for a regression return the values, its logits, unchanged."""
    logits = logits.detach().float().cpu()
    return logits if model.output == "regression" else probabilities(logits, model.output)


def _same(model: Model, answers: Tensor, theirs: Tensor, whose: str) -> Outcome:
    return _alike(_probable(model, answers), theirs, whose, model.dtype)


def _alike(ours: Tensor, theirs: Tensor, whose: str, dtype: torch.dtype) -> Outcome:
    off = float((ours - theirs).abs().max())
    tolerance = SAME_PROBABILITIES if dtype in (torch.float32, torch.float64) else _OF_HALF
    is_same = off <= tolerance * max(1.0, float(theirs.abs().max()))
    return ("passed" if is_same else "failed"), f"same as {whose}: {'yes' if is_same else 'no'}, off by {off:.1g}"


def _pipeline(session: Session, source: Image.Image | str) -> Outcome:
    import transformers

    model = session.model
    auto, argument, processor_name = (
        ("AutoTokenizer", "tokenizer", "tokenizer") if model.kind == "text" else ("AutoImageProcessor", "preprocess", "image_processor")
    )
    prepares = model.made_with.get(argument)
    if prepares is None:
        prepares = lib.saved_with(model.module, auto, **({} if model.kind == "text" else {"backend": "pil"}))
    if prepares is None or not hasattr(prepares, "save_pretrained"):
        return "not asked", f"no {argument} of transformers goes with the model"
    function = {"softmax": "softmax", "sigmoid": "sigmoid", "regression": "none"}[model.output]
    task: Any = "text-classification" if model.kind == "text" else "image-classification"
    if not type(model.module).__name__.endswith(_CLASSIFIES):
        return "not asked", f"transformers' pipeline takes no {type(model.module).__name__}"
    config: Any = model.module.config
    count = int(config.num_labels)
    if model.output == "sigmoid" and count == 1:
        return "not asked", "a pipeline has no second class of one logit"
    with torch.no_grad(), evaluating(model.module):
        pipe: Any = transformers.pipeline(task, model=model.module, device=model.device, **{processor_name: prepares})
        rows = pipe(source, top_k=count, function_to_apply=function, **({"truncation": True} if model.kind == "text" else {}))
    names: dict[int, str] = dict(config.id2label)
    if len(set(names.values())) < count:
        return "not asked", "its configuration calls two classes alike"
    by_name = {row["label"]: float(row["score"]) for row in rows}
    theirs = torch.tensor([[by_name[names[index]] for index in range(count)]])
    return _same(model, session.answers, theirs, "transformers' pipeline")


def _gradient(session: Session, plain: _Plain) -> Outcome:
    """Compare the ordinary gradient of the recorded pass of ``session``, at the pixels or at the embedded tokens, with torch's gradient
    through the plain module, in ``plain``. Return the outcome, and what differs or why nothing was compared.
    """
    if plain.gradient is None:
        return "not asked", plain.reason
    trace = session.trace(session.targets_and_rows()[0][0], RULES["gradient"])
    at_pixels = session.recording.pixels is not None
    ours = trace.pixel_grads if at_pixels else trace.block_input_grads[0]
    if ours.shape != plain.gradient.shape:
        return "not asked", "the tokens lie in another way in the module"
    where = "gradients at the pixels" if at_pixels else "gradients at the tokens"
    if at_pixels and (reach := _reach(session, plain.gradient)) <= _NOTHING:
        same = _reach(session, ours) <= _NOTHING
        return ("passed" if same else "failed"), f"zero but for rounding: {reach:.1g} of the number changes with the pixels"
    outcome = _compare(ours, plain.gradient, 10 * _tolerance(session.model), where)
    return outcome if outcome[0] == "passed" else _gradient_in_float64(session, ours, plain.gradient, outcome)


def _gradient_in_float64(session: Session, ours: Tensor, theirs: Tensor, outcome: Outcome) -> Outcome:
    """Judge a gradient (``ours``) that differs from torch's (``theirs``), by how much torch's gradient for the input of ``session`` itself
    differs from its gradient in float64; return "passed" with a phrase if the difference is no larger than that, else "failed". Where
    float64 cannot decide, ``outcome`` is returned.

    Close to a kink, such as that of a rectifier, rounding decides on which side a number falls, and so changes part of the gradient.
    """
    if session.model.dtype != torch.float32:
        return outcome
    trace = session.trace(session.targets_and_rows()[0][0], RULES["gradient"], session.double)
    ours_exact = trace.pixel_grads if session.recording.pixels is not None else trace.block_input_grads[0]
    exact = _run_plain(session, Float64Mode()).gradient
    if exact is None or ours_exact.shape != exact.shape:
        return outcome
    largest = max(float(exact.double().abs().max()), 1e-12)
    off_exactly, rounding, off = (
        float((a.double() - b.double()).abs().max()) / largest for a, b in ((ours_exact, exact), (theirs, exact), (ours, exact))
    )
    if off_exactly > _SAME_IN_FLOAT64 or off > _AS_MUCH * rounding:
        return "failed", f"{outcome[1]}; in float64 {off_exactly:.1g} of the largest"
    as_torchs = f"rounding of float32, by which torch's own is off as well ({rounding:.1g}); in float64 {off_exactly:.1g}"
    return "passed", f"{outcome[1]}: {as_torchs}"


def _reach(session: Session, gradient: Tensor) -> float:
    """Return the share of the explained number that the product of one pixel with its gradient accounts for, for the pixel of the input of
    ``session`` with the largest product.
    """
    number = float(session.recording.logits.detach().abs().max())
    return float((gradient * session.tensors["pixel_values"]).abs().max()) / max(number, 1e-12)


def _completeness(session: Session) -> Outcome:
    """Check that Libra's terms of tokens and biases, in the recorded pass of ``session``, add up to the logit that they account for; return
    the outcome, and what is missing.
    """
    trace = session.trace(session.targets_and_rows()[0][0], RULES["libra"])
    terms = METHODS["fullgrad"].read(trace).scores.sum(1) + trace.unplaced
    whole = trace.account()
    missing = trace.signals.missing
    off = float((whole - terms).abs().max())
    is_finite = math.isfinite(off) and (missing is None or bool(missing.isfinite().all()))
    if not is_finite and (strange := _strange_weights(session.model.module)):
        return "failed", strange
    if is_finite and (missing is None or not bool(missing.any())):
        return "passed", _say_sum(float(whole[0]), off)
    return "failed", "; ".join(dict.fromkeys(trace.notes_on(0))) or f"{float(whole[0]):.4g} is missed by {off:.1g}"


def _say_sum(whole: float, off: float) -> str:
    """Return a phrase on terms that add up to ``whole`` but for ``off``, which is rounding; the sum alone if nothing is missing."""
    return f"{whole:.4g}, but for {off:.1g} of rounding" if off else f"{whole:.4g}"


def _strange_weights(module: nn.Module) -> str:
    """Return the names of the weights of a module that are not finite; empty if all are finite."""
    strange = [name for name, p in module.named_parameters() if p.is_floating_point() and not bool(p.isfinite().all())]
    if not strange:
        return ""
    more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
    return f"weights are not finite: {', '.join(strange[:3])}{more}"


def _conservation(session: Session) -> Outcome:
    """Check that Deep Taylor's relevance at the embedded tokens and constants, in the recorded pass of ``session``, sums to the 1 that
    starts at the logit; return the outcome, and how much arrives.
    """
    signals = session.trace(session.targets_and_rows()[0][0], RULES["deep_taylor"], session.double).signals_with("bias")
    assert signals.bias is not None
    assert signals.unplaced is not None
    arrived = signals.block_inputs[0].flatten(1).sum(1) + signals.bias.sum(1) + signals.unplaced
    off = float((arrived - 1).abs().max())
    return ("passed" if off <= _LOST else "failed"), f"{float(arrived[0]):.4g} of 1 arrives"


def _runs(session: Session, request: Request) -> Outcome:
    started = time.perf_counter()
    recording = session.double if request.rule is not None and request.rule.is_relevance else None
    output = request.read(session.trace(session.targets_and_rows()[0][0], request.rule, recording))
    if not bool(output.scores.isfinite().all()):
        return "failed", "its numbers are not finite"
    return "passed", f"{request.spec}, {time.perf_counter() - started:.2f} s"
