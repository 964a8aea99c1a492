//! JSON objects, taken apart strictly: every field once, of the right type, and none that nobody knows.

use std::borrow::Cow;
use std::fmt;

use axum::http::StatusCode;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::{Fault, Problem};

/// No object of the API has so many fields; whoever posts more is told of these.
const MAX_FIELDS: usize = 64;

/// The fields of one object that are not taken yet, and what is wrong with those that are.
pub(crate) struct Fields<'a> {
    left: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// The list and the index at which the object stands, if it stands in one.
    at: Option<(&'static str, usize)>,
    faults: Vec<Fault>,
}

impl<'a> Fields<'a> {
    /// The whole body of a request.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Fields<'a>, Problem> {
        let object: Object<'a> = serde_json::from_slice(body).map_err(|e| not_json(&e, "an object"))?;
        Ok(Fields::new(object, None))
    }

    /// One item of the list `list`. It is known to be JSON.
    pub(crate) fn of_item(item: &'a RawValue, list: &'static str, index: usize) -> Result<Fields<'a>, Fault> {
        let object: Object<'a> = serde_json::from_str(item.get())
            .map_err(|_| Fault::new(format!("{list}[{index}]"), "must be an object"))?;
        Ok(Fields::new(object, Some((list, index))))
    }

    fn new(object: Object<'a>, at: Option<(&'static str, usize)>) -> Fields<'a> {
        let mut fields = Fields { left: object.fields, at, faults: Vec::new() };
        for name in object.repeated {
            fields.fault(&name, "is given more than once");
        }
        fields
    }

    pub(crate) fn fault(&mut self, name: &str, detail: impl Into<String>) {
        let field = match self.at {
            Some((list, index)) => format!("{list}[{index}].{name}"),
            None => name.to_owned(),
        };
        self.faults.push(Fault::new(field, detail));
    }

    /// Takes a field as it was written, null too.
    pub(crate) fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        let index = self.left.iter().position(|(found, _)| found == name)?;
        Some(self.left.swap_remove(index).1)
    }

    /// Takes a field that may be absent or null. `what` says what it must be.
    pub(crate) fn optional<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Option<T> {
        let raw = self.raw(name).filter(|raw| raw.get() != "null")?;
        let value = serde_json::from_str(raw.get()).ok();
        if value.is_none() {
            self.fault(name, format!("must be {what}"));
        }
        value
    }

    /// Takes a field that may be absent, but not null: what is not given stays as it is.
    pub(crate) fn given<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Option<T> {
        let raw = self.raw(name)?;
        let value = serde_json::from_str(raw.get()).ok();
        if value.is_none() {
            self.fault(name, format!("must be {what}"));
        }
        value
    }

    /// Takes a field that may be absent, and that null removes.
    pub(crate) fn removable<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Option<Option<T>> {
        let given = self.left.iter().any(|(found, _)| found == name);
        given.then(|| self.optional(name, what))
    }

    /// Takes a field that must be there.
    pub(crate) fn required<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Option<T> {
        let given = self.left.iter().any(|(found, raw)| found == name && raw.get() != "null");
        if !given {
            self.raw(name);
            self.fault(name, format!("is required: give {what}"));
            return None;
        }
        self.optional(name, what)
    }

    /// Refuses what nobody took, and answers all faults.
    pub(crate) fn finish(mut self) -> Vec<Fault> {
        for (name, _) in std::mem::take(&mut self.left) {
            self.fault(&name, "is not a field that is known here; leave it out");
        }
        self.faults
    }
}

/// The items of a body that is a list, each as it was written.
pub(crate) fn items_of_body(body: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    serde_json::from_slice(body).map_err(|e| not_json(&e, "an array"))
}

fn not_json(error: &serde_json::Error, wanted: &str) -> Problem {
    let detail = match error.classify() {
        Category::Data => format!("The body must be {wanted} in JSON."),
        Category::Syntax | Category::Eof | Category::Io => format!("The body is not JSON: {error}."),
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
            // The search above is linear, so it must not be offered a hundred thousand fields.
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
