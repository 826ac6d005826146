"""`python -m surelabel` is the command `surelabel`."""

from surelabel.cli import main

if __name__ == "__main__":
    main()
