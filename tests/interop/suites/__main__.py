"""`python -m tests.interop.suites NAME`."""

import json
import sys

from tests.interop.suites.suite import SUITES

print(json.dumps(SUITES[sys.argv[1]].run()))
