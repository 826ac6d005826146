"""`surelabel methods`."""

from typing import Annotated, Any

import typer

from surelabel import screen
from surelabel.cli.application import Json, app


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one with its options.")] = None,
    json: Json = False,
) -> None:
    """The training methods there are, or one of them with its options."""
    from surelabel.catalogue import described
    from surelabel.methods import names

    found = [described(one) for one in (names() if name is None else [name])]
    if json:
        screen.say_json(found)
    elif name is None:
        _say_methods(found)
        screen.say("Options of one: surelabel methods NAME   Use it: surelabel fit DATA --method NAME")
    else:
        _say_method(found[0])


def _say_methods(found: list[dict[str, Any]]) -> None:
    plain = ("name", "year", "kind", "networks")
    rows = [
        [
            *(method[column] for column in plain),
            method["forward_passes"],
            method["backward_passes"],
            ", ".join(method["stages"]),
            _state_text(method),
        ]
        for method in found
    ]
    screen.say_table((*plain, "forward", "backward", "stages", "state per sample"), rows, wrap=True)
    screen.say("\nforward, backward: passes of a network over a batch in one step. N samples, K classes.")


def _state_text(method: dict[str, Any]) -> str:
    return ", ".join(f"{table['name']} ({' x '.join(table['shape'])})" for table in method["state"]) or "none"


def _say_method(method: dict[str, Any]) -> None:
    screen.say_prose(f"{method['name']}: {method['summary']}\n{method['paper']}, {method['year']} ({method['kind']})\n")
    screen.say_prose(
        f"Networks: {method['networks']}. Passes a step: {method['forward_passes']} forward, "
        f"{method['backward_passes']} backward. Stages: {', '.join(method['stages'])}. "
        f"State per sample: {_state_text(method)}.\n"
    )
    if not method["options"]:
        screen.say("It has no options.")
        return
    rows = [
        [
            option["name"],
            option["type"],
            "by rule" if option["default"] is None else str(option["default"]),
            option["help"],
        ]
        for option in method["options"]
    ]
    screen.say_table(("name", "type", "default", "help"), rows, wrap=True)
    first = method["options"][0]["name"]
    screen.say(f"\nSet one: surelabel fit DATA --method {method['name']} --set method.{first}=VALUE")
