"""Bars on stderr where something takes time; nothing at all where stderr is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tqdm import tqdm

if TYPE_CHECKING:
    from explainers import Attribution, Explanation


class Bar:
    """A progress bar on stderr, with ``total`` steps and the format ``form``, that disappears when it is done; nothing is shown if stderr
    is no terminal.
    """

    def __init__(self, total: float, form: str | None = None) -> None:
        self.bar = tqdm(total=total, unit="map", bar_format=form, leave=False, disable=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


class Loading(Bar):
    """The progress bar while a model is opened; call it with a text and the fraction done."""

    def __init__(self) -> None:
        super().__init__(1.0, "{desc} {percentage:3.0f}%|{bar}| {elapsed}")

    def __call__(self, text: str, fraction: float | None) -> None:
        """Show ``text`` and the fraction that is done (None: unknown)."""
        self.bar.set_description_str(text, refresh=False)
        self.bar.n = fraction or 0.0
        self.bar.refresh()


class Passes(Bar):
    """The progress bar of work on ``target`` that asks the model many inputs; call it with the numbers done and in total."""

    def __init__(self, target: str) -> None:
        super().__init__(0, "{desc}: asked {n_fmt} of {total_fmt} |{bar}| {remaining}")
        self.bar.set_description(target[:40])

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` inputs are answered."""
        self.bar.total, self.bar.n = total, done
        self.bar.refresh()


class InputsBar(Bar):
    """The progress bar of a run over many inputs, under the text ``description``; call it with the numbers done and in total. The time left
    is that of the inputs which this run still has to do, without those that an earlier one did.
    """

    def __init__(self, description: str) -> None:
        self.bar = tqdm(desc=description, unit="input", leave=False, disable=None)

    def __call__(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` inputs are done."""
        if not self.bar.disable and self.bar.total is None:
            self.bar.reset(total)
            self.bar.initial = done
        self.bar.n = done
        self.bar.refresh()


class MapsBar(Bar):
    """The progress bar of ``explain``, an observer that advances by one step for each map."""

    def __init__(self) -> None:
        super().__init__(0)

    def on_prediction(self, explanation: Explanation) -> None:
        """Show the targets of ``explanation``, and set the bar's total to its number of maps."""
        self.bar.total = len(explanation.methods) * len(explanation.targets)
        self.bar.set_description(", ".join(target.label for target in explanation.targets)[:40])

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """Advance the bar by one map, whatever map it is."""
        self.bar.update()
