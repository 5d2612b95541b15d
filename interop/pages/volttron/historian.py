"""A historian of VOLTTRON, as its version 9 stores."""

import sqlite3

db = sqlite3.connect("historian.sqlite")
db.executescript("""
    CREATE TABLE topics (topic_id INTEGER PRIMARY KEY, topic_name TEXT, metadata TEXT);
    CREATE TABLE data (ts TEXT, topic_id INTEGER, value_string TEXT);
    CREATE TABLE avg_1h (ts TEXT, topic_id INTEGER, agg_value TEXT);
    CREATE TABLE volttron_table_definitions (table_id TEXT PRIMARY KEY, table_name TEXT, table_prefix TEXT);
    INSERT INTO volttron_table_definitions VALUES ('data_table', 'data', ''), ('topics_table', 'topics', '');
    INSERT INTO topics VALUES (1, 'campus/b/ahu1/temp', '{"units": "F"}'), (2, 'campus/b/ahu1/fan', '{"units": "On/Off"}');
""")
for topic, times in ((1, ["01T23:59:58", "01T23:59:58.5", "01T23:59:59", "02T00:00:00", "02T00:00:01"]), (2, ["01T23:59:58", "01T23:59:59", "02T00:00:00"])):
    db.executemany("INSERT INTO data VALUES (?, ?, '1')", [(f"2016-05-{time}+00:00", topic) for time in times])
db.commit()
