"""Model files from the hub or its local cache: never a hang, and a clear message within seconds when there is no network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object

#: A function that is told about a download: a text for people, and the finished fraction (None while unknown).
DownloadProgress = Callable[[str, float | None], None]

#: Seconds for the hub's first answer. Its client alone would wait and try again for about a minute.
PATIENCE_SECONDS = 4.0
#: The files that hold the weights of a saved model, or name those that do: the first of them that is there counts.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_OFFLINE = "{} is not in the local cache and offline mode is on (HF_HUB_OFFLINE): unset it, or choose a model that is there"
_BROKE_OFF = "the download of {} broke off: {}; try again, what is there is kept"
_SIDE_FILES = (".json", ".txt", ".model", ".jinja", "README.md")


def fetch(repository: str, progress: DownloadProgress | None = None) -> Path:
    """Return the folder with the files of ``repository`` ("org/name"): from the local cache if it is there, else downloaded into it.

    Raises ExplainerError if there is no such repository, no access to it, or no network (within about PATIENCE_SECONDS), and in offline
    mode if it is not cached.
    """
    folder = find_cached(repository)
    if folder is not None:
        return folder
    return _download(repository, progress)


def find_cached(repository: str) -> Path | None:
    """Return the folder of ``repository`` in the local cache; None unless its configuration and all of its weights are there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(repository, "config.json")
    except HFValidationError:
        raise ExplainerError(f"{repository!r} is not the name of a model on the hub; send hf/<organisation>/<name>") from None
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if not missing_weights(folder) else None


def find_cached_file(repository: str, names: Sequence[str]) -> Path | None:
    """Return the path of the first of ``names`` that the local cache has of ``repository``; None if it has none of them."""
    from huggingface_hub import try_to_load_from_cache

    paths = (try_to_load_from_cache(repository, name) for name in names)
    return next((Path(path) for path in paths if isinstance(path, str)), None)


