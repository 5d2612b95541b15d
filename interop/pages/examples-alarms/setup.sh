# Wait until the list of alarms has a text, or does not have it.
shows() { for _ in $(seq 100); do tieline alarms --json | grep -q "$1" && return; done; return 1; }
shows_no() { for _ in $(seq 100); do tieline alarms --json | grep -q "$1" || return 0; done; return 1; }
# A new occurrence of the alarm of tank 1, which nobody has acknowledged.
raise() {
    tieline put site/tank1/level 20 && shows_no '"active":true' && tieline put site/tank1/level 85 && shows '"state":"unacknowledged"'
}
