"""Perturbation methods whose masks come from the model's own activations: TIS keeps tokens, ViT-CX shows parts of the picture."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.methods.about import About
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.models.removal.patches import patch_removal
from explainers.records.targets import ClassSet, OneClass, Probability, ResolvedTarget
from explainers.records.trace import MethodOutput, Trace, from_pixels

INNER_BATCH = 32  # inputs in one forward pass
NOISE = 0.1  # standard deviation of what ViT-CX shows in place of what a mask hides, in units of the normalised input


def probability_of(trace: Trace, sample: int) -> ResolvedTarget:
    """Return the target whose number methods with masks of their own measure for input number ``sample`` of ``trace``: the probability of
    the explained class; for a contrast or a value, that number itself.
    """
    chosen = trace.chosen.only(sample)
    output = trace.recording.model.output
    if not isinstance(chosen.target, OneClass | ClassSet) or output == "regression":
        return chosen
    (name,) = chosen.target.names()
    return replace(chosen, target=Probability(name), classes=replace(chosen.classes, output=output))


# --- TIS ----------------------------------------------------------------------------------------------------------------


def token_masks(centroids: Tensor, ratios: Sequence[float]) -> Tensor:
    """Return masks of the tokens with the largest values of each centroid (K, N), one for each share of ``ratios``: bool (K len(ratios),
    N), all of the first ratio, then all of the next.
    """
    masks = []
    for ratio in ratios:
        token_count = max(1, int(ratio * centroids.shape[1]))
        mask = torch.zeros_like(centroids, dtype=torch.bool)
        masks.append(mask.scatter(1, centroids.argsort(dim=1, descending=True, stable=True)[:, :token_count], True))
    return torch.cat(masks)


def mean_of_masks(values: Tensor, masks: Tensor) -> Tensor:
    """Return for each token the mean of the ``values`` (K,) of the masks (K, N) that contain it: (N,), 0 for a token in none."""
    counts = masks.to(values).sum(0)
    return torch.where(counts > 0, (values[:, None] * masks.to(values)).sum(0) / counts.clamp(min=1), 0.0)


def _centroids(activations: Tensor, count: int) -> Tensor:
    """Cluster maps (channels, N), the ``activations``, by k-means and return at most ``count`` centroids (K, N), always from the same
    start.
    """
    from sklearn.cluster import KMeans

    rows = activations.double().cpu().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different rows than clusters
        clustering = KMeans(min(count, len(np.unique(rows, axis=0))), n_init=1, random_state=0).fit(rows)
    return torch.from_numpy(clustering.cluster_centers_)


@method(
    "tis",
    title="TIS",
    family="guided_perturbation",
    source=Citation(authors="Englebert et al.", year=2023, title="Explaining through Transformer Input Sampling", venue="ICCV Workshops"),
    rule=None,
    signed=False,
    needs=("image",),
    slow=True,
    passes="masks + 1 forward, most with part of the tokens",
    options={
        "masks": Option(int, 1024, "how many maps the activations are drawn together to", minimum=2, maximum=100_000),
        "keep": Option(float, 0.5, "share of the patches that a mask keeps", minimum=0.01, maximum=0.99, several=True),
    },
    about=About(
        formula=(r"s_j = \frac{\sum_k p_k m_{k,j}}{\sum_k m_{k,j}}",),
        words=(
            "The model's own activations say which patches belong together; each such group is given to the model alone, and a patch "
            "gets the mean of the answers of its groups."
        ),
        trust="Use it when nothing may be assumed of what goes on inside, and time does not matter.",
        fails=(
            "Which groups come out depends on where k-means starts, here always at the same place; a patch in no group has no "
            "score. Unlike other maskings no hole is shown: the tokens are gone (Englebert et al. 2023)."
        ),
        line="How sure the model stays, on average, when it is given this part and others that go with it.",
    ),
)
def tis(trace: Trace, masks: int = 1024, keep: float | tuple[float, ...] = 0.5) -> MethodOutput:
    """Mean probability of the answer over the groups of patches, shown to the model alone, that contain the patch.

    What all blocks give is (channels, patches); k-means draws these maps together, and each centroid keeps the patches where it is largest.
    sum_k y_k m_ki / sum_k m_ki, y_k the probability with the tokens of mask k alone, taken after their positions are added. Of several
    shares, such as ``keep=0.5,0.25``, each centroid gives a mask for each. ``masks`` is the number of centroids.
    """
    shares = keep if isinstance(keep, tuple) else (keep,)
    grid, scores = trace.layout.grid, torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    assert grid is not None
    patches = slice(trace.layout.prefix, trace.layout.prefix + grid[0] * grid[1])
    for sample in range(len(trace.mask)):
        activations = torch.cat([x[sample, patches].T for x in trace.block_outputs])
        centroids = _centroids(activations, masks)
        of_shares = [token_masks(centroids, (share,)) for share in shares]  # no batch mixes numbers of tokens
        keep_masks = torch.cat(of_shares)
        removal = patch_removal(trace.recording.model, tensors_of(trace, sample), grid)
        if removal.how != "removed":
            trace.note("This model cannot do without tokens: patches that a mask leaves out are painted in the mean colour.")
        question = probability_of(trace, sample)
        values = torch.cat(
            [
                question.repeat(len(part)).value(removal.logits(part, trace.before_pass).to(trace.recording.logits)).cpu()
                for of_share in of_shares
                for part in of_share.split(INNER_BATCH)
            ]
        )
        if not bool(keep_masks.any(0).all()):
            trace.note("Some patches are in no mask: they have score 0. More masks or a larger share reach them.")
        scores[sample, patches] = mean_of_masks(values.double(), keep_masks).to(scores)
    return MethodOutput(scores)


def tensors_of(trace: Trace, sample: int) -> dict[str, Tensor]:
    """Return the input tensors of input number ``sample`` of ``trace``, a dict by name, as the model takes them."""
    tensors: dict[str, Tensor] = {}

    def record_tensor(name: str, tensor: Tensor) -> Tensor:
        tensors[name] = tensor
        return tensor

    trace.answer(sample, 1, record_tensor)
    return tensors


# --- ViT-CX -------------------------------------------------------------------------------------------------------------


def scale_maps(maps: Tensor) -> Tensor:
    """Scale ``maps`` (K, H, W) to run from 0 to 1 each, and return those that are not the same everywhere."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    is_varied = (high > low).flatten()
    return ((maps - low) / (high - low))[is_varied]


