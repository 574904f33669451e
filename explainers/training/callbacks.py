"""A panel drawn every N steps: of a plain loop, of transformers' Trainer, and of Lightning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from explainers.errors import ExplainerError
from explainers.training.panel import Panel
from explainers.training.writers import Writer

if TYPE_CHECKING:
    from lightning.pytorch import Callback
    from transformers import TrainerCallback


@dataclass
class PanelLogger:
    """A panel, where its views go, and how often: call it with the module and the number of steps done, after every step of a plain loop.

    panel   what is drawn
    writer  where it goes, such as ``to_folder("panels")``
    every   steps from one view to the next; the first is of step 0, before the training, if it is called then
    """

    panel: Panel
    writer: Writer
    every: int = 100

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ExplainerError(f"every={self.every}: a panel is drawn every so many steps, 1 at least.")

    def __call__(self, module: nn.Module, step: int, **wrapping: Any) -> bool:
        """Draw the panel if ``step`` is a multiple of ``every``, and return whether it was drawn; ``wrapping`` as for ``Panel.view``."""
        if step % self.every:
            return False
        self.writer(self.panel.view(module, **wrapping), step)
        return True


def transformers_callback(logger: PanelLogger) -> TrainerCallback:
    """Return a callback of transformers' Trainer that draws a panel before the training and every N optimizer steps:
    ``Trainer(..., callbacks=[transformers_callback(logger)])``. Of several processes the first draws.

    A tokenizer or image processor that the panel does not name is that of the Trainer (``processing_class``).
    """
    from transformers import TrainerCallback

    class PanelCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not followed
        """Draws a panel every few optimizer steps."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self._draw(state, others)

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            self._draw(state, others)

        def _draw(self, state: Any, others: dict[str, Any]) -> None:
            if not state.is_world_process_zero:
                return
            processor = others.get("processing_class")
            named = {} if processor is None else {"tokenizer" if hasattr(processor, "get_vocab") else "preprocess": processor}
            logger(others["model"], state.global_step, **named)

    return PanelCallback()


def lightning_callback(logger: PanelLogger, module: str | None = None) -> Callback:
    """Return a callback of Lightning that draws a panel before the training and every N optimizer steps:
    ``Trainer(..., callbacks=[lightning_callback(logger)])``. Of several processes the first draws.

    module  the dotted name of the classifier inside the LightningModule, such as ``"model"``; None: the LightningModule itself

    Raises ExplainerError where Lightning is not installed.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        try:
            from pytorch_lightning import Callback
        except ImportError:
            raise ExplainerError("Lightning is not installed. Type: pip install lightning") from None

    class PanelCallback(Callback):  # type: ignore[misc]  # Lightning is no dependency
        """Draws a panel every few optimizer steps."""

        def __init__(self) -> None:
            super().__init__()
            self._last = -1  # with accumulated gradients several batches end at one step

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self._draw(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            self._draw(trainer, pl_module)

        def _draw(self, trainer: Any, pl_module: nn.Module) -> None:
            step = int(trainer.global_step)
            if trainer.is_global_zero and step != self._last:
                self._last = step
                logger(pl_module if module is None else pl_module.get_submodule(module), step)

    return PanelCallback()
