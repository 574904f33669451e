"""``molecules``: a small graph Transformer that says whether a molecule is mutagenic, by the Ames test.

It learns from the benchmark of Hansen et al. (2009), whose file is no part of Vitrine. The molecules are parted into fifths by their CAS
numbers, and five models are trained, or as many as ``--folds`` says, each without one fifth. The first is the model: its fifth is the test
split. The answers of the others about the fifths that they never saw say how sure probabilities may be. With ``--scaffolds`` more are
trained, each without a fifth of the ring systems (Bemis and Murcko, J. Med. Chem. 39, 1996): what is asked then is further from what was
learned.

Every atom may be masked: in some batches a share of them is, so that taking atoms away to test a map stays within what the model knows.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from explainers.datasets import open_dataset
from explainers.datasets.molecules import FOLDS, MUTAGENICITY, fold_of
from explainers.embedded.graph_transformer import NAME, GraphTransformer
from explainers.errors import ExplainerError
from explainers.models.companion_files.fingerprints import FINGERPRINTS_FILE, fingerprints_of, nearest_similarity
from explainers.models.inputs.molecule_graphs import ATOM_FEATURES, BONDS, DISTANCES, graph_of, pad_graphs
from explainers.models.inputs.molecules import read_molecule
from recipes.calibration import fit_calibration, write
from recipes.training import fit

SHAPE: dict[str, Any] = {"sizes": list(ATOM_FEATURES.values()), "distances": DISTANCES, "bonds": BONDS}
DROPOUT, SMOOTHING, BATCH, RATE = 0.15, 0.05, 64, 1.5e-3
MASKED_BATCH_SHARE, MASKED_SHARES = (
    0.3,
    (0.05, 0.3),
)  # the share of batches with masked atoms, and the least and greatest share of atoms masked in one
WARM_UP_SHARE = 0.15  # share of the steps
UNLIKE_SHARE = 0.05  # share of the molecules below the threshold of likeness to the training molecules
FOLDS_FILE = "folds.json"  # file of the folds' figures, in the folder of the weights


@dataclass(frozen=True)
class Example:
    """A molecule of the benchmark as a graph.

    graph          the model's input tensors, by name
    label          its class
    fold           number of its fold by its CAS number
    scaffold_fold  number of its fold by its ring system; without rings by the molecule itself
    fingerprint    its bits, as `fingerprints_of` makes them
    """

    graph: dict[str, Tensor]
    label: int
    fold: int  # by its CAS number
    scaffold_fold: int  # by its ring system; without rings by the molecule itself
    fingerprint: Tensor


def read_examples(data: Path) -> list[Example]:
    """Return all molecules of the benchmark in ``data``, its file or folder. Raises ExplainerError if its file is missing or broken."""
    from rdkit.Chem import MolToSmiles
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    examples = []
    for split in ("test", "train"):
        for sample in tqdm(open_dataset("molecules", data, split), desc=f"reading {split}", disable=None):
            mol = read_molecule(sample.text).mol
            scaffold = MurckoScaffoldSmiles(mol=mol) or MolToSmiles(mol, isomericSmiles=False)
            label = MUTAGENICITY.index(str(sample.labels[0]))
            group = zlib.crc32(scaffold.encode()) % FOLDS
            examples.append(Example(graph_of(mol), label, fold_of(sample.name), group, fingerprints_of([mol])[0]))
    return examples


def batches(examples: Sequence[Example], seed: int, first: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Yield batches of molecules of about one size from ``examples``, without end, from number ``first`` on, in epochs that each have
    another order.
    """
    each = -(-len(examples) // BATCH)
    sizes = np.array([len(example.graph["atoms"]) for example in examples])
    number = first
    while True:
        rng = np.random.default_rng([seed, number // each])
        order = np.argsort(sizes + 4 * rng.random(len(sizes)))
        parts = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
        for index in rng.permutation(each)[number % each :]:
            chosen = [examples[i] for i in parts[index]]
            yield pad_graphs([example.graph for example in chosen]), torch.tensor([example.label for example in chosen])
            number += 1


def train_model(examples: Sequence[Example], *, epochs: int, seed: int, checkpoint: Path, resume: bool) -> GraphTransformer:
    """Train a new model for ``epochs`` epochs on the molecules ``examples`` and return it; it goes on from
    ``checkpoint`` with ``resume``.
    """
    torch.manual_seed(seed)
    model = GraphTransformer(**SHAPE, dropout=DROPOUT)
    steps = epochs * -(-len(examples) // BATCH)

    def loss(batch: tuple[dict[str, Tensor], Tensor], progress: float, step: int) -> tuple[Tensor, float]:
        tensors, labels = batch
        rng = np.random.default_rng([seed, 1, step])
        if rng.random() < MASKED_BATCH_SHARE:
            hidden = torch.from_numpy(rng.random(tensors["attention_mask"].shape) < rng.uniform(*MASKED_SHARES))
            hidden[:, 0] = False  # the token of the graph
            tensors = {**tensors, "attention_mask": tensors["attention_mask"].masked_fill(hidden, 0)}
        logits = model(**tensors)
        return F.cross_entropy(logits, labels, label_smoothing=SMOOTHING), float((logits.argmax(1) == labels).float().mean())

    fit(
        model,
        lambda first: batches(examples, seed, first),
        loss,
        checkpoint=checkpoint,
        steps=steps,
        resume=resume,
        rate=RATE,
        warm_up=max(1, round(WARM_UP_SHARE * steps)),
    )
    return model


@torch.no_grad()
def answer(model: GraphTransformer, examples: Sequence[Example]) -> Tensor:
    """Return the logits (N, 2) of ``model`` for the molecules ``examples``, in their order."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].graph["atoms"]))
    logits = torch.zeros(len(examples), len(MUTAGENICITY))
    for first in range(0, len(order), 2 * BATCH):
        part = order[first : first + 2 * BATCH]
        logits[part] = model(**pad_graphs([examples[i].graph for i in part]))
    return logits


def figures(logits: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Return as a dict, from logits (N, 2) and labels (N,), the number of molecules, the accuracy, and the area under the ROC curve, None
    if all molecules are of one class.
    """
    from sklearn.metrics import roc_auc_score

    right = float((logits.argmax(1) == labels).float().mean())
    auc = float(roc_auc_score(labels, logits[:, 1] - logits[:, 0])) if len(labels.unique()) > 1 else None
    return {"molecules": len(labels), "accuracy": right, "auc": auc}


def fold_file(out: Path, kind: str, fold: int) -> Path:
    """Return the path of the file, in the folder ``out``, with the weights of fold number ``fold`` of this ``kind`` and its logits for the
    molecules that it never saw.
    """
    return out / "folds" / f"{kind}-{fold}.safetensors"


def run_fold(examples: Sequence[Example], kind: str, fold: int, args: argparse.Namespace) -> dict[str, Tensor]:
    """Train a model on ``examples`` without fold number ``fold`` of this ``kind`` ("random" or by scaffold), and return its weights and its
    ``logits`` for that fold. They are read from the file of the fold if it exists and ``args.resume`` is set.
    """
    file = fold_file(args.out, kind, fold)
    if not (args.resume and file.is_file()):
        groups = [example.fold if kind == "random" else example.scaffold_fold for example in examples]
        learned = [example for example, group in zip(examples, groups, strict=True) if group != fold]
        held_out = [example for example, group in zip(examples, groups, strict=True) if group == fold]
        file.parent.mkdir(parents=True, exist_ok=True)
        how = {"epochs": args.epochs, "seed": args.seed + fold, "checkpoint": file.with_suffix(".pt"), "resume": args.resume}
        model = train_model(learned, **how)
        labels = torch.tensor([example.label for example in held_out])
        save_file({**model.state_dict(), "logits": answer(model, held_out), "labels": labels}, file)
    return load_file(file)


def calibration(examples: Sequence[Example], folds: Sequence[dict[str, Tensor]]) -> dict[str, Any]:
    """Return the ``calibration.json`` of a model of molecules as JSON: temperature, lapse, and the threshold of likeness to the training
    molecules.

    All are fitted to the molecules in ``examples`` and the answers in ``folds`` (logits and labels of each) but the first, each about
    molecules that it never saw.
    """
    logits = torch.cat([fold["logits"] for fold in folds[1:]])
    labels = torch.cat([fold["labels"] for fold in folds[1:]])
    right = logits.argmax(1) == labels
    probabilities = fit_calibration(logits, right)
    likeness = torch.cat([torch.tensor(likeness_of(examples, fold)) for fold in range(1, len(folds))])
    line = round(float(likeness.quantile(UNLIKE_SHARE)), 3)
    below = likeness < line
    measured = (
        f"Of {len(labels):,} molecules that the model asked had not seen, {float(below.float().mean()):.0%} are less like any that it had: "
        f"it told {float(right[below].float().mean()):.0%} of these right, and {float(right[~below].float().mean()):.0%} of the others."
    )
    row = {"score": "fingerprint_similarity", "line": line, "below": True, "measured": measured}
    return {"temperature": probabilities.temperature, "lapse": probabilities.lapse, "lines": {"unlike_training": row}}


def likeness_of(examples: Sequence[Example], fold: int) -> list[float]:
    """Return for each of ``examples`` in the fold number ``fold`` the similarity of its molecule to the nearest one of the other folds, 0
    to 1.
    """
    known = torch.stack([example.fingerprint for example in examples if example.fold != fold])
    return [nearest_similarity(example.fingerprint, known) for example in examples if example.fold == fold]


def train(args: argparse.Namespace) -> None:
    """Train a model on each fold, and write the model of the first one, with a calibration from all folds, into the folder ``args.out``.
    ``args`` are the parsed arguments that ``add_arguments`` declares. Raises ExplainerError for too few folds.
    """
    if not 2 <= args.folds <= FOLDS or not 0 <= args.scaffolds <= FOLDS:
        raise ExplainerError(f"--folds must be 2 to {FOLDS}, one of them for the calibration, and --scaffolds 0 to {FOLDS}")
    examples = read_examples(args.data)
    folds = [run_fold(examples, "random", fold, args) for fold in range(args.folds)]
    kinds = {"random": folds, "scaffold": [run_fold(examples, "scaffold", fold, args) for fold in range(args.scaffolds)]}
    save(folds[0], [example for example in examples if example.fold != 0], args.out)
    write(args.out, calibration(examples, folds))
    table = {kind: [figures(fold["logits"], fold["labels"]) for fold in each] for kind, each in kinds.items()}
    (args.out / FOLDS_FILE).write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def save(fold: dict[str, Tensor], learned: Sequence[Example], out: Path) -> None:
    """Write ``out``, a folder that ``explainers.load`` takes: the weights in ``fold`` in half precision, and the fingerprints of the
    molecules ``learned`` from.
    """
    weights = {name: value.half() for name, value in fold.items() if name not in ("logits", "labels")}
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    save_file({"fingerprints": torch.stack([example.fingerprint for example in learned])}, out / FINGERPRINTS_FILE)
    config = {"architecture": NAME, "kind": "molecule", "reader": "graph", "model_args": SHAPE, "label_names": list(MUTAGENICITY)}
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n", "utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command-line arguments that ``train`` reads, on ``parser``."""
    parser.add_argument("--data", type=Path, required=True, help="ames_hansen.csv or .csv.xz of Hansen et al., or the folder that holds it")
    parser.add_argument("--out", type=Path, required=True, help="folder the model is written to")
    parser.add_argument("--epochs", type=int, default=20, help="how often each molecule is learned from (default 20)")
    parser.add_argument("--folds", type=int, default=FOLDS, help=f"how many fifths are each left out once, 2 to {FOLDS} (default {FOLDS})")
    parser.add_argument(
        "--scaffolds", type=int, default=0, metavar="N", help="also leave out so many fifths of the ring systems (default 0)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on from the folds in --out")