def cluster_masks(features: Tensor, size: tuple[int, int], distance: float) -> Tensor:
    """Return masks (K, height, width) from 0 to 1 made of features (D, rows, columns): each is enlarged bilinearly to ``size`` and scaled;
    features nearer than ``distance`` (1 - cosine, complete linkage) are added and scaled again.
    """
    from sklearn.cluster import AgglomerativeClustering

    fine = scale_maps(F.interpolate(features[None], size=size, mode="bilinear", align_corners=False)[0])
    if len(fine) < 2:
        return fine
    clustering = AgglomerativeClustering(n_clusters=None, distance_threshold=distance, metric="cosine", linkage="complete")
    groups = torch.from_numpy(clustering.fit_predict(fine.flatten(1).double().cpu().numpy())).to(fine.device)
    return scale_maps(torch.stack([fine[groups == group].sum(0) for group in range(int(groups.max()) + 1)]))


_ENTERING = (
    "Features are the tokens that enter the last block: what its attention is given, which the published code groups, cannot be read here."
)


def causal_map(masked_values: Tensor, noisy_values: Tensor, whole_value: Tensor, masks: Tensor) -> Tensor:
    """Return ViT-CX's map (height, width) from K masks M (K, height, width), the answers p to the masked pictures (``masked_values`` (K,)),
    to the picture with the noise alone (``noisy_values`` (K,)) and to the whole picture (``whole_value``): (1/K) sum_k [p(x M_k + e_k) -
    p(x + e_k) + p(x)] M_k / sum_j M_j; 0 at pixels without a mask.
    """
    total = masks.sum(0)
    mean = ((masked_values - noisy_values + whole_value)[:, None, None] * masks).mean(0)
    return torch.where(total > 0, mean / total.clamp(min=torch.finfo(total.dtype).tiny), 0.0)


