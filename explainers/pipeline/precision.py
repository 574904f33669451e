"""The precision of a map: the model's own, or float64 where rounding would show; and the notes that a map then gets.

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
from typing import Literal

import torch
from torch import Tensor, nn

from explainers.autograd.accumulated_rounding import accumulated_rounding_of
from explainers.autograd.rounding import ACCUMULATED_ROUNDING
from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.models.autocast import autocast_dtype
from explainers.models.inputs.types import MoleculeInput
from explainers.models.tf32 import is_tf32_asked
from explainers.records.notes import Note, NoteKind
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
#: Scores that rounding may change by this share of the largest of them say so, and the order of their map is not to be trusted.
NOISY_SCORES_THRESHOLD = 0.1
#: The rounding error of a sum, in epsilons of its dtype times the sum of the sizes of its terms; embedded models reached at most half.
SUM_ROUNDING = 1.0
#: The rounding error of reading a map, in units of the last place of its largest score.
SCORE_ROUNDING = 4.0

#: What has a score in a map, in the singular; :data:`PLURALS` has the plural.
Unit = Literal["patch", "word", "atom"]
PLURALS: dict[Unit, str] = {"patch": "patches", "word": "words", "atom": "atoms"}

RunMethod = Callable[[Trace], MethodOutput]
MakeMaps = Callable[[Trace, MethodOutput | None], list[Attribution]]


def compute_maps(
    session: Session, target: ResolvedTarget, rule: Rule | None, run_method: RunMethod, make_maps: MakeMaps
) -> list[Attribution]:
    """Compute one map for each sample of ``session`` for ``target`` under ``rule``, in the precision that it needs; each map says which
    precision it has, and why.

    ``run_method`` runs the method on a trace, ``make_maps`` makes the maps of one, whose output may be known already. A sample whose
    estimate is over the threshold gets its map in float64; the others keep theirs, so that no map depends on the other samples. A gradient
    that the method reads besides relevance stays in the model's own precision, unless everything is computed in float64.
    """
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return _say_precision(session, make_maps(trace, None))
    started, double_trace = time.perf_counter(), None
    dtype, reason = _dtype_of(session), _reason_for_float64(session)
    if reason is None:
        estimate = estimate_rounding(session, trace, run_method)
        scores, needs_double = estimate.output.scores, _needs_float64(session, estimate)
        both = zip(*torch.stack([scores, estimate.errors]).cpu().double(), trace.cpu_mask, strict=True)
        model_scores, errors = zip(*((row[mask], row_errors[mask]) for row, row_errors, mask in both), strict=True)
        shares = list(zip(estimate.share_of_all.tolist(), estimate.share_of_content.tolist(), strict=True))
        maps: list[Attribution] = []
        if not bool(needs_double.all()) or not has_double(scores.device):
            usable_scores = scores if not has_double(scores.device) else scores.masked_fill(needs_double.to(scores.device)[:, None], 0.0)
            output = replace(estimate.output, scores=usable_scores)
            maps = [
                _describe_model_precision(attribution, dtype, *share)
                for attribution, share in zip(make_maps(trace, output), shares, strict=True)
            ]
        if bool(needs_double.any()) and has_double(scores.device):
            double_trace = session.trace(target, rule, session.double, of_gradients=session.recording)
            double_maps = [
                _describe_float64(*share, dtype) for share in zip(make_maps(double_trace, None), model_scores, shares, strict=True)
            ]
            maps = [double_maps[i] if is_over else maps[i] for i, is_over in enumerate(needs_double.tolist())]
        maps = [_add_errors(attribution, errors[i], model_scores[i], dtype) for i, attribution in enumerate(maps)]
    else:
        double_trace = session.trace(target, rule, session.double)
        maps = [replace(attribution, precision=MapPrecision("float64", reason)) for attribution in make_maps(double_trace, None)]
    seconds = time.perf_counter() - started + trace.waited + (0.0 if double_trace is None else double_trace.waited)
    return [replace(attribution, seconds=seconds) for attribution in maps]


def _dtype_of(session: Session) -> str:
    """Return the name of the precision in which the session's model computes, such as "float32" or "float32 with TF32"."""
    dtype = _computing_dtype(session)
    return f"{_name(dtype)} with TF32" if is_tf32_asked(session.recording.logits.device) and dtype == torch.float32 else _name(dtype)


