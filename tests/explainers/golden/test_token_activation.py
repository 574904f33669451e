"""The numeric steps of TAM against the published code."""

from __future__ import annotations

import numpy as np
import torch

from explainers.analysis.token_activation import clean_map, rank_filter, scale_map
from tests.explainers.support.golden import GOLDEN

THEIR_MINIMISER = 1e-7


def test_the_steps_after_the_logits() -> None:
    with np.load(GOLDEN / "tam-parts" / "inputs.npz") as inputs, np.load(GOLDEN / "tam-parts" / "outputs.npz") as outputs:
        maps, weights = torch.from_numpy(inputs["activation_maps"]), torch.from_numpy(inputs["text_scores"])
        theirs = {name: torch.from_numpy(outputs[name]) for name in outputs}
        rows, columns = inputs["grid"].tolist()
    interference, scale, cleaned = clean_map(maps[-1], maps[:-1], weights)
    scaled = scale_map(cleaned, weights).view(rows, columns)
    ours = {"interference": interference, "closed_form_scale": scale, "scale": scale, "cleaned": cleaned, "scaled": scaled}
    ours["filtered"] = rank_filter(scaled)
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=THEIR_MINIMISER, msg=name)
    torch.testing.assert_close(rank_filter(torch.full((3, 4), 0.25)), torch.full((3, 4), 0.25))
    assert not rank_filter(torch.zeros(3, 4)).any()
