"""The tables of the ledger: the statements that lead to each schema version from the one before."""

# After a cluster resets its job ids, an id may have two rows; the later one counts.
_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    cluster TEXT NOT NULL,
    site TEXT NOT NULL,
    via TEXT NOT NULL,
    host TEXT,
    ssh_config TEXT,
    name TEXT NOT NULL,
    folder TEXT NOT NULL,
    output TEXT NOT NULL,
    submitted TEXT NOT NULL
)
"""
MIGRATIONS = (
    (_TABLE,),
    (
        "ALTER TABLE jobs ADD COLUMN [key] TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN fingerprint TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN state TEXT NOT NULL DEFAULT 'submitted'",
        "ALTER TABLE jobs ADD COLUMN snapshot TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN [commit] TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN dirty INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE jobs ADD COLUMN ssh_client TEXT NOT NULL DEFAULT 'paramiko'",
        "ALTER TABLE jobs ADD COLUMN claims INTEGER NOT NULL DEFAULT 1",
        "CREATE UNIQUE INDEX one_a_key ON jobs ([key]) WHERE [key] != ''",
    ),
    ("ALTER TABLE jobs ADD COLUMN final TEXT NOT NULL DEFAULT ''",),
    (
        "ALTER TABLE jobs ADD COLUMN why TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN command TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN directory TEXT NOT NULL DEFAULT ''",
    ),
    ("ALTER TABLE jobs ADD COLUMN stderr TEXT NOT NULL DEFAULT ''",),
    ("ALTER TABLE jobs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",),
    (
        "ALTER TABLE jobs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE jobs ADD COLUMN requeued TEXT NOT NULL DEFAULT ''",
    ),
    (
        "ALTER TABLE jobs ADD COLUMN request TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN part_of TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN tasks TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX of_an_id ON jobs (id)",
        "CREATE INDEX of_a_name ON jobs (name, submitted)",
        "CREATE INDEX of_a_group ON jobs (part_of) WHERE part_of != ''",
    ),
    (
        "CREATE INDEX of_a_time ON jobs (submitted, number)",
        "CREATE INDEX of_a_site ON jobs (site, submitted, number)",
        "CREATE INDEX of_a_name_at_a_site ON jobs (site, name, submitted, number)",
        "CREATE INDEX unfinished ON jobs (submitted) WHERE final = ''",
        "CREATE INDEX of_a_command ON jobs (fingerprint) WHERE state = 'pending'",
    ),
    (
        """
        CREATE TABLE IF NOT EXISTS races (
            [key] TEXT PRIMARY KEY,
            command TEXT NOT NULL,
            chosen TEXT NOT NULL DEFAULT '',
            over INTEGER NOT NULL DEFAULT 0
        )
        """,  # slurmgen.jobs.races describes the columns
        "CREATE INDEX IF NOT EXISTS not_over ON races (command) WHERE over = 0",
    ),
    ("ALTER TABLE jobs ADD COLUMN seen TEXT NOT NULL DEFAULT ''",),
)