def _computing_dtype(session: Session) -> torch.dtype:
    """Return the type in which the session's model multiplies: that of its answer, or the shorter one of a caller's torch.autocast, from
    which many models convert their answer back.
    """
    logits = session.recording.logits
    return logits.dtype if logits.dtype == torch.float64 else autocast_dtype(logits.device) or logits.dtype


def _say_precision(session: Session, maps: list[Attribution]) -> list[Attribution]:
    """Return ``maps`` of ``session``, none of relevance, with their precision noted, which is the model's own."""
    dtype = _dtype_of(session)
    reasons = {"float32 with TF32": "TF32 was asked for.", "float32": "The model's weights are float32, and TF32 was off."}
    is_autocast = autocast_dtype(session.recording.logits.device) is not None and dtype != "float64"
    reason = "torch.autocast was on around the call." if is_autocast else reasons.get(dtype, f"The model's weights are {dtype}.")
    precision = MapPrecision(dtype, reason)
    return [replace(attribution, precision=precision) for attribution in maps]


def choose_trace(session: Session, target: ResolvedTarget, rule: Rule | None, run_method: RunMethod) -> Trace:
    """Return the trace of ``target`` in ``session`` under ``rule`` in the precision that the numbers (B, N) need which ``run_method``
    computes from it; for results other than maps.
    """
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return trace
    if _reason_for_float64(session) is None:
        over = _needs_float64(session, estimate_rounding(session, trace, run_method))
        if not bool(over.any()) or not has_double(trace.recording.logits.device):
            return session.trace(target, rule)
        return session.trace(target, rule, session.double, of_gradients=session.recording)
    return session.trace(target, rule, session.double)


@dataclass(frozen=True)
class Estimate:
    """The output of a method in the model's own precision, and how far rounding may have moved it.

    output            in the model's own precision; its scores (B, N)
    errors            (B, N): the estimated error of each score
    share_of_all      (B,): the largest error as a share of the largest number of each sample
    share_of_content  (B,): the same for patches and words alone, whose largest score may be small compared with that of a class token
    """

    output: MethodOutput
    errors: Tensor
    share_of_all: Tensor
    share_of_content: Tensor


def estimate_rounding(session: Session, trace: Trace, run_method: RunMethod) -> Estimate:
    """Run ``run_method`` on ``trace``, one of ``session``, and return its output with an estimate of how far rounding may have moved each
    of its numbers (B, N).

    The method runs again with the relevance moved by its errors, their signs drawn at random.
    """
    if has_double(trace.recording.logits.device):
        trace.recording.rounding = accumulated_rounding_of(session.model).units
    output = run_method(trace)
    scores = output.scores.detach()
    is_per_token = scores.shape == trace.mask.shape
    mask = trace.recording.real_tokens.of_input if is_per_token else torch.ones_like(scores, dtype=torch.bool)
    content = trace.content.to(mask.device) & mask if is_per_token else mask
    changes = []
    for draw in range(ESTIMATE_DRAWS):
        other_trace = session.trace(trace.chosen, trace.rule, trace.recording)
        other_trace.draw = draw
        changes.append((run_method(other_trace).scores.detach() - scores).abs())
    errors = ESTIMATE_FACTOR * torch.stack(changes).amax(0)
    of_all, of_content = torch.stack([_largest_share(errors * part, scores * part) for part in (mask, content)]).cpu().double()
    return Estimate(replace(output, scores=scores), errors, of_all, of_content)


def _largest_share(change: Tensor, scores: Tensor) -> Tensor:
    """Return the largest change divided by the largest score, (B,), plus the rounding of reading the map; 0 for a map that is zero
    everywhere.
    """
    largest, size = change.flatten(1).amax(1), scores.abs().flatten(1).amax(1)
    share = largest / size + SCORE_ROUNDING * torch.finfo(scores.dtype).eps
    return torch.where((largest == 0) & (size == 0), 0.0, share).nan_to_num(math.inf, math.inf)


