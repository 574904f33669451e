"""A run: every input of a plan measured, its rows kept, so that a stopped run goes on where it was and ends the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from explainers.datasets import Dataset, Sample
from explainers.errors import ExplainerError
from explainers.evaluation.broken_inputs import BROKEN, sort_rows
from explainers.evaluation.curve_logits import usual_removal
from explainers.evaluation.measuring import REPORT_CURVES, EvaluationRow, EvaluationSetup
from explainers.evaluation.plan import Plan, run_folder_of
from explainers.evaluation.rows import RUN, RowFile, inputs_in_part, lock_folder, schema_of, write_json
from explainers.evaluation.run_engines import RunEngine, local
from explainers.evaluation.tokens_per_pass import tokens_at_once
from explainers.models.model import Model
from explainers.pipeline.explain import versions
from explainers.records.session import Cancelled

__all__ = ["EvaluationRun", "run"]

FORMAT = 1
AT_ONCE_FIELD = "tokens_at_once"  # key in run.json of the tokens in one forward pass
REMOVAL = "removal"  # key in run.json of the way in which tokens were removed, where the plan names none
DATA = "data_digest"  # key in run.json of the digest of the first inputs
CALIBRATION = "calibration"  # key in run.json of the temperature and lapse of the probabilities
DIGESTED_INPUTS = 3
#: The options of a plan that earlier versions did not have, with the values that they used.
EARLIER_OPTIONS = {field.name: field.default for field in fields(Plan) if field.name in ("explains", "resize", "right", "steps")}
EARLIER_OPTIONS["controls"] = []
#: A callback that gets how many inputs are measured, and of how many.
InputsProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class EvaluationRun:
    """A finished run of an evaluation.

    folder  the folder of the run
    about   the contents of its file ``run.json``
    rows    one row for each input and method, in the order of the inputs; the methods of one input in the order of the plan
    costs   for each row a dict with the ``seconds`` of its map, its ``memory`` in bytes (None: not measured) and its ``device``; empty if
            an
            earlier version wrote the run
    """

    folder: Path
    about: dict[str, Any]
    rows: list[EvaluationRow]
    costs: Sequence[dict[str, Any]] = ()


def run(
    model: Model,
    data: Dataset,
    plan: Plan,
    folder: Path,
    *,
    engine: RunEngine = local,
    progress: InputsProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
    skip_broken: bool = False,
) -> EvaluationRun | None:
    """Measure all inputs of a plan that are missing in ``folder``, and return the finished run; None if ``cancelled`` stopped it before the
    end.

    The ``engine`` decides where inputs are measured; another engine may finish a run that one has started. ``progress`` is called with how
    many inputs are measured, and of how many; ``cancelled`` is asked between inputs. With ``skip_broken`` unreadable inputs are left out,
    and named in ``run.json``. Raises BrokenInput, naming it, for an input that cannot be read; after it is corrected the run can be
    continued. Raises ExplainerError if the folder holds a run with another plan, other weights, another calibration, other versions or
    other inputs, or a damaged file; if another process measures in it; and if the data set's classes are to be explained and the model
    knows none of them.
    """
    setup = EvaluationSetup(model, data, plan, cancelled, skip_broken=skip_broken)
    indices = data.choose(plan.limit, plan.seed)
    many = inputs_in_part(len(indices))
    parts = [indices[start : start + many] for start in range(0, len(indices), many)]
    about = {
        "format": FORMAT,
        "plan": plan.to_json(),
        "weights_digest": model.weights_digest,
        CALIBRATION: model.calibration.probability_settings(),
        "versions": versions(),
        "inputs": len(indices),
        DATA: first_inputs(setup),
    }
    with lock_folder(run_folder_of(folder)):
        record = _write_or_check_record(folder, about)
        file = RowFile(folder, schema_of(setup.metrics, _curve_names(setup)), len(parts))
        missing_parts = {number: parts[number] for number in file.missing_parts()}
        count_before = len(indices) - sum(map(len, missing_parts.values()))
        remaining = set(missing_parts)

        def tell(count: int) -> None:
            if progress is not None and count_before + count < len(indices):
                progress(count_before + count, len(indices))

        def size(kind: str, free: int | None) -> EvaluationSetup:
            # the last bits of the answers depend on how many inputs share a forward pass
            if AT_ONCE_FIELD not in record:
                asked_model, tensors = _first_input(setup, indices)
                record[AT_ONCE_FIELD] = tokens_at_once(asked_model, tensors, kind, free)
                if plan.how is None and any(curve.how is None and not curve.pixels for curve in setup.curves):
                    record[REMOVAL] = usual_removal(asked_model, tensors)
                write_json(folder / RUN, record)
            return replace(setup, at_once=record[AT_ONCE_FIELD])

        try:
            with closing(engine(setup, missing_parts, tell, size)) as measured_parts:
                for number, rows in measured_parts:
                    if number in remaining:  # a part counts once, however often an engine measures it
                        file.add(number, record_broken(record, parts[number], rows, folder))
                        remaining.remove(number)
        except Cancelled:
            return None
        if remaining:
            raise RuntimeError(f"the engine ended without the parts {sorted(remaining)}")
        if progress is not None:
            progress(len(indices), len(indices))
        file.finish()
        rows = file.read()
        if not rows:
            label = next((str(label) for sample in setup.readable(indices) for label in sample.labels), "none")
            raise ExplainerError(
                f"{model.name} knows none of the classes that {data.name} gives these inputs (the first: {label}), so there is nothing to "
                "explain: choose target=predicted (--target predicted)."
            )
        return EvaluationRun(folder, record, _rows_of_methods(plan, rows), _rows_of_methods(plan, file.read_costs()))


def _rows_of_methods(plan: Plan, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ``rows`` that belong to methods of ``plan``, without the rows of controls; for each input both follow one another."""
    methods, each = len(plan.methods), len(plan.methods) + len(plan.controls)
    return [row for place, row in enumerate(rows) if place % each < methods]


