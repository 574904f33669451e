"""What was found of a model's depth: four findings, each with its numbers, a sentence, or the reason why it could not be measured."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from explainers.analysis.depth.block_calls import PartKind
from explainers.analysis.depth.estimate import Estimate
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.rendering.plain import align

#: What is known of a part: the loss surely rises without it; it surely falls; it stays the same, also with all other such parts replaced;
#: none of these.
Verdict = Literal["needed", "better_without", "idle", "undecided"]
VERDICT_WORDS: dict[Verdict, str] = {
    "needed": "needed",
    "better_without": "better without",
    "idle": "idle",
    "undecided": "",
}


@dataclass(frozen=True)
class DepthOfPart(Record):
    """A part of the model: its name, block and kind, by how much the loss rises when it is replaced by its mean output, and the verdict."""

    name: str
    block: Annotated[int, describe("Counted from 0.")]
    kind: PartKind
    rise: Annotated[Estimate, describe("How much the loss rises, in nats.")]
    verdict: Annotated[
        Verdict,
        describe(
            "needed: the interval lies above 0; better_without: below 0. idle: within a hundredth of what all parts together change, alone "
            "and with all other such parts replaced. undecided: none of these."
        ),
    ]


@dataclass(frozen=True)
class PartsFinding(Record):
    """The rise of the loss when parts of the model are replaced by their mean output: each part, all attention, all MLPs, all parts."""

    says: Annotated[str, describe("What was found, and what it means for methods that read attention; or why it was not measured.")]
    parts: tuple[DepthOfPart, ...] = ()
    attention: Annotated[
        Estimate | None, describe("The rise of the loss when the attention of all blocks is replaced; null where it was not measured.")
    ] = None
    mlps: Annotated[Estimate | None, describe("The rise when all MLPs are replaced; null where it was not measured.")] = None
    together: Annotated[Estimate | None, describe("The rise when all parts are replaced; null where it was not measured.")] = None


@dataclass(frozen=True)
class HeadsOfBlock(Record, name="HeadSimilarityOfBlock"):
    """The number of a block, how many attention heads it has, and how similar their maps are."""

    block: Annotated[int, describe("Counted from 0.")]
    heads: int
    similarity: Annotated[Estimate | None, describe("The correlation of two heads' weights of one query, mean; null for one head.")]


@dataclass(frozen=True)
class HeadsFinding(Record):
    """The similarity of the attention heads of each block, and a sentence on how alike they are.

    blocks  one entry for each block; empty if the heads were not measured, and then ``says`` gives the reason
    """

    says: Annotated[str, describe("What was found, and what it means for methods that read attention; or why it was not measured.")]
    blocks: tuple[HeadsOfBlock, ...] = ()


@dataclass(frozen=True)
class ReadingFinding(Record):
    """The share of answers that stay the same when no patch or word may read another, the share by chance, and a sentence on both."""

    says: Annotated[str, describe("What was found, and what it means for methods that read attention; or why it was not measured.")]
    stay: Annotated[Estimate | None, describe("The share of inputs whose answer stays; null where it was not measured.")] = None
    chance: Annotated[float | None, describe("The share of the inputs' most frequent answer, which one that reads nothing would keep.")] = (
        None
    )


@dataclass(frozen=True)
class AgreementFinding(Record):
    """The rank correlation between the maps of methods that belong to different families, the specs of the compared methods, and a sentence
    on the result.
    """

    says: Annotated[str, describe("What was found, and what it means for methods that read attention; or why it was not measured.")]
    methods: Annotated[tuple[str, ...], describe("Specs of the methods that were compared.")] = ()
    correlation: Annotated[
        Estimate | None, describe("The rank correlation of two maps, the median over pairs; null where it was not measured.")
    ] = None


@dataclass(frozen=True)
class Depth(Record):
    """The findings on how much of a model's work its Transformer does, measured on the inputs that were sent: on its parts, its heads,
    reading between tokens, and the agreement of methods.

    inputs  number of measured inputs
    right   what the loss is of: the model's own answers, or the labels that were sent
    notes   sentences for a person, such as on inputs that were left out
    """

    model: str
    inputs: Annotated[int, describe("How many inputs were measured.")]
    right: Annotated[
        Literal["own answers", "labels"], describe("What the loss is of: the model's own answers, or the labels that were sent.")
    ]
    parts: PartsFinding
    heads: HeadsFinding
    reading: ReadingFinding
    agreement: AgreementFinding
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = "own answers" if self.right == "own answers" else "right answers"
        lines = [f"{self.model} on {self.inputs} inputs; loss: minus the logarithm of the probability of its {what}, in nats"]
        if self.parts.parts:
            rows = [("without", "loss rises by", "95 % interval", "")]
            rows += [_row(part.name, part.rise, VERDICT_WORDS[part.verdict]) for part in self.parts.parts]
            sums = (("all attention", self.parts.attention), ("all MLPs", self.parts.mlps), ("all parts", self.parts.together))
            rows += [_row(name, rise, "") for name, rise in sums if rise is not None]
            lines += ["", *align(rows, left=(0, 3))]
        if self.heads.blocks:
            rows = [("heads of", "correlation", "95 % interval", "")]
            rows += [_row(f"block {each.block + 1}", each.similarity, "") for each in self.heads.blocks if each.similarity is not None]
            lines += ["", *align(rows, left=(0, 3))]
        says = (self.parts.says, self.heads.says, self.reading.says, self.agreement.says)
        return "\n".join([*lines, "", *says, *(f"note: {note}" for note in self.notes)])

    def save(self, path: Path | str) -> None:
        """Write the numbers to the file ``path``, which ends in ``.json``. Raises ExplainerError for any other ending of the name."""
        path = Path(path)
        if path.suffix != ".json":
            raise ExplainerError(f"{path} cannot be saved with this ending: end it in .json")
        path.write_text(json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")

    def _repr_html_(self) -> str:
        """Return the tables and sentences as HTML: what a notebook shows."""
        from explainers.rendering.notebook import text_html

        return text_html(str(self))


def _row(name: str, estimate: Estimate, verdict: str) -> tuple[str, str, str, str]:
    return name, f"{estimate.value:+.3f}", f"{estimate.low:+.3f} to {estimate.high:+.3f}", verdict
