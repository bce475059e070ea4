//! The server: FUSE session, worker and control channel of one device.
//!
//! The control channel carries one JSON object a line. `mark` begins a window, `read` gives the
//! account since then, `reset` puts the device into its first state (with `queue_depth` commands,
//! if that is in the line), `bypass` answers everything at once while it is `on`, `lead` sends
//! replies so many `ns` early, and so many more for what is copied (`read_per_mib_ns`,
//! `write_per_mib_ns`), `watch` names the file with the block device's requests in flight.
//! The end of the channel is a bypass: the owner is gone, and the clean-up should not wait for a
//! slow disk. The end of the FUSE connection ends the server.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config, Session, SessionACL};
use serde::{Deserialize, Serialize};

use crate::account::Report;
use crate::clock::{Clock, Scale};
use crate::data::Store;
use crate::file::{FromArrival, FuseReply, OneFile, Seen, Shared};
use crate::inbox::Inbox;
use crate::serve::{Arrival, Lead, Worker};
use crate::{DeviceConfig, EmulateError, Model};

/// How often requests in flight are sampled within a window, and the channel is read.
const SAMPLE: Duration = Duration::from_millis(3);
const LOOK: Duration = Duration::from_millis(100);
/// How long a device without an owner waits to be removed.
const ORPHAN_PATIENCE_NS: u64 = 60_000_000_000;
/// The worker wakes too late from sleep by what 19 of 20 sleeps stay below, and sleeps so much
/// shorter; the rest it spins, at most this long.
const SPIN_MAX_NS: u64 = 200_000;
const SPIN_STEP_NS: u64 = 4_000;

/// How a device is served.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerConfig {
    /// The model.
    pub device: DeviceConfig,
    /// `memory`, `none` or a path.
    pub data: String,
    /// Whether room for all data is taken at the start.
    #[serde(default)]
    pub preallocate: bool,
    /// Time dilation.
    #[serde(default = "one")]
    pub dilate: f64,
    /// The last part of each wait is spent spinning; nothing is as long as this host needs.
    #[serde(default)]
    pub spin_us: Option<u64>,
    /// Threads that take requests from the kernel.
    #[serde(default = "one_reader")]
    pub readers: usize,
}

fn one() -> f64 {
    1.0
}

fn one_reader() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    Mark,
    Read,
    Reset { queue_depth: Option<u32> },
    Bypass { on: bool },
    Lead(Lead),
    Watch { inflight: PathBuf },
}

enum Message {
    Request(Arrival<FuseReply>),
    Mark(Sender<()>),
    Read(Sender<Report>),
    Reset(Option<u32>, Sender<Result<(), String>>),
    Bypass(bool),
    Lead(Lead),
    Quit,
}

impl FromArrival for Message {
    fn from_arrival(arrival: Arrival<FuseReply>) -> Self {
        Message::Request(arrival)
    }
}

/// Samples of requests in flight at the block device, beside those that have their stamp.
#[derive(Default)]
struct Hidden {
    /// Open: of the one CPU of a machine in virtual time, to open it each time takes a share that
    /// requests of a millisecond feel.
    file: Option<File>,
    samples: u64,
    in_flight: u64,
    /// Requests in flight without a stamp: sum and sum of squares over the samples. A
    /// sample is negative when a request came in between the two readings.
    hidden: i64,
    hidden_squares: i64,
}

impl Hidden {
    fn clear(&mut self) {
        (self.samples, self.in_flight) = (0, 0);
        (self.hidden, self.hidden_squares) = (0, 0);
    }

    /// Mean of the samples and its standard error. The error is never below half of what so few
    /// samples may miss altogether (3/n, with 95 % confidence): a short run shows little.
    fn mean(&self) -> (f64, f64) {
        let samples = self.samples.max(1) as f64;
        let mean = self.hidden as f64 / samples;
        let variance = self.hidden_squares as f64 / samples - mean * mean;
        let unseen = 1.5 / samples;
        (mean, (variance.max(0.0) / samples).sqrt().max(unseen))
    }

    fn sample(&mut self, hidden_of: impl Fn(u64) -> i64) {
        let mut text = [0; 64];
        let length = self.file.as_ref().map(|file| file.read_at(&mut text, 0));
        let Some(Ok(length)) = length else {
            return;
        };
        let numbers = text[..length].split(u8::is_ascii_whitespace);
        let numbers = numbers.filter_map(|n| std::str::from_utf8(n).ok()?.parse::<u64>().ok());
        let in_flight: u64 = numbers.sum();
        self.samples += 1;
        self.in_flight += in_flight;
        let hidden = hidden_of(in_flight);
        self.hidden += hidden;
        self.hidden_squares += hidden * hidden;
    }
}

