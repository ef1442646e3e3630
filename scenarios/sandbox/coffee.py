# What a model may write for "how much was spent on what?": a statement comes in
# on stdin, totals go out on stdout, and nothing is written anywhere.
import csv
import sys

cents = {}
for row in csv.DictReader(sys.stdin):
    if row["date"].startswith("2026-10"):
        whole, part = row["amount"].split(".")
        cents[row["category"]] = cents.get(row["category"], 0) + int(whole) * 100 + int(part)
for category in sorted(cents):
    print(f"{category} {cents[category] // 100}.{cents[category] % 100:02d}")
