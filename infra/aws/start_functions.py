"""Starts every function of the template as Lambda does, with the environment that the template gives it, until it asks for an event.

Run: python infra/aws/start_functions.py FOLDER [EMULATOR…]
FOLDER has one folder per program. EMULATOR is a command that runs programs of another processor.
"""

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from template_tests import FUNCTIONS, SOURCE, properties

# An emulated start takes about a second.
START_TIMEOUT_S = 60
# The C library of provided.al2023, the runtime in the template. A program that needs a newer one does not start there.
MAX_GLIBC = (2, 34)
NEXT = "/2018-06-01/runtime/invocation/next"


class Lambda(ThreadingHTTPServer):
    """The Runtime API, and the secret that functions read when they start. Reports what a function does first."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reports = queue.Queue()
        self.stopped = threading.Event()
        self.address = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.reports.put("polled" if self.path == NEXT else f"GET {self.path}")
        # There is no event. Lambda keeps the request open.
        self.server.stopped.wait()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("x-amz-target") != "secretsmanager.GetSecretValue":
            self.server.reports.put(f"POST {self.path}: {body[:2000]!r}")
            self.send_error(400)
            return
        answer = json.dumps({"ARN": "arn", "Name": "operator", "SecretString": "0123456789abcdef" * 3}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/x-amz-json-1.1")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def environment(function, address):
    """The variables of the template, with made-up names of resources, and those that Lambda sets."""
    variables = properties(function)["Environment"]["Variables"]
    made_up = {
        name: f"http://{address}/000000000000/{name}" if name.endswith("URL") else "made-up"
        for name, value in variables.items()
        if not isinstance(value, str)
    }
    return {
        **variables,
        **made_up,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_RUNTIME_API": address,
        "PATH": os.environ["PATH"],
    }


def check_library(program):
    versions = {tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())}
    if max(versions) > MAX_GLIBC:
        sys.exit(f"{program} needs version {max(versions)} of the C library; the runtime has {MAX_GLIBC}")


def start(function, program, emulator):
    """Returns after how many seconds the function asked for an event."""
    server = Lambda()
    began = time.monotonic()
    process = subprocess.Popen(
        [*emulator, program], env=environment(function, server.address), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    # Reported as well, so that a program that exits is not waited for.
    threading.Thread(target=lambda: server.reports.put(f"exited with {process.wait()}"), daemon=True).start()
    try:
        report = server.reports.get(timeout=START_TIMEOUT_S)
    except queue.Empty:
        report = f"did not ask for an event within {START_TIMEOUT_S} s"
    took_s = time.monotonic() - began
    process.kill()
    output, _ = process.communicate()
    server.stopped.set()
    server.shutdown()
    server.server_close()
    if report != "polled":
        sys.exit(f"{function}: {report}\n{output.decode(errors='replace')}")
    return took_s


def main():
    folder, emulator = Path(sys.argv[1]), sys.argv[2:]
    for function in FUNCTIONS:
        name = SOURCE["Resources"][function]["Metadata"]["BuildProperties"]["Binary"]
        program = folder / name / "bootstrap"
        check_library(program)
        print(f"{function}: asked for its first event after {start(function, program, emulator):.1f} s")


if __name__ == "__main__":
    main()
