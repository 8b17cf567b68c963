"""Prints one word of a JSON document of Remit: field.py WORD FILE [FILE]."""
import json
import os
import sys

word, name, *more = sys.argv[1:]
try:
    with open(name) as file:
        doc = json.load(file)
except ValueError:
    sys.exit(f"{name} is no JSON")


def error():
    e = doc.get("error")
    return f"{e['code']}: {e['message']}" if e else ""


def verdict():
    if doc.get("status") == "pass":
        return "pass"
    if doc.get("failure_reason"):
        return doc["failure_reason"].split(":")[0]
    return ", ".join(b["code"] for b in doc.get("blockers") or []) or error()


def control():
    c = doc["control"]
    return f"{c['status']}, {c['proved']} of {c['counting']}" if c["counting"] else c["status"]


def init():
    tried = doc.get("tried") or {}
    return error() or json.dumps(tried)[:2000]


def tests():
    return sum(sum(c["tests"][k] for k in ("passed", "failed")) for c in doc["tried"]["commands"] if c.get("tests")) or "by exit code"


def tests_of_run():
    """What came of each test on the base and on the change, as `remit reproduce` says it."""
    phases, seen = {}, {"fail_to_pass": [], "pass_to_pass": [], "pass_to_fail": []}
    path = os.path.join(doc["session_dir"], "test-results.jsonl")
    if not os.path.exists(path):  # no test of it has a name
        return seen
    with open(path) as file:
        for line in map(json.loads, file):
            phases.setdefault(line["test"], {})[line["phase"]] = line["outcome"]
    for test, outcome in sorted(phases.items()):
        seen.get(f"{outcome.get('base')}_to_{outcome.get('head')}", []).append(test)
    return seen


def reproduced(again):
    """Compares a run with what reproduce came to: the tree, and the outcome of each test."""
    with open(again) as file:
        said = json.load(file)
    if "error" in said or said["status"] != "pass" or said["findings"]:
        return json.dumps(said)[:1000]
    for list_, tests in tests_of_run().items():
        if sorted(said["verification"][list_]) != tests:
            return f"{list_} differs"
    return "same"


print({
    "verdict": verdict,
    "session": lambda: doc.get("session_id") or "",
    "commands": lambda: " && ".join(line for c in doc["facts"]["commands"] for line in c["lines"]),
    "control": control, "init": init, "tests": tests, "reproduced": reproduced,
}[word](*more))
