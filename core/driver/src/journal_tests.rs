use super::*;

use appproxy_core::seed::Seed;
use appproxy_core::serving::ServingSettings;
use appproxy_core::time::{Moment, UnixMillis};
use appproxy_core::worker::Output;
use appproxy_core::worker::journal::Replay;

const SMALL: PartBounds =
    PartBounds { part_bytes: 300, older_parts: 2, behind: 1024 * 1024, pause: Duration::from_millis(1) };

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("appproxy-journal-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

struct Recorded {
    worker: Worker,
    journal: Journal,
    inputs: u64,
}

impl Recorded {
    fn new(file: PathBuf, bounds: PartBounds) -> Self {
        let text = "appproxy_router: {enabled: true, coordinator_url: \"http://127.0.0.1:1\", api_secret: s, \
                    authority: a, hostname: h, redis_url: \"redis://127.0.0.1:1\"}";
        let config = appproxy_core::config::load(text, &|_| None).unwrap().config.worker.unwrap();
        let (serving, seed, start) = (ServingSettings::default(), Seed::from_number(1), Now::default());
        let parts = Parts::of(bounds, "test".to_owned(), &config, &serving, seed, start);
        let journal = Journal::start(file.to_str().unwrap(), bounds, parts).unwrap();
        Self { worker: Worker::new(config, &serving, seed, start), journal, inputs: 0 }
    }

    fn input(&mut self, input: Input) -> Option<String> {
        self.inputs += 1;
        let now = Now { moment: Moment::from_millis(self.inputs), wall: UnixMillis(0) };
        let wrong = self.journal.record(&self.worker, &input, now);
        self.worker.handle_input(input, now);
        while !matches!(self.worker.poll_output(), Output::Wait(_)) {}
        wrong
    }
}

/// The numbers of the first and last input of a part.
fn replayed(file: &Path) -> (u64, u64) {
    let text = fs::read_to_string(file).unwrap();
    let mut lines = text.lines();
    let mut replay = Replay::begin(lines.next().unwrap()).unwrap();
    let first = replay.number() + 1;
    lines.for_each(|line| drop(replay.feed(line).unwrap()));
    (first, replay.number())
}

#[test]
fn parts_follow_each_other_and_each_can_be_replayed_by_itself() {
    let folder = Folder::new("parts");
    let file = folder.0.join("journal");
    fs::write(&file, "what an earlier process left\n").unwrap();
    let mut recorded = Recorded::new(file.clone(), SMALL);
    assert_eq!(recorded.input(Input::Started), None);
    recorded.journal.flush();
    assert_eq!(recorded.input(Input::BusUp), None);
    for _ in 0..100 {
        assert_eq!(recorded.input(Input::Tick), None);
    }
    drop(recorded);
    let parts = [folder.0.join("journal.2"), folder.0.join("journal.1"), file];
    let [older, old, newest] = parts.map(|part| replayed(&part));
    assert!(older.0 > 1, "the first part is gone: {older:?}");
    assert_eq!((older.1 + 1, old.1 + 1, newest.1), (old.0, newest.0, 102));
    assert!(!folder.0.join("journal.3").exists());
}

#[test]
fn what_an_earlier_process_left_becomes_an_older_part() {
    let folder = Folder::new("left");
    let file = folder.0.join("journal");
    fs::write(&file, "left\n").unwrap();
    drop(Recorded::new(file.clone(), PartBounds { part_bytes: usize::MAX, ..SMALL }).input(Input::Started));
    assert_eq!(fs::read_to_string(folder.0.join("journal.1")).unwrap(), "left\n");
    assert_eq!(replayed(&file), (1, 1));
}

#[test]
fn a_failure_is_said_and_a_new_part_is_begun_after_the_pause() {
    let folder = Folder::new("failure");
    let file = folder.0.join("absent/journal");
    let mut recorded = Recorded::new(file.clone(), SMALL);
    recorded.input(Input::Started);
    let wrong = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        recorded.input(Input::Tick)
    });
    assert!(wrong.unwrap().contains("absent/journal: "));
    fs::create_dir(folder.0.join("absent")).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    while recorded.inputs < 1100 && !file.exists() {
        std::thread::sleep(Duration::from_millis(5));
        recorded.input(Input::Tick);
    }
    let last = recorded.inputs;
    drop(recorded);
    let (first, end) = replayed(&file);
    assert!(first > 1 && end == last, "{first} {end} {last}");
}

#[test]
fn what_is_no_ordinary_file_is_not_renamed() {
    let folder = Folder::new("special");
    make_room(&folder.0, 2).unwrap();
    assert!(folder.0.is_dir());
}
