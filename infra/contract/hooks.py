"""What the document cannot say about a request that is sound."""

import os

import schemathesis

RECEIVER = os.environ["CONTRACT_RECEIVER"]


def is_sound(case) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    # Nothing is delivered anywhere but to this machine. What is no URL by its schema stays as it is, to be refused.
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        url = case.body["url"]
        if 1 <= len(url) <= 2048 and ":" in url:
            case.body["url"] = f"{RECEIVER}/fuzz-{abs(hash(url)) % 7}"
    # Cursors cannot be made up: they are followed where an answer gave one.
    if is_sound(case) and case.query and "cursor" in case.query:
        del case.query["cursor"]
