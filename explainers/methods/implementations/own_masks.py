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
from explainers.methods.patch_features import PatchFeatures
from explainers.methods.registry import method
from explainers.methods.specs import Option
from explainers.models.removal.patches import patch_removal
from explainers.records.targets import ClassSet, OneClass, Probability, ResolvedTarget
from explainers.records.trace import MethodOutput, Trace, from_pixels

INNER_BATCH = 32  # inputs in one forward pass
NOISE = 0.1  # standard deviation of what ViT-CX shows in place of what a mask hides, in units of the normalised input


def probability_of(trace: Trace, sample: int) -> ResolvedTarget:
    """What these methods ask for: the probability of the explained class; of a contrast or a value, that number itself."""
    chosen = trace.chosen.only(sample)
    output = trace.recording.model.output
    if not isinstance(chosen.target, OneClass | ClassSet) or output == "regression":
        return chosen
    (name,) = chosen.target.names()
    return replace(chosen, target=Probability(name), classes=replace(chosen.classes, output=output))


# --- TIS ----------------------------------------------------------------------------------------------------------------


def token_masks(centroids: Tensor, ratios: Sequence[float]) -> Tensor:
    """Of each centroid (K, N) the share ``ratios`` of tokens with the largest values, bool (K len(ratios), N): all of the first ratio, then
    all of the next.
    """
    masks = []
    for ratio in ratios:
        token_count = max(1, int(ratio * centroids.shape[1]))
        mask = torch.zeros_like(centroids, dtype=torch.bool)
        masks.append(mask.scatter(1, centroids.argsort(dim=1, descending=True, stable=True)[:, :token_count], True))
    return torch.cat(masks)


def mean_of_masks(values: Tensor, masks: Tensor) -> Tensor:
    """sum_k y_k m_ki / sum_k m_ki (N,) of values (K,) and masks (K, N); 0 for a token that is in none."""
    counts = masks.to(values).sum(0)
    return torch.where(counts > 0, (values[:, None] * masks.to(values)).sum(0) / counts.clamp(min=1), 0.0)


def _centroids(activations: Tensor, count: int) -> Tensor:
    """k-means of maps (channels, N) into at most ``count`` maps, always from the same start."""
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
        "keep": Option(float, 0.5, "share of the patches that a mask keeps", minimum=0.01, maximum=0.99),
    },
)
def tis(trace: Trace, masks: int = 1024, keep: float = 0.5) -> MethodOutput:
    """How probable the answer is, on average, when a patch is among those that the model is given.

    What all blocks give is (channels, patches); k-means draws these maps together, and each centroid keeps the patches where it is
    largest. sum_k y_k m_ki / sum_k m_ki, y_k the probability with the tokens of mask k alone, taken after their positions are added.
    """
    grid, scores = trace.layout.grid, torch.zeros_like(trace.recording.block_inputs[0][..., 0]).detach()
    assert grid is not None
    patches = slice(trace.layout.prefix, trace.layout.prefix + grid[0] * grid[1])
    for sample in range(len(trace.mask)):
        activations = torch.cat([x[sample, patches].T for x in trace.block_outputs])
        keep_masks = token_masks(_centroids(activations, masks), (keep,))
        removal = patch_removal(trace.recording.model, tensors_of(trace, sample), grid)
        if removal.how != "removed":
            trace.note("This model cannot do without tokens: patches that a mask leaves out are painted in the mean colour.")
        question = probability_of(trace, sample)
        values = torch.cat(
            [
                question.repeat(len(part)).value(removal.logits(part, trace.before_pass).to(trace.recording.logits)).cpu()
                for part in keep_masks.split(INNER_BATCH)
            ]
        )
        if not bool(keep_masks.any(0).all()):
            trace.note("Some patches are in no mask: they have score 0. More masks or a larger share reach them.")
        scores[sample, patches] = mean_of_masks(values.double(), keep_masks).to(scores)
    return MethodOutput(scores)


def tensors_of(trace: Trace, sample: int) -> dict[str, Tensor]:
    """What the model is given for one sample."""
    tensors: dict[str, Tensor] = {}

    def record_tensor(name: str, tensor: Tensor) -> Tensor:
        tensors[name] = tensor
        return tensor

    trace.answer(sample, 1, record_tensor)
    return tensors


# --- ViT-CX -------------------------------------------------------------------------------------------------------------


def scale_maps(maps: Tensor) -> Tensor:
    """Maps (K, H, W) from 0 to 1 each, those that are the same everywhere left out."""
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    is_varied = (high > low).flatten()
    return ((maps - low) / (high - low))[is_varied]


def cluster_masks(features: Tensor, size: tuple[int, int], distance: float) -> Tensor:
    """Masks (K, height, width) from 0 to 1: features (D, rows, columns), bilinear to ``size``, each scaled; those nearer than ``distance``
    (1 - cosine, complete linkage) added and scaled again.
    """
    from sklearn.cluster import AgglomerativeClustering

    fine = scale_maps(F.interpolate(features[None], size=size, mode="bilinear", align_corners=False)[0])
    if len(fine) < 2:
        return fine
    clustering = AgglomerativeClustering(n_clusters=None, distance_threshold=distance, metric="cosine", linkage="complete")
    groups = torch.from_numpy(clustering.fit_predict(fine.flatten(1).double().cpu().numpy())).to(fine.device)
    return scale_maps(torch.stack([fine[groups == group].sum(0) for group in range(int(groups.max()) + 1)]))


def causal_map(masked_values: Tensor, noisy_values: Tensor, whole_value: Tensor, masks: Tensor) -> Tensor:
    """(1/K) sum_k [p(x M_k + e_k) - p(x + e_k) + p(x)] M_k / sum_j M_j, (height, width); 0 where no mask is."""
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
    needs=("image", "parts"),
    slow=True,
    passes="2 x tokens + 1 forward, or fewer",
    options={"distance": Option(float, 0.1, "features nearer than this (1 − cosine) become one mask", minimum=0.001, maximum=2)},
)
def vit_cx(trace: Trace, distance: float = 0.1) -> MethodOutput:
    """How probable the answer stays when only the parts are shown that a group of features of the last block marks.

    Features are what the attention of the last block is given, at the patches; hidden parts get noise of deviation 0.1, always the same,
    and what that noise alone does is taken off.
    """
    grid = trace.layout.grid
    assert grid is not None
    last, maps = len(trace.block_inputs) - 1, []
    for sample in range(len(trace.mask)):
        features = PatchFeatures(trace, sample).attention_input(last)[0, trace.layout.prefix : trace.layout.prefix + grid[0] * grid[1]]
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


class PixelQuestion:
    """The asked number (K,) of one sample with other pixels (K, C, height, width), so many in one ``batch``."""

    batch = INNER_BATCH

    def __init__(self, trace: Trace, sample: int) -> None:
        self._trace, self._sample, self._question = trace, sample, probability_of(trace, sample)

    def __call__(self, pixels: Tensor) -> Tensor:
        """The number for each of these pictures."""
        values = []
        for part in pixels.split(INNER_BATCH):
            logits = self._trace.answer(
                self._sample,
                len(part),
                lambda name, tensor, part=part: part.to(tensor) if name == "pixel_values" else tensor,  # type: ignore[misc]
            )
            values.append(self._question.repeat(len(part)).value(logits))
        return torch.cat(values)
