"""``vitrine reproduce``: what it writes, prints and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from vitrine_server.cli import main


def test_a_table_is_measured_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "chefer-table2", "--limit", "1", "--device", "cpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| Ours (Transformer Attribution) `transformer_attribution?start_layer=1` |" in printed
    assert "| Ours (Transformer Attribution) | 79.70 | 86.03 | 61.95 |" in printed  # the paper's figures, in a table of their own
    assert "Stands in for the paper's models and data: scenes-vit on Scenes." in printed
    assert {path.name for path in out.iterdir()} == {"runs", "table.html", "table.md", "table.csv", "table.tex", "printed.csv"}
    page = (out / "table.html").read_text("utf-8")
    assert page.count("<table>") == 2
    assert page.index("<h1>Segmentation") < page.index("<h2>As printed: Table 2")
    assert (out / "table.tex").read_text("utf-8").count(r"\begin{tabular}") == 2
    assert "79.7" not in (out / "table.csv").read_text("utf-8")


def test_a_figure_is_drawn_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "chefer-figure4", "--limit", "1", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "figure.svg its curves" in capsys.readouterr().err
    drawing = (tmp_path / "figure.svg").read_text("utf-8")
    assert drawing.count("<polyline") == 7  # methods
    assert drawing.strip() in (tmp_path / "table.html").read_text("utf-8")
    assert "](figure.svg)" in (tmp_path / "table.md").read_text("utf-8")


def test_maps_are_drawn_where_the_paper_shows_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "chefer-figure3", "--limit", "1", "--pictures", "1", "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "pictures-1.svg and so on the maps" in capsys.readouterr().err
    images = (tmp_path / "pictures-1.svg").read_text("utf-8").count("<image ")
    assert images == 2 * 6 * 2  # a map and its legend; six methods; two classes
    assert (tmp_path / "pictures-1.pdf").read_bytes().startswith(b"%PDF")
    assert not (tmp_path / "pictures-2.svg").exists()
    assert "](pictures-1.svg)" in (tmp_path / "table.md").read_text("utf-8")


def test_texts_without_names_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not an empty table and 0."""
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/dev.tsv").write_text("sentence\tlabel\na dull film\t0\n", "utf-8")
    words = [
        "reproduce",
        "ali-names",
        "--models",
        "reviews-bert",
        "--data",
        str(tmp_path),
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 2
    assert "There is no name in 1 text: no word" in capsys.readouterr().err
    assert not (tmp_path / "out" / "table.md").exists()


def test_options_of_a_protocol_can_be_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "libragrad-completeness", "--models", "scenes-vit", "--limit", "1", "--device", "cpu", "--out", str(tmp_path)]
    assert main([*words, "--target", "second", "--resize", "squashed"]) == 0
    printed = capsys.readouterr().out
    assert "Explained: the class with the second largest score, its logit. Pictures: the whole picture" in printed


def test_the_list_and_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "libragrad-zebra-elephant" in listed
    line = next(line for line in listed.splitlines() if "chefer-table1" in line)
    assert "Table 1" in line
    assert "  imagenet; ViT-B/16  " in line
    assert line.endswith("12 min")
    assert "Mehri et al., 2025 (CVPR 2025), Table 1" in listed.partition("\nmissing ")[2]
    assert main(["reproduce"]) == 2
    assert "say which table (or --list)" in capsys.readouterr().err
    assert main(["reproduce", "chefer-tabel1"]) == 2
    assert "Did you mean chefer-table" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    assert main(["reproduce", "chefer-table1", "--out", str(file)]) == 2
    assert "is a file: name a folder" in capsys.readouterr().err
