//! `explain`: asks a running worker's admin listener (data-plane 1). One question, so it blocks; both programs include
//! this file.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use appproxy_core::exchange::query_value;
use http::Uri;

use appproxy_core::command::Failed;

const PATIENCE: Duration = Duration::from_secs(10);
/// More than any explanation has.
const MOST: u64 = 64 * 1024 * 1024;

/// What the command line says.
pub struct Asked {
    /// The fields of the question.
    pub question: [(&'static str, Option<String>); 5],
    /// The admin listener, as `http://host:port`.
    pub admin: String,
    /// `admin.token`.
    pub token: Option<String>,
    /// JSON instead of a tree.
    pub json: bool,
}

/// Prints the worker's answer.
///
/// # Errors
/// A question that the worker refuses, or no answer; with what to do about it.
pub fn main(asked: Asked) -> Result<(), Failed> {
    let admin: Uri = asked.admin.parse().map_err(|_| wrong_address(&asked.admin))?;
    let (Some("http"), Some(host)) = (admin.scheme_str(), admin.host()) else {
        return Err(wrong_address(&asked.admin));
    };
    let port = admin.port_u16().unwrap_or(80);
    let given = asked.question.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let mut query: String = given.map(|(name, value)| format!("&{name}={}", query_value(value))).collect();
    if asked.json {
        query.push_str("&format=json");
    }
    let query = query.trim_start_matches('&');
    let token = asked.token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    if token.trim_end().contains(['\r', '\n']) {
        return Err(Failed::config(
            "the token holds a line break; give it as it stands in the configuration".to_owned(),
        ));
    }
    let head = format!("GET /admin/explain?{query} HTTP/1.0\r\nHost: {host}:{port}\r\n{token}\r\n");
    let answer = exchange(host.trim_matches(['[', ']']), port, head.as_bytes()).map_err(|error| {
        let hint = "is the worker running, and is this its admin.bind_address?";
        Failed::run(format!("{}: {error}; {hint}", asked.admin))
    })?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).unwrap_or("no status");
    if status != "200" {
        let hint = if status == "401" { "; give --token, or APPPROXY_ADMIN_TOKEN in the environment" } else { "" };
        return Err(Failed::run(format!("the worker answered {status}: {}{hint}", body.trim_end())));
    }
    print!("{body}");
    Ok(())
}

fn wrong_address(given: &str) -> Failed {
    Failed::config(format!("--admin {given}: not an address of an admin listener; write http://127.0.0.1:9464"))
}

/// HTTP/1.0: the answer ends with the connection.
fn exchange(host: &str, port: u16, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut last = std::io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(request)?;
                let mut answer = Vec::new();
                stream.take(MOST).read_to_end(&mut answer)?;
                return Ok(answer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