#[derive(Serialize)]
struct FullReport {
    #[serde(flatten)]
    account: Report,
    /// Requests that the store refused since the server was started.
    errors: u64,
    /// Requests in flight at the block device, mean of the samples.
    in_flight_mean: f64,
    /// Those of them that the model did not know of, mean and its standard error.
    hidden_mean: f64,
    /// See `hidden_mean`.
    hidden_error: f64,
    samples: u64,
}

/// Serves a device on `fuse`, a mounted `/dev/fuse` descriptor, until the connection ends or the
/// channel has had no owner for a minute.
pub fn serve_device(
    config: &ServerConfig,
    fuse: OwnedFd,
    control: OwnedFd,
) -> Result<(), EmulateError> {
    let model = Model::new(&config.device)?;
    let facts = model.facts().clone();
    let store = Store::open(&config.data, facts.size_bytes, config.preallocate)?;
    let shared = Arc::new(Shared {
        inbox: Inbox::default(),
        clock: Clock::start(),
        errors: AtomicU64::new(0),
        seen: Seen::default(),
    });
    let spin = Spin::new(config.spin_us);
    let worker = thread::Builder::new().name("worker".into()).spawn({
        let shared = shared.clone();
        let scale = Scale::new(config.dilate);
        let config = config.device.clone();
        move || work(&config, scale, spin, &shared)
    });
    let worker = worker.map_err(EmulateError::system("a thread"))?;
    let file = OneFile::new(store, facts.size_bytes, shared.clone());
    let session = open_session(file, fuse, config.readers)?;
    let stream = UnixStream::from(control);
    let mut server = Server {
        shared,
        stream,
        input: Vec::new(),
        hidden: Hidden::default(),
        is_window: false,
        orphan_since_ns: None,
    };
    server.answer(&serde_json::json!({ "ready": true, "facts": facts }));
    server.run(|| !session.guard.is_finished() && !worker.is_finished());
    server.shared.inbox.put(Message::Quit);
    match worker.join() {
        Ok(result) => result.map_err(EmulateError::from),
        Err(_) => Err(EmulateError::system("the worker")(ErrorKind::Other.into())),
    }
}

fn open_session(
    file: OneFile<Message>,
    fuse: OwnedFd,
    readers: usize,
) -> Result<BackgroundSession, EmulateError> {
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.n_threads = Some(readers.max(1));
    config.clone_fd = readers > 1;
    Session::from_fd(file, fuse, SessionACL::All, config)
        .and_then(Session::spawn)
        .map_err(EmulateError::system("the FUSE session"))
}

/// The worker's thread.
fn work(
    config: &DeviceConfig,
    scale: Scale,
    mut spin: Spin,
    shared: &Shared<Message>,
) -> Result<(), schedlab_sim::SimError> {
    let clock = || shared.clock.now_ns();
    let model = Model::new(config)?;
    let mut worker = Worker::new(model, scale, clock())?;
    let (mut messages, mut arrivals) = (Vec::new(), Vec::new());
    loop {
        shared.inbox.take(&mut messages);
        let mut commands = Vec::new();
        for message in messages.drain(..) {
            match message {
                Message::Request(arrival) => arrivals.push(arrival),
                command => commands.push(command),
            }
        }
        let next_ns = worker.step(clock(), &mut arrivals, &clock);
        for command in commands {
            match command {
                Message::Mark(reply) => {
                    worker.mark(clock());
                    let _ = reply.send(());
                }
                Message::Read(report) => drop(report.send(worker.report(clock()))),
                Message::Reset(depth, reply) => {
                    let model = depth.map(|depth| with_depth(config, depth)).transpose();
                    let model = model.map_err(|error| error.to_string());
                    drop(reply.send(model.and_then(|model| worker.reset(clock(), model))));
                }
                Message::Bypass(on) => worker.bypass(on),
                Message::Lead(lead) => worker.lead(lead),
                Message::Quit => return Ok(()),
                Message::Request(_) => {}
            }
        }
        spin.rest(next_ns, shared);
    }
}

fn with_depth(config: &DeviceConfig, depth: u32) -> Result<Model, schedlab_sim::SimError> {
    Model::new(&DeviceConfig {
        queue_depth: Some(depth),
        ..config.clone()
    })
}

/// How the worker waits: asleep, and awake for the last part of each wait.
struct Spin {
    /// How long awake.
    spin_ns: u64,
    is_fixed: bool,
}

impl Spin {
    fn new(fixed_us: Option<u64>) -> Self {
        Spin {
            spin_ns: fixed_us.map_or(0, |us| us * 1000),
            is_fixed: fixed_us.is_some(),
        }
    }

