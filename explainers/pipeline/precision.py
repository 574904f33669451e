"""In which precision a map is computed: the model's own, or float64 where rounding would show. And what a map says where it does.

Where the terms of a sum or a product cancel, deep Taylor and LRP divide by the little that is left, and amplify the rounding of the forward
pass: for some inputs and methods a little, for others by a factor of a hundred thousand. So each map of relevance is computed in the
model's own precision with an estimate of what rounding did to it (:mod:`explainers.autograd.rounding`), and again in float64 where that
estimate is over :data:`FLOAT64_THRESHOLD`. ``python -m tools.conditioning`` measures both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from explainers.autograd.accumulated_rounding import accumulated_rounding_of
from explainers.autograd.rounding import ACCUMULATED_ROUNDING
from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.records.result import Attribution, MapPrecision, Numerics
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget
from explainers.records.trace import MethodOutput, Trace

#: An estimate over this share of the largest score sends a map to float64.
FLOAT64_THRESHOLD = 1e-3
#: A map whose patches or words rounding would have changed by more than this share of the largest of their scores says so.
ILL_CONDITIONED = 0.01
#: Parameters times tokens of a model whose maps are computed in float64 for the sake of patches and words alone: it costs a second.
#: Embeddings are looked up, so they do not count.
LIGHT_MODEL_PRODUCTS = 5e9
#: The estimate is of first order and drawn at random: what it is multiplied by, so that it bounds what rounding does.
ESTIMATE_FACTOR = 6.0
ESTIMATE_DRAWS = 2
#: Scores whose rounding may be this share of the largest of them say so.
NOISY_SCORES_THRESHOLD = 0.1
#: What a sum rounds by, in epsilons of its type and of the sum of the sizes of its terms: on embedded models half of it was the most seen.
SUM_ROUNDING = 1.0
#: What reading a map off rounds by itself, in units of the last place of its largest score.
SCORE_ROUNDING = 4.0

RunMethod = Callable[[Trace], MethodOutput]
MakeMaps = Callable[[Trace, MethodOutput | None], list[Attribution]]


def compute_maps(
    session: Session, target: ResolvedTarget, rule: Rule | None, run_method: RunMethod, make_maps: MakeMaps
) -> list[Attribution]:
    """One map a sample, in the precision that it needs; those of relevance say which it was and why.

    ``run_method`` runs the method on a trace, ``make_maps`` makes the maps of one, whose output may be known already. A sample whose
    estimate is over the threshold gets its map in float64, the others keep theirs, so that no map depends on what it was explained with.
    """
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return make_maps(trace, None)
    started, exact = time.perf_counter(), None
    dtype, reason = _name(session.recording.logits.dtype), _reason_for_float64(session)
    if reason is None:
        estimate = estimate_rounding(session, trace, run_method)
        scores, short = estimate.output.scores, _needs_float64(session, estimate)
        rough = [row[mask] for row, mask in zip(scores.double().cpu(), trace.mask.cpu(), strict=True)]
        errors = [row[mask] for row, mask in zip(estimate.errors.double().cpu(), trace.mask.cpu(), strict=True)]
        shares = list(zip(estimate.share.tolist(), estimate.shown.tolist(), strict=True))
        maps: list[Attribution] = []
        if not bool(short.all()) or not has_double(scores.device):
            clear = scores if not has_double(scores.device) else scores.masked_fill(short.to(scores.device)[:, None], 0.0)
            output = replace(estimate.output, scores=clear)
            maps = [
                _in_model_precision(attribution, dtype, *each) for attribution, each in zip(make_maps(trace, output), shares, strict=True)
            ]
        if bool(short.any()) and has_double(scores.device):
            exact = session.trace(target, rule, session.double)
            ours = [_in_float64(*each, dtype) for each in zip(make_maps(exact, None), rough, shares, strict=True)]
            maps = [ours[i] if over else maps[i] for i, over in enumerate(short.tolist())]
        maps = [_with_errors(attribution, errors[i], rough[i], dtype) for i, attribution in enumerate(maps)]
    else:
        exact = session.trace(target, rule, session.double)
        maps = [replace(attribution, precision=MapPrecision("float64", reason)) for attribution in make_maps(exact, None)]
    seconds = time.perf_counter() - started + trace.waited + (0.0 if exact is None else exact.waited)
    return [replace(attribution, seconds=seconds) for attribution in maps]


def choose_trace(session: Session, target: ResolvedTarget, rule: Rule | None, run_method: RunMethod) -> Trace:
    """A trace to read something else than a map from, in the precision that ``run_method`` of it (B, N) needs."""
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return trace
    if _reason_for_float64(session) is None:
        over = _needs_float64(session, estimate_rounding(session, trace, run_method))
        if not bool(over.any()) or not has_double(trace.recording.logits.device):
            return session.trace(target, rule)
    return session.trace(target, rule, session.double)


@dataclass(frozen=True)
class Estimate:
    """What a method gives in the model's own precision, and how far rounding may have moved it.

    output  in the model's own precision; its scores (B, N)
    errors  (B, N), of each score
    share   (B,), of the largest number of each sample
    shown   (B,), of patches and words alone: of the largest of their scores, which may be small beside that of a classification token
    """

    output: MethodOutput
    errors: Tensor
    share: Tensor
    shown: Tensor


def estimate_rounding(session: Session, trace: Trace, run_method: RunMethod) -> Estimate:
    """What ``run_method`` gives of a trace (B, N), and how far rounding may have moved it.

    The method runs again with the relevance moved by its errors, their signs drawn at random.
    """
    if has_double(trace.recording.logits.device):
        trace.recording.rounding = accumulated_rounding_of(session.model).units
    output = run_method(trace)
    scores = output.scores.detach()
    of_tokens = scores.shape == trace.mask.shape
    mask = trace.mask if of_tokens else torch.ones_like(scores, dtype=torch.bool)
    content = trace.content.to(mask.device) & mask if of_tokens else mask
    moved = []
    for draw in range(ESTIMATE_DRAWS):
        other = session.trace(trace.chosen, trace.rule, trace.recording)
        other.draw = draw
        moved.append((run_method(other).scores.detach() - scores).abs())
    errors = ESTIMATE_FACTOR * torch.stack(moved).amax(0)
    return Estimate(replace(output, scores=scores), errors, *(_share(errors * part, scores * part) for part in (mask, content)))


def _share(change: Tensor, scores: Tensor) -> Tensor:
    """(B,): the largest change over the largest score, and what reading it rounds; 0 of a map that is zero everywhere."""
    largest, size = change.flatten(1).amax(1), scores.abs().flatten(1).amax(1)
    share = largest / size + SCORE_ROUNDING * torch.finfo(scores.dtype).eps
    return torch.where((largest == 0) & (size == 0), 0.0, share).nan_to_num(math.inf, math.inf).double().cpu()


def _needs_float64(session: Session, estimate: Estimate) -> Tensor:
    """bool (B,): whose map needs float64. Of light models also where patches and words alone may be off, though their scores are small."""
    over, amplified = estimate.share > FLOAT64_THRESHOLD, estimate.shown > ILL_CONDITIONED
    if not bool(amplified.any()):
        return over
    module = session.model.module
    looked_up = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
    multiplied = sum(p.numel() for p in module.parameters() if id(p) not in looked_up)
    if multiplied * session.recording.block_inputs[0].shape[1] > LIGHT_MODEL_PRODUCTS:
        return over
    return over | amplified


def has_double(device: torch.device) -> bool:
    """Whether float64 exists on a device: Apple's GPUs have none."""
    return device.type != "mps"


