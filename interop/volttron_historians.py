"""Databases of historians, with the tables that VOLTTRON's historians make and the statements that they write with."""

import datetime
import json
import sqlite3

UTC = datetime.UTC
START = datetime.datetime(2016, 5, 1, 23, 59, 58, tzinfo=UTC)
TOPICS = {
    1: ("campus/building/ahu1/temp", {"units": "F", "tz": "UTC", "type": "float"}),
    2: ("campus/building/ahu1/fan", {"units": "On/Off", "type": "integer"}),
    3: ("campus/building/ahu2/mode", {}),
    4: ("Campus/Building/$odd+name", {"units": "kW"}),
}
# Topic, seconds after the start, value as the historian was given it.
VALUES = [
    (1, 0, 20.5),
    (1, 1, 21.0),
    (1, 1.25, -3),
    (1, 2, None),
    (1, 3, float("nan")),
    (2, 0, 1),
    (2, 1, True),
    (2, 2, False),
    (3, 0, "auto"),
    (3, 1, "für \"alle\""),
    (3, 2, {"setpoint": 21.5, "modes": ["a", "b"]}),
    (4, 0, 9007199254740993),
]


def written(value):
    return json.dumps(value)


def at(seconds):
    return START + datetime.timedelta(seconds=seconds)


class Sqlite:
    """The file of a SQLite historian. Versions before 9 have metadata in a table of its own, and the names of tables in another."""

    def __init__(self, path, prefix="", is_old=False):
        self.path, self.is_old = path, is_old
        self.prefix = prefix + "_" if prefix else ""
        self.db = sqlite3.connect(path)
        data, topics, meta = (self.prefix + name for name in ("data", "topics", "meta"))
        make = self.db.execute
        make("PRAGMA auto_vacuum=1")
        make(
            f"CREATE TABLE IF NOT EXISTS {data} (ts timestamp NOT NULL, topic_id INTEGER NOT NULL, value_string TEXT NOT NULL, "
            f"UNIQUE({'ts, topic_id' if is_old else 'topic_id, ts'}))"
        )
        make(f"CREATE INDEX IF NOT EXISTS data_idx ON {data} (ts ASC)")
        metadata = "" if is_old else "metadata TEXT, "
        make(
            f"CREATE TABLE IF NOT EXISTS {topics} (topic_id INTEGER PRIMARY KEY, topic_name TEXT NOT NULL, {metadata}UNIQUE(topic_name))"
        )
        if is_old:
            make(f"CREATE TABLE IF NOT EXISTS {meta} (topic_id INTEGER PRIMARY KEY, metadata TEXT NOT NULL)")
            make(
                "CREATE TABLE IF NOT EXISTS volttron_table_definitions "
                "(table_id TEXT PRIMARY KEY, table_name TEXT NOT NULL, table_prefix TEXT)"
            )
            for table in ("data", "topics", "meta"):
                make("INSERT INTO volttron_table_definitions VALUES (?, ?, ?)", (table + "_table", table, prefix))
        aggregate = self.prefix + "aggregate_topics"
        make(
            f"CREATE TABLE IF NOT EXISTS {aggregate} (agg_topic_id INTEGER PRIMARY KEY, agg_topic_name TEXT NOT NULL, "
            "agg_type TEXT NOT NULL, agg_time_period TEXT NOT NULL, UNIQUE(agg_topic_name, agg_type, agg_time_period))"
        )
        make("CREATE TABLE IF NOT EXISTS avg_1h (ts timestamp NOT NULL, topic_id INTEGER NOT NULL, agg_value REAL NOT NULL, topics_list TEXT)")

    def fill(self, topics=TOPICS, values=VALUES):
        for number, (name, meta) in topics.items():
            if self.is_old:
                self.db.execute(f"INSERT INTO {self.prefix}topics (topic_id, topic_name) values (?, ?)", (number, name))
                self.db.execute(f"INSERT OR REPLACE INTO {self.prefix}meta values(?, ?)", (number, json.dumps(meta)))
            else:
                row = (number, name, json.dumps(meta) if meta else None)
                self.db.execute(f"INSERT INTO {self.prefix}topics (topic_id, topic_name, metadata) values (?, ?, ?)", row)
        self.add(values)
        return self

    def add(self, values):
        # VOLTTRON's adapter writes isoformat, versions before 4.1 a space for the T; both without what is zero.
        rows = [(at(s).isoformat(" " if self.is_old else "T"), topic, written(v)) for topic, s, v in values]
        self.db.executemany(f"INSERT OR REPLACE INTO {self.prefix}data values(?, ?, ?)", rows)
        self.db.commit()


def fill_postgres(postgres, prefix="", is_old=False):
    """Tables of a SQL historian in PostgreSQL."""
    prefix = prefix + "_" if prefix else ""
    metadata = "" if is_old else "metadata TEXT, "
    statements = [
        f'CREATE TABLE IF NOT EXISTS "{prefix}data" (ts TIMESTAMP NOT NULL, topic_id INTEGER NOT NULL, value_string TEXT NOT NULL, '
        "UNIQUE (topic_id, ts))",
        f'CREATE INDEX IF NOT EXISTS "idx_{prefix}data" ON "{prefix}data" (ts ASC)',
        f'CREATE TABLE IF NOT EXISTS "{prefix}topics" (topic_id SERIAL PRIMARY KEY NOT NULL, topic_name VARCHAR(512) NOT NULL, '
        f"{metadata}UNIQUE (topic_name))",
    ]
    if is_old:
        statements.append(f'CREATE TABLE IF NOT EXISTS "{prefix}meta" (topic_id INTEGER PRIMARY KEY NOT NULL, metadata TEXT NOT NULL)')
    quoted = lambda text: "'" + text.replace("'", "''") + "'"  # noqa: E731
    for number, (name, meta) in TOPICS.items():
        shown = quoted(json.dumps(meta))
        if is_old:
            statements.append(f'INSERT INTO "{prefix}topics" VALUES ({number}, {quoted(name)})')
            statements.append(f'INSERT INTO "{prefix}meta" VALUES ({number}, {shown})')
        else:
            statements.append(f'INSERT INTO "{prefix}topics" VALUES ({number}, {quoted(name)}, {shown})')
    rows = ", ".join(f"({quoted(at(s).isoformat())}, {topic}, {quoted(written(v))})" for topic, s, v in VALUES)
    statements.append(
        f'INSERT INTO "{prefix}data" VALUES {rows} ON CONFLICT (ts, topic_id) DO UPDATE SET value_string = EXCLUDED.value_string'
    )
    postgres.sql("SET TIME ZONE UTC; " + "; ".join(statements))


def fill_mongo(database, values=VALUES):
    """Collections of a MongoDB historian. Times are milliseconds there, and objects texts of JSON."""
    ids = {}
    for number, (name, meta) in TOPICS.items():
        ids[number] = database["topics"].insert_one({"topic_name": name}).inserted_id
        database["meta"].insert_one({"topic_id": ids[number], "meta": {"units": "older"}})
        database["meta"].insert_one({"topic_id": ids[number], "meta": meta})
    for topic, seconds, value in values:
        if isinstance(value, dict):
            value = {"__volttron_type__": "json", "string_value": written(value)}
        row = {"ts": at(seconds), "topic_id": ids[topic], "source": "devices", "value": value}
        database["data"].insert_one(row)
    database["hourly_data"].insert_one({"ts": at(0), "topic_id": ids[1], "count": 1, "sum": 1.0, "data": []})
