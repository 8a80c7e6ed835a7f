"""One function as its own process on this machine: functions-framework and its server, with the guard in front.

What functions-framework's console script does, on a socket that `serve` bound before, so that what answers there is its own.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import functions_framework
from functions_framework._http import create_server

from local.cloud.guard import HOST, Guard

PERSON, SECRET = "HULLMARK_SERVE_PERSON", "HULLMARK_SERVE_SECRET"


def main(descriptor: int, source: str, target: str) -> None:
    """Serve until told to end. Who counts as the caller, and the secret of this run, come in the environment and leave it here."""
    person, secret = os.environ.pop(PERSON, ""), os.environ.pop(SECRET, "")
    app: Any = functions_framework.create_app(target, source)
    app.wsgi_app = Guard(app.wsgi_app, person, secret)
    create_server(app, False, bind=f"fd://{descriptor}").run(HOST, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:4])
