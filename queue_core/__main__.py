"""``python -m queue_core`` is ``queue-core``."""

from queue_core.cli import main

if __name__ == "__main__":
    main()
