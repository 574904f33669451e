"""Methods that narrow what passes one block of a model of images and prompts: NIB by shrinking its tokens, M2IB by adding noise."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.autograd.integration import quadrature
from explainers.autograd.rules import Rule
from explainers.citation import Citation
from explainers.methods.about import About
from explainers.methods.implementations.paths import gradients_at, mean_gradient, values_at
from explainers.methods.registry import method
from explainers.methods.seed_correlations import add_measured_correlations
from explainers.methods.specs import BLOCK, Option
from explainers.models.eval_mode import with_gradients
from explainers.records.trace import MethodOutput, Trace

FIRST_ALPHA = 5.0  # of which the sigmoid, 0.993, is what a token keeps before the first step
LEARNING_RATE = 1.0
STEPS = Option(int, 10, "points on the way from zero to the tokens, at 1/steps, 2/steps, ... 1", minimum=1, maximum=1000)
SEARCH_STEPS = Option(int, 10, "steps of the search (Adam)", minimum=1, maximum=1000)
DRAWS = Option(int, 10, "draws of the noise in each step", minimum=1, maximum=1000)
SEARCHES = "it searches for what lets the cosine be high, and only the gradient leads there"
OTHER_RULES = "it is defined by the gradient, and integrated_gradients?at=block:N is the same path with other rules"


def _place(trace: Trace, block: int | None, of_twelve: int) -> int:
    """Return the number of the ``block`` of the model in ``trace``, counted from 0; if None, the one as deep as ``of_twelve`` of 12."""
    blocks = len(trace.block_inputs)
    return blocks * of_twelve // 12 if block is None else block % blocks


def _cosine_unit(trace: Trace) -> float:
    """Return by how much the explained number rises with the cosine: by the model's scale, or 1 for a probability, which is taken as it
    is.
    """
    return 1.0 if trace.chosen.explains == "probability" else float(trace.recording.model.details["logit_scale"])


def _only_gradient(why: str) -> Callable[[Rule], str | None]:
    return lambda rule: None if rule.name == "gradient" else why


@method(
    "nib",
    title="NIB",
    family="paths",
    source=Citation(
        authors="Zhu et al.",
        year=2025,
        title="Narrowing Information Bottleneck Theory for Multimodal Image-Text Representations Interpretability",
        venue="ICLR",
        arxiv="2502.14889",
    ),
    rule="gradient",
    refuses=_only_gradient(OTHER_RULES),
    signed=True,
    needs=("prompts", "token_order"),
    slow=True,
    passes="steps + 1 forward, steps backward",
    options={
        "block": Option(
            int,
            None,
            "the block whose incoming tokens are narrowed, counted from 0; if not given, at three quarters of the depth: 9 of 12",
            blocks="index",
        ),
        "steps": STEPS,
    },
    about=About(
        formula=(r"s_j = \sum_d x^l_{j,d} \, \text{mean}_a \nabla \cos\left(a \, x^l\right)_{j,d}",),
        words=(
            "The tokens that enter a late block are shrunk to zero in ten steps, and the gradient of the cosine on the way is multiplied "
            "with them: Integrated Gradients at that block, with the plain sum of the paper."
        ),
        trust="Use it where a map must be the same each time: unlike other bottlenecks it draws nothing at random.",
        fails=(
            "Tokens at a late block are mixtures of many parts, and ten steps at the right ends do not add up to the cosine. Its code asks "
            "for many pairs at once and then mixes their texts; here each pair is explained alone (Zhu et al. 2025, arXiv 2502.14889)."
        ),
        line="What each part adds to the likeness as what a late layer gets is turned up from nothing.",
    ),
)
def nib(trace: Trace, block: int | None = None, steps: int = 10) -> MethodOutput:
    """Token that enters a late block times the mean gradient of the cosine while all tokens there grow from zero.

    sum_d h (1/n) sum_i d cos / d h at (i/n) h, i = 1..n: Integrated Gradients at the input of ``block`` with n = ``steps`` right ends, in
    units of the cosine. All tokens are scaled, the classification token too. On the text side the tokens are those of the prompt, and the
    picture is held. The published layer is counted as here: 9 is the input of block 9, counted from 0. For a contrast it is the difference
    of two cosines, for a probability the probability itself. integrated_gradients?at=block:N is the same path with a better sum, for any
    model.
    """
    at = f"{BLOCK}{_place(trace, block, 9)}"
    tokens = values_at(trace, at)
    points, weights = quadrature("riemann", steps)
    gradient = mean_gradient(trace, at, torch.zeros_like(tokens), tokens, points.tolist(), weights.tolist())
    return MethodOutput((tokens * gradient).sum(-1) / _cosine_unit(trace))


def narrow(trace: Trace, at: str, beta: float, steps: int, noise: Callable[[], Tensor]) -> Tensor:
    """Search for how much of each number may pass ``at`` a place of ``trace``, block:N, so that few nats pass and the cosine stays
    high; return the nats that pass of each, (B, S, D), before the last step; 0 at padding.

    Tokens h are replaced by l h + (1 - l) e, with l = sigmoid(alpha). Each of ``steps`` steps of Adam lowers ``beta`` times the mean of
    KL(N(l h, (1 - l)^2) | N(0, 1)) over the real tokens and their width, less the mean cosine. ``noise()`` draws e for the next step,
    (B, draws, S, D).
    """
    tokens = values_at(trace, at)
    real = trace.mask[..., None].to(tokens)
    share = real / (real.sum(1, keepdim=True) * tokens.shape[-1])  # of each number in the mean of its sample
    unit, nats = _cosine_unit(trace), torch.zeros_like(tokens)
    with with_gradients():
        alpha = torch.full_like(tokens, FIRST_ALPHA).requires_grad_()
        search = torch.optim.Adam([alpha], lr=LEARNING_RATE)
        for _ in range(steps):
            drawn = noise()
            kept, left = alpha.sigmoid(), (-alpha).sigmoid()
            nats = ((kept * tokens).square() + left.square() - 1) / 2 - F.logsigmoid(-alpha)
            noisy = (kept * tokens)[:, None] + left[:, None] * drawn
            ready = noisy.detach()

            def values(copies: Tensor, first: int, number: int, ready: Tensor = ready) -> Tensor:
                return ready[:, first : first + number].flatten(0, 1)

            slopes = torch.cat(gradients_at(trace, at, values, drawn.shape[1]), 1) / (unit * drawn.shape[1])
            cost = beta * (nats * share).sum()  # each sample has numbers of its own, so that a sum over samples searches for each alone
            (alpha.grad,) = torch.autograd.grad([cost, noisy], [alpha], [torch.ones_like(cost), -slopes])
            search.step()
    return (nats * real).detach()


@method(
    "m2ib",
    title="M2IB",
    family="guided_perturbation",
    source=Citation(
        authors="Wang, Rudner & Wilson",
        year=2023,
        title="Visual Explanations of Image-Text Representations via Multi-Modal Information Bottleneck Attribution",
        venue="NeurIPS",
        arxiv="2312.17174",
    ),
    rule="gradient",
    refuses=_only_gradient(SEARCHES),
    signed=False,
    needs=("prompts", "token_order"),
    slow=True,
    passes="2 x steps x draws + 1 forward, 2 x steps x draws backward",
    options={
        "block": Option(
            int,
            None,
            "the block whose incoming tokens get the noise, counted from 0; if not given, at five sixths of the depth: 10 of 12",
            blocks="index",
        ),
        "beta": Option(float, 0.1, "how much a nat that passes costs, in units of the cosine", minimum=0, maximum=1000),
        "steps": SEARCH_STEPS,
        "draws": DRAWS,
    },
    about=About(
        formula=(
            r"s_j = \sum_d \frac{1}{2} \left(\lambda^2 y^2 + (1 - \lambda)^2 - 1\right)_{j,d} - \log(1 - \lambda)_{j,d}",
            r"\lambda = \text{argmin} \; \beta \, \text{mean} \, s - \text{mean}_\varepsilon \cos\left(\lambda y + (1 - \lambda) "
            r"\varepsilon\right)",
        ),
        words=(
            "Noise ε takes the place of what a late block gives, number by number, as long as picture and prompt stay alike; "
            "what must still pass, in nats, is the map."
        ),
        trust="Use it to see what the likeness cannot do without, where a second seed gives nearly the same map.",
        fails=(
            "Random: another seed, another map. Ten steps are no finished search, and no sign tells what speaks for the prompt from what "
            "speaks against it (Wang et al. 2023, arXiv 2312.17174)."
        ),
        line="How much has to pass from each part for picture and prompt to stay alike.",
    ),
)
def m2ib(trace: Trace, block: int | None = None, beta: float = 0.1, steps: int = 10, draws: int = 10) -> MethodOutput:
    """Nats of each token that must pass a late block for the cosine with the prompt to stay high, when noise takes the place of the rest.

    Adam, rate 1, lowers ``beta`` KL - cos in ``steps`` steps with ``draws`` draws of the noise; see :func:`narrow`. The map is of the last
    step but one, as in the published code. The noise sits where tokens enter ``block``; the published layer 9 is counted by what it gives,
    so it is block 10 here. On the text side the tokens are those of the prompt. A second search with draws of its own, in the same passes'
    number again, measures how another seed's map would correlate with this one.
    """
    at = f"{BLOCK}{_place(trace, block, 10)}"
    tokens = values_at(trace, at)
    generators = [torch.Generator().manual_seed(seed) for seed in trace.seeds]

    def noise() -> Tensor:
        """Draw noise for the real tokens of each sample, so that neither padding nor neighbours change it."""
        drawn = tokens.new_zeros(len(tokens), draws, *tokens.shape[1:])
        for sample, (real, generator) in enumerate(zip(trace.mask, generators, strict=True)):
            shape = draws, int(real.sum()), tokens.shape[-1]
            drawn[sample, :, real] = torch.randn(shape, generator=generator, dtype=torch.float64).to(tokens)
        return drawn

    first, second = (narrow(trace, at, beta, steps, noise).sum(-1) for _ in range(2))
    return add_measured_correlations(MethodOutput(first), trace, second, "draws", DRAWS, draws)
