"""The graph Transformer: a second writing of its forward pass, and what may not matter to it."""

from __future__ import annotations

import torch
from rdkit import Chem

from explainers.models.inputs.molecule_graphs import DISTANCES, graphs_of
from tests.support.molecule_models import ETHANOL, NITROBENZENE, tiny_module


def test_attention_with_its_biases_is_as_written_out() -> None:
    module = tiny_module()
    graph = graphs_of([Chem.MolFromSmiles(ETHANOL)])
    atoms = sum(table.weight[graph["atoms"][0, :, i]] for i, table in enumerate(module.features))
    x = torch.cat([module.graph_token[None], atoms])
    heads, width = module.blocks[0].attn.num_heads, x.shape[1] // module.blocks[0].attn.num_heads
    bias = torch.zeros(heads, 4, 4)
    for i in range(4):
        for j in range(4):
            is_between = i > 0 and j > 0
            distance = int(graph["distances"][0, i - 1, j - 1]) if is_between else DISTANCES
            bond = int(graph["bonds"][0, i - 1, j - 1]) if is_between else 0
            bias[:, i, j] = module.distance_bias.weight[distance] + module.bond_bias.weight[bond]
    for block in module.blocks:
        y = block.norm1(x)
        q, k, v = (part.view(4, heads, width).transpose(0, 1) for part in block.attn.qkv(y).chunk(3, -1))
        weights = (q @ k.transpose(1, 2) / width**0.5 + bias).softmax(-1)
        x = x + block.attn.proj((weights @ v).transpose(0, 1).reshape(4, -1))
        x = x + block.fc2(torch.nn.functional.gelu(block.fc1(block.norm2(x))))
    assert torch.allclose(module(**graph)[0], module.head(module.norm(x[0])), atol=1e-5)


def test_the_order_of_atoms_and_padding_do_not_matter() -> None:
    module = tiny_module()
    turned = Chem.MolToSmiles(Chem.MolFromSmiles(NITROBENZENE), rootedAtAtom=7)
    first, second = (module(**graphs_of([Chem.MolFromSmiles(smiles)])) for smiles in (NITROBENZENE, turned))
    assert torch.allclose(first, second, atol=1e-5)
    together = module(**graphs_of([Chem.MolFromSmiles(ETHANOL), Chem.MolFromSmiles(NITROBENZENE)]))
    assert torch.allclose(together[1], first[0], atol=1e-5)
