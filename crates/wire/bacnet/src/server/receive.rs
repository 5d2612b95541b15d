//! What a datagram does to a server.

use super::properties::INVALID_INDEX;
use super::{Server, ServerEvent};
use crate::apdu::{Accepts, Apdu};
use crate::bvlc::{Bvlc, Carried};
use crate::names::{AbortReason, ConfirmedService, RejectReason, UnconfirmedService};
use crate::npdu::{Body, NETWORK_ALL, Npdu};
use crate::service::{
    IHave, PropertyRef, RangeRequest, ReadAck, ReadMultiple, ReadResult, Subscription, WhoHas, WhoHasWhat, WhoIs,
    Write, WriteMultiple, parse_time,
};
use crate::tag::Write as _;
use crate::{Decoded, INSTANCE_ANY, ObjectId, Peer, PropertyId, ServiceError};
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use tieline_core::Now;

/// What a request comes to.
enum Outcome {
    Done,
    Result(Vec<u8>),
    Error(ServiceError),
    /// An error and where it is, of WritePropertyMultiple.
    ErrorAt(ServiceError, PropertyRef),
    Reject(RejectReason),
    Abort(AbortReason),
}

impl Server {
    /// Takes a datagram and the address that it came from.
    pub fn handle_datagram(&mut self, now: Now, from: SocketAddrV4, datagram: &[u8]) {
        self.counters.received += 1;
        if self.take_datagram(now, from, datagram).is_err() {
            self.counters.malformed += 1;
        }
    }

    fn take_datagram(&mut self, now: Now, from: SocketAddrV4, datagram: &[u8]) -> Decoded<()> {
        let carried = Bvlc::parse(datagram)?.carried(from);
        carried.map_or(Ok(()), |carried| self.handle_npdu(now, carried))
    }

