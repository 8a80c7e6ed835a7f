"""The installed command. What the product consists of lies beside this file once it is installed, and beside its folder in a checkout.

Its own names, `functions`, `shared` and `local`, are put on the path of this process only: in other people's site-packages there is but
one name, `hullmark`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run the `hullmark` command."""
    house = HERE if (HERE / "shared").is_dir() else HERE.parent
    if str(house) not in sys.path:
        sys.path.insert(0, str(house))
    importlib.import_module("local.cli").main()