def _needs_float64(session: Session, estimate: Estimate) -> Tensor:
    """Return which samples of ``session`` need their map in float64, bool (B,), by the ``estimate`` of their rounding errors: for small
    models also if only the small scores of patches and words may be wrong.
    """
    is_over, is_amplified = estimate.share_of_all > FLOAT64_THRESHOLD, estimate.share_of_content > ILL_CONDITIONED
    if not bool(is_amplified.any()):
        return is_over
    module = session.model.module
    embedding_ids = {id(m.weight) for m in module.modules() if isinstance(m, nn.Embedding)}
    parameter_count = sum(p.numel() for p in module.parameters() if id(p) not in embedding_ids)
    if parameter_count * session.recording.block_inputs[0].shape[1] > LIGHT_MODEL_PRODUCTS:
        return is_over
    return is_over | is_amplified


def has_double(device: torch.device) -> bool:
    """Return whether ``device`` has float64: Apple's GPUs do not."""
    return device.type != "mps"


def _reason_for_float64(session: Session) -> str | None:
    """Return why everything in ``session`` is computed in float64 without an estimate; None if the estimate decides. Raises ExplainerError
    if the device has no float64.
    """
    logits = session.recording.logits
    if session.precision == "double":
        if not has_double(logits.device):
            raise ExplainerError(
                f"precision=double asks for float64, which {logits.device.type} does not have: leave it out, or use the CPU."
            )
        return "precision=double was asked for."
    dtype = _computing_dtype(session)
    if dtype == torch.float64:
        return "The model itself computes in float64."
    if ACCUMULATED_ROUNDING * torch.finfo(dtype).eps > FLOAT64_THRESHOLD and has_double(logits.device):
        return f"{_name(dtype)} has too few digits for relevance."
    if has_double(logits.device) and (off := accumulated_rounding_of(session.model).input_error) > FLOAT64_THRESHOLD:
        return f"In {_name(dtype)} rounding moves some of this model's own activations by {_percent(off)} of their mean size."
    return None


def _add_errors(attribution: Attribution, errors: Tensor, model_scores: Tensor, dtype: str) -> Attribution:
    """Return the map ``attribution`` with the estimated ``errors`` (S,) of its scores, and their change from the scores in the model's
    ``dtype``.
    """
    assert attribution.precision is not None
    change = None if attribution.precision.dtype == dtype else model_scores - attribution.scores
    return replace(attribution, numerics=replace(attribution.numerics, errors=errors, change=change, dtype=dtype))


def _add_note(attribution: Attribution, note: str) -> Attribution:
    """Return the map ``attribution`` with ``note`` appended to its notes and to its notes on rounding."""
    numerics = replace(attribution.numerics, notes=(*attribution.numerics.notes, note))
    return replace(attribution, notes=(*attribution.notes, note), numerics=numerics)


def _describe_model_precision(
    attribution: Attribution, dtype: str, of_all: float, of_content: float, lacks_double: bool = True
) -> Attribution:
    """Return ``attribution``, a map in the model's own precision ``dtype``, with a statement of how far rounding may change it: by the
    share ``of_all`` of all scores and the share ``of_content`` of the scores of patches or words.

    ``lacks_double``: whether the map is over the threshold but the device has no float64.
    """
    by = _percent(of_all)
    if of_all <= FLOAT64_THRESHOLD and of_content <= ILL_CONDITIONED:
        return replace(attribution, precision=MapPrecision(dtype, f"Rounding changes it by at most {by} of its largest score.", of_all))
    reason = f"Rounding may change it by {by} of its largest score" + (
        "." if of_all > FLOAT64_THRESHOLD else f", and {_kind(attribution)} by {_percent(of_content)} of the largest of theirs."
    )
    is_over = of_all > FLOAT64_THRESHOLD and lacks_double  # it would have been computed in float64
    if is_over:
        reason = f"{reason.removesuffix('.')}, and this device has no float64."
    remedy = "On the CPU it is computed in float64." if is_over else "precision=double computes it in float64."
    kind: NoteKind = "" if max(of_all, of_content) < NOISY_SCORES_THRESHOLD else "doubt"
    return _add_note(
        replace(attribution, precision=MapPrecision(dtype, reason, of_all)),
        Note(f"{reason} {remedy} {_trust(max(of_all, of_content))}", kind),
    )


