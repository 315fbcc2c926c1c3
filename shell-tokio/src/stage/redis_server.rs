//! A redis-server of our own on a loopback port: nothing stored, ended with its owner.

use std::io;
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, Command};

/// Runs a program until it ends or the other end of standard input is closed, which even an owner that is killed does.
const ENDS_WITH_ITS_OWNER: &str = r#"exec 3<&0
"$@" </dev/null 3<&- & program=$!
(read -r _ <&3; kill -9 $program) &
exec 3<&-
wait $program"#;

/// A running redis-server. Dropping it kills the process.
#[derive(Debug)]
pub struct StageBus {
    child: Child,
    /// Held open while the server is to live.
    owner: Option<ChildStdin>,
    port: u16,
}

impl StageBus {
    /// Starts `redis-server` from the search path on a free loopback port; `Ok(None)` when there is none.
    ///
    /// # Errors
    /// When it is there but does not come up within five seconds.
    pub async fn start() -> io::Result<Option<Self>> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port();
        Self::start_at(port).await
    }

    /// The same at a given port: a bus that comes back.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_at(port: u16) -> io::Result<Option<Self>> {
        if !on_path("redis-server") {
            return Ok(None);
        }
        let mut child = Command::new("sh")
            .args(["-c", ENDS_WITH_ITS_OWNER, "sh", "redis-server"])
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--dir", "/tmp", "--protected-mode", "yes"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C reaches a whole process group: ours is to end the bus last.
            .process_group(0)
            .spawn()?;
        let owner = child.stdin.take();
        let mut bus = Self { child, owner, port };
        for _ in 0..100 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                return Ok(Some(bus));
            }
            if let Some(status) = bus.child.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended at once: {status}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "redis-server does not listen after five seconds"))
    }

    /// Its address for `redis_url`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Kills it and waits until it is gone.
    pub async fn kill(mut self) {
        drop(self.owner.take());
        drop(self.child.wait().await);
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
