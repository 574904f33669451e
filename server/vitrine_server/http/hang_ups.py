"""Clients that disconnect before they have their answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import Request


async def ends_before_hang_up(request: Request, work: Coroutine[Any, Any, Any]) -> bool:
    """Wait until ``work`` ends or the client of ``request`` disconnects, and cancel the other; return True if the work ended first."""

    async def hang_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(work), asyncio.create_task(hang_up())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
