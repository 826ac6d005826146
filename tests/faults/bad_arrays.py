"""Strategies for bad arrays: npz and npy files."""

import contextlib

import numpy as np
from bad_input import BadInput, commands, npy, npz, zip_of
from hypothesis import strategies as st

BOMB = bytes(50_000_000)
"""Fifty megabytes that an archive compresses to fifty kilobytes."""
NUMBERS = ["float64", "float16", "int8", "uint8", "int64", "uint64", "bool", "complex64"]
dtypes = st.sampled_from([*NUMBERS, "U3", "S3", "object", "datetime64[s]", "timedelta64[s]", "V4"])
shapes = st.sampled_from([(24,), (24, 1), (24, 4), (24, 8, 8), (24, 3, 8, 8)]) | st.lists(
    st.sampled_from([0, 1, 2, 3, 24]), max_size=5
).map(tuple)
FILLS = {"nan": np.nan, "inf": np.inf, "huge": 1e300, "negative": -1}


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Make an array of any type and shape, often of 24 rows, perhaps with an odd element."""
    kind, shape = draw(dtypes), draw(shapes)
    array = np.full(shape, None, dtype=object) if kind == "object" else np.zeros(shape, dtype=kind)
    fill = draw(st.sampled_from(["zeros", "ramp", *FILLS]))
    place = draw(st.integers(0, max(0, array.size - 1)))
    with contextlib.suppress(ValueError, TypeError, OverflowError), np.errstate(all="ignore"):
        if fill == "ramp":
            array = (np.arange(array.size) % 3).reshape(shape).astype(kind)
        elif array.size and fill in FILLS:
            array.flat[place] = FILLS[fill]
    return array


@st.composite
def odd_members(draw: st.DrawFn) -> tuple[str, bytes]:
    """Put other arrays in place of one or two."""
    names = st.sampled_from(["x", "y", "ids", "clean", "x_test", "y_test", "class_names"])
    members = draw(st.dictionaries(names, arrays(), min_size=1, max_size=2))
    return ", ".join(f"{name} {array.dtype}{array.shape}" for name, array in members.items()), npz(**members)


@st.composite
def odd_text(draw: st.DrawFn) -> tuple[str, bytes]:
    """Put odd text in place of labels or ids."""
    odd = st.sampled_from(["a", "", " ", "\ud800", "=1", "a\nb", "é", "a" * 5000, "\t", "'"])
    texts = draw(st.lists(odd | st.text(max_size=3), min_size=24, max_size=24))
    name = draw(st.sampled_from(["y", "ids", "clean"]))
    return f"odd text in {name}", npz(**{name: np.array(texts)})


@st.composite
def damaged_archives(draw: st.DrawFn) -> tuple[str, bytes]:
    """Cut an archive off, or flip bits in it."""
    whole = bytearray(npz())
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(whole) - 1))
        return f"cut at {cut}", bytes(whole[:cut])
    flips = draw(st.lists(st.integers(0, 8 * len(whole) - 1), min_size=1, max_size=8))
    for place in flips:
        whole[place // 8] ^= 1 << place % 8
    return f"with {len(flips)} flipped bits", bytes(whole)


@st.composite
def other_archives(draw: st.DrawFn) -> tuple[str, bytes]:
    """Write an archive of something else, or under another name."""
    known = [npz(), b"", BOMB, b"\x93NUMPY", npy(np.zeros(3))]
    inner = draw(st.sampled_from(known) | st.binary(max_size=99))
    member = draw(st.sampled_from(["x.npy", "d.npz", "../x.npy", "/x.npy", "é", "x.npy/"]))
    return f"with {len(inner)} bytes as {member}", zip_of(member, inner)


@st.composite
def bad_npz(draw: st.DrawFn) -> BadInput:
    """Put arrays of any type and shape in place of good ones, or damage the archive."""
    told, content = draw(
        odd_members() | odd_members() | odd_members() | odd_text() | damaged_archives() | other_archives()
    )
    return BadInput(f"npz {told}", {"d.npz": content}, (*draw(commands), "d.npz"))


@st.composite
def bad_npy(draw: st.DrawFn) -> BadInput:
    """Write an array and its labels, one of them bad."""
    x = draw(arrays() | st.just(np.ones((24, 4))))
    y = draw(arrays() | st.just(np.arange(24) % 2))
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }"
    lengths = st.sampled_from([-1, 10**6, 10**18, 10**30])
    whole = draw(st.just(npy(x)) | st.just(npy(x)) | lengths.map(lambda length: header % length + b" " * 60))
    told = f"npy {x.dtype}{x.shape}, {y.dtype}{y.shape}, {len(whole)}"
    return BadInput(told, {"x.npy": whole, "y.npy": npy(y)}, (*draw(commands), "x.npy"))
