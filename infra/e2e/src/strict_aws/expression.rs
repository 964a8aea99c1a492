//! Expressions of DynamoDB: their size, their operators, and the names and values that they use.

use std::collections::HashSet;

use super::call::{Fields, object, text};
use super::refusal::Refusal;

const MAX_BYTES: usize = 4_096;
const MAX_OPERATORS: usize = 300;
const EXPRESSIONS: [&str; 5] = [
    "ConditionExpression",
    "FilterExpression",
    "KeyConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
];
const FUNCTIONS: [&str; 8] = [
    "attribute_exists",
    "attribute_not_exists",
    "attribute_type",
    "begins_with",
    "contains",
    "if_not_exists",
    "list_append",
    "size",
];

/// Checks all expressions of a request, or of an item of a transaction, with their names and values.
pub fn check(fields: &Fields) -> Result<(), Refusal> {
    let mut used = HashSet::new();
    for kind in EXPRESSIONS.into_iter().filter(|kind| fields.contains_key(*kind)) {
        let expression = text(fields, kind);
        let invalid = |why: String| Refusal::validation(format!("Invalid {kind}: {why}"));
        if expression.is_empty() {
            return Err(invalid("The expression can not be empty;".to_owned()));
        }
        if expression.len() > MAX_BYTES {
            return Err(invalid(format!(
                "Expression size has exceeded the maximum allowed size; size: {}",
                expression.len()
            )));
        }
        let tokens = tokens(expression);
        let operators = tokens.iter().filter(|token| is_operator(token)).count();
        if operators > MAX_OPERATORS {
            return Err(invalid(format!(
                "The expression contains too many operators; operator count: {operators}"
            )));
        }
        used.extend(tokens.into_iter().filter(|token| token.starts_with(['#', ':'])));
    }
    for kind in ["ExpressionAttributeNames", "ExpressionAttributeValues"] {
        let mark = if kind.ends_with("Names") { '#' } else { ':' };
        check_used(kind, mark, object(fields, kind), &used)?;
    }
    Ok(())
}

/// Everything that is used is defined, and everything that is defined is used.
fn check_used(kind: &str, mark: char, defined: Option<&Fields>, used: &HashSet<&str>) -> Result<(), Refusal> {
    let has = |name: &str| defined.is_some_and(|defined| defined.contains_key(name));
    if let Some(missing) = used.iter().find(|name| name.starts_with(mark) && !has(name)) {
        let message =
            format!("An expression attribute used in expression is not defined; attribute: {missing}");
        return Err(Refusal::validation(message));
    }
    let Some(defined) = defined else { return Ok(()) };
    if defined.is_empty() {
        return Err(Refusal::validation(format!("{kind} must not be empty")));
    }
    match defined.keys().find(|name| !used.contains(name.as_str())) {
        Some(unused) => Err(Refusal::validation(format!(
            "Value provided in {kind} unused in expressions: keys: {{{unused}}}"
        ))),
        None => Ok(()),
    }
}

/// Names, placeholders and operators, in their order.
fn tokens(expression: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | ':');
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        rest = &rest[start..];
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let end = match word {
            0 if rest.starts_with("<>") || rest.starts_with("<=") || rest.starts_with(">=") => 2,
            0 => rest.chars().next().map_or(1, char::len_utf8),
            word => word,
        };
        tokens.push(&rest[..end]);
        rest = &rest[end..];
    }
    tokens
}

fn is_operator(token: &str) -> bool {
    let words = ["AND", "OR", "NOT", "BETWEEN", "IN"];
    matches!(token, "=" | "<>" | "<" | "<=" | ">" | ">=" | "+" | "-")
        || words.iter().any(|word| token.eq_ignore_ascii_case(word))
        || FUNCTIONS.contains(&token)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn refused(fields: Value) -> String {
        let Value::Object(fields) = fields else { unreachable!() };
        check(&fields).map_or_else(|refusal| refusal.message, |()| String::new())
    }

    #[test]
    fn names_and_values_are_defined_and_used() {
        let good = json!({
            "ConditionExpression": "#v=:v AND attribute_not_exists(pk)",
            "UpdateExpression": "SET #w = if_not_exists(#w, :w)",
            "ExpressionAttributeNames": { "#v": "version", "#w": "writer" },
            "ExpressionAttributeValues": { ":v": { "N": "1" }, ":w": { "S": "x" } },
        });
        assert_eq!(refused(good.clone()), "");
        let mut unused = good.clone();
        unused["ExpressionAttributeNames"]["#x"] = json!("x");
        assert!(refused(unused).contains("unused in expressions: keys: {#x}"));
        let mut missing = good.clone();
        missing["ExpressionAttributeValues"] = json!({ ":v": { "N": "1" } });
        assert!(refused(missing).contains("attribute: :w"));
        assert!(refused(json!({ "ExpressionAttributeNames": {} })).contains("must not be empty"));
        assert!(refused(json!({ "UpdateExpression": "" })).contains("can not be empty"));
    }

    #[test]
    fn an_expression_has_a_largest_size() {
        let of = |bytes: usize| refused(json!({ "ProjectionExpression": "a".repeat(bytes) }));
        assert_eq!(of(MAX_BYTES), "");
        assert!(of(MAX_BYTES + 1).contains("maximum allowed size"));
        let terms = |count: usize| refused(json!({ "FilterExpression": vec!["a<b"; count].join(" OR ") }));
        assert_eq!(terms(150), "");
        assert!(terms(151).contains("operator count: 301"));
    }

    #[test]
    fn operators_are_told_from_names() {
        let expression = "size(#a)>=:b AND NOT c BETWEEN :d AND :e OR f IN (:g, :h)";
        let operators: Vec<&str> =
            tokens(expression).into_iter().filter(|token| is_operator(token)).collect();
        assert_eq!(operators, ["size", ">=", "AND", "NOT", "BETWEEN", "AND", "OR", "IN"]);
    }
}
