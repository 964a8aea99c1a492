"""Compiles many changes of the core at once, for infra/mutants.

A copy of the core and the simulation gets a switch in every changed function: one body for each change, and the one that an environment
variable names is run.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutants"
COPY = TARGET / "copy"
SWITCH = "HOLDFAST_MUTANT"

# In the copy only.
SWITCH_CODE = f"""
pub(crate) mod mutants {{
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn active() -> usize {{
        static ACTIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        *ACTIVE.get_or_init(|| std::env::var("{SWITCH}").map_or(0, |number| number.parse().unwrap()))
    }}
}}
"""

# What braces do not count in.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])'""",
    re.DOTALL,
)


class Source:
    """A file of the core with the changes that are to be compiled into it."""

    def __init__(self, file, mutants):
        self.file, self.mutants = file, mutants
        self.text = (ROOT / file).read_text()
        self.masked = NO_CODE.sub(lambda found: " " * len(found.group()), self.text)
        self.lines = [0]
        for found in re.finditer("\n", self.text):
            self.lines.append(found.end())

    def offset(self, place):
        return self.lines[place["line"] - 1] + place["column"] - 1

    def span(self, span):
        return self.offset(span["start"]), self.offset(span["end"])

    def body(self, mutant):
        """Where the body of the function begins and ends, with its braces."""
        start, end = self.span(mutant["function"]["span"])
        depth = 0
        for place in range(end - 1, start, -1):
            depth += {"}": 1, "{": -1}.get(self.masked[place], 0)
            if depth == 0:
                return place, end
        raise ValueError(f"{mutant['name']}: no body found")

    def can_switch(self, mutant):
        if mutant["function"] is None or "impl " in mutant["function"]["return_type"]:
            return False
        start, _ = self.span(mutant["function"]["span"])
        return not re.search(r"\bconst\s+fn\b", self.masked[start : self.body(mutant)[0]])

    def switched(self):
        """The file with a switch in every function, and the lines of each change."""
        bodies = {}
        # A function in a function is a part of the outer one's body.
        for body in sorted({self.body(mutant) for mutant in self.mutants}, key=lambda body: (body[0], -body[1])):
            if not any(start <= body[0] and body[1] <= end for start, end in bodies):
                bodies[body] = []
        for mutant in self.mutants:
            place = self.span(mutant["span"])
            outer = next(body for body in bodies if body[0] <= place[0] and place[1] <= body[1])
            bodies[outer].append((mutant, *place))
        code, arms, written = "", [], 0
        for (start, end), mutants in bodies.items():
            code += self.text[written:start] + "{ match crate::mutants::active() {\n"
            for mutant, change_start, change_end in mutants:
                first = code.count("\n") + 1
                changed = self.text[start:change_start] + mutant["replacement"] + self.text[change_end:end]
                code += f"{mutant['number']} => {changed}\n"
                arms.append((first, code.count("\n"), mutant))
            code += f"_ => {self.text[start:end]}\n}} }}"
            written = end
        return code + self.text[written:], arms


def cargo(*arguments):
    """Returns the messages of cargo and whether it succeeded. Warnings do not matter in changed code, and nothing is debugged."""
    flags = {"RUSTFLAGS": "--cap-lints=allow", "CARGO_PROFILE_SIMULATION_DEBUG": "none", "CARGO_TARGET_DIR": str(TARGET / "build")}
    command = ["cargo", *arguments, "--quiet", "--profile", "simulation", "--message-format", "json"]
    run = subprocess.run(command, cwd=COPY, env={**os.environ, **flags}, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()], run.returncode == 0


def write_changed(file, text):
    """A file that stays the same keeps its time, so that it is not compiled again."""
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


def copy_workspace():
    """The core and the simulation as a workspace of their own."""
    shutil.rmtree(COPY, ignore_errors=True)
    for package in ["shared/core", "shared/sim"]:
        shutil.copytree(ROOT / package, COPY / package)
    manifest = (ROOT / "Cargo.toml").read_text()
    manifest = re.sub(r"(?m)^(default-members|exclude) =.*\n", "", manifest)
    manifest = re.sub(r"(?m)^members =.*", 'members = ["shared/core", "shared/sim"]', manifest)
    (COPY / "Cargo.toml").write_text(manifest)
    shutil.copy(ROOT / "Cargo.lock", COPY)
    library = COPY / "shared/core/src/lib.rs"
    library.write_text(library.read_text() + SWITCH_CODE)


def compile_mutants(mutants):
    """Compiles all changes into the copy. Returns those that compile, those that do not, and the programs that test them."""
    copy_workspace()
    unviable = []
    while True:
        arms = {}
        for file in sorted({mutant["file"] for mutant in mutants + unviable}):
            code, arms[file] = Source(file, [mutant for mutant in mutants if mutant["file"] == file]).switched()
            write_changed(COPY / file, code)
        messages, succeeded = cargo("check", "-p", "holdfast-core", "--lib")
        if succeeded:
            break
        broken = set()
        for message in (message["message"] for message in messages if message["reason"] == "compiler-message"):
            found = {number for span in message["spans"] for number in arms_at(span, arms)}
            if message["level"] == "error" and message["spans"] and not found:
                sys.exit(f"infra/mutants: this is no fault of a change:\n{message['rendered']}")
            broken |= found
        if not broken:
            sys.exit("infra/mutants: the copy does not compile")
        unviable += [mutant for mutant in mutants if mutant["number"] in broken]
        mutants = [mutant for mutant in mutants if mutant["number"] not in broken]
        print(f"infra/mutants: {len(unviable)} changes do not compile", flush=True)
    tests = ["test", "--no-run", "-p", "holdfast-core", "-p", "holdfast-sim", "--lib", "--test", "sim"]
    messages, succeeded = cargo(*tests)
    binaries, built = cargo("build", "-p", "holdfast-sim", "--bin", "holdfast-sim")
    if not (succeeded and built):
        sys.exit("infra/mutants: the tests of the copy do not compile")
    artifacts = [message for message in messages + binaries if message.get("executable")]
    return mutants, unviable, {artifact["target"]["name"]: artifact["executable"] for artifact in artifacts}


def arms_at(span, arms):
    """The numbers of the changes at a place that the compiler names, which may be in a macro that the change uses."""
    while span:
        for first, last, mutant in arms.get(span["file_name"], []):
            if first <= span["line_start"] and span["line_end"] <= last:
                yield mutant["number"]
        span = span["expansion"] and span["expansion"]["span"]
