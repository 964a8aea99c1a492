"""Compares what the functions have called with infra/aws/calls.json, from which the template tests derive the roles of the functions.

Run: python infra/aws/calls.py check ACTIONS    fails if a function made a call that the file does not have, and names those of `calls` that
                                                it did not make: one run without a call does not show that there is no need for it
     python infra/aws/calls.py write ACTIONS    replaces `calls`, without those that are `rare`
ACTIONS is what holdfast-strict-aws recorded in a run of the whole suite: {"FUNCTION": [["ACTION", "RESOURCE"]]}. The stack must still be
deployed. A call is `rare` if not every run makes it: because it takes a fault, or because the suite has no scenario for it.
"""

import json
import sys
from pathlib import Path

import boto3

FILE = Path(__file__).with_name("calls.json")


def last_part(name):
    """The emulator knows the same queue by more than one address."""
    return name.rsplit("/", 1)[-1]


def logical_names():
    """The logical names of the stack's resources, by the last part of their physical names."""
    resources = boto3.client("cloudformation").describe_stack_resources(StackName="holdfast")["StackResources"]
    return {last_part(each["PhysicalResourceId"]): each["LogicalResourceId"] for each in resources}


def translated(actions):
    names = logical_names()

    def resource(physical):
        name, slash, index = physical.partition("/index/")
        return names.get(last_part(name), name) + slash + index

    return {function: {f"{action} {resource(on)}" for action, on in calls} for function, calls in actions.items()}


def compared(seen, known):
    """The calls that the file does not have, and those that were not made."""
    missing, unused = [], []
    for function in sorted(seen.keys() | known.keys()):
        made = seen.get(function, set())
        calls, rare = (set(known.get(function, {}).get(kind, [])) for kind in ["calls", "rare"])
        missing += [f"{function} calls {call}: add it, and the permission" for call in sorted(made - calls - rare)]
        unused += [f"{function} has not called {call}: remove it, or say why it is rare" for call in sorted(calls - made)]
    return missing, unused


def main():
    action, recorded = sys.argv[1:]
    seen = translated(json.loads(Path(recorded).read_text()))
    known = json.loads(FILE.read_text())
    if action == "write":
        for function, made in seen.items():
            rare = known.get(function, {}).get("rare", {})
            known[function] = {"calls": sorted(made - rare.keys()), "rare": rare}
        FILE.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n")
        return
    missing, unused = compared(seen, known)
    print("\n".join(unused or ["every call of infra/aws/calls.json that is not rare was made"]))
    if missing:
        sys.exit("\n".join(["infra/aws/calls.json is not current:", *missing]))


if __name__ == "__main__":
    main()
