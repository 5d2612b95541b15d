//! An expression: a typed tree over its inputs.

use crate::lexer::tokens;
use crate::parser::Parser;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Topic;

/// Bytes of the text of an expression.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Numbers, inputs, operators and calls of an expression.
pub const NODES_MAX: usize = 500;
/// Brackets, calls and signs within each other.
pub const DEPTH_MAX: usize = 32;
/// Different topics of an expression.
pub const INPUTS_MAX: usize = 64;

/// When an expression is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// At each change of an input: topics stand for their last values.
    Change,
    /// For each interval: topics stand in functions of the interval.
    Interval,
}

/// What an expression is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Number(f64),
    Boolean(bool),
    Input(usize),
    Window(Windowed, usize),
    Negative(Box<Self>),
    Not(Box<Self>),
    Binary(Binary, Box<Self>, Box<Self>),
    Call(Function, Vec<Self>),
}

/// What is calculated of the samples of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Windowed {
    Mean,
    TimeWeighted,
    Sum,
    Min,
    Max,
    Count,
    First,
    Last,
    Integral,
}

impl Windowed {
    pub(crate) const ALL: [(&'static str, Self); 9] = [
        ("mean", Self::Mean),
        ("time_weighted", Self::TimeWeighted),
        ("sum", Self::Sum),
        ("min", Self::Min),
        ("max", Self::Max),
        ("count", Self::Count),
        ("first", Self::First),
        ("last", Self::Last),
        ("integral", Self::Integral),
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    If,
    Coalesce,
    Min,
    Max,
    Avg,
    Clamp,
    Abs,
    Round,
    Floor,
    Ceil,
    Sqrt,
    Exp,
    Ln,
}

impl Function {
    /// Each with its name, and how many arguments it has at least and at most.
    pub(crate) const ALL: [(&'static str, Self, usize, usize); 13] = [
        ("if", Self::If, 3, 3),
        ("coalesce", Self::Coalesce, 2, INPUTS_MAX),
        ("min", Self::Min, 2, INPUTS_MAX),
        ("max", Self::Max, 2, INPUTS_MAX),
        ("avg", Self::Avg, 1, INPUTS_MAX),
        ("clamp", Self::Clamp, 3, 3),
        ("abs", Self::Abs, 1, 1),
        ("round", Self::Round, 1, 1),
        ("floor", Self::Floor, 1, 1),
        ("ceil", Self::Ceil, 1, 1),
        ("sqrt", Self::Sqrt, 1, 1),
        ("exp", Self::Exp, 1, 1),
        ("ln", Self::Ln, 1, 1),
    ];
}

/// An expression, and the topics that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: Box<str>,
    form: Form,
    pub(crate) root: Node,
    inputs: Box<[Topic]>,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is none; where, what was found, and what was expected.
    pub fn parse(text: &str, form: Form) -> Result<Self, ExpressionError> {
        let (root, inputs) = Parser::new(tokens(text)?, form).parse()?;
        Ok(Self { text: text.into(), form, root, inputs: inputs.into() })
    }

    /// As it was written.
    #[must_use]
    pub const fn text(&self) -> &str {
        &self.text
    }

    /// When it is calculated.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The topics that it takes, each once, in the order in which they stand in it.
    #[must_use]
    pub const fn inputs(&self) -> &[Topic] {
        &self.inputs
    }
}

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// At which character; the first is 1.
    pub at: usize,
    /// What is there.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: found {}, expected {}", self.at, self.found, self.expected)
    }
}

impl core::error::Error for ExpressionError {}
