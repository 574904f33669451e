"""Names of files and folders that are written."""

from __future__ import annotations

import explainers
from vitrine_server.export.file_names import file_stem, folder_names


def test_file_names_are_safe_and_different() -> None:
    specs = [variant.spec for variant in explainers.variants()]
    specs += [
        "rollout?start_layer=1",
        "rollout?start_layer=-1",
        "a?x=1&y=2",
        "a?x=1%26y=2",
        "a?x=1+y=2",
        "a?path=../../x",
    ]
    stems = [file_stem(spec) for spec in specs]
    assert len(set(stems)) == len(specs)
    assert not any(set(stem) & set('/\\:*?"<>| ') for stem in stems)
    assert file_stem("fullgrad_plus:libra") == "fullgrad_plus-libra"
    assert file_stem("rollout?start_layer=1") == "rollout+start_layer=1"


def test_folder_names_are_safe_and_different() -> None:
    assert folder_names(["a zebra", "A zebra!", "../etc", "???", "c++", "c"]) == [
        "a-zebra",
        "a-zebra-2",
        "etc",
        "target",
        "c",
        "c-2",
    ]
