"""Abstentions for one input: its answers and prompts against the thresholds of the model's calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from explainers.methods.prompt_cosines import nearest_patch_cosines
from explainers.models.abstention import Abstention, Evidence, abstention
from explainers.models.companion_files.fingerprints import fingerprints_of, nearest_similarity
from explainers.models.companion_files.prompt_words import PromptReading
from explainers.models.encoders import encoder
from explainers.models.eval_mode import evaluating
from explainers.models.feature_scores import token_means
from explainers.models.inputs.molecules import read_molecule
from explainers.models.inputs.types import MoleculeInput, Prepared, TextInput
from explainers.records.result import Explanation
from explainers.records.session import Session
from explainers.records.targets import ResolvedTarget


class InputAbstentions:
    """The abstentions of a model for input number ``sample`` of the batch in ``session``, whose ``explanation`` has its answer. A
    classifier abstains on its answer, a CLIP model on each prompt.
    """

    def __init__(self, session: Session, explanation: Explanation, sample: int) -> None:
        self._session, self._explanation, self._sample = session, explanation, sample
        self._calibration = session.model.calibration

    def judge_answer(self) -> Abstention | None:
        """Return why the model cannot know this input; None if it can, and for a CLIP model, which is judged by prompt."""
        if not self._calibration.thresholds or self._session.model.kind == "clip":
            return None
        model, place = self._session.model, slice(self._sample, self._sample + 1)
        evidence = Evidence(self._explanation.logits, self._calibration, self._explanation.labels, directions=model.directions)
        if self._calibration.reads_features:
            tensors = {name: tensor[place] for name, tensor in self._session.tensors.items()}
            evidence = replace(evidence, features=token_means(model, tensors)[0])
        return abstention(self._add_text(evidence, self._session.prepared, self._sample), "The text")

    def judge_target(self, target: ResolvedTarget) -> Abstention | None:
        """Return why a CLIP model cannot judge a prompt of the target (the first such prompt); None if it can judge all, and for a
        classifier.
        """
        if not self._calibration.thresholds or self._session.model.kind != "clip":
            return None
        judgements = (self._judge_prompt(int(index[self._sample])) for index in target.indices)
        return next((judgement for judgement in judgements if judgement is not None), None)

    def _judge_prompt(self, index: int) -> Abstention | None:
        details, logits = self._session.model.details, self._explanation.logits
        scale = details.get("logit_scale")
        cosine = None if scale is None else (float(logits[index]) - details.get("logit_bias", 0.0)) / scale
        evidence = Evidence(logits, self._calibration, self._explanation.labels, cosine=cosine, prompt=self._read_prompt(index))
        if self._calibration.reads_patches:
            evidence = replace(evidence, patch_cosine=float(self._patch_cosines[index]))
        assert self._session.prepared_prompts is not None
        name = f"“{self._explanation.labels[index]}”"
        return abstention(self._add_text(evidence, self._session.prepared_prompts, index), name)

    @cached_property
    def _patch_cosines(self) -> Tensor:
        """The mean cosine of each prompt with the patches nearest to it, (prompts,). If prompts are explained, the pass has no patches, and
        the image side of the model is run.
        """
        session, sample = self._session, self._sample
        if session.model.image_side is not None:
            session, sample = Session(session.model.image_side, session.prepared, session.targets, prompts=session.labels), 0
        return nearest_patch_cosines(session.trace(session.chosen[0], None))[sample]

    def _read_prompt(self, index: int) -> PromptReading | None:
        model, prompt = self._session.model, self._explanation.labels[index]
        if model.prompt_words is None:
            return None

        def embed(prompts: Sequence[str]) -> Tensor:
            assert model.prompt_inputs is not None
            with torch.no_grad(), evaluating(model.module):
                return encoder(model, "text").forward(model.prompt_inputs(prompts).tensors)

        words = model.prompt_words
        reading: PromptReading = model.cached(("prompt reading", prompt), lambda: words.read(prompt, embed))
        return reading

    def _add_text(self, evidence: Evidence, prepared: Prepared, row: int) -> Evidence:
        text = prepared.inputs[row]
        if not isinstance(text, TextInput):
            return evidence
        if isinstance(text, MoleculeInput):
            return replace(evidence, text=text, similarity=_likeness(text, self._session.model.fingerprints))
        unknown_id = self._session.model.details.get("unknown_token_id")
        return replace(evidence, text=text, ids=prepared.tensors["input_ids"][row].tolist(), unknown_id=unknown_id)


def _likeness(record: MoleculeInput, known: Tensor | None) -> float | None:
    """Return the similarity of the molecule ``record`` to the nearest of the ``known`` ones; 1 for a molecule passed as tensors, whose
    bonds are unknown; None if no molecules are known.
    """
    if known is None:
        return None
    return 1.0 if record.text is None else nearest_similarity(fingerprints_of([read_molecule(record.text).mol])[0], known)
