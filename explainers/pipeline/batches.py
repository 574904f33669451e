"""Maps of all batches of a DataLoader, batch by batch, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from explainers.errors import ExplainerError
from explainers.models.libraries.calls import TENSOR_NAMES, argument_names
from explainers.models.model import Model
from explainers.records.result import Explanation

Explain = Callable[[dict[str, Tensor]], list[Explanation]]


@dataclass(frozen=True, eq=False)
class MapBatch:
    """The maps of one batch, as arrays.

    maps     spec -> float32 map: (batch, rows, columns) for pictures, (batch, tokens) for texts, padded with NaN
    logits   (batch, classes)
    targets  for each sample the label of what is explained
    extra    further data from the loader, such as the classes of the samples
    """

    maps: dict[str, NDArray[np.float32]]
    logits: NDArray[np.float32]
    targets: list[str]
    extra: Any = None

    @property
    def beside(self) -> Any:
        """The old name of ``extra``, from version 0.2."""
        return self.extra

    def __len__(self) -> int:
        return len(self.targets)


def explain_batches(explain: Explain, model: Model, loader: DataLoader[Any]) -> Iterator[MapBatch]:
    """Explain each batch of ``loader`` with the function ``explain``, and yield its maps, with a progress bar in a terminal or a notebook.

    A batch is a tensor, a dict with the names that the model takes, or a tuple that begins with one of these; the rest of the tuple is
    passed on.
    """
    is_notebook = "notebook" in tqdm.__module__
    total = len(loader) if hasattr(loader.dataset, "__len__") else None
    with tqdm(loader, total=total, unit="batch", leave=False, disable=False if is_notebook else None) as bar:
        for batch in bar:
            tensors, extra = _parts(batch, model)
            results = explain(tensors)
            yield MapBatch(_maps(results), _array([r.logits for r in results]), [r.target.label for r in results], extra)


def _parts(batch: Any, model: Model) -> tuple[dict[str, Tensor], Any]:
    """Split ``batch``, one batch of a data loader, into the tensors that ``model`` takes, by name, and everything else in it (such as
    labels), None if there is nothing else. Raises ExplainerError for a batch without such tensors.
    """
    if isinstance(batch, list | tuple) and batch:
        tensors, inside = _parts(batch[0], model)
        rest = batch[1] if len(batch) == 2 else list(batch[1:])
        return tensors, rest if inside is None else [inside, rest]
    if isinstance(batch, Mapping):
        names_taken = argument_names(model.module) if model.kind == "molecule" else TENSOR_NAMES
        known = {str(name): tensor for name, tensor in batch.items() if name in names_taken and isinstance(tensor, Tensor)}
        if known:
            return known, {name: value for name, value in batch.items() if name not in known} or None
    if isinstance(batch, Tensor) and model.kind != "molecule":
        return {"input_ids" if model.kind == "text" else "pixel_values": batch}, None
    names = {"text": "input_ids and attention_mask", "molecule": "the tensors of its reader"}.get(model.kind, "pixel_values")
    raise ExplainerError(
        f"a batch of the loader is a {type(batch).__name__}: let it be a tensor, a dict with {names}, or a tuple of one and more"
    )


def _maps(results: list[Explanation]) -> dict[str, NDArray[np.float32]]:
    specs = dict.fromkeys(attribution.method for attribution in results[0].maps)
    maps = {}
    for spec in specs:
        rows = [result[spec] for result in results]
        if rows[0].patches is not None:
            maps[spec] = _array([row.scores[row.content].view(row.patches or (-1,)) for row in rows])
        else:
            padded = torch.nn.utils.rnn.pad_sequence([row.scores for row in rows], batch_first=True, padding_value=torch.nan)
            maps[spec] = padded.numpy()
    return maps


def _array(tensors: list[Tensor]) -> NDArray[np.float32]:
    array: NDArray[np.float32] = torch.stack(tensors).float().numpy()
    return array
