//! What a check found, and the remedy.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// As it should be.
    Ok,
    /// Something does not work, or works otherwise.
    Warn,
    /// Programs will not see the cards.
    Fail,
}

/// What one check found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub state: State,
    pub found: String,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, state: State::Ok, found: found.into(), remedy: None }
    }

    /// Something is not as it should be.
    pub fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { name, state: State::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    pub fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Fail, ..Finding::warn(name, found, remedy) }
    }

    /// For people, with the remedy below.
    pub fn line(&self) -> String {
        let state = match self.state {
            State::Ok => "OK  ",
            State::Warn => "WARN",
            State::Fail => "FAIL",
        };
        let mut line = format!("{state}  {:<16} {}", self.name, self.found);
        if let Some(remedy) = &self.remedy {
            line += &format!("\n      {:<16} -> {remedy}", "");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_below_its_finding() {
        let line = Finding::fail("thing", "is broken", "mend it").line();
        assert!(line.starts_with("FAIL  thing            is broken\n"), "{line}");
        assert!(line.ends_with("-> mend it"));
        let json = serde_json::to_string(&Finding::ok("a", "b")).unwrap();
        assert_eq!(json, r#"{"name":"a","state":"OK","found":"b"}"#);
    }
}
