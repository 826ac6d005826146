"""The page's own files: read once, from the package, by name."""

from importlib.resources import files

from fastapi import HTTPException
from fastapi.responses import Response

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Assets:
    """The files of the folder page/, and nothing else."""

    def __init__(self) -> None:
        folder = files("surelabel.reviewing") / "page"
        self.content = {file.name: file.read_bytes() for file in folder.iterdir() if _suffix(file.name) in KINDS}

    def index(self) -> Response:
        """The page."""
        return self.file("index.html")

    def file(self, name: str) -> Response:
        """A file that the page asks for."""
        if name not in self.content:
            raise HTTPException(404)
        return Response(self.content[name], media_type=KINDS[_suffix(name)])


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
