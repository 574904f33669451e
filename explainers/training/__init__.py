"""Maps while a model trains: a fixed panel of inputs, drawn every few steps to where people already look.

``Panel`` says what is drawn; ``to_folder``, ``to_tensorboard`` and ``to_wandb`` say where it goes. ``PanelLogger`` draws it every N steps
of a plain loop, ``transformers_callback`` of transformers' Trainer, ``lightning_callback`` of Lightning. Training goes on as without it:
the mode of every module, gradients, hooks, the device and random numbers are as before. TensorBoard, Weights & Biases and Lightning are
imported only where they are used, and are no dependencies.
"""

from explainers.training.callbacks import PanelLogger, lightning_callback, transformers_callback
from explainers.training.panel import Panel, PanelImage, PanelView
from explainers.training.writers import to_folder, to_tensorboard, to_wandb

__all__ = [
    "Panel",
    "PanelImage",
    "PanelLogger",
    "PanelView",
    "lightning_callback",
    "to_folder",
    "to_tensorboard",
    "to_wandb",
    "transformers_callback",
]
