"""Which models there are, which are in memory, and how the others are doing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from explainers.json_records import Record, describe, optional
from explainers.models.companion_files.calibration import Calibration
from explainers.models.inputs.types import ModelKind
from vitrine_server.http.problems import OUT_OF_MEMORY, Problem, suggestion
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ModelFacts, ResidentModel
from vitrine_server.jobs.failures import NOT_INSTALLED
from vitrine_server.jobs.feed import Feed, event
from vitrine_server.schemas.base import ProblemDocument
from vitrine_server.schemas.models import ModelDetails, ModelState
from vitrine_server.settings import environment_name

#: Where a model is from: it ships with Vitrine, the list names it, or somebody loaded it by name or brought it.
Origin = Literal["inside", "hub", "yours"]
_HUB_NAME = re.compile(r"timm/[\w.-]+|hf/[\w.-]+/[\w.-]+|openclip/[\w.-]+/[\w.-]+")
_MOST_FAILED = 20
_MOST_LOADING = 4  # models of the hub that load at once
#: Whoever runs the server, and the server itself, know of all models.
ALONE = Visitor(is_alone=True)
SEND_HUB_NAME = "Send a name from /api/models, or timm/<name>, hf/<organisation>/<name> or openclip/<model>/<pretrained>."


@dataclass(frozen=True, kw_only=True)
class ListedModel(Record, name="Model"):
    """One model in the list of models: its name, title and description, its state, and what is known of its weights and its download."""

    name: str
    kind: Annotated[str | None, describe("null where it is not known yet.", kind=ModelKind | None)]
    title: str
    description: str
    embedded: bool
    origin: Annotated[
        Origin, describe("Whether it ships with Vitrine, is of the hub and in the list, or was loaded by name or brought.", kind=Origin)
    ]
    state: ModelState
    default: bool
    photos: Annotated[bool, describe("Whether it is made for photos that people bring.")]
    recommended: bool
    megabytes: Annotated[int | None, describe("Of its download.")]
    revision: Annotated[str | None, describe("The commit of the hub that is taken; null for the newest.")]
    downloaded: Annotated[bool, describe("Whether its files are on the server already.")]
    good_for: str
    details: Annotated[dict[str, Any], describe(kind=ModelDetails)]
    problem: Annotated[dict[str, Any] | None, optional("Why it could not be loaded.", kind=ProblemDocument)]
    device: Annotated[str | None, optional()]
    resident: Annotated[ResidentModel | None, optional("Where its weights are, while it is loaded.")]
    weights_digest: Annotated[str | None, optional()]
    calibration: Annotated[Calibration | None, optional("Once it is loaded, if it has lines.")]


@dataclass
class ModelEntry:
    """One model of the registry: its description, its state (available, loading, loaded, failed) and, while it is loaded, its facts. Its
    options, owner and place say how it is opened and who sees it.
    """

    name: str
    kind: str | None
    title: str
    description: str
    embedded: bool
    default: bool = False
    photos: bool = False  # made for the photos that people bring
    recommended: bool = False  # of the hub: one to get first
    megabytes: int | None = None  # of its download, where it is known
    revision: str | None = None  # the commit of the hub that is taken, where that is not the newest
    downloaded: bool = False  # its files are in the cache of the hub
    good_for: str = ""  # what one takes it for
    listed: bool = True  # in the catalogue
    open_options: Mapping[str, Any] = field(default_factory=dict)  # how it is opened: arguments of explainers.open
    place: Path | None = None  # of a model that somebody brought: what is opened
    owner: str = ""  # whose it is; "" is everybody's
    failure_report: str | None = None  # where it could not be opened, to send to others
    kept: bool = False  # named by whoever started the server: it may always be loaded
    is_awaited: bool = False  # somebody follows its loading
    is_early: bool = False  # it is loaded at the start, and nobody has asked for it yet
    state: ModelState = "available"
    was_loaded: bool = False  # at least once, since the server started
    digest: str | None = None  # SHA-256 of its weights, once it was loaded
    problem: Problem | None = None
    facts: ModelFacts | None = None
    feed: Feed = field(default_factory=Feed)
    events: int = 0
    resident: ResidentModel | None = None  # where its weights are, while it is loaded
    bytes: int | None = None  # that its weights take in memory, once that is known

    @property
    def name_to_show(self) -> str:
        """The name in messages for people: of a model that lies in a folder of this machine, the folder's own name."""
        return Path(self.name).name if Path(self.name).is_absolute() else self.name

    @property
    def has_failed(self) -> bool:
        """True if loading ended with ``problem``: it failed, or an optional package is not installed."""
        return self.state in ("failed", "not-installed")

    @property
    def lacked_memory(self) -> bool:
        """True if loading failed because memory was too short, which the next request may find."""
        return self.state == "failed" and self.problem is not None and self.problem.slug == OUT_OF_MEMORY

    @property
    def origin(self) -> Origin:
        """Where the model is from."""
        return "inside" if self.embedded else "hub" if self.listed else "yours"

    def is_for(self, visitor: Visitor) -> bool:
        """Return whether a visitor may see this model: it has no owner, or the visitor is the owner."""
        return self.owner == "" or visitor.owns(self.owner)

    def to_json(self) -> dict[str, Any]:
        """Return the model as a JSON object, as the list of models shows it."""
        return ListedModel(
            name=self.name,
            kind=self.kind,
            title=self.title,
            description=self.description,
            embedded=self.embedded,
            origin=self.origin,
            state=self.state,
            default=self.default,
            photos=self.photos,
            recommended=self.recommended,
            megabytes=self.megabytes,
            revision=self.revision,
            downloaded=self.downloaded or self.embedded or self.place is not None,
            good_for=self.good_for,
            details=self.facts.details if self.facts else {},
            problem=self.problem.to_json() if self.problem else None,
            device=self.facts.device if self.facts else None,
            resident=self.resident if self.facts else None,
            weights_digest=self.facts.weights_digest if self.facts else None,
            calibration=self.facts.calibration if self.facts and self.facts.calibration.thresholds else None,
        ).to_json()


