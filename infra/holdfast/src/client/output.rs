//! What a command prints: tables for people, JSON for programs.

use std::io::{ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// A column: its title, and what it shows of an item.
pub(super) type Column = (&'static str, fn(&Value) -> String);

pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Output {
        Output { json }
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// A list of items, and a line below it if there are more.
    pub(super) fn list(&self, list: &Value, columns: &[Column], empty: &str) -> Result<()> {
        if self.json {
            return print_text(&format!("{list}\n"));
        }
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            return print_text(&format!("{empty}\n"));
        }
        print_text(&format!("{}\n", table(items, columns)))?;
        if list["more"] == true {
            print_text(&format!("The first {}; --limit shows more.\n", items.len()))?;
        }
        Ok(())
    }

    /// One object: a line per field.
    pub(super) fn object(&self, object: &Value) -> Result<()> {
        if self.json {
            return print_text(&format!("{object}\n"));
        }
        print_text(&fields(object))
    }

    /// A sentence for people, or the answer for programs.
    pub(super) fn done(&self, answer: &Value, sentence: &str) -> Result<()> {
        let line = if self.json { answer.to_string() } else { on_one_line(sentence) };
        print_text(&format!("{line}\n"))
    }
}

/// Writes to standard output, with colours only where they are seen and wanted (`NO_COLOR`). A reader that stops reading, such as `head`, ends
/// the command without an error.
pub(super) fn print_text(text: &str) -> Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

fn table(items: &[Value], columns: &[Column]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let mut titles: Vec<_> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    // Lists of all tenants say which.
    let has_tenant = items.iter().any(|item| item["tenant"].is_string());
    if has_tenant {
        titles.insert(0, "TENANT".to_owned());
    }
    table.set_header(titles);
    for item in items {
        let mut cells: Vec<_> = columns.iter().map(|(_, cell)| on_one_line(&cell(item))).collect();
        if has_tenant {
            cells.insert(0, text(&item["tenant"]));
        }
        table.add_row(cells);
    }
    // Without the margins of the first and the last column.
    let lines = table.lines().map(|line| coloured(line.strip_prefix(' ').unwrap_or(&line).trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

/// The words that say how something is, in a colour.
fn coloured(line: &str) -> String {
    let words: Vec<_> = line.split(' ').map(paint).collect();
    words.join(" ")
}

/// Gives a state or an outcome its colour, and leaves other words as they are.
pub(super) fn paint(word: &str) -> String {
    let colour = match word {
        "enabled" | "delivered" | "success" | "yes" => AnsiColor::Green,
        "disabled" | "waiting" | "parked" | "interrupted" => AnsiColor::Yellow,
        "frozen" | "dead" | "failure" => AnsiColor::Red,
        _ => return word.to_owned(),
    };
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{word}{style:#}")
}

/// The fields of an object, those of nested ones indented.
fn fields(object: &Value) -> String {
    let mut lines = String::new();
    write_fields(object, 0, &mut lines);
    lines
}

fn write_fields(object: &Value, indent: usize, lines: &mut String) {
    let Some(object) = object.as_object() else { return };
    let width = object.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, value) in object {
        let margin = " ".repeat(indent);
        match value {
            Value::Object(_) => {
                *lines += &format!("{margin}{name}\n");
                write_fields(value, indent + 2, lines);
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                *lines += &format!("{margin}{name}\n");
                for item in items {
                    write_fields(item, indent + 2, lines);
                    lines.push('\n');
                }
            }
            value => *lines += &format!("{margin}{name:<width$}  {}\n", paint(&on_one_line(&text(value)))),
        }
    }
}

/// A value as text, without the quotes of JSON.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A time to the second, which fits into a table.
pub(super) fn time(value: &Value) -> String {
    match value.as_str() {
        Some(time) if time.len() > 19 => format!("{}Z", time[..19].replace('T', " ")),
        _ => text(value),
    }
}

/// What others have written must not move the cursor of a terminal or hide text in it.
pub(super) fn on_one_line(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    text.chars().map(|c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_line_per_item_and_a_tenant_only_if_there_are_several() {
        let columns: [Column; 2] = [("ID", |item| text(&item["id"])), ("N", |item| text(&item["n"]))];
        let items = [json!({"id": "a", "n": 1}), json!({"id": "bcd", "n": null})];
        let lines: Vec<_> = table(&items, &columns).lines().map(str::to_owned).collect();
        assert_eq!(lines, ["ID   N", "a    1", "bcd  -"]);
        let items = [json!({"tenant": "shop-1", "id": "a", "n": 1})];
        assert!(table(&items, &columns).starts_with("TENANT  ID"));
    }

    #[test]
    fn text_of_others_cannot_move_the_cursor() {
        assert_eq!(on_one_line("a\u{1b}[2Jb\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d");
        let object = json!({"excerpt": "\u{1b}[31m"});
        assert!(!fields(&object).contains('\u{1b}'));
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(time(&json!("2026-01-02T03:04:05.678Z")), "2026-01-02 03:04:05Z");
        assert_eq!(time(&Value::Null), "-");
    }

    #[test]
    fn nested_fields_are_indented() {
        let object = json!({"id": "a", "attempts": [{"n": 0}], "quotas": {"x": 1}});
        assert_eq!(fields(&object), "attempts\n  n  0\n\nid        a\nquotas\n  x  1\n");
    }
}
