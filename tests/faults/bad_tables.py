"""Strategies for bad tables: csv files as data, and files of labels."""

from bad_arrays import arrays
from bad_input import BadInput, Pipe, commands, npy, npz, tell
from hypothesis import strategies as st

HEADER = "id,f,g,label"
ROWS = tuple(f"{n},{n / 7:.3f},{-n / 3:.3f},{'ab'[n % 2]}" for n in range(24))
rows, columns = st.integers(0, len(ROWS) - 1), st.integers(0, 3)
cells = st.text(max_size=6) | st.sampled_from(
    ["nan", "inf", "-inf", "1e999", "", " ", "x", "1,5", '"', '"a', "\0", "é", "\u202e", "=1+1", "\ud800", "9" * 400]
)
headers = st.sampled_from(
    ["", "label", "a,b,c,d", ",,,", "id,label,f,f", "LABEL,Label,label,x", "x" * 9999, "\0,b,c,d"]
)
codecs = st.sampled_from(["utf-16", "utf-32", "utf-7", "latin-1", "cp037", "utf-16-le"])


def _join(*lines: str) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogatepass")


@st.composite
def odd_cell(draw: st.DrawFn) -> bytes:
    """Put something else in place of a cell."""
    row, column, cell = draw(rows), draw(columns), draw(cells)
    changed = [cell if at == column else old for at, old in enumerate(ROWS[row].split(","))]
    return _join(HEADER, *ROWS[:row], ",".join(changed), *ROWS[row + 1 :])


@st.composite
def odd_columns(draw: st.DrawFn) -> bytes:
    """Leave a column out, repeat it, or make a row longer than the others."""
    row, column = draw(rows), draw(columns)
    lines = [line.split(",") for line in (HEADER, *ROWS)]
    how = draw(st.sampled_from(["missing", "twice", "long"]))
    if how == "missing":
        lines = [[cell for at, cell in enumerate(line) if at != column] for line in lines]
    elif how == "twice":
        lines = [[*line, line[column]] for line in lines]
    else:
        lines[row + 1] += ["9"] * draw(st.integers(1, 8))
    return _join(*(",".join(line) for line in lines))


@st.composite
def odd_rows(draw: st.DrawFn) -> bytes:
    """Give few rows, one twice, one class only, or another header."""
    row = draw(rows)
    kind = draw(st.sampled_from(["few", "twice", "one class", "header"]))
    if kind == "few":
        return _join(HEADER, *ROWS[:row])
    if kind == "twice":
        return _join(HEADER, *ROWS, ROWS[row])
    if kind == "header":
        return _join(draw(headers), *ROWS[: row + 1])
    label = draw(st.sampled_from(["a", "", "0", "-1", "=1"]))
    return _join(HEADER, *(line[:-1] + label for line in ROWS[: row + 1]))


@st.composite
def odd_encoding(draw: st.DrawFn) -> bytes:
    """Encode a table in another way."""
    return ("\n".join([HEADER, *ROWS]) + f"\né{draw(rows)},1,2,a\n").encode(draw(codecs))


@st.composite
def cut_table(draw: st.DrawFn) -> bytes:
    """Cut a table off, and end it with an odd byte."""
    whole = _join(HEADER, *ROWS)
    return whole[: draw(st.integers(0, len(whole)))] + draw(st.sampled_from([b"", b"\0", b'"', b"\xff", b"\r"]))


@st.composite
def bad_csv(draw: st.DrawFn) -> BadInput:
    """Damage a table."""
    content = draw(odd_cell() | odd_cell() | odd_columns() | odd_rows() | odd_encoding() | cut_table())
    file = draw(st.sampled_from(["d.csv", "d.csv", "d.tsv"]))
    return BadInput(f"{file} {content[-60:]!r}", {file: content}, (*draw(commands), file))


@st.composite
def label_files(draw: st.DrawFn) -> bytes:
    """Write ids and labels, some of them odd."""
    lines = [f"{n},{n % 2}" for n in range(24)]
    odd = st.sampled_from([",", "0,", ",1", "99,1", "0,9", "0,-1", "\0,\0", '"', "0;1", "=1,1", "'=1,1"])
    lines[draw(rows)] = draw(odd | st.text(max_size=6))
    header = draw(st.sampled_from(["id,label", "id", "label,id", "ID,Label", "a,b", ""]))
    text = "\n".join([header, *lines[: draw(st.integers(0, 24))]])
    return draw(st.sampled_from([text.encode(), text.encode("utf-16"), text.encode() + b"\xff"]))


@st.composite
def bad_label_file(draw: st.DrawFn) -> BadInput:
    """Give labels, confirmed rows or noise in a bad file."""
    content = draw(label_files() | label_files() | arrays().map(npy) | st.just(b"") | st.just(Pipe()))
    name = draw(st.sampled_from(["l.csv", "l.npy", "l.txt", "l.json"]))
    option = draw(st.sampled_from([("--labels", name), ("--trusted", name), ()]))
    command = draw(commands) if option else ("noise", "--noise", f"file:{name}", "--out", "noisy.npy")
    return BadInput(f"{name} {tell(content)} {option}", {"d.npz": npz(), name: content}, (*command, "d.npz", *option))
