//! JSON objects, parsed strictly: every field once, of the right type, and only known ones.

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::suggest::{excerpt, unknown};
use crate::{FieldError, Problem};

/// No object of the API has as many fields; further ones are ignored, because the first ones are reported as unknown.
const MAX_FIELDS: usize = 64;

/// The fields of one object that no handler has read yet, and what is wrong with the others.
pub(crate) struct Fields<'a> {
    unread: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// The names that the handler asked for.
    known: Vec<&'static str>,
    /// The list and the index of the object, if it is an item of one.
    at: Option<(&'static str, usize)>,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Fields<'a>, Problem> {
        let object: Object<'a> = serde_json::from_slice(body).map_err(|e| not_json(&e, "a JSON object"))?;
        Ok(Fields::new(object, None))
    }

    /// One item of the list `list`. It is known to be JSON.
    pub(crate) fn of_item(
        item: &'a RawValue,
        list: &'static str,
        index: usize,
    ) -> Result<Fields<'a>, FieldError> {
        let object: Object<'a> = serde_json::from_str(item.get())
            .map_err(|_| FieldError::new(format!("{list}[{index}]"), must_be("an object", item)))?;
        Ok(Fields::new(object, Some((list, index))))
    }

    fn new(object: Object<'a>, at: Option<(&'static str, usize)>) -> Fields<'a> {
        let mut fields = Fields { unread: object.fields, known: Vec::new(), at, errors: Vec::new() };
        for name in object.repeated {
            fields.reject(&name, "is given more than once; give it once");
        }
        fields
    }

    pub(crate) fn reject(&mut self, name: &str, detail: impl Into<String>) {
        let field = match self.at {
            Some((list, index)) => format!("{list}[{index}].{name}"),
            None => name.to_owned(),
        };
        self.errors.push(FieldError::new(field, detail));
    }

    /// Takes a field as it was written, null too.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a RawValue> {
        self.known.push(name);
        let index = self.unread.iter().position(|(found, _)| found == name)?;
        Some(self.unread.swap_remove(index).1)
    }

    /// Takes a field that may be absent or null. `what` says what it must be.
    pub(crate) fn optional<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Option<T> {
        let raw = self.raw(name).filter(|raw| raw.get() != "null")?;
        self.parse(name, raw, what)
    }

    /// Takes a field that may be absent, but not null: what is not given stays as it is.
    pub(crate) fn given<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Option<T> {
        let raw = self.raw(name)?;
        self.parse(name, raw, what)
    }

    fn parse<T: Deserialize<'a>>(&mut self, name: &str, raw: &'a RawValue, what: &str) -> Option<T> {
        let value = serde_json::from_str(raw.get()).ok();
        if value.is_none() {
            self.reject(name, must_be(what, raw));
        }
        value
    }

    /// Takes a field that may be absent, and that null removes.
    pub(crate) fn removable<T: Deserialize<'a>>(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> Option<Option<T>> {
        let given = self.unread.iter().any(|(found, _)| found == name);
        given.then(|| self.optional(name, what))
    }

    /// Takes a field that must be there.
    pub(crate) fn required<T: Deserialize<'a>>(&mut self, name: &'static str, what: &str) -> Option<T> {
        let Some(raw) = self.raw(name).filter(|raw| raw.get() != "null") else {
            self.reject(name, format!("is required; give {what}"));
            return None;
        };
        self.parse(name, raw, what)
    }

    pub(crate) fn check_length(&mut self, name: &str, text: Option<&str>, max_chars: usize) {
        let length = text.map_or(0, |text| text.chars().count());
        if length > max_chars {
            self.reject(name, format!("must have at most {max_chars} characters, not {length}"));
        }
    }

    /// Rejects the fields that were not taken, and returns all errors.
    pub(crate) fn finish(mut self) -> Vec<FieldError> {
        for (name, _) in std::mem::take(&mut self.unread) {
            self.reject(&name, unknown("field", &name, &self.known));
        }
        self.errors
    }
}

fn must_be(what: &str, found: &RawValue) -> String {
    format!("must be {what}, not {}", excerpt(found.get()))
}

/// The items of a body that is an array, each as it was written.
pub(crate) fn items_of_body(body: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    serde_json::from_slice(body).map_err(|e| not_json(&e, "a JSON array"))
}

fn not_json(error: &serde_json::Error, wanted: &str) -> Problem {
    let detail = match error.classify() {
        Category::Data => format!("The body must be {wanted}."),
        Category::Syntax | Category::Eof | Category::Io => format!("The body is not valid JSON: {error}."),
    };
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

/// An object whose values are left as they were written.
struct Object<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    repeated: Vec<String>,
}

/// Borrowed where it is written without escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<'a>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor).map(|object: Object<'de>| object)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let mut object = Object { fields: Vec::with_capacity(8), repeated: Vec::new() };
        while let Some(Name(name)) = map.next_key::<Name<'de>>()? {
            let known = object.fields.iter().any(|(earlier, _)| *earlier == name);
            // The search above is linear, so the number of fields is limited.
            if known || object.fields.len() >= MAX_FIELDS {
                map.next_value::<IgnoredAny>()?;
                if known && object.repeated.len() < MAX_FIELDS {
                    object.repeated.push(name.into_owned());
                }
            } else {
                object.fields.push((name, map.next_value()?));
            }
        }
        Ok(object)
    }
}
