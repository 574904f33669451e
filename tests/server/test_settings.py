from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tools.docs import settings_markdown
from vitrine_server.settings import Settings, environment_name, load_settings


def test_every_setting_is_documented() -> None:
    lines = {line.split("`")[1]: line for line in settings_markdown().splitlines()[2:]}
    assert list(lines) == list(map(environment_name, Settings.model_fields))
    for name, setting in Settings.model_fields.items():
        assert len(setting.description or "") > 10
        assert setting.description in lines[environment_name(name)]


def test_defaults_are_those_of_the_issue() -> None:
    settings = load_settings(environ={})
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.max_upload_bytes == 20_000_000
    assert settings.max_pixels == 40_000_000
    assert settings.home.name == "vitrine"


def test_overrides_win_over_the_environment() -> None:
    environ = {"VITRINE_PORT": "9000", "VITRINE_HOST": "0.0.0.0", "VITRINE_MODELS": "timm/a, hf/b/c,", "VITRINE_HOME": "~/x"}
    settings = load_settings({"port": 9001, "device": None}, environ)
    assert (settings.port, settings.host, settings.models) == (9001, "0.0.0.0", ("timm/a", "hf/b/c"))
    assert settings.home == Path("~/x").expanduser()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("engine", "spark", "one of local, ray"),
        ("engine", "ray", "set database"),
        ("database", "mysql://x:secret@y/z", "begin with postgresql://"),
        ("min_replicas", "3", "at most max_replicas"),
        ("device", "cuda:0,cuda:0", "different GPUs"),
        ("device", "cpu,cuda:0", "different GPUs"),
        ("device", "cuda,cuda:1", "different GPUs"),
        ("device", " , ", "one device"),
        ("port", "many", "a whole number"),
        ("port", "70000", "at most 65535"),
        ("max_upload_mb", "nan", "at least"),
        ("max_upload_mb", "0", "at least"),
        ("queue_size", "0", "at least 1"),
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("read_only", "perhaps", "yes or no"),
        ("keep_days", "soon", "a number"),
        ("allowed_hosts", "https://vitrine.example", "names such as"),
        ("allowed_hosts", "a b", "names such as"),
        ("models", "/models/\udcff", "encoded as UTF-8"),
        ("runs", "good,/runs/\udcff", "encoded as UTF-8"),
        ("home", "/home/\udcff", "encoded as UTF-8"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} (is|has) .*{said}"):
        load_settings(environ={environment_name(name): value})


@pytest.mark.parametrize("secret", ["short", "a secret that has spaces", 123456789012])
def test_no_message_shows_a_secret(secret: Any) -> None:
    for name in ("token", "database"):
        with pytest.raises(ValueError, match=rf"{name} is not shown here.*; it must") as refused:
            load_settings({name: secret}, {})
        assert str(secret) not in str(refused.value)
    assert "a-long-secret" not in repr(load_settings({"token": "a-long-secret"}, {}))


def test_several_gpus_are_named_with_their_numbers() -> None:
    devices = [load_settings({"device": device}, {}).devices for device in ("auto", "cuda:1", "cuda:0, cuda:1")]
    assert devices == [(None,), ("cuda:1",), ("cuda:0", "cuda:1")]
    with pytest.raises(ValueError, match="each process has one device"):
        load_settings({"device": "cuda:0,cuda:1", "engine": "ray", "database": "postgresql://a@b/c"}, {})


def test_a_switch_is_written_in_several_ways() -> None:
    for is_on, texts in ((True, ("1", "Yes", "TRUE", "on")), (False, ("0", "no", "False", "Off"))):
        assert [load_settings(environ={"VITRINE_READ_ONLY": text}).read_only for text in texts] == [is_on] * 4


def test_a_name_that_is_none_is_not_passed_over(logged: list[logging.LogRecord]) -> None:
    overrides: dict[str, Any] = {"prot": 1}
    with pytest.raises(ValueError, match="unknown setting prot"):
        load_settings(overrides, {})
    load_settings(environ={"VITRINE_PROT": "1"})
    assert any("VITRINE_PROT" in record.getMessage() for record in logged)


def test_the_folders_of_data_sets() -> None:
    settings = load_settings({}, {"VITRINE_DATASETS": "imagenet=~/imagenet, imagenet-s = /data/s"})
    assert settings.dataset_folders == {"imagenet": Path("~/imagenet").expanduser(), "imagenet-s": Path("/data/s")}
    for wrong, says in (("imagenet", "imagenet=DIR"), ("imagenet=", "imagenet=DIR"), ("a=b,a=c", "a twice")):
        with pytest.raises(ValueError, match=says):
            load_settings({"datasets": wrong}, {})


def test_folders_of_models_are_named_without_the_dots_that_browsers_take_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    names = "./my-ast,models/./mine,../other,./scenes-vit,scenes-vit,hf/a/b.c"
    settings = load_settings(environ={"VITRINE_MODELS": names, "VITRINE_PINNED_MODELS": "./my-ast"})
    outside, inside = str(tmp_path / "other"), str(tmp_path / "here" / "scenes-vit")
    assert settings.models == ("my-ast", "models/mine", outside, inside, "scenes-vit", "hf/a/b.c")
    assert settings.pinned_models == ("my-ast",)
