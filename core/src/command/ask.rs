//! `explain`: what is asked of a running worker's admin listener, and how its answer is read (data-plane 1).

use core::fmt::Display;

use http::Uri;

use super::Failed;
use crate::exchange::query_value;

/// What the command line says.
pub struct Asked {
    /// The fields of the question.
    pub question: Vec<(&'static str, Option<String>)>,
    /// The admin listener, as `http://host:port`.
    pub admin: String,
    /// `admin.token`.
    pub token: Option<String>,
    /// JSON instead of a tree.
    pub json: bool,
}

/// A question ready to be sent; its answer ends with the connection.
#[derive(PartialEq, Eq)]
pub struct Posed {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What to send, whole. It holds the token.
    pub request: Vec<u8>,
}

impl Asked {
    /// The request that asks it.
    ///
    /// # Errors
    /// An address that is none, a token that no header can carry.
    pub fn pose(&self) -> Result<Posed, Failed> {
        let admin: Uri = self.admin.parse().map_err(|_| self.wrong_address())?;
        let (Some("http"), Some(host)) = (admin.scheme_str(), admin.host()) else { return Err(self.wrong_address()) };
        let port = admin.port_u16().unwrap_or(80);
        let given = self.question.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let mut query: String = given.map(|(name, value)| format!("&{name}={}", query_value(value))).collect();
        if self.json {
            query.push_str("&format=json");
        }
        let query = query.trim_start_matches('&');
        if self.token.as_ref().is_some_and(|token| token.contains(['\r', '\n'])) {
            return Err(Failed::config(
                "the token holds a line break; give it as it stands in the configuration".to_owned(),
            ));
        }
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET /admin/explain?{query} HTTP/1.0\r\nHost: {host}:{port}\r\n{token}\r\n").into_bytes();
        Ok(Posed { host: host.trim_matches(['[', ']']).to_owned(), port, request })
    }

    /// What the answer says, to be printed as it is.
    ///
    /// # Errors
    /// No answer, or a refusal; with what to do about it.
    pub fn told<E: Display>(&self, answer: Result<Vec<u8>, E>) -> Result<String, Failed> {
        let answer = answer.map_err(|error| {
            let hint = "is the worker running, and is this its admin.bind_address?";
            Failed::run(format!("{}: {error}; {hint}", self.admin))
        })?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).unwrap_or("no status");
        if status != "200" {
            let hint = if status == "401" { "; give --token, or APPPROXY_ADMIN_TOKEN in the environment" } else { "" };
            return Err(Failed::run(format!("the worker answered {status}: {}{hint}", body.trim_end())));
        }
        Ok(body.to_owned())
    }

    fn wrong_address(&self) -> Failed {
        let given = &self.admin;
        Failed::config(format!("--admin {given}: not an address of an admin listener; write http://127.0.0.1:9464"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(admin: &str, token: Option<&str>) -> Asked {
        let question = vec![("model", Some("a b".to_owned())), ("key_id", None), ("host", Some("h".to_owned()))];
        Asked { question, admin: admin.to_owned(), token: token.map(str::to_owned), json: true }
    }

    #[test]
    fn a_question_is_one_request_to_the_admin_listener() {
        let posed = asked("http://[::1]:9", Some("t")).pose().unwrap_or_else(|failed| panic!("{failed}"));
        let request = "GET /admin/explain?model=a%20b&host=h&format=json HTTP/1.0\r\nHost: [::1]:9\r\n\
            Authorization: Bearer t\r\n\r\n";
        assert_eq!((posed.host.as_str(), posed.port), ("::1", 9));
        assert_eq!(core::str::from_utf8(&posed.request), Ok(request));
    }

    #[test]
    fn what_cannot_be_asked_is_said_without_the_token() {
        for (admin, token, says) in [
            ("https://h", None, "--admin https://h"),
            ("h:1", None, "--admin h:1"),
            ("http://h", Some("a\r\nb"), "token"),
        ] {
            let failed = asked(admin, token).pose().err().map(|failed| (failed.code, failed.message));
            assert!(failed.as_ref().is_some_and(|(code, text)| *code == 2 && text.contains(says)), "{failed:?}");
        }
    }

    #[test]
    fn an_answer_is_printed_and_a_refusal_says_what_helps() {
        let told = |answer: &str| asked("http://h", None).told::<&str>(Ok(answer.as_bytes().to_vec()));
        assert_eq!(told("HTTP/1.0 200 OK\r\na: b\r\n\r\ntree\n"), Ok("tree\n".to_owned()));
        let says = |answer: &str| told(answer).map_or_else(|failed| failed.message, |text| panic!("{text}"));
        assert!(says("HTTP/1.0 401 X\r\n\r\nno\n").contains("answered 401: no; give --token"));
        assert!(says("HTTP/1.0 404 X\r\n\r\n").ends_with("answered 404: "));
        assert!(says("SSH").contains("no status"));
        let none = asked("http://h", None).told(Err("refused"));
        assert!(none.is_err_and(|failed| failed.code == 1 && failed.message.starts_with("http://h: refused; is the")));
    }
}