def _reason_for_float64(session: Session) -> str | None:
    """Why everything is computed in float64, whatever its estimate; None where that decides. Raises ExplainerError where there is none."""
    logits = session.recording.logits
    if session.precision == "double":
        if not has_double(logits.device):
            raise ExplainerError(
                f"precision=double asks for float64, which {logits.device.type} does not have: leave it out, or use the CPU."
            )
        return "It was asked for."
    if logits.dtype == torch.float64:
        return "The model is in float64."
    if ACCUMULATED_ROUNDING * torch.finfo(logits.dtype).eps > FLOAT64_THRESHOLD and has_double(logits.device):
        return f"{_name(logits.dtype)} has too few digits for relevance."
    if has_double(logits.device) and (off := accumulated_rounding_of(session.model).input_error) > FLOAT64_THRESHOLD:
        return f"In {_name(logits.dtype)} rounding moves some of this model's own activations by {_percent(off)} of their mean size."
    return None


def _with_errors(attribution: Attribution, errors: Tensor, rough: Tensor, dtype: str) -> Attribution:
    """With what is known of the numbers of a map: the estimated ``errors`` (S,), and the scores in the model's ``dtype``."""
    assert attribution.precision is not None
    change = None if attribution.precision.dtype == dtype else rough - attribution.scores
    return replace(attribution, numerics=replace(attribution.numerics, errors=errors, change=change, dtype=dtype))


