"""Model files from the hub or its local cache: never a hang, and a clear message within seconds when there is no network."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tqdm.auto import tqdm

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object

#: A function that is told about a download: a text for people, and the finished fraction (None while unknown).
DownloadProgress = Callable[[str, float | None], None]

#: Seconds for the hub's first answer. Its client alone would wait and try again for about a minute.
PATIENCE_SECONDS = 4.0
#: Files of more bytes are worth going on with where a download of them broke off.
LARGE_BYTES = 10_000_000
#: Bytes that a download leaves free on the disk.
SPARE_BYTES = 100_000_000
#: The files that hold the weights of a saved model, or name those that do: the first of them that is there counts.
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_OFFLINE = "{} is not on this machine, and offline mode is on (HF_HUB_OFFLINE): unset it, or choose a model that is there"
_BROKE_OFF = "the download of {} broke off: {}; try again, what is there is kept"
_SIDE_FILES = (".json", ".txt", ".model", ".jinja", "README.md")


def fetch(repository: str, progress: DownloadProgress | None = None, revision: str | None = None) -> Path:
    """Return the folder with the files of ``repository`` ("org/name"), at the commit ``revision`` (None: the newest): from the local cache
    if it is there, else downloaded into it. A download that broke off before goes on where it stopped. ``progress``, unless None, is called
    while files are downloaded.

    Raises ExplainerError if there is no such repository, no access to it, no room for it on the disk, or no network (within about
    PATIENCE_SECONDS), and in offline mode if it is not cached.
    """
    folder = find_cached(repository, revision)
    if folder is not None:
        return folder
    return _download(repository, progress, revision)


def find_cached(repository: str, revision: str | None = None) -> Path | None:
    """Return the folder of ``repository`` in the local cache, at the commit ``revision`` (None: the newest that was downloaded); None
    unless its configuration and all of its weights are there.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(repository, "config.json", revision=revision)
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
    """Return the path of one file of ``repository``, the first of ``names`` that it has, from the local cache or downloaded. ``progress``
    is called, and errors are raised, as by :func:`fetch`.
    """
    from huggingface_hub import constants, hf_hub_download

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
    with _download_errors(repository):
        return Path(hf_hub_download(repository, wanted, tqdm_class=_bar(tell, repository, sizes[wanted])))


def fetch_config(repository: str, progress: DownloadProgress | None = None) -> Path:
    """Download the small files of a ``repository``, not its weights, unless they are in the local cache, and return the folder with its
    ``config.json``. ``progress`` is called, and errors are raised, as by :func:`fetch`.
    """
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

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
    with _download_errors(repository):
        paths = {name: hf_hub_download(repository, name, tqdm_class=bar) for name in side}
    return Path(paths["config.json"]).parent


def missing_weights(folder: Path) -> list[str]:
    """Return the names of the weight files that ``folder`` lacks, the shards that an index names included; an empty list if it lacks none.
    Raises ExplainerError for an index that cannot be used.
    """
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


def _download(repository: str, progress: DownloadProgress | None, revision: str | None) -> Path:
    from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

    if constants.is_offline_mode():
        raise ExplainerError(_OFFLINE.format(repository))
    tell = progress or (lambda text, fraction: None)
    tell(f"asking the hub for {repository}", None)
    sizes = _listing(repository, revision)
    wanted = _files_to_download(sizes)
    if not any(name in wanted for name in WEIGHTS):
        raise ExplainerError(f"{repository} holds no weights that can be read here (safetensors or PyTorch); send another model")
    kept = sum(sizes[name] for name in wanted if isinstance(try_to_load_from_cache(repository, name, revision=revision), str))
    total = sum(sizes[name] for name in wanted)
    _check_room(repository, total - kept)
    bar = _bar(tell, repository, total, kept)
    with _download_errors(repository):
        for name in wanted:
            if sizes[name] > LARGE_BYTES:
                _download_blob(repository, name, revision, bar)
        for name in wanted:  # by branch where no commit is given: only then does the cache know where it points
            path = str(hf_hub_download(repository, name, revision=revision, tqdm_class=bar))
            if name == "config.json":
                folder = Path(path).parent
    return folder


@contextmanager
def _download_errors(repository: str) -> Iterator[None]:
    """Raise ExplainerError in place of any exception that is raised inside this context, in which files of ``repository`` ("org/name") are
    downloaded; its message names the repository and the original error.
    """
    try:
        yield
    except Exception as problem:
        raise ExplainerError(_BROKE_OFF.format(repository, problem)) from problem