@method(
    "vit_cx",
    title="ViT-CX",
    family="guided_perturbation",
    source=Citation(
        authors="Xie et al.", year=2023, title="ViT-CX: Causal Explanation of Vision Transformers", venue="IJCAI", arxiv="2211.03064"
    ),
    rule=None,
    signed=False,
    needs=("image", "token_order"),
    slow=True,
    passes="2 x tokens + 1 forward, or fewer",
    options={"distance": Option(float, 0.1, "features nearer than this (1 − cosine) become one mask", minimum=0.001, maximum=2)},
    about=About(
        formula=(r"s_j = \frac{1}{K} \sum_k \left(p_k - p'_k + f\right) \frac{M_{k,j}}{\sum_i M_{i,j}}",),
        words=(
            "Groups of features of the last block become masks of the picture; the answer to what a mask shows, less what noise "
            "outside of it does alone, is spread over the mask."
        ),
        trust="Use it like TIS, where soft masks suit the picture better than whole patches.",
        fails=(
            "Masks that overlap share what they show, and hidden parts are noise, which is no picture either (Xie et al. 2023, "
            "arXiv 2211.03064)."
        ),
        line="How sure the model stays when only parts are shown that its last layer groups together.",
    ),
)
def vit_cx(trace: Trace, distance: float = 0.1) -> MethodOutput:
    """Probability of the answer when only the parts are shown that a group of features of the last block marks, shared among these parts.

    Features are what the attention of the last block is given, at the patches; of a block whose attention cannot be read the tokens that
    enter it, and a note says so. Hidden parts get noise of deviation 0.1, and what that noise alone does is taken off. The noise is drawn
    once, whatever seed is asked for, as in the published code: how much another draw would change the map is not estimated. ``distance`` is
    that below which features are clustered together.
    """
    grid = trace.layout.grid
    assert grid is not None
    maps = []
    for sample in range(len(trace.mask)):
        features = _last_features(trace, sample)[trace.layout.patches]
        x = tensors_of(trace, sample)["pixel_values"][0]
        masks = cluster_masks(features.T.unflatten(1, grid), (x.shape[-2], x.shape[-1]), distance)
        if not len(masks):
            raise ExplainerError("All features of the last block are the same at every patch, so that they mark no part of the picture.")
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(len(masks), *x.shape, generator=generator, dtype=torch.float64).to(x) * NOISE * (1 - masks)[:, None]
        probability = PixelQuestion(trace, sample)
        masked_values, noisy_values = probability(x * masks[:, None] + noise), probability(x + noise)
        maps.append(causal_map(masked_values, noisy_values, probability(x[None]), masks))
    return from_pixels(trace, torch.stack(maps))


def _last_features(trace: Trace, sample: int) -> Tensor:
    """Return the tokens (S, D) that enter the attention of the last block, for input number ``sample`` of ``trace``. If they cannot be
    read, return the tokens that enter the block; a note then says so.
    """
    structure, last = trace.recording.structure, len(trace.block_inputs) - 1
    taken = structure.attention_inputs[last] if structure.plan is None or structure.plan.keeps_inner_order else None
    if taken is None:
        trace.note(_ENTERING)
    return (trace.block_inputs[last] if taken is None else taken)[sample].detach()


class PixelQuestion:
    """A function from other pixels (K, C, height, width) of one sample to the explained number (K,), computed ``batch`` pictures at
    a time.
    """

    batch = INNER_BATCH

    def __init__(self, trace: Trace, sample: int) -> None:
        self._trace, self._sample, self._question = trace, sample, probability_of(trace, sample)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return the explained number (K,) for each of the pictures ``pixels`` (K, C, height, width)."""

        def ask(first: int, number: int) -> Tensor:
            part = pixels[first : first + number]
            logits = self._trace.answer(self._sample, number, lambda name, tensor: part.to(tensor) if name == "pixel_values" else tensor)
            return self._question.repeat(number).value(logits)

        return torch.cat(list(self._trace.answer_passes.run(len(pixels), ask)))
