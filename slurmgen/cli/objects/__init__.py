"""What each command prints with --json; docs/json.md shows it, and schemas/output has a JSON Schema of each.

Programs depend on these objects: keys may be added, but none is removed, renamed or given another meaning.
"""
