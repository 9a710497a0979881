//! A worker without plugin and engine that does what a test tells it to: the supervisor's tests need ends that no honest plugin reaches.
//!
//! It speaks the protocol through the same code as the real worker. Two scripts steer it: the environment variable `SCRIPT_LOAD` says what
//! happens instead of a load, the text of a prompt says what happens instead of an answer. With `SCRIPT_ONCE=FILE` the load misbehaves only
//! while FILE does not exist, and makes it.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onebit_engine::{EngineError, Event, FinishReason, Finished, GenerateRequest, ModelFacts, Prompt, Timings, TokenOut, Usage};
use onebit_worker::protocol::{Decoder, FromWorker, Hello, LoadFailure, LoadOrder, LoadStage, Stats, ToWorker, encode};
use rustix::process::{Signal, getpid, kill_process};

/// This worker made the marker of `SCRIPT_ONCE`.
static FIRST: AtomicBool = AtomicBool::new(false);

type Writer = Arc<Mutex<UnixStream>>;

fn main() {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket on descriptor 0"));
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null").expect("/dev/null")).expect("dup2");
    let writer: Writer = Arc::new(Mutex::new(socket.try_clone().expect("a second handle")));
    let mut host = Host { socket, decoder: Decoder::new() };

    let mut script = std::env::var("SCRIPT_LOAD").unwrap_or_default();
    if let Ok(once) = std::env::var("SCRIPT_ONCE") {
        if std::fs::exists(&once).unwrap_or(false) {
            script = String::new();
        } else {
            FIRST.store(true, Ordering::Relaxed);
            std::fs::write(&once, "").expect("the marker can be written");
        }
    }
    let script: Vec<&str> = script.split(' ').collect();
    match script[0] {
        "silent" => hang(),
        "another-build" => {
            say_raw(&writer, &encode(&Hello { protocol: 999, build: "9.9.9".into(), ..Hello::ours() }).expect("fits"));
            hang();
        }
        "not-a-worker" => {
            eprintln!("error: unrecognised subcommand 'worker'");
            std::process::exit(2);
        }
        _ => {}
    }
    say_raw(&writer, &encode(&Hello::ours()).expect("fits"));
    let _: Hello = host.next();
    let ToWorker::Load { order, .. } = host.next() else { panic!("no order") };
    load(&script, &order, &writer);

    let running = Arc::new(Mutex::new(HashMap::<u64, Arc<AtomicBool>>::new()));
    loop {
        match host.next() {
            ToWorker::Generate { id, request, .. } => {
                let cancelled = Arc::new(AtomicBool::new(false));
                running.lock().expect("lock").insert(id, cancelled.clone());
                let writer = writer.clone();
                thread::spawn(move || generate(id, &request, &cancelled, &writer));
            }
            ToWorker::Cancel { id } => {
                if let Some(cancelled) = running.lock().expect("lock").get(&id) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
            ToWorker::Encode { id, prompt, .. } => say(&writer, FromWorker::Encoded { id, result: Ok(vec![text(&prompt).len() as u32]) }),
            ToWorker::Decode { id, .. } => say(&writer, FromWorker::Decoded { id, result: Ok(b"text".to_vec()) }),
            ToWorker::Embed { id, .. } => {
                say(&writer, FromWorker::Embedded { id, result: Err(EngineError::Unsupported("a script does not embed".into())) });
            }
            ToWorker::Rerank { id, .. } => {
                say(&writer, FromWorker::Ranked { id, result: Err(EngineError::Unsupported("a script does not rank".into())) });
            }
            ToWorker::Shutdown if script[0] == "stubborn" => eprintln!("I stay"),
            ToWorker::Shutdown => return,
            ToWorker::Load { .. } => panic!("a second order"),
        }
    }
}

fn load(script: &[&str], order: &LoadOrder, writer: &Writer) {
    let number = |at: usize| script.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    say(writer, FromWorker::LoadProgress { fraction: 0.25 });
    match script[0] {
        "slow" => {
            for step in 0..10 {
                thread::sleep(Duration::from_millis(number(1) / 10));
                say(writer, FromWorker::LoadProgress { fraction: step as f32 / 10.0 });
            }
        }
        "crash" => {
            eprintln!("the weights look strange");
            die(Signal::SEGV);
        }
        "exit" => std::process::exit(i32::try_from(number(1)).expect("a status")),
        "hang" => hang(),
        "refuse" => {
            say(
                writer,
                FromWorker::LoadFailed(LoadFailure {
                    stage: LoadStage::Model,
                    status: "corrupt_model".into(),
                    message: "the file ends after 48 bytes".into(),
                    have: 48,
                    need: 1000,
                    want: 0,
                    free: 0,
                    retry_ms: 0,
                }),
            );
            std::process::exit(0);
        }
        "garbage" => {
            say_raw(writer, &[0xff; 64]);
            hang();
        }
        _ => {}
    }
    let rss_bytes = std::env::var("SCRIPT_RSS").ok().and_then(|text| text.parse().ok()).unwrap_or(1 << 20);
    let stats = Stats { rss_bytes, ..Stats::default() };
    say(writer, FromWorker::Ready { facts: Box::new(facts(order)), stats, confinement: None });
    let writer = writer.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_millis(100));
            say(&writer, FromWorker::Stats(stats));
        }
    });
}

