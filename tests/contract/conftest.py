"""What the contract tests share."""

import pytest

from surelabel.engine.loop import Engine


@pytest.fixture
def engines(monkeypatch):
    """The engines of all runs that a test makes, for a look at tables that no file has."""
    made = []
    run = Engine.run

    def remember(self, *args, **options):
        made.append(self)
        return run(self, *args, **options)

    monkeypatch.setattr(Engine, "run", remember)
    return made
