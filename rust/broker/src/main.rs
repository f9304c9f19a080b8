//! The embedded broker as a program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use monedula_broker::server::{Broker, Clock};
use monedula_broker::settings::Settings;

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
    /// Where topics, offsets and groups are kept; in memory only without it.
    #[arg(long)]
    data_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let arguments = Arguments::parse();
    let settings =
        Settings { port: arguments.port, nodes: arguments.nodes, data_dir: arguments.data_dir, ..Settings::default() };
    match Broker::start(settings, Clock::system()) {
        Ok(_broker) => loop {
            std::thread::park();
        },
        Err(error) => {
            eprintln!("monedula-broker: {error}");
            ExitCode::FAILURE
        }
    }
}
