"""In which precision a map is computed: the model's own, or float64 where rounding would show.

Where the terms of a sum or a product cancel, deep Taylor and LRP divide by the little that is left, and amplify the rounding of the forward
pass: for some inputs and methods a little, for others by a factor of a hundred thousand. So each map of relevance is computed in the
model's own precision with an estimate of what rounding did to it (:mod:`explainers.autograd.rounding`), and again in float64 where that
estimate is over :data:`BAR`. ``python -m tests.conditioning`` measures both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from explainers.autograd.rounding import GATHERED
from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.result import Attribution, MapPrecision
from explainers.session import Session
from explainers.targets import ResolvedTarget
from explainers.trace import Trace

#: An estimate over this share of the largest score sends a map to float64.
BAR = 1e-3
#: A map that rounding would have changed by more than this share of its largest score says so.
ILL_CONDITIONED = 0.01
#: The estimate is of first order and drawn at random: what it is multiplied by, so that it bounds what rounding does.
MARGIN = 6.0
DRAWS = 2

Read = Callable[[Trace], Tensor]
ReadMaps = Callable[[Trace, Tensor | None], list[Attribution]]


def computed(session: Session, target: ResolvedTarget, rule: Rule | None, read: Read, read_maps: ReadMaps) -> list[Attribution]:
    """One map a sample, in the precision that it needs; those of relevance say which it was and why.

    ``read`` gives the scores (B, S), ``read_maps`` the maps of a trace, whose scores may be known already. A sample whose estimate is
    over the bar gets its map in float64, the others keep theirs, so that no map depends on what it was explained with.
    """
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return read_maps(trace, None)
    started, exact = time.perf_counter(), None
    dtype, reason = _name(session.recording.logits.dtype), _decided(session)
    if reason is None:
        scores, shares = estimated(session, trace, read)
        short = shares > BAR
        rough = [row[mask] for row, mask in zip(scores.double().cpu(), trace.mask.cpu(), strict=True)]
        maps: list[Attribution] = []
        if not bool(short.any()) or not has_double(scores.device):
            maps = read_maps(trace, scores)
        elif not bool(short.all()):
            maps = read_maps(trace, scores.masked_fill(short.to(scores.device)[:, None], 0.0))
        maps = [_in_own(attribution, dtype, share) for attribution, share in zip(maps, shares.tolist(), strict=False)]
        if bool(short.any()) and has_double(scores.device):
            exact = session.trace(target, rule, session.double)
            ours = [_in_double(*each, dtype) for each in zip(read_maps(exact, None), rough, shares.tolist(), strict=True)]
            maps = [ours[i] if over else maps[i] for i, over in enumerate(short.tolist())]
    else:
        exact = session.trace(target, rule, session.double)
        maps = [replace(attribution, precision=MapPrecision("float64", reason)) for attribution in read_maps(exact, None)]
    seconds = time.perf_counter() - started + trace.waited + (0.0 if exact is None else exact.waited)
    return [replace(attribution, seconds=seconds) for attribution in maps]


def trusted(session: Session, target: ResolvedTarget, rule: Rule | None, read: Read) -> Trace:
    """A trace to read something else than a map from, in the precision that ``read`` of it (B, N) needs."""
    trace = session.trace(target, rule)
    if rule is None or not rule.is_relevance:
        return trace
    if _decided(session) is None:
        _, shares = estimated(session, trace, read)
        if not bool((shares > BAR).any()) or not has_double(trace.recording.logits.device):
            return session.trace(target, rule)
    return session.trace(target, rule, session.double)


def estimated(session: Session, trace: Trace, read: Read) -> tuple[Tensor, Tensor]:
    """What ``read`` gives of a trace, and (B,) how far rounding may have moved it, as a share of the largest number of each sample.

    It is read again with the relevance moved by its errors, their signs drawn at random.
    """
    scores = read(trace).detach()
    mask = trace.mask if scores.shape == trace.mask.shape else torch.ones_like(scores, dtype=torch.bool)
    size = (scores.abs() * mask).flatten(1).amax(1)
    moved = []
    for draw in range(DRAWS):
        other = session.trace(trace.chosen, trace.rule, trace.recording)
        other.draw = draw
        moved.append(((read(other).detach() - scores).abs() * mask).flatten(1).amax(1))
    worst = torch.stack(moved).amax(0)
    share = torch.where(worst == 0, 0.0, MARGIN * worst / size)
    return scores, share.nan_to_num(math.inf, math.inf).double().cpu()


def has_double(device: torch.device) -> bool:
    """Whether float64 exists on a device: Apple's GPUs have none."""
    return device.type != "mps"


def _decided(session: Session) -> str | None:
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
    if GATHERED * torch.finfo(logits.dtype).eps > BAR and has_double(logits.device):
        return f"{_name(logits.dtype)} has too few digits for relevance."
    return None


def _in_own(attribution: Attribution, dtype: str, share: float) -> Attribution:
    by = _percent(share)
    if share <= BAR:
        return replace(attribution, precision=MapPrecision(dtype, f"Rounding changes it by at most {by} of its largest score.", share))
    reason = f"Rounding may change it by {by} of its largest score, and this device has no float64."
    note = f"{reason} On the CPU it is computed in float64."
    return replace(attribution, precision=MapPrecision(dtype, reason, share), notes=(*attribution.notes, note))


def _in_double(attribution: Attribution, rough: Tensor, share: float, dtype: str) -> Attribution:
    """A map of float64, which says how far the same rule in the model's own precision, ``rough`` (S,), is from it, if that is far."""
    reason = f"In {dtype} rounding may change it by {_percent(share)} of its largest score."
    in_double = replace(attribution, precision=MapPrecision("float64", reason, share))
    size = attribution.scores.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    change = float((rough - attribution.scores).abs().max() / size)
    if change <= ILL_CONDITIONED:
        return in_double
    by = f"changes its scores by up to {change:.0%} of the largest" if math.isfinite(change) else "loses it altogether"
    note = (
        f"Close to a division by zero: rounding to {dtype} alone {by}. This map was computed in float64; "
        "small changes of the input may change it as much."
    )
    return replace(in_double, notes=(*in_double.notes, note))


def _percent(share: float) -> str:
    if not math.isfinite(share) or share > 1:
        return "more than 100 %"
    return f"{100 * share:.1g} %"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
