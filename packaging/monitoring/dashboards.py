#!/usr/bin/env python3
"""Writes the dashboards of Grafana: `dashboards.py FOLDER`. Each panel is a title, a unit, and expressions with their legends."""

import json
import sys
from pathlib import Path

#: What a panel shows is of the instances that are chosen.
OF = 'job=~"$job",instance=~"$instance"'

NODE = {
    "State": [
        ("Answers", "none", [('up{@}', "{{instance}}")]),
        ("Devices by state", "none", [('tieline_devices{@} > 0', "{{instance}} {{state}}")]),
        ("History and ledger that do not write", "none", [
            ('sum by (instance) (tieline_history_state{@,state=~"disk_full|failed|hung"})', "{{instance}} history"),
            ('sum by (instance) (tieline_ledger_state{@,state=~"disk_full|failed|hung"})', "{{instance}} ledger"),
            ('tieline_audit_failed{@}', "{{instance}} audit log"),
            ('tieline_clock_doubted{@}', "{{instance}} clock in doubt"),
        ]),
        ("Time since start", "s", [('time() - tieline_start_time_seconds{@}', "{{instance}}")]),
    ],
    "Bus": [
        ("Updates and deliveries", "ops", [
            ('rate(tieline_updates_total{@}[$__rate_interval])', "{{instance}} updates"),
            ('rate(tieline_deliveries_total{@}[$__rate_interval])', "{{instance}} deliveries"),
        ]),
        ("Topics, sessions, subscriptions", "none", [
            ('tieline_topics{@}', "{{instance}} topics"),
            ('tieline_mqtt_sessions{@}', "{{instance}} sessions"),
            ('tieline_subscriptions{@}', "{{instance}} subscriptions"),
        ]),
        ("Greatest lag of a subscriber", "s", [('tieline_mqtt_late_seconds{@}', "{{instance}}")]),
        ("Messages that did not arrive", "ops", [
            ('rate(tieline_mqtt_dropped_total{@}[$__rate_interval])', "{{instance}} dropped: {{cause}}"),
            ('rate(tieline_mqtt_conflated_total{@}[$__rate_interval])', "{{instance}} replaced by newer values"),
        ]),
        ("Bytes on sockets", "Bps", [
            ('sum by (instance) (rate(tieline_socket_bytes_in_total{@}[$__rate_interval]))', "{{instance}} in"),
            ('sum by (instance) (rate(tieline_socket_bytes_out_total{@}[$__rate_interval]))', "{{instance}} out"),
        ]),
        ("Turns of the bus, acknowledgements, answers of devices, 99 of 100", "s", [
            ('histogram_quantile(0.99, sum by (instance, le) (rate(tieline_bus_turn_seconds_bucket{@}[$__rate_interval])))', "{{instance}} turn"),
            ('histogram_quantile(0.99, sum by (instance, le) (rate(tieline_publish_ack_seconds_bucket{@}[$__rate_interval])))', "{{instance}} acknowledgement"),
            ('histogram_quantile(0.99, sum by (instance, le) (rate(tieline_device_response_seconds_bucket{@}[$__rate_interval])))', "{{instance}} device"),
        ]),
        ("Commands", "ops", [('rate(tieline_commands_total{@}[$__rate_interval])', "{{instance}} {{end}}")]),
    ],
    "History": [
        ("Points", "ops", [
            ('rate(tieline_history_journaled_points_total{@}[$__rate_interval])', "{{instance}} in the journal"),
            ('rate(tieline_history_stored_points_total{@}[$__rate_interval])', "{{instance}} in the store"),
        ]),
        ("Journal: time of a sync, 99 of 100", "s", [
            ('histogram_quantile(0.99, sum by (instance, le) (rate(tieline_journal_sync_seconds_bucket{@}[$__rate_interval])))', "{{instance}}"),
        ]),
        ("Queries: time to the first bytes, 99 of 100", "s", [
            ('histogram_quantile(0.99, sum by (instance, le) (rate(tieline_history_query_seconds_bucket{@}[$__rate_interval])))', "{{instance}}"),
        ]),
        ("Records that wait", "none", [
            ('tieline_history_backlog_records{@}', "{{instance}} for the store"),
            ('tieline_database_backlog_records{@}', "{{instance}} for {{database}}"),
        ]),
        ("Points that were not recorded", "ops", [
            ('rate(tieline_history_refused_points_total{@}[$__rate_interval])', "{{instance}} refused"),
            ('rate(tieline_history_dropped_points_total{@}[$__rate_interval])', "{{instance}} dropped"),
        ]),
        ("Disk", "bytes", [
            ('tieline_store_bytes{@}', "{{instance}} store"),
            ('tieline_journal_bytes{@}', "{{instance}} journal"),
            ('tieline_ledger_bytes{@}', "{{instance}} ledger"),
            ('tieline_audit_bytes{@}', "{{instance}} audit log"),
        ]),
    ],
    "Process": [
        ("Processors", "none", [('rate(process_cpu_seconds_total{@}[$__rate_interval])', "{{instance}}")]),
        ("Memory", "bytes", [('process_resident_memory_bytes{@}', "{{instance}}")]),
        ("File descriptors", "none", [('process_open_fds{@}', "{{instance}}")]),
    ],
}

