//! The columns of a point of an IEC 60870-5-104 station.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | `single-point`, `double-point`, `step-position`, `bitstring`, `normalized`, `scaled`, `short-float`, `integrated-totals`, `protection-event`, `protection-start`, `protection-output`, `status-change` | required |
//! | `index` | the information object address, 0 to 16777215 | required |
//! | `common_address` | 1 to 65534 | that of the device |
//! | `writable` | `true`, `false` | `true` where `control` says |
//! | `control` | the information object address that a command goes to | `index` |
//! | `operate` | `single`, `double`, `step`, `normalized`, `scaled`, `short-float`, `bitstring` | by `type` |
//! | `mode` | `select`, `direct` | as the device has it |
//! | `qualifier` | 0 to 127: QU of a command, QL of a set point | 0 |
//! | `group` | of a station that is served: the group that it is interrogated with, 1 to 16, of counters 1 to 4 | none |
//! | `cyclic` | of a station that is served: whether it is sent at intervals | `false` |

use super::list::{List, Row};
use super::{ControlConfig, PointAddress, Takes, ValueKind};
use tieline_core::CommandMode;
use tieline_iec104::{ADDRESS_MAX, Address};

/// The columns that not every protocol has.
pub(super) const COLUMNS: [&str; 7] = ["common_address", "control", "operate", "mode", "qualifier", "group", "cyclic"];

/// The highest QU of a command.
const QU_MAX: u8 = 31;
/// The highest QL of a set point.
const QL_MAX: u8 = 127;
/// Groups of states, and of counters.
const GROUPS: u8 = 16;
const COUNTER_GROUPS: u8 = 4;

/// A point of an IEC 60870-5-104 station.
#[derive(Clone, Debug, PartialEq)]
pub struct Iec104Point {
    /// What it is.
    pub kind: Iec104Kind,
    /// Its information object address.
    pub address: Address,
    /// Its common address; none: that of the device.
    pub common_address: Option<u16>,
    /// Where commands go; none where it is only read.
    pub output: Option<Iec104Output>,
    /// How a station that is served sends it.
    pub served: Iec104Served,
}

/// How a station that is served sends a point; a node reads past it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iec104Served {
    /// The group that it is interrogated with; 0 none.
    pub group: u8,
    /// Whether it is sent at intervals.
    pub is_cyclic: bool,
}

/// What the object of a point is; with and without a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iec104Kind {
    /// M_SP.
    SinglePoint,
    /// M_DP.
    DoublePoint,
    /// M_ST.
    StepPosition,
    /// M_BO.
    Bitstring,
    /// M_ME_NA, M_ME_ND.
    Normalized,
    /// M_ME_NB.
    Scaled,
    /// M_ME_NC.
    ShortFloat,
    /// M_IT.
    IntegratedTotals,
    /// M_EP_TA, M_EP_TD.
    ProtectionEvent,
    /// M_EP_TB, M_EP_TE.
    ProtectionStart,
    /// M_EP_TC, M_EP_TF.
    ProtectionOutput,
    /// M_PS.
    StatusChange,
}

impl Iec104Kind {
    const ALL: [Self; 12] = [
        Self::SinglePoint,
        Self::DoublePoint,
        Self::StepPosition,
        Self::Bitstring,
        Self::Normalized,
        Self::Scaled,
        Self::ShortFloat,
        Self::IntegratedTotals,
        Self::ProtectionEvent,
        Self::ProtectionStart,
        Self::ProtectionOutput,
        Self::StatusChange,
    ];

    /// The word of the column `type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SinglePoint => "single-point",
            Self::DoublePoint => "double-point",
            Self::StepPosition => "step-position",
            Self::Bitstring => "bitstring",
            Self::Normalized => "normalized",
            Self::Scaled => "scaled",
            Self::ShortFloat => "short-float",
            Self::IntegratedTotals => "integrated-totals",
            Self::ProtectionEvent => "protection-event",
            Self::ProtectionStart => "protection-start",
            Self::ProtectionOutput => "protection-output",
            Self::StatusChange => "status-change",
        }
    }

    const fn value_kind(self) -> ValueKind {
        match self {
            Self::SinglePoint => ValueKind::Bool,
            Self::DoublePoint | Self::ProtectionEvent => ValueKind::DoubleBit,
            Self::StepPosition
            | Self::Bitstring
            | Self::Scaled
            | Self::IntegratedTotals
            | Self::ProtectionStart
            | Self::ProtectionOutput
            | Self::StatusChange => ValueKind::Int,
            Self::Normalized | Self::ShortFloat => ValueKind::Float,
        }
    }

    /// What a point of this type is commanded by, where the list does not say.
    const fn command(self) -> Option<Iec104Command> {
        match self {
            Self::SinglePoint => Some(Iec104Command::Single),
            Self::DoublePoint => Some(Iec104Command::Double),
            Self::StepPosition => Some(Iec104Command::Step),
            Self::Bitstring => Some(Iec104Command::Bitstring),
            Self::Normalized => Some(Iec104Command::Normalized),
            Self::Scaled => Some(Iec104Command::Scaled),
            Self::ShortFloat => Some(Iec104Command::ShortFloat),
            Self::IntegratedTotals
            | Self::ProtectionEvent
            | Self::ProtectionStart
            | Self::ProtectionOutput
            | Self::StatusChange => None,
        }
    }
}

/// The object that a point is commanded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iec104Output {
    /// Its information object address.
    pub address: Address,
    /// What is sent.
    pub command: Iec104Command,
    /// QU of a command, QL of a set point.
    pub qualifier: u8,
    /// How the station is asked; none: as the device has it.
    pub mode: Option<CommandMode>,
}