/// `say N MS`, `kill SIGNAL AFTER`, `exit STATUS`, `hang`, `garbage`, `length`, `close`, `noise`, `helper`, `wait`, `wait-once N`; anything else
/// is one token.
fn generate(id: u64, request: &GenerateRequest, cancelled: &AtomicBool, writer: &Writer) {
    let prompt = text(&request.prompt);
    let words: Vec<&str> = prompt.split(' ').collect();
    let number = |at: usize| words.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let event = |event| say(writer, FromWorker::Event { id, event });
    let token = |n: u64| Event::Delta { text: format!("{n} "), tokens: vec![TokenOut { id: n as u32, logprob: None }] };
    match words[0] {
        // For ever in the queue.
        "wait" => hang(),
        // For ever in the queue of the first worker, at once in that of the second.
        "wait-once" if FIRST.load(Ordering::Relaxed) => hang(),
        _ => {}
    }
    event(Event::Started { prompt_tokens: 1, cached_tokens: 0 });
    let tokens = match words[0] {
        "kill" => {
            (0..number(2)).for_each(|n| event(token(n)));
            eprintln!("about to receive signal {}", number(1));
            let signal = Signal::from_named_raw(i32::try_from(number(1)).expect("a number")).expect("a signal");
            die(signal)
        }
        "exit" => std::process::exit(i32::try_from(number(1)).expect("a status")),
        "hang" => hang(),
        "garbage" => {
            say_raw(writer, &[7; 100]);
            hang()
        }
        "length" => {
            say_raw(writer, &u32::MAX.to_le_bytes());
            hang()
        }
        "close" => {
            STAYS.store(true, Ordering::Relaxed);
            writer.lock().expect("lock").shutdown(std::net::Shutdown::Both).expect("a socket");
            hang()
        }
        "helper" => {
            #[allow(clippy::zombie_processes, reason = "leaving it behind is the misdeed that is asked for")]
            let helper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
            event(token(helper.id().into()));
            hang()
        }
        "noise" => {
            println!("a line on stdout that is no protocol");
            1
        }
        "say" | "wait-once" => number(1),
        _ => 1,
    };
    for n in 0..tokens {
        if cancelled.load(Ordering::Relaxed) {
            return event(Event::Failed(EngineError::Cancelled));
        }
        thread::sleep(Duration::from_millis(if words[0] == "say" { number(2) } else { 0 }));
        event(token(n));
    }
    event(Event::Finished(Finished {
        reason: FinishReason::Length,
        usage: Usage { prompt_tokens: 1, cached_tokens: 0, completion_tokens: tokens as u32 },
        timings: Timings::default(),
    }));
}

fn facts(order: &LoadOrder) -> ModelFacts {
    ModelFacts {
        plugin: order.plugin_id.clone(),
        plugin_version: order.plugin_version.clone(),
        device: order.device.id.clone(),
        computes_on: "a script".into(),
        architecture: "script".into(),
        quantisation: "none".into(),
        context: order.context.unwrap_or(1000),
        context_trained: 1000,
        slots: order.slots,
        vocabulary: 1000,
        chat_template: order.chat_template.clone(),
        bos: None,
        eos: None,
        control_tokens: Vec::new(),
        embedding: None,
        ranks: false,
        state_bytes: 0,
    }
}

fn text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Parts(parts) => parts.iter().map(|part| part.text.as_str()).collect(),
        Prompt::Tokens(tokens) => format!("{tokens:?}"),
    }
}

fn say(writer: &Writer, message: FromWorker) {
    say_raw(writer, &encode(&message).expect("fits"));
}

fn say_raw(writer: &Writer, bytes: &[u8]) {
    // The host may be gone; then this process goes too.
    if writer.lock().expect("lock").write_all(bytes).is_err() {
        leave();
    }
}

/// The script says that this process stays although its socket is closed.
static STAYS: AtomicBool = AtomicBool::new(false);

fn leave() -> ! {
    if STAYS.load(Ordering::Relaxed) {
        hang();
    }
    std::process::exit(1)
}

/// Rust's own handler takes the first SIGSEGV that no fault caused, and lets the second one through.
fn die(signal: Signal) -> ! {
    loop {
        kill_process(getpid(), signal).expect("a signal");
        thread::sleep(Duration::from_millis(1));
    }
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

struct Host {
    socket: UnixStream,
    decoder: Decoder,
}

impl Host {
    fn next<M: serde::de::DeserializeOwned>(&mut self) -> M {
        let mut bytes = [0; 4096];
        loop {
            if let Some(message) = self.decoder.take().expect("a frame") {
                return message;
            }
            match self.socket.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(n) if n > 0 => self.decoder.space().extend_from_slice(&bytes[..n]),
                _ => leave(),
            }
        }
    }
}
