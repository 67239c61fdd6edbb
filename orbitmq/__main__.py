"""`python -m orbitmq` is the command `orbitmq`; it also works where no script of that name is on the PATH."""

from orbitmq.cli.__main__ import main

if __name__ == "__main__":
    main()
