//! The expressions that the store uses: conditions, updates and key conditions. An unknown one panics.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

pub(crate) type Item = Map<String, Value>;

/// An expression with its names and values, read from left to right.
pub(crate) struct Expression<'a> {
    tokens: Vec<String>,
    at: usize,
    names: &'a Value,
    values: &'a Value,
}

impl<'a> Expression<'a> {
    /// `request` has the names and values that the text refers to.
    pub(crate) fn new(text: &str, request: &'a Value) -> Expression<'a> {
        Expression {
            tokens: tokens(text),
            at: 0,
            names: &request["ExpressionAttributeNames"],
            values: &request["ExpressionAttributeValues"],
        }
    }

    /// Whether the item meets the condition. Nothing may follow it.
    pub(crate) fn holds(mut self, item: &Item) -> bool {
        let holds = self.any(item);
        assert_eq!(self.at, self.tokens.len(), "the condition goes on: {:?}", self.tokens);
        holds
    }

    /// The item after the update.
    pub(crate) fn update(mut self, item: &Item) -> Item {
        let mut after = item.clone();
        while self.at < self.tokens.len() {
            let clause = self.next();
            loop {
                match clause.as_str() {
                    "SET" => self.set(item, &mut after),
                    "ADD" => self.add(&mut after),
                    "REMOVE" => {
                        let name = self.name();
                        after.remove(&name);
                    }
                    _ => panic!("unknown clause {clause}"),
                }
                if self.peek() != Some(",") {
                    break;
                }
                self.next();
            }
        }
        after
    }

    fn set(&mut self, before: &Item, after: &mut Item) {
        let name = self.name();
        self.expect("=");
        let value = if self.peek() == Some("if_not_exists") {
            self.next();
            self.expect("(");
            let kept = before.get(&self.name()).cloned();
            self.expect(",");
            let otherwise = self.value();
            self.expect(")");
            kept.unwrap_or(otherwise)
        } else {
            self.value()
        };
        after.insert(name, value);
    }

    fn add(&mut self, after: &mut Item) {
        let name = self.name();
        let sum = after.get(&name).map_or(0, number) + number(&self.value());
        after.insert(name, json!({ "N": sum.to_string() }));
    }

    fn any(&mut self, item: &Item) -> bool {
        let mut holds = self.all(item);
        while self.peek() == Some("OR") {
            self.next();
            holds |= self.all(item);
        }
        holds
    }

    fn all(&mut self, item: &Item) -> bool {
        let mut holds = self.one(item);
        while self.peek() == Some("AND") {
            self.next();
            holds &= self.one(item);
        }
        holds
    }

    fn one(&mut self, item: &Item) -> bool {
        match self.peek() {
            Some("(") => {
                self.next();
                let holds = self.any(item);
                self.expect(")");
                holds
            }
            Some(function @ ("attribute_exists" | "attribute_not_exists")) => {
                let wanted = function == "attribute_exists";
                self.next();
                self.expect("(");
                let found = self.path(item).is_some();
                self.expect(")");
                found == wanted
            }
            Some("begins_with") => {
                self.next();
                self.expect("(");
                let found = self.path(item);
                self.expect(",");
                let prefix = self.value();
                self.expect(")");
                let text = |value: &Value| value["S"].as_str().map(str::to_owned);
                found
                    .and_then(|found| text(&found))
                    .is_some_and(|found| found.starts_with(&text(&prefix).expect("a prefix is text")))
            }
            _ => self.comparison(item),
        }
    }

    fn comparison(&mut self, item: &Item) -> bool {
        let found = self.path(item);
        let operator = self.next();
        let value = self.value();
        let compared = found.as_ref().map(|found| compare(found, &value));
        if operator == "BETWEEN" {
            self.expect("AND");
            let upper = self.value();
            return compared.is_some_and(Ordering::is_ge)
                && found.is_some_and(|found| compare(&found, &upper).is_le());
        }
        // A comparison with an attribute that is not there does not hold, whatever the operator.
        compared.is_some_and(|compared| match operator.as_str() {
            "=" => compared.is_eq(),
            "<>" => compared.is_ne(),
            "<" => compared.is_lt(),
            "<=" => compared.is_le(),
            ">" => compared.is_gt(),
            ">=" => compared.is_ge(),
            _ => panic!("unknown operator {operator}"),
        })
    }

    fn path(&mut self, item: &Item) -> Option<Value> {
        let token = self.next();
        let mut parts = token.split('.').map(|part| self.resolved(part));
        let mut found = item.get(&parts.next().expect("a path has a name"))?.clone();
        for part in parts {
            found = found["M"].get(&part)?.clone();
        }
        Some(found)
    }

    fn name(&mut self) -> String {
        let token = self.next();
        self.resolved(&token)
    }

    fn resolved(&self, placeholder: &str) -> String {
        let name = self.names[placeholder].as_str();
        name.unwrap_or_else(|| panic!("no name for {placeholder} in {:?}", self.tokens)).to_owned()
    }

    fn value(&mut self) -> Value {
        let token = self.next();
        let value = &self.values[&token];
        assert!(value.is_object(), "no value for {token} in {:?}", self.tokens);
        value.clone()
    }

    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens.get(self.at - 1).unwrap_or_else(|| panic!("{:?} ends early", self.tokens)).clone()
    }

