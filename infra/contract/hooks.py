"""Corrects generated requests where the OpenAPI document cannot express what makes them valid."""

import json
import os
import re
import zlib

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

RECEIVER = os.environ["CONTRACT_RECEIVER"]
# Ids of the keys that this run uses.
OWN_KEYS = os.environ["CONTRACT_KEYS"].split()
# Ids of resources that must not be deleted, by the first segment of their path.
KEPT = json.loads(os.environ["CONTRACT_KEPT"])
TENANT = "default"
BUILT_IN_KEY = "built-in"
# Generated quotas would refuse later requests of this run.
QUOTAS = ("events_per_second", "subscriptions", "waiting_bytes", "stored_bytes")
MIN_QUOTA = 1_000_000_000
# What the path of a filter begins with, and how deep it may be.
EVENT_FIELDS = ("id", "type", "timestamp", "subject", "data")
MAX_SEGMENTS = 16
NO_SUBSCRIPTION = "sub_00000000000000000000000000"


def is_valid(case, location: ParameterLocation) -> bool:
    """Whether this part of the request conforms to the document. Other parts may be invalid on purpose."""
    return case.meta is not None and not case.meta.is_negative_at(location)


def may_be_contacted(url: str) -> bool:
    """Whether the URL standard parses this as http or https. The server rejects all other URLs."""
    return re.sub("[\t\r\n]", "", url).lstrip("".join(map(chr, range(33)))).lower().startswith("http")


@schemathesis.hook
def before_call(context, case, kwargs):
    # An error in one part of a request is detected only if the other parts are valid.
    if isinstance(case.body, dict):
        fix_body(case.body, is_valid(case, ParameterLocation.BODY))
    if case.query and is_valid(case, ParameterLocation.QUERY):
        fix_query(case.query, case.operation.path)
    if case.path_parameters and "id" in case.path_parameters:
        fix_path(case)


def fix_path(case):
    path, given = case.operation.path, case.path_parameters
    # An id that does not come from an answer is generated and does not exist. Links carry ids from answers.
    generated = not case.meta.pool_draws and case.meta.phase.name != TestPhase.STATEFUL
    if generated and is_valid(case, ParameterLocation.PATH):
        given["id"] = KEPT.get(path.split("/")[2], given["id"])
    # Do not delete resources that this run still needs.
    if case.method == "DELETE" and given["id"] in OWN_KEYS:
        given["id"] = BUILT_IN_KEY
    if case.method == "DELETE" and given["id"] == KEPT["subscriptions"]:
        given["id"] = NO_SUBSCRIPTION


def fix_query(query: dict, path: str):
    # Generated cursors are never valid.
    for name in ("cursor", "after"):
        query.pop(name, None)
    # A generated text is hardly ever a URL.
    if "url" in query and not re.match("https?://|url_", str(query["url"])):
        query["url"] = f"{RECEIVER}/contract-0"
    # One index answers for each of `failing`, `url` and `state`, and only that of `failing` has an order of its own.
    if path == "/v1/urls":
        narrowed = next((name for name in ("failing", "url", "state") if name in query), None)
        for name in {"failing", "url", "state"} - {narrowed}:
            query.pop(name, None)
        if narrowed != "failing" or query["failing"] not in (True, "true"):
            query.pop("sort", None)
            query.pop("order", None)
    # A tenant exists once it has a key, and a key belongs to one tenant.
    if "tenant" in query:
        if path == "/v1/keys/{id}":
            del query["tenant"]
        else:
            query["tenant"] = TENANT


def fix_filter(given: dict):
    """Makes a filter one that some event can pass."""
    segments = given["field"].split(".")
    if given["op"] != "changed" and segments[0] not in EVENT_FIELDS:
        given["field"] = ".".join(["data", *segments[1:MAX_SEGMENTS]])
    is_orderable = isinstance(given.get("value"), (int, float, str)) and not isinstance(given["value"], bool)
    if given["op"] in ("gt", "gte", "lt", "lte") and not is_orderable:
        given["value"] = 1


def fix_body(body: dict, valid: bool):
    if valid:
        for each in body.get("filters") or []:
            fix_filter(each)
    url = body.get("url")
    # Deliver only to this machine.
    if isinstance(url, str) and len(url) <= 2048 and (valid or may_be_contacted(url)):
        body["url"] = f"{RECEIVER}/contract-{zlib.crc32(url.encode()) % 7}"
    # 24 to 64 bytes in base64.
    if valid and isinstance(body.get("secret"), str):
        body["secret"] = "whsec_" + "c2VjcmV0" * 4
    for name in QUOTAS:
        if valid and isinstance(body.get(name), int):
            body[name] = max(body[name], MIN_QUOTA)
    # `expires_at` must be in the future, and `since` must not be later than `until`.
    for name, time in (("expires_at", "2999-12-31T00:00:00Z"), ("since", "1970-01-01T00:00:00Z")):
        if valid and isinstance(body.get(name), str):
            body[name] = time
