"""Errors of the command line itself."""

from __future__ import annotations

from shared.domain.reasons.reason import Group, Reason

COMMANDS = Group(
    title="The command line",
    said_by="`hullmark`, with `--output json` in `errors[].reason`",
    modules=("local/cli/",),
    reasons={
        "LeaseLost": Reason(
            "another forwarder is active now: this one ended, so that it can stand by again", "nothing, where a Deployment starts it again"
        ),
        "Usage": Reason("the arguments don't fit together", "read `hullmark COMMAND --help`"),
        "UnknownKind": Reason("Hullmark has no document of this kind", "name one that `hullmark docs` lists"),
        "Error": Reason("the command failed", "do what the message says"),
        "File": Reason("a file can't be read or written", "correct its name or its rights"),
        "NotFound": Reason("a file or folder is not there, is no regular file, is too large, or holds no documents", "name another"),
        "Invalid": Reason("a file does not have the expected contents", "correct it as the message says"),
        "OutsideFolder": Reason("a symbolic link leads out of the folder that is read", "name its target with `-f` to include it"),
        "NotEmpty": Reason("`hullmark init` makes a folder, and something is there already", "name one that is not there yet"),
        "NoNodes": Reason("the cluster has no nodes", "name another with `--cluster`, or `hullmark init --nodes FILE`"),
        "NothingToDeclare": Reason("kubelets, clouds and add-ons set every label of the nodes", "write a policy (docs/documents.md)"),
        "NodeNotFound": Reason("the simulated cluster has no node of this name", "add one with `hullmark simulate add NODE`"),
        "NotSimulated": Reason("`hullmark simulate` changes simulated clusters only", "name one with `--cluster`, or use kubectl"),
        "PortTaken": Reason("another process listens on this port", "take another with `--port`"),
        "Unreachable": Reason("the server does not answer", "correct `--server`, or start it"),
        "Redirected": Reason("the server redirects, and tokens are not sent to another address", "give `--server` the final address"),
        "InsecureServer": Reason("a token would travel in plain text", "use https://"),
        "NotHullmark": Reason("what answers at this address is not Hullmark", "correct `--server`"),
        "NoToken": Reason("there is no identity token for this server", "set `HULLMARK_TOKEN`, or log in with gcloud"),
        "NotAllowed": Reason("the server does not let this identity call it", "get access for it, or use another identity's token"),
        "ServerError": Reason("the server failed without saying why", "read its log"),
    },
)
