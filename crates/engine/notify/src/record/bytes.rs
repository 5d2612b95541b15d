//! The fields of records.

use super::{CourseRecord, EpisodeRecord};
use crate::notice::{AlarmName, Message, MessageKind, Notice, Standing};
use crate::route::{RouteId, STEPS_MAX};
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::fields::{FieldError, get_counted, get_text, get_value, put_text, put_value};
use tieline_core::varint::{VarintError, get, get_len, get_signed, put, put_len, put_signed};
use tieline_core::{Cursor, Timestamp, Topic, Truncated, Value, Words};

/// Bytes that are not the field that was expected.
pub(super) struct Malformed;

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Self
    }
}

impl From<VarintError> for Malformed {
    fn from(_: VarintError) -> Self {
        Self
    }
}

impl From<FieldError> for Malformed {
    fn from(_: FieldError) -> Self {
        Self
    }
}

pub(super) fn put_texts(out: &mut Vec<u8>, texts: &[Arc<str>]) {
    put_len(out, texts.len());
    for text in texts {
        put_text(out, text);
    }
}

pub(super) fn put_alarm(out: &mut Vec<u8>, alarm: &AlarmName) {
    put_text(out, &alarm.topic);
    put_text(out, &alarm.kind);
}

pub(super) fn put_episode(out: &mut Vec<u8>, episode: &EpisodeRecord) {
    put_notice(out, &episode.notice);
    out.push(episode.is_stopped.into());
    put_texts(out, &episode.told);
    put_len(out, episode.courses.len());
    for course in &episode.courses {
        put(out, course.route.0.into());
        put(out, course.step.into());
        put(out, course.repeats.into());
        put_signed(out, course.due.micros());
    }
}

pub(super) fn put_message(out: &mut Vec<u8>, message: &Message) {
    put(out, message.id);
    put_text(out, &message.to);
    put_signed(out, message.made.micros());
    put_text(out, message.kind.word());
    put(out, message.route.0.into());
    put(out, message.step.into());
    put(out, message.repeats.into());
    put(out, message.total.into());
    put_len(out, message.alarms.len());
    for notice in &message.alarms {
        put_notice(out, notice);
    }
}

fn put_notice(out: &mut Vec<u8>, notice: &Notice) {
    put_alarm(out, &notice.alarm);
    put(out, notice.seq);
    put_text(out, notice.standing.word());
    put_text(out, &notice.priority);
    put(out, notice.severity.into());
    put_text(out, &notice.state);
    put_text(out, &notice.group);
    put_text(out, &notice.text);
    put_value(out, &notice.value);
    put_signed(out, notice.since.micros());
    put(out, notice.count.into());
}

/// Reads one field after the other.
pub(super) struct Reader<'a>(Cursor<'a>);

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(Cursor::new(bytes))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.0.u8()?)
    }

    pub fn number(&mut self) -> Result<u64, Malformed> {
        Ok(get(&mut self.0)?)
    }

    /// Bytes after their length.
    pub fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        Ok(get_counted(&mut self.0)?)
    }

    pub fn texts(&mut self) -> Result<Vec<Arc<str>>, Malformed> {
        self.several(|own| Ok(own.text()?.into()))
    }

    pub fn alarm(&mut self) -> Result<AlarmName, Malformed> {
        let topic = Topic::new(self.text()?).map_err(|_| Malformed)?;
        Ok(AlarmName { topic, kind: self.text()?.into() })
    }

    pub fn episode(&mut self) -> Result<EpisodeRecord, Malformed> {
        let notice = self.notice()?;
        let is_stopped = match self.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Malformed),
        };
        Ok(EpisodeRecord { notice, is_stopped, told: self.texts()?, courses: self.several(Self::course)? })
    }

    pub fn message(&mut self) -> Result<Message, Malformed> {
        Ok(Message {
            id: self.number()?,
            to: self.text()?.into(),
            made: self.time()?,
            kind: MessageKind::of_word(self.text()?).ok_or(Malformed)?,
            route: RouteId(self.narrow()?),
            step: self.narrow()?,
            repeats: self.narrow()?,
            total: self.narrow()?,
            alarms: self.several(Self::notice)?,
        })
    }

    fn course(&mut self) -> Result<CourseRecord, Malformed> {
        let (route, step, repeats) = (RouteId(self.narrow()?), self.narrow::<u16>()?, self.narrow()?);
        if usize::from(step) > STEPS_MAX {
            return Err(Malformed);
        }
        Ok(CourseRecord { route, step, repeats, due: self.time()? })
    }

    fn notice(&mut self) -> Result<Notice, Malformed> {
        Ok(Notice {
            alarm: self.alarm()?,
            seq: self.number()?,
            standing: Standing::of_word(self.text()?).ok_or(Malformed)?,
            priority: self.text()?.into(),
            severity: self.narrow()?,
            state: self.text()?.into(),
            group: self.text()?.into(),
            text: self.text()?.into(),
            value: self.value()?,
            since: self.time()?,
            count: self.narrow()?,
        })
    }

    /// As many as are said; memory is taken for what is there only.
    fn several<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = get_len(&mut self.0)?;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    fn time(&mut self) -> Result<Timestamp, Malformed> {
        Ok(Timestamp::from_micros(get_signed(&mut self.0)?))
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        Ok(get_text(&mut self.0)?)
    }

    fn value(&mut self) -> Result<Value, Malformed> {
        Ok(get_value(&mut self.0)?)
    }
}
