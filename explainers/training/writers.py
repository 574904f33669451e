"""Where the views of a panel go: a folder, TensorBoard, Weights & Biases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from explainers.errors import ExplainerError
from explainers.training.panel import PanelView

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

#: A function that writes a view of a panel at a step of the training.
Writer: TypeAlias = Callable[[PanelView, int], None]
#: The first part of every name in TensorBoard and Weights & Biases.
PREFIX = "vitrine"
FIGURES = "figures.jsonl"
_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]+")


def to_folder(folder: Path | str) -> Writer:
    """Return a writer to a folder: ``step-000100/NAME.png`` for each image, and a line of ``figures.jsonl`` for each step."""
    root = Path(folder)

    def write(view: PanelView, step: int) -> None:
        place = root / f"step-{step:06d}"
        place.mkdir(parents=True, exist_ok=True)
        for image in view.images:
            name = _NOT_IN_FILE_NAMES.sub("-", image.name)
            image.picture.save(place / f"{name}.png")
        with (root / FIGURES).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **view.figures}, ensure_ascii=False) + "\n")

    return write


def to_tensorboard(writer: SummaryWriter | Path | str) -> Writer:
    """Return a writer to TensorBoard: images and scalars below ``vitrine/``.

    writer  a ``SummaryWriter`` of ``torch.utils.tensorboard``, or the folder of one that is made. Raises ExplainerError for a folder where
            TensorBoard is not installed
    """
    if isinstance(writer, (str, Path)):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ExplainerError("TensorBoard is not installed. Type: pip install tensorboard") from None
        writer = SummaryWriter(str(writer))
    summary = writer

    def write(view: PanelView, step: int) -> None:
        for image in view.images:
            summary.add_image(f"{PREFIX}/{image.name}", np.asarray(image.picture), step, dataformats="HWC")
        for name, value in view.figures.items():
            summary.add_scalar(f"{PREFIX}/{name}", value, step)
        summary.flush()

    return write


def to_wandb(run: Any = None) -> Writer:
    """Return a writer to Weights & Biases: images and figures below ``vitrine/``, over ``vitrine/step``.

    run  a run that ``wandb.init`` returned; None: the one that is under way. The step is a figure of its own, since the step of a run,
         which other callbacks count too, must not fall. Raises ExplainerError where Weights & Biases is not installed, or no run
         is under way
    """
    try:
        import wandb
    except ImportError:
        raise ExplainerError("Weights & Biases is not installed. Type: pip install wandb") from None
    run = wandb.run if run is None else run
    if run is None:
        raise ExplainerError("No run of Weights & Biases is under way: call wandb.init first, or pass its run.")
    run.define_metric(f"{PREFIX}/*", step_metric=f"{PREFIX}/step")

    def write(view: PanelView, step: int) -> None:
        images = {f"{PREFIX}/{image.name}": wandb.Image(image.picture, caption=image.caption) for image in view.images}
        run.log({f"{PREFIX}/step": step, **images, **{f"{PREFIX}/{name}": value for name, value in view.figures.items()}})

    return write
