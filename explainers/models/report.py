"""Report on an opened model: what it is, how its output is read, what was guessed, and which checks it passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Annotated, Literal

from explainers.json_records import HIDDEN, Record, describe

CheckState = Literal["passed", "failed", "not asked"]
_MARKS: dict[CheckState, str] = {"passed": "ok", "failed": "FAILED", "not asked": "-"}


@dataclass(frozen=True)
class Fact(Record, name="ReportFact"):
    """A fact that was found about a model: a name such as ``blocks`` and a text such as ``12 in blocks``.

    typed  what to type for it, in Python and in a command, where that is not plain: the printed report says it, and no page does
    """

    name: str
    value: str
    typed: Annotated[str, HIDDEN] = ""

    def __str__(self) -> str:
        return f"{self.value}: {self.typed}" if self.typed else self.value


@dataclass(frozen=True)
class Guess(Record, name="ReportGuess"):
    """A value that was guessed, why, and the argument that overrides it.

    what  the value, in words, such as "the classes are numbered"
    """

    what: str
    why: Annotated[str, describe("Why this value was taken.")]
    argument: Annotated[str, describe("The argument of ``open`` that overrides it.")]

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. To say otherwise: {self.argument}"


@dataclass(frozen=True)
class Check(Record, name="ReportCheck"):
    """One check of a model on a sample: its name and title, whether it passed, and the details.

    state   "passed", "failed", or "not asked" if the check does not apply
    detail  its numbers, or why it was not asked
    """

    name: str
    title: str
    state: CheckState
    detail: Annotated[str, describe("Its numbers, or why it was not asked.")]

    def __str__(self) -> str:
        return f"{self.title}: {_MARKS[self.state]} ({self.detail})"


@dataclass(frozen=True)
class Report(Record, name="ModelReport"):
    """The report on an opened model: what it was opened from, the facts found about it, how its output is read, what was guessed, notes,
    and the checks.
    """

    name: Annotated[str, describe("The name of the model.")]
    opened: Annotated[str, describe("What it was made of, such as the weights of a file in an architecture of timm.")]
    facts: Annotated[tuple[Fact, ...], describe("What it is: family, blocks, tokens, inputs, outputs, labels.")]
    reading: Annotated[str, describe("How its output is read, and why.")]
    guesses: Annotated[tuple[Guess, ...], describe("What was guessed.")] = ()
    notes: Annotated[tuple[str, ...], describe("What was done to it: weights cast, tensors left out.")] = ()
    checks: Annotated[tuple[Check, ...], describe("The checks of ``explainers.open``, on a sample of its own.")] = ()
    seconds: Annotated[float, describe("How long the checks took.")] = 0.0

    def with_checks(self, checks: Sequence[Check], seconds: float) -> Report:
        """Return the report with these ``checks`` and the ``seconds`` that they took."""
        return replace(self, checks=tuple(checks), seconds=seconds)

    def checked(self, checks: Sequence[Check], seconds: float) -> Report:
        """Return what :meth:`with_checks` returns for ``checks`` and ``seconds``: its name in version 0.2."""
        return self.with_checks(checks, seconds)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.state == "failed")

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each check that failed, for the notes of every explanation by the model."""
        return tuple(f"When {self.name} was opened, a check failed. {check.title}: {check.detail}" for check in self.failures)

    def __str__(self) -> str:
        width = max((len(fact.name) for fact in self.facts), default=0)
        lines = [self.name, f"opened from {self.opened}", ""]
        lines += [f"  {fact.name:{width}}  {fact}" for fact in self.facts]
        lines += ["", f"Its output: {self.reading}"]
        if self.guesses:
            lines += ["", "Guessed:", *(f"  {guess}" for guess in self.guesses)]
        if self.notes:
            lines += ["", *self.notes]
        if self.checks:
            lines += ["", f"Checks, in {self.seconds:.1f} s:"]
            lines += [f"  {_MARKS[check.state]:6}  {check.title}: {check.detail}" for check in self.checks]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the report as it is printed: what a notebook shows."""
        return f"<pre>{escape(str(self))}</pre>"