def _with_note(attribution: Attribution, note: str) -> Attribution:
    """With a note on its numbers."""
    numerics = replace(attribution.numerics, notes=(*attribution.numerics.notes, note))
    return replace(attribution, notes=(*attribution.notes, note), numerics=numerics)


def _in_model_precision(attribution: Attribution, dtype: str, share: float, shown: float, lacks_double: bool = True) -> Attribution:
    """A map of the model's own precision, ``dtype``. ``lacks_double``: whether a device without float64 keeps one over the threshold."""
    by = _percent(share)
    if share <= FLOAT64_THRESHOLD and shown <= ILL_CONDITIONED:
        return replace(attribution, precision=MapPrecision(dtype, f"Rounding changes it by at most {by} of its largest score.", share))
    reason = f"Rounding may change it by {by} of its largest score" + (
        "." if share > FLOAT64_THRESHOLD else f", and {_kind(attribution)} by {_percent(shown)} of the largest of theirs."
    )
    kept = share > FLOAT64_THRESHOLD and lacks_double  # it would have been computed in float64
    if kept:
        reason = f"{reason.removesuffix('.')}, and this device has no float64."
    remedy = "On the CPU it is computed in float64." if kept else "precision=double computes it in float64."
    return _with_note(replace(attribution, precision=MapPrecision(dtype, reason, share)), f"{reason} {remedy}")


def _in_float64(attribution: Attribution, rough: Tensor, shares: tuple[float, float], dtype: str) -> Attribution:
    """A map of float64, which says how far the same rule in the model's own precision, ``rough`` (S,), is from it, if that is far."""
    share, shown = shares
    reason = f"In {dtype} rounding may change it by {_percent(share)} of its largest score."
    if share <= FLOAT64_THRESHOLD:
        reason = f"In {dtype} rounding may change {_kind(attribution)} by {_percent(shown)} of the largest of their scores."
    return _with_note_on_change(replace(attribution, precision=MapPrecision("float64", reason, share)), rough, dtype, "This map was")


def _with_note_on_change(attribution: Attribution, rough: Tensor, dtype: str, computed_so: str) -> Attribution:
    """With a note where the scores in the model's own precision, ``rough`` (S,), are far from those of float64."""
    content = attribution.content if bool(attribution.content.any()) else torch.ones_like(attribution.content)
    size = attribution.scores[content].abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    change = float((rough - attribution.scores)[content].abs().max() / size)
    if change <= ILL_CONDITIONED:
        return attribution
    by = f"changes {_kind(attribution)} by up to {change:.0%} of the largest score" if math.isfinite(change) else "loses it altogether"
    note = (
        f"Close to a division by zero: rounding to {dtype} alone {by}. {computed_so} computed in float64; "
        "small changes of the input may change it as much."
    )
    return _with_note(attribution, note)