def _describe_float64(attribution: Attribution, model_scores: Tensor, shares: tuple[float, float], dtype: str) -> Attribution:
    """Return ``attribution``, a map computed in float64, with the reason for it: rounding in the model's own precision, ``dtype``, may
    change it by the ``shares`` of all scores and of those of patches or words. A note is added if the scores in that precision,
    ``model_scores`` (S,), are far from it.
    """
    of_all, of_content = shares
    reason = f"In {dtype} rounding may change it by {_percent(of_all)} of its largest score."
    if of_all <= FLOAT64_THRESHOLD:
        reason = f"In {dtype} rounding may change {_kind(attribution)} by {_percent(of_content)} of the largest of their scores."
    return _add_note_on_change(replace(attribution, precision=MapPrecision("float64", reason, of_all)), model_scores, dtype, "This map was")


def _add_note_on_change(attribution: Attribution, model_scores: Tensor, dtype: str, subject: str) -> Attribution:
    """Return the map ``attribution``, computed in float64, with a note if the scores in the model's own precision ``dtype``,
    ``model_scores`` (S,), are far from it. ``subject`` begins the sentence: "This map was".
    """
    content = attribution.content if bool(attribution.content.any()) else torch.ones_like(attribution.content)
    size = attribution.scores[content].abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    change = float((model_scores - attribution.scores)[content].abs().max() / size)
    if change <= ILL_CONDITIONED:
        return attribution
    effect = f"changes {_kind(attribution)} by up to {change:.0%} of the largest score" if math.isfinite(change) else "loses it altogether"
    text = (
        f"Close to a division by zero: rounding to {dtype} alone {effect}. {subject} computed in float64; "
        f"small changes of the input may change it as much. {_trust(change)}"
    )
    return _add_note(attribution, Note(text, "" if change < NOISY_SCORES_THRESHOLD else "doubt"))


def join_maps(parts: Sequence[Attribution], whole: Attribution, join: Callable[[list[Tensor]], Tensor]) -> Attribution:
    """Return the map of a ``whole`` that was read in parts, with the notes and the precision that follow from the maps of its ``parts``.

    Its scores are already joined from theirs by ``join``. The errors are joined in the same way, and the notes are made from the results.
    """
    part_numerics = [part.numerics for part in parts]
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes if note not in part.numerics.notes))
    term_sizes = _join_sizes(part_numerics, join)
    on_scores = tuple(notes_on_scores(whole.scores, whole.content, term_sizes, unit_of(whole.patches is not None, whole.text)))
    whole = replace(whole, notes=(*notes, *on_scores), numerics=Numerics(sizes=term_sizes, notes=on_scores), precision=parts[0].precision)
    precisions = [part.precision for part in parts if part.precision is not None]
    errors = [numerics.errors for numerics in part_numerics if numerics.errors is not None]
    if len(errors) < len(parts) or len(precisions) < len(parts):  # no relevance, or all in float64 whatever the estimate
        return whole
    dtype, is_double = part_numerics[0].dtype, [numerics.change is not None for numerics in part_numerics]
    changes = [torch.zeros_like(e) if n.change is None else n.change for n, e in zip(part_numerics, errors, strict=True)]
    model_scores = whole.scores + join(changes)
    if all(is_double):
        whole = _describe_float64(whole, model_scores, _largest_shares(whole, join(errors)), dtype)
    else:
        # what was computed in float64 is as good as exact
        remaining_errors = [torch.zeros_like(e) if in_double else e for e, in_double in zip(errors, is_double, strict=True)]
        lacks_double = any(
            (precision.rounding or 0.0) > FLOAT64_THRESHOLD
            for precision, in_double in zip(precisions, is_double, strict=True)
            if not in_double
        )
        whole = _describe_model_precision(whole, dtype, *_largest_shares(whole, join(remaining_errors)), lacks_double)
        if any(is_double):
            whole = _describe_mixed_dtypes(whole, model_scores, dtype, sum(is_double), len(parts))
    return _add_errors(whole, join(errors), model_scores, dtype)


