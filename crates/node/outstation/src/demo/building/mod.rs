//! The demo's building: BACnet controllers of rooms and air handlers, Modbus meters, SunSpec inverters.
//!
//! Each second the commands of clients and the faults of the moment go into the model, a minute of it passes, and its state is
//! shown by all devices. Read first: `model.rs`, then `controllers.rs`, `meters.rs`, `inverters.rs`.

mod air_handler;
mod controllers;
mod electric;
mod fault;
mod inverters;
mod meters;
mod model;
mod room;
mod weather;

use self::controllers::Controller;
use self::fault::Fault;
use self::inverters::{INVERTERS, OneInverter};
use self::meters::{METERS, Meters, UNITS};
use self::model::Building;
use super::{Report, SEED, SPEED, START_S, SiteFiles, TICK, spawn};
use crate::bacnet::BacnetServer;
use crate::modbus;
use crate::treatment::Well;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use tieline_modbus::{Framing, ServerConfig, Unit};
use tieline_model::Seed;
use tieline_net::{Shard, ShardThread};

/// The building and what is wrong with it.
struct Site {
    building: Building,
    fault: Option<Fault>,
}

/// Where the devices are.
struct Addresses {
    controllers: Vec<SocketAddrV4>,
    meters: SocketAddr,
    inverters: Vec<SocketAddr>,
}

/// Starts the devices.
///
/// # Errors
/// A port or a thread cannot be had.
pub(super) fn start() -> io::Result<(ShardThread, SiteFiles)> {
    let (thread, addresses) = spawn(serve)?;
    Ok((thread, files(&addresses)))
}

async fn serve(shard: Rc<Shard>, report: Report<Addresses>) {
    let seed = Seed::of(SEED, "building");
    let site = Rc::new(RefCell::new(Site { building: Building::new(seed, START_S), fault: None }));
    match start_devices(&shard, &site).await {
        Ok((addresses, controllers)) => {
            let _ = report.send(Ok(addresses));
            run(&shard, seed, &site, &controllers).await;
        }
        Err(error) => drop(report.send(Err(error))),
    }
}

async fn start_devices(
    shard: &Rc<Shard>,
    site: &Rc<RefCell<Site>>,
) -> io::Result<(Addresses, Vec<(Controller, BacnetServer)>)> {
    let mut controllers = Vec::new();
    for controller in Controller::ALL {
        let server = controller.server(&site.borrow().building);
        let of = Rc::clone(site);
        let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        // A command is in the model at once, not at the next tick.
        let told = move |server: &mut _, _, _| controller.take(&mut of.borrow_mut().building, server);
        controllers.push((controller, BacnetServer::start(shard, listen, server, Well, told).await?));
    }
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let gateway = ServerConfig::gateway(Framing::Tcp, UNITS.into_iter().map(Unit).collect());
    let meters = modbus::serve(shard, listen, gateway, Rc::new(RefCell::new(Meters::new(Rc::clone(site))))).await?;
    let mut inverters = Vec::new();
    for at in 0..INVERTERS.len() {
        let device = Rc::new(RefCell::new(OneInverter::new(Rc::clone(site), at)));
        let config = ServerConfig::gateway(Framing::Tcp, std::iter::once(Unit(1)).collect());
        inverters.push(modbus::serve(shard, listen, config, device).await?);
    }
    let addresses = controllers.iter().map(|(_, server)| server.address()).collect();
    Ok((Addresses { controllers: addresses, meters, inverters }, controllers))
}

async fn run(shard: &Shard, seed: Seed, site: &RefCell<Site>, controllers: &[(Controller, BacnetServer)]) {
    let (mut ticks, start) = (tokio::time::interval(TICK), shard.now().mono);
    loop {
        ticks.tick().await;
        let since_start = shard.now().mono.since(start);
        let mut site = site.borrow_mut();
        for (controller, server) in controllers {
            server.with(|server, _| controller.take(&mut site.building, server));
        }
        site.fault = Fault::at(seed, since_start);
        let Site { building, fault } = &mut *site;
        Fault::apply(*fault, building);
        building.handle_time(since_start.as_secs_f64() * f64::from(SPEED));
        building.end_resets();
        for (controller, server) in controllers {
            server.with(|server, now| controller.show(building, server, now));
        }
    }
}

