use super::*;

#[test]
fn an_event_has_three_words() {
    assert!(size_of::<Event>() <= 24, "{}", size_of::<Event>());
}

/// Any valid stream comes back, also if blocks are left early and accesses of a block differ from time to time.
#[test]
fn streams_come_back() {
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut events = Vec::new();
    for _ in 0..60_000 {
        let code = next(40);
        let instructions = 1 + code as u32 * 3;
        events.push(Event::Block {
            address: 0x1000 + code * 100,
            bytes: code as u32,
            instructions,
        });
        let mut rest = instructions;
        while rest > 0 {
            match next(12) {
                0 => {
                    let count = 1 + next(rest.into()) as u32;
                    events.push(Event::Instructions(count));
                    rest -= count;
                }
                1 => break,
                2 => events.push(Event::Sync(Sync::Lock(next(5) as u32))),
                3 => events.push(Event::Sync(Sync::Mark {
                    kind: 7,
                    a: u64::MAX,
                    b: next(9),
                })),
                4 => events.push(Event::Sync(Sync::Iteration {
                    first: next(1 << 30),
                    count: 3,
                })),
                n => {
                    let after = next(u64::from(rest.min(4)) + 1) as u32;
                    rest -= after;
                    let address = if n == 5 { u64::MAX - 7 } else { next(1 << 30) };
                    events.push(Event::Access {
                        after,
                        address,
                        bytes: 1 << next(4),
                        store: next(2) == 0,
                    });
                }
            }
        }
    }
    // Objects are numbered by first use.
    let mut seen = Vec::new();
    for event in &mut events {
        if let Event::Sync(Sync::Lock(object)) = event {
            let place = seen.iter().position(|known| known == object);
            let place = place.unwrap_or_else(|| {
                seen.push(*object);
                seen.len() - 1
            });
            *object = place as u32;
        }
    }
    let mut writer = ThreadWriter::new(Vec::new(), "random", InstructionSet::Mips).unwrap();
    writer.thread(None, None).unwrap();
    for &event in &events {
        writer.event(event).unwrap();
    }
    let trace = ThreadTrace::from_bytes(writer.finish().unwrap(), "random").unwrap();
    assert!(
        trace.shared_blocks() > 2,
        "the test must cross the ends of blocks"
    );
    assert_eq!(all(&trace, 0), events);
    let mut text = Vec::new();
    trace.write_text(&mut text).unwrap();
    let again = ThreadTrace::parse(&text, "text").unwrap();
    assert_eq!(again.head(), trace.head());
    assert_eq!(all(&again, 0), events);
}

fn all(trace: &ThreadTrace, thread: u32) -> Vec<Event> {
    let mut reader = trace.reader(thread).unwrap();
    let (mut all, mut events) = (Vec::new(), Vec::new());
    loop {
        reader.fill(&mut events).unwrap();
        if events.is_empty() {
            return all;
        }
        all.extend_from_slice(&events);
    }
}

#[test]
fn a_reader_can_be_sent() {
    fn is_send<T: Send>() {}
    is_send::<ThreadReader>();
}
