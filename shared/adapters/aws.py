"""AWS credentials: found as every AWS tool finds them, or those of a role that the function's Google identity assumes.

The second needs no key anywhere: Google signs who the function is (an ID token), AWS trusts Google for it, and STS gives credentials for
an hour (AssumeRoleWithWebIdentity), which are renewed before they end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.ports import Refused, Unavailable

AUDIENCE = "sts.amazonaws.com"
"""What the ID token is for; a role's trust policy asks for it as `accounts.google.com:oaud`."""
SESSION = "hullmark"
"""What CloudTrail calls us."""


def session(region: str, role: str | None = None, identity: Callable[[], str] | None = None) -> Any:
    """A boto3 session. `identity` says who we are, as an ID token for AUDIENCE: Google's metadata server, where nothing else is given."""
    import boto3

    if role is None:
        return boto3.Session(region_name=region)
    import botocore.session
    from botocore.credentials import AssumeRoleWithWebIdentityCredentialFetcher, DeferredRefreshableCredentials

    inner = botocore.session.get_session()
    inner.set_config_variable("region", region)
    fetcher = AssumeRoleWithWebIdentityCredentialFetcher(
        client_creator=inner.create_client,
        web_identity_token_loader=identity or google_identity,
        role_arn=role,
        extra_args={"RoleSessionName": SESSION},
    )
    inner._credentials = DeferredRefreshableCredentials(method="assume-role-with-web-identity", refresh_using=fetcher.fetch_credentials)
    return boto3.Session(botocore_session=inner, region_name=region)


def google_identity() -> str:
    """The ID token that Google signs for the account we run as. Raises Refused where there is none, Unavailable where nobody answers."""
    import urllib3
    from google.auth import exceptions
    from google.auth.transport.urllib3 import Request
    from google.oauth2 import id_token

    try:
        return str(id_token.fetch_id_token(Request(urllib3.PoolManager()), AUDIENCE))  # type: ignore[no-untyped-call]
    except exceptions.TransportError as error:
        raise Unavailable(f"Google's metadata server: {error}") from error
    except exceptions.GoogleAuthError as error:
        raise Refused(
            "Unauthorized",
            f"no Google identity to assume an AWS role with: {error}. It works where a Google service account runs;"
            " elsewhere leave roleArn out",
        ) from error
