"""Reads the JUnit report of cargo-nextest and prints its results, a line each: passed N, failed N, skipped WHY, retried NAME.

A test that can't run prints "skipped: WHY" and ends well: it counts as skipped, not as passed.
"""

import re
import sys
import xml.etree.ElementTree as xml

passed = failed = 0
skipped, retried = [], []
for test in xml.parse(sys.argv[1]).iter("testcase"):
    if test.find("failure") is not None or test.find("error") is not None:
        failed += 1
        continue
    if test.find("flakyFailure") is not None or test.find("flakyError") is not None:
        retried.append(f"{test.get('classname')} {test.get('name')}")
    # libtest prints "test NAME ... " before the output where it has one CPU.
    reasons = re.findall(r"^(?:test .* \.\.\. )?skipped: (.*)", test.findtext("system-out") or "", re.MULTILINE)
    if reasons:
        skipped.append("; ".join(reasons))
    else:
        passed += 1
print("passed", passed)
print("failed", failed)
for reason in skipped:
    print("skipped", reason)
for name in retried:
    print("retried", name)
