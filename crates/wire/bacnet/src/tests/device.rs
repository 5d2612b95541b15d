//! A device: what it learns, how it reads, which subscriptions it keeps.

use super::network::{Faults, Network, address, real};
use crate::client::{ClientConfig, Failure};
use crate::device::{Device, DeviceConfig, DeviceEvent};
use crate::names::{ErrorClass, ErrorCode, Segmentation};
use crate::server::{Object, ServerConfig};
use crate::service::{LogDatum, LogRecord, Range, Write};
use crate::{DateTime, ObjectId, ObjectType, Peer, PropertyId, PropertyRef, ServiceError, Value};
use core::time::Duration;
use std::vec::Vec;

const LONG: Duration = Duration::from_secs(120);

fn present(instance: u32) -> PropertyRef {
    PropertyRef::new(ObjectId::new(ObjectType::ANALOG_VALUE, instance), PropertyId::PRESENT_VALUE)
}

fn output(property: PropertyId) -> PropertyRef {
    PropertyRef::new(ObjectId::new(ObjectType::ANALOG_OUTPUT, 1), property)
}

/// Runs until the device and the network are quiet, or the time is over.
fn run(network: &mut Network, device: &mut Device, time: Duration) -> Vec<DeviceEvent> {
    let until = network.now.mono + time;
    let mut events = Vec::new();
    loop {
        let goes_on = network.step(until, device.timeout());
        device.handle_timeout(network.now, &mut network.client);
        while let Some(event) = network.client.poll_event() {
            assert_eq!(device.handle_event(network.now, &mut network.client, event), None);
        }
        events.extend(core::iter::from_fn(|| device.poll_event()));
        if !goes_on {
            return events;
        }
    }
}

fn learned(config: ServerConfig, values: u32) -> (Network, Device) {
    let mut network = Network::new(ClientConfig::default(), 1);
    let peer = network.serve(1, config, values);
    let mut device = Device::new(peer, None, DeviceConfig::default());
    device.learn(network.now, &mut network.client).unwrap();
    let events = run(&mut network, &mut device, LONG);
    assert!(matches!(events.as_slice(), [DeviceEvent::Learned(Ok(_))]), "{events:?}");
    (network, device)
}

#[test]
fn a_device_says_what_it_takes() {
    let config = ServerConfig {
        instance: 99,
        max_apdu: 480,
        segmentation: Segmentation::NONE,
        reads_multiple: false,
        ..ServerConfig::default()
    };
    let (network, device) = learned(config, 1);
    let profile = device.profile().unwrap();
    assert_eq!((profile.instance, &*profile.vendor, &*profile.name), (99, "Tieline", "device"));
    assert_eq!((profile.limits.max_apdu, profile.limits.segmentation), (480, Segmentation::NONE));
    assert!(!profile.has_service(crate::names::ConfirmedService::READ_PROPERTY_MULTIPLE));
    assert_eq!(network.client.limits(&device.peer()), profile.limits);
    let mut silent = Network::new(ClientConfig::default(), 1);
    let mut device = Device::new(Peer::direct(address(9)), Some(1), DeviceConfig::default());
    device.learn(silent.now, &mut silent.client).unwrap();
    // Four times three seconds for the first of its properties, and no more.
    assert_eq!(run(&mut silent, &mut device, Duration::from_secs(13)), [DeviceEvent::Learned(Err(Failure::TimedOut))]);
}