def _first_input(setup: EvaluationSetup, indices: Sequence[int]) -> tuple[Model, dict[str, Tensor]]:
    """Return the model of ``setup`` set to the place that the first readable input among ``indices`` asks about, and the tensors of that
    input with their prompts. Raises ExplainerError if no input can be read.
    """
    for sample in setup.readable(indices):
        at_place = setup.at_place_of(sample)
        return at_place.model, at_place.tensors(sample.model_input)
    raise ExplainerError(f"None of the {len(indices)} inputs of {setup.data.name} can be read: run without --skip-broken to see why.")


def record_broken(record: dict[str, Any], part: Sequence[int], rows: list[EvaluationRow], folder: Path) -> list[EvaluationRow]:
    """Return the rows of a part without those that report broken inputs. These are added to ``record``, the contents of ``run.json`` in
    ``folder``, which is written first: if the process is killed in between, the part is measured again.
    """
    measured_rows, broken = sort_rows(rows)
    others = [row for row in record.get(BROKEN, []) if row["index"] not in set(part)]  # mended since the part was measured before
    every = sorted([*others, *broken], key=lambda row: int(row["index"]))
    if every != record.get(BROKEN, []):
        record[BROKEN] = every
        write_json(folder / RUN, record)
    return measured_rows


def _curve_names(setup: EvaluationSetup) -> Sequence[str]:
    return [name for name in REPORT_CURVES if any(name in metric.curves for metric in setup.metrics)]


def _write_or_check_record(folder: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Write ``about``, the facts of a run, to ``run.json`` in ``folder``, or compare it with the file that exists; return the contents of
    the file. Raises ExplainerError if the file is damaged or of another run.
    """
    path = folder / RUN
    if not path.is_file():
        write_json(path, about)
        return about
    try:
        record = json.loads(path.read_text("utf-8"))
        plan = {**EARLIER_OPTIONS, **record["plan"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise ExplainerError(f"{path} is damaged, so nobody knows what {folder} holds: name another folder.") from None
    for key in (DATA, CALIBRATION):
        record.setdefault(key, about[key])  # runs of earlier versions know nothing of it
    differences = [
        key if isinstance(value, list) else f"{key} ({plan.get(key)}, not {value})"
        for key, value in about["plan"].items()
        if plan.get(key) != value
    ]
    titles = {
        "format": "format",
        "weights_digest": "weights of the model",
        CALIBRATION: "calibration of the probabilities",
        "versions": "versions of the libraries",
        DATA: "inputs",
    }
    differences += [title for key, title in titles.items() if record.get(key) != about[key]]
    if record.get("inputs") != about["inputs"] and not differences:
        differences = ["number of inputs"]
    if differences:
        raise ExplainerError(
            f"{folder} holds another run. It has other {', '.join(differences)}: name another folder, or ask for the same."
        )
    return dict(record)


def first_inputs(setup: EvaluationSetup) -> str:
    """Return a digest of the first inputs of the run that ``setup`` describes. It distinguishes the run from one with the same plan on
    other files. Raises BrokenInput for an input that cannot be read, unless such inputs are skipped, before anything of the run is written.
    """
    return digest_of(setup.readable(setup.data.choose(setup.plan.limit, setup.plan.seed)[:DIGESTED_INPUTS]))


def digest_of(samples: Iterable[Sample]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of the inputs ``samples`` with all annotations of the data set."""
    digest = hashlib.sha256()
    for sample in samples:
        masks = [obj.mask for obj in sample.objects]
        annotations = [
            sample.name,
            sample.text,
            sample.labels,
            sample.rationale,
            [obj.label for obj in sample.objects],
            sample.labelled is None,
            *([] if sample.text_pair is None else [sample.text_pair, sample.pair_rationale]),
            *([] if sample.at is None else [sample.at]),
            *([] if sample.against is None else [sample.against]),
        ]
        digest.update(repr(annotations).encode())
        for mask in [*masks, *([] if sample.labelled is None else [sample.labelled])]:
            digest.update(np.packbits(np.asarray(mask, bool)).tobytes())
        if sample.image is not None:
            digest.update(str(sample.image.size).encode() + sample.image.tobytes())
    return digest.hexdigest()
