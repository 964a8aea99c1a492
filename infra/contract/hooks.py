"""What the document cannot say about a sound request."""

import json
import os
import re
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

RECEIVER = os.environ["CONTRACT_RECEIVER"]
# The ids of the keys that this run itself asks with.
OWN_KEYS = os.environ["CONTRACT_KEYS"].split()
# Things that stay, by the first part of their paths.
KEPT = json.loads(os.environ["CONTRACT_KEPT"])
TENANT = "default"
BUILT_IN_KEY = "built-in"
NO_SUBSCRIPTION = "sub_00000000000000000000000000"


def is_sound(case, location: ParameterLocation) -> bool:
    """Whether this part of the request is as the document wants it. Another part may be unsound on purpose."""
    return case.meta is not None and not case.meta.is_negative_at(location)


def may_be_contacted(url: str) -> bool:
    """As the URL standard reads it: whatever is no http is refused, and goes nowhere."""
    return re.sub("[\t\r\n]", "", url).lstrip("".join(map(chr, range(33)))).lower().startswith("http")


@schemathesis.hook
def before_call(context, case, kwargs):
    # What is wrong with one part of a request is found only if the others lead somewhere.
    if isinstance(case.body, dict):
        mend_body(case.body, is_sound(case, ParameterLocation.BODY))
    if case.query and is_sound(case, ParameterLocation.QUERY):
        mend_query(case.query, case.operation.path)
    if case.path_parameters and "id" in case.path_parameters:
        mend_path(case)


def mend_path(case):
    path, given = case.operation.path, case.path_parameters
    # An id that no answer told of is made up, and leads nowhere. Links have ids of their own.
    made_up = not case.meta.pool_draws and case.meta.phase.name != TestPhase.STATEFUL
    if made_up and is_sound(case, ParameterLocation.PATH):
        given["id"] = KEPT.get(path.split("/")[2], given["id"])
    # What this run needs to the end is not deleted.
    if case.method == "DELETE" and given["id"] in OWN_KEYS:
        given["id"] = BUILT_IN_KEY
    if case.method == "DELETE" and given["id"] == KEPT["subscriptions"]:
        given["id"] = NO_SUBSCRIPTION


def mend_query(query: dict, path: str):
    # Cursors cannot be made up.
    for name in ("cursor", "after"):
        query.pop(name, None)
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
    # Keys expire in the future, and `since` is not later than `until`.
    for name, time in (("expires_at", "2999-12-31T00:00:00Z"), ("since", "1970-01-01T00:00:00Z")):
        if sound and isinstance(body.get(name), str):
            body[name] = time
