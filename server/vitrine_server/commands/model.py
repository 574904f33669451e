"""Options of commands that name a model and say how to open it, and the model opened by them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError
from vitrine_server.commands.progress import Loading

if TYPE_CHECKING:
    from explainers.models.model import Model

#: Options for opening files and folders, each under the name of its argument of ``explainers.open``.
OPEN_OPTIONS = {
    "architecture": ("NAME", "of a file of weights: timm/<name>, hf/<organisation>/<name>, openclip/<model>, torchvision/<name>, a folder"),
    "labels": (
        "NAMES",
        "names of the classes, in the order of the logits, with commas; or a .txt with a name a line, a .csv or a .json",
    ),
    "base": ("NAME", "of a folder with an adapter, its base model, where what it names is not found"),
    "tokenizer": ("NAME", "where the model's own folder has none, a folder or hf/<organisation>/<name> that has"),
    "preprocess": ("NAME", "how pictures are prepared, if it cannot be told from the files"),
}


def add_model(parser: argparse.ArgumentParser, about: str, default: str | None = None) -> None:
    """Add the option ``--model``, with ``about`` as its help, and those of :data:`OPEN_OPTIONS` to ``parser``."""
    parser.add_argument("--model", metavar="NAME", default=default, help=f"{about}; also a folder, or a file of weights")
    add_open_options(parser)


def add_open_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of :data:`OPEN_OPTIONS` and ``--dtype``, which determine how a model is opened, to ``parser``."""
    options = parser.add_argument_group("a model of your own")
    for name, (metavar, text) in OPEN_OPTIONS.items():
        options.add_argument(f"--{name}", metavar=metavar, help=text)
    options.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="type in which its weights are loaded: bfloat16 or float16 takes half the memory, and maps have two or three digits (default "
        "float32)",
    )


def open_options_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of :data:`OPEN_OPTIONS` that were given, and the type of the weights, as arguments of ``explainers.open``."""
    given = {name: value for name in OPEN_OPTIONS if (value := getattr(args, name, None)) is not None}
    if "," in given.get("labels", "") and not Path(given["labels"]).expanduser().exists():
        given["labels"] = [name.strip() for name in given["labels"].split(",")]
    if (dtype := getattr(args, "dtype", None)) is not None:
        from explainers.models.loading import DTYPES_BY_NAME

        given["dtype"] = DTYPES_BY_NAME[dtype]
    return given


def check_engine(args: argparse.Namespace) -> None:
    """Raise CommandError if ``args`` name an engine of other machines together with options that open a model in another way than by its
    name.
    """
    if args.engine != "local" and (given := open_options_of(args)):
        raise CommandError(f"--engine {args.engine} opens the model by its name alone: save it as a folder, without --{', --'.join(given)}")


def open_model(args: argparse.Namespace, name: str | list[str], device: str | None = None, check: str | None = None, **how: Any) -> Model:
    """Open the model ``name`` on ``device``, as the options in ``args`` (the command line) say, with a progress bar, and return it; the
    number of threads of this process is chosen for it. A model that does not ship is checked, at the level ``check`` if given; failed
    checks are noted in the report and with its maps.
    """
    import explainers
    from explainers.models.catalogue import embedded_names
    from explainers.self_check.opening import check_model

    threads = explainers.Threads()
    with Loading() as loading:
        model = explainers.open(name, device=device, progress=loading, check="none", **open_options_of(args), **how)
        threads.fit(model)  # before it is checked: next to busy processes that takes a tenth of the time
        level = check or ("none" if name in embedded_names() else "quick")
        if level != "none":
            loading(f"checking {model.name}", None)
            model = check_model(model, every=level == "all")
    return model


def default_model(is_image: bool, prompt: object, is_molecule: bool = False) -> str:
    """Return the name of the embedded model for a picture (``is_image``), a picture with a ``prompt``, a molecule or a text; for pictures
    the one that knows photos, which the pages use first too.
    """
    if is_molecule:
        return "molecules"
    if not is_image:
        return "reviews-bert"
    if prompt:
        return "clip"
    from explainers.models.catalogue import photos_model

    return photos_model()
