"""What ``import explainers`` costs: nothing that only some metrics, figures or data sets use is imported with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

SLOW = ("sklearn", "scipy", "pyarrow", "pandas", "captum", "matplotlib.pyplot")


@pytest.mark.slow
def test_slow_packages_are_imported_where_they_are_used() -> None:
    code = f"import sys, explainers; print([name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
