"""A molecule as tensors: features, bonds and distances, and a batch of two sizes."""

from __future__ import annotations

from rdkit import Chem

from explainers.models.inputs.molecule_graphs import ATOM_FEATURES, BONDS, DISTANCES, FURTHEST, graph_of, graphs_of


def test_a_small_ring_with_a_chain_and_a_salt() -> None:
    graph = graph_of(Chem.MolFromSmiles("C1OC1C#N.[Cl-]"))
    names = list(ATOM_FEATURES)
    rows = {name: graph["atoms"][:, names.index(name)].tolist() for name in names}
    assert rows["element"] == [1, 3, 1, 1, 2, 6]
    assert rows["neighbours"] == [2, 2, 3, 2, 1, 0]
    assert rows["charge"] == [2, 2, 2, 2, 2, 1]
    assert rows["hydrogens"] == [2, 0, 1, 0, 0, 0]
    assert rows["smallest ring"] == [1, 1, 1, 0, 0, 0]
    assert rows["hybridisation"][3] == 1  # sp
    assert graph["distances"][0].tolist() == [0, 1, 1, 2, 3, FURTHEST + 1]
    assert graph["bonds"][2].tolist() == [2, 2, 0, 1, 0, 0]  # single bonds in a ring and outside
    assert graph["bonds"][3, 4] == 5  # triple
    assert (graph["bonds"] == graph["bonds"].T).all()


def test_values_stay_within_what_tables_hold_and_chains_are_cut_at_the_furthest() -> None:
    graph = graph_of(Chem.MolFromSmiles("[Fe+3]." + "C" * 12 + "S(F)(F)(F)(F)F"))
    assert all(int(column.max()) < size for column, size in zip(graph["atoms"].T, ATOM_FEATURES.values(), strict=True))
    assert int(graph["distances"].max()) < DISTANCES
    assert int(graph["bonds"].max()) < BONDS
    assert graph["distances"][1, 12] == FURTHEST  # eleven bonds


def test_a_batch_is_padded_and_masked() -> None:
    batch = graphs_of([Chem.MolFromSmiles("CCO"), Chem.MolFromSmiles("C")])
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert {name: tuple(tensor.shape) for name, tensor in batch.items() if name != "attention_mask"} == {
        "atoms": (2, 3, len(ATOM_FEATURES)),
        "bonds": (2, 3, 3),
        "distances": (2, 3, 3),
    }
    assert not batch["atoms"][1, 1:].any()
