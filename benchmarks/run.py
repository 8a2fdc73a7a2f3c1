"""Every figure that the project promises, one after the other: `make bench`."""

import subprocess
import sys
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.name != "run.py":
        subprocess.run([sys.executable, script], check=True)
