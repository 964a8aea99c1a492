"""Checks of the AWS template, expanded as CloudFormation sees it.

Run: python infra/aws/template_tests.py
Needs: pip install aws-sam-translator cfn-lint aws-sam-cli
"""

import functools
import itertools
import json
import logging
import os
import re
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
# samtranslator warns that its usage metrics are not collected.
logging.getLogger("samtranslator").setLevel(logging.ERROR)

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # noqa: E402
from samtranslator.translator.transform import transform  # noqa: E402 (it reads the region)
from samtranslator.yaml_helper import yaml_parse  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = [
    "IngestFunction",
    "AdminFunction",
    "DeliverFirstFunction",
    "DeliverRetryFunction",
    "DeliverSlowFunction",
    "SweepFunction",
]
API_FUNCTIONS = FUNCTIONS[:2]
DELIVER_FUNCTIONS = FUNCTIONS[2:]
# Each takes the messages of one queue and makes attempts.
POOLS = {"DeliverFirstFunction": "FirstQueue", "DeliverRetryFunction": "RetryQueue", "DeliverSlowFunction": "SlowQueue"}
NUMBERS = {4: "four", 5: "five", 6: "six", 7: "seven", 9: "nine", 10: "ten", 11: "eleven", 13: "thirteen", 22: "twenty-two"}
DAY_S = 24 * 60 * 60


def read(path):
    return (ROOT / path).read_text()


SOURCE = yaml_parse(read("template.yaml"))
PARAMETERS = SOURCE["Parameters"]
DEFAULTS = {name: str(parameter["Default"]) for name, parameter in PARAMETERS.items()}
ALARM_STACK = yaml_parse(read("infra/stacks/alarms.yaml"))


@functools.cache
def expanded(changed=()):
    """Returns the resources as CloudFormation receives them, with default parameters except those given."""
    template = yaml_parse(read("template.yaml"))
    for name in FUNCTIONS:
        # `sam deploy` inserts this after it uploads the code.
        template["Resources"][name]["Properties"]["CodeUri"] = "s3://bucket/code.zip"
    return transform(template, {**DEFAULTS, **dict(changed)}, SimpleNamespace(load=dict))["Resources"]


RESOURCES = expanded()


def holds(condition, values):
    """Whether a condition or the assertion of a rule holds for these parameter values."""
    ((kind, arguments),) = condition.items()
    if kind == "Condition":
        return holds(SOURCE["Conditions"][arguments], values)
    if kind == "Fn::Equals":
        return value(arguments[0], values) == value(arguments[1], values)
    if kind == "Fn::Contains":
        return value(arguments[1], values) in arguments[0]
    if kind == "Fn::Not":
        return not holds(arguments[0], values)
    if kind in ("Fn::And", "Fn::Or"):
        return (all if kind == "Fn::And" else any)([holds(each, values) for each in arguments])
    raise ValueError(f"{kind} is not understood here")


def value(node, values):
    """Resolves a node for these parameter values. References to resources stay as they are."""
    if isinstance(node, list):
        resolved = [value(each, values) for each in node]
        return [each for each in resolved if each is not None]
    if not isinstance(node, dict):
        return node
    if "Ref" in node:
        return None if node["Ref"] == "AWS::NoValue" else values.get(node["Ref"], node)
    if "Fn::FindInMap" in node:
        name, *keys = value(node["Fn::FindInMap"], values)
        return SOURCE["Mappings"][name][keys[0]][keys[1]]
    if "Fn::If" in node:
        name, then, otherwise = node["Fn::If"]
        return value(then if holds(SOURCE["Conditions"][name], values) else otherwise, values)
    return {key: value(each, values) for key, each in node.items()}


def refused(values):
    """Returns the names of the rules that reject these parameter values."""
    values = {**DEFAULTS, **{name: str(each) for name, each in values.items()}}
    return [
        name
        for name, rule in SOURCE["Rules"].items()
        if "RuleCondition" not in rule or holds(rule["RuleCondition"], values)
        for assertion in rule["Assertions"]
        if not holds(assertion["Assert"], values)
    ]


def properties(name, **values):
    """Returns the properties of a resource with default parameters except `values`."""
    return value(expanded(tuple(values.items()))[name]["Properties"], {**DEFAULTS, **values})


def of_type(kind, resources=None):
    resources = RESOURCES if resources is None else resources
    return {name: each for name, each in resources.items() if each["Type"] == kind}


def as_list(node):
    return node if isinstance(node, list) else [node]


def attribute(node):
    """Returns `Table.Arn` for both forms of GetAtt, and the name for a plain reference."""
    if "Ref" in node:
        return node["Ref"]
    if "Fn::GetAtt" in node:
        return ".".join(as_list(node["Fn::GetAtt"]))
    return node["Fn::Sub"]


def dashed(function):
    """Returns `deliver-first` for `DeliverFirstFunction`."""
    return re.sub(r"(?<!^)([A-Z])", r"-\1", function.removesuffix("Function")).lower()


def role_statements(role, **values):
    for policy in properties(role, **values)["Policies"]:
        yield from as_list(policy["PolicyDocument"]["Statement"])


