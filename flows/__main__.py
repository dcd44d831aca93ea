"""`python -m flows` is the `treasury` command."""

from flows.commands import main

if __name__ == "__main__":
    main()
