use super::problem::Problem;
use super::reply::{FINAL_STATUSES, Reply};

const LONGEST: usize = 64;

/// The name of a receiver, checked, and what follows from it.
pub(super) struct Name {
    text: String,
    /// What a receiver of this name always answers; none if it can be switched.
    fixed: Option<Reply>,
}

impl Name {
    pub(super) fn parse(text: String) -> Result<Name, Problem> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(fits) {
            return Err(Problem::bad_request(format!(
                "name: a receiver's name is 1 to {LONGEST} letters, digits, '-', '_' or '.'"
            )));
        }
        let fixed = fixed_reply(&text)?;
        Ok(Name { text, fixed })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn fixed(&self) -> Option<Reply> {
        self.fixed
    }
}

/// A number that is no status is refused, because a receiver of that name would answer 200 and surprise.
fn fixed_reply(text: &str) -> Result<Option<Reply>, Problem> {
    if text == "hang" {
        return Ok(Some(Reply::Hang));
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    match text.parse::<u16>() {
        Ok(status) if FINAL_STATUSES.contains(&status) && text.len() == 3 => Ok(Some(Reply::Status(status))),
        _ => Err(Problem::bad_request("name: a number must be a status from 200 to 599")),
    }
}
