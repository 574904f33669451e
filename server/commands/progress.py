"""Bars on stderr where something takes time; nothing at all where stderr is no terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tqdm import tqdm

if TYPE_CHECKING:
    from explainers import Attribution, Explanation


class Bar:
    """A bar that goes away when it is done."""

    def __init__(self, total: float, form: str | None = None) -> None:
        self.bar = tqdm(total=total, unit="map", bar_format=form, leave=False, disable=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


class Loading(Bar):
    """What ``load`` tells as it goes."""

    def __init__(self) -> None:
        super().__init__(1.0, "{desc} {percentage:3.0f}%|{bar}| {elapsed}")

    def __call__(self, text: str, fraction: float | None) -> None:
        """Show ``text`` and how much is done."""
        self.bar.set_description_str(text, refresh=False)
        self.bar.n = fraction or 0.0
        self.bar.refresh()


class Passes(Bar):
    """What the deletion test tells as it goes: how many inputs of how many the model has answered."""

    def __init__(self, target: str) -> None:
        super().__init__(0, "{desc}: asked {n_fmt} of {total_fmt} |{bar}| {remaining}")
        self.bar.set_description(target[:40])

    def __call__(self, done: int, total: int) -> None:
        """So many are answered."""
        self.bar.total, self.bar.n = total, done
        self.bar.refresh()


class MapsBar(Bar):
    """An observer of ``explain``: one step a map."""

    def __init__(self) -> None:
        super().__init__(0)

    def on_prediction(self, explanation: Explanation) -> None:
        """Name what is being explained, and how many maps there will be."""
        self.bar.total = len(explanation.methods) * len(explanation.targets)
        self.bar.set_description(", ".join(target.label for target in explanation.targets)[:40])

    def on_map(self, explanation: Explanation, attribution: Attribution) -> None:
        """Move on by one map."""
        self.bar.update()
