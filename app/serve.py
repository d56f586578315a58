"""Start the dashboard: ``python -m app.serve``, with the options of ``streamlit run``.

Refuses to listen where others could come in without signing in.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from streamlit import config

from app import signin

MAIN = Path(__file__).with_name("main.py")


def address(options: Sequence[str]) -> str | None:
    """Where the server would listen: by its options, its environment, or its file of settings."""
    for place, option in enumerate(options):
        if option == "--server.address" and place + 1 < len(options):
            return options[place + 1]
        if option.startswith("--server.address="):
            return option.partition("=")[2]
    found: str | None = config.get_option("server.address")
    return found


def main() -> None:
    """Become the server, or end with the reason."""
    options = sys.argv[1:]
    why = signin.refusal(address(options))
    if why is not None:
        sys.exit(why)
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(MAIN), *options])


if __name__ == "__main__":
    main()
