"""What is said of a model when it is opened: what it is, how its output is read, what was guessed, and which checks it passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

CheckState = Literal["passed", "failed", "not asked"]
_MARKS: dict[CheckState, str] = {"passed": "ok", "failed": "FAILED", "not asked": "-"}


@dataclass(frozen=True)
class Fact:
    """Something that was found, such as ``blocks``: ``12 in blocks``."""

    name: str
    value: str


@dataclass(frozen=True)
class Guess:
    """Something that nobody said. ``why`` it was taken, and the ``argument`` of ``open`` that says otherwise."""

    what: str
    why: str
    argument: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. To say otherwise: {self.argument}"


@dataclass(frozen=True)
class Check:
    """One check of a model on a sample. ``detail`` has its numbers, or why it was not asked."""

    name: str
    title: str
    state: CheckState
    detail: str

    def __str__(self) -> str:
        return f"{self.title}: {_MARKS[self.state]} ({self.detail})"


@dataclass(frozen=True)
class Report:
    """What is known of an opened model.

    name     of the model
    opened   what it was made of, such as "the weights under 'model' of a file, in timm/deit_tiny_patch16_224"
    facts    what it is: family, blocks, tokens, inputs, outputs, labels
    reading  how its output is read, and why
    guesses  what was guessed, each with the argument that says otherwise
    notes    what was done to it: weights cast, tensors left out
    checks   of :func:`explainers.open`, on a sample of its own
    seconds  that the checks took
    """

    name: str
    opened: str
    facts: tuple[Fact, ...]
    reading: str
    guesses: tuple[Guess, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    seconds: float = 0.0

    def checked(self, checks: Sequence[Check], seconds: float) -> Report:
        """The same with these checks."""
        return replace(self, checks=tuple(checks), seconds=seconds)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.state == "failed")

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each check that failed: every explanation of the model says them."""
        return tuple(f"When {self.name} was opened, a check failed. {check.title}: {check.detail}" for check in self.failures)

    def __str__(self) -> str:
        width = max((len(fact.name) for fact in self.facts), default=0)
        lines = [self.name, f"opened from {self.opened}", ""]
        lines += [f"  {fact.name:{width}}  {fact.value}" for fact in self.facts]
        lines += ["", f"Its output: {self.reading}"]
        if self.guesses:
            lines += ["", "Guessed:", *(f"  {guess}" for guess in self.guesses)]
        if self.notes:
            lines += ["", *self.notes]
        if self.checks:
            lines += ["", f"Checks, in {self.seconds:.1f} s:"]
            lines += [f"  {_MARKS[check.state]:6}  {check.title}: {check.detail}" for check in self.checks]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name,
            "opened": self.opened,
            "facts": [vars(fact) for fact in self.facts],
            "reading": self.reading,
            "guesses": [vars(guess) for guess in self.guesses],
            "notes": list(self.notes),
            "checks": [vars(check) for check in self.checks],
            "seconds": self.seconds,
        }

    def _repr_html_(self) -> str:
        """The report as it is printed: what a notebook shows."""
        return f"<pre>{escape(str(self))}</pre>"
