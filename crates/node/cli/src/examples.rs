//! The examples of every `--help` and manual page: one table, which a test parses.

mod dnp3;

use crate::args::Cli;
use clap::{Command, CommandFactory};

/// The command line with its examples.
pub fn command() -> Command {
    with_examples(Cli::command(), "")
}

fn with_examples(command: Command, path: &str) -> Command {
    let examples = all().find(|(of, _)| *of == path).map(|(_, examples)| *examples);
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let below = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |sub| with_examples(sub, &below))
    });
    let Some(examples) = examples else { return command };
    let lines: Vec<String> = examples.iter().map(|line| format!("\n  {line}")).collect();
    command.after_help(format!("Examples:{}", lines.concat()))
}

/// What each verb is for, by its words.
fn all() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    EXAMPLES.iter().chain(dnp3::EXAMPLES)
}

/// Those of all verbs but `dnp3`.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "tieline run --demo",
            "tieline run --demo building",
            "tieline run --config plant.toml --data /var/lib/tieline",
            "tieline run --role edge --upstream mqtts://core.example:8883",
            "tieline run --role site --join https://centre.example:8443 --token-file north.token --data /var/lib/tieline",
            "tieline run --role centre --fabric tls://centre.example:4222 --fabric-ca ca.pem --data /var/lib/tieline",
        ],
    ),
    ("config default", &["tieline config default > tieline.toml"]),
    (
        "config show",
        &[
            "tieline config show --role edge --upstream mqtt://core.example > edge.toml",
            "tieline config show --role centre",
        ],
    ),
    ("config check", &["tieline config check --config plant.toml", "tieline config check plant.toml --json"]),
    (
        "import volttron",
        &[
            "tieline import volttron ~/.volttron --out plant",
            "tieline import volttron configs --bacnet-router 12=10.0.0.9 --json",
        ],
    ),
    (
        "import volttron-history",
        &[
            "tieline import volttron-history historian.sqlite --map campus/building=site/b --dry-run",
            "tieline import volttron-history postgresql://historian@db1/volttron --source-password-file secret",
        ],
    ),
    ("sub", &["tieline sub 'demo/#'", "tieline sub demo/feeder1/relay/current -n 5 --json"]),
    ("pub", &["tieline pub site/note hello --retain", "tieline pub site/log --lines < events.txt"]),
    (
        "get",
        &[
            "tieline get demo/feeder1/relay/breaker",
            "tieline get site/log --events 10 --from 1h",
            "tieline get site/a site/b",
        ],
    ),
    (
        "topics",
        &[
            "tieline topics 'demo/feeder1/#'",
            "tieline topics --select 'current$' --names",
            "tieline topics 'demo/feeder1/#' --at 2026-11-17T14:03:20Z",
        ],
    ),
    (
        "replay",
        &[
            "tieline replay 'demo/#' --from 2026-11-17T14:00:00Z --to 2026-11-17T14:30:00Z --speed 10",
            "tieline replay 'demo/#' --from 1h --speed max --to-node test.example:1883",
        ],
    ),
    ("put", &["tieline put site/limit 70", "tieline put site/limit 70 --if-version 41"]),
    ("delete", &["tieline delete site/limit", "tieline delete site/limit --if-version 42"]),
    ("status", &["tieline status", "tieline status --json | jq .devices"]),
    ("health", &["tieline health", "tieline health --http https://node.example:8443"]),
    ("devices", &["tieline devices", "tieline devices --away", "tieline devices demo/feeder1/relay"]),
    ("points", &["tieline points 'demo/feeder1/#'", "tieline points --writable --json"]),
    ("sessions", &["tieline sessions", "tieline sessions --order client --limit 10"]),
    ("alarms", &["tieline alarms", "tieline alarms 'site/#' --priority high"]),
    (
        "alarms list",
        &[
            "tieline alarms list --state unacknowledged,returned",
            "tieline alarms list --causes --watch",
            "tieline alarms list --of site/a/relay/away --json",
        ],
    ),
    (
        "alarms ack",
        &["tieline alarms ack site/a/relay/current/high@12", "tieline alarms ack site/a/relay/current/high --why seen"],
    ),
    (
        "alarms shelve",
        &[
            "tieline alarms shelve site/a/relay/current/high --for 2h --why 'repair of the transducer'",
            "tieline alarms shelve site/a/relay/current/high --for 2h --once --why test",
        ],
    ),
    ("alarms unshelve", &["tieline alarms unshelve site/a/relay/current/high"]),
    ("alarms reset", &["tieline alarms reset site/a/relay/breaker/state"]),
    (
        "alarms out-of-service",
        &["tieline alarms out-of-service site/a/relay/current/high --why 'feeder is dismantled'"],
    ),
    ("alarms in-service", &["tieline alarms in-service site/a/relay/current/high"]),
    ("alarms note", &["tieline alarms note site/a/relay/current/high --why 'crew is on its way'"]),
    (
        "alarms journal",
        &[
            "tieline alarms journal --from 8h",
            "tieline alarms journal 'site/a/#' --transition raised --csv > raised.csv",
        ],
    ),
    ("alarms report", &["tieline alarms report --from 30d", "tieline alarms report --operators 2 --json"]),
    ("alarms rules", &["tieline alarms rules", "tieline alarms rules --json"]),
    ("notify", &["tieline notify", "tieline notify --json"]),
    ("notify list", &["tieline notify list", "tieline notify list --json | jq 'select(.failing_since)'"]),
    ("notify on-call", &["tieline notify on-call", "tieline notify on-call --at 2026-12-24T18:00:00Z --json"]),
    ("notify test", &["tieline notify test duty-mail", "tieline notify test duty-hook --json"]),
    ("locks", &["tieline locks", "tieline locks --json | jq 'select(.waiting > 0)'"]),
    ("locks release", &["tieline locks release plant/writer"]),
    ("cluster", &["tieline cluster", "tieline cluster --json | jq -r .role"]),
    ("sites", &["tieline sites", "tieline sites --watch", "tieline sites --json | jq 'select(.state == \"away\")'"]),
    ("busiest", &["tieline busiest --limit 5"]),
    ("derived", &["tieline derived", "tieline derived --json"]),
    ("audit", &["tieline audit --limit 20", "tieline audit demo/feeder1/relay/breaker --json"]),
    ("clock", &["tieline clock", "tieline clock --json"]),
    (
        "clock confirm",
        &["tieline clock confirm --http plant.example:8080", "tieline clock confirm --time 2026-11-20T09:36:00Z"],
    ),
    ("login", &["tieline login --http https://node.example:8443", "tieline login --context plant"]),
    ("logout", &["tieline logout --http https://node.example:8443", "tieline logout --of anna --context plant"]),
    ("whoami", &["tieline whoami --user anna --password-file ~/.tieline-password"]),
    (
        "discover modbus",
        &["tieline discover modbus 10.1.2.0/24", "tieline discover modbus gateway.example --units 1-247"],
    ),
    (
        "discover sunspec",
        &[
            "tieline discover sunspec 10.1.2.10-10.1.2.40",
            "tieline discover sunspec 10.1.2.10 --units 126 --out proposed",
        ],
    ),
    (
        "discover dnp3",
        &[
            "tieline discover dnp3 10.1.2.0/24 --outstations 1-20",
            "tieline discover dnp3 relay.example:20000 --master 3 --out proposed",
        ],
    ),
    (
        "discover bacnet",
        &[
            "tieline discover bacnet --broadcast 10.1.2.255 --out proposed",
            "tieline discover bacnet 10.1.2.0/24 --networks local",
            "tieline discover bacnet --bbmd 10.1.2.9 --instances 1000-1999 --devices-only",
        ],
    ),
    ("metrics", &["tieline metrics | grep tieline_device", "tieline metrics --device demo/feeder1/relay"]),
    ("top", &["tieline top", "tieline top --once --json"]),
    (
        "trace",
        &[
            "tieline trace demo/feeder1/relay --follow",
            "tieline trace demo/feeder1/relay --from away --errors",
            "tieline trace demo/feeder1/relay --pcapng relay.pcapng",
        ],
    ),
    (
        "history query",
        &[
            "tieline history query demo/feeder1/relay/power --from 1h",
            "tieline history query 'demo/+/relay/power' --from 2026-11-20 --to 2026-11-21 --every 15m --agg mean",
            "tieline history query 'demo/#' --from -1h --to -5m --format parquet -o hour.parquet",
        ],
    ),
    (
        "history export",
        &[
            "tieline history export 'demo/#' -o export",
            "tieline history export 'site/+/power' --from 2026-01-01 --to 2026-02-01 --format csv -o january",
        ],
    ),
    (
        "history import",
        &["tieline history import export", "tieline history import january --data /var/lib/tieline --json"],
    ),
    (
        "history delete",
        &[
            "tieline history delete 'site/room7/#' --yes --why 'request 4711'",
            "tieline history delete site/ahu1/fan --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z --yes",
        ],
    ),
    ("history stats", &["tieline history stats", "tieline history stats 'demo/#' --limit 5 --json"]),
    ("history verify", &["tieline history verify --data /var/lib/tieline"]),
    ("history repair", &["tieline history repair --data /var/lib/tieline --yes"]),
    ("history compact", &["tieline history compact"]),
    (
        "history edit",
        &[
            "tieline history edit site/ahu1/temperature --from -2h --to -1h --quality bad --why 'sensor was removed'",
            "tieline history edit site/meter1/energy --at 2026-11-20T08:00:00Z --insert 1234.5 --why 'read by hand'",
        ],
    ),
    (
        "history annotate",
        &["tieline history annotate site/ahu1/fan 'belt was changed' --from -2h --to -1h --why 'work order 4711'"],
    ),
    ("history edits", &["tieline history edits 'site/#' --active", "tieline history edits --who anna --json"]),
    ("history undo", &["tieline history undo 17 --why 'the sensor was right'"]),
    ("backup", &["tieline backup -o plant.tar", "tieline backup -o plant.tar --data /var/lib/tieline --json"]),
    ("restore", &["tieline restore plant.tar --data /var/lib/tieline", "tieline restore plant.tar --check"]),
    (
        "history tail",
        &["tieline history tail 'demo/+/relay/breaker' --from 1h", "tieline history tail 'demo/#' --json | jq .v"],
    ),
    (
        "history states",
        &[
            "tieline history states demo/feeder1/relay/breaker --from 7d",
            "tieline history states 'demo/+/relay/breaker' --from 30d --every 1d --tz Europe/Madrid --format csv",
        ],
    ),
    (
        "command",
        &[
            "tieline command demo/feeder2/relay/breaker open",
            "tieline command demo/substation/transformer/tap -2 --timeout 10s",
            "tieline command demo/feeder1/pv/limit 60 --mode direct --no-confirm",
        ],
    ),
    (
        "set",
        &[
            "tieline set site/ahu1/fan=on site/ahu1/setpoint=21.5 --confirm",
            "tieline set --dry-run site/ahu1/setpoint=21.5",
            "tieline set - --as optimizer < points.txt",
        ],
    ),
    ("revert", &["tieline revert site/ahu1/setpoint", "tieline revert --device site/ahu1 --confirm"]),
    (
        "reserve",
        &[
            "tieline reserve site/ahu1 site/ahu2 --task night --for 8h",
            "tieline reserve site/ahu1 --task control --for 1d --lease 15m --as optimizer",
            "tieline reserve site/ahu1 --task peak --priority low-preempt --from 2026-11-20T17:00:00Z --until 2026-11-20T19:00:00Z",
        ],
    ),
    ("reservations", &["tieline reservations", "tieline reservations --json"]),
    ("renew", &["tieline renew night --as optimizer"]),
    ("release", &["tieline release night", "tieline release peak --force"]),
    (
        "override on",
        &["tieline override on 'site/ahu1' --for 2h", "tieline override on 'site/+/fan' --revert --staggered"],
    ),
    ("override off", &["tieline override off 'site/ahu1'", "tieline override off --all"]),
    ("override list", &["tieline override list"]),
    (
        "tag place",
        &[
            "tieline tag place site/relay do-not-operate --why 'work on feeder 3, permit 4711'",
            "tieline tag place site/ahu1/fan hold --why 'balancing until Friday'",
        ],
    ),
    ("tag lift", &["tieline tag lift 7"]),
    ("tag list", &["tieline tag list", "tieline tag list site/relay/breaker"]),
    ("reload", &["tieline reload", "tieline reload --json"]),
    ("views check", &["tieline views check --config plant.toml"]),
    (
        "views test",
        &["tieline views test --config plant.toml --live", "tieline views test --config plant.toml < updates.txt"],
    ),
    ("views reload", &["tieline views reload"]),
    (
        "diagram new",
        &[
            "tieline diagram new station.toml > diagrams/station.svg",
            "tieline diagram new station.toml -o diagrams/station.svg",
        ],
    ),
    (
        "diagram check",
        &["tieline diagram check diagrams/station.svg", "tieline diagram check station.svg feeders.svg --json"],
    ),
    ("diagram list", &["tieline diagram list", "tieline diagram list --json"]),
    ("boards list", &["tieline boards list", "tieline boards list --json"]),
    ("boards show", &["tieline boards show feeders > feeders.toml", "tieline boards show feeders --json"]),
    (
        "boards put",
        &[
            "tieline boards put feeders feeders.toml",
            "tieline boards put feeders feeders.toml --check",
            "tieline boards put shift shift.toml --if-absent --json",
        ],
    ),
    ("boards delete", &["tieline boards delete shift", "tieline boards delete shift --yes --json"]),
    ("rules check", &["tieline rules check alarms.csv", "tieline rules check alarms.csv --strict --json"]),
    (
        "rules test",
        &[
            "tieline rules test alarms.csv --from 24h",
            "tieline rules test alarms.csv 'site/#' --from -7d --to 5m --all",
        ],
    ),
    (
        "context add",
        &[
            "tieline context add plant --http https://plant.example:8443 --user anna --password-file ~/.plant --use",
            "tieline context add lab --http 10.0.0.7:8080 --mqtt 10.0.0.7:1883",
        ],
    ),
    ("context list", &["tieline context list"]),
    ("context use", &["tieline context use plant"]),
    ("context remove", &["tieline context remove lab"]),
    ("context show", &["tieline context show", "tieline context show plant --json"]),
    (
        "access user add",
        &["tieline access user add anna --role OPERATOR", "tieline access user add scada --role VIEWER --no-password"],
    ),
    ("access user remove", &["tieline access user remove anna"]),
    ("access user list", &["tieline access user list --users users.toml"]),
    ("access user password", &["tieline access user password anna"]),
    ("access user roles", &["tieline access user roles anna --role VIEWER --role OPERATOR"]),
    ("access user disable", &["tieline access user disable anna"]),
    ("access user enable", &["tieline access user enable anna"]),
    (
        "access test",
        &[
            "tieline access test anna command site/relay1/breaker --config plant.toml",
            "tieline access test anna read 'site/#'",
        ],
    ),
    ("access check", &["tieline access check --config plant.toml"]),
    ("access roles", &["tieline access roles --config plant.toml"]),
    ("access verify", &["tieline access verify /var/lib/tieline", "tieline access verify tieline-data --json"]),
    ("delta decode", &["tieline delta decode payloads.txt"]),
    (
        "modbus server",
        &[
            "tieline modbus server meter.csv",
            "tieline modbus server meter.csv --listen 127.0.0.1:0 --unit 1,2 --seed 7 --speed 60 --json",
        ],
    ),
    (
        "bacnet server",
        &[
            "tieline bacnet server ahu.csv --instance 1001 --faults faults.toml",
            "tieline bacnet server room.csv --listen 127.0.0.1:0 --start 2026-06-01T06:00:00Z --json",
        ],
    ),
    (
        "iec104 server",
        &[
            "tieline iec104 server substation7.csv --common-address 7",
            "tieline iec104 server bay.csv --listen 127.0.0.1:0 --utc-offset 1 --json",
        ],
    ),
    (
        "site add",
        &[
            "tieline site add north",
            "tieline site add south --public-key UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
        ],
    ),
    ("site token", &["tieline site token north", "tieline site token north --valid 10m --json"]),
    ("site list", &["tieline site list --json"]),
    ("site revoke", &["tieline site revoke north"]),
    #[cfg(feature = "fabric")]
    (
        "join",
        &[
            "tieline join https://centre.example:8443 --token-file north.token --data /var/lib/tieline",
            "tieline join --rotate --data /var/lib/tieline",
        ],
    ),
    #[cfg(feature = "fabric")]
    (
        "fabric start",
        &[
            "tieline fabric start --data /var/lib/tieline --store /var/lib/nats --tls-cert n1.pem --tls-key n1.key",
            "tieline fabric start --name n1 --peer n2.example:6222 --peer n3.example:6222",
        ],
    ),
    #[cfg(feature = "fabric")]
    (
        "fabric status",
        &["tieline fabric status", "tieline fabric status --monitor 10.0.0.5:8222 --monitor 10.0.0.6:8222 --json"],
    ),
    #[cfg(feature = "fabric")]
    (
        "fabric config",
        &[
            "tieline fabric config > nats.conf",
            "tieline fabric config --listen 0.0.0.0:4222 --tls-cert n1.pem --tls-key n1.key --data /var/lib/tieline",
        ],
    ),
    #[cfg(feature = "fabric")]
    ("fabric keygen", &["tieline fabric keygen north.nk"]),
    #[cfg(feature = "fabric")]
    (
        "fabric check",
        &[
            "tieline fabric check nats://10.0.0.5:4222",
            "tieline fabric check tls://n1.example:4222 tls://n2.example:4222 --ca ca.pem --seed site.nk --json",
        ],
    ),
    (
        "goose listen",
        &[
            "tieline goose listen eth1",
            "tieline goose listen eth1 --control-block 'IED7LD0/LLN0$GO$gcb01' --changes --json",
        ],
    ),
    (
        "goose publish",
        &[
            "tieline goose publish eth1 interlock.csv --control-block 'TESTLD0/LLN0$GO$gcb01' --data-set 'TESTLD0/LLN0$ds01' --destination 01:0c:cd:01:00:70",
        ],
    ),
    ("seal serve", &["tieline seal serve --config seal.toml"]),
    ("seal pack", &["tieline seal pack message.xml --key own.p12 --to other.pem -o message.sealed"]),
    ("seal unpack", &["tieline seal unpack message.sealed --key own.p12 --from other.pem -o message.xml"]),
    ("seal inspect", &["tieline seal inspect message.sealed"]),
    ("seal keygen", &["tieline seal keygen --name 'BANCO X P001' --ispb 00000000 --key own.key --csr own.csr"]),
    ("seal key list", &["tieline seal key list --config seal.toml"]),
    (
        "seal key import",
        &["tieline seal key import --config seal.toml --domain spb --key own.p12 --password-file own.txt"],
    ),
    ("seal key activate", &["tieline seal key activate --config seal.toml --domain spb --key-version 2"]),
    ("seal key retire", &["tieline seal key retire --config seal.toml --domain spb --key-version 1"]),
    ("seal peer import", &["tieline seal peer import --config seal.toml --domain spb --certificate other.pem"]),
    ("seal token", &["tieline seal token"]),
    ("bench dnp3", &["tieline bench dnp3 --sessions 1,64,1024"]),
    ("bench delay", &["sudo tieline bench delay --ways tcp,lean-udp"]),
    ("bench fanout", &["tieline bench fanout --subscribers 200,1000 --delta off,on --peers off"]),
    (
        "bench field",
        &["tieline bench field --experiment reads,window", "tieline bench field --experiment node --devices 500"],
    ),
    (
        "bench centre",
        &[
            "tieline bench centre --experiment sites --sites 1,2,4",
            "tieline bench centre --experiment outage --event 10s",
        ],
    ),
    ("bench failover", &["tieline bench failover --members 3 --kills 20"]),
    ("bench edges", &["tieline bench edges --experiment mirror --subscribers 100,1000 --seconds 2"]),
    ("bench bus", &["tieline bench bus --devices 50,500 --listeners 2"]),
    ("bench alarms", &["tieline bench alarms --alarms 100000"]),
    ("bench control", &["tieline bench control --devices 4000"]),
    ("bench seal", &["tieline bench seal --experiment closed --concurrency 1,8,64"]),
    (
        "bench history",
        &["tieline bench history --points 100000", "tieline bench history --sync-delay 0.3,5,20,50 --points 100000"],
    ),
    ("completion", &["tieline completion bash > ~/.local/share/bash-completion/completions/tieline"]),
    ("man", &["tieline man --out ~/.local/share/man/man1"]),
];

#[cfg(test)]
mod tests;
