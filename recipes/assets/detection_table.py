"""Which of ImageNet's 1,000 classes are a synset or below it in WordNet: ``python -m recipes.assets.detection_table --data DIR``.

Writes ``explainers/embedded/labels/detection.json`` for the synsets that the photos of ``DIR/imagen_test`` are named after.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from recipes.assets.imagenet_labels import LABELS, WORDNET, ancestors, read_nouns

FOLDER = "imagen_test"


def synsets(data: Path) -> list[str]:
    """Return the WordNet ids, sorted, that the file names of the photos in the folder ``imagen_test`` of ``data`` begin with."""
    return sorted({path.name.partition("_")[0] for path in (data / FOLDER).glob("*.jpg")})


def main() -> None:
    """Write ``detection.json``: for each synset of the photos in the folder ``--data`` the indices of the ImageNet classes that it covers,
    by the nouns of WordNet in the file ``--wordnet``.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {FOLDER}/")
    parser.add_argument("--wordnet", type=Path, default=WORDNET, help="WordNet 3.0's data.noun")
    arguments = parser.parse_args()
    nouns = read_nouns(arguments.wordnet)
    rows = json.loads((LABELS / "imagenet.json").read_text("utf-8"))
    above = [{row["wnid"][1:], *ancestors(row["wnid"][1:], nouns)} for row in rows]
    table = {wnid: [index for index, parents in enumerate(above) if wnid[1:] in parents] for wnid in synsets(arguments.data)}
    lines = ",\n".join(f"{json.dumps(wnid)}: {json.dumps(classes)}" for wnid, classes in table.items())
    (LABELS / "detection.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()
