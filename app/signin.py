"""Who may look, and in which role: by OpenID Connect where ``[auth]`` is configured, else by ``QUEUE_ROLE``.

Streamlit's own sign-in reads ``[auth]`` from ``.streamlit/secrets.toml``. Which e-mail address or group has which role
says the TOML file that ``QUEUE_ROLES`` names::

    claim = "groups"                        # the claim that holds groups
    hours = 12                              # after that, sign in again
    admin = ["ann@example.org"]
    operator = ["group:operations"]
    viewer = ["*"]                          # whoever has signed in

Without sign-in the server is for this machine alone, unless ``QUEUE_PUBLIC_WITHOUT_SIGN_IN=yes`` says otherwise.
"""

import ipaddress
import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from queue_core import InvalidArgument

PUBLIC = "QUEUE_PUBLIC_WITHOUT_SIGN_IN"
ROLES = ("admin", "operator", "viewer")  # the first that fits counts
REFUSED = (
    "This dashboard would be open to everybody who can reach {address}, without sign-in: it is not served there. "
    f"Listen on 127.0.0.1, configure [auth] in .streamlit/secrets.toml, or set {PUBLIC}=yes if that is what you want."
)


@dataclass(frozen=True)
class Roles:
    """Who has which role. Raises InvalidArgument for a file that cannot be meant."""

    claim: str = "groups"
    hours: float = 12
    admin: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    viewer: tuple[str, ...] = ("*",)

    def of(self, user: Mapping[str, Any]) -> str | None:
        """The role of somebody by the claims of a sign-in; None: none. An unverified address does not count."""
        address = str(user.get("email") or "") if user.get("email_verified", True) is True else ""
        found = user.get(self.claim) or ()
        groups = {f"group:{group}" for group in ([found] if isinstance(found, str) else found)}
        for role in ROLES:
            named = getattr(self, role)
            people = {name.casefold() for name in named if not name.startswith("group:")}  # an address is no group
            if "*" in named or address.casefold() in people or groups & set(named):
                return role
        return None


def roles() -> Roles:
    """As the file says that ``QUEUE_ROLES`` names; without one, whoever signs in may look."""
    path = os.environ.get("QUEUE_ROLES")
    if not path:
        return Roles()
    try:
        found = tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(f"QUEUE_ROLES names {path}, which cannot be read ({error})") from None
    kinds: dict[str, type | tuple[type, ...]] = {
        "claim": str, "hours": (int, float), "admin": list, "operator": list, "viewer": list,
    }  # fmt: skip
    for name, value in found.items():
        if name not in kinds or not isinstance(value, kinds[name]) or isinstance(value, bool):
            raise InvalidArgument(f"{path}: {name} = {value!r:.60} is not meant: it has {', '.join(kinds)}")
        if isinstance(value, list) and not all(isinstance(one, str) and one for one in value):
            raise InvalidArgument(f"{path}: {name} is a list of e-mail addresses, of group:NAME, or of *")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return Roles(**given)


def configured() -> bool:
    """Whether there is somebody to sign in at."""
    try:
        return "auth" in st.secrets
    except StreamlitSecretNotFoundError:
        return False


def is_loopback(address: str | None) -> bool:
    """Whether only this machine reaches a server at this address. None is every address."""
    if address in (None, ""):
        return False
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(address)).is_loopback
    except ValueError:
        return False


def refusal(address: str | None) -> str | None:
    """Why the dashboard is not to be served at an address; None: it may be."""
    if is_loopback(address) or configured() or os.environ.get(PUBLIC) == "yes":
        return None
    return REFUSED.format(address=address or "this machine")


def role() -> str | None:
    """The role of who looks at the page; None: none. Raises InvalidArgument."""
    if configured():
        return roles().of(st.user) if signed_in() else None
    return os.environ.get("QUEUE_ROLE") or "operator"


def signed_in() -> bool:
    """Whether somebody has, and not too long ago."""
    return bool(st.user.get("is_logged_in")) and not _stale()


def _stale() -> bool:
    begun = st.user.get("iat")
    return isinstance(begun, int | float) and time.time() - begun > roles().hours * 3_600


def gate() -> None:
    """Let through who may look; for all others this run of the page ends here."""
    why = refusal(st.get_option("server.address"))
    if why is not None:
        st.error(why, icon=":material/lock:")
        st.stop()
    if not configured():
        return
    if not signed_in():
        st.title("queue_core")
        st.text("Sign in to see this queue.")
        st.button("Sign in", type="primary", icon=":material/login:", on_click=st.login, key="sign-in")
        st.stop()
    if roles().of(st.user) is None:
        st.text(f"Signed in as {st.user.get('email') or st.user.get('sub')}, who may not see this queue.")
        st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="sign-out")
        st.stop()