def _download_blob(repository: str, name: str, revision: str | None, bar: type[tqdm[Any]]) -> None:
    """Download one file of ``repository`` into the blobs of the cache, where ``hf_hub_download`` finds it. What an earlier attempt left of
    it is kept: the hub's client alone begins again with every call.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get, repo_folder_name
    from huggingface_hub.utils._fixes import WeakFileLock
    from huggingface_hub.utils._headers import build_hf_headers

    url, headers = hf_hub_url(repository, name, revision=revision), build_hf_headers()
    metadata = get_hf_file_metadata(url, headers=headers)
    folder = repo_folder_name(repo_id=repository, repo_type="model")
    blob = Path(constants.HF_HUB_CACHE, folder, "blobs", str(metadata.etag))
    lock = Path(constants.HF_HUB_CACHE, ".locks", folder, f"{metadata.etag}.lock")
    for place in (blob, lock):
        place.parent.mkdir(parents=True, exist_ok=True)
    if urlsplit(metadata.location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # a token is for the hub alone
    with WeakFileLock(lock):
        if blob.exists():
            return
        partial = blob.with_name(f"{blob.name}.incomplete")
        with partial.open("ab") as file:
            http_get(metadata.location, file, resume_size=file.tell(), headers=headers, expected_size=metadata.size, tqdm_class=bar)
        partial.replace(blob)


def _check_room(repository: str, needed: int) -> None:
    """Raise ExplainerError unless the disk with the local cache has room for ``needed`` bytes of ``repository``, less those of them that a
    download left there when it broke off.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    cache = Path(constants.HF_HUB_CACHE)
    begun = (cache / repo_folder_name(repo_id=repository, repo_type="model") / "blobs").glob("*.incomplete")
    needed -= sum(file.stat().st_size for file in begun)
    free = shutil.disk_usage(next(place for place in (cache, *cache.absolute().parents) if place.exists())).free
    if needed + SPARE_BYTES > free:
        raise ExplainerError(
            f"{repository} needs {needed / 1e6:,.0f} MB, and {free / 1e6:,.0f} MB are free on the disk where downloads are kept; "
            "make room there, or name a folder on another disk with HF_HOME"
        )


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


def _listing(repository: str, revision: str | None = None) -> dict[str, int]:
    """Ask the hub for the files of ``repository``, at the commit ``revision`` (None: the newest), and return their sizes in bytes, by name.
    Raises ExplainerError if there is no such repository or no answer within ``PATIENCE_SECONDS``.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    answer: list[Any] = []

    def ask() -> None:
        try:
            answer.append(HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=PATIENCE_SECONDS))
        except Exception as problem:  # told to the caller, in whose thread it is sorted out
            answer.append(problem)

    thread = threading.Thread(target=ask, name="hub-listing", daemon=True)  # a name look-up cannot be interrupted; it dies by itself
    thread.start()
    thread.join(PATIENCE_SECONDS)
    listing = answer[0] if answer else TimeoutError(f"no answer within {PATIENCE_SECONDS:g} seconds")
    if isinstance(listing, GatedRepoError):
        raise ExplainerError(f"{repository} is only given to those who accept its terms: do so on its page, then `hf auth login`")
    if isinstance(listing, RevisionNotFoundError):
        raise ExplainerError(f"the hub no longer has the commit {revision} of {repository}; choose another model")
    if isinstance(listing, RepositoryNotFoundError):
        raise ExplainerError(f"the hub has no model {repository!r} (or it is private); check the spelling")
    if isinstance(listing, Exception):
        raise ExplainerError(
            f"{repository} is not in the local cache and {constants.ENDPOINT} cannot be reached ({type(listing).__name__}: {listing}); "
            "check the network, or choose a model that ships with Vitrine"
        ) from listing
    return {file.rfilename: file.size or 0 for file in listing.siblings or ()}


def _bar(tell: DownloadProgress, repository: str, total: int, kept: int = 0) -> type[tqdm[Any]]:
    """Return a class of progress bars that report to ``tell``, with the name of ``repository``, the bytes on the disk so far of all files,
    out of ``total``, instead of to the terminal; ``kept`` bytes were there before.
    """
    done = kept

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            nonlocal done
            kwargs.pop("name", None)  # an argument of the hub's own bars
            done += int(kwargs.get("initial") or 0)  # of a download that broke off
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done
            done += int(n or 0)
            tell(f"downloading {repository}: {_megabytes(min(done, total), total)}", min(1.0, done / total) if total else None)
            return None

    return Bar


def _megabytes(done: int, total: int) -> str:
    """Return how many megabytes are there, in words: "12 of 346 MB"."""
    digits = 0 if total >= 1e7 else 2
    return f"{done / 1e6:.{digits}f} of {total / 1e6:.{digits}f} MB"
