"""Encoded images: table columns behave like lists of bytes, and hashes show changes."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pytest

from surelabel.data.images.encode import ArrowBytes, Blobs, Files

BLOBS = [b"one", b"", b"three", b"fo", b"5"]
NAMES = list("abcde")


def columns():
    """Yield the same bytes in every form that pyarrow may use."""
    long = pa.array([b"before", *BLOBS, b"after"])
    yield pytest.param(pa.array(BLOBS), id="array")
    yield pytest.param(pa.chunked_array([BLOBS[:2], [], BLOBS[2:]], pa.binary()), id="chunks")
    yield pytest.param(pa.array(BLOBS, pa.large_binary()), id="large")
    yield pytest.param(long.slice(1, 5), id="slice")
    yield pytest.param(pa.chunked_array([long]).slice(1, 5), id="slice of chunks")
    yield pytest.param(pa.chunked_array([long]).take(pa.array([1, 2, 3, 4, 5])), id="taken")
    yield pytest.param(pa.array([{"bytes": blob} for blob in BLOBS]).field("bytes"), id="struct")


@pytest.mark.parametrize("column", list(columns()))
def test_a_column_behaves_like_a_list(column):
    encoded, listed = Blobs(ArrowBytes(column), NAMES), Blobs(BLOBS, NAMES)
    assert len(encoded) == 5
    assert [encoded.open(row).read() for row in range(5)] == BLOBS
    assert encoded.digest() == listed.digest() == encoded.stamp()
    assert encoded.subset(np.array([2, 0])).digest() == Blobs([b"three", b"one"], ["c", "a"]).digest()
    assert pickle.loads(pickle.dumps(encoded)).digest() == listed.digest()


def test_columns_of_fixed_size_are_cast():
    assert ArrowBytes(pa.array([b"ab", b"cd"], pa.binary(2)))[1] == b"cd"


def test_no_images():
    assert len(ArrowBytes(pa.chunked_array([], pa.binary()))) == 0


def test_the_digest_depends_on_where_bytes_are_divided():
    assert Blobs([b"ab", b"c"], NAMES).digest() != Blobs([b"a", b"bc"], NAMES).digest()


class TestFiles:
    @pytest.fixture
    def paths(self, tmp_path):
        paths = [tmp_path / "a" / name for name in NAMES]
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"content")
        return paths

    def test_the_digest_notices_a_change_that_keeps_size_and_time(self, paths):
        files, status = Files(paths), paths[1].stat()
        digest, stamp = files.digest(), files.stamp()
        assert Files(paths).digest() == digest
        paths[1].write_bytes(b"CONTENT")
        os.utime(paths[1], ns=(status.st_atime_ns, status.st_mtime_ns))
        assert files.digest() != digest
        assert files.stamp() == stamp

    def test_the_digest_depends_on_the_order(self, paths):
        assert Files(paths[::-1]).digest() != Files(paths).digest()

    def test_a_missing_file_changes_the_digest_without_an_error(self, paths):
        digest = Files(paths).digest()
        paths[2].unlink()
        assert Files(paths).digest() != digest
