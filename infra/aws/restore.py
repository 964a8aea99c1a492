"""Restores the table of the deployed stack as infra/docs/restore.md says, and checks that the functions then use the restored one.

Run: python infra/aws/restore.py API_URL HOST OPERATOR_KEY DEPLOY…
DEPLOY is the command that deployed the stack; it ends with the values of the parameters.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import boto3

RESTORED = "holdfast-restored"


class Api:
    def __init__(self, url, host, key):
        self.url, self.host, self.key = url, host, key

    def call(self, method, path, body=None):
        """Returns the status and the answer."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"host": self.host, "authorization": f"Bearer {self.key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, None

    def subscribe(self, name):
        subscription = {"url": f"https://example.com/{name}", "event_types": ["restored"]}
        status, answer = self.call("POST", "/v1/subscriptions", subscription)
        assert status == 201, status
        return answer["id"]

    def has(self, subscription):
        status, _ = self.call("GET", f"/v1/subscriptions/{subscription}")
        assert status in (200, 404), status
        return status == 200


def restore(table):
    dynamodb = boto3.client("dynamodb")
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=table, TargetTableName=RESTORED, UseLatestRestorableTime=True
    )
    dynamodb.get_waiter("table_exists").wait(TableName=RESTORED, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    dynamodb.update_time_to_live(
        TableName=RESTORED, TimeToLiveSpecification={"AttributeName": "ttl", "Enabled": True}
    )
    dynamodb.update_continuous_backups(
        TableName=RESTORED, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    dynamodb.update_table(TableName=RESTORED, DeletionProtectionEnabled=True)
    own = dynamodb.describe_table(TableName=table)["Table"]
    restored = dynamodb.describe_table(TableName=RESTORED)["Table"]
    for part in ["KeySchema", "AttributeDefinitions"]:
        assert own[part] == restored[part], part
    indexes = [
        sorted((index["IndexName"], str(index["KeySchema"])) for index in each["GlobalSecondaryIndexes"])
        for each in [own, restored]
    ]
    assert indexes[0] == indexes[1], indexes


def table_of_stack():
    (stack,) = boto3.client("cloudformation").describe_stacks(StackName="holdfast")["Stacks"]
    return next(output["OutputValue"] for output in stack["Outputs"] if output["OutputKey"] == "TableName")


def main():
    url, host, operator_key, *deploy = sys.argv[1:]
    status, answer = Api(url, host, operator_key).call("POST", "/v1/keys", {"tenant": "restored", "role": "admin"})
    assert status == 201, status
    api = Api(url, host, answer["key"])

    before = api.subscribe("before")
    table = table_of_stack()
    restore(table)
    after = api.subscribe("after")
    assert api.has(before) and api.has(after)

    done = subprocess.run([*deploy, f"RestoredTable={RESTORED}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert table_of_stack() == RESTORED
    assert api.has(before), "what was there before the restore is lost"
    assert not api.has(after), "the functions still use the table of the stack"
    print("restored the table: the functions use it")


if __name__ == "__main__":
    main()
