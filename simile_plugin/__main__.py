"""`python -m simile_plugin` is the `simile` command."""

from simile_plugin.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
