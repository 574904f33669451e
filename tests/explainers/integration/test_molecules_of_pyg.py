"""A model of one's own from PyTorch Geometric's layers, which read edges in place of our tensors: by a reader that a package declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers.models.inputs import molecules
from explainers.models.inputs.molecules import MOLECULE_READERS
from explainers.models.model import Model
from tests.support.molecule_models import NITROBENZENE

layers = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
METHODS = ("raw_attention?row=mean", "input_x_gradient:libra", "fullgrad_plus:libra", "random")


class Block(nn.Module):
    """GPSConv takes the atoms of one molecule in a row of their own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        messages = layers.GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
        self.conv = layers.GPSConv(width, messages, heads=2, dropout=0.0, norm=None)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return torch.cat([self.conv(row, pairs)[None] for row, pairs in zip(x, edges, strict=True)])


class Network(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 2)

    def forward(self, elements: Tensor, edges: Tensor) -> Tensor:
        x = self.embed(elements)
        for block in self.blocks:
            x = block(x, edges)
        logits: Tensor = self.head(x.mean(1))
        return logits


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(molecules, "MOLECULE_READERS", dict(MOLECULE_READERS))

        @explainers.add_molecule_reader("edges")
        def edges(mols: Sequence[Any]) -> dict[str, Tensor]:
            pairs = [[(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()] for mol in mols]
            both_ways = torch.stack([torch.tensor([*one, *((b, a) for a, b in one)]).T for one in pairs])
            return {"elements": torch.tensor([[atom.GetAtomicNum() for atom in mol.GetAtoms()] for mol in mols]), "edges": both_ways}

        torch.manual_seed(0)
        yield explainers.wrap(Network().eval(), kind="molecule", reader="edges", labels=["a", "b"])


def test_its_blocks_are_found_and_its_maps_add_up(model: Model) -> None:
    assert (len(model.blocks), model.layout_of(model.tensors(NITROBENZENE)).prefix) == (2, 0)
    result = explainers.explain(model, NITROBENZENE, methods=METHODS)
    assert all(len(attribution.scores) == 9 for attribution in result.maps)
    assert result.completeness("libra") < 2e-6
    assert "scatter_add" in result["fullgrad_plus:libra"].notes[0]  # sums over neighbours, which every rule takes as they are


def test_without_a_mask_the_deletion_test_zeroes_atoms(model: Model) -> None:
    result = explainers.explain(model, NITROBENZENE, methods=METHODS)
    test = explainers.deletion_test(model, result)
    assert (test.how, test.tokens) == ("zeroed", 9)
    hidden = model.blocks[0].register_forward_pre_hook(lambda module, args: (0 * args[0], args[1]))
    empty = model.forward(model.tensors(NITROBENZENE))
    hidden.remove()
    assert test.curves[0].values["logit"][-1] == pytest.approx(float(empty.detach()[0, result.target.index]), abs=1e-5)
