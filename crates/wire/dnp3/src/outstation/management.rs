//! Functions that manage the device: applications (16 to 18), its configuration (19 and 31).

use super::application::{Application, Outcome};
use crate::Iin;
use crate::app::{Fragment, Function, Header};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// What the device does when a master manages it. An outstation without one does not know the functions (IIN2.0).
///
/// Called within the request: it answers at once, and does later what takes time.
pub trait ManagementHandler {
    /// Initializes, starts or stops the application of that name, or all where there is no name (functions 16 to 18,
    /// group 90). Not supported unless it says otherwise.
    fn manage(&mut self, _step: ApplicationStep, _name: Option<&[u8]>) -> Managed {
        Managed::Unsupported
    }

    /// Saves the configuration (function 19); tells how long requests make no sense. None is not supported, as by
    /// default.
    fn save_configuration(&mut self) -> Option<Duration> {
        None
    }

    /// Makes a configuration effective (function 31): those that are named, by file names (group 70 variation 8) or
    /// octet strings (group 110), or whatever is ready where none is. None is not supported, as by default.
    fn activate_configuration(&mut self, _named: &[ConfigurationName<'_>]) -> Option<Activation> {
        None
    }
}

/// The application's part of managing the device, owned by an outstation.
pub type BoxedManagementHandler = Box<dyn ManagementHandler + Send>;

/// What to do with an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationStep {
    /// Function 16.
    Initialize,
    /// Function 17.
    Start,
    /// Function 18.
    Stop,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// It is done, or will be.
    Done,
    /// There is no such application: IIN2.2.
    Unknown,
    /// It is under way already: IIN2.4.
    AlreadyExecuting,
    /// It cannot be done here at all: IIN2.0.
    Unsupported,
}

/// How a master names a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigurationName<'a> {
    /// Group 70 variation 8: the name of a file.
    File(&'a [u8]),
    /// Group 110: an octet string.
    Bytes(&'a [u8]),
}

/// The answer to an activation: group 91 variation 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Milliseconds until the configuration is in effect.
    pub delay_ms: u32,
    /// A status for each name, in their order: 0 is accepted, others are of IEEE 1815 A.37.1.
    pub statuses: Vec<u8>,
}

impl Application {
    /// Functions 16 to 18.
    pub(super) fn manage(&mut self, fragment: &Fragment<'_>) -> Outcome {
        let step = match fragment.function {
            Function::InitializeApplication => ApplicationStep::Initialize,
            Function::StartApplication => ApplicationStep::Start,
            _ => ApplicationStep::Stop,
        };
        let Some(handler) = self.management() else { return Outcome::only(Iin::NO_FUNC_CODE_SUPPORT) };
        if fragment.objects.is_empty() {
            return Outcome::only(iin_of(handler.manage(step, None)));
        }
        let refusal = refusal(fragment, |header| header.object().group == 90);
        if refusal != Iin::NONE {
            return Outcome::only(refusal);
        }
        let names = fragment.headers().flatten().flat_map(|header| header.items());
        let iin = names.fold(Iin::NONE, |iin, name| iin.with(iin_of(handler.manage(step, Some(name.bytes)))));
        Outcome::only(iin)
    }

    /// Function 19.
    pub(super) fn save_configuration(&mut self) -> Outcome {
        match self.management().map(|handler| handler.save_configuration()) {
            Some(Some(delay)) if delay.is_zero() => Outcome::default(),
            Some(Some(delay)) => Outcome { iin: Iin::NONE, objects: super::write::delay_object(delay) },
            Some(None) | None => Outcome::only(Iin::NO_FUNC_CODE_SUPPORT),
        }
    }

    /// Function 31.
    pub(super) fn activate_configuration(&mut self, fragment: &Fragment<'_>) -> Outcome {
        let objects_max = self.objects_max();
        let Some(handler) = self.management() else { return Outcome::only(Iin::NO_FUNC_CODE_SUPPORT) };
        let refusal = refusal(fragment, |header| header.object().group == 110 || is_file_name(header));
        if refusal != Iin::NONE {
            return Outcome::only(refusal);
        }
        let mut named = Vec::new();
        for header in fragment.headers().flatten() {
            named.extend(header.items().map(|item| match is_file_name(&header) {
                true => ConfigurationName::File(item.bytes),
                false => ConfigurationName::Bytes(item.bytes),
            }));
        }
        let Some(Activation { delay_ms, mut statuses }) = handler.activate_configuration(&named) else {
            return Outcome::only(Iin::NO_FUNC_CODE_SUPPORT);
        };
        statuses.truncate(objects_max - STATUS_HEADER_BYTES);
        let bytes = u16::try_from(4 + statuses.len()).unwrap_or(u16::MAX).to_le_bytes();
        let objects = [&[91, 1, 0x5B, 1], &bytes[..], &delay_ms.to_le_bytes(), &statuses].concat();
        Outcome { iin: Iin::NONE, objects }
    }

    fn management(&mut self) -> Option<&mut BoxedManagementHandler> {
        self.extras.as_mut()?.management.as_mut()
    }
}

/// Bytes of the header, the size and the delay of group 91 variation 1.
const STATUS_HEADER_BYTES: usize = 10;

fn is_file_name(header: &Header<'_>) -> bool {
    (header.object().group, header.object().variation) == (70, 8)
}

/// What is wrong with a request, before anything of it is done.
fn refusal(fragment: &Fragment<'_>, known: impl Fn(&Header<'_>) -> bool) -> Iin {
    fragment.headers().fold(Iin::NONE, |iin, header| {
        iin.with(match header {
            Ok(header) if !known(&header) => Iin::OBJECT_UNKNOWN,
            Ok(header) if header.data().is_empty() => Iin::PARAMETER_ERROR,
            Ok(_) => Iin::NONE,
            Err(error) => error.iin(),
        })
    })
}

const fn iin_of(managed: Managed) -> Iin {
    match managed {
        Managed::Done => Iin::NONE,
        Managed::Unknown => Iin::PARAMETER_ERROR,
        Managed::AlreadyExecuting => Iin::ALREADY_EXECUTING,
        Managed::Unsupported => Iin::NO_FUNC_CODE_SUPPORT,
    }
}

impl fmt::Debug for dyn ManagementHandler + Send {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ManagementHandler")
    }
}
