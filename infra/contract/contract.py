"""Starts a server, compares it with the OpenAPI document that it serves, using schemathesis, and stops it.

Usage: contract.py PROGRAM FOLDER [OPTIONS of `st run`]. Prints a summary in the format of cargo test; each operation is a test.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import typing
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

HERE = pathlib.Path(__file__).resolve().parent
START_S = 60
DELIVERY_S = 30
STOP_S = 30


class User(typing.NamedTuple):
    name: str
    key: str
    key_id: str


@contextlib.contextmanager
def server(program: str, data: str, log):
    """Runs a server in development mode. Yields its address and its key."""
    command = [program, "dev", "--listen", "127.0.0.1:0", "--data", data, "--log-level", "warn"]
    with open(pathlib.Path(data) / "greeting", "w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=log)
        try:
            yield until("the server prints its key", START_S, lambda: greeting(process, said.name))
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    if process.returncode != 0:
        raise RuntimeError(f"the server exited with status {process.returncode}")


def greeting(process, path: str):
    if process.poll() is not None:
        raise RuntimeError(f"the server exited with status {process.returncode}")
    lines = pathlib.Path(path).read_text().splitlines()
    keys = [line.removeprefix("Key: ") for line in lines if line.startswith("Key: ")]
    return (lines[0].split(" running at ")[1].split(" ")[0], keys[0]) if keys else None


def until(what: str, seconds: float, check):
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def call(base: str, key: str, method: str, path: str, body=None):
    request = urllib.request.Request(base + path, method=method, headers={"authorization": f"Bearer {key}"})
    request.data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def create_resources(base: str, operator: str) -> tuple[list, dict]:
    """Creates two tenants and one resource of each kind. Returns the users and the ids of the resources."""
    users, kept = [], {}
    # The first user has the tenant of the operator, so that both find the same resources.
    for tenant in ("default", "other"):
        made = call(base, operator, "POST", "/v1/keys", {"tenant": tenant, "role": "admin"})
        users.append(User(tenant, made["key"], made["id"]))
        kept = kept or create_tenant_resources(base, made["key"])
    # schemathesis tries the operator where the other users are forbidden.
    return users + [User("operator", operator, "built-in")], kept


def create_tenant_resources(base: str, key: str) -> dict:
    """Creates a delivered and a failed delivery. Returns the ids of all resources that belong to them."""
    for status in (500, 200):
        body = {"url": f"{base}/dev/receiver/{status}", "event_types": ["kept"]}
        subscription = call(base, key, "POST", "/v1/subscriptions", body)
    event = call(base, key, "POST", "/v1/events", {"type": "kept", "data": {"number": 1}})
    deliveries = lambda: call(base, key, "GET", "/v1/deliveries")["items"]
    until("both deliveries are attempted", DELIVERY_S, lambda: len(deliveries()) == 2)
    path = f"/v1/urls/{subscription['url_id']}/replay"
    return {
        "events": event["id"],
        "subscriptions": subscription["id"],
        "urls": subscription["url_id"],
        "deliveries": deliveries()[0]["id"],
        "replays": call(base, key, "POST", path)["id"],
        "tenants": "default",
    }


def compare(base: str, users: list, kept: dict, folder: pathlib.Path, options: list) -> dict:
    """Runs schemathesis and returns its report."""
    users_file, report = folder / "users.json", folder / "report.json"
    header = lambda user: {"name": "Authorization", "value": f"Bearer {user.key}"}
    auth = [{"name": user.name, "fixedHeaders": [header(user)]} for user in users]
    users_file.write_text(json.dumps({"auth": auth}))
    report.unlink(missing_ok=True)
    environment = os.environ | {
        # Do not write files into the clone.
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONTRACT_HOOKS": str(HERE / "hooks.py"),
        "CONTRACT_USERS": str(users_file),
        "CONTRACT_KEYS": " ".join(user.key_id for user in users),
        "CONTRACT_KEPT": json.dumps(kept),
        "CONTRACT_RECEIVER": f"{base}/dev/receiver",
    }
    program = pathlib.Path(sys.executable).parent / "st"
    command = [program, "--config-file", HERE / "schemathesis.toml", "run", f"{base}/openapi.json", "--no-color"]
    command += ["--report", "json", "--report-json-path", report, *options]
    subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL)
    return json.loads(report.read_text())


def never_succeeded(report: dict) -> list:
    """Returns the operations for which no valid request was accepted."""
    rates = report["valid_rates"].items()
    return [name for name, phases in rates if not any(phase["accepted"] for phase in phases.values())]


def main() -> int:
    program, folder, options = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    log_path = folder / "server.log"
    data = tempfile.mkdtemp(prefix="holdfast-contract-")
    try:
        with open(log_path, "w") as log, server(program, data, log) as (base, key):
            document = call(base, key, "GET", "/openapi.json")
            OpenAPIV31SpecValidator(document).validate()
            report = compare(base, *create_resources(base, key), folder, options)
    finally:
        shutil.rmtree(data)
    complaints = [line for line in log_path.read_text().splitlines() if "ERROR" in line or "panicked" in line]
    complaints += [f"{name} never succeeded, so its answers were not checked" for name in never_succeeded(report)]
    print(*complaints, sep="\n")
    tested, passed = report["operations"]["tested"], report["exit_code"] == 0 and not complaints
    failed = 0 if passed else max(1, len({name for failure in report["failures"] for name in failure["operations"]}))
    verdict = "ok" if passed else "FAILED"
    print(f"test result: {verdict}. {max(0, tested - failed)} passed; {failed} failed; 0 ignored")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
