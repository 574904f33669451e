"""The secrets of visitors: nobody makes one up, and the key that signs them is nobody's to read."""

from __future__ import annotations

from pathlib import Path
from string import ascii_letters

import pytest

from vitrine_server.http.visitors import KEY_FILE, Visitor, VisitorSecrets, site_of


def test_a_secret_is_read_here_alone_and_as_it_was_made(tmp_path: Path) -> None:
    here = VisitorSecrets(tmp_path)
    owner, secret = here.new()
    assert VisitorSecrets(tmp_path).read(secret) == owner  # after a start again, too
    assert len(owner) == 32
    assert here.new()[0] != owner
    (tmp_path / "other").mkdir()
    head, _, signature = secret.rpartition(".")
    other_signature = f"{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"
    other_head = f"{'1' if head[0] == '0' else '0'}{head[1:]}"
    elsewhere = VisitorSecrets(tmp_path / "other").new()[1]
    padded = (f"{secret}=", f"{secret}====", f"{secret}!", f"{secret} ", f"{secret}\n", f"{head}.!{signature}")
    # the last letter has two bits that decode to nothing
    decodes_alike = (f"{head}.{signature[:-1]}{letter}" for letter in ascii_letters if letter != signature[-1])
    altered = (*padded, *decodes_alike, f"{head}.{other_signature}", f"{other_head}.{signature}", owner, f"{owner}.", "", "\udcff", "ü.ü")
    for forged in (*altered, elsewhere, here.signer("login").sign(owner).decode()):
        assert here.read(forged) is None, forged


def test_the_key_is_private_and_a_broken_one_is_said(tmp_path: Path) -> None:
    VisitorSecrets(tmp_path)
    key = tmp_path / KEY_FILE
    assert (key.stat().st_mode & 0o777, len(key.read_bytes())) == (0o600, 32)
    key.write_bytes(b"short")
    with pytest.raises(OSError, match="is not the key"):
        VisitorSecrets(tmp_path)


def test_what_belongs_to_nobody_is_nobodys() -> None:
    visitor = Visitor("a", "a", "10.0.0.1")
    assert visitor.owns("a")
    assert not visitor.owns("b")
    assert not visitor.owns("")
    assert not Visitor().owns("")
    assert Visitor(is_alone=True).owns("")
    assert Visitor(is_alone=True).owns("b")


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_addresses_of_one_site_are_one(address: str, site: str) -> None:
    assert site_of(address) == site