def run(*command):
    environment = {
        **os.environ,
        "SAM_CLI_TELEMETRY": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


class Parameters(unittest.TestCase):
    def test_each_says_what_it_is_and_is_bounded(self):
        for name, parameter in PARAMETERS.items():
            with self.subTest(name):
                self.assertTrue(parameter.get("Description"))
                bounded = {"AllowedValues", "AllowedPattern"} & parameter.keys() or {
                    "MinValue",
                    "MaxValue",
                } <= parameter.keys()
                self.assertTrue(bounded, "no bounds")
                if "AllowedValues" in parameter:
                    self.assertIn(parameter["Default"], parameter["AllowedValues"])
                elif parameter["Type"] == "Number":
                    self.assertLessEqual(parameter["MinValue"], parameter["Default"])
                    self.assertGreaterEqual(parameter["MaxValue"], parameter["Default"])

    def test_each_is_in_one_group(self):
        groups = SOURCE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        grouped = [name for group in groups for name in group["Parameters"]]
        self.assertCountEqual(grouped, PARAMETERS)

    def test_the_guide_names_only_parameters_that_exist(self):
        named = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", read("infra/docs/deploy.md"), re.MULTILINE)
        names = {name for cell in named for name in re.findall(r"`(\w+)`", cell)}
        self.assertGreater(len(names), 10)
        self.assertEqual(names - PARAMETERS.keys(), set())

    def test_bounds(self):
        self.assertEqual(PARAMETERS["MaxReceiveCount"]["MinValue"], 10)
        self.assertEqual(PARAMETERS["KeepDays"]["MinValue"], 7)
        for name, least, most in [
            ("FirstConcurrency", 0, 1000),
            ("RetryConcurrency", 0, 1000),
            ("SlowConcurrency", 0, 1000),
            ("SecretOverlapHours", 0, 720),
            ("ReleaseCeiling", 1, 10000),
            ("FirstBatchSize", 1, 100),
            ("RetryBatchSize", 1, 100),
            ("FirstBatchWindow", 0, 10),
            ("RetryBatchWindow", 0, 10),
        ]:
            self.assertEqual(
                (PARAMETERS[name]["MinValue"], PARAMETERS[name]["MaxValue"]), (least, most), name
            )

    def test_attempts_go_to_public_targets_unless_others_are_named(self):
        self.assertEqual((DEFAULTS["HttpTargets"], DEFAULTS["AllowedTargets"]), ("refuse", ""))
        self.assertEqual(DEFAULTS["DeniedTargets"], "")
        good_networks = ["", "10.0.0.0/8", "127.0.0.0/8,::1/128", "fd00::/8,192.0.2.7"]
        bad_networks = ["any", "10.0.0.0/8,", "10.0.0.0/8 ,fd00::/8", "example.com", "10.0.0.0/"]
        for name, good, bad in [
            ("AllowedTargets", good_networks, bad_networks),
            ("DeniedTargets", good_networks, bad_networks),
            ("TargetPorts", ["", "any", "443", "443,8000-8999"], ["443,", "all", "-1", "443;80", "8000-"]),
        ]:
            pattern = re.compile(PARAMETERS[name]["AllowedPattern"])
            for text in good:
                self.assertTrue(pattern.search(text), (name, text))
            for text in bad:
                self.assertFalse(pattern.search(text), (name, text))

    def test_the_schedule_runs_at_its_own_pace(self):
        self.assertEqual(DEFAULTS["TimeScale"], "1")


class Timeouts(unittest.TestCase):
    def test_rules_let_through_what_fits_and_nothing_else(self):
        names = ["HttpTimeoutMs", "FunctionTimeout", "VisibilityTimeout"]
        combinations = itertools.product(*(PARAMETERS[name]["AllowedValues"] for name in names))
        accepted = 0
        for http_ms, function_s, visibility_s in combinations:
            # The functions need this time to acknowledge messages and to record the outcome of an attempt.
            kept_s = min(1, function_s / 4) + min(2, function_s / 10)
            fits = http_ms < (function_s - kept_s) * 1000 and function_s * 6 <= visibility_s
            accepted += fits
            refusals = refused(dict(zip(names, (http_ms, function_s, visibility_s))))
            self.assertEqual(fits, not refusals, (http_ms, function_s, visibility_s, refusals))
        self.assertGreater(accepted, 10)

    def test_defaults_and_the_values_of_the_test_stack_fit(self):
        self.assertEqual(refused({}), [])
        self.assertEqual(refused({"HttpTimeoutMs": 1000, "FunctionTimeout": 3, "VisibilityTimeout": 18}), [])

    def test_functions_and_queues_take_them(self):
        changed = {"FunctionTimeout": "20", "VisibilityTimeout": "240", "SweepTimeout": "7"}
        for function, queue in POOLS.items():
            self.assertEqual(properties(function, **changed)["Timeout"], "20")
            self.assertEqual(properties(queue, **changed)["VisibilityTimeout"], "240")
        self.assertEqual(properties("SweepFunction", **changed)["Timeout"], "7")

    def test_the_api_waits_for_its_functions(self):
        for name, function in [
            ("IngestIntegration", "IngestFunction"),
            ("AdminIntegration", "AdminFunction"),
        ]:
            self.assertGreaterEqual(
                properties(name)["TimeoutInMillis"], 1000 * int(properties(function)["Timeout"])
            )
            self.assertLessEqual(properties(name)["TimeoutInMillis"], 30000)

    def test_a_sweep_ends_before_the_next_and_is_not_repeated(self):
        self.assertLess(PARAMETERS["SweepTimeout"]["MaxValue"], 60)
        self.assertEqual(properties("SweepRule")["ScheduleExpression"], "rate(1 minute)")
        (target,) = properties("SweepRule")["Targets"]
        self.assertEqual(attribute(target["Arn"]), "SweepFunction.Arn")
        (configuration,) = of_type("AWS::Lambda::EventInvokeConfig").values()
        self.assertEqual(configuration["Properties"]["FunctionName"], {"Ref": "SweepFunction"})
        self.assertEqual(configuration["Properties"]["MaximumRetryAttempts"], 0)


class Queues(unittest.TestCase):
    def test_there_are_four_and_all_are_encrypted(self):
        queues = of_type("AWS::SQS::Queue")
        self.assertEqual(set(queues), {*POOLS.values(), "DeadLetterQueue"})
        for name in queues:
            self.assertIs(properties(name)["SqsManagedSseEnabled"], True)
            self.assertIsNone(properties(name)["KmsMasterKeyId"])

    def test_retention(self):
        kept = {name: properties(name)["MessageRetentionPeriod"] for name in of_type("AWS::SQS::Queue")}
        # The retry queue holds only tickets, which the sweep sends again. What is on the others can be the only trace of a delivery.
        longest = 14 * DAY_S
        self.assertEqual(
            kept, {"FirstQueue": longest, "SlowQueue": longest, "RetryQueue": 4 * DAY_S, "DeadLetterQueue": longest}
        )

    def test_no_change_of_the_stack_deletes_messages(self):
        for name, queue in of_type("AWS::SQS::Queue").items():
            self.assertEqual(queue["UpdateReplacePolicy"], "Retain", name)

    def test_what_fails_too_often_goes_to_the_dead_letter_queue(self):
        for name in POOLS.values():
            policy = properties(name)["RedrivePolicy"]
            self.assertEqual(attribute(policy["deadLetterTargetArn"]), "DeadLetterQueue.Arn")
            self.assertEqual(policy["maxReceiveCount"], "50")
        self.assertNotIn("RedrivePolicy", properties("DeadLetterQueue"))

    def test_mappings(self):
        mappings = {function.replace("Function", "Mapping"): (function, queue) for function, queue in POOLS.items()}
        self.assertEqual(set(of_type("AWS::Lambda::EventSourceMapping")), set(mappings))
        for name, (function, queue) in mappings.items():
            mapping = properties(name)
            self.assertEqual(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"])
            self.assertEqual(attribute(mapping["EventSourceArn"]), f"{queue}.Arn")
            self.assertEqual(attribute(mapping["FunctionName"]), function)
            size, window_s = mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]
            self.assertEqual((int(size), int(window_s)), (10, 0), name)

    def test_batches_of_slow_urls_keep_their_size(self):
        """Larger ones would last longer, because a batch lasts as long as its slowest attempt."""
        changed = {"FirstBatchSize": "100", "RetryBatchSize": "90", "FirstBatchWindow": "5", "RetryBatchWindow": "6"}
        found = {
            function: [properties(function.replace("Function", "Mapping"), **changed)[key] for key in keys]
            for keys in [["BatchSize", "MaximumBatchingWindowInSeconds"]]
            for function in POOLS
        }
        wanted = {"DeliverFirstFunction": ["100", "5"], "DeliverRetryFunction": ["90", "6"], "DeliverSlowFunction": [10, 0]}
        self.assertEqual(found, wanted)

    def limits(self, **values):
        mappings = [function.replace("Function", "Mapping") for function in POOLS]
        return [properties(name, **values)["ScalingConfig"]["MaximumConcurrency"] for name in mappings]

    def test_pools_follow_from_one_parameter_and_leave_room_for_the_api_and_the_sweep(self):
        pools = SOURCE["Mappings"]["Pools"]
        self.assertEqual(list(pools), [str(size) for size in PARAMETERS["Concurrency"]["AllowedValues"]])
        for size, pool in pools.items():
            self.assertEqual(list(pool), ["First", "Retry", "Slow"])
            # Limits of AWS for each mapping.
            self.assertTrue(all(2 <= limit <= 1000 for limit in pool.values()), size)
            self.assertLessEqual(sum(pool.values()), int(size) - max(3, int(size) // 5), size)
            self.assertEqual(self.limits(Concurrency=size), list(pool.values()))
        # What a new account has.
        self.assertEqual(DEFAULTS["Concurrency"], "10")

    def test_the_guide_has_the_pools_and_what_they_can_do(self):
        rows = re.findall(r"^\| (\d+) \| (.+) \|$", read("infra/docs/deploy.md"), re.MULTILINE)
        wanted = {
            size: [
                *pool.values(),
                int(size) - sum(pool.values()),
                # Batches of 10: of 0.2 s each, and of the whole timeout of 5 s.
                pool["First"] * 10 * 5,
                *(pool[name] * 10 // 5 for name in ["First", "Retry", "Slow"]),
            ]
            for size, pool in SOURCE["Mappings"]["Pools"].items()
        }
        found = {size: [int(cell.replace(",", "")) for cell in cells.split(" | ")] for size, cells in rows}
        self.assertEqual(found, wanted)

    def test_the_page_about_fairness_calculates_with_the_pools(self):
        pools = SOURCE["Mappings"]["Pools"]
        rows = re.findall(r"^\| ([\d,]+) \| (.+) \|$", read("infra/docs/fairness.md"), re.MULTILINE)
        wanted = {
            f"{int(size):,}": [
                ", ".join(f"{batches * 10 // 5:,}" for batches in pools[size].values()),
                ", ".join(f"{batches * 10:,}" for batches in pools[size].values()),
                f"{5 / pools[size]['First']:.2f} s",
                # 10 attempts of 5 s in each batch.
                f"{round(4000 / 10 * 5 / pools[size]['First'])} s",
            ]
            for size in ["10", "100", "1000"]
        }
        self.assertEqual({size: cells.split(" | ") for size, cells in rows}, wanted)

    def test_a_pool_can_be_set_by_itself(self):
        self.assertEqual(self.limits(FirstConcurrency="7"), ["7", 2, 2])
        self.assertEqual(self.limits(RetryConcurrency="7"), [3, "7", 2])
        self.assertEqual(self.limits(SlowConcurrency="7"), [3, 2, "7"])
        for name in ["FirstConcurrency", "RetryConcurrency", "SlowConcurrency"]:
            self.assertEqual(refused({name: 1}), ["NoConcurrencyOfOne"])
            self.assertEqual(refused({name: 2}), [])

    def test_large_batches_need_a_window(self):
        for kind, size, window in itertools.product(["First", "Retry"], range(1, 101), [0, 1, 10]):
            refusals = refused({f"{kind}BatchSize": size, f"{kind}BatchWindow": window})
            self.assertEqual(bool(refusals), size > 10 and window == 0, (kind, size, window))


class TheTable(unittest.TestCase):
    def test_is_paid_by_request_forgets_by_ttl_and_can_be_restored(self):
        table = properties("Table")
        self.assertEqual(table["BillingMode"], "PAY_PER_REQUEST")
        self.assertEqual(table["TimeToLiveSpecification"], {"AttributeName": "ttl", "Enabled": True})
        self.assertIs(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], True)

    def test_outlives_the_stack(self):
        self.assertEqual(RESOURCES["Table"]["DeletionPolicy"], "Retain")
        self.assertEqual(RESOURCES["Table"]["UpdateReplacePolicy"], "Retain")
        self.assertIs(properties("Table")["DeletionProtectionEnabled"], True)
        self.assertIs(properties("Table", TableProtection="off")["DeletionProtectionEnabled"], False)

    def test_is_warm_on_request(self):
        """Without a request nothing is set: a lower value than the table has reached is refused by DynamoDB."""

        def warm(**values):
            table = properties("Table", **values)
            return [each["WarmThroughput"] for each in [table, *table["GlobalSecondaryIndexes"]]]

        self.assertEqual(set(map(str, warm())), {"None"})
        for changed, read_units, write_units in [
            ({"WarmWriteUnits": "40000"}, "12000", "40000"),
            ({"WarmReadUnits": "30000"}, "30000", "4000"),
        ]:
            wanted = {"ReadUnitsPerSecond": read_units, "WriteUnitsPerSecond": write_units}
            self.assertEqual(warm(**changed), [wanted] * 6)

    # What a deployed table has. CloudFormation replaces the table, or deletes an index and creates it anew, if any of it changes.
    # Released entries stay as they are; a release adds at most one index, because an update of a table creates one at a time.
    KEYS = {
        "": "pk S, sk S",
        "sweep": "sweep_shard S, look_at N",
        "by-tenant": "list_tenant S, listed S",
        "by-url": "list_url S, listed S",
        "by-subscription": "list_subscription S, listed S",
        "by-state": "list_state S, state_sort S",
    }

    def test_nothing_changes_that_needs_another_table_or_index(self):
        table = properties("Table")
        types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
        found = {
            index.get("IndexName", ""): ", ".join(
                f"{each['AttributeName']} {types[each['AttributeName']]}" for each in index["KeySchema"]
            )
            for index in [table, *table["GlobalSecondaryIndexes"]]
        }
        self.assertEqual(found, self.KEYS)
        self.assertEqual(
            [(each["AttributeName"], each["KeyType"]) for each in table["KeySchema"]], [("pk", "HASH"), ("sk", "RANGE")]
        )
        for index in table["GlobalSecondaryIndexes"]:
            self.assertEqual([each["KeyType"] for each in index["KeySchema"]], ["HASH", "RANGE"])
            self.assertEqual(index["Projection"], {"ProjectionType": "KEYS_ONLY"})
        # A table with local indexes cannot change them, and one with a name cannot be replaced.
        self.assertNotIn("LocalSecondaryIndexes", table)

    def test_no_resource_that_keeps_data_has_a_property_that_cannot_change(self):
        """From the resource schemas of AWS: a change of such a property replaces the resource."""
        for kind, allowed in [
            # The keys of the table, which the test above keeps.
            ("AWS::DynamoDB::Table", {"KeySchema"}),
            ("AWS::SQS::Queue", set()),
            ("AWS::SecretsManager::Secret", set()),
        ]:
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
            fixed = schema["createOnlyProperties"] + schema.get("conditionalCreateOnlyProperties", [])
            names = {path.removeprefix("/properties/") for path in fixed}
            self.assertTrue(names)
            for resource in of_type(kind).values():
                self.assertLessEqual(names & resource["Properties"].keys(), allowed)

class Functions(unittest.TestCase):
    EVERYWHERE = {
        "HOLDFAST_STACK": {"Ref": "AWS::StackName"},
        "HOLDFAST_TABLE": {"Ref": "Table"},
        "HOLDFAST_FIRST_QUEUE_URL": {"Ref": "FirstQueue"},
        "HOLDFAST_SLOW_QUEUE_URL": {"Ref": "SlowQueue"},
        "HOLDFAST_RETRY_QUEUE_URL": {"Ref": "RetryQueue"},
        "HOLDFAST_DEAD_LETTER_QUEUE_URL": {"Ref": "DeadLetterQueue"},
        "HOLDFAST_HTTP_TIMEOUT_MS": "5000",
        "HOLDFAST_FUNCTION_TIMEOUT_S": "30",
        "HOLDFAST_VISIBILITY_S": "180",
        "HOLDFAST_KEEP_DAYS": "14",
        "HOLDFAST_SECRET_OVERLAP_HOURS": "24",
        "HOLDFAST_RELEASE_CEILING": "2560",
        "HOLDFAST_DELIVERY_LOG": "all",
        "HOLDFAST_HTTP_TARGETS": "refuse",
        "HOLDFAST_ALLOWED_TARGETS": "",
        "HOLDFAST_DENIED_TARGETS": "",
        "HOLDFAST_TARGET_PORTS": "",
        "HOLDFAST_TIME_SCALE": "1",
        "HOLDFAST_LOG_LEVEL": "info",
    }

    def test_environment(self):
        secret = {"HOLDFAST_OPERATOR_SECRET": {"Ref": "OperatorSecret"}}
        own = {name: secret for name in API_FUNCTIONS}
        own |= {
            name: {"HOLDFAST_TRIGGER": trigger}
            for name, trigger in zip(DELIVER_FUNCTIONS, ["first", "retry", "slow", "sweep"])
        }
        own["DeliverRetryFunction"]["HOLDFAST_EVENTS_TOPIC"] = DEFAULTS["EventsTopicArn"]
        for name in FUNCTIONS:
            with self.subTest(name):
                self.assertEqual(
                    properties(name)["Environment"]["Variables"], {**self.EVERYWHERE, **own[name]}
                )

    def test_runtime_and_processor(self):
        self.assertEqual(set(of_type("AWS::Lambda::Function")), set(FUNCTIONS))
        for name in FUNCTIONS:
            self.assertEqual(properties(name)["Runtime"], "provided.al2023")
            self.assertEqual(properties(name)["Architectures"], ["arm64"])
            self.assertEqual(properties(name, Architecture="x86_64")["Architectures"], ["x86_64"])

    def test_each_is_built_from_the_package_of_its_name(self):
        for name in FUNCTIONS:
            resource = SOURCE["Resources"][name]
            folder = "deliver" if name in DELIVER_FUNCTIONS else name.removesuffix("Function").lower()
            self.assertEqual(resource["Properties"]["CodeUri"], f"functions/{folder}/")
            self.assertTrue((ROOT / "functions" / folder / "Cargo.toml").is_file())
            # Identical, because sam builds identical functions only once.
            metadata = {
                "BuildMethod": "rust-cargolambda",
                "BuildProperties": {"Binary": f"holdfast-{folder}"},
            }
            self.assertEqual(resource["Metadata"], metadata)

    def test_names_of_log_groups_need_no_policy_of_the_account(self):
        names = {name: properties(name)["LogGroupName"]["Fn::Sub"] for name in of_type("AWS::Logs::LogGroup")}
        self.assertEqual(names.pop("ApiLogs"), "/aws/vendedlogs/holdfast/${AWS::StackName}/api")
        # The roles of the functions allow them to write to theirs, and the guides name them.
        wanted = {function.replace("Function", "Logs"): dashed(function) for function in FUNCTIONS}
        self.assertEqual(names, {group: f"/holdfast/${{AWS::StackName}}/{name}" for group, name in wanted.items()})
        guide = read("infra/docs/deploy.md")
        self.assertEqual([name for name in wanted.values() if f"`{name}`" not in guide], [])

    def test_logs_are_kept_for_a_while_and_not_for_ever(self):
        for name in of_type("AWS::Logs::LogGroup"):
            self.assertEqual(properties(name)["RetentionInDays"], "30")
        for name in FUNCTIONS:
            group = name.replace("Function", "Logs")
            self.assertEqual(properties(name)["LoggingConfig"]["LogGroup"], {"Ref": group})
            self.assertIn(group, RESOURCES)

    def test_concurrency_is_reserved_only_on_request_because_new_accounts_have_none_to_spare(self):
        wanted = {"IngestFunction": "IngestReservedConcurrency", "SweepFunction": "SweepReservedConcurrency"}
        for name in FUNCTIONS:
            self.assertIsNone(properties(name).get("ReservedConcurrentExecutions"), name)
        for name, parameter in wanted.items():
            reserved = {each: properties(each, **{parameter: "1"}).get("ReservedConcurrentExecutions") for each in FUNCTIONS}
            self.assertEqual({each: count for each, count in reserved.items() if count}, {name: "1"})
            # AWS refuses a reservation that leaves fewer than 100 unreserved.
            for size in PARAMETERS["Concurrency"]["AllowedValues"]:
                refusals = refused({parameter: 1, "Concurrency": size})
                self.assertEqual(refusals, ["NothingToReserve"] if size < 100 else [], size)

    def test_only_functions_that_are_invoked_by_what_they_send_may_loop(self):
        """Lambda stops such a chain after about 16 links. Any other loop is a mistake that Lambda should stop."""
        invoked_by = {
            attribute(properties(name)["EventSourceArn"]): attribute(properties(name)["FunctionName"])
            for name in of_type("AWS::Lambda::EventSourceMapping")
        }
        invokes = {
            function: {
                invoked_by[attribute(resource)]
                for statement in role_statements(function.replace("Function", "Role"))
                if "sqs:SendMessage" in as_list(statement["Action"])
                for resource in as_list(statement["Resource"])
                if attribute(resource) in invoked_by
            }
            for function in FUNCTIONS
        }
        for function in FUNCTIONS:
            reached, found = set(), {function}
            while found:
                found = set().union(*(invokes[each] for each in found)) - reached
                reached |= found
            allowed = properties(function).get("RecursiveLoop", "Terminate")
            self.assertEqual(allowed, "Allow" if function in reached else "Terminate", function)
            alarm = function.replace("Function", "Recursion")
            self.assertEqual(alarm in ALARM_STACK["Resources"], function in reached, function)

    def test_only_attempts_leave_through_subnets_and_only_when_given(self):
        inside = {"SubnetIds": "subnet-0a,subnet-0b", "SecurityGroupIds": "sg-0a"}
        for name in FUNCTIONS:
            attempts = name in POOLS or name == "AdminFunction"
            self.assertIsNone(properties(name).get("VpcConfig"))
            self.assertEqual(attempts, properties(name, **inside).get("VpcConfig") is not None, name)
        self.assertEqual(refused(inside), [])
        for one in inside.items():
            self.assertEqual(refused(dict([one])), ["SubnetsWithSecurityGroups"])


class Access(unittest.TestCase):
    # What each function calls, and what it can call although the suite may not make it; infra/aws/calls.py compares it with every strict run.
    CALLS = json.loads(read("infra/aws/calls.json"))
    RECEIVE = {
        f"sqs:{action}"
        for action in "ReceiveMessage DeleteMessage ChangeMessageVisibility GetQueueAttributes".split()
    }
    RESTORED = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${RestoredTable}"

    def calls(self, function):
        """Pairs of an action and the resource that it is about."""
        return [call.split() for kind in ["calls", "rare"] for call in self.CALLS[function][kind]]

    def expected(self, function):
        allowed = {
            (f"{function.replace('Function', 'Logs')}.Arn", action)
            for action in ["logs:CreateLogStream", "logs:PutLogEvents"]
        }
        for action, resource in self.calls(function):
            name, slash, index = resource.partition("/")
            if name in PARAMETERS:
                # Allowed only if the parameter is given.
                continue
            if slash:
                resource = f"${{{name}.Arn}}/{index}"
            elif RESOURCES[name]["Type"] != "AWS::SecretsManager::Secret":
                resource = f"{name}.Arn"
            allowed.add((resource, action))
        # Lambda receives the messages of a mapping, and deletes them, with the role of the function.
        for name in of_type("AWS::Lambda::EventSourceMapping"):
            mapping = properties(name)
            if attribute(mapping["FunctionName"]) == function:
                allowed |= {(attribute(mapping["EventSourceArn"]), action) for action in self.RECEIVE}
        return allowed

    def allowed(self, function, **values):
        return {
            (attribute(resource), action)
            for statement in role_statements(function.replace("Function", "Role"), **values)
            for resource in as_list(statement["Resource"])
            for action in as_list(statement["Action"])
        }

    def test_every_function_has_calls_and_the_rare_ones_have_a_reason(self):
        self.assertCountEqual(self.CALLS, FUNCTIONS)
        for function, calls in self.CALLS.items():
            self.assertEqual(calls.keys(), {"calls", "rare"})
            self.assertTrue(calls["calls"], function)
            self.assertEqual(set(calls["calls"]) & calls["rare"].keys(), set(), function)
            for call, reason in calls["rare"].items():
                self.assertRegex(reason, r"^[A-Z].{30,}\.$", call)

    def test_a_guide_shows_what_each_function_may_do(self):
        rows = []
        for function in FUNCTIONS:
            on_items, sends = set(), set()
            for call, resource in self.calls(function):
                service, action = call.split(":")
                if service == "dynamodb":
                    on_items.add(f"`{action} {resource.split('/')[-1]}`".replace(" Table", ""))
                elif action == "SendMessage":
                    sends.add(f"`{resource}`")
            cells = [f"`{dashed(function)}`", ", ".join(sorted(on_items)), ", ".join(sorted(sends))]
            rows.append(f"| {' | '.join(cells)} |")
        guide = read("infra/docs/production.md").splitlines()
        self.assertEqual([row for row in rows if row not in guide], [])

    def test_each_function_has_a_role_of_its_own(self):
        roles = {name: attribute(properties(name)["Role"]) for name in FUNCTIONS}
        self.assertEqual(roles, {name: name.replace("Function", "Role.Arn") for name in FUNCTIONS})
        self.assertEqual(len(of_type("AWS::IAM::Role")), len(FUNCTIONS))

    def test_each_role_allows_what_its_function_calls_and_nothing_else(self):
        for function in FUNCTIONS:
            with self.subTest(function):
                allowed, expected = self.allowed(function), self.expected(function)
                self.assertEqual(expected - allowed, set(), "missing")
                self.assertEqual(allowed - expected, set(), "too much")

    def test_only_what_announces_may_publish_and_only_to_the_given_topic(self):
        topic = "arn:aws:sns:us-east-1:111122223333:events"
        for function in FUNCTIONS:
            role = function.replace("Function", "Role")
            before = list(role_statements(role))
            added = [each for each in role_statements(role, EventsTopicArn=topic) if each not in before]
            publish = {"Effect": "Allow", "Action": "sns:Publish", "Resource": topic}
            self.assertEqual(added, [publish] if function == "DeliverRetryFunction" else [], function)
        variables = properties("DeliverRetryFunction", EventsTopicArn=topic)["Environment"]["Variables"]
        self.assertEqual(variables["HOLDFAST_EVENTS_TOPIC"], topic)

    def test_no_wildcards(self):
        """The ARN of a log group already ends with `:*`; no other wildcard is needed."""
        for role in of_type("AWS::IAM::Role"):
            for statement in role_statements(role):
                self.assertEqual(statement["Effect"], "Allow")
                self.assertEqual(statement.keys(), {"Effect", "Action", "Resource"})
                for each in as_list(statement["Action"]) + as_list(statement["Resource"]):
                    self.assertNotIn("*", json.dumps(each), role)
        others = {
            "AWS::IAM::Policy",
            "AWS::IAM::ManagedPolicy",
            "AWS::SQS::QueuePolicy",
            "AWS::SecretsManager::ResourcePolicy",
        }
        self.assertEqual([name for name, each in RESOURCES.items() if each["Type"] in others], [])

    def test_a_key_of_the_account_encrypts_everything_that_is_stored(self):
        key = {"KmsKeyArn": "arn:aws:kms:us-east-1:111122223333:key/1"}
        encrypted = {
            "AWS::SQS::Queue": "KmsMasterKeyId",
            "AWS::SecretsManager::Secret": "KmsKeyId",
            "AWS::Logs::LogGroup": "KmsKeyId",
        }
        for kind, name in encrypted.items():
            for resource in of_type(kind):
                self.assertIsNone(properties(resource)[name], resource)
                self.assertEqual(properties(resource, **key)[name], key["KmsKeyArn"], resource)
                self.assertIsNone(properties(resource, **key).get("SqsManagedSseEnabled"), resource)
        self.assertIsNone(properties("Table")["SSESpecification"])
        table = properties("Table", **key)["SSESpecification"]
        self.assertEqual(table, {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": key["KmsKeyArn"]})

    def test_functions_may_use_that_key_for_what_is_stored_and_nothing_else(self):
        key = {"KmsKeyArn": "arn:aws:kms:us-east-1:111122223333:key/1"}
        for function in FUNCTIONS:
            role = function.replace("Function", "Role")
            (statement,) = [each for each in role_statements(role, **key) if each not in list(role_statements(role))]
            self.assertEqual(statement["Resource"], key["KmsKeyArn"])
            self.assertTrue(all(action.startswith("kms:") for action in statement["Action"]))
            self.assertNotIn("*", json.dumps(statement))
            services = [attribute(each).split(".")[0] for each in statement["Condition"]["StringEquals"]["kms:ViaService"]]
            self.assertEqual(services, ["dynamodb", "sqs"] + ["secretsmanager"] * (function in API_FUNCTIONS))

    def test_a_restored_table_takes_the_place_of_the_own_one(self):
        for function in FUNCTIONS:
            variables = properties(function, RestoredTable="restored")["Environment"]["Variables"]
            self.assertEqual(variables["HOLDFAST_TABLE"], "restored")
        for name in ["Alarms", "DashboardStack"]:
            self.assertEqual(properties(name, RestoredTable="restored")["Parameters"]["TableName"], "restored")
        self.assertEqual(value(SOURCE["Outputs"]["TableName"]["Value"], {**DEFAULTS, "RestoredTable": "restored"}), "restored")

    def test_a_function_may_do_with_a_restored_table_what_it_may_do_with_the_own_one(self):
        for function in FUNCTIONS:
            with self.subTest(function):
                own, both = self.allowed(function), self.allowed(function, RestoredTable="restored")
                of_table = {(resource, action) for resource, action in own if "Table.Arn" in resource}
                restored = {
                    (resource.replace("${Table.Arn}", self.RESTORED).replace("Table.Arn", self.RESTORED), action)
                    for resource, action in of_table
                }
                self.assertTrue(restored)
                self.assertEqual(both, own | restored)

    def test_a_boundary_applies_to_all_roles(self):
        boundary = {"PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/bound"}
        for role in of_type("AWS::IAM::Role"):
            self.assertIsNone(properties(role)["PermissionsBoundary"])
            self.assertEqual(properties(role, **boundary)["PermissionsBoundary"], boundary["PermissionsBoundaryArn"])

    def test_policies_of_aws_are_there_only_for_subnets(self):
        inside = {"SubnetIds": "subnet-0a", "SecurityGroupIds": "sg-0a"}
        for role in of_type("AWS::IAM::Role"):
            self.assertIsNone(properties(role).get("ManagedPolicyArns"), role)
            attached = properties(role, **inside).get("ManagedPolicyArns") or []
            names = [arn["Fn::Sub"].rsplit("/", 1)[1] for arn in attached]
            leaves = role.replace("Role", "Function") in [*POOLS, "AdminFunction"]
            self.assertEqual(names, ["AWSLambdaENIManagementAccess"] if leaves else [], role)

    def test_only_lambda_takes_the_roles(self):
        for role in of_type("AWS::IAM::Role"):
            (statement,) = properties(role)["AssumeRolePolicyDocument"]["Statement"]
            self.assertEqual(statement["Principal"], {"Service": "lambda.amazonaws.com"})

    def test_the_key_is_generated_and_long(self):
        secret = properties("OperatorSecret")
        self.assertNotIn("SecretString", secret)
        self.assertGreaterEqual(secret["GenerateSecretString"]["PasswordLength"], 32)
        self.assertNotIn("SecretStringTemplate", secret["GenerateSecretString"])


class TheApi(unittest.TestCase):
    def test_routes(self):
        routes = {
            each["Properties"]["RouteKey"]: each["Properties"]["Target"]
            for each in of_type("AWS::ApiGatewayV2::Route").values()
        }
        wanted = {"POST /v1/events": "IngestIntegration", "$default": "AdminIntegration"}
        self.assertEqual(
            routes, {key: {"Fn::Sub": f"integrations/${{{name}}}"} for key, name in wanted.items()}
        )
        for name, function in [
            ("IngestIntegration", "IngestFunction"),
            ("AdminIntegration", "AdminFunction"),
        ]:
            integration = properties(name)
            self.assertEqual(attribute(integration["IntegrationUri"]), f"{function}.Arn")
            self.assertEqual(integration["PayloadFormatVersion"], "2.0")

    def test_every_call_reaches_a_function(self):
        """API Gateway uses an exact match, or else $default."""
        calls = re.findall(r'^    (get|post|patch|put|delete) "(/[^"]*)"', read("shared/api/src/routes.rs"), re.M)
        self.assertGreater(len(calls), 15)
        routes = {
            each["Properties"]["RouteKey"]: attribute(each["Properties"]["Target"])
            for each in of_type("AWS::ApiGatewayV2::Route").values()
        }
        reached = {
            (method, path): routes.get(f"{method.upper()} {path}", routes["$default"]) for method, path in calls
        }
        ingest = {call for call, target in reached.items() if "Ingest" in target}
        self.assertEqual(ingest, {("post", "/v1/events")})
        self.assertTrue(all("Admin" in target for call, target in reached.items() if call not in ingest))

    def test_a_domain_of_its_own_on_request(self):
        domain = {"DomainName": "events.example.com", "CertificateArn": "arn:aws:acm:us-east-1:111122223333:certificate/1"}
        self.assertEqual(refused(domain), [])
        for one in domain.items():
            self.assertEqual(refused(dict([one])), ["DomainWithCertificate"])
        for name in ["Domain", "DomainMapping"]:
            self.assertEqual(RESOURCES[name]["Condition"], "HasDomain")
        (configuration,) = properties("Domain", **domain)["DomainNameConfigurations"]
        self.assertEqual(configuration["CertificateArn"], domain["CertificateArn"])
        self.assertEqual(configuration["SecurityPolicy"], "TLS_1_2")
        pattern = re.compile(PARAMETERS["DomainName"]["AllowedPattern"])
        self.assertTrue(pattern.search("events.example.com") and pattern.search(""))
        for wrong in ["https://events.example.com", "example", "Events.example.com", "events.example.com/"]:
            self.assertFalse(pattern.search(wrong), wrong)

    def test_throttling(self):
        stage = properties(
            "ApiStage", EventsRateLimit="3", EventsBurstLimit="4"
        )
        self.assertEqual(
            stage["DefaultRouteSettings"], {"ThrottlingRateLimit": "3", "ThrottlingBurstLimit": "4"}
        )
        # Numbers: CloudFormation passes this property through unchanged, and the API rejects strings.
        others = {"ThrottlingRateLimit": 100, "ThrottlingBurstLimit": 200}
        self.assertEqual(stage["RouteSettings"], {"$default": others})
        self.assertIn("EventsRoute", RESOURCES["ApiStage"]["DependsOn"])

    def test_access_log_is_json_without_headers(self):
        log = properties("ApiStage")["AccessLogSettings"]
        self.assertEqual(attribute(log["DestinationArn"]), "ApiLogs.Arn")
        self.assertIn("status", json.loads(log["Format"]))
        self.assertNotIn("header", log["Format"].lower())
        self.assertNotIn("authorization", log["Format"].lower())

    def test_each_function_may_be_called_by_its_own_caller_only(self):
        callers = {
            attribute(permission["FunctionName"]): (
                permission["Principal"],
                attribute(permission["SourceArn"]),
            )
            for permission in (properties(name) for name in of_type("AWS::Lambda::Permission"))
        }
        api = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}/*/"
        self.assertEqual(
            callers,
            {
                "IngestFunction": ("apigateway.amazonaws.com", f"{api}POST/v1/events"),
                "AdminFunction": ("apigateway.amazonaws.com", f"{api}$default"),
                "SweepFunction": ("events.amazonaws.com", "SweepRule.Arn"),
            },
        )


class Alarms(unittest.TestCase):
    ALARMS = of_type("AWS::CloudWatch::Alarm", ALARM_STACK["Resources"])

    # Their state is read by another alarm, NoSweep, and sent to nobody.
    SILENT = {"SweepSilent", "Never"}

    def alarm(self, name):
        return self.ALARMS[name]["Properties"]

    def metrics(self, name):
        """Returns `(namespace, name, dimensions)` of the metrics of an alarm by their ids in its expression, or by `None`."""
        alarm = self.alarm(name)
        stats = [(each["Id"], each["MetricStat"]["Metric"]) for each in alarm.get("Metrics", []) if "MetricStat" in each]
        return {
            key: (
                metric["Namespace"],
                metric["MetricName"],
                {each["Name"]: each["Value"] for each in metric["Dimensions"]},
            )
            for key, metric in stats or [(None, alarm)]
        }

    def expression(self, name):
        (expression,) = [each["Expression"] for each in self.alarm(name)["Metrics"] if "Expression" in each]
        return expression

    def computed(self, name, **metrics):
        """Evaluates the expression of an alarm for these values of its metrics. The others have no data."""
        text = re.sub(r"^IF\((.*?), (100 \* .*), (\d+)\)$", r"(\2) if (\1) else (\3)", self.expression(name))
        values = {key: metrics.get(key) for key in self.metrics(name)}
        return eval(text, {"FILL": lambda value, default: default if value is None else value, **values})

    def rings(self, name, **metrics):
        alarm, value = self.alarm(name), self.computed(name, **metrics)
        compare = {
            "GreaterThanThreshold": value > alarm["Threshold"],
            "GreaterThanOrEqualToThreshold": value >= alarm["Threshold"],
            "LessThanThreshold": value < alarm["Threshold"],
        }
        return compare[alarm["ComparisonOperator"]]

    def test_each_points_to_a_section_of_the_runbook(self):
        headings = re.findall(r"^## (.+)$", read("infra/docs/runbook.md"), re.MULTILINE)
        alarms = [each for each in ALARM_STACK["Resources"].values() if "Alarm" in each["Type"]]
        self.assertGreater(len(alarms), len(self.ALARMS))
        for alarm in alarms:
            self.assertIn(alarm["Properties"]["AlarmDescription"].split("Runbook: ")[1], headings)

    def test_errors_and_throttles_of_every_function(self):
        for function, metric in itertools.product(FUNCTIONS, ["Errors", "Throttles"]):
            alarm = self.alarm(function.replace("Function", metric))
            self.assertEqual((alarm["Namespace"], alarm["MetricName"]), ("AWS/Lambda", metric))
            self.assertEqual(alarm["Dimensions"], [{"Name": "FunctionName", "Value": {"Ref": function}}])

    def test_a_loop_that_lambda_stops_is_an_alarm(self):
        for function in POOLS:
            alarm = self.alarm(function.replace("Function", "Recursion"))
            self.assertEqual(
                (alarm["Namespace"], alarm["MetricName"]), ("AWS/Lambda", "RecursiveInvocationsDropped")
            )
            self.assertEqual(alarm["Dimensions"], [{"Name": "FunctionName", "Value": {"Ref": function}}])

    def test_queues(self):
        for name, metric, queue in [
            ("DeadLetters", "ApproximateNumberOfMessagesVisible", "DeadLetterQueueName"),
            ("FirstAttemptsLate", "ApproximateAgeOfOldestMessage", "FirstQueueName"),
            ("SlowAttemptsLate", "ApproximateAgeOfOldestMessage", "SlowQueueName"),
            ("RetriesLate", "ApproximateAgeOfOldestMessage", "RetryQueueName"),
        ]:
            self.assertEqual(self.alarm(name)["MetricName"], metric)
            self.assertEqual(self.alarm(name)["Dimensions"], [{"Name": "QueueName", "Value": {"Ref": queue}}])

    def test_each_queue_may_be_late_by_a_time_of_its_own(self):
        limits = {
            "FirstAttemptsLate": "QueueAgeAlarmSeconds",
            "SlowAttemptsLate": "SlowAgeAlarmSeconds",
            "RetriesLate": "RetryAgeAlarmSeconds",
        }
        self.assertEqual({name: self.alarm(name)["Threshold"] for name in limits}, {name: {"Ref": limit} for name, limit in limits.items()})
        for limit in limits.values():
            self.assertEqual(SOURCE["Resources"]["Alarms"]["Properties"]["Parameters"][limit], {"Ref": limit})
        # URLs with slow answers may wait longer than others.
        self.assertGreater(int(DEFAULTS["SlowAgeAlarmSeconds"]), int(DEFAULTS["QueueAgeAlarmSeconds"]))

    def test_silence_of_the_sweep_is_an_alarm_and_no_other_silence_is(self):
        silent = {name for name in self.ALARMS if self.alarm(name)["TreatMissingData"] == "breaching"}
        self.assertEqual(silent, {"SweepSilent"})

    def test_silence_of_the_sweep_rings_late_enough_for_a_new_stack(self):
        """A metric alarm that treats missing data as breaching is in ALARM as soon as it is created."""
        no_sweep = ALARM_STACK["Resources"]["NoSweep"]["Properties"]
        self.assertEqual(no_sweep["AlarmRule"], {"Fn::Sub": 'ALARM("${SweepSilent.Arn}")'})
        self.assertGreaterEqual(no_sweep["ActionsSuppressorWaitPeriod"], 300)
        self.assertEqual(attribute(no_sweep["ActionsSuppressor"]), "Never.Arn")
        self.assertEqual(self.alarm("Never")["TreatMissingData"], "notBreaching")
        published = read("shared/aws/src/metrics.rs")
        self.assertNotIn(self.alarm("Never")["MetricName"], published)

    def test_only_alarms_that_cost_more_need_somebody_to_tell(self):
        needing = {name for name, each in ALARM_STACK["Resources"].items() if each.get("Condition") == "IsHeard"}
        several = {name for name in self.ALARMS if len(self.metrics(name)) > 1}
        self.assertEqual(needing, several | {"NoSweep", "Never"})

    def test_metrics_of_holdfast_exist(self):
        published = set(re.findall(r'"([A-Z][A-Za-z]+)"', read("shared/aws/src/metrics.rs")))
        names = set()
        for alarm in self.ALARMS.keys() - {"Never"}:
            for namespace, name, dimensions in self.metrics(alarm).values():
                if namespace == "Holdfast":
                    self.assertEqual(dimensions, {"Stack": {"Ref": "StackName"}}, alarm)
                    self.assertIn(name, published, alarm)
                    names.add(name)
        self.assertLessEqual(
            {"OldestOverdueSeconds", "HealthWritesDropped", "MessagesGivenBack", "AttemptsNotMade"}, names
        )

    def test_the_guides_and_the_dashboard_have_the_metrics_that_are_published(self):
        code = read("shared/aws/src/metrics.rs").split("#[cfg(test)]")[0]
        published = set(re.findall(r'(?:\(|name: )"([A-Z][A-Za-z]+)",', code))
        guide = read("infra/docs/deploy.md").split("Metrics are in the namespace")[1].split("The [runbook]")[0]
        self.assertEqual(set(re.findall(r"`([A-Z][A-Za-z]+)`", guide)) - {"Holdfast", "Stack"}, published)
        shown = {metric[1] for metrics in self.dashboard().values() for metric in metrics if metric[0] == "Holdfast"}
        self.assertLessEqual(shown, published)
        self.assertIn("SentToSlowQueue", shown)
        more = NUMBERS[len(published) - 2]
        self.assertTrue(f"two of the sweep (up to {more} more" in read("infra/docs/costs.md"), more)

    def test_messages_given_back_ring_by_their_share(self):
        for given, succeeded, failed, rings in [
            (None, None, None, False),
            (9, None, None, False),
            (10, None, None, True),
            (10, 80, None, True),
            (10, 80, 10, False),
            (1000, 8000, 2000, False),
        ]:
            self.assertEqual(
                self.rings("MessagesGivenBack", given=given, succeeded=succeeded, failed=failed),
                rings,
                (given, succeeded, failed),
            )

    def test_a_collapse_of_all_attempts_rings(self):
        for succeeded, failed, not_made, rings in [
            (None, None, None, False),
            (None, 49, None, False),
            (None, 50, None, True),
            (None, None, 50, True),
            (4, 46, None, True),
            (5, 45, None, False),
            (900, 100, None, False),
        ]:
            self.assertEqual(
                self.rings("SuccessCollapsed", succeeded=succeeded, failed=failed, not_made=not_made),
                rings,
                (succeeded, failed, not_made),
            )

    def test_throttles_of_the_table_and_of_every_index(self):
        indexes = {index["IndexName"] for index in properties("Table")["GlobalSecondaryIndexes"]}
        for name, metric in [("WritesThrottled", "WriteThrottleEvents"), ("ReadsThrottled", "ReadThrottleEvents")]:
            metrics = self.metrics(name)
            self.assertEqual({each[:2] for each in metrics.values()}, {("AWS/DynamoDB", metric)})
            dimensions = [each[2] for each in metrics.values()]
            self.assertTrue(all(each["TableName"] == {"Ref": "TableName"} for each in dimensions))
            self.assertEqual({each.get("GlobalSecondaryIndexName") for each in dimensions}, indexes | {None})
            self.assertFalse(self.rings(name))
            for key in metrics:
                self.assertTrue(self.rings(name, **{key: 1}), key)

    def test_all_tell_the_address_and_the_topic(self):
        nothing = {"Ref": "AWS::NoValue"}
        both = [
            {"Fn::If": ["HasEmail", {"Ref": "Topic"}, nothing]},
            {"Fn::If": ["HasTopic", {"Ref": "AlarmTopicArn"}, nothing]},
        ]
        alarms = {**self.ALARMS, **of_type("AWS::CloudWatch::CompositeAlarm", ALARM_STACK["Resources"])}
        for name in alarms.keys() - self.SILENT:
            self.assertEqual(alarms[name]["Properties"]["AlarmActions"], both, name)
            self.assertEqual(alarms[name]["Properties"]["OKActions"], both, name)
        for name in self.SILENT:
            self.assertNotIn("AlarmActions", self.alarm(name))

    def test_nested_stacks_get_what_they_ask_for(self):
        for name, path in [
            ("Alarms", "infra/stacks/alarms.yaml"),
            ("DashboardStack", "infra/stacks/dashboard.yaml"),
        ]:
            nested = SOURCE["Resources"][name]["Properties"]
            self.assertEqual(nested["TemplateURL"], path)
            self.assertEqual(nested["Parameters"].keys(), yaml_parse(read(path))["Parameters"].keys())
            for key, given in nested["Parameters"].items():
                if key.endswith("Function"):
                    self.assertEqual(given, {"Ref": key}, name)
                if key.endswith("QueueName"):
                    self.assertEqual(attribute(given), key.replace("QueueName", "Queue.QueueName"), name)

    def test_the_costs_have_all_alarms(self):
        """AWS charges for the metrics of an alarm, and for a composite alarm as for five."""
        metrics = sum(len(self.metrics(name)) for name in self.ALARMS)
        composites = len(of_type("AWS::CloudWatch::CompositeAlarm", ALARM_STACK["Resources"]))
        rows = dict(re.findall(r"^\| (metrics of alarms|composite alarm) \| (\d+) \|", read("infra/docs/costs.md"), re.MULTILINE))
        self.assertEqual(rows, {"metrics of alarms": str(metrics), "composite alarm": str(composites)})

    def dashboard(self):
        """Returns the metrics of each widget by its title."""
        dashboard = yaml_parse(read("infra/stacks/dashboard.yaml"))["Resources"]["Dashboard"]["Properties"]
        widgets = json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]
        return {widget["properties"]["title"]: widget["properties"]["metrics"] for widget in widgets}

    def test_the_dashboard_is_json(self):
        self.assertTrue(all(self.dashboard().values()))

    def test_the_dashboard_has_every_queue_and_every_pool(self):
        for title, wanted in [
            ("Messages in the queues", [*POOLS.values(), "DeadLetterQueue"]),
            ("Age of the oldest message, s", list(POOLS.values())),
        ]:
            queues = [metric[3] for metric in self.dashboard()[title]]
            self.assertCountEqual(queues, [f"${{{queue}Name}}" for queue in wanted], title)
        for title in ["Concurrent executions", "Duration, p99, ms"]:
            functions = [metric[3] for metric in self.dashboard()[title]]
            self.assertCountEqual(functions, [f"${{{name}}}" for name in ["IngestFunction", *POOLS]], title)


class Deployer(unittest.TestCase):
    """The roles to deploy with. What CloudFormation calls for each type of resource is in the resource schemas of AWS."""

    STACK = yaml_parse(read("infra/stacks/deployer.yaml"))["Resources"]
    # What CloudFormation calls only for properties that the template does not have.
    UNUSED = {
        # Imports, replicas, resource policies, streams and insights of a table.
        *(
            f"dynamodb:{action}"
            for action in "AssociateTableReplica CreateTableReplica ImportTable DescribeImport BatchWriteItem DeleteItem GetItem PutItem "
            "Query Scan UpdateItem PutResourcePolicy DeleteResourcePolicy EnableKinesisStreamingDestination "
            "DisableKinesisStreamingDestination UpdateKinesisStreamingDestination UpdateContributorInsights".split()
        ),
        "kinesis:DescribeStream",
        "kinesis:PutRecords",
        "iam:CreateServiceLinkedRole",
        "kms:ListAliases",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        # Not in the list of actions of API Gateway, which uses POST and DELETE for tags.
        "apigateway:TagResource",
        "apigateway:UntagResource",
        # The OpenAPI document of an API, in a bucket.
        "s3:ListBucket",
        "s3:GetObjectMetadata",
        # Policies of users and groups.
        *(f"iam:{verb}{kind}Policy" for verb in ["Get", "Put", "Delete"] for kind in ["User", "Group"]),
        "iam:DeleteRolePermissionsBoundary",
        # File systems, layers, signing, versions and capacity of functions.
        "elasticfilesystem:DescribeMountTargets",
        "s3files:ListMountTargets",
        *(
            f"lambda:{action}"
            for action in "GetLayerVersion PublishVersion GetCodeSigningConfig PutFunctionCodeSigningConfig "
            "DeleteFunctionCodeSigningConfig PassCapacityProvider PutFunctionScalingConfig PutRuntimeManagementConfig".split()
        ),
        # Policies, indexes and other ways into a log group.
        *(
            f"logs:{action}"
            for action in "DeleteDataProtectionPolicy PutDataProtectionPolicy DeleteIndexPolicy PutIndexPolicy DeleteResourcePolicy "
            "PutBearerTokenAuthentication PutLogGroupDeletionProtection".split()
        ),
        "firehose:TagDeliveryStream",
        "s3:REST.PUT.OBJECT",
        "sns:PutDataProtectionPolicy",
        "secretsmanager:ReplicateSecretToRegions",
        "secretsmanager:RemoveRegionsFromReplication",
        # Policies and protection of nested stacks.
        "cloudformation:GetStackPolicy",
        "cloudformation:SetStackPolicy",
        "cloudformation:UpdateTerminationProtection",
    }
    # What AWS documents elsewhere: the access log of an HTTP API.
    MORE = {f"logs:{verb}LogDelivery" for verb in ["Get", "Update", "Delete"]} | {"logs:ListLogDeliveries"}

    def actions(self, *names):
        return {
            action
            for name in names
            for statement in self.STACK[name]["Properties"]["PolicyDocument"]["Statement"]
            if statement["Effect"] == "Allow"
            for action in as_list(statement["Action"])
        }

    def needed(self):
        nested = [yaml_parse(read(f"infra/stacks/{name}.yaml"))["Resources"] for name in ["alarms", "dashboard"]]
        kinds = {each["Type"] for resources in [RESOURCES, *nested] for each in resources.values()}
        self.assertGreater(len(kinds), 15)
        schemas = [PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema for kind in kinds]
        return {
            # One schema writes it in lower case.
            action.replace("getObject", "GetObject")
            for schema in schemas
            for handler in ["create", "read", "update", "delete"]
            for action in schema["handlers"].get(handler, {}).get("permissions", [])
        }

    def test_may_do_what_every_resource_of_the_template_takes_and_nothing_else(self):
        allowed = self.actions("StatePolicy", "FunctionsPolicy")
        self.assertEqual((self.needed() - self.UNUSED) - allowed, set(), "missing")
        self.assertEqual(allowed - (self.needed() - self.UNUSED) - self.MORE, set(), "too much")
        self.assertFalse([action for action in allowed if "*" in action])

    def test_policies_are_as_short_as_aws_wants_them(self):
        for name, policy in of_type("AWS::IAM::ManagedPolicy", self.STACK).items():
            text = json.dumps(policy["Properties"]["PolicyDocument"], separators=(",", ":"))
            # The longest values that the names can have.
            text = re.sub(r'\{"Fn::Sub":("[^"]*")\}', r"\1", text).replace("${AWS::Partition}", "aws")
            text = text.replace("${AWS::Region}", "ap-southeast-1").replace("${AWS::AccountId}", "0" * 12)
            text = text.replace("${AWS::URLSuffix}", "amazonaws.com").replace("${StackPrefix}", "x" * 20)
            self.assertLess(len(text), 6144, name)

    def test_roles_of_functions_keep_within_the_boundary(self):
        statements = self.STACK["FunctionsPolicy"]["Properties"]["PolicyDocument"]["Statement"]
        for action in ["iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary"]:
            found = [each for each in statements if action in as_list(each["Action"])]
            (statement,) = [each for each in found if each["Effect"] == "Allow"]
            self.assertEqual(statement["Condition"], {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "Boundary"}}})
        self.assertNotIn("iam:DeleteRolePermissionsBoundary", self.actions("FunctionsPolicy"))
        key = {"KmsKeyArn": "arn:aws:kms:us-east-1:111122223333:key/1", "EventsTopicArn": "arn:aws:sns:us-east-1:111122223333:events"}
        used = {
            action
            for role in of_type("AWS::IAM::Role")
            for statement in role_statements(role, **key)
            for action in as_list(statement["Action"])
        }
        interfaces = {action for action in self.actions("Boundary") if action.startswith("ec2:")}
        self.assertEqual(self.actions("Boundary"), used | interfaces)

    def test_the_pipeline_starts_cloudformation_and_nothing_else(self):
        role = self.STACK["PipelineRole"]["Properties"]
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        conditions = trust["Condition"]["StringEquals"]
        subject = conditions["token.actions.githubusercontent.com:sub"]["Fn::Sub"]
        self.assertEqual(subject, "repo:${Repository}:environment:${Environment}")
        self.assertEqual(conditions["token.actions.githubusercontent.com:aud"], "sts.amazonaws.com")
        services = {
            action.split(":")[0]
            for statement in role["Policies"][0]["PolicyDocument"]["Statement"]
            for action in as_list(statement["Action"])
        }
        self.assertEqual(services, {"cloudformation", "s3", "iam"})

    def test_the_example_of_a_pipeline_takes_that_role_and_keeps_no_credentials(self):
        workflow = yaml_parse(read("infra/stacks/pipeline.yml"))
        (job,) = workflow["jobs"].values()
        self.assertEqual(job["permissions"], {"contents": "read", "id-token": "write"})
        self.assertEqual(job["environment"], "production")
        steps = json.dumps(job["steps"])
        self.assertIn("role-to-assume", steps)
        self.assertNotIn("secrets.", steps)
        for step in job["steps"]:
            if "uses" in step:
                self.assertRegex(step["uses"], r"@[0-9a-f]{40}$", "not pinned")
        self.assertIn("--config-env production", steps)


class Tools(unittest.TestCase):
    def test_what_describes_the_stack_counts_its_parts(self):
        functions, queues = NUMBERS[len(FUNCTIONS)], NUMBERS[len(of_type("AWS::SQS::Queue"))]
        for path in ["template.yaml", "infra/docs/deploy.md"]:
            self.assertTrue(f"{functions} functions, {queues} queues" in read(path), path)
        self.assertTrue(f"{functions} Lambda functions, {queues} SQS queues" in read("README.md"))

    def test_a_restore_stops_and_starts_every_pool(self):
        mappings = {function.replace("Function", "Mapping") for function in POOLS}
        loops = re.findall(r"for name in (.*Mapping); do", read("infra/docs/restore.md"))
        self.assertEqual([set(loop.split()) for loop in loops], [mappings] * 2)

    def test_outputs(self):
        wanted = {
            "ApiUrl",
            "OperatorSecretArn",
            "TableName",
        }
        self.assertLessEqual(wanted, SOURCE["Outputs"].keys())
        for queue in of_type("AWS::SQS::Queue"):
            self.assertEqual(SOURCE["Outputs"][f"{queue}Url"]["Value"], {"Ref": queue})
        steps = {
            "Step1GetTheKey": "get-secret-value",
            "Step2MakeAKey": "/v1/keys",
            "Step3Subscribe": "/v1/subscriptions",
            "Step4PostAnEvent": "/v1/events",
        }
        for name, part in steps.items():
            self.assertIn(part, SOURCE["Outputs"][name]["Value"]["Fn::Sub"])

    def test_the_step_that_makes_a_key_takes_it_out_of_the_answer(self):
        command = SOURCE["Outputs"]["Step2MakeAKey"]["Value"]["Fn::Sub"]
        script = re.search(r"\| (sed '[^']*')", command)[1]
        answer = '{"id":"key_a","tenant":"default","role":"admin","description":null,"built_in":false,"key":"hf_x7"}'
        taken = subprocess.run(["sh", "-c", script], input=answer, capture_output=True, text=True, check=True)
        self.assertEqual(taken.stdout.strip(), "hf_x7")

    def test_sam_is_configured_for_every_stage(self):
        stages = tomllib.loads(read("infra/samconfig.toml"))
        del stages["version"]
        self.assertEqual(list(stages), ["default", "staging", "production"])
        for stage in stages.values():
            deploy = stage["deploy"]["parameters"]
            self.assertIn("CAPABILITY_IAM", deploy["capabilities"])
            self.assertIs(deploy["resolve_s3"], True)
            # The cache of sam would miss changes in shared/.
            self.assertIs(stage["build"]["parameters"]["cached"], False)
            self.assertIs(stage["validate"]["parameters"]["lint"], True)
            self.assertEqual(stage["delete"]["parameters"]["stack_name"], deploy["stack_name"])
            values = dict(each.split("=") for each in deploy.get("parameter_overrides", []))
            self.assertEqual(values.keys() - PARAMETERS.keys(), set())
            self.assertEqual(refused(values), [])
        names = [stage["deploy"]["parameters"]["stack_name"] for stage in stages.values()]
        self.assertEqual(len(set(names)), len(names))

    def test_cfn_lint_is_content(self):
        lint = run("cfn-lint", "template.yaml", *(f"infra/stacks/{name}.yaml" for name in ["alarms", "dashboard", "deployer"]))
        self.assertEqual((lint.returncode, lint.stdout), (0, ""), lint.stderr)

    def test_sam_validate_is_content(self):
        validate = run(
            "sam",
            "validate",
            "--lint",
            "--template-file",
            "template.yaml",
            "--config-file",
            "infra/samconfig.toml",
        )
        self.assertEqual(validate.returncode, 0, validate.stdout + validate.stderr)


if __name__ == "__main__":
    unittest.main()
