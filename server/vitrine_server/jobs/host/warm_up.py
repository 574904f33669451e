"""The first pass of a model, made before it is said to be loaded, so that no visitor waits for kernels and for a device's first memory."""

from __future__ import annotations

import logging

from explainers import explain
from explainers.errors import is_memory_shortage
from explainers.models.model import Model
from explainers.self_check.sample import sample_of

log = logging.getLogger(__name__)
#: One recording and one backward pass, which all models have.
_METHOD = "input_x_gradient"


def warm_up(model: Model) -> None:
    """Explain a sample input with a model on a GPU. On a CPU nothing happens: there the first pass takes no longer than the next one.

    A model that comes back from host memory needs none: its process has the kernels, and the question that brings it runs them at once.
    """
    if model.device.type != "cpu":
        explain_sample(model)


def explain_sample(model: Model) -> None:
    """Explain the sample input of the opening checks by one method, for what that leaves on the device.

    Raises MemoryShortageError, or torch's error, where memory is too short for it. Any other error is logged, since a question to the model
    says it to whoever asks.
    """
    try:
        sample = sample_of(model)
        explain(model, sample.inputs, sample.target, [_METHOD])
    except Exception as error:
        if is_memory_shortage(error):
            raise
        log.warning("%s was not warmed up: %s", model.name, error)