SITES = {
    "Centre": [
        ("Sites", "none", [
            ('tieline_centre_sites{@}', "{{instance}} known"),
            ('tieline_centre_sites_away{@}', "{{instance}} away"),
        ]),
        ("Age of the first record that waits at a site", "s", [('topk(10, tieline_centre_site_lag_seconds{@})', "{{site}}")]),
        ("Records that wait at a site", "none", [('topk(10, tieline_centre_site_waiting_records{@})', "{{site}}")]),
        ("Samples of sites", "ops", [('topk(10, rate(tieline_centre_site_samples_total{@}[$__rate_interval]))', "{{site}}")]),
        ("Records that sites lost", "none", [('topk(10, tieline_centre_site_lost_records_total{@})', "{{site}}")]),
        ("Clock of the centre minus that of the site", "s", [('tieline_centre_site_clock_offset_seconds{@}', "{{site}}")]),
        ("Round trip", "s", [('tieline_centre_site_round_trip_seconds{@}', "{{site}}")]),
        ("Commands to sites", "ops", [('rate(tieline_centre_calls_total{@}[$__rate_interval])', "{{outcome}}")]),
    ],
    "Core with standbys": [
        ("Leader", "none", [('tieline_cluster_role{@,role="leader"}', "{{instance}}")]),
        ("Messages of the log that a member does not have", "none", [('tieline_cluster_member_lag{@}', "{{member}}")]),
        ("Elections", "none", [('tieline_cluster_elections_total{@}', "{{instance}}")]),
        ("Time of the log to acknowledge", "s", [('tieline_cluster_append_seconds{@}', "{{instance}}")]),
    ],
    "Edges": [
        ("Link is up", "none", [('tieline_edge_link{@,state="up"}', "{{instance}} {{upstream}}")]),
        ("Topics whose upstream is away", "none", [('tieline_edge_topics_away{@}', "{{instance}} {{upstream}}")]),
        ("Values of the upstream", "ops", [('rate(tieline_edge_values_total{@}[$__rate_interval])', "{{instance}} {{form}}")]),
    ],
}  # fmt: skip

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def variables():
    def query(name, text):
        asked = {"qryType": 1, "query": text, "refId": name}
        more = {"multi": True, "includeAll": True, "current": {"text": ["All"], "value": ["$__all"]}, "refresh": 2, "sort": 1}
        return {"name": name, "type": "query", "datasource": SOURCE, "query": asked, "definition": text, **more}

    job = query("job", "label_values(tieline_build_info, job)")
    instance = query("instance", 'label_values(tieline_build_info{job=~"$job"}, instance)')
    return [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}, job, instance]


def panel(number, title, unit, expressions, at):
    left, top = at
    targets = [
        {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": text.replace("@", OF), "legendFormat": legend}
        for place, (text, legend) in enumerate(expressions)
    ]
    custom = {"fillOpacity": 5, "lineWidth": 1, "showPoints": "never"}
    defaults = {"unit": unit, "custom": custom, **({} if unit == "s" else {"min": 0})}
    place = {"h": 7, "w": 12, "x": left, "y": top}
    options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    field = {"defaults": defaults, "overrides": []}
    return {"id": number, "type": "timeseries", "title": title, "datasource": SOURCE, "gridPos": place, "fieldConfig": field, "options": options, "targets": targets}


def dashboard(uid, title, rows):
    panels, top = [], 0
    for name, members in rows.items():
        place = {"h": 1, "w": 24, "x": 0, "y": top}
        panels.append({"id": len(panels) + 1, "type": "row", "title": name, "collapsed": False, "gridPos": place, "panels": []})
        top += 1
        for number, member in enumerate(members):
            panels.append(panel(len(panels) + 1, *member, at=(12 * (number % 2), top + 7 * (number // 2))))
        top += 7 * ((len(members) + 1) // 2)
    time = {"from": "now-6h", "to": "now"}
    common = {"schemaVersion": 39, "editable": True, "graphTooltip": 1, "refresh": "10s", "tags": ["tieline"], "time": time, "timezone": "browser"}
    return {"uid": uid, "title": title, **common, "templating": {"list": variables()}, "panels": panels}


def dashboards():
    """Each by the name of its file."""
    return {
        "node.json": dashboard("tieline-node", "Tieline: nodes", NODE),
        "sites.json": dashboard("tieline-sites", "Tieline: sites, cores and edges", SITES),
    }


if __name__ == "__main__":
    for file, content in dashboards().items():
        Path(sys.argv[1], file).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
