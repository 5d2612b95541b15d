//! Type identifications (IEC 60870-5-101 7.2.1, IEC 60870-5-104 6): one table.

use core::fmt;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A state of two: SIQ.
    SinglePoint,
    /// A state of four: DIQ.
    DoublePoint,
    /// A step position: VTI, QDS.
    Step,
    /// 32 bits: BSI, QDS.
    Bits,
    /// A fraction of a range: NVA, QDS.
    Normalized,
    /// A fraction of a range without quality: NVA.
    NormalizedBare,
    /// A whole number: SVA, QDS.
    Scaled,
    /// A floating-point number: IEEE STD 754, QDS.
    Short,
    /// A counter: BCR.
    Totals,
    /// An event of protection equipment: SEP, CP16.
    ProtectionEvent,
    /// Start events of protection equipment: SPE, QDP, CP16.
    ProtectionStart,
    /// Output circuits of protection equipment: OCI, QDP, CP16.
    ProtectionOutput,
    /// 16 states and which of them changed: SCD, QDS.
    StatusChange,
    /// SCO.
    SingleCommand,
    /// DCO.
    DoubleCommand,
    /// RCO.
    StepCommand,
    /// NVA, QOS.
    SetNormalized,
    /// SVA, QOS.
    SetScaled,
    /// IEEE STD 754, QOS.
    SetShort,
    /// BSI.
    SetBits,
    /// COI.
    EndOfInitialization,
    /// QOI.
    Interrogation,
    /// QCC.
    CounterInterrogation,
    /// Nothing.
    Read,
    /// CP56.
    ClockSynchronization,
    /// FBP.
    TestPattern,
    /// TSC.
    TestCounter,
    /// QRP.
    Reset,
    /// CP16.
    Delay,
}

impl Form {
    const fn bytes(self) -> usize {
        match self {
            Self::Read => 0,
            Self::SinglePoint
            | Self::DoublePoint
            | Self::SingleCommand
            | Self::DoubleCommand
            | Self::StepCommand
            | Self::EndOfInitialization
            | Self::Interrogation
            | Self::CounterInterrogation
            | Self::Reset => 1,
            Self::Step | Self::NormalizedBare | Self::TestPattern | Self::TestCounter | Self::Delay => 2,
            Self::Normalized | Self::Scaled | Self::ProtectionEvent | Self::SetNormalized | Self::SetScaled => 3,
            Self::ProtectionStart | Self::ProtectionOutput | Self::SetBits => 4,
            Self::Bits | Self::Short | Self::Totals | Self::StatusChange | Self::SetShort => 5,
            Self::ClockSynchronization => 7,
        }
    }
}

/// What time an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeForm {
    /// None.
    None,
    /// CP24Time2a.
    Cp24,
    /// CP56Time2a.
    Cp56,
}

/// What the objects of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// What their elements are.
    pub form: Form,
    /// What time they have.
    pub time: TimeForm,
}

impl Layout {
    /// Bytes of an object without its address.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.form.bytes()
            + match self.time {
                TimeForm::None => 0,
                TimeForm::Cp24 => 3,
                TimeForm::Cp56 => 7,
            }
    }
}

/// A type identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u8);

macro_rules! types {
    ($($id:literal $name:ident $form:ident $time:ident;)*) => {
        impl TypeId {
            $(
                #[doc = concat!("Type ", stringify!($id), ".")]
                pub const $name: Self = Self($id);
            )*

            /// All that are known here.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// What its objects are; none of a type that is not known here.
            #[must_use]
            pub const fn layout(self) -> Option<Layout> {
                match self {
                    $(Self::$name => Some(Layout { form: Form::$form, time: TimeForm::$time }),)*
                    Self(_) => None,
                }
            }

            /// The standard's name; none of a type that is not known here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    Self(_) => None,
                }
            }
        }
    };
}

types! {
    1 M_SP_NA_1 SinglePoint None;
    2 M_SP_TA_1 SinglePoint Cp24;
    3 M_DP_NA_1 DoublePoint None;
    4 M_DP_TA_1 DoublePoint Cp24;
    5 M_ST_NA_1 Step None;
    6 M_ST_TA_1 Step Cp24;
    7 M_BO_NA_1 Bits None;
    8 M_BO_TA_1 Bits Cp24;
    9 M_ME_NA_1 Normalized None;
    10 M_ME_TA_1 Normalized Cp24;
    11 M_ME_NB_1 Scaled None;
    12 M_ME_TB_1 Scaled Cp24;
    13 M_ME_NC_1 Short None;
    14 M_ME_TC_1 Short Cp24;
    15 M_IT_NA_1 Totals None;
    16 M_IT_TA_1 Totals Cp24;
    17 M_EP_TA_1 ProtectionEvent Cp24;
    18 M_EP_TB_1 ProtectionStart Cp24;
    19 M_EP_TC_1 ProtectionOutput Cp24;
    20 M_PS_NA_1 StatusChange None;
    21 M_ME_ND_1 NormalizedBare None;
    30 M_SP_TB_1 SinglePoint Cp56;
    31 M_DP_TB_1 DoublePoint Cp56;
    32 M_ST_TB_1 Step Cp56;
    33 M_BO_TB_1 Bits Cp56;
    34 M_ME_TD_1 Normalized Cp56;
    35 M_ME_TE_1 Scaled Cp56;
    36 M_ME_TF_1 Short Cp56;
    37 M_IT_TB_1 Totals Cp56;
    38 M_EP_TD_1 ProtectionEvent Cp56;
    39 M_EP_TE_1 ProtectionStart Cp56;
    40 M_EP_TF_1 ProtectionOutput Cp56;
    45 C_SC_NA_1 SingleCommand None;
    46 C_DC_NA_1 DoubleCommand None;
    47 C_RC_NA_1 StepCommand None;
    48 C_SE_NA_1 SetNormalized None;
    49 C_SE_NB_1 SetScaled None;
    50 C_SE_NC_1 SetShort None;
    51 C_BO_NA_1 SetBits None;
    58 C_SC_TA_1 SingleCommand Cp56;
    59 C_DC_TA_1 DoubleCommand Cp56;
    60 C_RC_TA_1 StepCommand Cp56;
    61 C_SE_TA_1 SetNormalized Cp56;
    62 C_SE_TB_1 SetScaled Cp56;
    63 C_SE_TC_1 SetShort Cp56;
    64 C_BO_TA_1 SetBits Cp56;
    70 M_EI_NA_1 EndOfInitialization None;
    100 C_IC_NA_1 Interrogation None;
    101 C_CI_NA_1 CounterInterrogation None;
    102 C_RD_NA_1 Read None;
    103 C_CS_NA_1 ClockSynchronization None;
    104 C_TS_NA_1 TestPattern None;
    105 C_RP_NA_1 Reset None;
    106 C_CD_NA_1 Delay None;
    107 C_TS_TA_1 TestCounter Cp56;
}

impl TypeId {
    /// The type whose objects are so; none where the standard has none.
    #[must_use]
    pub fn of(form: Form, time: TimeForm) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.layout() == Some(Layout { form, time }))
    }
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => self.0.fmt(f),
        }
    }
}
