"""The model that a command asks: how it is named on the command line, and how it is opened."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from server.commands.progress import Loading

if TYPE_CHECKING:
    from explainers.models.model import Model

#: The options that say how what is no name of a model is opened, by the argument of ``explainers.open``.
WAYS = {
    "architecture": ("NAME", "of a file of weights: timm/<name>, hf/<organisation>/<name>, openclip/<model>, torchvision/<name>, a folder"),
    "labels": ("FILE", "names of the classes, in the order of the logits: a .txt with a name a line, a .csv or a .json"),
    "base": ("NAME", "of a folder with an adapter, its base model, where what it names is not found"),
    "tokenizer": ("NAME", "where the model's own folder has none, a folder or hf/<organisation>/<name> that has"),
    "preprocess": ("NAME", "likewise, of how pictures are prepared"),
}


def add_model(parser: argparse.ArgumentParser, about: str, default: str | None = None) -> None:
    """Declare ``--model``, and how what it names is opened."""
    parser.add_argument("--model", metavar="NAME", default=default, help=f"{about}; also a folder, or a file of weights")
    add_ways(parser)


def add_ways(parser: argparse.ArgumentParser) -> None:
    """Declare the options of :data:`WAYS`."""
    ways = parser.add_argument_group("a model of your own")
    for name, (metavar, text) in WAYS.items():
        ways.add_argument(f"--{name}", metavar=metavar, help=text)


def ways_of(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``explainers.open`` that the options give."""
    return {name: value for name in WAYS if (value := getattr(args, name, None)) is not None}


def opened(args: argparse.Namespace, name: str | list[str], device: str | None = None, check: str | None = None, **how: Any) -> Model:
    """The model called ``name``, its loading shown, and the threads of this process fitted to it. One that does not ship inside is checked,
    or as ``check`` says; what fails is said with its maps.
    """
    import explainers
    from explainers.models.catalogue import embedded_names
    from explainers.self_check.opening import check_model

    threads = explainers.Threads()
    with Loading() as loading:
        model = explainers.open(name, device=device, progress=loading, check="none", **ways_of(args), **how)
        threads.fit(model)  # before it is checked: beside busy neighbours that takes a tenth of the time
        level = check or ("none" if name in embedded_names() else "quick")
        if level != "none":
            loading(f"checking {model.name}", None)
            model = check_model(model, every=level == "all")
    return model
