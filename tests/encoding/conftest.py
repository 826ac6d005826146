"""What the tests of encoders share."""

import json
import shutil

import pytest
from tests.conftest import write_csv

from surelabel import api
from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.encoding.encode import attach_encoder
from surelabel.errors import RunError


def load_encoded(config, data=None):
    """Read data and fit the encoder of its cells, as a run does."""
    return attach_encoder(load_corpus(config, data), config)


@pytest.fixture
def load(tmp_path):
    """Return a function that loads a table of these columns."""

    def read(columns, **options):
        source = write_csv(tmp_path / "t.csv", columns)
        return load_encoded(DataConfig(source=str(source), **options))

    return read


@pytest.fixture
def refuses_encoder(tmp_path):
    """Return a function that changes the encoder of a copied run, which must then be refused."""

    def check(run, change):
        shutil.copytree(run, tmp_path / "run")
        (tmp_path / "run" / "checksums.json").unlink()
        file = tmp_path / "run" / "encoder.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
        with pytest.raises(RunError, match=r"encoder\.json: "):
            api.load(tmp_path / "run")

    return check
