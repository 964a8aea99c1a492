"""What the document cannot say about a sound request."""

import os
import re
import zlib

import schemathesis

RECEIVER = os.environ["CONTRACT_RECEIVER"]
# The ids of the keys that this run itself asks with.
OWN_KEYS = os.environ["CONTRACT_KEYS"].split()
TENANT = "alpha"
BUILT_IN_KEY = "built-in"


def is_sound(case) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


def may_be_contacted(url: str) -> bool:
    """As the URL standard reads it: whatever is no http is refused, and goes nowhere."""
    return re.sub("[\t\r\n]", "", url).lstrip("".join(map(chr, range(33)))).lower().startswith("http")


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict):
        mend_body(case.body, is_sound(case))
    if is_sound(case) and case.query:
        mend_query(case.query, case.operation.path)
    if case.operation.path == "/v1/keys/{id}" and case.path_parameters.get("id") in OWN_KEYS:
        case.path_parameters["id"] = BUILT_IN_KEY


def mend_query(query: dict, path: str):
    # Cursors cannot be made up.
    query.pop("cursor", None)
    # A tenant exists once it has a key, and a key belongs to one tenant.
    if "tenant" in query:
        if path == "/v1/keys/{id}":
            del query["tenant"]
        else:
            query["tenant"] = TENANT


def mend_body(body: dict, sound: bool):
    url = body.get("url")
    # Nothing is delivered anywhere but to this machine.
    if isinstance(url, str) and len(url) <= 2048 and (sound or may_be_contacted(url)):
        body["url"] = f"{RECEIVER}/contract-{zlib.crc32(url.encode()) % 7}"
    # Keys expire in the future.
    if sound and isinstance(body.get("expires_at"), str):
        body["expires_at"] = "2999-12-31T00:00:00Z"
