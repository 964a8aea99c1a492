use holdfast_api::Problem;

use super::bad_request;
use super::reply::{FINAL_STATUSES, Reply};

const MAX_LENGTH: usize = 64;

pub(super) struct Name {
    pub(super) text: String,
    /// How a receiver of this name always responds; `None` if it can be switched.
    pub(super) fixed: Option<Reply>,
}

impl Name {
    pub(super) fn parse(text: String) -> Result<Name, Problem> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > MAX_LENGTH || !text.chars().all(fits) {
            return Err(bad_request(format!(
                "name: a receiver's name is 1 to {MAX_LENGTH} letters, digits, '-', '_' or '.'"
            )));
        }
        let fixed = fixed_reply(&text)?;
        Ok(Name { text, fixed })
    }
}

/// A number that is not a status is rejected, because such a receiver would respond 200.
fn fixed_reply(text: &str) -> Result<Option<Reply>, Problem> {
    if text == "hang" {
        return Ok(Some(Reply::Hang));
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    match text.parse::<u16>() {
        Ok(status) if FINAL_STATUSES.contains(&status) && text.len() == 3 => Ok(Some(Reply::Status(status))),
        _ => Err(bad_request("name: a number must be a status from 200 to 599")),
    }
}
