"""Every setting of the server, declared once: name, default and what it does. From the environment, the command line or a test."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from vitrine_server.json_text import can_be_encoded

T = TypeVar("T")
log = logging.getLogger(__name__)
PREFIX = "VITRINE_"
#: A host as browsers name it: a name or an address, IPv6 in brackets, and a port.
HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*", re.ASCII)
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.*-]+(:[0-9]+)?", re.ASCII)
_GPU = re.compile(r"cuda:[0-9]+", re.ASCII)
_POSTGRESQL = "postgresql://"
_TOKEN = re.compile(r"[!-~]{12,200}")  # as a header can carry it
_HEADER = re.compile(r"[A-Za-z0-9-]+", re.ASCII)


def _split(value: Any) -> Any:
    """Split ``value``, a text, at its commas and return the parts as a tuple, without white space at their ends and without empty ones. Of
    a list, each item is a part.
    """
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(part.strip() for part in parts if part.strip())


def _without_dot_segments(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of models with folders such as ``./mine`` and ``../mine`` written without dots, which browsers take out of the
    address of a model: relative if the folder lies below the current one and is not called as a model of the catalogue, else absolute.
    """

    def plain(name: str) -> str:
        if not {".", ".."} & set(name.split("/")):
            return name
        from explainers.models.catalogue import CATALOGUE  # imports torch, which a start without such a name need not wait for

        path = os.path.normpath(name)
        is_catalogued = any(entry.name == path for entry in CATALOGUE)
        return os.path.abspath(path) if path.startswith("..") or is_catalogued else path  # noqa: PTH100  (no link is followed)

    return tuple(plain(name) for name in names)


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
ModelNames = Annotated[Names, AfterValidator(_without_dot_segments)]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]


def _setting(default: T, text: str, minimum: float | None = None, maximum: float | None = None, *, secret: bool = False) -> T:
    """Make the field of a setting: with its ``default``, its one-line help ``text`` and its bounds ``minimum`` and ``maximum``; the value
    of a ``secret`` is not shown in messages.
    """
    return Field(default, description=text, ge=minimum, le=maximum, repr=not secret)


