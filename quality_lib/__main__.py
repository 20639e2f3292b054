"""``python -m quality_lib`` is the command ``quality``."""

from quality_lib.cli import main

if __name__ == "__main__":
    main()
