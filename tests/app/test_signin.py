"""Who may look, in which role, and where the server may listen."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from app import control, serve, signin
from app.signin import Roles
from queue_core import InvalidArgument, Queue

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("user", "role"),
    [
        ({"email": "Ann@Example.org", "email_verified": True}, "admin"),
        ({"email": "ann@example.org"}, "admin"),
        ({"email": "ann@example.org", "email_verified": False}, "viewer"),
        ({"email": "bob@example.org", "groups": ["x", "operations"]}, "operator"),
        ({"email": "bob@example.org", "groups": "operations"}, "operator"),
        ({"email": "bob@example.org", "groups": ["Operations"]}, "viewer"),
        ({"email": "group:operations"}, "viewer"),  # an address is no group
        ({"email": ""}, "viewer"),
        ({}, "viewer"),
    ],
)
def test_the_first_role_that_fits_counts(user: dict[str, Any], role: str) -> None:
    roles = Roles(admin=("ann@example.org",), operator=("group:operations",), viewer=("*",))
    assert roles.of(user) == role


def test_who_is_not_named_has_no_role() -> None:
    assert Roles(admin=("ann@example.org",), viewer=()).of({"email": "bob@example.org"}) is None
    assert Roles().of({"email": "bob@example.org"}) == "viewer"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("admin = 'ann@example.org'", "admin = 'ann@example.org' is not meant"),
        ("boss = ['ann@example.org']", "boss = .* is not meant: it has claim, hours"),
        ("hours = true", "hours = True is not meant"),
        ("viewer = [5]", "viewer is a list of e-mail addresses"),
        ("viewer = [", "cannot be read"),
    ],
)
def test_a_file_of_roles_that_cannot_be_meant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    (tmp_path / "roles.toml").write_text(text)
    monkeypatch.setenv("QUEUE_ROLES", str(tmp_path / "roles.toml"))
    with pytest.raises(InvalidArgument, match=said):
        signin.roles()


def test_the_file_of_roles_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "roles.toml").write_text('claim = "teams"\nhours = 1.5\noperator = ["group:ops"]\nviewer = []\n')
    monkeypatch.setenv("QUEUE_ROLES", str(tmp_path / "roles.toml"))
    assert signin.roles() == Roles("teams", 1.5, (), ("group:ops",), ())
    monkeypatch.setenv("QUEUE_ROLES", str(tmp_path / "none.toml"))
    with pytest.raises(InvalidArgument, match="cannot be read"):
        signin.roles()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_this_machine_alone_needs_no_sign_in(address: str) -> None:
    assert signin.refusal(address) is None


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "::", "192.168.1.5", "queue.example.org"])
def test_a_public_address_without_sign_in_is_refused(address: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "it is not served there" in (signin.refusal(address) or "")
    monkeypatch.setenv(signin.PUBLIC, "true")
    assert signin.refusal(address) is not None
    monkeypatch.setenv(signin.PUBLIC, "yes")
    assert signin.refusal(address) is None
    monkeypatch.delenv(signin.PUBLIC)
    monkeypatch.setattr(signin, "configured", lambda: True)
    assert signin.refusal(address) is None


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (["--server.address", "0.0.0.0"], "0.0.0.0"),
        (["--server.port", "1", "--server.address=::"], "::"),
        (["--server.address="], ""),
    ],
)
def test_where_it_would_listen_is_read_from_the_options(options: list[str], address: str) -> None:
    assert serve.address(options) == address


def test_the_server_refuses_to_listen(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.serve", "--server.address", "0.0.0.0", "--server.port", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "open to everybody who can reach 0.0.0.0, without sign-in" in done.stderr


def test_a_sign_in_ends_after_its_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"is_logged_in": True, "iat": time.time() - 11 * 3_600}
    monkeypatch.setattr(st, "user", user)
    assert signin.signed_in()
    user["iat"] = time.time() - 13 * 3_600
    assert not signin.signed_in()
    user["is_logged_in"] = False
    assert not signin.signed_in()


def test_an_action_is_done_in_the_role_of_who_is_signed_in(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever QUEUE_ROLE says, and whatever the page shows: who is nobody does nothing."""
    monkeypatch.setattr(signin, "configured", lambda: True)
    monkeypatch.setenv("QUEUE_ROLE", "admin")
    monkeypatch.setattr(st, "user", {"is_logged_in": True, "email": "eve@example.org"})
    assert control.role() == "viewer"
    monkeypatch.setattr(st, "user", {})
    assert control.role() == "viewer"
    assert not control.may("redrive")
    assert os.environ["QUEUE_URL"]
