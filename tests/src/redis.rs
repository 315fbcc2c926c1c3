//! A redis-server of the test's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::log::Log;
use crate::process::Program;
use crate::resp::{Client, Reply, Subscription};
use crate::scratch::Scratch;
use crate::wait::{self, Limit, PATIENCE};

/// How often another port is tried when somebody was faster.
const PORT_TRIES: usize = 5;

/// A redis-server on a loopback port, keeping nothing on disk. Dropping it kills it.
#[derive(Debug)]
pub struct Redis {
    program: Program,
    port: u16,
    settings: Vec<String>,
    password: Option<String>,
    scratch: Scratch,
}

impl Redis {
    /// Starts one and waits until it answers.
    ///
    /// # Panics
    /// When there is no `redis-server` on the path or it does not come up.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// As [`Redis::start`] with more settings, for example `["--requirepass", "secret"]`.
    ///
    /// # Panics
    /// As [`Redis::start`].
    #[must_use]
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
        let password = settings.iter().position(|s| s == "--requirepass").and_then(|at| settings.get(at + 1)).cloned();
        let mut last = String::new();
        for _ in 0..PORT_TRIES {
            let started = Scratch::new("redis").and_then(|scratch| {
                let port = wait::free_port()?;
                Ok((launch(port, &settings, &scratch)?, port, scratch))
            });
            match started {
                Ok((program, port, scratch)) => {
                    let mut redis =
                        Self { program, port, settings: settings.clone(), password: password.clone(), scratch };
                    match redis.wait_up() {
                        Ok(()) => return redis,
                        Err(e) => last = format!("{e}\n{}", redis.log().tail(20)),
                    }
                }
                Err(e) => panic!("the tests need a redis-server on the path: {e}"),
            }
        }
        panic!("redis-server does not come up: {last}");
    }

    /// Where it listens; the same after a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has printed since it was last started.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.program.log()
    }

    /// Kills it at once: its clients see their connections end.
    pub fn kill(&mut self) {
        self.program.kill();
    }

    /// Starts it again on the same port, killing it first if it runs.
    ///
    /// # Panics
    /// When it does not come up.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        let limit = Limit::after(PATIENCE);
        loop {
            // The port may be held a moment longer, or be in use by a passing connection of somebody else.
            let up = launch(self.port, &self.settings, &self.scratch).and_then(|program| {
                self.program = program;
                self.wait_up()
            });
            match up {
                Ok(()) => return,
                Err(e) if limit.left().is_none() => {
                    panic!("redis-server does not restart: {e}\n{}", self.log().tail(20))
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Stops it from running without ending it: connections stay open and nothing answers.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn freeze(&mut self) {
        self.signal("STOP");
    }

    /// Lets it run again.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn thaw(&mut self) {
        self.signal("CONT");
    }

    #[track_caller]
    fn signal(&mut self, signal: &str) {
        if let Err(e) = self.program.signal(signal) {
            panic!("{e}");
        }
    }

    /// A new connection, logged in if there is a password.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn client(&self) -> io::Result<Client> {
        self.client_within(PATIENCE)
    }

    fn client_within(&self, allowed: Duration) -> io::Result<Client> {
        let mut client = Client::open(self.address(), allowed)?;
        if let Some(password) = &self.password {
            client.command(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(client)
    }

    /// Sends one command on a connection of its own.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn command(&self, words: &[&str]) -> io::Result<Reply> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.client()?.command(&words)
    }

    /// Publishes bytes; returns how many subscribers got them.
    ///
    /// # Errors
    /// As [`Redis::command`].
    pub fn publish(&self, channel: &str, payload: &[u8]) -> io::Result<i64> {
        match self.client()?.command(&[b"PUBLISH", channel.as_bytes(), payload])? {
            Reply::Number(count) => Ok(count),
            other => Err(io::Error::other(format!("PUBLISH answered {other:?}"))),
        }
    }

    /// Listens on a channel.
    ///
    /// # Errors
    /// As [`Redis::command`].
    pub fn subscribe(&self, channel: &str) -> io::Result<Subscription> {
        Subscription::start(self.client()?, channel)
    }

    /// How many subscribers a channel has.
    ///
    /// # Errors
    /// As [`Redis::command`].
    pub fn subscribers(&self, channel: &str) -> io::Result<i64> {
        match self.command(&["PUBSUB", "NUMSUB", channel])? {
            Reply::List(parts) => match parts.as_slice() {
                [_, Reply::Number(count)] => Ok(*count),
                _ => Err(io::Error::other(format!("PUBSUB NUMSUB answered {parts:?}"))),
            },
            other => Err(io::Error::other(format!("PUBSUB NUMSUB answered {other:?}"))),
        }
    }

    /// Waits until a channel has `count` subscribers.
    ///
    /// # Panics
    /// When it does not within `allowed`.
    #[track_caller]
    pub fn wait_subscribers(&self, channel: &str, count: i64, allowed: Duration) {
        wait::until(&format!("{count} subscribers of {channel}"), allowed, || {
            self.subscribers(channel).is_ok_and(|now| now == count)
        });
    }

    /// Cuts the connections of all subscribers, as a server does with slow ones. Returns how many.
    ///
    /// # Errors
    /// As [`Redis::command`].
    pub fn cut_subscribers(&self) -> io::Result<i64> {
        match self.command(&["CLIENT", "KILL", "TYPE", "pubsub"])? {
            Reply::Number(count) => Ok(count),
            other => Err(io::Error::other(format!("CLIENT KILL answered {other:?}"))),
        }
    }

    /// Waits for an answer to PING from the very process that was started: another program may hold the port.
    fn wait_up(&mut self) -> io::Result<()> {
        let limit = Limit::after(PATIENCE);
        loop {
            let left = limit.left_for("redis-server to answer")?;
            let asked = self.client_within(left).and_then(|mut client| client.command(&[b"INFO", b"server"]));
            if let Ok(Reply::Bytes(info)) = asked {
                let mine = format!("process_id:{}\r\n", self.program.id());
                return if String::from_utf8_lossy(&info).contains(&mine) {
                    Ok(())
                } else {
                    Err(io::Error::other(format!("port {} belongs to another redis-server", self.port)))
                };
            }
            if let Some(status) = self.program.status() {
                let _ = self.log().wait_end(Duration::from_secs(1));
                return Err(io::Error::other(format!("redis-server ended ({status})")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn launch(port: u16, settings: &[String], scratch: &Scratch) -> io::Result<Program> {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
    command.args(["--port", &port.to_string()]).arg("--dir").arg(scratch.path()).args(settings);
    Program::start(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    #[test]
    fn messages_pass_with_any_bytes_in_them() {
        let redis = Redis::start();
        let mut subscription = redis.subscribe("channel").unwrap();
        redis.wait_subscribers("channel", 1, PATIENCE);
        assert_eq!(redis.publish("channel", b"\x00\xff\r\n").unwrap(), 1);
        assert_eq!(redis.publish("channel", b"second").unwrap(), 1);
        assert_eq!(redis.publish("other", b"not for us").unwrap(), 0);
        assert_eq!(subscription.message(PATIENCE).unwrap(), b"\x00\xff\r\n");
        assert_eq!(subscription.find(PATIENCE, |m| m.starts_with(b"sec")).unwrap(), b"second");
        assert_eq!(subscription.message(SHORT).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn killed_and_restarted_it_is_on_the_same_port_and_has_lost_its_clients() {
        let mut redis = Redis::start();
        let address = redis.address();
        let mut subscription = redis.subscribe("channel").unwrap();
        redis.command(&["SET", "a", "1"]).unwrap();
        redis.kill();
        assert_ne!(subscription.message(PATIENCE).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(redis.client().is_err());
        redis.restart();
        assert_eq!(redis.address(), address);
        assert_eq!(redis.command(&["GET", "a"]).unwrap(), Reply::Nil);
        assert_eq!(redis.subscribers("channel").unwrap(), 0);
    }

    #[test]
    fn frozen_it_is_silent_and_thawed_it_answers_what_was_asked() {
        let mut redis = Redis::start();
        let mut subscription = redis.subscribe("channel").unwrap();
        redis.freeze();
        assert!(redis.client_within(SHORT).and_then(|mut c| c.command(&[b"PUBLISH", b"channel", b"late"])).is_err());
        assert_eq!(subscription.message(SHORT).unwrap_err().kind(), io::ErrorKind::TimedOut);
        redis.thaw();
        assert_eq!(subscription.message(PATIENCE).unwrap(), b"late");
    }

    #[test]
    fn a_frozen_one_is_killed_with_the_rest() {
        let mut redis = Redis::start();
        redis.freeze();
        let log = redis.log().clone();
        drop(redis);
        assert!(log.wait_end(PATIENCE));
    }

    #[test]
    fn subscribers_can_be_cut_off() {
        let redis = Redis::start();
        let mut subscription = redis.subscribe("channel").unwrap();
        assert_eq!(redis.cut_subscribers().unwrap(), 1);
        assert_ne!(subscription.message(PATIENCE).unwrap_err().kind(), io::ErrorKind::TimedOut);
        redis.wait_subscribers("channel", 0, PATIENCE);
    }

    #[test]
    fn a_password_is_asked_for_and_given() {
        let redis = Redis::start_with(&["--requirepass", "open-sesame"]);
        assert_eq!(redis.command(&["PING"]).unwrap(), Reply::Status("PONG".to_owned()));
        let refused = Client::open(redis.address(), PATIENCE).unwrap().command(&[b"PING"]).unwrap_err();
        assert!(refused.to_string().starts_with("NOAUTH"), "{refused}");
    }
}
