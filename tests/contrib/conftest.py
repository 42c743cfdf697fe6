"""The server of tiny trainings is that of tests/system."""

from tests.system.conftest import trainings

__all__ = ["trainings"]
