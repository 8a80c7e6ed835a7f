"""What the container image runs: `function NAME` serves a function as the cloud would, everything else is the hullmark command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from local import steps
from local.steps import ROOT


def main(arguments: Sequence[str]) -> None:
    """Become functions-framework, or the command."""
    if arguments[:1] != ["function"]:
        from local.cli import main as command

        sys.argv = ["hullmark", *arguments]
        command()
        return
    known = steps.load().steps
    if len(arguments) != 2 or arguments[1] not in known:
        sys.exit(f"function NAME, where NAME is one of {', '.join(known)}")
    command_line, environment = served(arguments[1], os.environ)
    os.chdir(ROOT)
    os.execvpe(command_line[0], command_line, environment)  # noqa: S606 - the framework's own script, with its name from steps.yaml


def served(name: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The framework's command for a function, and its environment: what Terraform would set, under what is set already."""
    step = steps.load().steps[name]
    source = str(step.source.relative_to(ROOT))
    port = environment.get("PORT", "8080")
    command = ["functions-framework", "--source", source, "--target", name, "--port", port]
    defaults = {"THREADS": str(step.concurrency), "HULLMARK_TIMEOUT_SECONDS": str(step.timeout), "PYTHONPATH": str(ROOT)}
    return command, {**defaults, **environment}


if __name__ == "__main__":
    main(sys.argv[1:])
