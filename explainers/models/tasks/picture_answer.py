"""The answer of a vision-language model about a picture and a prompt: which patches and which words made it say *dog*?"""

from __future__ import annotations

from typing import Any

from torch import nn

from explainers.models.libraries.recognition import Library
from explainers.models.libraries.vision_language import picture_token_of
from explainers.models.tasks.generated_answer import GeneratedAnswer
from explainers.models.tasks.task import add_task, tensor_of, transformers_class_ends
from explainers.models.tasks.vocabulary import VocabularyTask


@add_task
class PictureAnswer(GeneratedAnswer):
    """Task of explaining a written answer by the tokens of picture and prompt, which are one row: see :class:`GeneratedAnswer`."""

    name = "image-text-to-text"

    @classmethod
    def of(cls, module: nn.Module, library: Library, output: Any) -> VocabularyTask | None:
        """Return this task if ``module`` is a transformers model that writes about pictures (LLaVA's kind), judged by ``library`` and
        ``output``, else None.
        """
        logits = tensor_of(output, "logits")
        writes = transformers_class_ends(module, library, "ForConditionalGeneration") and picture_token_of(module, library) is not None
        return cls() if writes and logits is not None and logits.dim() == 3 else None