def join_maps(parts: Sequence[Attribution], whole: Attribution, join: Callable[[list[Tensor]], Tensor]) -> Attribution:
    """The map of a ``whole`` that was read in parts, with the notes and the precision that follow from those of the maps of its ``parts``.

    Its scores are already theirs, joined by ``join``. So are the errors of each score, and the notes are on what this gives.
    """
    known = [part.numerics for part in parts]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes if note not in part.numerics.notes))
    sizes = _joined_sizes(known, join)
    on_scores = tuple(notes_on_scores(whole.scores, whole.content, sizes, whole.patches is not None))
    whole = replace(whole, notes=(*notes, *on_scores), numerics=Numerics(sizes=sizes, notes=on_scores), precision=parts[0].precision)
    precisions = [part.precision for part in parts if part.precision is not None]
    errors = [numerics.errors for numerics in known if numerics.errors is not None]
    if len(errors) < len(parts) or len(precisions) < len(parts):  # no relevance, or all in float64 whatever the estimate
        return whole
    dtype, doubled = known[0].dtype, [numerics.change is not None for numerics in known]
    changes = [torch.zeros_like(e) if n.change is None else n.change for n, e in zip(known, errors, strict=True)]
    rough = whole.scores + join(changes)
    if all(doubled):
        whole = _in_float64(whole, rough, _shares(whole, join(errors)), dtype)
    else:
        # what was computed in float64 is as good as exact
        left = [torch.zeros_like(e) if in_double else e for e, in_double in zip(errors, doubled, strict=True)]
        lacks_double = any(
            (precision.rounding or 0.0) > FLOAT64_THRESHOLD for precision, exact in zip(precisions, doubled, strict=True) if not exact
        )
        whole = _in_model_precision(whole, dtype, *_shares(whole, join(left)), lacks_double)
        if any(doubled):
            whole = _of_two_types(whole, rough, dtype, sum(doubled), len(parts))
    return _with_errors(whole, join(errors), rough, dtype)


def _of_two_types(whole: Attribution, rough: Tensor, dtype: str, doubled: int, parts: int) -> Attribution:
    """A map of the model's own precision of which so many parts were computed in float64."""
    assert whole.precision is not None
    were = f"{doubled} of {parts} windows {'was' if doubled == 1 else 'were'}"
    why = f"{were} computed in float64, the others in {dtype}. {whole.precision.why}"
    return _with_note_on_change(
        replace(whole, precision=replace(whole.precision, dtype=f"{dtype} and float64", why=why)), rough, dtype, were
    )


def _joined_sizes(known: Sequence[Numerics], join: Callable[[list[Tensor]], Tensor]) -> Tensor | None:
    """The sizes of the terms of joined scores, in the roughest of their types."""
    sizes = [numerics.sizes for numerics in known if numerics.sizes is not None]
    if len(sizes) < len(known):
        return None
    return join(sizes).to(max((size.dtype for size in sizes), key=lambda dtype: torch.finfo(dtype).eps))


def _shares(attribution: Attribution, errors: Tensor) -> tuple[float, float]:
    """As :class:`Estimate` has them, of one map and the ``errors`` (S,) of its scores: ``share`` and ``shown``."""
    everywhere = torch.ones_like(attribution.content)
    share, shown = (float(_share((errors * part)[None], (attribution.scores * part)[None])) for part in (everywhere, attribution.content))
    return share, shown


def notes_on_scores(scores: Tensor, content: Tensor, sizes: Tensor | None, of_patches: bool) -> list[str]:
    """Notes on the scores (S,) of one map, of which ``content`` (bool, S) stand for patches or words.

    ``sizes`` (S,): for each score the sum of the absolute values of its terms, in the type that they were added in; None where the
    method does not say.
    """
    shown = scores[content]
    if len(shown) == 0:
        return []
    if not bool(shown.any()):
        return ["This map is zero everywhere: for this target the method gives no patch or word any score, so there is nothing to rank."]
    if sizes is None:
        return []
    share = float(SUM_ROUNDING * torch.finfo(sizes.dtype).eps * sizes[content].max() / shown.abs().max())
    if share < NOISY_SCORES_THRESHOLD:
        return []
    kind, by = ("patches", "patch") if of_patches else ("words", "word")
    changed = "wholly" if share >= 1 else f"by {share:.0%} of the largest of them"
    return [
        f"The terms of each {by}'s score all but cancel: what is left of the {kind} may be changed {changed} by rounding "
        f"({_name(sizes.dtype)}), so do not trust their order."
    ]


def _kind(attribution: Attribution) -> str:
    return "its words" if attribution.patches is None else "its patches"


def _percent(share: float) -> str:
    if not math.isfinite(share) or share > 1:
        return "more than 100 %"
    return f"{float(f'{100 * share:.1g}'):g} %"  # one digit: 30, not 3e+01


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
