//! The outstations of one port at work.

use super::Asked;
use super::told::tell_of;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc as blocking;
use tieline_core::Now;
use tieline_dnp3::app::CommandStatus;
use tieline_dnp3::outstation::{Outstation, OutstationEvent};
use tieline_net::{Session, Shard};
use tieline_outstation::config::OutstationFile;
use tieline_outstation::server::{
    AddressedLine, Concerned, Happening, OutstationServer, OutstationServers, OutstationServersTeller, Served,
    TableControls, Teller, outstation_of, state_after,
};
use tieline_transport::Route;
use tieline_transport::secure::UserStore;
use tokio::sync::mpsc;

/// Serves outstations, and does what lines say, until the shard ends.
pub(super) async fn serve(
    shard: Rc<Shard>,
    route: Route,
    served: Vec<Served>,
    json: bool,
    mut asked: mpsc::Receiver<Asked>,
    report: blocking::SyncSender<std::io::Result<SocketAddr>>,
) {
    let port = match start(&shard, route, served, json).await {
        Ok(port) => port,
        Err(error) => return drop(report.send(Err(error))),
    };
    let _ = report.send(Ok(port.address()));
    while let Some((line, answer)) = asked.recv().await {
        let _ = answer.send(port.apply(line));
    }
    // No more lines come; the station goes on.
    std::future::pending::<()>().await;
}

/// What is behind the port.
enum Port {
    /// One outstation with one master.
    One(u16, OutstationServer),
    /// More of either.
    Several(OutstationServers, Option<SocketAddr>),
}

impl Port {
    fn address(&self) -> SocketAddr {
        match self {
            Self::One(_, station) => station.address(),
            Self::Several(_, address) => address.unwrap_or(SocketAddr::from(([0; 4], 0))),
        }
    }

    fn apply(&self, AddressedLine { outstation, line }: AddressedLine) -> Result<(), String> {
        match self {
            Self::One(address, station) => match outstation.filter(|given| given != address) {
                Some(other) => Err(format!("there is no outstation {other}")),
                None => station.apply(line),
            },
            Self::Several(stations, _) => stations.apply(outstation, line),
        }
    }
}

async fn start(shard: &Rc<Shard>, route: Route, mut served: Vec<Served>, json: bool) -> std::io::Result<Port> {
    if served.len() > 1 || served.iter().any(|one| !one.file.masters.is_empty()) {
        let tell = tell_several(&served, json);
        return OutstationServers::start(shard, route, served, tell)
            .await
            .map(|(all, address)| Port::Several(all, address));
    }
    let Some(Served { file, folder }) = served.pop() else { return Err(std::io::Error::other("no outstation")) };
    let mut store = store_of(&file);
    let tell: Teller = Rc::new(RefCell::new(move |session: &_, now, happening| {
        keep(store.as_mut(), &happening);
        happened(session, now, &happening, json);
    }));
    let outstation = outstation_of(&file, file.config.master, Box::new(TableControls::of(&file.points)));
    let station = OutstationServer::serve(shard, route, outstation, tell).await?;
    if let (Some(folder), Some(files)) = (folder, &file.files) {
        station.serve_files(files.limits, folder)?;
    }
    Ok(Port::One(file.config.address, station))
}

fn tell_several(served: &[Served], json: bool) -> OutstationServersTeller {
    let stores = served.iter().filter_map(|one| Some((one.file.config.address, store_of(&one.file)?)));
    let mut stores: HashMap<u16, UserStore> = stores.collect();
    let several = served.len() > 1;
    Rc::new(RefCell::new(move |stations: &OutstationServers, now, concerned: Concerned, happening| {
        keep(concerned.outstation.and_then(|outstation| stores.get_mut(&outstation)), &happening);
        let outstation = concerned.outstation.filter(|_| several);
        tell_of(now, &happening, Concerned { outstation, ..concerned }, json);
        match happening {
            Happening::Event(OutstationEvent::Operated { index, control, status: CommandStatus::Success, .. }) => {
                if let Some(state) = state_after(index, &control) {
                    // Only points that exist are operated.
                    let _ = stations.update(concerned.outstation, &state);
                }
            }
            Happening::Event(OutstationEvent::RestartRequested { .. }) => {
                // The answer to the request is written first: the task runs when the session has had its turn.
                let stations = stations.clone();
                tokio::task::spawn_local(async move { stations.restart(concerned.outstation) });
            }
            _ => {}
        }
    }))
}

fn store_of(file: &OutstationFile) -> Option<UserStore> {
    file.secure.as_ref().and_then(|secure| secure.store.clone())
}

/// Keeps what the authority changed.
fn keep(store: Option<&mut UserStore>, happening: &Happening) {
    let (Some(store), Happening::Event(OutstationEvent::Security(event))) = (store, happening) else { return };
    if let Err(error) = store.note(event) {
        eprintln!("tieline: what the authority changed is lost with the next restart: {error}");
    }
}

/// Tells of it, and does what a device would do.
fn happened(session: &Session<Outstation>, now: Now, happening: &Happening, json: bool) {
    tell_of(now, happening, Concerned::default(), json);
    let Happening::Event(event) = happening else { return };
    match event {
        OutstationEvent::Operated { index, control, status: CommandStatus::Success, .. } => {
            if let Some(state) = state_after(*index, control) {
                // Only points that exist are operated.
                let _ = session.with(|outstation, now| outstation.update(now, state));
            }
        }
        OutstationEvent::RestartRequested { .. } => {
            // The answer to the request is written first: the task runs when the session has had its turn.
            let session = session.clone();
            tokio::task::spawn_local(async move {
                session.with(Outstation::restart);
                if session.is_connected() {
                    session.close();
                }
            });
        }
        _ => {}
    }
}
