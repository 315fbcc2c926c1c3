use super::*;

use crate::time::UnixMillis;
use crate::worker::Output;
use crate::worker::journal::Replay;

const SMALL: PartBounds =
    PartBounds { part_bytes: 300, older_parts: 2, behind: 1024, pause: Duration::from_millis(10) };

struct Recorded {
    worker: Worker,
    parts: Parts,
    at: u64,
}

impl Recorded {
    fn new(bounds: PartBounds) -> Self {
        let text = "appproxy_router: {enabled: true, coordinator_url: \"http://127.0.0.1:1\", api_secret: s, \
                    authority: a, hostname: h, redis_url: \"redis://127.0.0.1:1\"}";
        let config = crate::config::load(text, &|_| None).unwrap().config.worker.unwrap();
        let (serving, seed, start) = (ServingSettings::default(), Seed::from_number(1), Now::default());
        let parts = Parts::of(bounds, "test".to_owned(), &config, &serving, seed, start);
        Self { worker: Worker::new(config, &serving, seed, start), parts, at: 0 }
    }

    fn input(&mut self, input: Input, behind: usize) -> Result<Vec<Order>, String> {
        self.at += 1;
        let now = Now { moment: Moment::from_millis(self.at), wall: UnixMillis(0) };
        let orders = self.parts.record(&self.worker, &input, now, behind);
        let orders = orders.map(|orders| orders.into_iter().collect());
        self.worker.handle_input(input, now);
        while !matches!(self.worker.poll_output(), Output::Wait(_)) {}
        orders
    }
}

#[test]
fn parts_follow_each_other_and_each_can_be_replayed_by_itself() {
    let mut recorded = Recorded::new(SMALL);
    let mut orders = recorded.input(Input::Started, 0).unwrap();
    for _ in 0..100 {
        orders.extend(recorded.input(Input::Tick, SMALL.behind).unwrap());
    }
    let mut last = 0;
    let mut parts = 0;
    for part in orders.chunk_by(|_, next| matches!(next, Order::Line(_))) {
        let [Order::Begin(head), lines @ ..] = part else { panic!("a part without a head: {part:?}") };
        let mut replay = Replay::begin(head).unwrap();
        assert_eq!(replay.number(), last);
        for line in lines {
            let Order::Line(line) = line else { panic!("two heads in one part") };
            drop(replay.feed(line).unwrap());
        }
        last = replay.number();
        parts += 1;
    }
    assert!(parts > 2 && last == 101, "{parts} parts up to {last}");
}

#[test]
fn after_a_failure_a_new_part_is_begun_when_the_pause_is_over() {
    let mut recorded = Recorded::new(SMALL);
    assert!(!recorded.parts.open());
    assert_eq!(recorded.input(Input::Started, 0).unwrap().len(), 2);
    assert!(recorded.parts.open());
    assert!(recorded.input(Input::Tick, SMALL.behind + 1).unwrap_err().contains("1025 bytes behind"));
    assert!(!recorded.parts.open());
    for _ in 3..12 {
        assert_eq!(recorded.input(Input::Tick, 0), Ok(vec![]));
    }
    let orders = recorded.input(Input::Tick, 0).unwrap();
    let [Order::Begin(head), Order::Line(_)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(Replay::begin(head).unwrap().number(), 11);
    recorded.parts.give_up(Moment::from_millis(recorded.at));
    assert!(!recorded.parts.open());
}

#[test]
fn a_part_is_full_when_its_lines_are_more_than_its_size() {
    let lines = |part_bytes: usize| {
        let mut recorded = Recorded::new(PartBounds { part_bytes, ..SMALL });
        let orders: Vec<Order> = [Input::Started, Input::Tick, Input::Tick, Input::Tick]
            .into_iter()
            .flat_map(|input| recorded.input(input, 0).unwrap())
            .collect();
        orders
    };
    let in_parts = |orders: &[Order]| -> Vec<usize> {
        let parts = orders.chunk_by(|_, next| matches!(next, Order::Line(_)));
        parts.map(|part| part.len() - 1).collect()
    };
    let whole = lines(usize::MAX);
    assert_eq!(in_parts(&whole), [4]);
    let two: usize = whole[1..=2].iter().map(Order::bytes).sum();
    assert_eq!(in_parts(&lines(two)), [3, 1], "two lines fill it to the last byte, the third is one too many");
    assert_eq!(in_parts(&lines(two - 1)), [2, 2]);
}

#[test]
fn room_is_made_from_the_oldest_part_on() {
    let renamed = |older_parts| -> Vec<String> {
        let renamed = make_room(Path::new("d/j"), older_parts);
        renamed.map(|(from, to)| format!("{} {}", from.display(), to.display())).collect()
    };
    assert_eq!(renamed(2), ["d/j.1 d/j.2", "d/j d/j.1"]);
    assert!(renamed(0).is_empty());
}
