"""A strategy for bad folders of images."""

from bad_input import BadInput, Content, Link, Pipe, commands, png, tell
from hypothesis import strategies as st

places = st.sampled_from(
    ["d/a/9.png", "d/9.png", "d/a/b/c/9.png", "d/train/9.png", "d/c/9.jpg", "d/a/9.gif", "d/ /9.png"]
)
images = st.sampled_from(
    [png(1), png(3000), png(9, "F", "TIFF"), png(9, "I;16"), png(9, "P"), png(9, "1"), png(7, "RGBA", "WEBP")]
)
cut_images = st.builds(
    lambda image, cut: image[:cut], st.sampled_from([png(), png(5, "RGB", "JPEG")]), st.integers(0, 600)
)
specials = st.sampled_from(
    [Pipe(), Link("9.png"), Link("/etc/passwd"), Link("missing.png"), Link(".."), Link("/dev/zero")]
)
odd_names = st.sampled_from(["d/\udcff.png", "d/e\u0301/1.png", "d/=c/1.png", "d/" + "n" * 200 + "/1.png", "d/a/.png"])
options = st.sampled_from(
    [
        (),
        ("--unreadable", "skip"),
        ("--cache", "off"),
        ("--set", "data.decode=stream"),
        ("--set", "data.image_size=4"),
        ("--set", "data.crop=9"),
    ]
)


@st.composite
def bad_folder(draw: st.DrawFn) -> BadInput:
    """Put odd entries among images."""
    classes = draw(st.sampled_from(["ab", "ab", "ab", "a"]))
    files: dict[str, Content] = {f"d/{label}/{n}.png": png() for label in classes for n in range(4)}
    place, odd = draw(places), draw(images | cut_images | specials | st.binary(max_size=20))
    files[place] = odd
    extra = draw(st.none() | odd_names)
    if extra is not None:
        files[extra] = png()
    settings = draw(options)
    told = f"folder {place} {tell(odd)} {extra!a:.30} {classes} {settings}"
    return BadInput(told, files, (*draw(commands), "d", *settings))
