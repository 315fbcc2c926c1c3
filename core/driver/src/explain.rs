//! `explain`: asks a running worker's admin listener (data-plane 1). One question, so it blocks.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use appproxy_core::command::Posed;
pub use appproxy_core::command::{Asked, Failed};

const PATIENCE: Duration = Duration::from_secs(10);
/// More than any explanation has.
const MOST: u64 = 64 * 1024 * 1024;

/// Prints the worker's answer.
///
/// # Errors
/// A question that the worker refuses, or no answer; with what to do about it.
pub fn main(asked: &Asked) -> Result<(), Failed> {
    let posed = asked.pose()?;
    print!("{}", asked.told(exchange(&posed))?);
    Ok(())
}

fn exchange(posed: &Posed) -> io::Result<Vec<u8>> {
    let mut last = io::Error::other("the host has no address");
    for address in (posed.host.as_str(), posed.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(&posed.request)?;
                let mut answer = Vec::new();
                stream.take(MOST).read_to_end(&mut answer)?;
                return Ok(answer);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
