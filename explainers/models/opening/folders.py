"""Contents of a folder: a model as timm or transformers saves it, a run with checkpoints, an adapter, or files of weights alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object
from explainers.models.libraries.hub import missing_weights
from explainers.models.libraries.sentence_embedding import MODULES, backbone_in
from explainers.models.opening import adapters
from explainers.models.opening.weights import ENDINGS

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
#: Files that hold no weights of a model, or other data next to them.
_NO_WEIGHTS = re.compile(r"optimizer|scheduler|rng_state|training_args|scaler|(^|[_.-])last([_.-]|$)|^last\.", re.IGNORECASE)
_BEST = re.compile(r"best", re.IGNORECASE)


@dataclass(frozen=True)
class Content:
    """The part of a folder that is opened: the ``folder`` of a model, an ``adapter``, or a ``file`` of weights; ``guess`` is the reason for
    this choice.
    """

    folder: Path | None = None
    adapter: Path | None = None
    file: Path | None = None
    guess: str | None = None


def content_of(folder: Path) -> Content:
    """Choose which part of ``folder`` to open. Raises ExplainerError, listing its contents, if none can be opened."""
    if (folder / adapters.CONFIG).is_file():
        return Content(adapter=folder)
    if (folder / "open_clip_config.json").is_file() or ((folder / "config.json").is_file() and not missing_weights(folder)):
        return Content(folder=folder)
    if (folder / MODULES).is_file() and (backbone := backbone_in(folder)) is not None:
        return Content(folder=backbone)
    if (run := _newest_checkpoint(folder)) is not None:
        return run
    files = _weight_files(folder)
    if len(files) > 1:
        files = (
            [file for file in files if _BEST.search(file.name)] or [file for file in files if not _NO_WEIGHTS.search(file.name)] or files
        )
    if files:
        newest = max(files, key=lambda file: file.stat().st_mtime)
        return Content(file=newest, guess=f"{newest.name} is opened of {len(files)} files of weights" if len(files) > 1 else None)
    inner = [place for place in sorted(folder.iterdir()) if place.is_dir() and not place.name.startswith((".", "__"))]
    if len(inner) == 1:  # as a zip of a folder has it
        return content_of(inner[0])
    named = ", ".join(sorted(place.name for place in folder.iterdir())[:8]) or "nothing"
    raise ExplainerError(
        f"{folder} holds no model: config.json with weights, an adapter, checkpoints of a run or a file of weights is looked for; it holds "
        f"{named}"
    )


def _newest_checkpoint(folder: Path) -> Content | None:
    """Return the newest whole checkpoint in ``folder``, the folder of a run of transformers' Trainer; None if there is none."""
    steps = {int(match[1]): place for place in folder.iterdir() if place.is_dir() and (match := _CHECKPOINT.fullmatch(place.name))}
    whole = {
        step: place
        for step, place in steps.items()
        if (place / adapters.CONFIG).is_file() or ((place / "config.json").is_file() and not missing_weights(place))
    }
    if not whole:
        return None
    newest = whole[max(whole)]
    guess = f"{newest.name}, the newest of {len(whole)} checkpoints, is opened" if len(whole) > 1 else None
    best = _best_of_run(newest)
    if guess and best and best != newest.name:
        guess += f"; the run calls {best} its best"
    return Content(adapter=newest, guess=guess) if (newest / adapters.CONFIG).is_file() else Content(folder=newest, guess=guess)


def _best_of_run(checkpoint: Path) -> str | None:
    state = checkpoint / "trainer_state.json"
    if not state.is_file():
        return None
    best = read_json_object(state).get("best_model_checkpoint")
    return re.split(r"[\\/]", best)[-1] if isinstance(best, str) else None


def _weight_files(folder: Path) -> list[Path]:
    """Return the files of weights in ``folder``, or in the subfolder ``checkpoints`` of it or of a Lightning run in it."""
    for place in (folder, folder / "checkpoints", *sorted(folder.glob("version_*/checkpoints"), reverse=True)):
        if place.is_dir():
            files = [f for f in sorted(place.iterdir()) if f.is_file() and f.name.endswith(ENDINGS) and not _is_state(f)]
            if files:
                return files
    return []


def _is_state(file: Path) -> bool:
    return bool(re.search(r"optimizer|scheduler|rng_state|training_args|scaler", file.name))
