"""`python -m monedula.prometheus dashboard`, or `alerts`: prints the file."""

import sys

from monedula.prometheus import alert_rules, dashboard

FILES = {"dashboard": dashboard, "alerts": alert_rules}

if __name__ == "__main__":
    wanted = sys.argv[1:]
    if len(wanted) != 1 or wanted[0] not in FILES:
        sys.exit(f"usage: python -m monedula.prometheus {'|'.join(FILES)}")
    sys.stdout.write(FILES[wanted[0]]())
