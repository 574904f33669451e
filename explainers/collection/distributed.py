"""The engine that collects the parts of a collection on many machines and GPUs, with Ray Data, as runs of methods are measured there."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch

from explainers.collection.collect import make_setup
from explainers.collection.rows import CollectionSetup, TravellingRow
from explainers.collection.running import CollectionEngine, Parts, data_digest, rows_of_part
from explainers.collection.sources import Sources
from explainers.errors import ExplainerError
from explainers.evaluation import distributed
from explainers.evaluation.distributed import check_model, check_versions, connect, count_workers, ray_for, receive_parts
from explainers.models.loading import load
from explainers.models.removal.ways import How
from explainers.pipeline.explain import versions
from explainers.records.session import Cancelled


def ray_engine(
    model: str, sources: Sources, *, workers: int | None = None, address: str | None = None, device: str | None = None
) -> CollectionEngine:
    """Return an engine that collects on a Ray cluster, as `explainers.evaluation.distributed.ray_engine` measures there.

    ``model`` and ``sources`` are names that every machine can open, folders in the same place on each; the other arguments are those of
    that engine. Raises ExplainerError without Ray, and in the collection for a cluster that cannot be reached, and for a worker whose
    model, data or versions are not those of the collection.
    """
    ray = ray_for(workers)
    name = distributed.Sources.with_absolute_paths(model, "").model

    def engine(setup: CollectionSetup, parts: Parts) -> Generator[tuple[int, list[TravellingRow]]]:
        if not parts:
            return
        with connect(ray, address):
            kind, room = count_workers(ray, device)
            order = CollectionOrder(
                model=name,
                sources=sources,
                methods=setup.methods,
                prompts=setup.prompts,
                has_labels=setup.has_labels,
                removal=setup.removal,
                seed=setup.seed,
                batch=setup.batch,
                how=setup.how,
                skip_broken=setup.skip_broken,
                device=kind,
                threads=torch.get_num_threads(),
                weights=setup.model.weights_digest,
                calibration=setup.model.calibration.probability_settings(),
                inputs=data_digest(setup),
                versions=versions(),
            )
            for number, rows in receive_parts(ray, order, parts, min(workers or room, room, len(parts))):
                yield number, rows
                if setup.cancelled is not None and setup.cancelled():
                    raise Cancelled

    return engine


@dataclass(frozen=True, kw_only=True)
class CollectionOrder:
    """The instructions for workers: what a collection is made of, and which weights, inputs and versions they must have for the same rows.

    The fields from ``methods`` to ``skip_broken`` are those of :class:`CollectionSetup`; ``inputs`` is the digest of the first ones.
    """

    model: str
    sources: Sources
    methods: tuple[str, ...]
    prompts: tuple[str, ...] | None
    has_labels: bool
    removal: bool
    seed: int
    batch: int
    how: How
    skip_broken: bool
    device: str
    threads: int
    weights: str
    calibration: dict[str, float]
    inputs: str
    versions: dict[str, str]

    def open(self) -> CollectionSetup:
        """Open the model and the data, and return the setup. Raises ExplainerError if they are not those of the collection."""
        check_versions(self.versions)
        model = load(self.model, self.device)
        check_model(model, self.model, self.weights, self.calibration)
        setup = make_setup(
            model,
            self.sources.open(),
            self.methods,
            prompts=self.prompts,
            labels=self.has_labels,
            removal=self.removal,
            seed=self.seed,
            skip_broken=self.skip_broken,
        )
        if data_digest(setup) != self.inputs:
            raise ExplainerError(f"its {self.sources.data} holds other inputs than that of the collection.")
        return replace(setup, batch=self.batch, how=self.how)

    def rows_of(self, setup: CollectionSetup, number: int, indices: Sequence[int]) -> list[TravellingRow]:
        """Return the rows of the inputs with these ``indices``, the part ``number``."""
        return rows_of_part(setup, indices)
