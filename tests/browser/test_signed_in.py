"""Signing in at a real OpenID provider: who may look, who may act, and how it ends."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from looking import MAIN, Server, raised, settle, wait_until_healthy
from playwright.sync_api import Page, expect

from queue_core import open_queue

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROLES = 'admin = ["root@example.org"]\noperator = ["group:operations"]\nviewer = ["vera@example.org"]\n'
SECRETS = """
[auth]
redirect_uri = "{address}/oauth2callback"
cookie_secret = "only of this test, and long enough"
client_id = "dashboard"
client_secret = "not checked"
server_metadata_url = "http://localhost:{port}/.well-known/openid-configuration"
"""


PROVIDER = """
from oidc_provider_mock import User, run_server_in_thread

people = [
    User(sub="vera", claims={"email": "vera@example.org", "email_verified": True}),
    User(sub="otto", claims={"email": "otto@example.org", "email_verified": True, "groups": ["operations"]}),
    User(sub="eve", claims={"email": "eve@example.org", "email_verified": True}),
]
with run_server_in_thread(user_claims=people) as server:
    print(server.server_port, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[int]:
    """The port of a provider that knows three people."""
    command = [sys.executable, "-W", "ignore", "-c", PROVIDER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, provider: int, chromium: str) -> Iterator[Server]:
    """A dashboard that asks who comes."""
    home = tmp_path_factory.mktemp("guarded")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://localhost:{port}"
    (home / "roles.toml").write_text(ROLES)
    (home / "secrets.toml").write_text(SECRETS.format(address=address, port=provider))
    url = f"lmdb://{home / 'queue'}"
    environment = {**os.environ, "QUEUE_URL": url, "QUEUE_ROLES": str(home / "roles.toml"), "QUEUE_ROLE": "admin"}
    command = [
        sys.executable, "-W", "ignore", "-m", "app.serve", "--server.port", str(port),
        "--secrets.files", str(home / "secrets.toml"),
    ]  # fmt: skip
    with open_queue(url) as queue, (home / "log").open("w+") as log:
        process = subprocess.Popen(command, cwd=MAIN.parents[1], env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until_healthy(process, address)
            yield Server(address, queue, process)
        finally:
            process.terminate()
            process.wait(10)
        log.seek(0)
        assert raised(log.read()) == []
        assert queue.check() == []


def sign_in(page: Page, server: Server, who: str, path: str = "") -> None:
    """By the provider's own form."""
    page.goto(f"{server.address}/{path}")
    page.get_by_role("button", name="Sign in").click()
    page.locator("input[name=sub]").wait_for()
    page.locator(f'button[name=sub][value="{who}"]').first.click()
    page.wait_for_url(f"{server.address}/**")
    settle(page)


def test_who_has_not_signed_in_sees_nothing(page: Page, guarded: Server) -> None:
    guarded.queue.push("hidden", tag="hidden tag")
    for path in ("", "fairness", "inflight", "dead"):
        page.goto(f"{guarded.address}/{path}")
        expect(page.get_by_text("Sign in to see this queue.")).to_be_visible()
        expect(page.get_by_text("hidden tag")).to_have_count(0)


def test_a_viewer_looks_and_cannot_act(page: Page, guarded: Server) -> None:
    task = guarded.queue.push("x", tag="acme")
    guarded.queue.dead_letter(task.id, "boom")
    sign_in(page, guarded, "vera")
    expect(page.locator('[class*="st-key-sentence"]').first).to_be_visible()
    expect(page.get_by_text("vera@example.org")).to_be_visible()
    page.goto(f"{guarded.address}/dead")
    settle(page)
    redrive = page.get_by_role("button", name="Redrive")
    expect(redrive.first).to_be_disabled()


def test_an_operator_is_one_by_group(page: Page, guarded: Server) -> None:
    sign_in(page, guarded, "otto")
    expect(page.get_by_text("otto@example.org")).to_be_visible()
    expect(page.get_by_text("operator", exact=False).first).to_be_visible()


def test_who_has_no_role_sees_nothing_and_can_leave(page: Page, guarded: Server) -> None:
    sign_in(page, guarded, "eve")
    expect(page.get_by_text("Signed in as eve@example.org, who may not see this queue.")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="End session").click()
    page.goto(guarded.address)
    expect(page.get_by_text("Sign in to see this queue.")).to_be_visible()
