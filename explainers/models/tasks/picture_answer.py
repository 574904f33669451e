"""The answer of a vision-language model about a picture and a prompt: which patches and which words made it say *dog*?"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from explainers.models.eval_mode import evaluating
from explainers.models.inputs.types import Prepared
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

    def complete(self, prepared: Prepared, module: nn.Module) -> Prepared:
        """Return the picture and prompt ``prepared`` with the answer that ``module`` writes, as :meth:`GeneratedAnswer.complete` does.

        Tokens of an answer are of no picture. Where the model reads types of tokens, an answer's is 0 (Gemma 3) unless tokens before would
        attend to those of type 0 after them, which is tried; then it is 1 (PaliGemma).
        """
        tensors, values = prepared.tensors, {"mm_token_type_ids": 0}
        if "token_type_ids" in tensors:
            longer = {name: torch.cat([t, t[:, -1:]], 1) if t.shape == tensors["input_ids"].shape else t for name, t in tensors.items()}
            longer["token_type_ids"][:, -1] = 0
            with torch.no_grad(), evaluating(module):
                alone, joined = (tensor_of(module(**given), "logits") for given in (tensors, longer))
            assert alone is not None
            assert joined is not None
            values["token_type_ids"] = int(not torch.allclose(alone, joined[:, :-1], rtol=1e-3, atol=1e-3 * float(alone.abs().max())))
        self.answer_values = values
        return super().complete(prepared, module)
