"""Generates clients from the OpenAPI document that a server serves, and uses them: in Python against the server, in TypeScript with the compiler.

Usage: clients.py PROGRAM FOLDER. Prints a summary in the format of cargo test; each client is a test.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from contract import HERE, call, server

CLIENTS = HERE / "clients"
TIMEOUT_S = 50


def run(command: list, folder: pathlib.Path, **environment: str) -> str:
    """Runs a program to its end, and returns what it printed."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [str(part) for part in command]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def python_client(folder: pathlib.Path, base: str, key: str) -> None:
    """A warning means that a part of the document has no client."""
    config = folder / "python.yaml"
    config.write_text("post_hooks: []\n")
    programs = pathlib.Path(sys.executable).parent
    said = run(
        [programs / "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "holdfast_client",
         "--meta", "none", "--overwrite", "--fail-on-warning", "--config", config],
        folder,
    )
    if "WARNING" in said.upper():
        raise RuntimeError(said)
    print(run([sys.executable, CLIENTS / "use.py", base, key], folder, PYTHONPATH=str(folder)), end="")


def typescript_types(folder: pathlib.Path, base: str, key: str) -> None:
    packages = pathlib.Path(run([CLIENTS / "packages"], folder).splitlines()[-1])
    run([packages / ".bin" / "openapi-typescript", "openapi.json", "--output", "types.ts"], folder)
    shutil.copy(CLIENTS / "use.ts", folder / "use.ts")
    run([packages / ".bin" / "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "es2022",
         "--moduleResolution", "bundler", "use.ts"], folder)
    print("the generated TypeScript types compile, and refuse what the document refuses")


def main() -> int:
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = tempfile.mkdtemp(prefix="holdfast-clients-")
    started, failed = time.monotonic(), 0
    tests = [python_client, typescript_types]
    try:
        with open(folder / "server.log", "w") as log, server(program, data, log) as (base, key):
            (folder / "openapi.json").write_text(json.dumps(call(base, key, "GET", "/openapi.json")))
            for test in tests:
                try:
                    test(folder, base, key)
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    print(f"{test.__name__}: {error}")
                    failed += 1
    finally:
        shutil.rmtree(data)
    verdict = "FAILED" if failed else "ok"
    took = time.monotonic() - started
    print(f"test result: {verdict}. {len(tests) - failed} passed; {failed} failed; 0 ignored; finished in {took:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