    /// Waits for a message or until `next_ns`.
    fn rest(&mut self, next_ns: Option<u64>, shared: &Shared<Message>) {
        let Some(next_ns) = next_ns else {
            return shared.inbox.wait(None);
        };
        let now_ns = shared.clock.now_ns();
        let wake_ns = next_ns.saturating_sub(self.spin_ns);
        if wake_ns > now_ns {
            shared
                .inbox
                .wait(Some(Duration::from_nanos(wake_ns - now_ns)));
            let woken_ns = shared.clock.now_ns();
            if woken_ns >= wake_ns && !self.is_fixed {
                self.learn(woken_ns - wake_ns);
            }
        }
        while shared.clock.now_ns() < next_ns && !shared.inbox.is_filled() {
            std::hint::spin_loop();
        }
    }

    /// Follows the 95th percentile of how much too late the worker was woken.
    fn learn(&mut self, too_late_ns: u64) {
        self.spin_ns = match too_late_ns > self.spin_ns {
            true => (self.spin_ns + SPIN_STEP_NS).min(SPIN_MAX_NS),
            false => self.spin_ns.saturating_sub(SPIN_STEP_NS / 19),
        };
    }
}

struct Server {
    shared: Arc<Shared<Message>>,
    stream: UnixStream,
    input: Vec<u8>,
    hidden: Hidden,
    is_window: bool,
    orphan_since_ns: Option<u64>,
}

impl Server {
    /// Until a part that it needs has ended: without a worker requests wait for ever.
    fn run(&mut self, is_alive: impl Fn() -> bool) {
        while is_alive() {
            let now_ns = self.shared.clock.now_ns();
            if let Some(since_ns) = self.orphan_since_ns {
                if now_ns > since_ns + ORPHAN_PATIENCE_NS {
                    return;
                }
                thread::sleep(LOOK);
                continue;
            }
            match self.next_line() {
                Some(line) => self.obey(&line),
                None if self.is_window => self.hidden.sample(|all| self.shared.seen.hidden_of(all)),
                None => {}
            }
        }
    }

    /// A line of the channel, or nothing within the time of a sample.
    fn next_line(&mut self) -> Option<String> {
        let patience = if self.is_window { SAMPLE } else { LOOK };
        let _ = self.stream.set_read_timeout(Some(patience));
        let mut part = [0; 4096];
        let end = self.input.iter().position(|byte| *byte == b'\n');
        if let Some(end) = end {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            return String::from_utf8(line).ok();
        }
        match self.stream.read(&mut part) {
            Ok(0) => self.orphaned(),
            Ok(count) => self.input.extend(&part[..count]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => self.orphaned(),
            },
        }
        None
    }

    fn orphaned(&mut self) {
        self.orphan_since_ns = Some(self.shared.clock.now_ns());
        self.shared.inbox.put(Message::Bypass(true));
    }

    /// Executes a command line.
    fn obey(&mut self, line: &str) {
        let command: Command = match serde_json::from_str(line) {
            Ok(command) => command,
            Err(error) => {
                return self.answer(&serde_json::json!({ "error": error.to_string() }));
            }
        };
        match command {
            Command::Mark => {
                self.hidden.clear();
                self.is_window = self.hidden.file.is_some();
                self.ask(Message::Mark);
                self.answer(&serde_json::json!({}));
            }
            Command::Read => {
                self.is_window = false;
                if let Some(account) = self.ask(Message::Read) {
                    let report = self.full(account);
                    self.answer(&report);
                }
            }
            Command::Reset { queue_depth } => {
                match self.ask(|reply| Message::Reset(queue_depth, reply)) {
                    Some(Err(error)) => self.answer(&serde_json::json!({ "error": error })),
                    _ => self.answer(&serde_json::json!({})),
                }
            }
            Command::Bypass { on } => {
                self.shared.inbox.put(Message::Bypass(on));
                self.answer(&serde_json::json!({}));
            }
            Command::Lead(lead) => {
                self.shared.inbox.put(Message::Lead(lead));
                self.answer(&serde_json::json!({}));
            }
            Command::Watch { inflight } => {
                self.hidden.file = File::open(inflight).ok();
                self.answer(&serde_json::json!({}));
            }
        }
    }

    fn full(&self, account: Report) -> FullReport {
        let hidden = &self.hidden;
        let (hidden_mean, hidden_error) = hidden.mean();
        FullReport {
            account,
            errors: self.shared.errors.load(Ordering::Relaxed),
            in_flight_mean: hidden.in_flight as f64 / hidden.samples.max(1) as f64,
            hidden_mean,
            hidden_error,
            samples: hidden.samples,
        }
    }

