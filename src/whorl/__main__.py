"""``python -m whorl`` is the ``whorl`` command."""

import sys

from whorl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
