//! Which functions are critical, and which role may ask for what (IEEE 1815 7.4.2, IEC 62351-8).

use super::Role;
use crate::app::{Fragment, Function};

/// A set of application functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSet(u64);

impl FunctionSet {
    /// No function.
    pub const NONE: Self = Self(0);

    /// Functions whose authentication the standard demands: all that change something. Confirm, read, freezes,
    /// initialize data, assign class and delay measure are left to the owner, and not among them.
    pub const MANDATORY: Self = Self::of(&[
        Function::Write,
        Function::Select,
        Function::Operate,
        Function::DirectOperate,
        Function::DirectOperateNoResponse,
        Function::ColdRestart,
        Function::WarmRestart,
        Function::InitializeApplication,
        Function::StartApplication,
        Function::StopApplication,
        Function::SaveConfiguration,
        Function::EnableUnsolicited,
        Function::DisableUnsolicited,
        Function::RecordCurrentTime,
        Function::OpenFile,
        Function::CloseFile,
        Function::DeleteFile,
        Function::FileInfo,
        Function::AuthenticateFile,
        Function::AbortFile,
        Function::ActivateConfiguration,
    ]);

    /// Every request but confirms, which are no requests, and those of secure authentication itself.
    pub const ALL: Self = Self::MANDATORY.with(Self::of(&[
        Function::Read,
        Function::ImmediateFreeze,
        Function::ImmediateFreezeNoResponse,
        Function::FreezeClear,
        Function::FreezeClearNoResponse,
        Function::FreezeAtTime,
        Function::FreezeAtTimeNoResponse,
        Function::InitializeData,
        Function::AssignClass,
        Function::DelayMeasure,
    ]));

    /// These functions; responses cannot be among them.
    #[must_use]
    pub const fn of(functions: &[Function]) -> Self {
        let mut bits = 0;
        let mut rest = functions;
        while let [first, others @ ..] = rest {
            bits |= Self::bit(*first);
            rest = others;
        }
        Self(bits)
    }

    /// These and the others.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These without the others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether a function is among them.
    #[must_use]
    pub const fn contains(self, function: Function) -> bool {
        self.0 & Self::bit(function) != 0
    }

    const fn bit(function: Function) -> u64 {
        if function.code() < 64 { 1 << function.code() } else { 0 }
    }
}

/// What a request would do, as roles see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// Read, and what a master does to keep a session going: enable unsolicited, the time, IIN1.7.
    Monitor,
    /// Operate outputs, freeze counters.
    Operate,
    /// Files.
    Files,
    /// Write points and settings, restart, activate a configuration, assign classes.
    Configure,
}

impl Role {
    /// Whether it may ask for this.
    #[must_use]
    pub fn may(self, request: &Fragment<'_>) -> bool {
        let right = right_of(request);
        match self {
            Self::SingleUser => true,
            Self::Viewer => right == Right::Monitor,
            Self::Operator => matches!(right, Right::Monitor | Right::Operate),
            Self::Engineer | Self::Installer => matches!(right, Right::Monitor | Right::Files | Right::Configure),
            Self::SecurityAuditor => matches!(right, Right::Monitor | Right::Files),
            // They change users, with the authority's key, and nothing that a request of theirs could do.
            Self::SecurityAdministrator | Self::RoleAdministrator => false,
        }
    }
}

fn right_of(request: &Fragment<'_>) -> Right {
    match request.function {
        Function::Read
        | Function::Confirm
        | Function::EnableUnsolicited
        | Function::DisableUnsolicited
        | Function::DelayMeasure
        | Function::RecordCurrentTime => Right::Monitor,
        Function::Write => {
            let housekeeping = |group| matches!(group, 50 | 80);
            let only = request.headers().all(|header| header.is_ok_and(|header| housekeeping(header.object().group)));
            if only { Right::Monitor } else { Right::Configure }
        }
        Function::Select
        | Function::Operate
        | Function::DirectOperate
        | Function::DirectOperateNoResponse
        | Function::ImmediateFreeze
        | Function::ImmediateFreezeNoResponse
        | Function::FreezeClear
        | Function::FreezeClearNoResponse
        | Function::FreezeAtTime
        | Function::FreezeAtTimeNoResponse => Right::Operate,
        Function::OpenFile
        | Function::CloseFile
        | Function::DeleteFile
        | Function::FileInfo
        | Function::AuthenticateFile
        | Function::AbortFile => Right::Files,
        Function::ColdRestart
        | Function::WarmRestart
        | Function::InitializeData
        | Function::InitializeApplication
        | Function::StartApplication
        | Function::StopApplication
        | Function::SaveConfiguration
        | Function::AssignClass
        | Function::ActivateConfiguration
        | Function::AuthenticationRequest
        | Function::AuthenticationRequestNoResponse
        | Function::Response
        | Function::UnsolicitedResponse
        | Function::AuthenticationResponse => Right::Configure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_something_is_critical() {
        for code in 0..=255 {
            let Some(function) = Function::from_code(code) else { continue };
            let optional = matches!(code, 0 | 1 | 7..=12 | 15 | 22 | 23 | 32 | 33 | 129..=131);
            assert_eq!(FunctionSet::MANDATORY.contains(function), !optional, "{code}");
        }
        assert!(!FunctionSet::ALL.contains(Function::Confirm));
        assert!(!FunctionSet::ALL.without(FunctionSet::MANDATORY).contains(Function::Write));
    }

    #[test]
    fn roles_do_what_they_are_for() {
        let may = |role: Role, bytes: &[u8]| role.may(&Fragment::parse(bytes).unwrap());
        let operate = [0xC0, 4, 12, 1, 0x17, 1, 0, 3, 1, 100, 0, 0, 0, 0, 0, 0, 0, 0];
        let write_time = [0xC0, 2, 50, 1, 7, 1, 0, 0, 0, 0, 0, 0];
        let write_string = [0xC0, 2, 110, 1, 0, 0, 0, 65];
        let open = [0xC0, 25];
        // Role; may operate, write the time, write a string, open a file.
        let table = [
            (Role::Viewer, [false, true, false, false]),
            (Role::Operator, [true, true, false, false]),
            (Role::Engineer, [false, true, true, true]),
            (Role::Installer, [false, true, true, true]),
            (Role::SecurityAdministrator, [false, false, false, false]),
            (Role::SecurityAuditor, [false, true, false, true]),
            (Role::RoleAdministrator, [false, false, false, false]),
            (Role::SingleUser, [true, true, true, true]),
        ];
        for (role, expect) in table {
            let found = [may(role, &operate), may(role, &write_time), may(role, &write_string), may(role, &open)];
            assert_eq!(found, expect, "{role:?}");
        }
    }
}