#[test]
fn a_device_that_reads_several_properties_is_asked_for_them_together() {
    // Two requests are on their way, so one more than those that are needed is out before the services are known.
    for (max_apdu, reads_multiple, requests) in [(1476, true, 5), (480, true, 5), (1476, false, 11)] {
        let config = ServerConfig { max_apdu, reads_multiple, ..ServerConfig::default() };
        let (network, device) = learned(config, 1);
        let profile = device.profile().unwrap();
        assert_eq!((&*profile.model, profile.revision.is_some()), ("simulated device", true));
        assert_eq!(network.client.counters().requests, requests, "{max_apdu} {reads_multiple}");
    }
    // Words that are longer than expected are asked for one by one, and change nothing for reads.
    let long = "long ".repeat(90);
    let config = ServerConfig {
        max_apdu: 480,
        segmentation: Segmentation::NONE,
        vendor: long.clone(),
        ..ServerConfig::default()
    };
    let (mut network, mut device) = learned(config, 20);
    assert_eq!(*device.profile().unwrap().vendor, long);
    let before = network.client.counters().requests;
    device.read(network.now, &mut network.client, (0..20).map(present).collect::<Vec<_>>()).unwrap();
    run(&mut network, &mut device, LONG);
    assert_eq!(network.client.counters().requests, before + 1);
}

