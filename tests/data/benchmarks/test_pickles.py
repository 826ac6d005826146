import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.data.benchmarks import pickles
from surelabel.data.benchmarks.pickles import read_pickle, read_torch
from surelabel.errors import DataError

CONTENT = {
    "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "labels": [1, 2],
    b"name": "x",
    "more": np.array([[1.5], [2]]),
}

# The opcodes that Python 2 wrote for {"data": uint8 array [1, 2, 200]}.
PYTHON_2 = (
    b"\x80\x02}q\x01U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
    b"(K\x01K\x03\x85cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    b"\x89U\x03\x01\x02\xc8tbs."
)


class Malicious:
    """An object that touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def read(content: bytes):
    return read_pickle(io.BytesIO(content), "file")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_plain_values_are_read(protocol):
    found = read(pickle.dumps(CONTENT, protocol))
    assert list(found) == ["data", "labels", "name", "more"]
    assert found["labels"] == [1, 2]
    for key in ("data", "more"):
        assert found[key].dtype == CONTENT[key].dtype
        assert (found[key] == CONTENT[key]).all()


def test_byte_order_and_memory_order_are_kept():
    big, columns = np.array([1, 513], dtype=">i4"), np.asfortranarray(np.arange(6).reshape(2, 3))
    for protocol in (2, 5):
        found = read(pickle.dumps({"big": big, "columns": columns}, protocol))
        assert found["big"].tolist() == [1, 513]
        assert (found["columns"] == columns).all()


def test_pickles_of_python_2_are_read():
    assert read(PYTHON_2)["data"].tolist() == [1, 2, 200]


def test_a_malicious_pickle_is_refused_and_not_run(tmp_path):
    touched = tmp_path / "touched"
    content = pickle.dumps({"data": Malicious(touched)})
    pickle.loads(content)
    assert touched.exists()  # the attack works without protection
    touched.unlink()
    with pytest.raises(DataError, match=r"file: refused as a pickle .* \(it names \w+\.\w+"):
        read(content)
    torch.save({"clean_label": Malicious(touched)}, tmp_path / "labels.pt")
    torch.save({"clean_label": Malicious(touched)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("labels.pt", "old.pt"):
        with pytest.raises(DataError, match=rf"{name}: refused as a pickle"):
            read_torch(tmp_path / name)
    assert not touched.exists()


@pytest.mark.parametrize(
    "content",
    [
        # os.system("...") by protocol 0; builtins.eval; a name inside numpy that reads files
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R.",
        b"\x80\x04\x8c\x05numpy\x8c\x08fromfile\x93\x8c\x0b/etc/passwd\x85R.",
        # ndarray called with a buffer, which would turn bytes into objects
        b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93(K\x01\x85\x8c\x01OC\x08\0\0\0\0\0\0\0\0tR.",
        # attributes of the stand-ins overwritten by BUILD
        b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93}\x8c\x08__call__K\x01sb.",
        b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93N}\x8c\x08__call__K\x01s\x86b.",
        # dotted names walk through attributes
        b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__class__\x93.",
    ],
)
def test_forged_pickles_are_refused(content):
    before = {cls: dict(vars(cls)) for cls in pickles._STAND_INS.values()}
    with pytest.raises(DataError, match="refused as a pickle"):
        read(content)
    assert {cls: dict(vars(cls)) for cls in pickles._STAND_INS.values()} == before


@pytest.mark.parametrize(
    "value",
    [np.array([None, 1], dtype=object), np.array(["a"]), np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])],
    ids=["objects", "text", "records"],
)
def test_arrays_of_anything_but_numbers_are_refused(value):
    for protocol in (2, 5):
        with pytest.raises(DataError, match="refused as a pickle"):
            read(pickle.dumps({"data": value}, protocol))


def test_an_array_whose_content_is_a_number_is_refused():
    """bytes(n) would allocate n zero bytes, however large the number in a forged file is."""
    # {"data": _frombuffer(3, dtype("u1"), (3,), "C")}
    forged = (
        b"\x80\x04}\x8c\x04data\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93"
        b"(K\x03\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02u1\x85RK\x03\x85\x8c\x01CtRs."
    )
    with pytest.raises(DataError, match="content is not bytes"):
        read(forged)


@pytest.mark.parametrize("content", [b"", b"nothing", pickle.dumps(CONTENT)[:-20], pickle.dumps([1])])
def test_damaged_files_are_named(content, tmp_path):
    with pytest.raises(DataError, match="file: refused as a pickle"):
        read(content)
    (tmp_path / "labels.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"labels\.pt: refused as a pickle"):
        read_torch(tmp_path / "labels.pt")


def test_both_formats_of_torch_are_read(tmp_path):
    labels = {"clean_label": np.arange(300), "coarse": [1, 2, 3]}
    for is_zip in (True, False):
        torch.save(labels, tmp_path / "labels.pt", _use_new_zipfile_serialization=is_zip)
        found = read_torch(tmp_path / "labels.pt")
        assert (found["clean_label"] == np.arange(300)).all()
        assert found["coarse"] == [1, 2, 3]
