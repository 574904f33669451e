"""Profiles of Chromium that tests use one after the other: they keep the files of the pages, and nothing of what a visitor leaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page
from playwright.sync_api import Error as PlaywrightError

KEPT = 4  # profiles that wait to be used again, of each browser
STORES = "cookies,file_systems,indexeddb,local_storage,service_workers,cache_storage,storage_buckets"

LIKE_NEW = r"() => localStorage.length === 0 && !document.cookie && /\[native code\]/.test(setTimeout)"


@dataclass(eq=False)
class Profile:
    """A context of Chromium that belongs to one server."""

    context: BrowserContext
    address: str
    kind: tuple[Any, ...]  # what profiles have in common that can stand for each other
    keeper: Page = field(init=False)  # a page of the server beside those of the tests, from which storage is looked at and cleared
    session: CDPSession = field(init=False)

    def __post_init__(self) -> None:
        self.keeper = self.context.new_page()
        self.keeper.goto(f"{self.address}/healthz")
        self.session = self.context.new_cdp_session(self.keeper)
        self.forget()

    def forget(self) -> None:
        """Close what a test opened and forget what it stored and allowed; what was fetched stays."""
        for page in self.context.pages:
            if page is not self.keeper:
                page.close()
        self.context.unroute_all()
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.session.send("Storage.clearDataForOrigin", {"origin": self.address, "storageTypes": STORES})

    @property
    def is_like_new(self) -> bool:
        """Whether nothing is stored, in case that a page wrote while it was closed, and no test has set the clock, which stays so."""
        return bool(self.keeper.evaluate(LIKE_NEW))


_free: WeakKeyDictionary[Browser, list[Profile]] = WeakKeyDictionary()


def take(browser: Browser, address: str, kind: tuple[Any, ...], make: Callable[[], BrowserContext]) -> Profile:
    """A profile of a visitor who was never here: one that was given back, else a new one from ``make``."""
    free = _free.setdefault(browser, [])
    while profile := next((known for known in free if (known.address, known.kind) == (address, kind)), None):
        free.remove(profile)
        with suppress(PlaywrightError):  # of a keeper that crashed: another profile is made
            if profile.is_like_new:
                return profile
        profile.context.close()
    return Profile(make(), address, kind)


def give_back(browser: Browser, profile: Profile) -> None:
    """Keep a profile for the next test, and close the one that waited longest where too many wait."""
    profile.forget()
    free = _free.setdefault(browser, [])
    free.append(profile)
    if len(free) > KEPT:
        free.pop(0).context.close()
