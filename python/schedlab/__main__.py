"""`python -m schedlab` is the command line."""

from schedlab.cli import main

if __name__ == "__main__":
    main()