    /// Asks the worker; nothing if it has ended.
    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (sender, receiver) = channel();
        self.shared.inbox.put(message(sender));
        receiver.recv().ok()
    }

    fn answer<T: Serialize>(&mut self, what: &T) {
        if let Ok(mut line) = serde_json::to_vec(what) {
            line.push(b'\n');
            let _ = self.stream.write_all(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_the_model_is_averaged_with_what_so_few_samples_may_miss() {
        let path = std::env::temp_dir().join(format!("schedlab-in-flight-{}", std::process::id()));
        std::fs::write(&path, "       3        4\n").unwrap();
        let mut hidden = Hidden {
            file: File::open(&path).ok(),
            ..Hidden::default()
        };
        hidden.sample(|all| all as i64 - 2);
        hidden.sample(|all| all as i64 - 2);
        assert_eq!(hidden.in_flight, 14);
        assert_eq!(hidden.mean(), (5.0, 0.75)); // equal samples: 1.5 of 2
        hidden.sample(|all| all as i64 - 11);
        hidden.sample(|all| all as i64 - 11);
        std::fs::remove_file(&path).unwrap();
        // 5, 5, -4, -4: variance 4.5²
        assert_eq!(hidden.mean(), (0.5, 4.5 / 2.0));
        hidden.file = None;
        hidden.sample(|all| all as i64 - 2);
        assert_eq!(hidden.samples, 4);
        hidden.clear();
        assert_eq!(hidden.mean(), (0.0, 1.5));
    }

    #[test]
    fn a_reset_may_change_how_many_commands_the_device_holds() {
        let disk = DeviceConfig::of("disk7200");
        let depth = |depth| with_depth(&disk, depth).unwrap().facts().queue_depth;
        assert_eq!([32, 4].map(depth), [32, 4]);
    }

    #[test]
    fn the_worker_learns_what_19_of_20_sleeps_stay_below() {
        let mut spin = Spin::new(None);
        for k in 0..20_000 {
            spin.learn(k * 37 % 100 * 1000); // each of 0 to 99 µs as often
        }
        assert!((90_000..98_000).contains(&spin.spin_ns), "{}", spin.spin_ns);
        for _ in 0..1000 {
            spin.learn(10_000_000);
        }
        assert_eq!(spin.spin_ns, SPIN_MAX_NS);
        let (mut fixed, shared) = (Spin::new(Some(7)), shared());
        fixed.rest(Some(1_000_000), &shared);
        assert_eq!(fixed.spin_ns, 7000);
    }

    fn shared() -> Arc<Shared<Message>> {
        Arc::new(Shared {
            inbox: Inbox::default(),
            clock: Clock::start(),
            errors: AtomicU64::new(0),
            seen: Seen::default(),
        })
    }

    #[test]
    fn commands_reach_the_worker_and_the_end_of_the_channel_is_a_bypass() {
        let (stream, owner) = UnixStream::pair().unwrap();
        let mut server = Server {
            shared: shared(),
            stream,
            input: Vec::new(),
            hidden: Hidden {
                samples: 5,
                ..Hidden::default()
            },
            is_window: false,
            orphan_since_ns: None,
        };
        let shared = server.shared.clone();
        let worker = thread::spawn(move || {
            let (mut messages, mut heard) = (Vec::new(), Vec::new());
            loop {
                shared.inbox.wait(None);
                shared.inbox.take(&mut messages);
                for message in messages.drain(..) {
                    match message {
                        Message::Mark(reply) => reply.send(()).unwrap(),
                        Message::Read(reply) => {
                            let report = crate::Account::new(0, 0).report(1);
                            reply.send(report).unwrap();
                        }
                        Message::Bypass(on) => heard.push(u64::from(on)),
                        Message::Lead(lead) => heard.push(lead.ns),
                        _ => return heard,
                    }
                }
            }
        });
        for line in [
            r#"{"command": "watch", "inflight": "/dev/null"}"#,
            r#"{"command": "lead", "ns": 7, "read_per_mib_ns": 0, "write_per_mib_ns": 0}"#,
            r#"{"command": "bypass", "on": false}"#,
            r#"{"command": "mark"}"#,
        ] {
            server.obey(line);
        }
        assert!(server.is_window && server.hidden.samples == 0);
        server.obey(r#"{"command": "read"}"#);
        assert!(!server.is_window);
        drop(owner);
        assert!(server.next_line().is_none() && server.orphan_since_ns.is_some());
        server.shared.inbox.put(Message::Quit);
        assert_eq!(worker.join().unwrap(), [7, 0, 1]);
    }
}
