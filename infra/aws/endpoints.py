"""Changes where the functions of the deployed stack find AWS.

Run: python infra/aws/endpoints.py set URL     every function NAME calls DynamoDB, SQS and Secrets Manager at URL/NAME
     python infra/aws/endpoints.py reset       as deployed
"""

import sys

import boto3

# Endpoints of single services: the emulator gives every function its own address as AWS_ENDPOINT_URL.
VARIABLES = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_SECRETS_MANAGER"]


def functions():
    """The logical and the physical names."""
    resources = boto3.client("cloudformation").describe_stack_resources(StackName="holdfast")["StackResources"]
    return {
        each["LogicalResourceId"]: each["PhysicalResourceId"]
        for each in resources
        if each["ResourceType"] == "AWS::Lambda::Function"
    }


def main():
    action, *url = sys.argv[1:]
    client = boto3.client("lambda")
    found = functions()
    assert found, "the stack has no functions"
    for logical, physical in found.items():
        variables = client.get_function_configuration(FunctionName=physical)["Environment"]["Variables"]
        variables = {name: value for name, value in variables.items() if name not in VARIABLES}
        if action == "set":
            variables |= {name: f"{url[0]}/{logical}" for name in VARIABLES}
        client.update_function_configuration(FunctionName=physical, Environment={"Variables": variables})


if __name__ == "__main__":
    main()