#[test]
fn values_are_read_from_every_kind_of_device() {
    for (max_apdu, segmentation, reads_multiple) in [
        (1476, Segmentation::BOTH, true),
        (480, Segmentation::NONE, true),
        (50, Segmentation::NONE, true),
        (206, Segmentation::TRANSMIT, true),
        (128, Segmentation::NONE, false),
    ] {
        let config = ServerConfig { max_apdu, segmentation, reads_multiple, ..ServerConfig::default() };
        let (mut network, mut device) = learned(config, 300);
        let before = network.trace.len();
        let mut references: Vec<_> = (0..300).map(present).collect();
        references.push(present(9999));
        references.push(PropertyRef::new(present(1).object, PropertyId::HIGH_LIMIT));
        references.push(PropertyRef::new(present(1).object, PropertyId::OBJECT_NAME));
        device.read(network.now, &mut network.client, references.clone()).unwrap();
        let events = run(&mut network, &mut device, LONG);
        let [DeviceEvent::Read { results, .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(results.iter().map(|(reference, _)| *reference).collect::<Vec<_>>(), references);
        assert!(results.iter().take(300).enumerate().all(|(i, (_, v))| *v == Ok(real(u32::try_from(i).unwrap()))));
        let error = |class, code| Err(Failure::Error(ServiceError::new(class, code)));
        assert_eq!(results[300].1, error(ErrorClass::OBJECT, ErrorCode::UNKNOWN_OBJECT));
        assert_eq!(results[301].1, error(ErrorClass::PROPERTY, ErrorCode::UNKNOWN_PROPERTY));
        assert_eq!(results[302].1, Ok("value 1".into()));
        let limit = usize::from(max_apdu) + 6;
        assert!(network.trace[before..].iter().all(|(.., bytes)| bytes.len() <= limit), "{max_apdu}");
    }
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_by_halves() {
    let config = ServerConfig { max_apdu: 206, segmentation: Segmentation::NONE, ..ServerConfig::default() };
    let (mut network, mut device) = learned(config, 40);
    let server = network.servers.get_mut(&device.peer().address).unwrap();
    for instance in 0..40 {
        let object = Object::new(ObjectType::ANALOG_VALUE, instance, "v", real(instance));
        server.add(object.with_description(&"long ".repeat(20)));
    }
    let references: Vec<_> = (0..40).map(|i| PropertyRef::new(present(i).object, PropertyId::DESCRIPTION)).collect();
    device.read(network.now, &mut network.client, references).unwrap();
    let events = run(&mut network, &mut device, LONG);
    let [DeviceEvent::Read { results, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert!(results.iter().all(|(_, value)| value.as_ref().unwrap().as_str().unwrap().len() == 100));
}

#[test]
fn object_lists_come_whole_or_by_elements() {
    for segmentation in [Segmentation::BOTH, Segmentation::NONE] {
        let config = ServerConfig { segmentation, ..ServerConfig::default() };
        let (mut network, mut device) = learned(config, 800);
        device.read_object_list(network.now, &mut network.client).unwrap();
        let events = run(&mut network, &mut device, LONG);
        let [DeviceEvent::ObjectList { objects: Ok(objects), .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(objects.len(), 802);
        assert_eq!(objects[0], ObjectId::device(1));
    }
}

#[test]
fn priorities_are_written_shown_and_relinquished() {
    let (mut network, mut device) = learned(ServerConfig::default(), 1);
    let mut write = |value, priority| {
        let write = Write { reference: output(PropertyId::PRESENT_VALUE), value, priority };
        device.write(network.now, &mut network.client, write, None).unwrap();
        device
            .read(
                network.now,
                &mut network.client,
                std::vec![output(PropertyId::PRESENT_VALUE), output(PropertyId::PRIORITY_ARRAY)],
            )
            .unwrap();
        let mut events = run(&mut network, &mut device, LONG);
        let Some(DeviceEvent::Read { results, .. }) = events.pop() else { panic!("{events:?}") };
        let Some(DeviceEvent::Written { result, .. }) = events.pop() else { panic!("{events:?}") };
        let array = results[1].1.clone().unwrap().into_list();
        assert_eq!(array.len(), 16);
        (result, results[0].1.clone().unwrap(), array[7].clone())
    };
    assert_eq!(write(Value::Real(42.5), Some(8)), (Ok(()), Value::Real(42.5), Value::Real(42.5)));
    assert_eq!(write(Value::Real(1.0), None), (Ok(()), Value::Real(42.5), Value::Real(42.5)));
    assert_eq!(write(Value::Null, None), (Ok(()), Value::Real(42.5), Value::Real(42.5)));
    assert_eq!(write(Value::Null, Some(8)), (Ok(()), Value::Real(5.0), Value::Null));
    let refused = Failure::Error(ServiceError::new(ErrorClass::PROPERTY, ErrorCode::INVALID_DATA_TYPE));
    assert_eq!(write("warm".into(), Some(8)), (Err(refused), Value::Real(5.0), Value::Null));
}

#[test]
fn a_write_goes_out_once_and_in_time() {
    let mut network = Network::new(ClientConfig { write_retries: 0, ..ClientConfig::default() }, 1);
    let peer = network.serve(1, ServerConfig::default(), 1);
    network.servers.clear();
    let mut device = Device::new(peer, Some(1), DeviceConfig { in_flight: 1, ..DeviceConfig::default() });
    let write = Write { reference: output(PropertyId::PRESENT_VALUE), value: Value::Real(1.0), priority: None };
    let until = network.now.mono + Duration::from_secs(1);
    let first = device.write(network.now, &mut network.client, write.clone(), Some(until)).unwrap();
    let second = device.write(network.now, &mut network.client, write, Some(until)).unwrap();
    let expect = [(first, Failure::TimedOut), (second, Failure::Cancelled)];
    let expect = expect.map(|(job, failure)| DeviceEvent::Written { job, result: Err(failure) });
    assert_eq!(run(&mut network, &mut device, LONG), expect);
    assert_eq!(network.trace.len(), 1);
}

#[test]
fn changes_are_told_while_subscriptions_are_renewed() {
    for confirmed in [false, true] {
        let (mut network, _) = learned(ServerConfig::default(), 3);
        let object = output(PropertyId::PRESENT_VALUE).object;
        let peer = Peer::direct(address(1));
        let config = DeviceConfig { confirmed, lifetime_s: 60, ..DeviceConfig::default() };
        let mut device = Device::new(peer, Some(1), config);
        device.subscribe(network.now, object).unwrap();
        let mut told = 0;
        for minute in 0..10_u8 {
            for event in run(&mut network, &mut device, Duration::from_secs(57)) {
                assert!(matches!(event, DeviceEvent::Subscribed(_) | DeviceEvent::Changed(_)), "{event:?}");
            }
            if minute == 5 {
                network.servers.get_mut(&peer.address).unwrap().restart();
                run(&mut network, &mut device, Duration::from_secs(57));
            }
            let now = network.now;
            let server = network.servers.get_mut(&peer.address).unwrap();
            // Below the increment of 0.5 nobody is told.
            assert!(server.set_value(now, object, Value::Real(f32::from(minute) * 10.0)));
            assert!(server.set_value(now, object, Value::Real(f32::from(minute) * 10.0 + 0.2)));
            let changes = run(&mut network, &mut device, Duration::from_secs(3));
            told += changes.iter().filter(|e| matches!(e, DeviceEvent::Changed(c) if c.confirmed == confirmed && c.values[0].2 == Value::Real(f32::from(minute) * 10.0))).count();
        }
        assert!((10..=12).contains(&told), "{told}");
        device.unsubscribe(object);
        run(&mut network, &mut device, LONG);
        assert_eq!(network.servers[&peer.address].subscriptions(), 0);
    }
}

#[test]
fn a_device_without_space_is_asked_again() {
    let config = ServerConfig { subscriptions_max: 1, ..ServerConfig::default() };
    let (mut network, mut device) = learned(config, 3);
    device.subscribe(network.now, present(0).object).unwrap();
    device.subscribe(network.now, present(1).object).unwrap();
    device.subscribe(network.now, present(777).object).unwrap();
    let events = run(&mut network, &mut device, Duration::from_secs(5));
    let refused = |code| Failure::Error(ServiceError::new(ErrorClass::RESOURCES, code));
    let full = refused(ErrorCode::NO_SPACE_TO_ADD_LIST_ELEMENT);
    assert!(events.contains(&DeviceEvent::Subscribed(present(0).object)));
    assert!(events.contains(&DeviceEvent::NotSubscribed(present(1).object, full)));
    device.unsubscribe(present(0).object);
    let events = run(&mut network, &mut device, Duration::from_secs(200));
    assert!(events.contains(&DeviceEvent::Subscribed(present(1).object)), "{events:?}");
    assert_eq!(device.subscribed().collect::<Vec<_>>(), [present(1).object]);
}

#[test]
fn trend_logs_are_read_by_position_sequence_and_time() {
    let (mut network, mut device) = learned(ServerConfig::default(), 1);
    network.faults = Faults { lost: 5, repeated: 10, late: 20 };
    let log = ObjectId::new(ObjectType::TREND_LOG, 1);
    let start = network.now.utc;
    let moment = |minute: u64| DateTime::from_timestamp(start.later(Duration::from_secs(minute * 60)), 0);
    let server = network.servers.get_mut(&device.peer().address).unwrap();
    server.add(Object::trend_log(1, "log", 500));
    for minute in 0..600_u32 {
        let datum = LogDatum::Value(real(minute));
        server.log(log, LogRecord { at: moment(minute.into()), datum, status: None });
    }
    let mut read = |range| {
        device.read_log(network.now, &mut network.client, log, Some(range)).unwrap();
        let events = run(&mut network, &mut device, LONG);
        let [DeviceEvent::Log { part: Ok(part), .. }] = events.as_slice() else { panic!("{events:?}") };
        let data: Vec<_> = part.records.iter().map(|record| record.datum.clone()).collect();
        let expect = |from: u32| (from..).take(data.len()).map(|m| LogDatum::Value(real(m))).collect::<Vec<_>>();
        let first = (0..600).find(|first| data.first() == Some(&LogDatum::Value(real(*first)))).unwrap_or(0);
        assert_eq!(data, expect(first));
        (first, data.len(), part.first_sequence, part.has_last)
    };
    assert_eq!(read(Range::Position(1, 10)), (100, 10, None, false));
    assert_eq!(read(Range::Position(500, -10)), (590, 10, None, true));
    assert_eq!(read(Range::Sequence(591, 1000)), (590, 10, Some(591), true));
    assert_eq!(read(Range::Sequence(101, 500)), (100, 500, Some(101), true));
    assert_eq!(read(Range::Time(moment(300), 5)), (301, 5, Some(302), false));
    assert_eq!(read(Range::Time(moment(300), -5)), (295, 5, Some(296), false));
    assert_eq!(read(Range::Sequence(1, 10)).1, 0);
    assert_eq!(read(Range::Time(moment(9000), 10)).1, 0);
}
