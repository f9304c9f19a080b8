"""`python -m monedula`, the same as the command `monedula`."""

from monedula.cli import main

if __name__ == "__main__":
    main()