class Settings(BaseModel):
    """The settings of the server, which :func:`load_settings` reads: where it listens and stores, which models it offers, the limits of
    requests and of the queue, and who may use it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: str = _setting("127.0.0.1", "Address to listen on; `0.0.0.0` lets other machines in.")
    port: int = _setting(8000, "Port to listen on.", 0, 65535)
    device: str = _setting(
        "auto",
        "Where models run: `cpu`, `cuda`, `cuda:1`, ...; `auto` takes CUDA where there is one; `cuda:0,cuda:1` has a process on each GPU.",
    )
    home: Folder = Field(default_factory=lambda: platformdirs.user_data_path("vitrine"), description="Folder of the stored explanations.")
    database: str = _setting(
        "",
        "Where explanations are stored, if not in a file of `VITRINE_HOME`: a database of PostgreSQL, such as `postgresql://name:word@host/vitrine`.",
        secret=True,
    )
    engine: Literal["local", "ray"] = _setting(
        "local",
        "Where explanations are made: `local`, in processes of this machine; `ray`, on a Ray cluster, which needs VITRINE_DATABASE.",
    )
    ray_address: str = _setting(
        "", "Head of the cluster, such as `10.0.0.5:6379`; without it RAY_ADDRESS, or a cluster of this machine alone."
    )
    min_replicas: int = _setting(
        1, "Minimum number of processes of a cluster that hold models; it has more while there are more questions.", 1
    )
    max_replicas: int = _setting(1, "Maximum number of processes of a cluster that hold models.", 1)
    replica_threads: int = _setting(1, "CPUs, and threads (OMP_NUM_THREADS), of each process of a cluster that holds models.", 1)
    replica_gpus: float = _setting(0.0, "GPUs of each of these processes, such as 0.5 if two share one.", 0)
    web_replicas: int = _setting(1, "Processes of a cluster that answer requests.", 1)
    models: ModelNames = _setting((), "Models to load at the start besides the embedded ones, separated by commas.")
    architecture: str = _setting(
        "", "Architecture of files of weights among VITRINE_MODELS: `timm/<name>`, `hf/<organisation>/<name>`, `openclip/<model>`, ..."
    )
    labels: str = _setting("", "File with the names of the classes of VITRINE_MODELS: .txt, .csv or .json.")
    own_models: Literal["local", "uploads", "all", "off"] = _setting(
        "local",
        "Who may bring a model to the page *Your model*: `local`, people at this machine; `uploads`, everybody, by uploading; `all`, "
        "everybody, also by paths of this machine; `off`, nobody.",
    )
    max_model_mb: float = _setting(4000.0, "Largest model that may be uploaded, in megabytes (10^6 bytes).", 0.001)
    max_upload_mb: float = _setting(20.0, "Largest upload, in megabytes (10^6 bytes).", 0.001)
    max_megapixels: float = _setting(40.0, "Largest image, in millions of pixels.", 0.001)
    max_text_chars: int = _setting(20_000, "Longest text, in characters.", 1)
    max_methods: int = _setting(256, "Maximum number of methods in one request.", 1)
    max_targets: int = _setting(8, "Maximum number of targets or prompts in one request.", 1)
    queue_size: int = _setting(32, "Maximum number of explanations that wait; a further one is refused with status 429.", 1)
    queue_share: int = _setting(24, "Maximum number of explanations of one visitor that wait, so that others can still ask.", 1)
    workers: int = _setting(1, "Processes that hold models on the CPU, each with its own copy; a GPU has one.", 1, 64)
    job_seconds: int = _setting(900, "Seconds that one explanation or study may use its model; then it is ended.", 1)
    method_seconds: int = _setting(300, "Seconds that one method of an explanation may take; then the explanation is ended.", 1)
    silence_seconds: int = _setting(
        120, "Seconds that a model may compute without a sign of life, such as the end of a pass; then its process is restarted.", 1
    )
    grown_mb: int = _setting(
        1000, "Megabytes by which a process of models may grow after it has loaded them; past that it is restarted when idle.", 1
    )
    model_memory: float = _setting(
        0.8,
        "Share of the memory of a device, and of the machine, that loaded models may take; past that, those unused for longest make room. "
        "On a GPU it is the start: what explanations were measured to need then says how much they may take.",
        0,
        1,
    )
    pinned_models: ModelNames = _setting(
        (), "Models that never make room for others, once they are loaded, separated by commas: their names, as VITRINE_MODELS has them."
    )
    model_dtype: Literal["float32", "bfloat16", "float16"] = _setting(
        "float32",
        "Type in which the weights of models are loaded, but for the embedded ones, which stay in float32: `bfloat16` or `float16` takes "
        "half the memory, and maps have two or three digits.",
    )
    keep: int = _setting(1000, "Explanations kept in the store; the oldest are deleted.", 1)
    runs: Names = _setting(
        (), "Folders of runs of `vitrine evaluate` that the leaderboard shows next to Vitrine's own, separated by commas."
    )
    datasets: Names = _setting(
        (),
        "Data sets for runs of the page besides the embedded ones, each with its folder (or file), such as "
        "`imagenet=DIR,imagenet-s=DIR2`; `vitrine evaluate --list` has the names. Visitors see no paths.",
    )
    collections: Names = _setting(
        (),
        "Collections of `vitrine collect`, or folders of them, that the page *Collection* shows to everybody, with the pictures they were "
        "made of, separated by commas.",
    )
    max_run_inputs: int = _setting(
        2000, "Maximum number of inputs of one run that is begun on the page, and of a data set that is sent for it.", 2
    )
    max_data_mb: float = _setting(
        200.0,
        "Largest data set that is sent for a run of the page, in megabytes (10^6 bytes), packed and unpacked; texts may have "
        "at most VITRINE_MAX_UPLOAD_MB.",
        0.001,
    )
    embed: Names = _setting(
        (),
        "Sites whose pages may show finished explanations in a frame, such as `https://school.example`, separated by commas; `*` for all.",
    )
    allowed_hosts: Names = _setting(
        (),
        "Names besides its own address and `localhost` by which people reach the server, such as `vitrine.example` or "
        "`vitrine.example:8443`, separated by commas: that of a reverse proxy, or this machine's in the network. Requests by another name "
        "change nothing, and read nothing if the server listens on a loopback address.",
    )
    visitors: Literal["auto", "apart", "together"] = _setting(
        "auto",
        "`apart`: each browser and each program sees only its own explanations; `together`: all are treated as one person; `auto`: "
        "together if only this machine reaches the server (a loopback address, and no other name in VITRINE_ALLOWED_HOSTS), else apart.",
    )
    token: str = _setting(
        "",
        "A secret of 12 characters or more without which nobody gets in: for programs a bearer token, for people "
        "the password on the first page.",
        secret=True,
    )
    user_header: str = _setting(
        "", "The header in which a reverse proxy names the user, such as `X-Remote-User`; requests without it are refused."
    )
    trusted_proxies: Names = _setting(
        ("127.0.0.1", "::1"),
        "Addresses and networks of reverse proxies, separated by commas. Only their headers about the user, the client's address and "
        "TLS are trusted.",
    )
    read_only: bool = _setting(False, "Whether stored explanations can only be read: nothing is asked, changed or deleted.")
    allow_models: bool = _setting(False, "Whether people may load models of the hub if other machines can reach the server.")
    allow_runs: bool = _setting(False, "Whether people may begin and stop runs if other machines can reach the server.")
    visitor_rate: int = _setting(120, "Questions of one visitor in a minute, if visitors are apart; a further one is answered 429.", 1)
    address_rate: int = _setting(1200, "Questions from one address in a minute, if visitors are apart; a further one is answered 429.", 1)
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "The least important messages that are logged: `debug`, `info`, `warning` or `error`."
    )

    # how it is operated
    keep_days: float = _setting(0.0, "Days for which explanations are kept; 0 for no limit.", 0)
    keep_mb: float = _setting(
        0.0, "Megabytes (10^6 bytes) that explanations may take on disk; beyond that the oldest are deleted; 0 for no limit.", 0
    )
    log_format: Literal["lines", "json"] = _setting(
        "lines", "How the log is written: `lines` for people, `json` for programs, one object on each line."
    )
    path_prefix: str = _setting(
        "", "Path below which a reverse proxy shows the server, such as `/vitrine`; the proxy may cut it off or not."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for origin in self.embed:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"embed has {origin!r}; it must list sites such as https://school.example, or be *")
        for host in self.allowed_hosts:
            if not HOST.fullmatch(host):
                raise ValueError(f"allowed_hosts has {host!r}; it must list names such as vitrine.example, each with a port or without")
        for name, value in self:
            for text in value if isinstance(value, tuple) else (str(value),):
                if not can_be_encoded(text):  # every answer that named it would fail
                    raise ValueError(f"{name} has {text!r}, which cannot be encoded as UTF-8; rename it")
        if not _PATH.fullmatch(self.path_prefix):
            raise ValueError(f"path_prefix is {self.path_prefix!r}; it must be a path such as /vitrine, with no slash at its end")
        self._check_devices()
        self._check_cluster()
        self._check_who_comes_in()
        self.dataset_folders  # noqa: B018  (which says what is wrong with them)
        return self

    def _check_devices(self) -> None:
        names = self.devices
        if not names or len(set(names)) < len(names) or (len(names) > 1 and not all(name and _GPU.fullmatch(name) for name in names)):
            raise ValueError(
                f"device is {self.device!r}; it must be one device, or different GPUs with their numbers, such as cuda:0,cuda:1"
            )
        if self.engine == "ray" and len(names) > 1:
            raise ValueError(f"device is {self.device!r}, and engine is ray, where each process has one device: set it to cuda")

    def _check_cluster(self) -> None:
        if self.database and not self.database.startswith(_POSTGRESQL):
            raise ValueError(f"database is not shown here, as it may hold a password; it must begin with {_POSTGRESQL}")
        if self.engine == "ray" and not self.database:
            raise ValueError("engine is ray, whose machines share a store; set database to one of PostgreSQL")
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"min_replicas is {self.min_replicas}; it must be at most max_replicas, {self.max_replicas}")

    def _check_who_comes_in(self) -> None:
        if self.token and not _TOKEN.fullmatch(self.token):
            raise ValueError("token is not shown here; it must have 12 to 200 letters, digits and signs, as `openssl rand -hex 16` makes")
        if self.user_header and not _HEADER.fullmatch(self.user_header):
            raise ValueError(f"user_header is {self.user_header!r}; it must be the name of a header, such as X-Remote-User")
        for proxy in self.trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"trusted_proxies has {proxy!r}; it must list addresses such as 10.0.0.7 or 10.0.0.0/24") from None

    @property
    def devices(self) -> tuple[str | None, ...]:
        """The names of the devices on which models run, each in a process of its own; None is CUDA where there is any, else the CPU."""
        return tuple(None if name == "auto" else name for name in _split(self.device))

    @property
    def listens_everywhere(self) -> bool:
        """True if the address to listen on means all addresses of the machine."""
        return self.host in ("", "0.0.0.0", "::")  # nosec B104  # it is compared with, not listened on

    def address(self, path: str) -> str:
        """Return the URL path by which a browser reaches ``path``, such as ``/api/models``: the path prefix, then ``path``."""
        return self.path_prefix + path

    @property
    def max_upload_bytes(self) -> int:
        """The maximum size of an upload, in bytes."""
        return int(self.max_upload_mb * 1_000_000)

    @property
    def max_model_bytes(self) -> int:
        """The maximum size of an uploaded model, in bytes."""
        return int(self.max_model_mb * 1_000_000)

    @property
    def max_data_bytes(self) -> int:
        """The maximum size of a data set that a visitor sends, in bytes."""
        return int(self.max_data_mb * 1_000_000)

    @property
    def dataset_folders(self) -> dict[str, Path]:
        """The folder of each data set named in the settings, by name. Raises ValueError for an entry that is not name=DIR, or a repeated
        name.
        """
        folders: dict[str, Path] = {}
        for entry in self.datasets:
            name, _, folder = (part.strip() for part in entry.partition("="))
            if not name or not folder:
                raise ValueError(f"datasets has {entry!r}; it must list data sets with their folders, as imagenet=DIR")
            if name in folders:
                raise ValueError(f"datasets names {name} twice; each data set has one folder")
            folders[name] = Path(folder).expanduser()
        return folders

    @property
    def max_pixels(self) -> int:
        """The maximum number of pixels of one image."""
        return int(self.max_megapixels * 1_000_000)


def environment_name(name: str) -> str:
    """Return the name of the environment variable for the setting ``name``."""
    return PREFIX + name.upper()


def _in_words(error: ErrorDetails) -> str:
    """Format ``error``, a validation error, as a sentence: the name of the setting, its value and what it must be. A secret value is not
    shown.
    """
    if not error["loc"]:  # a check of several settings
        return str(error["ctx"]["error"])
    name, kind, limits = str(error["loc"][0]), error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown setting {name}; known: {', '.join(Settings.model_fields)}"
    setting = Settings.model_fields[name]
    shown = repr(error["input"]) if setting.repr else "not shown here"
    bounds = {"greater_than_equal": "at least {ge:g}", "less_than_equal": "at most {le:g}"}
    kinds: dict[Any, str] = {int: "a whole number", float: "a number", bool: "yes or no"}
    choices = {"literal_error": f"one of {', '.join(map(str, get_args(setting.annotation)))}"}
    wanted = {**bounds, **choices}.get(kind) or kinds.get(setting.annotation, "text")
    return f"{name} is {shown}; it must be {wanted.format(**limits)}"


def load_settings(overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from their defaults, then ``environ`` (by default the process's environment), then ``overrides``; a None overrides
    nothing.

    Raises ValueError for an unknown override and for a value of the wrong type or out of bounds; an unknown ``VITRINE_...`` variable gives
    a warning in the log.
    """
    environ = os.environ if environ is None else environ
    known = {environment_name(name): name for name in Settings.model_fields}
    ignored = [name for name in environ if name.startswith(PREFIX) and name.upper() not in known]
    if ignored:
        log.warning("no such setting: %s; known: %s", ", ".join(sorted(ignored)), ", ".join(known))
    values = {name: environ[variable] for variable, name in known.items() if environ.get(variable)}
    values |= {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as problem:
        raise ValueError(_in_words(problem.errors()[0])) from None
