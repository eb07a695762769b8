"""`python -m cosycli`."""

from cosycli.cli import main

if __name__ == "__main__":
    main()