def fetch_one(repository: str, names: Sequence[str], progress: DownloadProgress | None = None) -> Path:
    """Return the path of one file of ``repository``, the first of ``names`` that it has, from the local cache or downloaded. Raises as
    :func:`fetch` does.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    if (cached := find_cached_file(repository, names)) is not None:
        return cached
    if constants.is_offline_mode():
        raise ExplainerError(_OFFLINE.format(repository))
    tell = progress or (lambda text, fraction: None)
    tell(f"asking the hub for {repository}", None)
    sizes = _listing(repository)
    wanted = next((name for name in names if name in sizes), None)
    if wanted is None:
        raise ExplainerError(f"{repository} holds none of {', '.join(names)}; send another model")
    try:
        return Path(hf_hub_download(repository, wanted, tqdm_class=_bar(tell, repository, sizes[wanted])))
    except (HfHubHTTPError, OSError, RuntimeError) as problem:
        raise ExplainerError(_BROKE_OFF.format(repository, problem)) from problem


def fetch_config(repository: str, progress: DownloadProgress | None = None) -> Path:
    """Download a ``repository`` without its weights, and return the folder with its ``config.json``. Raises as :func:`fetch` does."""
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        config = try_to_load_from_cache(repository, "config.json")
    except HFValidationError:
        raise ExplainerError(f"{repository!r} is not the name of a model on the hub; send hf/<organisation>/<name>") from None
    if isinstance(config, str):
        return Path(config).parent
    if constants.is_offline_mode():
        raise ExplainerError(_OFFLINE.format(repository))
    tell = progress or (lambda text, fraction: None)
    tell(f"asking the hub for {repository}", None)
    sizes = _listing(repository)
    side = [name for name in sizes if "/" not in name and name.endswith(_SIDE_FILES) and name not in WEIGHTS]
    if "config.json" not in side:
        raise ExplainerError(f"{repository} holds no config.json; send another model")
    bar = _bar(tell, repository, sum(sizes[name] for name in side))
    try:
        paths = {name: hf_hub_download(repository, name, tqdm_class=bar) for name in side}
    except (HfHubHTTPError, OSError, RuntimeError) as problem:
        raise ExplainerError(_BROKE_OFF.format(repository, problem)) from problem
    return Path(paths["config.json"]).parent


def missing_weights(folder: Path) -> list[str]:
    """Return names of the weight files that ``folder`` lacks, the shards that an index names included."""
    present = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if present is None:
        return ["model.safetensors"]
    if present.suffix != ".json":
        return []
    shards = read_json_object(present).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise ExplainerError(f"{present} has no weight_map that names a file for each weight; save the model again")
    shards = sorted(set(shards.values()))
    return [shard for shard in shards if not (folder / shard).is_file()]


def _download(repository: str, progress: DownloadProgress | None) -> Path:
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    if constants.is_offline_mode():
        raise ExplainerError(_OFFLINE.format(repository))
    tell = progress or (lambda text, fraction: None)
    tell(f"asking the hub for {repository}", None)
    sizes = _listing(repository)
    wanted = _files_to_download(sizes)
    if not any(name in wanted for name in WEIGHTS):
        raise ExplainerError(f"{repository} holds no weights that can be read here (safetensors or PyTorch); send another model")
    bar = _bar(tell, repository, sum(sizes[name] for name in wanted))
    path = ""
    try:
        for name in wanted:
            path = str(hf_hub_download(repository, name, tqdm_class=bar))  # by branch: only then does the cache know where it points
            if name == "config.json":
                folder = Path(path).parent
    except (HfHubHTTPError, OSError, RuntimeError) as problem:
        raise ExplainerError(_BROKE_OFF.format(repository, problem)) from problem
    return folder


def _files_to_download(sizes: dict[str, int]) -> list[str]:
    """Return the names of those files in ``sizes`` (a repository's files, with their bytes) that are downloaded: the small files of the top
    folder, then the weights in the best available format.
    """
    top = [name for name in sizes if "/" not in name]
    index_or_weights = next((name for name in WEIGHTS if name in top), None)
    side = [name for name in top if name.endswith(_SIDE_FILES) and name not in WEIGHTS]
    if index_or_weights is None or "config.json" not in top:
        return side
    stem, ending = index_or_weights.removesuffix(".index.json").rsplit(".", 1)
    shards = [name for name in top if name.startswith(f"{stem}-") and name.endswith(f".{ending}")]
    return [*side, *([index_or_weights, *shards] if index_or_weights.endswith(".json") else [index_or_weights])]


def _listing(repository: str) -> dict[str, int]:
    """Ask the hub for the files of ``repository`` and return their sizes in bytes, by name. Raises ExplainerError if there is no such
    repository or no answer within ``PATIENCE_SECONDS``.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.append(HfApi().model_info(repository, files_metadata=True, timeout=PATIENCE_SECONDS))
        except Exception as problem:  # told to the caller, in whose thread it is sorted out
            answer.append(problem)

    thread = threading.Thread(target=ask, name="hub-listing", daemon=True)  # a name look-up cannot be interrupted; it dies by itself
    thread.start()
    thread.join(PATIENCE_SECONDS)
    listing = answer[0] if answer else TimeoutError(f"no answer within {PATIENCE_SECONDS:g} seconds")
    if isinstance(listing, GatedRepoError):
        raise ExplainerError(f"{repository} is only given to those who accept its terms: do so on its page, then `hf auth login`")
    if isinstance(listing, RepositoryNotFoundError):
        raise ExplainerError(f"the hub has no model {repository!r} (or it is private); check the spelling")
    if isinstance(listing, Exception):
        raise ExplainerError(
            f"{repository} is not in the local cache and {constants.ENDPOINT} cannot be reached ({type(listing).__name__}: {listing}); "
            "check the network, or choose a model that ships with Vitrine"
        ) from listing
    return {file.rfilename: file.size or 0 for file in listing.siblings or ()}


def _bar(tell: DownloadProgress, repository: str, total: int) -> type[tqdm[Any]]:
    """Return a class of progress bars that report the bytes downloaded so far of all files, as a share of ``total``, to ``tell``, with the
    name of ``repository``, instead of to the terminal.
    """
    done = 0

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)  # an argument of the hub's own bars
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done
            done += int(n or 0)
            tell(f"downloading {repository}", min(1.0, done / total) if total else None)
            return None

    return Bar
