"""Runs the black-box suite against a deployed stack, with a receiver on AWS. See infra/aws/suite-on-aws."""

import argparse
import os
import secrets
import subprocess
import sys
from pathlib import Path

import boto3

RECEIVER = Path(__file__).resolve().parents[1] / "stacks" / "receiver.yaml"
WAIT = {"Delay": 3, "MaxAttempts": 200}


def outputs(stack):
    (found,) = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}


def reachable(url):
    """The URL of an API; on an emulator, the path under which it serves that API."""
    emulator = os.environ.get("AWS_ENDPOINT_URL")
    if not emulator:
        return url
    api = url.split("://")[1].split(".")[0]
    return f"{emulator}/_aws/execute-api/{api}/$default"


def create(stack, key):
    client = boto3.client("cloudformation")
    client.create_stack(
        StackName=stack,
        TemplateBody=RECEIVER.read_text(),
        Parameters=[{"ParameterKey": "Key", "ParameterValue": key}],
        Capabilities=["CAPABILITY_IAM"],
        OnFailure="DELETE",
    )
    client.get_waiter("stack_create_complete").wait(StackName=stack, WaiterConfig=WAIT)


def delete(stack):
    client = boto3.client("cloudformation")
    client.delete_stack(StackName=stack)
    client.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=WAIT)


def main():
    parser = argparse.ArgumentParser(prog="infra/aws/suite-on-aws")
    parser.add_argument("program", help=argparse.SUPPRESS)
    parser.add_argument("--stack", default="holdfast", help="the stack to test")
    parser.add_argument("--keep", action="store_true", help="do not delete the stack of the receiver")
    parser.add_argument("suite", nargs="*", help="arguments of the suite, after --")
    args = parser.parse_args()

    found = outputs(args.stack)
    secret = boto3.client("secretsmanager").get_secret_value(SecretId=found["OperatorSecretArn"])
    receiver, key = f"{args.stack}-receiver", secrets.token_hex(24)
    print(f"creating the stack {receiver}", flush=True)
    create(receiver, key)
    try:
        command = [args.program, "--on-aws", "--url", reachable(found["ApiUrl"]), "--key", "hf_" + secret["SecretString"]]
        command += ["--receiver", reachable(outputs(receiver)["Url"]), "--receiver-key", key, *args.suite]
        status = subprocess.run(command, check=False).returncode
    finally:
        if not args.keep:
            print(f"deleting the stack {receiver}", flush=True)
            delete(receiver)
    sys.exit(status)


if __name__ == "__main__":
    main()
