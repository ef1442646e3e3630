# What a model might write when asked "how much did I spend on coffee in
# October?": a CSV of transactions on stdin, totals a category on stdout.
import csv
import sys
from decimal import Decimal

spent = {}
for row in csv.DictReader(sys.stdin):
    if not row["date"].startswith("2026-10-"):
        continue
    name = row["category"]
    spent[name] = spent.get(name, Decimal(0)) + Decimal(row["amount"])

for name in sorted(spent, key=spent.get, reverse=True):
    print(f"{name} {spent[name]:.2f}")
print(f"coffee in October: {spent['coffee']:.2f}")