class ModelRegistry:
    """The models by name, at first those of ``catalogue``. Web threads read it and ask for loads; runners set the results.

    may_load    whether visitors may have models of the hub loaded
    allowed_by  the setting that would allow it, named in the refusal
    """

    def __init__(self, catalogue: Sequence[Any], may_load: bool = True, allowed_by: str = "") -> None:
        self.may_load, self._allowed_by = may_load, allowed_by or f"{environment_name('allow_models')} allows it"
        self._lock = threading.RLock()
        self._entries: dict[str, ModelEntry] = {}
        self._held_by: dict[int, Mapping[str, ResidentModel]] = {}  # the models of each host, by name
        self._budgets: dict[int, DeviceBudget] = {}  # of each host, where it is known
        for listed in catalogue:
            first = listed.embedded and not any(entry.kind == listed.kind for entry in self._entries.values())
            entry = ModelEntry(listed.name, listed.kind, listed.title, listed.description, listed.embedded, default=first)
            entry.photos, entry.recommended, entry.megabytes = listed.photos, listed.recommended, listed.megabytes
            entry.good_for, entry.revision = listed.good_for, listed.revision
            self._entries[listed.name] = entry

    def find(self, name: str, visitor: Visitor = ALONE) -> ModelEntry:
        """Return the entry called ``name``. Raises Problem 404, with similar names, if there is none that the visitor may see."""
        with self._lock:
            entries = {entry.name: entry for entry in self.all(visitor)}
            if name in entries:
                return entries[name]
            known = [known for known in entries if not Path(known).is_absolute()]  # a path of this machine is for whoever named it
        raise Problem(
            404,
            "unknown-model",
            f"There is no model {name!r}.",
            send=f"{suggestion(name, known)}Known: {', '.join(known)}. Others load with POST /api/models.",
        )

    def find_weights(self, digest: str | None, name: str, visitor: Visitor = ALONE) -> ModelEntry | None:
        """Return the entry of a model with the weights ``digest`` that the visitor may see: one called ``name``, or by the last part of its
        path, before others. Of a model that was not loaded yet, and without a digest, the name decides. None if there is none.
        """
        entries = [entry for entry in self.all(visitor) if not entry.has_failed]
        same = [entry for entry in entries if digest is not None and entry.digest == digest]
        for name_of in (lambda entry: entry.name, lambda entry: Path(entry.name).name):
            for entry in same or [entry for entry in entries if digest is None or entry.digest is None]:
                if name_of(entry) == name:
                    return entry
        return same[0] if same else None

    def all(self, visitor: Visitor = ALONE) -> list[ModelEntry]:
        """List every entry of a model that ``visitor`` may see, embedded ones first."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.is_for(visitor)]

    def ask(
        self,
        name: str,
        start: Callable[[ModelEntry], None],
        *,
        visitor: Visitor = ALONE,
        trusted: bool = False,
        is_early: bool = False,
        open_options: Mapping[str, Any] | None = None,
    ) -> ModelEntry:
        """Return the entry of ``name``, after calling ``start`` to load it unless it is loaded or loading already.

        ``is_early``: nobody asks for it yet. A hub name that the catalogue lacks is added; with ``trusted``, any name is, to be opened with
        ``open_options``. Raises Problem 422
        for a name that is neither known nor of the hub, 403 if it would have to be downloaded from the hub and that is not allowed, 404 for
        the model of another visitor, and 429 if too many models are loading.
        """
        with self._lock:
            if name not in self._entries:
                # a folder of this machine is for the command line, not for whoever can reach the port
                if not trusted and (not _HUB_NAME.fullmatch(name) or ".." in name):
                    near = suggestion(name, [entry.name for entry in self.all(visitor)])
                    raise Problem(422, "unknown-model", f"{name!r} is not the name of a model.", send=near + SEND_HUB_NAME)
                if not trusted:
                    self.check_may_load()
                self._drop_failed()
                self._entries[name] = ModelEntry(name, None, name.rpartition("/")[2], "Added by name.", embedded=False, listed=False)
            entry = self.find(name, visitor)
            entry.is_early = entry.is_early and is_early
            if entry.state in ("loading", "loaded"):
                return entry
            if not (trusted or entry.embedded or entry.kept or entry.place is not None):
                self.check_may_load()
            entry.kept = entry.kept or trusted
            entry.open_options = entry.open_options if open_options is None else dict(open_options)
            loading = sum(other.state == "loading" and not (other.embedded or other.kept) for other in self._entries.values())
            if not (entry.embedded or entry.kept) and loading >= _MOST_LOADING:
                wait = {"Retry-After": "30"}
                raise Problem(429, "too-many-loading", f"{loading} models are loading.", send="Wait until one is done.", headers=wait)
            self.begin_loading(entry).is_early = is_early
        start(entry)
        return entry

    def check_may_load(self) -> None:
        """Raise Problem 403 if visitors may not have models of the hub loaded."""
        if not self.may_load:
            detail = f"This server loads no models of the hub for others; {self._allowed_by}."
            raise Problem(403, "models-not-allowed", detail, send="Take one that is loaded: GET /api/models lists them.")

    def free_name(self, wanted: str) -> str:
        """Return ``wanted``, with a number appended if a model already has that name."""
        with self._lock:
            return next(name for name in (wanted, *(f"{wanted}-{n}" for n in range(2, 10_000))) if name not in self._entries)

    def bring(
        self, name: str, place: Path, open_options: Mapping[str, Any], start: Callable[[ModelEntry], None], owner: str = ""
    ) -> ModelEntry:
        """Add a model called ``name`` that a visitor (``owner``) uploaded or named by its path (``place``), have ``start`` load it, and
        return its entry. ``open_options`` are arguments of ``explainers.open``. Like a hub model, it may be dropped from memory for others.
        """
        with self._lock:
            self._drop_failed()
            entry = ModelEntry(
                name, None, name.rpartition("/")[2], "Your own.", embedded=False, listed=False, place=place, open_options=dict(open_options)
            )
            entry.owner = owner
            self._entries[name] = entry
            self.begin_loading(entry)
        start(entry)
        return entry

    def begin_loading(self, entry: ModelEntry) -> ModelEntry:
        """Set the state of ``entry`` to loading, with an empty feed of events; return the entry."""
        with self._lock:
            entry.state, entry.problem, entry.feed, entry.events, entry.failure_report = "loading", None, Feed(), 0, None
            entry.is_early = False
        return entry

    def _drop_failed(self) -> None:
        """Forget all but the latest failed models outside the catalogue, so that made-up names do not accumulate."""
        failed = [name for name, other in self._entries.items() if other.has_failed and not other.listed]
        for name in failed[:-_MOST_FAILED]:
            del self._entries[name]

    def tell(self, entry: ModelEntry, name: str, data: Any) -> None:
        """Publish an event of loading ``entry``, called ``name`` and with ``data`` as its JSON."""
        with self._lock:
            entry.feed.publish(event(entry.events, name, data))
            entry.events += 1

    def loaded(self, entry: ModelEntry, facts: ModelFacts) -> None:
        """Mark the model of ``entry`` as loaded, with its ``facts``, and tell those who follow."""
        with self._lock:
            entry.facts, entry.kind, entry.state, entry.was_loaded = facts, facts.kind, "loaded", True
            entry.digest = facts.weights_digest
            self.tell(entry, "loaded", entry.to_json())
            entry.feed.close()

    def failed(self, entry: ModelEntry, problem: Problem) -> None:
        """Mark ``entry`` as failed to load, with its problem; a later request tries again."""
        with self._lock:
            entry.failure_report = problem.failure_report
            entry.state = "not-installed" if problem.slug == NOT_INSTALLED else "failed"
            entry.problem, entry.facts, entry.resident = problem, None, None
            self.tell(entry, "failed", {"problem": problem.to_json()})
            entry.feed.close()

    def release(self, name: str) -> None:
        """Mark the loaded model ``name`` as available, so that its memory can be freed; the next request loads it again."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.state == "loaded":
                entry.facts, entry.state, entry.resident = None, "available", None

    def put_off(self, entry: ModelEntry) -> None:
        """Mark the model of ``entry``, which waited to be loaded, as available: it is loaded once somebody asks for it."""
        with self._lock:
            entry.state = "available"
            entry.feed.close()

    @property
    def residents(self) -> list[Mapping[str, ResidentModel]]:
        """The models that each host holds, by name."""
        with self._lock:
            return list(self._held_by.values())

    @property
    def budgets(self) -> list[DeviceBudget]:
        """How each host shares out the memory of its device, as far as that is known."""
        with self._lock:
            return list(self._budgets.values())

    def note_residents(self, host: int, models: Mapping[str, ResidentModel], dropped: set[str], budget: DeviceBudget | None = None) -> None:
        """Record which ``models`` a host holds now, by name, where their weights are, and how it shares out its device; ``host`` is a
        number that identifies it. Those that it ``dropped`` are released, unless another host holds them; those that were lost with its
        process are not, and are loaded again.
        """
        with self._lock:
            self._held_by[host] = dict(models)
            if budget is not None:
                self._budgets[host] = budget
            for name in dropped.difference(*self._held_by.values()):
                self.release(name)
            for name, resident in models.items():
                if name in self._entries:
                    self._entries[name].resident, self._entries[name].bytes = resident, resident.bytes

    def use(self, entry: ModelEntry) -> ModelFacts:
        """Return the facts of a loaded entry. Raises the Problem with which it failed to load, or Problem 503
        if it was dropped from memory.
        """
        with self._lock:
            if entry.facts is None:
                detail = f"{entry.name_to_show} was unloaded to make room for another model."
                made_room = Problem(503, "model-made-room", detail, send="Ask again.")
                raise entry.problem or made_room
            return entry.facts

    @property
    def in_memory(self) -> list[str]:
        """The names of the models that are loaded."""
        with self._lock:
            return [entry.name for entry in self._entries.values() if entry.state == "loaded"]
