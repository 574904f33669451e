"""``explainers.serve``: the pages on a model that is live in this process."""

from __future__ import annotations

import io
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from torch import nn

import explainers
from tests.server.conftest import picture, png
from tests.support.own_models.case import CLASSES, vit
from vitrine_server.live import LivePages


@pytest.fixture(scope="module")
def module() -> nn.Module:
    return vit()


def ask(pages: Any, **fields: Any) -> Any:
    """The finished explanation of a picture by the model of these pages."""
    root, model = pages.url.split("/image?model=")
    answer = httpx.post(f"{root}/api/explanations?wait=1", data={"model": model, **fields}, files={"image": png(1)}, timeout=60)
    return answer.raise_for_status().json()


def test_a_live_model_is_asked_by_its_pages_and_says_that_nothing_can_end_it(module: nn.Module) -> None:
    model = explainers.open(module, labels=CLASSES, check="none", device="cpu")
    pages = explainers.serve(model)
    root = pages.url.split("/image?model=")[0]
    assert f'href="{pages.url}"' in pages._repr_html_()  # type: ignore[attr-defined]
    assert pages.url in repr(pages)
    assert httpx.get(pages.url).status_code == 200
    document = ask(pages, methods="rollout")
    expected = explainers.explain(model, picture(1), methods=["rollout"])["rollout"]
    torch.testing.assert_close(torch.tensor(document["maps"][0]["scores"]), expected.scores[expected.content])
    (listed,) = httpx.get(f"{root}/api/models").json()["models"]
    assert (listed["name"], listed["state"]) == (model.name, "loaded")
    assert "where nothing can end it" in listed["description"]
    assert httpx.get(f"{root}/readyz").status_code == 200
    pages.stop()
    pages.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(pages.url)


def test_what_is_asked_is_kept_where_it_is_said(module: nn.Module, tmp_path: Path) -> None:
    with explainers.serve(module, home=tmp_path, visitors="apart") as pages:  # type: ignore[attr-defined]
        one = ask(pages, methods="rollout")["id"]
    with explainers.serve(module, home=tmp_path) as pages:  # type: ignore[attr-defined]
        assert httpx.get(f"{pages.url.split('/image')[0]}/api/explanations/{one}").json()["state"] == "done"


def test_a_script_waits_until_it_is_interrupted(
    module: nn.Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[str] = []
    wait = LivePages.wait

    def interrupted(pages: LivePages) -> None:
        join = pages._thread.join

        def press(timeout: float | None = None) -> None:
            looks.append(pages.url)
            if len(looks) == 1:
                raise KeyboardInterrupt
            join(timeout)

        monkeypatch.setattr(pages._thread, "join", press)
        wait(pages)

    monkeypatch.setattr(LivePages, "wait", interrupted)
    pages = explainers.serve(module, block=True)
    assert f"Vitrine is at {pages.url}" in capsys.readouterr().out
    assert looks == [pages.url, pages.url]
    with pytest.raises(httpx.ConnectError):
        httpx.get(pages.url)


def test_what_is_wrong_is_said(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(explainers.ExplainerError, match=f"port {port}"):
            explainers.serve(module, port=port)
    with pytest.raises(explainers.ExplainerError, match="unknown setting colour"):
        explainers.serve(module, colour="red")
    with pytest.raises(explainers.ExplainerError):
        explainers.serve(io.BytesIO(b"no model"))
    monkeypatch.setattr("explainers.serving.entry_points", lambda group: [])
    with pytest.raises(explainers.ExplainerError, match="install Vitrine whole"):
        explainers.serve(module)