fn files(addresses: &Addresses) -> SiteFiles {
    let mut config = String::from(
        "# Written by tieline run --demo building at each start: what collects from the demo's building.\n\n\
         [node]\nname = \"demo\"\n",
    );
    let name_of = |topic: &str| topic.replace('/', "-");
    for (controller, address) in Controller::ALL.into_iter().zip(&addresses.controllers) {
        let (topic, (file, _)) = (controller.topic(), controller.list());
        // The rooms tell changes; the air handlers are polled.
        let cov = matches!(controller, Controller::Room(..));
        let _ = write!(
            config,
            "\n[device.{}]\ntopic = \"demo/{topic}\"\nprotocol = \"bacnet\"\naddress = \"{address}\"\npoints = \"{file}\"\n\
             poll = {{ every = \"5s\" }}\nbacnet = {{ instance = {}, cov = {cov} }}\n",
            name_of(&topic),
            controller.instance(),
        );
    }
    let _ = write!(config, "\n[channel.meters]\naddress = \"{}\"\n", addresses.meters);
    for ((topic, (file, _)), unit) in METERS.into_iter().zip(UNITS) {
        let _ = write!(
            config,
            "\n[device.{}]\ntopic = \"demo/{topic}\"\nprotocol = \"modbus\"\nchannel = \"meters\"\npoints = \"{file}\"\n\
             poll = {{ every = \"2s\" }}\nmodbus = {{ unit = {unit} }}\n",
            name_of(topic),
        );
    }
    for (topic, address) in INVERTERS.into_iter().zip(&addresses.inverters) {
        let _ = write!(
            config,
            "\n[device.{}]\ntopic = \"demo/{topic}\"\nprotocol = \"modbus\"\naddress = \"{address}\"\npoints = \"{}\"\n\
             poll = {{ every = \"2s\" }}\nmodbus = {{ unit = 1 }}\n",
            name_of(topic),
            inverters::LIST.0,
        );
    }
    let lists = Controller::ALL.iter().map(|controller| controller.list());
    let lists = lists.chain(METERS.iter().map(|(_, list)| *list)).chain([inverters::LIST]);
    SiteFiles { config, lists: lists.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modbus::ModbusDevice;
    use tieline_core::{Instant, Now, Timestamp};
    use tieline_modbus::layout::Layout;
    use tieline_modbus::{Request, Table};

    /// Reads each point of a list, and writes back those that may be written.
    fn check(device: &mut dyn ModbusDevice, unit: u8, list: &str) {
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
        let mut rows = csv::Reader::from_reader(list.as_bytes());
        let names = rows.headers().unwrap().clone();
        for row in rows.records() {
            let row = row.unwrap();
            let cell = |name: &str| row.get(names.iter().position(|known| known == name).unwrap()).unwrap();
            let start = cell("index").parse().unwrap();
            let (table, count) = match cell("type") {
                "coil" => (Table::Coils, 1),
                "holding-register" => (Table::HoldingRegisters, cell("format").parse::<Layout>().unwrap().registers()),
                _ => (Table::InputRegisters, cell("format").parse::<Layout>().unwrap().registers()),
            };
            let read = Request::Read { table, start, count };
            assert!(device.answer(now, Unit(unit), &read).is_ok(), "{row:?}");
            let write = match table {
                Table::Coils => Request::WriteCoil { address: start, on: true },
                _ => Request::WriteRegister { address: start, value: 1 },
            };
            assert_eq!(device.answer(now, Unit(unit), &write).is_ok(), cell("writable") == "true", "{row:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_legal_request_has_an_answer(bytes in proptest::collection::vec(0_u8..=255, 1..40), unit in 0_u8..5) {
            let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(0) };
            let building = Building::new(Seed::of(1, "building"), START_S);
            let site = Rc::new(RefCell::new(Site { building, fault: None }));
            if let Ok(request) = Request::parse(&bytes) {
                let devices: [&mut dyn ModbusDevice; 2] =
                    [&mut Meters::new(Rc::clone(&site)), &mut OneInverter::new(Rc::clone(&site), 1)];
                for device in devices {
                    if let Ok(response) = device.answer(now, Unit(unit), &request) {
                        proptest::prop_assert!(response.emit(&request, &mut Vec::new()).is_ok(), "{request:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_register_of_every_list_is_there() {
        let building = Building::new(Seed::of(1, "building"), START_S);
        let site = Rc::new(RefCell::new(Site { building, fault: None }));
        for ((_, (_, list)), unit) in METERS.into_iter().zip(UNITS) {
            check(&mut Meters::new(Rc::clone(&site)), unit, list);
        }
        for at in 0..INVERTERS.len() {
            check(&mut OneInverter::new(Rc::clone(&site), at), 1, inverters::LIST.1);
        }
    }
}
