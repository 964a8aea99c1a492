"""Runs the sweep of the deployed stack every few seconds, until it is killed.

The schedule of a test stack is many times faster than real time, and the rule that starts the sweep every minute is not.

Run: python infra/aws/sweeps.py SECONDS
"""

import sys
import time

import boto3

from endpoints import functions


def main():
    interval = float(sys.argv[1])
    client = boto3.client("lambda")
    name = functions()["SweepFunction"]
    while True:
        client.invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
        time.sleep(interval)


if __name__ == "__main__":
    main()
