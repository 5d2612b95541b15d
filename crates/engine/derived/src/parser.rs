//! Reads words into a typed tree.
//!
//! ```text
//! or ◀ and ◀ not ◀ comparison ◀ + - ◀ * / % ◀ sign ◀ ^ ◀ number, topic, call, ( )
//! ```

use crate::expression::{Binary, DEPTH_MAX, ExpressionError, Form, Function, INPUTS_MAX, NODES_MAX, Node, Windowed};
use crate::lexer::{Token, Word};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::Topic;

/// What a part of an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Boolean,
    /// The value of a topic: known when it comes.
    Either,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Number | Self::Either => "a number",
            Self::Boolean => "true or false",
        }
    }

    fn fits(self, wanted: Self) -> bool {
        self == wanted || self == Self::Either || wanted == Self::Either
    }
}

/// A part, what it is, and where it begins.
struct Part {
    node: Node,
    kind: Kind,
    at: usize,
}

pub(crate) struct Parser {
    tokens: Vec<Token>,
    place: usize,
    form: Form,
    inputs: Vec<Topic>,
    nodes: usize,
    depth: usize,
}

type Parsed = Result<Part, ExpressionError>;

const COMPARISONS: [(&str, Binary); 6] = [
    ("==", Binary::Equal),
    ("!=", Binary::NotEqual),
    ("<=", Binary::AtMost),
    (">=", Binary::AtLeast),
    ("<", Binary::Less),
    (">", Binary::Greater),
];
const SUMS: [(&str, Binary); 2] = [("+", Binary::Add), ("-", Binary::Subtract)];
const PRODUCTS: [(&str, Binary); 3] = [("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Remainder)];

impl Parser {
    pub(crate) const fn new(tokens: Vec<Token>, form: Form) -> Self {
        Self { tokens, place: 0, form, inputs: Vec::new(), nodes: 0, depth: 0 }
    }

    pub(crate) fn parse(mut self) -> Result<(Node, Vec<Topic>), ExpressionError> {
        let part = self.either()?;
        if *self.word() != Word::End {
            return Err(self.expected("an operator or the end"));
        }
        if self.inputs.is_empty() {
            let expected = "a topic in it, as 'site/power'".to_owned();
            return Err(ExpressionError { at: 1, found: "an expression without a topic".to_owned(), expected });
        }
        Ok((part.node, self.inputs))
    }

    fn token(&self) -> Option<&Token> {
        self.tokens.get(self.place.min(self.tokens.len().saturating_sub(1)))
    }

    fn word(&self) -> &Word {
        self.token().map_or(&Word::End, |token| &token.word)
    }

    fn at(&self) -> usize {
        self.token().map_or(1, |token| token.at)
    }

    fn expected(&self, expected: &str) -> ExpressionError {
        let found = match self.token() {
            Some(token) if token.word != Word::End => alloc::format!("\"{}\"", token.text),
            Some(_) | None => "the end".to_owned(),
        };
        ExpressionError { at: self.at(), found, expected: expected.to_owned() }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.word(), Word::Sign(found) if *found == sign);
        self.place += usize::from(is_it);
        is_it
    }

    fn take_name(&mut self, name: &str) -> bool {
        let is_it = matches!(self.word(), Word::Name(found) if found == name);
        self.place += usize::from(is_it);
        is_it
    }

    fn take_operator(&mut self, among: &[(&str, Binary)]) -> Option<Binary> {
        let found = among.iter().find(|(sign, _)| matches!(self.word(), Word::Sign(found) if found == sign))?;
        self.place += 1;
        Some(found.1)
    }

    fn part(&mut self, node: Node, kind: Kind, at: usize) -> Parsed {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let found = alloc::format!("more than {NODES_MAX} parts");
            return Err(ExpressionError { at, found, expected: "a shorter expression".to_owned() });
        }
        Ok(Part { node, kind, at })
    }

    /// One level deeper, as far as that may go.
    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.expected(&alloc::format!("{DEPTH_MAX} levels of brackets at most")));
        }
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn binary(&mut self, operator: Binary, (left, right): (Part, Part), kinds: (Kind, Kind)) -> Parsed {
        let (wanted, made) = kinds;
        let (left, right) = (wants(left, wanted)?, wants(right, wanted)?);
        let at = left.at;
        self.part(Node::Binary(operator, Box::new(left.node), Box::new(right.node)), made, at)
    }

    fn either(&mut self) -> Parsed {
        let mut left = self.both()?;
        while self.take_name("or") {
            let right = self.both()?;
            left = self.binary(Binary::Or, (left, right), (Kind::Boolean, Kind::Boolean))?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed {
        let mut left = self.negated()?;
        while self.take_name("and") {
            let right = self.negated()?;
            left = self.binary(Binary::And, (left, right), (Kind::Boolean, Kind::Boolean))?;
        }
        Ok(left)
    }

    fn negated(&mut self) -> Parsed {
        let at = self.at();
        if !self.take_name("not") {
            return self.comparison();
        }
        let part = self.deeper(Self::negated)?;
        let part = wants(part, Kind::Boolean)?;
        self.part(Node::Not(Box::new(part.node)), Kind::Boolean, at)
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let Some(operator) = self.take_operator(&COMPARISONS) else { return Ok(left) };
        let right = self.sum()?;
        let compares_truths = matches!(operator, Binary::Equal | Binary::NotEqual);
        let is_truth = compares_truths && (left.kind == Kind::Boolean || right.kind == Kind::Boolean);
        let wanted = if is_truth { Kind::Boolean } else { Kind::Number };
        self.binary(operator, (left, right), (wanted, Kind::Boolean))
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        while let Some(operator) = self.take_operator(&SUMS) {
            let right = self.product()?;
            left = self.binary(operator, (left, right), (Kind::Number, Kind::Number))?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        while let Some(operator) = self.take_operator(&PRODUCTS) {
            let right = self.signed()?;
            left = self.binary(operator, (left, right), (Kind::Number, Kind::Number))?;
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed {
        let at = self.at();
        if !self.take_sign("-") {
            return self.power();
        }
        let part = self.deeper(Self::signed)?;
        let part = wants(part, Kind::Number)?;
        self.part(Node::Negative(Box::new(part.node)), Kind::Number, at)
    }

    fn power(&mut self) -> Parsed {
        let left = self.primary()?;
        if !self.take_sign("^") {
            return Ok(left);
        }
        let right = self.deeper(Self::signed)?;
        self.binary(Binary::Power, (left, right), (Kind::Number, Kind::Number))
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        match self.word().clone() {
            Word::Number(number) => {
                self.place += 1;
                self.part(Node::Number(number), Kind::Number, at)
            }
            Word::Topic(topic) if self.form == Form::Change => {
                self.place += 1;
                let input = self.input(topic, at)?;
                self.part(Node::Input(input), Kind::Either, at)
            }
            Word::Topic(_) => Err(self.expected("a function of the interval, as in mean('site/power')")),
            Word::Sign("(") => {
                self.place += 1;
                let part = self.deeper(Self::either)?;
                if self.take_sign(")") { Ok(part) } else { Err(self.expected("an operator or \")\"")) }
            }
            Word::Name(name) if name == "true" || name == "false" => {
                self.place += 1;
                self.part(Node::Boolean(name == "true"), Kind::Boolean, at)
            }
            Word::Name(name) => self.call(&name, at),
            Word::Sign(_) | Word::End => Err(self.expected("a number, a topic as 'site/power', a function or \"(\"")),
        }
    }

    fn input(&mut self, topic: Topic, at: usize) -> Result<usize, ExpressionError> {
        if let Some(known) = self.inputs.iter().position(|known| *known == topic) {
            return Ok(known);
        }
        if self.inputs.len() >= INPUTS_MAX {
            let found = alloc::format!("more than {INPUTS_MAX} topics");
            return Err(ExpressionError { at, found, expected: alloc::format!("{INPUTS_MAX} topics at most") });
        }
        self.inputs.push(topic);
        Ok(self.inputs.len() - 1)
    }

    /// Whether what follows is a topic alone in brackets.
    fn has_topic_alone(&self) -> bool {
        let word = |ahead: usize| self.tokens.get(self.place + ahead).map(|token| &token.word);
        matches!((word(1), word(2), word(3)), (Some(Word::Sign("(")), Some(Word::Topic(_)), Some(Word::Sign(")"))))
    }

    fn call(&mut self, name: &str, at: usize) -> Parsed {
        let windowed = Windowed::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, windowed)| windowed);
        let function = Function::ALL.into_iter().find(|(known, ..)| *known == name);
        match (windowed, function) {
            (Some(windowed), _) if self.form == Form::Interval && self.has_topic_alone() => self.window(windowed, at),
            (_, Some(function)) => self.function(function, at),
            (Some(_), None) if self.form == Form::Interval => {
                self.place += 1;
                let is_open = self.take_sign("(");
                Err(self.expected(if is_open { "one topic and \")\", as in mean('site/power')" } else { "\"(\"" }))
            }
            (Some(_), None) => Err(self.expected("`every` beside `value`: it is a function of an interval")),
            (None, None) => Err(self.expected(&alloc::format!("a function: {}", self.names()))),
        }
    }

    fn names(&self) -> String {
        let of_intervals = Windowed::ALL.iter().map(|(name, _)| *name).filter(|_| self.form == Form::Interval);
        let mut names: Vec<&str> = Function::ALL.iter().map(|(name, ..)| *name).chain(of_intervals).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn window(&mut self, windowed: Windowed, at: usize) -> Parsed {
        self.place += 2;
        let Word::Topic(topic) = self.word().clone() else { return Err(self.expected("a topic")) };
        let input = self.input(topic, self.at())?;
        self.place += 2;
        self.part(Node::Window(windowed, input), Kind::Number, at)
    }

    fn function(&mut self, (name, function, least, most): (&str, Function, usize, usize), at: usize) -> Parsed {
        self.place += 1;
        if !self.take_sign("(") {
            return Err(self.expected("\"(\""));
        }
        let mut parts = Vec::new();
        loop {
            parts.push(self.deeper(Self::either)?);
            if self.take_sign(",") {
                continue;
            }
            if self.take_sign(")") {
                break;
            }
            return Err(self.expected("an operator, \",\" or \")\""));
        }
        if parts.len() < least || parts.len() > most {
            let arguments = if least == most { alloc::format!("{least}") } else { alloc::format!("{least} or more") };
            let found = alloc::format!("{name} with {} arguments", parts.len());
            return Err(ExpressionError { at, found, expected: arguments });
        }
        let kind = kind_of(function, &mut parts)?;
        self.part(Node::Call(function, parts.into_iter().map(|part| part.node).collect()), kind, at)
    }
}

/// What a call is, where its arguments are what they have to be.
fn kind_of(function: Function, parts: &mut [Part]) -> Result<Kind, ExpressionError> {
    let choices = match function {
        Function::If => {
            let [condition, choices @ ..] = parts else { return Ok(Kind::Either) };
            check(condition, Kind::Boolean)?;
            choices
        }
        Function::Coalesce => parts,
        _ => {
            parts.iter().try_for_each(|part| check(part, Kind::Number))?;
            return Ok(Kind::Number);
        }
    };
    let kind = choices.iter().map(|part| part.kind).find(|kind| *kind != Kind::Either).unwrap_or(Kind::Either);
    choices.iter().try_for_each(|part| check(part, kind))?;
    Ok(kind)
}

fn check(part: &Part, wanted: Kind) -> Result<(), ExpressionError> {
    if part.kind.fits(wanted) {
        return Ok(());
    }
    Err(ExpressionError { at: part.at, found: part.kind.name().to_owned(), expected: wanted.name().to_owned() })
}

fn wants(part: Part, wanted: Kind) -> Parsed {
    check(&part, wanted).map(|()| part)
}
