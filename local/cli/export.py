"""`hullmark export`: what node templates need, from the same policies: autoscalers then know the labels of nodes that are not there yet."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import cast

import click

from local.cli.cloud import service
from local.cli.inputs import documents_option, read_bytes, read_files
from local.cli.output import PENDING, Failure
from shared.domain.documents.kinds import did_you_mean
from shared.domain.keys import is_subdomain, key_error, value_error
from shared.domain.labels.policies import Policies, PolicyConflict
from shared.domain.labels.templates import FORMATS, Format, Template, rendered, template
from shared.domain.site import load


@click.command()
@documents_option
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="Which system makes the nodes.")
@click.option("--pool", "name", required=True, help="The pool's name in that system.")
@click.option("--labels", "own", metavar="KEY=VALUE,…", help="What the pool's template gives its nodes: policies select by these.")
@click.option("--policy", help="Take those labels from this policy's matchLabels.")
@click.option("--cluster", help="Apply the policies for this cluster. Default: the one Cluster that the documents declare.")
@click.option("--check", "compared", metavar="FILE", help="Print nothing where FILE says the same; else the difference, and exit 2.")
def export(
    files: tuple[str, ...], form: str, name: str, own: str | None, policy: str | None, cluster: str | None, compared: str | None
) -> int:
    """Print the labels and startup taints of a pool of nodes for its template: of the documents in -f, or of the newest revision.

    A pool is known by the labels that its template gives its nodes. Policies that select by node name, rack or tag say nothing of it.
    """
    if not is_subdomain(name):
        raise Failure("Usage", f"--pool: {name[:80]!r} is no name that a pool can have: lower-case letters, digits and -")
    policies = policies_of(files)
    made = template(name, _own(own, policy, policies), policies, cluster_of(cluster, policies), cast("Format", form))
    if isinstance(made, PolicyConflict):
        raise Failure("Usage", f"policies contradict each other about this pool: {made.message}")
    _say(made, policies)
    text = rendered(made, cast("Format", form))
    if compared is None:
        click.echo(text, nl=False)
        return 0
    return _differs(read_bytes(compared).decode(errors="replace"), text, compared)


def policies_of(files: Sequence[str]) -> Policies:
    """Those of the files, or of the newest revision. Raises Failure."""
    if files:
        return load(read_files(files)).policies
    declared = service().documents.declared()
    if declared is None:
        raise Failure("NoCommittedRevision", "no documents: give -f FILE or a folder, or commit some")
    return declared.policies


def _own(given: str | None, policy: str | None, policies: Policies) -> Mapping[str, str]:
    if (given is None) == (policy is None):
        raise Failure("Usage", "say how the pool's nodes are known: --labels pool=gpu, or --policy NAME (one of them)")
    if policy is None:
        return _labels(given or "")
    found = {each.name: each for each in policies.all}
    if policy not in found:
        raise Failure("Usage", f"no NodeLabelPolicy is named {policy}{did_you_mean(policy, found)}")
    selected = found[policy].spec.nodes.match_labels
    if not selected:
        raise Failure("Usage", f"{found[policy].title} has no matchLabels: say what the pool's nodes have, --labels pool=gpu")
    return selected


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for each in filter(None, text.split(",")):
        key, equals, value = each.partition("=")
        problem = "write KEY=VALUE" if not equals else key_error(key) or value_error(value)
        if problem or key in labels:
            raise Failure("Usage", f"--labels: {each[:80]!r}: {problem or 'the key is here twice'}")
        labels[key] = value
    return labels


def cluster_of(asked: str | None, policies: Policies) -> str:
    """The cluster that is meant: the one asked for, or the only one that is declared. Raises Failure."""
    declared = sorted(policies.clusters)
    known = {*declared, *policies.named_clusters(), "default"}
    if asked is not None and declared and asked not in known:
        raise Failure("ClusterUnknown", f"the documents name no cluster {asked}{did_you_mean(asked, known)}")
    return asked or (declared[0] if len(declared) == 1 else "default")


def _say(made: Template, policies: Policies) -> None:
    """On stderr: what the template can't give, and what a template can't be known by."""
    for key, why in made.left_out.items():
        click.echo(f"note: {key} is left out: {why}; Hullmark brings it when the node is there", err=True)
    by_node = [each.title for each in policies.all if each.spec.nodes.names or each.spec.nodes.racks or each.spec.nodes.tags]
    if by_node:
        click.echo(f"note: {', '.join(by_node[:5])}: selected by name, rack or tag, so no template has these labels", err=True)
    if not made.labels and not made.taints:
        click.echo(f"note: no policy selects the pool {made.name}", err=True)


def _differs(there: str, text: str, file: str) -> int:
    if there == text:
        return 0
    changes = difflib.unified_diff(there.splitlines(keepends=True), text.splitlines(keepends=True), file, "what the documents say")
    click.echo("".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes), nl=False)
    return PENDING
