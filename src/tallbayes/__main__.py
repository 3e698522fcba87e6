"""`python -m tallbayes` is the command `tallbayes`."""

from tallbayes.cli import main

if __name__ == "__main__":
    main()
