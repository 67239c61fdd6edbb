"""`python -m orbitmq` is the command `orbitmq`, also where no script of that name is in reach."""

from orbitmq.cli.__main__ import main

if __name__ == "__main__":
    main()