    fn expect(&mut self, token: &str) {
        let found = self.next();
        assert_eq!(found, token, "in {:?}", self.tokens);
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = false;
    for character in text.chars() {
        let joins = match character {
            ' ' => {
                word = false;
                continue;
            }
            '(' | ')' | ',' => false,
            '=' | '<' | '>' => !word && tokens.last().is_some_and(|last| last == "<" || last == ">"),
            _ => word,
        };
        match tokens.last_mut() {
            Some(last) if joins => last.push(character),
            _ => tokens.push(character.to_string()),
        }
        word = character.is_alphanumeric() || "_#:.-".contains(character);
    }
    tokens
}

/// Numbers by their value, text by its bytes. Other types are not compared.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a["S"].as_str(), b["S"].as_str()) {
        (Some(a), Some(b)) => a.cmp(b),
        _ => number(a).cmp(&number(b)),
    }
}

pub(crate) fn number(value: &Value) -> i128 {
    let text = value["N"].as_str().unwrap_or_else(|| panic!("{value} is not a number"));
    text.parse().unwrap_or_else(|_| panic!("{text} is not a whole number"))
}

#[test]
fn expressions_mean_what_dynamodb_documents() {
    let request = json!({
        "ExpressionAttributeNames": { "#a": "a", "#b": "b", "#m": "m", "#v": "v" },
        "ExpressionAttributeValues": { ":one": { "N": "1" }, ":ten": { "N": "10" }, ":t": { "S": "ab" } },
    });
    let item = json!({ "a": { "N": "9" }, "b": { "S": "abc" }, "m": { "M": { "v": { "N": "1" } } } });
    let item = item.as_object().expect("an object");
    for (text, expected) in [
        ("#a < :ten", true),
        ("#a <> :one AND #a >= :ten", false),
        ("#a >= :ten OR (#m.#v <= :one AND begins_with(#b, :t))", true),
        ("attribute_not_exists(#v) AND attribute_exists(#b)", true),
        ("#v <> :one", false),
        ("#a BETWEEN :one AND :ten", true),
        ("#b = :t", false),
    ] {
        assert_eq!(Expression::new(text, &request).holds(item), expected, "{text}");
    }
    let text = "SET #b = :t, #v = if_not_exists(#a, :one) ADD #a :ten REMOVE #m";
    let after = Expression::new(text, &request).update(item);
    assert_eq!(Value::Object(after), json!({ "a": { "N": "19" }, "b": { "S": "ab" }, "v": { "N": "9" } }));
}
