# SPDX-License-Identifier: Apache-2.0
"""usage: json_schema.py SCHEMA FILE: is each document valid that should be, and no other?

FILE is a list of pairs: a document, and whether the schema accepts it.
"""

import json
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("[test skipped] python3-jsonschema is not installed (scripts/install-deps)")
    sys.exit()

with open(sys.argv[1], encoding="utf-8") as schema, open(sys.argv[2], encoding="utf-8") as asked:
    rules, documents = json.load(schema), json.load(asked)
Draft202012Validator.check_schema(rules)
validator = Draft202012Validator(rules)
wrong = [(document, valid) for document, valid in documents
         if validator.is_valid(document) != valid]
for document, valid in wrong:
    why = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    print("valid" if not valid else f"not valid, {why}", document, sep=": ")
sys.exit(1 if wrong or not documents else 0)