    fn handle_npdu(&mut self, now: Now, carried: Carried<'_>) -> Decoded<()> {
        let Carried { from: address, npdu, is_unicast } = carried;
        let npdu = Npdu::parse(npdu)?;
        let is_meant = match (npdu.destination, self.config.station) {
            (None, station) => station.is_none(),
            (Some(destination), _) if destination.network == NETWORK_ALL => true,
            (Some(destination), Some(station)) => {
                destination == station || (destination.network == station.network && destination.mac.bytes().is_empty())
            }
            (Some(_), None) => false,
        };
        let Body::Apdu(bytes) = npdu.body else { return Ok(()) };
        if !is_meant {
            return Ok(());
        }
        let peer = Peer { address, station: npdu.source };
        match Apdu::parse(bytes)? {
            Apdu::UnconfirmedRequest { service, parameters } => self.handle_unconfirmed(peer, service, parameters),
            apdu if is_unicast => {
                self.handle_unicast(now, peer, apdu);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn handle_unconfirmed(&mut self, peer: Peer, service: UnconfirmedService, parameters: &[u8]) -> Decoded<()> {
        match service {
            UnconfirmedService::WHO_IS if WhoIs::parse(parameters)?.asks(self.config.instance) => self.say_i_am(&peer),
            UnconfirmedService::WHO_HAS => {
                let who_has = WhoHas::parse(parameters)?;
                if who_has.asks(self.config.instance)
                    && let Some(i_have) = self.find(&who_has.what)
                {
                    let mut parameters = Vec::new();
                    i_have.emit(&mut parameters);
                    self.announce(&peer, UnconfirmedService::I_HAVE, &parameters);
                }
            }
            UnconfirmedService::TIME_SYNCHRONIZATION | UnconfirmedService::UTC_TIME_SYNCHRONIZATION => {
                let at = parse_time(parameters)?;
                let is_utc = service == UnconfirmedService::UTC_TIME_SYNCHRONIZATION;
                if self.events.len() < self.config.events_max {
                    self.events.push_back(ServerEvent::TimeSet { peer, at, is_utc });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn find(&self, what: &WhoHasWhat) -> Option<IHave> {
        let device = self.device();
        let found = |object: ObjectId, name: &str| Some(IHave { device, object, name: name.into() });
        match what {
            WhoHasWhat::Object(object) if *object == device => found(device, &self.config.name),
            WhoHasWhat::Object(object) => self.objects.get(object).and_then(|object| found(object.id, &object.name)),
            WhoHasWhat::Name(name) if **name == *self.config.name => found(device, &self.config.name),
            WhoHasWhat::Name(name) => self
                .objects
                .values()
                .find(|object| object.name == *name)
                .and_then(|object| found(object.id, &object.name)),
        }
    }

    fn handle_unicast(&mut self, now: Now, peer: Peer, apdu: Apdu<'_>) {
        match apdu {
            Apdu::ConfirmedRequest { segment: None, accepts, invoke_id, service, parameters } => {
                self.handle_request(now, (peer, invoke_id), accepts, service, parameters);
            }
            Apdu::ConfirmedRequest { segment: Some(segment), accepts, invoke_id, service, parameters } => {
                let key = (peer, invoke_id);
                let whole = self.handle_segment(now, key, accepts, service, segment, parameters);
                if let Some((accepts, parameters)) = whole {
                    self.handle_request(now, key, accepts, service, &parameters);
                }
            }
            Apdu::SegmentAck { negative, from_server: false, invoke_id, sequence, window } => {
                self.handle_segment_ack(now, (peer, invoke_id), negative, sequence, window);
            }
            Apdu::Abort { from_server: false, invoke_id, .. } => {
                self.sending.remove(&(peer, invoke_id));
                self.receiving.remove(&(peer, invoke_id));
            }
            Apdu::SimpleAck { invoke_id, service: ConfirmedService::COV_NOTIFICATION } => {
                self.notifying.remove(&(peer, invoke_id));
            }
            Apdu::Error { invoke_id, .. }
            | Apdu::Reject { invoke_id, .. }
            | Apdu::Abort { from_server: true, invoke_id, .. } => {
                self.notifying.remove(&(peer, invoke_id));
            }
            Apdu::SimpleAck { .. }
            | Apdu::SegmentAck { .. }
            | Apdu::ComplexAck { .. }
            | Apdu::UnconfirmedRequest { .. } => {}
        }
    }

    fn handle_request(
        &mut self,
        now: Now,
        key: (Peer, u8),
        accepts: Accepts,
        service: ConfirmedService,
        parameters: &[u8],
    ) {
        // The answer to this very request is on its way by segments.
        if self.sending.contains_key(&key) {
            return;
        }
        let changes = [
            ConfirmedService::WRITE_PROPERTY,
            ConfirmedService::WRITE_PROPERTY_MULTIPLE,
            ConfirmedService::SUBSCRIBE_COV,
        ]
        .contains(&service);
        if self.refusal.is_none()
            && changes
            && let Some(answer) = self.answers.find(now.mono, key, service, parameters).map(<[u8]>::to_vec)
        {
            return self.send_bytes(&key.0, &answer, false);
        }
        self.counters.requests += 1;
        let (peer, invoke_id) = key;
        let outcome = match self.refusal {
            Some(error) => Ok(Outcome::Error(error)),
            None => self.execute(now, peer, accepts, service, parameters),
        };
        let mut error_parameters = Vec::new();
        let answer = match outcome {
            Ok(Outcome::Result(parameters)) => return self.answer(now, key, accepts, service, parameters),
            Ok(Outcome::Done) => Apdu::SimpleAck { invoke_id, service },
            Ok(Outcome::Error(error)) => {
                error.emit(&mut error_parameters);
                Apdu::Error { invoke_id, service, parameters: &error_parameters }
            }
            Ok(Outcome::ErrorAt(error, place)) => {
                emit_error_at(error, place, &mut error_parameters);
                Apdu::Error { invoke_id, service, parameters: &error_parameters }
            }
            Ok(Outcome::Reject(reason)) => Apdu::Reject { invoke_id, reason },
            Ok(Outcome::Abort(reason)) => Apdu::Abort { from_server: true, invoke_id, reason },
            Err(_) => Apdu::Reject { invoke_id, reason: RejectReason::INVALID_TAG },
        };
        let mut bytes = Vec::with_capacity(16);
        answer.emit(&mut bytes);
        self.send_bytes(&peer, &bytes, false);
        if changes && self.refusal.is_none() {
            self.answers.add(now.mono, key, service, parameters, bytes);
        }
        self.tell_subscribers(now);
    }

    fn execute(
        &mut self,
        now: Now,
        peer: Peer,
        accepts: Accepts,
        service: ConfirmedService,
        parameters: &[u8],
    ) -> Decoded<Outcome> {
        let done = |result: Result<(), ServiceError>| match result {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Error(error),
        };
        Ok(match service {
            ConfirmedService::READ_PROPERTY => self.read(now, PropertyRef::parse(parameters)?),
            ConfirmedService::READ_PROPERTY_MULTIPLE if self.config.reads_multiple => {
                self.read_multiple(now, accepts, parameters)?
            }
            ConfirmedService::WRITE_PROPERTY => done(self.write(now, peer, Write::parse(parameters)?)),
            ConfirmedService::WRITE_PROPERTY_MULTIPLE => self.write_multiple(now, peer, parameters)?,
            ConfirmedService::SUBSCRIBE_COV => {
                let subscription = Subscription::parse(parameters)?;
                match self.subscribe(now, peer, subscription) {
                    Ok(key) => {
                        self.to_tell.push(key);
                        Outcome::Done
                    }
                    Err(error) => Outcome::Error(error),
                }
            }
            ConfirmedService::READ_RANGE => {
                let request = RangeRequest::parse(parameters)?;
                self.read_range(&request, self.answer_bytes_max(accepts)).map_or_else(Outcome::Error, Outcome::Result)
            }
            _ => Outcome::Reject(RejectReason::UNRECOGNIZED_SERVICE),
        })
    }

    /// A subscriber is told the value as it is, once it has its acknowledgement.
    fn tell_subscribers(&mut self, now: Now) {
        for key in core::mem::take(&mut self.to_tell) {
            self.tell(now, key);
        }
    }

    /// The object that is meant: instance 4194303 is the device that is asked (clause 15.5.1.1.1).
    fn meant(&self, object: ObjectId) -> ObjectId {
        if object == ObjectId::device(INSTANCE_ANY) { self.device() } else { object }
    }

    fn read(&self, now: Now, mut reference: PropertyRef) -> Outcome {
        reference.object = self.meant(reference.object);
        let value = match self.property(now, reference.object, reference.property, reference.index) {
            Ok(value) => value,
            Err(error) => return Outcome::Error(error),
        };
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        value.encode(&mut bytes);
        ReadAck { reference, value: &bytes }.emit(&mut out);
        Outcome::Result(out)
    }

    fn read_multiple(&self, now: Now, accepts: Accepts, parameters: &[u8]) -> Decoded<Outcome> {
        let bytes_max = self.answer_bytes_max(accepts);
        let (mut out, mut last, mut value) = (Vec::with_capacity(512), None, Vec::new());
        for reference in ReadMultiple::new(parameters) {
            let mut reference = reference?;
            reference.object = self.meant(reference.object);
            if last != Some(reference.object) {
                if last.is_some() {
                    out.closing(1);
                }
                out.context(0, &reference.object.bits().to_be_bytes());
                out.opening(1);
                last = Some(reference.object);
            }
            let many = [PropertyId::ALL, PropertyId::REQUIRED, PropertyId::OPTIONAL].contains(&reference.property);
            let properties = match self.properties(reference.object, reference.property) {
                Ok(properties) if many => properties,
                _ => alloc::vec![reference.property],
            };
            for property in properties {
                let result = if many && reference.index.is_some() {
                    Err(INVALID_INDEX)
                } else {
                    self.property(now, reference.object, property, reference.index)
                };
                value.clear();
                let result = result.map(|found| found.encode(&mut value));
                let reference = PropertyRef { property, ..reference };
                ReadResult { reference, value: result.map(|()| value.as_slice()) }.emit(&mut out);
            }
            if out.len() > bytes_max {
                let can_segment = accepts.segmented && self.config.segmentation.transmits();
                return Ok(Outcome::Abort(if can_segment {
                    AbortReason::BUFFER_OVERFLOW
                } else {
                    AbortReason::SEGMENTATION_NOT_SUPPORTED
                }));
            }
        }
        if last.is_none() {
            return Ok(Outcome::Reject(RejectReason::MISSING_REQUIRED_PARAMETER));
        }
        out.closing(1);
        Ok(Outcome::Result(out))
    }

    fn write_multiple(&mut self, now: Now, peer: Peer, parameters: &[u8]) -> Decoded<Outcome> {
        for write in WriteMultiple::new(parameters) {
            let write = write?;
            let reference = write.reference;
            if let Err(error) = self.write(now, peer, write) {
                return Ok(Outcome::ErrorAt(error, reference));
            }
        }
        Ok(Outcome::Done)
    }
}

/// The error of WritePropertyMultiple: class and code, then the first write that failed.
fn emit_error_at(error: ServiceError, place: PropertyRef, out: &mut Vec<u8>) {
    out.opening(0);
    error.emit(out);
    out.closing(0);
    out.opening(1);
    place.emit(out);
    out.closing(1);
}
