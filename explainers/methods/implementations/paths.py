"""Methods that average gradients over many inputs: along a path, or around the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from explainers.autograd import integration
from explainers.autograd.integration import INNER_BATCH
from explainers.autograd.signals import fields_of
from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.declaration import Promise
from explainers.methods.implementations.gradients import AT
from explainers.methods.registry import GRADIENT_ALSO, method
from explainers.methods.seed_correlations import add_seed_correlations, group_of
from explainers.methods.specs import Option, block_of
from explainers.models.passes import Passes
from explainers.records.trace import MethodOutput, Trace, from_pixels

MOST_STEPS = 1000
NOISY_DRAWS = Option(int, 32, "noisy inputs to average over", minimum=1, maximum=1000)
PATH_AT = replace(
    AT,
    help="where the path runs: over the embedded tokens, over the pixels, then summed over each patch, or with block:N over the tokens "
    "that enter block N, counted from 0",
    blocks="index",
)
PATH_TOLERANCE = 0.05  # of the explained difference: what Integrated Gradients may miss before its map says so


def gradients_at(trace: Trace, at: str, values: Callable[[Tensor, int, int], Tensor], count: int) -> list[Tensor]:
    """Return the signals of the backward pass at ``count`` changed inputs of ``trace``, as a list of (B, number, ...); ``at`` says what is
    changed: pixels, embedded tokens, or tokens at the input of a block (block:N). ``values(x, first, number)`` makes ``number`` of the
    inputs, (B * number, ...), beginning with the one numbered ``first``, from x repeated that often; it may be called more than once for
    the same ones.
    """
    rule = trace.rule
    assert rule is not None
    batch, block = len(trace.block_inputs[0]), block_of(at)

    def gradients_of(first: int, number: int) -> Tensor:
        def move(x: Tensor) -> Tensor:
            return values(x, first, number)

        if at == "pixels":
            recording = trace.rerun(number, pixels=True, change=lambda name, t: move(t) if name == "pixel_values" else t)
        else:
            recording = trace.rerun(number, entry=move, entry_block=block)
        fields = fields_of(["pixels" if at == "pixels" else f"block_inputs[{block or 0}]"])
        signals = recording.cached_backward(rule, trace.chosen.repeat(number).output_gradient(recording.logits, rule), fields)
        signal = signals.pixels if at == "pixels" else signals.block_inputs[block or 0]
        assert signal is not None
        rows: Tensor = signal.unflatten(0, (batch, number))
        return rows

    return list(Passes(trace.repeats_at_once(INNER_BATCH)).run(count, gradients_of))


def mean_gradient(trace: Trace, at: str, start: Tensor, x: Tensor, points: Sequence[float], weights: Sequence[float]) -> Tensor:
    """Return the sum with ``weights`` of the signals at ``points`` from 0 to 1 of the straight path from ``start`` to ``x``, the values
    ``at`` a place of ``trace``, in their shape.
    """

    def values(copies: Tensor, first: int, number: int) -> Tensor:
        alphas = torch.tensor(points[first : first + number], dtype=x.dtype, device=x.device).repeat(len(x))
        alphas = alphas.view(-1, *[1] * (x.dim() - 1))
        return start.repeat_interleave(number, 0) * (1 - alphas) + copies * alphas

    total, step = torch.zeros_like(x), 0
    for signal in gradients_at(trace, at, values, len(points)):
        share = torch.tensor(weights[step : step + signal.shape[1]], dtype=x.dtype, device=x.device)
        total += torch.tensordot(share, signal, ([0], [1]))
        step += signal.shape[1]
    return total


def values_at(trace: Trace, at: str) -> Tensor:
    """Return the pixels, the embedded tokens or the tokens that enter block N of the pass of ``trace``; ``at`` is pixels, tokens or
    block:N.
    """
    if at == "pixels":
        return trace.pixel_values
    block, model = block_of(at), trace.recording.model
    if block is not None and block % len(model.blocks) == 0 and model.entry is not model.blocks[0]:  # a norm may follow x^1
        return trace.rerun(entry=lambda x: x, entry_block=block).block_inputs[0].detach()
    return trace.block_inputs[block or 0]


def _baseline(trace: Trace, at: str, x: Tensor, name: str) -> Tensor:
    """Return the start of the path of integrated gradients, in the shape of ``x``, the values ``at`` a place of ``trace``: zeros, or what
    padding tokens are there (``name`` is "zero" or "pad").
    """
    if name == "zero":
        return torch.zeros_like(x)
    config = getattr(trace.recording.model.module, "config", None)
    padding = getattr(config, "pad_token_id", None)
    if trace.recording.model.kind != "text" or trace.recording.model.reads_pictures or at == "pixels" or padding is None:
        raise ExplainerError("baseline=pad is for texts whose model names a padding token; choose baseline=zero.")
    blank = trace.rerun(change=lambda key, t: torch.full_like(t, padding) if key == "input_ids" else t)
    return blank.block_inputs[block_of(at) or 0].detach()


@method(
    "integrated_gradients",
    title="Integrated Gradients",
    family="paths",
    source=Citation(
        authors="Sundararajan et al.", year=2017, title="Axiomatic Attribution for Deep Networks", venue="ICML", arxiv="1703.01365"
    ),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=True,
    promise=Promise(("gradient",), "the explained number less that of the empty input, the closer the more steps"),
    slow=True,
    passes="steps + 2 forward, steps backward",
    options={
        "steps": Option(int, 50, "points on the path from the baseline to the input", minimum=2, maximum=MOST_STEPS),
        "quadrature": Option(
            str,
            "gauss_legendre",
            "how the integral is approximated; riemann is the sum of the papers, at 1/steps, 2/steps, ... 1; riemann_trapezoid is "
            "Captum's, whose weights sum to 1 - 1/steps",
            choices=("gauss_legendre", "riemann", "riemann_trapezoid"),
        ),
        "baseline": Option(
            str, "zero", "start of the path: zeros, or for a text the embedded padding token at every place", choices=("zero", "pad")
        ),
        "at": PATH_AT,
    },
    about=About(
        formula=(r"s_j = \sum_d \left(x_{j,d} - x'_{j,d}\right) \int_0^1 \nabla f\left(x' + a (x - x')\right)_{j,d} \, da",),
        words="The gradient is averaged on the straight path from an empty input x′ to the real one, and multiplied with the way.",
        trust="Use it when completeness is wanted without changing any rule, and its plate says that the “sum is off by” little.",
        fails=(
            "The empty input is a choice, and the map changes with it (Sturmfels et al. 2020, Distill). Points on the path are no real "
            "inputs; with too few of them the sum is off. The points are Gauss-Legendre's, where papers add 50 equal steps: "
            "quadrature=riemann does that."
        ),
        line="What each part adds on the way from an empty input to this one.",
    ),
)
def integrated_gradients(
    trace: Trace, steps: int = 50, quadrature: str = "gauss_legendre", baseline: str = "zero", at: str = "tokens"
) -> MethodOutput:
    """Input minus baseline, times the mean gradient along the straight path between them.

    sum_d (x - x') int_0^1 grad f(x' + a (x - x')) da at x^1, baseline zero for the whole of x^1 (position embedding and classification
    token included), at the pixels, or with at=block:N at the tokens that enter block N. The error reported is |f(x) - f(x') - sum of the
    scores|. ``steps`` and ``quadrature`` give the points of the integral.
    """
    points, weights = integration.quadrature(quadrature, steps)
    x = values_at(trace, at)
    start = _baseline(trace, at, x, baseline)
    product = (x - start) * mean_gradient(trace, at, start, x, points.tolist(), weights.tolist())
    if at == "pixels":
        start_recording = trace.rerun(change=lambda name, t: start if name == "pixel_values" else t)
        output, sums = from_pixels(trace, product.sum(1), terms=product), product.flatten(1).sum(1)
    else:
        start_recording = trace.rerun(entry=lambda _: start, entry_block=block_of(at))
        output, sums = MethodOutput(product.sum(-1)), product.sum((1, 2))
    difference = trace.value() - trace.value(start_recording.logits)
    error = (difference - sums).abs()
    is_promised = trace.rule is not None and trace.rule.name == "gradient"  # under another rule no number of steps adds up
    return replace(output, error=error, notes=_notes_on_steps(difference, error, steps) if is_promised else ())


def _notes_on_steps(difference: Tensor, error: Tensor, steps: int) -> tuple[tuple[str, ...], ...]:
    """Return for each sample a tuple with a note if the sum of its scores misses much (``error`` (B,)) of the explained ``difference`` (B,)
    with this number of ``steps``; else an empty tuple.
    """
    remedy = f"raise steps, now {steps}" if steps < MOST_STEPS else f"{steps} steps are too few for this model"
    notes = []
    for total, miss in zip(difference.tolist(), error.tolist(), strict=True):
        share = f" ({miss / abs(total):.0%})" if abs(total) * 10 > miss else ""
        note = f"The scores should add up to {total:.3g} and miss it by {miss:.2g}{share}: {remedy}."
        notes.append((note,) if miss > PATH_TOLERANCE * abs(total) else ())
    return tuple(notes)


@method(
    "smoothgrad",
    title="SmoothGrad",
    family="paths",
    classic=True,
    source=Citation(authors="Smilkov et al.", year=2017, title="SmoothGrad: removing noise by adding noise", arxiv="1706.03825"),
    rule="gradient",
    also=GRADIENT_ALSO,
    signed=False,
    slow=True,
    passes="draws + 1 forward, draws backward",
    options={
        "sigma": Option(
            float, 0.15, "standard deviation of the noise, as a share of the input's largest minus smallest value", minimum=0, maximum=10
        ),
        "draws": NOISY_DRAWS,
        "at": AT,
    },
    about=About(
        formula=(r"s_j = \sum_d \left|\text{mean}_n \nabla f\left(x + \varepsilon_n\right)_{j,d}\right|",),
        words="Saliency, averaged over noisy copies of the input.",
        trust="Use it to see which parts of a saliency map are more than noise.",
        fails=(
            "How much noise decides what is seen (Smilkov et al. 2017, arXiv 1706.03825), and it is sensitivity still: no sign, no share."
        ),
        line="How much the answer reacts to each part, averaged over noisy copies.",
    ),
)
def smoothgrad(trace: Trace, sigma: float = 0.15, draws: int = 32, at: str = "tokens") -> MethodOutput:
    """Size of the mean gradient at noisy copies of the input: sum_d |mean_n grad f(x + noise_n)|, noise normal, at x^1 or at the pixels.

    ``sigma`` is the deviation of the noise, as a share of the range of values; ``draws`` is the number of copies.
    """
    x = trace.pixel_values if at == "pixels" else trace.block_inputs[0]
    generators = [torch.Generator().manual_seed(seed) for seed in trace.seeds]

    def noise(sample: int) -> Tensor:
        """Draw noise for input number ``sample`` of the batch, in the shape of its pixels or embedded tokens; its deviation is ``sigma``
        times the range of the real values. Padding gets zeros, so that neither padding nor neighbours change the noise of the real tokens.
        """
        values = x[sample] if at == "pixels" else x[sample, trace.mask[sample]]
        draw = torch.randn(values.shape, generator=generators[sample], dtype=torch.float64).to(x) * (sigma * (values.max() - values.min()))
        if at == "pixels":
            return draw
        padded_draw = torch.zeros_like(x[sample])
        padded_draw[trace.mask[sample]] = draw
        return padded_draw

    states: dict[int, list[Tensor]] = {}  # of the generators, by the first of the draws: a pass may be tried again with fewer

    def values(copies: Tensor, first: int, number: int) -> Tensor:
        known = states.setdefault(first, [generator.get_state() for generator in generators])
        for generator, state in zip(generators, known, strict=True):
            generator.set_state(state)
        return copies + torch.stack([noise(sample) for sample in range(len(x)) for _ in range(number)])

    gradients = torch.cat(gradients_at(trace, at, values, draws), 1)

    def map_of(draw: Tensor) -> MethodOutput:
        size = draw.mean(1).abs()
        return from_pixels(trace, size.sum(1)) if at == "pixels" else MethodOutput(size.sum(-1))

    groups = group_of(draws)
    maps = [map_of(gradients[:, groups != group]).scores for group in groups.unique()] if draws > 1 else []
    without = [torch.stack([scores[i, content] for scores in maps]) if maps else content[:0] for i, content in enumerate(trace.content)]
    return add_seed_correlations(map_of(gradients), trace, without, "draws", NOISY_DRAWS, draws)
