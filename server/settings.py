"""Every setting of the server, declared once: name, default and what it does. From the environment, the command line or a test."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import platformdirs

from server.json_text import can_be_encoded

log = logging.getLogger(__name__)
PREFIX = "VITRINE_"
#: A host as browsers name it: a name or an address, IPv6 in brackets, and a port.
HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*", re.ASCII)
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.*-]+(:[0-9]+)?", re.ASCII)
POSTGRESQL = "postgresql://"
OWN_MODELS = ("local", "uploads", "all", "off")
ENGINES = ("local", "ray")
VISITORS = ("auto", "apart", "together")
_TOKEN = re.compile(r"[!-~]{12,200}")  # as a header can carry it
_HEADER = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_SWITCH = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("lines", "json")
#: What a setting may be, of those that are one of a few words.
_CHOICES = {"own_models": OWN_MODELS, "visitors": VISITORS, "engine": ENGINES, "log_level": LOG_LEVELS, "log_format": LOG_FORMATS}


def _setting(default: Any, text: str, minimum: float | None = None, maximum: float | None = None) -> Any:
    """A field with its default, its one-line help and its bounds."""
    bounds = {"help": text, "minimum": minimum, "maximum": maximum}
    return field(default_factory=default, metadata=bounds) if callable(default) else field(default=default, metadata=bounds)


def _default_home() -> Path:
    return platformdirs.user_data_path("vitrine")


@dataclass(frozen=True)
class Settings:
    """What the server runs with. Raises ValueError, naming the setting, where a value is out of bounds."""

    host: str = _setting("127.0.0.1", "Address to listen on; `0.0.0.0` lets other machines in.")
    port: int = _setting(8000, "Port to listen on.", 0, 65535)
    device: str = _setting("auto", "Where models run: `cpu`, `cuda`, `cuda:1`, ...; `auto` takes CUDA where there is one.")
    home: Path = _setting(_default_home, "Folder of the stored explanations.")
    database: str = _setting(
        "",
        "Where explanations are stored, if not in a file of `VITRINE_HOME`: a database of PostgreSQL, as `postgresql://name:word@host/vitrine`.",
    )
    engine: str = _setting(
        "local", "What makes explanations: `local`, processes of this machine; `ray`, a cluster of Ray, which needs VITRINE_DATABASE."
    )
    ray_address: str = _setting("", "Head of the cluster, as `10.0.0.5:6379`; without it RAY_ADDRESS, or a cluster of this machine alone.")
    min_replicas: int = _setting(1, "Fewest processes of a cluster that hold models; it has more while they are asked more.", 1)
    max_replicas: int = _setting(1, "Most processes of a cluster that hold models.", 1)
    replica_threads: int = _setting(1, "CPUs, and threads (OMP_NUM_THREADS), of each process of a cluster that holds models.", 1)
    replica_gpus: float = _setting(0.0, "GPUs of each of these, such as 0.5 where two share one.", 0)
    replica_models: int = _setting(8, "Models that each of these keeps in memory; the one unused for longest makes room.", 1)
    web_replicas: int = _setting(1, "Processes of a cluster that answer requests.", 1)
    models: tuple[str, ...] = _setting((), "Models to load at the start besides the embedded ones, separated by commas.")
    architecture: str = _setting(
        "", "Of files of weights among the models, their architecture: `timm/<name>`, `hf/<organisation>/<name>`, `openclip/<model>`, ..."
    )
    labels: str = _setting("", "Of the models, a file with the names of their classes: .txt, .csv or .json.")
    own_models: str = _setting(
        "local",
        "Who may bring a model to the page *Your model*: `local`, who sits at this machine; `uploads`, everybody, by uploading; `all`, "
        "everybody, and by paths of this machine too; `off`, nobody.",
    )
    max_model_mb: float = _setting(4000.0, "Largest model that is uploaded, in megabytes (10^6 bytes).", 0.001)
    max_upload_mb: float = _setting(20.0, "Largest upload, in megabytes (10^6 bytes).", 0.001)
    max_megapixels: float = _setting(40.0, "Largest image, in millions of pixels.", 0.001)
    max_text_chars: int = _setting(20_000, "Longest text, in characters.", 1)
    max_methods: int = _setting(256, "Most methods in one request.", 1)
    max_targets: int = _setting(8, "Most targets or prompts in one request.", 1)
    queue_size: int = _setting(32, "Explanations that may wait; one more is answered 429.", 1)
    queue_share: int = _setting(24, "Explanations of one visitor that may wait, so that others still enter.", 1)
    workers: int = _setting(1, "Processes that hold models, each with its own copy, where they run on the CPU; a GPU has one.", 1, 64)
    job_seconds: int = _setting(900, "Seconds that one explanation or study may use its model; then it is ended.", 1)
    method_seconds: int = _setting(300, "Seconds that one method of an explanation may take; then the explanation is ended.", 1)
    silence_seconds: int = _setting(
        120, "Seconds that a model may compute without a sign of life, such as the end of a pass; then its process is started anew.", 1
    )
    grown_mb: int = _setting(
        1000, "Megabytes by which a process of models may grow after it has loaded them; past that it is started anew when idle.", 1
    )
    max_hub_models: int = _setting(4, "Hub models kept in memory; the one unused for longest makes room.", 1)
    keep: int = _setting(1000, "Explanations kept in the store; the oldest make room.", 1)
    runs: tuple[str, ...] = _setting(
        (), "Folders of runs of `vitrine evaluate` that the leaderboard shows beside those that ship, separated by commas."
    )
    datasets: tuple[str, ...] = _setting(
        (),
        "Data sets that runs of the page are measured on besides those that ship, each with its folder (or file), as "
        "`imagenet=DIR,imagenet-s=DIR2`; `vitrine evaluate --list` has the names. Visitors see no paths.",
    )
    max_run_inputs: int = _setting(2000, "Most inputs of one run that is begun on the page, and of a data set that is sent for it.", 2)
    max_data_mb: float = _setting(
        200.0, "Largest data set that is sent for a run of the page, in megabytes (10^6 bytes), packed and unpacked.", 0.001
    )
    embed: tuple[str, ...] = _setting(
        (), "Sites whose pages may show finished explanations in a frame, as `https://school.example`, separated by commas; `*` for all."
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "Names besides its own address and `localhost` by which people reach the server, as `vitrine.example` or `vitrine.example:8443`, "
        "separated by commas: that of a reverse proxy, or this machine's in the network. Nothing is changed for requests by another name.",
    )
    visitors: str = _setting(
        "auto",
        "`apart`: what each browser and each program asks is its own; `together`: all that ask are taken for one person; `auto`: together "
        "where only this machine reaches the server (a loopback address, and no other name in VITRINE_ALLOWED_HOSTS), else apart.",
    )
    token: str = _setting(
        "",
        "A secret of 12 characters or more without which nobody gets in: for programs a bearer token, for browsers "
        "what they are asked for first.",
    )
    user_header: str = _setting("", "The header in which a reverse proxy names the user, as `X-Remote-User`; nobody gets in without.")
    trusted_proxies: tuple[str, ...] = _setting(
        ("127.0.0.1", "::1"),
        "Addresses and networks of reverse proxies, separated by commas: what their headers say of the user, of the client's address and "
        "of TLS is believed, and that of nobody else.",
    )
    read_only: bool = _setting(False, "Whether stored explanations can only be read: nothing is asked, changed or deleted.")
    allow_models: bool = _setting(False, "Whether people may load models of the hub where others than this machine reach the server.")
    allow_runs: bool = _setting(False, "Whether people may begin and stop runs where others than this machine reach the server.")
    visitor_rate: int = _setting(120, "Questions a minute of one visitor, where visitors are apart; one more is answered 429.", 1)
    address_rate: int = _setting(1200, "Questions a minute from one address, where visitors are apart; one more is answered 429.", 1)
    log_level: str = _setting("info", "One of `debug`, `info`, `warning`, `error`.")

    # how it is operated
    keep_days: float = _setting(0.0, "Days for which explanations are kept; 0 for no limit.", 0)
    keep_mb: float = _setting(
        0.0, "Megabytes (10^6 bytes) that explanations take on disk; past that the oldest make room; 0 for no limit.", 0
    )
    log_format: str = _setting("lines", "How the log is written: `lines` for people, `json` for programs, one object a line.")
    path_prefix: str = _setting("", "Path below which a reverse proxy shows the server, as `/vitrine`; the proxy may cut it off or not.")

    def __post_init__(self) -> None:
        self._check_bounds()
        for origin in self.embed:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(f"embed has {origin!r}; it must list sites such as https://school.example, or be *")
        for host in self.allowed_hosts:
            if not HOST.fullmatch(host):
                raise ValueError(f"allowed_hosts has {host!r}; it must list names such as vitrine.example, each with a port or without")
        for setting in fields(self):
            value = getattr(self, setting.name)
            for text in value if isinstance(value, tuple) else (str(value),):
                if not can_be_encoded(text):  # every answer that named it would fail
                    raise ValueError(f"{setting.name} has {text!r}, which cannot be encoded as UTF-8; rename it")
        if not _PATH.fullmatch(self.path_prefix):
            raise ValueError(f"path_prefix is {self.path_prefix!r}; it must be a path such as /vitrine, with no slash at its end")
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
        self._check_cluster()
        self._check_who_comes_in()
        self.dataset_folders  # noqa: B018  (which says what is wrong with them)

    def _check_bounds(self) -> None:
        for setting in fields(self):
            value, low, high = getattr(self, setting.name), setting.metadata["minimum"], setting.metadata["maximum"]
            if low is not None and not value >= low:
                raise ValueError(f"{setting.name} is {value}; it must be at least {low}")
            if high is not None and not value <= high:
                raise ValueError(f"{setting.name} is {value}; it must be at most {high}")

    def _check_cluster(self) -> None:
        if self.database and not self.database.startswith(POSTGRESQL):
            raise ValueError(f"database is not shown here, as it may hold a password; it must begin with {POSTGRESQL}")
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
    def listens_everywhere(self) -> bool:
        """Whether the address to listen on means all addresses of the machine."""
        return self.host in ("", "0.0.0.0", "::")  # nosec B104  # it is compared with, not listened on

    def address(self, path: str) -> str:
        """Where browsers find a ``path`` of the server, such as ``/api/models``."""
        return self.path_prefix + path

    @property
    def max_upload_bytes(self) -> int:
        """The upload limit in bytes."""
        return int(self.max_upload_mb * 1_000_000)

    @property
    def max_model_bytes(self) -> int:
        """The limit of an uploaded model in bytes."""
        return int(self.max_model_mb * 1_000_000)

    @property
    def max_data_bytes(self) -> int:
        """The limit of a data set that is sent, in bytes."""
        return int(self.max_data_mb * 1_000_000)

    @property
    def dataset_folders(self) -> dict[str, Path]:
        """The folder of each data set that is named. Raises ValueError for one that is not written as name=DIR, or named twice."""
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
        """The pixel limit of one image."""
        return int(self.max_megapixels * 1_000_000)


def environment_name(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def _parse(setting: Field[Any], value: Any) -> Any:
    """``value`` (text from the environment, or already typed) as the type of the setting."""
    kinds: dict[str, Any] = {"int": int, "float": float, "str": str, "Path": lambda v: Path(v).expanduser(), "bool": _switched}
    if str(setting.type).startswith("tuple"):
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())
    try:
        return kinds[str(setting.type)](value)
    except ValueError:
        wanted = {"int": "a whole number", "bool": "yes or no"}.get(str(setting.type), "a number")
        raise ValueError(f"{setting.name} is {value!r}; it must be {wanted}") from None


def _switched(value: Any) -> bool:
    if str(value).lower() not in _SWITCH:
        raise ValueError
    return _SWITCH[str(value).lower()]


def load_settings(overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from their defaults, then ``environ`` (the process's by default), then ``overrides``; None overrides nothing.

    Raises ValueError for an unknown override and for a value of the wrong type or out of bounds; an unknown ``VITRINE_...``
    variable is a warning in the log.
    """
    environ = os.environ if environ is None else environ
    overrides = {name: value for name, value in (overrides or {}).items() if value is not None}
    known = {setting.name: setting for setting in fields(Settings)}
    from_environment = {name: environ[environment_name(name)] for name in known if environ.get(environment_name(name))}
    strange = [name for name in overrides if name not in known]
    if strange:
        raise ValueError(f"unknown setting {', '.join(strange)}; known: {', '.join(known)}")
    ignored = [name for name in environ if name.startswith(PREFIX) and name[len(PREFIX) :].lower() not in known]
    if ignored:
        log.warning("no such setting: %s; known: %s", ", ".join(sorted(ignored)), ", ".join(map(environment_name, known)))
    return Settings(**{name: _parse(known[name], value) for name, value in {**from_environment, **overrides}.items()})