def _describe_mixed_dtypes(whole: Attribution, model_scores: Tensor, dtype: str, double_count: int, window_count: int) -> Attribution:
    """Return ``whole``, the map of a long text, with a statement that ``double_count`` of its ``window_count`` parts were computed in
    float64, the others in ``dtype``, and with a note if ``model_scores`` (S,), the scores in ``dtype``, are far from it.
    """
    assert whole.precision is not None
    subject = f"{double_count} of {window_count} windows {'was' if double_count == 1 else 'were'}"
    why = f"{subject} computed in float64, the others in {dtype}. {whole.precision.why}"
    return _add_note_on_change(
        replace(whole, precision=replace(whole.precision, dtype=f"{dtype} and float64", why=why)), model_scores, dtype, subject
    )


def _join_sizes(part_numerics: Sequence[Numerics], join: Callable[[list[Tensor]], Tensor]) -> Tensor | None:
    """Return the sizes of the terms of the scores of all parts, joined by ``join``, in the coarsest of their types; None if one of
    ``part_numerics`` has no sizes.
    """
    term_sizes = [numerics.sizes for numerics in part_numerics if numerics.sizes is not None]
    if len(term_sizes) < len(part_numerics):
        return None
    return join(term_sizes).to(max((size.dtype for size in term_sizes), key=lambda dtype: torch.finfo(dtype).eps))


def _largest_shares(attribution: Attribution, errors: Tensor) -> tuple[float, float]:
    """Return how far rounding may move the map ``attribution`` with ``errors`` (S,) of its scores: the largest error as a share of the
    largest score, among all tokens (``of_all``) and among patches or words (``of_content``).
    """
    everywhere = torch.ones_like(attribution.content)
    of_all, of_content = (
        float(_largest_share((errors * part)[None], (attribution.scores * part)[None])) for part in (everywhere, attribution.content)
    )
    return of_all, of_content


def unit_of(has_patches: bool, sample: object) -> Unit:
    """Return the word for what has a score in a map: a patch, an atom of a molecule (``sample``), or a word of a text."""
    return "patch" if has_patches else "atom" if isinstance(sample, MoleculeInput) else "word"


def notes_on_scores(scores: Tensor, content: Tensor, sizes: Tensor | None, unit: Unit) -> list[str]:
    """Return notes on the scores (S,) of one map, of which ``content`` (bool, S) stand for patches, words or atoms (``unit``): that it is
    zero everywhere, or mostly rounding.

    ``sizes`` (S,): for each score the sum of the absolute values of its terms, in the type that they were added in; None if the method does
    not report them.
    """
    content_scores = scores[content]
    if len(content_scores) == 0:
        return []
    if not bool(content_scores.any()):
        return [Note("This map is zero everywhere, so there is nothing to rank.", "doubt")]
    if sizes is None:
        return []
    share = float(SUM_ROUNDING * torch.finfo(sizes.dtype).eps * sizes[content].max() / content_scores.abs().max())
    if share < NOISY_SCORES_THRESHOLD:
        return []
    extent = "wholly" if share >= 1 else f"by {share:.0%} of the largest of them"
    text = (
        f"The terms of each {unit}'s score all but cancel: what is left of the {PLURALS[unit]} may be changed {extent} by rounding "
        f"({_name(sizes.dtype)}), so do not trust their order."
    )
    return [Note(text, "doubt")]


def _trust(share: float) -> str:
    """Return whether the order of a map that rounding may change by this ``share`` of its largest score can be trusted, in a sentence that
    names the threshold.
    """
    threshold = _percent(NOISY_SCORES_THRESHOLD)
    if share < NOISY_SCORES_THRESHOLD:  # not a number is not below it
        return f"Its order can be trusted: rounding moves scores by less than {threshold} of the largest."
    return f"Do not trust its order: rounding may move scores by {threshold} of the largest or more."


def _kind(attribution: Attribution) -> str:
    return f"its {PLURALS[unit_of(attribution.patches is not None, attribution.text)]}"


def _percent(share: float) -> str:
    if not math.isfinite(share) or share > 1:
        return "more than 100 %"
    return f"{float(f'{100 * share:.1g}'):g} %"  # one digit: 30, not 3e+01


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
