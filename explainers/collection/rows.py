"""The rows of one batch of inputs: read, explained in shared passes, and asked again without the parts that matter most."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from explainers.collection import readings
from explainers.collection.embeddings import InputVectors
from explainers.collection.records import CollectedMap, CollectedRow, CollectedWord
from explainers.datasets import Dataset, Sample
from explainers.errors import ExplainerError
from explainers.evaluation.broken_inputs import BrokenInput, read_sample
from explainers.evaluation.explained_classes import ClassLookup, labels_of, prompts_of
from explainers.models.inputs.types import ImageInput, Prepared
from explainers.models.model import Model
from explainers.models.removal.input_removal import input_removal
from explainers.models.removal.together import answers_without_patches
from explainers.models.removal.ways import How
from explainers.pipeline.explain import explain
from explainers.records.result import Explanation, WordScore

#: A row as it travels: the fields of :class:`CollectedRow`, and ``thumbnail``, a JPEG file in base64; or what is known of a broken input.
TravellingRow = dict[str, Any]
THUMBNAIL = "thumbnail"


@dataclass(frozen=True)
class CollectionSetup:
    """What all inputs of a collection share.

    methods      specs of the maps
    prompts      those that a CLIP model chooses from; None: one for each class of the data
    has_labels   whether the labels of the data say which answer is right; False: they are only written down
    removal      whether the model is asked again without the parts that matter most
    seed         for methods that draw at random
    batch        inputs in one pass
    how          the way in which the most relevant parts are removed
    skip_broken  whether inputs that cannot be read are left out
    cancelled    asked between passes; when true, :class:`explainers.Cancelled` is raised
    """

    model: Model
    data: Dataset
    methods: tuple[str, ...]
    prompts: tuple[str, ...] | None = None
    has_labels: bool = True
    removal: bool = True
    seed: int = 0
    batch: int = 1
    how: How = "removed"
    skip_broken: bool = False
    cancelled: Callable[[], bool] | None = None

    @cached_property
    def classes(self) -> ClassLookup:
        """The lookup from labels of the data to classes of the model; prompts of one's own are the labels themselves."""
        if self.model.kind != "clip":
            return ClassLookup(self.model, self.data, None)
        if self.prompts is None:
            return ClassLookup(self.model, self.data, prompts_of(self.data))
        return ClassLookup(self.model, replace(self.data, classes=self.prompts), list(self.prompts))

    @cached_property
    def vectors(self) -> InputVectors:
        """The vectors of the inputs, from the passes that are explained."""
        return InputVectors(self.model, self.first_tensors)

    @cached_property
    def first(self) -> Prepared:
        """The first input that can be read. Raises ExplainerError if there is none."""
        for sample in self.readable(range(len(self.data))):
            return self.model.prepare(sample.model_input)
        raise ExplainerError(f"None of the {len(self.data)} inputs of {self.data.name} can be read: leave out --skip-broken to see why.")

    def read(self, index: int) -> Sample:
        """Read the input number ``index``. Raises BrokenInput if it cannot be read."""
        return read_sample(self.data, index)

    @cached_property
    def first_tensors(self) -> dict[str, Tensor]:
        """The tensors of the first input that can be read, with the prompts."""
        return self.with_prompts(self.first.tensors)

    def with_prompts(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors of inputs together with those of the prompts that a CLIP model compares them with."""
        prompts = self.classes.prompt_texts
        if prompts is None or self.model.prompt_inputs is None:
            return dict(tensors)
        return {**tensors, **self.model.prompt_inputs(prompts).tensors}

    @property
    def is_judged(self) -> bool:
        """Whether an answer is right or wrong by the labels."""
        return self.has_labels and self.model.output != "regression"

    def readable(self, indices: Sequence[int]) -> Iterator[Sample]:
        """Yield the inputs with these indices. Raises BrokenInput for one that cannot be read, unless such are left out."""
        for index in indices:
            try:
                sample = self.read(index)
                self.prepare(index, sample)
            except BrokenInput:
                if not self.skip_broken:
                    raise
            else:
                yield sample

    def prepare(self, index: int, sample: Sample) -> Prepared:
        """Return the tensors of an input. Raises BrokenInput if the model cannot read it."""
        try:
            return self.model.prepare(sample.model_input)
        except ExplainerError as problem:
            raise BrokenInput(self.data, index, sample.name, problem) from problem


def rows_of(setup: CollectionSetup, indices: Sequence[int]) -> list[TravellingRow]:
    """Return the rows of the inputs with these ``indices``, which go through the model together; in their order, broken ones last.

    Raises BrokenInput for an input that cannot be read, unless the setup leaves such out.
    """
    read: list[tuple[int, Sample]] = []
    broken: list[TravellingRow] = []
    for index in indices:
        try:
            read.append((index, setup.read(index)))
        except BrokenInput as problem:
            if not setup.skip_broken:
                raise
            broken.append(problem.row)
    try:
        prepared = setup.model.prepare([sample.model_input for _, sample in read]) if read else None
    except ExplainerError:  # which of them it was
        readable = []
        for index, sample in read:
            try:
                setup.prepare(index, sample)
                readable.append((index, sample))
            except BrokenInput as problem:
                if not setup.skip_broken:
                    raise
                broken.append(problem.row)
        if len(readable) == len(read):
            raise
        read, prepared = readable, setup.model.prepare([sample.model_input for _, sample in readable]) if readable else None
    return ([] if prepared is None else _explained_rows(setup, read, prepared)) + broken


def _explained_rows(setup: CollectionSetup, read: Sequence[tuple[int, Sample]], prepared: Prepared) -> list[TravellingRow]:
    prompts = setup.classes.prompt_texts
    with setup.vectors.noting():
        explanations = explain(
            setup.model,
            prepared,
            None,
            list(setup.methods),
            prompts=prompts,
            seed=setup.seed + read[0][0],
            long_texts="cut",
            cancelled=setup.cancelled,
        )
    embeddings = setup.vectors.embeddings(explanations, prepared.tensors)
    described = [_Described(setup, sample, explanation) for (_, sample), explanation in zip(read, explanations, strict=True)]
    without = _answers_without_top(setup, described, prepared) if setup.removal else [None] * len(described)
    return [
        each.row(index, embedding, answers)
        for (index, _), each, embedding, answers in zip(read, described, embeddings, without, strict=True)
    ]


def _answers_without_top(setup: CollectionSetup, described: Sequence[_Described], prepared: Prepared) -> list[Tensor]:
    """Return for each input its logits (M, C) when the most relevant parts by each of the M maps are removed.

    Pictures go through the model together, one pass for each map; of a text all maps do.
    """
    grid = described[0].grid
    if grid is None:
        return [each.answers_without_top() for each in described]
    tensors = setup.with_prompts(prepared.tensors)
    keeps = torch.stack([each.keep for each in described])  # (B, M, N)
    by_map = [answers_without_patches(setup.model, tensors, keeps[:, i], grid, setup.how) for i in range(keeps.shape[1])]
    return list(torch.stack(by_map, dim=1))


class _Described:
    """One explained input with its sample, and what its maps say."""

    def __init__(self, setup: CollectionSetup, sample: Sample, explanation: Explanation) -> None:
        self.setup, self.sample, self.explanation = setup, sample, explanation
        self.grid = explanation.maps[0].patches
        self.words: list[list[WordScore]] | None = None if self.grid is not None else [each.words() for each in explanation.maps]
        by_map = [None] * len(explanation.maps) if self.words is None else self.words
        self.scores = [readings.part_scores(each, words) for each, words in zip(explanation.maps, by_map, strict=True)]
        self.top = [readings.top_parts(scores) for scores in self.scores]

    @property
    def first_words(self) -> list[WordScore] | None:
        """The words of a text, which are the same for all maps; None for a picture."""
        return None if self.words is None else self.words[0]

    @cached_property
    def keep(self) -> Tensor:
        """Which patches, or word pieces, are left when the top parts of each map are removed: bool (M, N)."""
        content = self.explanation.maps[0].content
        stays = torch.ones(len(self.top), len(content), dtype=torch.bool)
        places = torch.nonzero(content)[:, 0]
        for row, parts in zip(stays, self.top, strict=True):
            words = self.first_words
            tokens = places[parts] if words is None else torch.tensor([token for part in parts for token in words[part].tokens])
            row[tokens] = False
        return stays[:, content]

    def answers_without_top(self) -> Tensor:
        """Return the logits (M, C) of a text without the top words of each map."""
        record, explanation = self.explanation.input, self.explanation
        assert not isinstance(record, ImageInput)
        special = [token.special for token in record.tokens]
        tensors = self.setup.model.prepare(self.sample.model_input).tensors  # alone, and so without padding
        removal = input_removal(self.setup.model, tensors, special=special, how=self.setup.how)
        if int(self.keep.sum(1).min()) < removal.least:  # a text of one word, and a model that needs one
            return explanation.logits.expand(len(self.keep), -1)
        return removal.logits(self.keep)

    def row(self, index: int, embedding: list[float], without: Tensor | None) -> TravellingRow:
        """Return the row of the input with this ``index``. ``without`` are its logits (M, C) without the top parts of each map; None if the
        model was not asked again.
        """
        explanation, sample, setup = self.explanation, self.sample, self.setup
        record, answer, *rest = explanation.input, *explanation.top(2)
        assert answer.index is not None
        right = setup.classes.right_classes(sample) if setup.is_judged else frozenset()
        probabilities = explanation.probabilities if explanation.output != "regression" else None
        cover = readings.object_cover(sample, record, setup.classes, answer.index, self.first_words)
        on_parts = readings.on_parts(cover, self.grid)
        agreement, with_others = readings.agreements(self.scores)
        doubt = explanation.abstention or explanation.target.abstention
        seen = record if isinstance(record, ImageInput) else None
        row = CollectedRow(
            index=index,
            input=sample.name,
            text=sample.text,
            text_pair=sample.text_pair,
            labels=[str(label) for label in labels_of(sample)],
            own_columns=dict(sample.own_columns),
            answer=answer.label,
            answer_index=answer.index,
            probability=answer.probability,
            logit=answer.logit,
            runner_up=rest[0].label if rest else None,
            runner_up_probability=rest[0].probability if rest else None,
            right=answer.index in right if right else None,
            label_probability=float(probabilities[list(right)].max()) if right and probabilities is not None else None,
            doubt=None if doubt is None else doubt.kind,
            doubt_detail=None if doubt is None else doubt.detail,
            size=[] if seen is None else [seen.width, seen.height],
            crop=[] if seen is None else list(seen.crop),
            grid=list(self.grid or ()),
            words=[CollectedWord(word.text, word.start, word.end, word.part) for word in self.first_words or ()],
            object_area=None if on_parts is None else float(on_parts.mean()),
            agreement=agreement,
            maps=[
                self._map(i, on_parts, agrees, logits)
                for i, (agrees, logits) in enumerate(
                    zip(with_others, [None] * len(self.scores) if without is None else without, strict=True)
                )
            ],
            embedding=embedding,
            notes=explanation.notes,
        )
        picture = None if seen is None else readings.thumbnail(sample, seen)
        return {**row.to_row(), THUMBNAIL: None if picture is None else base64.b64encode(picture).decode()}

    def _map(self, number: int, on_parts: Tensor | None, agreement: float | None, without: Tensor | None) -> CollectedMap:
        """Return what is written of the map with this ``number``; ``without`` are the logits (C,) without its top parts, if known."""
        explanation, setup = self.explanation, self.setup
        attribution, scores = explanation.maps[number], self.scores[number]
        steps, step = readings.quantise(scores)
        return CollectedMap(
            method=attribution.method,
            scores=steps,
            step=step,
            top=self.top[number],
            share_on_object=readings.share_on(scores, on_parts),
            share_on_border=None if self.grid is None else readings.share_on(scores, readings.border_cover(self.grid)),
            agreement=agreement,
            **self._answer_without(without),
            embedding=setup.vectors.map_embedding(explanation, attribution),
        )

    def _answer_without(self, logits: Tensor | None) -> dict[str, Any]:
        """Return the columns on the answer without the top parts of a map, from its ``logits`` (C,); empty ones if they are not known."""
        if logits is None:
            return dict.fromkeys(("answer_without", "probability_without", "logit_without", "falls"))
        explanation = self.explanation
        answer, after = explanation.top(1)[0], int(logits.argmax())
        assert answer.index is not None
        is_regression = explanation.output == "regression"
        left = self.setup.model.calibration.probabilities(logits[None], explanation.output)[0]
        return {
            "answer_without": explanation.class_info(after).label,
            "probability_without": None if is_regression else float(left[answer.index]),
            "logit_without": float(logits[answer.index]),
            "falls": None if is_regression else after != answer.index,
        }
