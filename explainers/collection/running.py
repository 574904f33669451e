"""A collection on disk: every part of the inputs collected once, so that a stopped collection goes on where it was and ends the same."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from explainers.collection.records import row_schema, thumbnail_schema
from explainers.collection.result import KIND, THUMBNAILS, Collection, read_record
from explainers.collection.rows import THUMBNAIL, CollectionSetup, TravellingRow, rows_of
from explainers.collection.sources import SOURCES, Sources
from explainers.errors import ExplainerError
from explainers.evaluation.curve_logits import usual_removal
from explainers.evaluation.plan import run_folder_of
from explainers.evaluation.rows import RUN, RowFile, inputs_in_part, lock_folder, write_json
from explainers.evaluation.running import DIGESTED_INPUTS, digest_of, record_broken
from explainers.models.removal.token_removal import TOKENS
from explainers.models.tokens import row_length
from explainers.pipeline.explain import versions
from explainers.records.session import Cancelled

FORMAT = 1
GPU_BATCH = 64  # inputs in one pass on a GPU; where memory is too short for them, fewer go at a time
#: How a collection is measured, in run.json: the facts that a second call must have in common with the first.
_TITLES = {
    "kind": "kind of results",
    "format": "format",
    "data": "data",
    "inputs": "number of inputs",
    "limit": "limit",
    "seed": "seed",
    "methods": "methods",
    "prompts": "prompts",
    "labels": "use of the labels",
    "removal": "removal of parts",
    "weights_digest": "weights of the model",
    "calibration": "calibration of the probabilities",
    "versions": "versions of the libraries",
    "data_digest": "inputs",
}

#: The missing parts of a collection: the number of each, and the indices of its inputs.
Parts = Mapping[int, Sequence[int]]
#: A function that collects parts and yields number and rows of each once, in any order.
CollectionEngine = Callable[[CollectionSetup, Parts], Generator[tuple[int, list[TravellingRow]]]]
#: A callback that gets how many inputs are done, and of how many.
InputsProgress = Callable[[int, int], None]


def local(setup: CollectionSetup, parts: Parts) -> Generator[tuple[int, list[TravellingRow]]]:
    """Collect ``parts`` in this process, one after the other, and yield the number and the rows of each."""
    for number, indices in parts.items():
        yield number, rows_of_part(setup, indices)


def rows_of_part(setup: CollectionSetup, indices: Sequence[int]) -> list[TravellingRow]:
    """Return the rows of the inputs of one part, batch by batch. Raises Cancelled if the setup says so."""
    rows: list[TravellingRow] = []
    for start in range(0, len(indices), setup.batch):
        if setup.cancelled is not None and setup.cancelled():
            raise Cancelled
        rows += rows_of(setup, indices[start : start + setup.batch])
    return rows


def run(
    setup: CollectionSetup,
    folder: Path,
    *,
    limit: int | None = None,
    batch: int | None = None,
    engine: CollectionEngine = local,
    sources: Sources | None = None,
    progress: InputsProgress | None = None,
) -> Collection | None:
    """Collect all inputs that are missing in ``folder``, and return the finished collection; None if it was cancelled before the end.

    ``limit`` inputs are drawn with the seed of the setup (None: all), ``batch`` of them go through the model together (None: as many as
    suit the device; a collection keeps the number that it began with); ``sources`` say in run.json where the inputs lie. Raises
    BrokenInput, naming it, for an input that cannot be read; after it is corrected the collection can be continued. Raises ExplainerError
    if the folder holds another collection.
    """
    indices = setup.data.choose(limit, setup.seed)
    with lock_folder(run_folder_of(folder)):
        record = _write_or_check_record(folder, _facts(setup, limit, len(indices)))
        if "batch" not in record:
            record |= {"batch": batch or usual_batch(setup), "how": usual_removal(setup.model, setup.first_tensors)}
            write_json(folder / RUN, record)
        if sources is not None and record.get(SOURCES) != sources.to_json():  # the same inputs may lie elsewhere now
            record[SOURCES] = sources.to_json()
            write_json(folder / RUN, record)
        if batch not in (None, record["batch"]):
            raise ExplainerError(
                f"{folder} was begun with {record['batch']} inputs in a pass: leave the batch out, or name another folder."
            )
        setup = replace(setup, batch=record["batch"], how=record["how"])
        parts = _parts_of(indices, setup.batch)
        others = {THUMBNAILS: thumbnail_schema()} if setup.data.kind == "image" else {}
        file = RowFile(folder, row_schema(), len(parts), others)
        missing = {number: parts[number] for number in file.missing_parts()}
        done = len(indices) - sum(map(len, missing.values()))
        if progress is not None:
            progress(done, len(indices))
        remaining = set(missing)
        try:
            with closing(engine(setup, missing)) as collected:
                for number, rows in collected:
                    if number not in remaining:  # a part counts once, however often an engine collects it
                        continue
                    file.add(number, list(map(_unpacked, record_broken(record, parts[number], rows, folder))))
                    remaining.remove(number)
                    done += len(parts[number])
                    if progress is not None:
                        progress(done, len(indices))
        except Cancelled:
            return None
        if remaining:
            raise RuntimeError(f"the engine ended without the parts {sorted(remaining)}")
        file.finish()
        return Collection(folder, record)


def usual_batch(setup: CollectionSetup) -> int:
    """Return how many inputs go through the model together: on a GPU 64, on a CPU as many as have some 2,000 tokens, as longer passes are
    no faster there.
    """
    if setup.model.device.type != "cpu":
        return GPU_BATCH
    tensors = setup.first_tensors
    layout = setup.model.layout_of(tensors)
    length = row_length(tensors, layout.prefix) if layout.grid is None else layout.image_tokens
    return max(1, min(GPU_BATCH, TOKENS // max(1, length)))


def data_digest(setup: CollectionSetup) -> str:
    """Return a digest of the first inputs, which tells the collection from one of other files of the same name."""
    return digest_of(setup.readable(range(min(DIGESTED_INPUTS, len(setup.data)))))


def _facts(setup: CollectionSetup, limit: int | None, inputs: int) -> dict[str, Any]:
    prompts = setup.classes.prompt_texts
    return {
        "kind": KIND,
        "format": FORMAT,
        "model": setup.model.name,
        "weights_digest": setup.model.weights_digest,
        "calibration": setup.model.calibration.probability_settings(),
        "versions": versions(),
        "data": setup.data.name,
        "data_digest": data_digest(setup),
        "input_kind": setup.data.kind,
        "inputs": inputs,
        "limit": limit,
        "seed": setup.seed,
        "methods": list(setup.methods),
        "prompts": None if prompts is None else list(prompts),
        "labels": setup.has_labels,
        "removal": setup.removal,
        "classes": list(setup.model.labels) if prompts is None else list(prompts),
    }


def _parts_of(indices: Sequence[int], batch: int) -> list[Sequence[int]]:
    """Split the indices into parts of whole batches, some hundred at most."""
    size = -(-inputs_in_part(len(indices)) // batch) * batch
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _unpacked(row: TravellingRow) -> dict[str, Any]:
    """Return a row with its thumbnail as bytes."""
    picture = row[THUMBNAIL]
    return {**row, THUMBNAIL: None if picture is None else base64.b64decode(picture)}


def _write_or_check_record(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Write ``about``, the facts of a collection, to ``run.json`` in ``folder``, or compare it with the file that exists; return the
    contents of the file. Raises ExplainerError if the file is damaged or of something else.
    """
    path = folder / RUN
    if not path.is_file():
        write_json(path, about)
        return about
    record = read_record(path)
    if differences := [title for key, title in _TITLES.items() if record.get(key) != about[key]]:
        raise ExplainerError(
            f"{folder} holds something else. It has other {', '.join(differences)}: name another folder, or ask for the same."
        )
    return record
