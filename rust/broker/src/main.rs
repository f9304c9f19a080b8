//! The embedded broker as a command-line program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use monedula_broker::server::Broker;
use monedula_broker::{BrokerError, Options};

/// The conventional exit code for wrong command-line arguments.
const WRONG_ARGUMENTS: u8 = 2;

/// A Kafka-compatible broker for trying things and for tests.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    /// The port of the first node; each further one has the next. 0 takes any free ports.
    #[arg(long, default_value_t = 9092)]
    port: u16,
    /// How many nodes to play.
    #[arg(long, default_value_t = 1)]
    nodes: u16,
    /// The id of the first node; each further one has the next.
    #[arg(long, default_value_t = 1)]
    first_node_id: i32,
    /// The rack of the next node, in order; empty for none. May be given several times.
    #[arg(long)]
    rack: Vec<String>,
    /// A topic to make, as name or name:partitions. May be given several times.
    #[arg(long)]
    topic: Vec<String>,
    /// Where topics, groups, users and rights are kept; in memory only without it.
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// A broker setting of Kafka's, as key=value. May be given several times.
    #[arg(long, value_parser = pair)]
    setting: Vec<(String, String)>,
    /// Where to take commands as JSON, on loopback; nowhere without it.
    #[arg(long)]
    control_port: Option<u16>,
    /// Log every request and answer.
    #[arg(long)]
    verbose: bool,
    /// Log their bytes too.
    #[arg(long)]
    trace: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a setting is written key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let level = match (arguments.trace, arguments.verbose) {
        (true, _) => "trace",
        (_, true) => "debug",
        _ => "warn",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("monedula-broker: {error}");
            match error {
                BrokerError::Setting { .. } | BrokerError::Command(_) => WRONG_ARGUMENTS.into(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: Arguments) -> Result<(), BrokerError> {
    let options = Options {
        nodes: arguments.nodes,
        first_node_id: arguments.first_node_id,
        racks: arguments.rack,
        host: arguments.host,
        port: arguments.port,
        data_dir: arguments.data_dir,
        topics: arguments.topic,
        settings: arguments.setting.into_iter().collect::<BTreeMap<_, _>>(),
        control_port: arguments.control_port,
        ..Options::default()
    };
    let ended = signals()?;
    let mut broker = Broker::start(options.settings()?, options.clock())?;
    let servers: Vec<String> = broker.addresses().iter().map(|(_, address)| address.to_string()).collect();
    println!("bootstrap.servers={}", servers.join(","));
    if let Some(address) = broker.control_address() {
        println!("control.address={address}");
    }
    // The timeout is arbitrary: only a signal ends the loop.
    while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(Duration::from_secs(3600)) {}
    broker.stop();
    Ok(())
}

/// Installs the handlers of SIGINT (Ctrl-C) and SIGTERM, before any port or file is opened. The receiver gets a message
/// at the first signal.
fn signals() -> Result<std::sync::mpsc::Receiver<()>, BrokerError> {
    let failed = |error: std::io::Error| BrokerError::Command(format!("signals cannot be listened to: {error}"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        use tokio::signal::unix::{SignalKind, signal};
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let listen = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        let _ = sender.send(());
    };
    std::thread::Builder::new().name("monedula-signals".to_owned()).spawn(listen).map_err(failed)?;
    Ok(receiver)
}
