"""The one text of a JSON value, for hashes and comparisons."""

import json

canonical_json = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
"""Members sorted by their names, no white space, nothing escaped that need not be."""