/// What a command is sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iec104Command {
    /// C_SC: on or off.
    Single,
    /// C_DC: on or off.
    Double,
    /// C_RC: higher or lower.
    Step,
    /// C_SE_NA.
    Normalized,
    /// C_SE_NB.
    Scaled,
    /// C_SE_NC.
    ShortFloat,
    /// C_BO.
    Bitstring,
}

impl Iec104Command {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "single" => Self::Single,
            "double" => Self::Double,
            "step" => Self::Step,
            "normalized" => Self::Normalized,
            "scaled" => Self::Scaled,
            "short-float" => Self::ShortFloat,
            "bitstring" => Self::Bitstring,
            _ => return None,
        })
    }

    const fn takes(self) -> Takes {
        match self {
            Self::Single | Self::Double | Self::Step => Takes::Bool,
            // 1 is one step more than there are.
            Self::Normalized => Takes::Number { raw: -1.0..=32_767.0 / 32_768.0, whole: false },
            Self::Scaled => Takes::Number { raw: -32_768.0..=32_767.0, whole: true },
            Self::ShortFloat => Takes::Number { raw: f32::MIN as f64..=f32::MAX as f64, whole: false },
            Self::Bitstring => Takes::Number { raw: 0.0..=u32::MAX as f64, whole: true },
        }
    }

    const fn qualifier_max(self) -> u8 {
        match self {
            Self::Single | Self::Double | Self::Step => QU_MAX,
            Self::Normalized | Self::Scaled | Self::ShortFloat => QL_MAX,
            Self::Bitstring => 0,
        }
    }

    /// 32 bits have no S/E.
    const fn has_select(self) -> bool {
        !matches!(self, Self::Bitstring)
    }
}

fn address(text: &str) -> Option<Address> {
    text.parse().ok().and_then(Address::new)
}

fn addresses() -> String {
    format!("a whole number from 0 to {ADDRESS_MAX}, which is an information object address")
}

/// The type and the addresses of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<Iec104Point> {
    let types = format!("one of {}", Iec104Kind::ALL.map(Iec104Kind::name).join(", "));
    let kind = list.cell(row, "type", &types, None, |s| Iec104Kind::ALL.into_iter().find(|kind| kind.name() == s));
    let address = list.cell(row, "index", &addresses(), None, address);
    let numbers = "a whole number from 1 to 65534";
    let common_address = list.cell(row, "common_address", numbers, Some(None), |s| {
        s.parse().ok().filter(|number| (1..=65_534_u16).contains(number)).map(Some)
    });
    let served = read_served(list, row, kind);
    let (kind, address, common_address) = (kind?, address?, common_address?);
    Some(Iec104Point { kind, address, common_address, output: None, served: served? })
}

fn read_served(list: &mut List<'_>, row: &Row<'_>, kind: Option<Iec104Kind>) -> Option<Iec104Served> {
    let most = if kind == Some(Iec104Kind::IntegratedTotals) { COUNTER_GROUPS } else { GROUPS };
    let groups = format!("a whole number from 1 to {most} for this type");
    let fits = |group: &u8| (1..=most).contains(group);
    let group = list.cell(row, "group", &groups, Some(0), |s| s.parse().ok().filter(fits));
    let is_reported = kind != Some(Iec104Kind::IntegratedTotals);
    let words = if is_reported { "true or false" } else { "false: counters are not sent at intervals" };
    let is_cyclic =
        list.cell(row, "cyclic", words, Some(false), |s| s.parse().ok().filter(|cyclic| is_reported || !cyclic));
    Some(Iec104Served { group: group?, is_cyclic: is_cyclic? })
}

/// The rest of a row; none where it is wrong.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    mut point: Iec104Point,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    let (output, control) = control(list, row, &point)?.unzip();
    point.output = output;
    let kind = point.kind.value_kind();
    Some((PointAddress::Iec104(point), kind, control))
}

/// The outer option is none where a cell is wrong.
#[expect(clippy::option_option, reason = "wrong, absent and present are three answers")]
fn control(list: &mut List<'_>, row: &Row<'_>, point: &Iec104Point) -> Option<Option<(Iec104Output, ControlConfig)>> {
    if !list.writable(row, row.cell("control").is_some())? {
        return Some(None);
    }
    let words = "single, double, step, normalized, scaled, short-float or bitstring";
    let command = list.cell(row, "operate", words, point.kind.command(), Iec104Command::from_name)?;
    let target = list.cell(row, "control", &addresses(), Some(point.address), address);
    let most = command.qualifier_max();
    let qualifiers = format!("a whole number from 0 to {most} for this command");
    let qualifier = list.cell(row, "qualifier", &qualifiers, Some(0), |s| s.parse().ok().filter(|qu| *qu <= most));
    let has_select = command.has_select();
    let modes = if has_select { "select or direct" } else { "direct: a bitstring cannot be selected" };
    let mode = list.cell(row, "mode", modes, Some(None), |s| match s {
        "select" if has_select => Some(Some(CommandMode::SelectBeforeOperate)),
        "direct" => Some(Some(CommandMode::DirectOperate)),
        _ => None,
    });
    let limits = list.limits(row);
    let (mode, (min, max)) = (mode?, limits?);
    let output = Iec104Output { address: target?, command, qualifier: qualifier?, mode };
    let default = if has_select { CommandMode::SelectBeforeOperate } else { CommandMode::DirectOperate };
    let (mode, takes) = (mode.unwrap_or(default), command.takes());
    Some(Some((output, ControlConfig { mode, has_select, takes, min, max, rules: Box::default() })))
}
